"""Thread-local flags that can be part of the C++ call path's cache key."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator, Sequence
from typing import Any

from jaxlib import _jax

from . import bootstrap
from .pickling import by_name

Flag = bootstrap.Flag
unset: Any = _jax.config.unset

trace_context: Callable[[], tuple[Any, ...]] = _jax.config.trace_context
"""The values of all flags that affect tracing; used as a cache key (40 ns)."""


def flag(name: str, value: Any, *, in_call_key: bool = False, in_trace_key: bool = False) -> Flag:
    """A flag with a global and a thread-local value: `.value`, `.set_global`, `.set_local`, `.swap_local`."""
    return Flag(name, value, include_in_jit_key=in_call_key, include_in_trace_context=in_trace_key)


class RareFlag(Flag):
    """A flag in the call key that few programs change. All rare flags together take two entries of that key.

    C++ reads, hashes and compares each entry at each call (10 ns). Changing a rare flag takes 1 us.
    """

    def __init__(self, name: str, value: Any, *, in_trace_key: bool = False) -> None:
        super().__init__(name, value, include_in_trace_context=in_trace_key)
        self._default = value

    def __reduce__(self) -> Any:
        return by_name(self)

    def set_global(self, value: Any) -> None:
        with _lock:
            super().set_global(value)
            _globals.set_global(_with(_globals.value, self, value, self._default))

    def set_local(self, value: Any) -> None:
        self.swap_local(value)

    def swap_local(self, value: Any) -> Any:
        previous = super().swap_local(value)
        _locals.set_local(_with(_locals.value, self, value, unset))
        return previous


def _with(entry: Any, flag: RareFlag, value: Any, absent: Any) -> frozenset[tuple[RareFlag, Any]]:
    """`entry` with `value` for `flag`; without the flag if the value is `absent`."""
    values = {**dict(entry), flag: value}
    if value is absent:
        del values[flag]
    return frozenset(values.items())


_globals = flag("pellucid_rare_globals", frozenset(), in_call_key=True)
"""Global values of rare flags that differ from their defaults, as pairs."""
_locals = flag("pellucid_rare_locals", frozenset(), in_call_key=True)
"""Values of rare flags overridden by this thread, as pairs."""
_lock = threading.Lock()


@contextlib.contextmanager
def overridden(state: Flag, value: Any) -> Generator[None]:
    """Context manager that sets a flag in this thread."""
    previous = state.swap_local(value)
    try:
        yield
    finally:
        state.set_local(previous)


enable_x64 = bootstrap.enable_x64_state
disable_jit = bootstrap.disable_jit_state

tracing_now = flag("pellucid_tracing_now", None, in_call_key=True)
"""None outside of traces. Under a trace, every call of a compiled function must go through Python to be staged."""

transfers_watched = flag("pellucid_transfers_watched", False, in_call_key=True)
"""Whether transfers are observed, of which C++ publishes none."""

trace_context_names: Callable[[], Sequence[str]] = _jax.config.trace_context_names
"""Names of the flags in `trace_context()`, in order."""
