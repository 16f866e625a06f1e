"""Calls through C++, which get copies of small NumPy arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy import ndarray

from pellucid.base import config, on, tree_flatten, tree_map
from pellucid.tracing import context
from pellucid.xla import calls
from pellucid.xla.arrays import LARGE, ArrayImpl

from .transfer import NUMPY_TYPES, shard_argument

_LEAF_TYPES = NUMPY_TYPES | {ArrayImpl, int, float, complex, bool}
"""Types of arguments that are no containers."""
_guard = config.transfer_guard_host_to_device.state


def is_copied(x: Any) -> bool:
    """Whether an argument is copied before C++ sees it: a small array or a scalar of NumPy."""
    return type(x) in NUMPY_TYPES and x.nbytes < LARGE


def _copied(x: Any) -> Any:
    return x.copy() if type(x) is ndarray and x.nbytes < LARGE else x


def _is_watched() -> bool:
    """Whether transfers are guarded or listened to, which C++ would do without a word."""
    return _guard.value != "allow" or bool(on.transfer_started or on.transfer_finished)


def make_call(
    name: str,
    function: Callable[..., Any] | None,
    cache_miss: Callable[..., Any],
    static_argnums: Sequence[int],
    static_argnames: Sequence[str],
    key: Any,
) -> Any:
    """The C++ callable of `xla.calls.make_call`, for calls with small NumPy arguments around another one.

    C++ would read a NumPy array's memory while the program runs. So these calls come through Python each time, which
    copies what is small, and has the inner callable, with entries of its own, run the program on the copies.
    """

    def made(miss: Callable[..., Any]) -> Any:
        return calls.make_call(
            name, function, miss, static_argnums, static_argnames, key, shard_argument
        )

    def with_copies(*args: Any, **kwargs: Any) -> Any:
        is_flat = not kwargs and _LEAF_TYPES.issuperset(map(type, args))
        leaves = args if is_flat else tree_flatten((args, kwargs))[0]
        if not any(map(is_copied, leaves)):
            return cache_miss(*args, **kwargs)
        if _is_watched() or not context.trace.is_eager:
            return cache_miss(*args, **kwargs)[0], None
        if not inner:
            inner.append(made(cache_miss))
        if is_flat:  # with its loop written out, as it is the most frequent
            copies = [x.copy() if type(x) is ndarray and x.nbytes < LARGE else x for x in args]
            return inner[0](*copies), None
        copies = [x if i in static_argnums else tree_map(_copied, x) for i, x in enumerate(args)]
        for keyword, x in kwargs.items():
            kwargs[keyword] = x if keyword in static_argnames else tree_map(_copied, x)
        return inner[0](*copies, **kwargs), None

    inner: list[Any] = []
    call = made(with_copies)
    call.inner = inner
    return call


def clear_entries(call: Any) -> None:
    """Let the next calls of each kind come through Python."""
    for each in (call, *call.inner):
        each._clear_cache()
