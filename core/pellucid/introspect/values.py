"""Short descriptions of values, computed without reading their elements."""

from __future__ import annotations

import itertools
import secrets
import weakref
from typing import Any

from pellucid._machine.base import ArgumentValueError, bytes_text
from pellucid._machine.base.narrowing import is_dict, is_list_or_tuple
from pellucid._machine.tracing import Tracer, type_of
from pellucid._machine.xla.arrays import ARRAY_TYPES
from pellucid._machine.xla.pytree import flatten

MAX_LEAVES = 10_000
"""Maximum number of elements and leaves of a container in which arrays are counted."""


def short_text(x: Any) -> str | None:
    """Type and placement of an array, or a summary of a tree of arrays; None for anything else.

    It copies nothing from a device and waits for nothing.

    >>> short_text(jnp.ones((8, 128)))
    'f32[8,128]'
    >>> short_text({"w": jnp.ones((2, 3)), "b": jnp.ones(3)})
    'dict of 2 arrays, 36 B'
    """
    if type(x) in ARRAY_TYPES:
        if x.is_deleted():
            return f"{x.aval.text()}, deleted"
        spec = getattr(x.sharding, "spec", None)
        count = x.sharding.num_devices
        placed = f" as {spec} on {count} devices" if spec is not None and count > 1 else ""
        return x.aval.text() + placed
    if isinstance(x, Tracer):
        return x.aval.text()
    if not (is_dict(x) or is_list_or_tuple(x)) or not 0 < len(x) <= MAX_LEAVES:
        return None
    leaves, _ = flatten(x)
    arrays = [leaf for leaf in leaves[:MAX_LEAVES] if type(leaf) in ARRAY_TYPES]
    if not arrays:
        return None
    n_bytes = sum(type_of(array).nbytes for array in arrays)
    word = "array" if len(arrays) == 1 else "arrays"
    return f"{type(x).__name__} of {len(arrays)} {word}, {bytes_text(n_bytes)}"


_session = secrets.token_hex(4)
_numbers = itertools.count(1)
_shown: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()


def array_key(x: Any) -> str:
    """A key under which `array_of` finds an array while something else holds it.

    >>> array_key(jnp.ones(3)) == array_key(jnp.ones(3))
    False
    """
    key = f"{_session}-{next(_numbers)}"
    _shown[key] = x
    return key


def array_of(key: str) -> Any:
    """The array for which `array_key` made the key.

    Raises: ArgumentValueError if the array no longer exists.

    >>> x = jnp.ones(3)
    >>> array_of(array_key(x)) is x
    True
    """
    x = _shown.get(key)
    if x is None:
        raise ArgumentValueError(
            "this array is gone: nothing holds it any more, or its kernel has ended.",
            do="Run the cell that made it again.",
        )
    return x
