"""Statistics of samples: modes, ranks, standard errors."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    UnsupportedError,
    dtypes,
    public_functions,
)
from pellucid._machine.primitives.conversion import size_scalar
from pellucid._machine.primitives.movement import canonical_axis
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.promotion import aval_of, promote_dtypes_inexact
from pellucid.numpy.reductions import static_axis


class ModeResult(NamedTuple):
    """Most frequent elements, and how often each occurs."""

    mode: Any
    count: Any


def _check_policy(name: str, nan_policy: str, supported: tuple[str, ...] = ("propagate",)) -> None:
    if nan_policy not in ("propagate", "omit", "raise"):
        raise ArgumentValueError(
            f"stats.{name}: nan_policy must be 'propagate', 'omit' or 'raise'.",
            got=f"got {nan_policy!r}",
        )
    if nan_policy not in supported:
        raise UnsupportedError(
            f"stats.{name} supports the nan_policy {' and '.join(map(repr, supported))}.", got=f"got {nan_policy!r}"
        )  # fmt: skip


def _rows(a: Array, axis: int | None) -> tuple[Any, tuple[int, ...]]:
    """`a` with `axis` last (raveled if it is None), and the shape of results that keep the axis with size 1."""
    a = jnp.asarray(a)
    if axis is None:
        return a.ravel(), (1,) * a.ndim
    axis = canonical_axis(axis, a.ndim)
    return jnp.moveaxis(a, axis, -1), tuple(1 if i == axis else n for i, n in enumerate(a.shape))


@numpy_function(static=("axis", "keepdims"))
def _mode(a: Any, axis: Any, keepdims: bool) -> tuple[Any, Any]:
    rows, shape = _rows(jnp.atleast_1d(a), axis)
    size = rows.shape[-1]
    if not size:
        mode = jnp.full(rows.shape[:-1], np.nan, dtypes.to_inexact_dtype(rows.dtype))
        count = jnp.zeros_like(mode)
    else:
        values = jnp.sort(rows, -1)
        before, after = values[..., :-1], values[..., 1:]
        # NaNs count as equal, as in SciPy.
        differs = ~((before == after) | (jnp.isnan(before) & jnp.isnan(after)))
        starts = jnp.concatenate([jnp.ones_like(values[..., :1], dtype=bool), differs], -1)
        places = jnp.arange(size, dtype=np.int32)
        first = jnp.maximum.accumulate(jnp.where(starts, places, 0), axis=-1)
        counts = places - first + 1
        best = jnp.argmax(counts, -1, keepdims=True)
        mode = jnp.take_along_axis(values, best, -1)[..., 0]
        count = jnp.take_along_axis(counts, best, -1)[..., 0]
    return (mode.reshape(shape), count.reshape(shape)) if keepdims else (mode, count)


def mode(
    a: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> ModeResult:
    """The most frequent elements along `axis` and their counts; of several, the smallest. `None` is all axes.

    Raises: UnsupportedError for a `nan_policy` other than "propagate".

    Both results have the shape of `a` without `axis`, or with size 1 there if `keepdims`; elements have the dtype of
    `a`, counts int32, or int64 with 64-bit dtypes. AxisError for an axis out of bounds, DtypeError for PRNG keys.

    >>> value, count = mode(jnp.array([1, 2, 2, 3]))
    >>> print(value, count)
    2 2
    """
    _check_policy("mode", nan_policy)
    return ModeResult(*_mode(a, None if axis is None else int(axis), bool(keepdims)))


_RANKINGS = ("average", "min", "max", "dense", "ordinal")


@numpy_function(static=("method", "axis"))
def _rankdata(a: Any, method: str, axis: Any) -> Array:
    rows, _ = _rows(a, axis)
    dtype = dtypes.to_inexact_dtype(rows.dtype)
    size = rows.shape[-1]
    if not size:
        return jnp.asarray(rows, dtype)
    order = jnp.argsort(rows, -1, stable=True)
    inverse = jnp.argsort(order, -1)
    if method == "ordinal":
        ranks = inverse + 1
    else:
        values = jnp.take_along_axis(rows, order, -1)
        starts = jnp.concatenate(
            [jnp.ones_like(values[..., :1], dtype=bool), values[..., 1:] != values[..., :-1]], -1
        )
        dense = jnp.cumsum(starts, -1)
        places = jnp.arange(size)
        first = jnp.maximum.accumulate(jnp.where(starts, places, 0), axis=-1) + 1
        ends = jnp.concatenate([starts[..., 1:], jnp.ones_like(starts[..., :1])], -1)
        last = (
            jnp.flip(
                jnp.minimum.accumulate(jnp.flip(jnp.where(ends, places, size), -1), axis=-1), -1
            )
            + 1
        )
        ranks = {"dense": dense, "min": first, "max": last}.get(method)
        if ranks is None:
            ranks = (first.astype(dtype) + last.astype(dtype)) / 2
        ranks = jnp.take_along_axis(ranks, inverse, -1)
    ranks = jnp.where(jnp.any(jnp.isnan(rows), -1, keepdims=True), np.nan, ranks.astype(dtype))
    return ranks if axis is None else jnp.moveaxis(ranks, -1, axis)


def rankdata(
    a: ArrayLike, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate"
) -> Array:
    """Ranks of elements along `axis` (`None`: of all, as a vector), from 1, as floating-point numbers.

    `method` says what equal elements get: "average", "min", "max", "dense" (as "min", without gaps) or "ordinal" (in
    the order of their places). Ranks among NaN are NaN. Raises: ArgumentValueError for another `method`.

    >>> rankdata(jnp.array([3, 1, 2, 2]))
    Array([4. , 1. , 2.5, 2.5], dtype=float32)
    """
    _check_policy("rankdata", nan_policy)
    if method not in _RANKINGS:
        raise ArgumentValueError(
            f"stats.rankdata: method must be one of {', '.join(map(repr, _RANKINGS))}.", got=f"got {method!r}"
        )  # fmt: skip
    return _rankdata(a, method, None if axis is None else int(axis))


def sem(
    a: ArrayLike, axis: int | None = 0, ddof: ArrayLike = 1, nan_policy: str = "propagate", *, keepdims: bool = False
) -> Array:  # fmt: skip
    """Standard error of the mean along `axis` (`None`: of all): the standard deviation over the root of the count.

    `ddof` is subtracted from the count in the variance; with the `nan_policy` "omit", NaN are left out.

    The result has the shape of `a` without `axis`, or with size 1 there if `keepdims`, and its dtype if that is
    floating-point, else the default floating dtype.
    Raises: UnsupportedError for the `nan_policy` "raise", ArgumentValueError for others, AxisError for an axis out of
    bounds, DtypeError for PRNG keys, ArgumentTypeError for lists and strings.

    >>> sem(jnp.array([1.0, 3.0]))
    Array(1., dtype=float32)
    """
    _check_policy("sem", nan_policy, ("propagate", "omit"))
    aval_of("stats.sem", a)
    # XLA would multiply by the reciprocal of the root.
    deviation, root = _deviation_and_root(
        a, static_axis(axis), ddof, nan_policy == "omit", bool(keepdims)
    )
    return deviation / root


@numpy_function(static=("axis", "omits_nan", "keepdims"))
def _deviation_and_root(
    a: ArrayLike, axis: int | None, ddof: ArrayLike, omits_nan: bool, keepdims: bool
) -> tuple[Any, Any]:
    [a] = promote_dtypes_inexact("stats.sem", a)
    if omits_nan:
        deviation = jnp.nanstd(a, axis, ddof=ddof, keepdims=keepdims)
        count = jnp.sum(~jnp.isnan(a), axis, keepdims=keepdims)
    else:
        deviation = jnp.std(a, axis, ddof=ddof, keepdims=keepdims)
        shape = type_of(a).shape
        size = math.prod(shape) if axis is None else shape[canonical_axis(axis, len(shape))]
        count = size_scalar(size, type_of(deviation).dtype)
    return deviation, jnp.sqrt(jnp.astype(count, type_of(deviation).dtype))


__all__ = ["mode", "rankdata", "sem"]

public_functions(__all__, globals())
