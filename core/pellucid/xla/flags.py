"""Thread-local flags that the C++ call path can put into its cache key."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from jaxlib import _jax

from . import bootstrap

unset = _jax.config.unset

trace_context = _jax.config.trace_context
"""The values of all flags that change what a function traces to; a key for caches (40 ns)."""


def flag(name: str, value: Any, *, in_call_key: bool = False, in_trace_key: bool = False) -> Any:
    """A flag with a global and a thread-local value: `.value`, `.set_global`, `.set_local`, `.swap_local`."""
    return _jax.config.Config(
        name, value, include_in_jit_key=in_call_key, include_in_trace_context=in_trace_key
    )


@contextlib.contextmanager
def overridden(state: Any, value: Any) -> Iterator[None]:
    """Give a flag `value` in this thread until the block ends."""
    previous = state.swap_local(value)
    try:
        yield
    finally:
        state.set_local(previous)


enable_x64 = bootstrap.enable_x64_state
disable_jit = bootstrap.disable_jit_state

tracing_now = flag("pellucid_tracing_now", None, in_call_key=True)
"""None outside any trace. Under a trace every compiled function must ask Python, which stages it."""

transfers_watched = flag("pellucid_transfers_watched", False, in_call_key=True)
"""Whether somebody observes transfers, of which C++ publishes none."""

trace_context_names = _jax.config.trace_context_names
"""Names of the flags in `trace_context()`, in order."""
