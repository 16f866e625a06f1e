"""Cumulative sums and products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    DTypeLike,
    dtypes,
    public_functions,
)
from pellucid._machine.primitives import cumulative
from pellucid._machine.primitives.assembly import concatenate
from pellucid._machine.primitives.creation import full_of_type
from pellucid._machine.primitives.movement import canonical_axis, reshape
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array

from .compiled import numpy_function
from .promotion import aval_of, canonical, convert, refuse_out
from .reductions import dtype_of_sum, single_axis, static_dtype

_BOOL = np.dtype(bool)


def accumulate(
    name: str,
    apply: Callable[..., Any],
    a: ArrayLike,
    axis: int | None,
    dtype: np.dtype | None,
    promote: bool = False,
) -> Any:
    """The cumulative reduction `apply` along `axis`, or of the raveled array if it is None; bools count as 0 and 1."""
    a, aval = canonical(name, a)
    if axis is None:
        a, axis = reshape(a, (aval.size,)), 0
    default = dtype_of_sum(aval.dtype) if promote or aval.dtype == _BOOL else aval.dtype
    computed = dtype or default
    along = canonical_axis(axis, type_of(a).ndim)
    a = convert(a, type_of(a), computed)
    if computed == _BOOL:  # True and False count as 1 and 0
        a = convert(a, type_of(a), dtypes.default_int_dtype())
    result = apply(a, along)
    return convert(result, type_of(result), computed)


@numpy_function(static=("axis", "dtype"))
def _cumsum(a: ArrayLike, axis: int | None, dtype: np.dtype | None) -> Any:
    return accumulate("cumsum", cumulative.cumsum, a, axis, dtype)


def cumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """Sums of the elements of `a` up to each one along `axis`, or in the raveled array.

    Result: shape of `a`, or [size of `a`] if `axis` is None; dtype `dtype`, or that of `a`, the default integer dtype
    for bools.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for several axes, AxisError for axes out
    of bounds, DtypeError for random keys, UnsupportedError for `out`.

    >>> cumsum(np.arange(4))
    Array([0, 1, 3, 6], dtype=int32)
    """
    refuse_out("cumsum", out)
    return _cumsum(a, single_axis("cumsum", axis), static_dtype("cumsum", dtype))


@numpy_function(static=("axis", "dtype"))
def _cumprod(a: ArrayLike, axis: int | None, dtype: np.dtype | None) -> Any:
    return accumulate("cumprod", cumulative.cumprod, a, axis, dtype)


def cumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """Products of the elements of `a` up to each one along `axis`, or in the raveled array.

    Result: shape of `a`, or [size of `a`] if `axis` is None; dtype `dtype`, or that of `a`, the default integer dtype
    for bools.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for several axes, AxisError for axes out
    of bounds, DtypeError for random keys, UnsupportedError for `out`.

    >>> cumprod(np.arange(1, 5))
    Array([ 1,  2,  6, 24], dtype=int32)
    """
    refuse_out("cumprod", out)
    return _cumprod(a, single_axis("cumprod", axis), static_dtype("cumprod", dtype))


def _cumulative(
    name: str, apply: Callable[..., Any], x: ArrayLike, axis: int | None, dtype: np.dtype | None, include_initial: bool, initial: int,
    promote: bool,
) -> Any:  # fmt: skip
    """A cumulative reduction as the array API defines it: `axis` may be None for vectors only; `include_initial` puts
    the identity first.
    """
    aval = aval_of(name, x)
    if aval.ndim == 0 or (axis is None and aval.ndim != 1):
        raise ArgumentValueError(
            f"jnp.{name} needs an axis, and an array of at least one dimension.",
            got=f"x: {aval.text()}",
        )
    along = 0 if axis is None else canonical_axis(axis, aval.ndim)
    result = accumulate(name, apply, x, along, dtype, promote)
    if not include_initial:
        return result
    aval = type_of(result)
    first = full_of_type(
        aval.update(shape=(*aval.shape[:along], 1, *aval.shape[along + 1 :])), initial
    )
    return concatenate([first, result], along)


@numpy_function(static=("axis", "dtype", "include_initial"))
def _cumulative_sum(
    x: ArrayLike, axis: int | None, dtype: np.dtype | None, include_initial: bool
) -> Any:
    return _cumulative(
        "cumulative_sum", cumulative.cumsum, x, axis, dtype, include_initial, 0, True
    )


def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """Sums of the elements of `x` up to each one along `axis`; small integers are widened.

    Result: shape of `x`, one longer along `axis` with `include_initial`, which puts 0 in front; dtype `dtype`, or that
    of `x`. `axis` may be left out for vectors only.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ArgumentValueError for a scalar or a
    missing `axis`, AxisError for axes out of bounds, DtypeError for random keys.

    >>> cumulative_sum(np.arange(1, 4), include_initial=True)
    Array([0, 1, 3, 6], dtype=int32)
    """
    name = "cumulative_sum"
    return _cumulative_sum(
        x, single_axis(name, axis), static_dtype(name, dtype), bool(include_initial)
    )


@numpy_function(static=("axis", "dtype", "include_initial"))
def _cumulative_prod(
    x: ArrayLike, axis: int | None, dtype: np.dtype | None, include_initial: bool
) -> Any:
    return _cumulative(
        "cumulative_prod", cumulative.cumprod, x, axis, dtype, include_initial, 1, False
    )


def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """Products of the elements of `x` up to each one along `axis`.

    Result: shape of `x`, one longer along `axis` with `include_initial`, which puts 1 in front; dtype `dtype`, or that
    of `x`, the default integer dtype for bools. `axis` may be left out for vectors only.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ArgumentValueError for a scalar or a
    missing `axis`, AxisError for axes out of bounds, DtypeError for random keys.

    >>> cumulative_prod(np.arange(1, 4), include_initial=True)
    Array([1, 1, 2, 6], dtype=int32)
    """
    name = "cumulative_prod"
    return _cumulative_prod(
        x, single_axis(name, axis), static_dtype(name, dtype), bool(include_initial)
    )


__all__ = ["cumprod", "cumsum", "cumulative_prod", "cumulative_sum"]

public_functions(__all__, globals())
