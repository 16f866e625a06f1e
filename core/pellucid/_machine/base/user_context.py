"""Users' values that traced functions may read; programs are cached separately for each value."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from pellucid._machine.xla import flags

from .blocks import block
from .errors import ArgumentTypeError


class UserContext:
    """A value that is part of the cache key of every traced and compiled program.

    `context.value` is the current value in this thread; `with context(value):` changes it until the block ends.
    """

    def __init__(self, default_value: Hashable = None) -> None:
        value = _hashable(default_value)
        self._state = flags.flag("user_context", value, in_call_key=True, in_trace_key=True)

    @property
    def value(self) -> Any:
        """The current value in this thread."""
        return self._state.value

    @block
    def __call__(self, value: Hashable) -> Iterator[None]:
        """Set the value in this thread until the block ends."""
        with flags.overridden(self._state, _hashable(value)):
            yield


def _hashable(value: Hashable) -> Hashable:
    try:
        hash(value)
    except TypeError:
        raise ArgumentTypeError(
            "the value of a user context is part of a key, so it must be hashable.",
            got=f"got {type(value).__name__}",
            do="Use a number, a string, a tuple or a frozen dataclass.",
        ) from None
    return value


def make_user_context(default_value: Hashable = None) -> UserContext:
    """A value, initially `default_value`, that functions may read while they are traced.

    A jitted function is traced separately for each value under which it is called. Create contexts at module level.

    Raises: ArgumentTypeError for an unhashable value.

    >>> from pellucid import jit
    >>> scale = make_user_context(1)
    >>> double = jit(lambda x: x * scale.value)
    >>> int(double(5))
    5
    >>> with scale(2):
    ...     int(double(5))
    10
    """
    return UserContext(default_value)
