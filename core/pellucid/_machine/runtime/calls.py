"""Calls through C++, which get copies of small NumPy arguments where a program may run on."""

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
"""Types of arguments that are no containers."""


def is_copied(x: Any) -> bool:
    """Whether an argument is copied before C++ sees it: a small array or a scalar of NumPy."""
    return type(x) in NUMPY_TYPES and x.nbytes < LARGE


def _copied(x: Any) -> Any:
    return x.copy() if type(x) is ndarray and x.nbytes < LARGE else x


class _Missed(NamedTuple):
    """Result of the inner callable for a call of which C++ had no entry."""

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
    """The C++ callable of `xla.calls.make_call`, for calls with small NumPy arguments around another one.

    C++ would read a NumPy array's memory while the program runs. So these calls come through Python each time, which
    copies what is small, and has the inner callable, with entries of its own, run the program on the copies. Where the
    program has run when the call returns, C++ reads the arrays themselves: no argument is then an array on a device,
    for which the program could wait.
    """

    def made(miss: Function, key: Any) -> Any:
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
            inner.append(made(inner_miss, (key, "of copies")))
        if ndarray in kinds:
            copy = _copied if is_flat else partial(tree_map, _copied)
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
    call = made(with_copies, key)
    call.inner = inner
    return call


shared_entries = CallCache(4096)
"""Entries of functions, which callables that are made again of one function and with one key share."""


@clearing
def clear_all_entries() -> None:
    """Let the next calls of all functions come through Python."""
    CallCache.clear_all()  # of all callables that are alive
    shared_entries.clear()


def clear_entries(call: Any) -> None:
    """Let the next calls of each kind come through Python; `call` is None where the callable is gone."""
    for each in (call, *call.inner) if call else ():
        each._clear_cache()
