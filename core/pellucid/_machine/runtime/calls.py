"""Calls through C++ that copy small NumPy arguments if the program may run asynchronously."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from numpy import ndarray

from pellucid._machine.base import Function, Ints, clearing, tree_flatten, tree_map
from pellucid._machine.tracing import context
from pellucid._machine.xla import ARRAY_TYPES, LARGE, ArrayImpl, CallCache, FastPath, calls

from .transfer import NUMPY_TYPES, shard_argument

_LEAF_TYPES = NUMPY_TYPES | {ArrayImpl, int, float, complex, bool}
"""Types of arguments that aren't containers."""


def is_copied(x: Any) -> bool:
    """Whether an argument is copied before C++ receives it: a small NumPy array or scalar."""
    return type(x) in NUMPY_TYPES and x.nbytes < LARGE


def _copy_if_small(x: Any) -> Any:
    return x.copy() if type(x) is ndarray and x.nbytes < LARGE else x


class _Missed(NamedTuple):
    """Result of the inner callable if C++ had no entry for a call."""

    results: Any
    path: FastPath | None


def make_call(
    name: str,
    function: Function | None,
    cache_miss: Function,
    static_argnums: Ints,
    static_argnames: Sequence[str],
    key: Any,
    cache: Any = None,
) -> Any:
    """The C++ callable of `xla.calls.make_call`; for calls with small NumPy arguments it has an inner one.

    C++ would read a NumPy array's memory while the program runs. So these calls come through Python each time, which
    copies small arrays and calls the inner callable, with entries of its own, with the copies. If the program has
    finished when the call returns, C++ reads the arrays directly: then no argument is a device array for which the
    program could wait.
    """

    def make(miss: Function, key: Any) -> Any:
        return calls.make_call(
            name, function, miss, static_argnums, static_argnames, key, shard_argument, cache
        )

    def inner_miss(*args: Any, **kwargs: Any) -> Any:
        missed = _Missed(*cache_miss(*args, **kwargs))
        return missed, missed.path

    def with_copies(*args: Any, **kwargs: Any) -> Any:
        if not context.trace.is_eager:
            return cache_miss(*args, **kwargs)
        kinds = {*map(type, args)}
        leaves: Sequence[Any] = args
        is_flat = not kwargs and kinds <= _LEAF_TYPES
        if not is_flat:
            leaves = tree_flatten((args, kwargs))[0]
            kinds = {*map(type, leaves)}
        if kinds.isdisjoint(NUMPY_TYPES):
            return cache_miss(*args, **kwargs)
        if not inner:
            inner.append(make(inner_miss, (key, "of copies")))
        if ndarray in kinds:
            copy = _copy_if_small if is_flat else partial(tree_map, _copy_if_small)
            args = tuple([x if i in static_argnums else copy(x) for i, x in enumerate(args)])
            for keyword, x in kwargs.items():
                kwargs[keyword] = x if keyword in static_argnames else copy(x)
        results = inner[0](*args, **kwargs)
        if type(results) is not _Missed:
            return results, None
        results, path = results
        reads_arguments = path is None or (path.has_run and kinds.isdisjoint(ARRAY_TYPES))
        return results, path if reads_arguments or not any(map(is_copied, leaves)) else None

    inner: list[Any] = []
    call = make(with_copies, key)
    call.inner = inner
    return call


shared_entries = CallCache(4096)
"""Cache entries, shared between callables created again for the same function and key."""


@clearing
def clear_all_entries() -> None:
    """Make the next calls of all functions come through Python."""
    CallCache.clear_all()  # clears the entries of all existing callables
    shared_entries.clear()


def clear_entries(call: Any) -> None:
    """Make the next calls of each kind come through Python; `call` is None if the callable no longer exists."""
    for each in (call, *call.inner) if call else ():
        each._clear_cache()
