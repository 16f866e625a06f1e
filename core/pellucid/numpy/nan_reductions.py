"""Reductions that leave NaN out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pellucid._machine.base import ArrayLike, DTypeLike, dtypes, public_functions
from pellucid._machine.ir import ShapedArray
from pellucid._machine.primitives import arithmetic, cumulative, logical
from pellucid._machine.primitives.families import scalar
from pellucid._machine.primitives.movement import broadcast_in_dim
from pellucid._machine.primitives.reduction import argmax as lax_argmax, argmin as lax_argmin
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array

from .compiled import numpy_function
from .cumulative import accumulate
from .promotion import aval_of, canonical, convert, promote_shapes, refuse_out
from .reductions import (
    AND,
    MAX,
    MIN,
    PROD,
    SUM,
    Axis,
    Kind,
    dtype_of_sum,
    extreme,
    mask_elements,
    position,
    reduce_along,
    single_axis,
    static_axis,
    static_dtype,
    wide,
)
from .statistics import absolute_squares, given_mean, mean_of, variance_dtypes

_BOOL = np.dtype(bool)


def _has_nan(aval: ShapedArray) -> bool:
    """Whether elements of this type can be NaN."""
    return dtypes.is_inexact(aval.dtype)


def _without_nan(name: str, a: ArrayLike, identity: Callable[[Any], Any]) -> Any:
    """`a` with each NaN replaced by the reduction's identity."""
    aval = aval_of(name, a)
    if not _has_nan(aval):
        return a
    is_nan = logical.ne(a, a)
    filler = scalar(identity(aval.dtype), aval.dtype)
    return logical.select(is_nan, broadcast_in_dim(filler, aval.shape, ()), a)


def _present(a: ArrayLike) -> Any:
    """Mask of the elements that are not NaN."""
    return logical.bitwise_not(logical.ne(a, a))


# Sums and products --------------------------------------------------------------------------------


def _accumulate(
    name: str,
    kind: Kind,
    a: ArrayLike,
    axis: Axis,
    dtype: np.dtype | None,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike | None,
) -> Any:
    a, aval = canonical(name, a)
    result = dtype or dtype_of_sum(aval.dtype)
    computed = wide(result) if dtype is None else result
    total = reduce_along(
        name, kind, _without_nan(name, a, kind.identity), axis, computed, keepdims, initial, where
    )
    return convert(total, type_of(total), result)


@numpy_function(static=("axis", "dtype", "keepdims"))
def _nansum(
    a: ArrayLike,
    axis: Axis,
    dtype: np.dtype | None,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike | None,
) -> Any:
    return _accumulate("nansum", SUM, a, axis, dtype, keepdims, initial, where)


def nansum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Sum of the elements of `a` along `axis`, NaN counting as 0.

    Result: shape of `a` without the axes `axis`, or with size 1 there if `keepdims`; dtype `dtype`, or that of `a`,
    where bools and small integers are widened to the default integer dtype of their sign. `initial` is added; `where`,
    bools that broadcast, selects elements.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for an `initial` that isn't a scalar or a `where` that isn't of bools, DtypeError for random keys,
    UnsupportedError for `out`.

    >>> nansum(np.array([1.0, np.nan]))
    Array(1., dtype=float32)
    """
    refuse_out("nansum", out)
    return _nansum(
        a, static_axis(axis), static_dtype("nansum", dtype), bool(keepdims), initial, where
    )


@numpy_function(static=("axis", "dtype", "keepdims"))
def _nanprod(
    a: ArrayLike,
    axis: Axis,
    dtype: np.dtype | None,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike | None,
) -> Any:
    return _accumulate("nanprod", PROD, a, axis, dtype, keepdims, initial, where)


def nanprod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Product of the elements of `a` along `axis`, NaN counting as 1.

    Result: shape of `a` without the axes `axis`, or with size 1 there if `keepdims`; dtype `dtype`, or that of `a`,
    where bools and small integers are widened to the default integer dtype of their sign. `initial` is a factor;
    `where`, bools that broadcast, selects elements.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for an `initial` that isn't a scalar or a `where` that isn't of bools, DtypeError for random keys,
    UnsupportedError for `out`.

    >>> nanprod(np.array([2.0, np.nan]))
    Array(2., dtype=float32)
    """
    refuse_out("nanprod", out)
    return _nanprod(
        a, static_axis(axis), static_dtype("nanprod", dtype), bool(keepdims), initial, where
    )


# Extrema and their positions ----------------------------------------------------------------------


def _extreme(
    name: str,
    kind: Kind,
    a: ArrayLike,
    axis: Axis,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike | None,
) -> Any:
    """The largest or smallest element that is not NaN; NaN if all are NaN and there is no `initial`."""
    a, _ = canonical(name, a)
    result = extreme(
        name, kind, _without_nan(name, a, kind.identity), axis, keepdims, initial, where
    )
    aval = type_of(result)
    if initial is not None or not _has_nan(aval):
        return result
    none = reduce_along(name, AND, logical.ne(a, a), axis, _BOOL, keepdims)
    return logical.select(
        none, broadcast_in_dim(scalar(np.nan, aval.dtype), aval.shape, ()), result
    )


@numpy_function(static=("axis", "keepdims"))
def _nanmax(
    a: ArrayLike, axis: Axis, keepdims: bool, initial: ArrayLike | None, where: ArrayLike | None
) -> Any:
    return _extreme("nanmax", MAX, a, axis, keepdims, initial, where)


def nanmax(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The greatest element of `a` along `axis` that is not NaN; NaN if all are.

    Result: shape of `a` without the axes `axis`, or with size 1 there if `keepdims`; dtype of `a`. `initial` is one
    more element; `where`, bools that broadcast, selects elements and needs `initial`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ShapeError for no elements without `initial`, ArgumentValueError for `where` without `initial`, DtypeError for
    random keys, UnsupportedError for `out`.

    >>> nanmax(np.array([1.0, np.nan]))
    Array(1., dtype=float32)
    """
    refuse_out("nanmax", out)
    return _nanmax(a, static_axis(axis), bool(keepdims), initial, where)


@numpy_function(static=("axis", "keepdims"))
def _nanmin(
    a: ArrayLike, axis: Axis, keepdims: bool, initial: ArrayLike | None, where: ArrayLike | None
) -> Any:
    return _extreme("nanmin", MIN, a, axis, keepdims, initial, where)


def nanmin(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The least element of `a` along `axis` that is not NaN; NaN if all are.

    Result: shape of `a` without the axes `axis`, or with size 1 there if `keepdims`; dtype of `a`. `initial` is one
    more element; `where`, bools that broadcast, selects elements and needs `initial`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ShapeError for no elements without `initial`, ArgumentValueError for `where` without `initial`, DtypeError for
    random keys, UnsupportedError for `out`.

    >>> nanmin(np.array([1.0, np.nan]))
    Array(1., dtype=float32)
    """
    refuse_out("nanmin", out)
    return _nanmin(a, static_axis(axis), bool(keepdims), initial, where)


def _position(
    name: str, find: Callable[..., Any], kind: Kind, a: ArrayLike, axis: int | None, keepdims: bool
) -> Any:
    """Index of the largest or smallest element that is not NaN; -1 if all are NaN."""
    a, aval = canonical(name, a)
    index = position(name, find, _without_nan(name, a, kind.identity), axis, keepdims)
    if not _has_nan(aval):
        return index
    none = reduce_along(name, AND, logical.ne(a, a), axis, _BOOL, keepdims)
    result: Any = type_of(index)
    return logical.select(none, broadcast_in_dim(result.dtype.type(-1), result.shape, ()), index)


@numpy_function(static=("axis", "keepdims"))
def _nanargmax(a: ArrayLike, axis: int | None, keepdims: bool) -> Any:
    return _position("nanargmax", lax_argmax, MAX, a, axis, keepdims)


def nanargmax(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """Index of the first greatest element of `a` along `axis` that is not NaN; -1 if all are.

    Result: shape of `a` without `axis` (size 1 there with `keepdims`), a scalar if it is None; the default integer
    dtype.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for several axes, AxisError for axes out
    of bounds, ShapeError for no elements, DtypeError for random keys, UnsupportedError for `out`.

    >>> nanargmax(np.array([1.0, np.nan, 3.0]))
    Array(2, dtype=int32)
    """
    refuse_out("nanargmax", out)
    return _nanargmax(a, single_axis("nanargmax", axis), bool(keepdims))


@numpy_function(static=("axis", "keepdims"))
def _nanargmin(a: ArrayLike, axis: int | None, keepdims: bool) -> Any:
    return _position("nanargmin", lax_argmin, MIN, a, axis, keepdims)


def nanargmin(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """Index of the first least element of `a` along `axis` that is not NaN; -1 if all are.

    Result: shape of `a` without `axis` (size 1 there with `keepdims`), a scalar if it is None; the default integer
    dtype.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for several axes, AxisError for axes out
    of bounds, ShapeError for no elements, DtypeError for random keys, UnsupportedError for `out`.

    >>> nanargmin(np.array([4.0, np.nan, 3.0]))
    Array(2, dtype=int32)
    """
    refuse_out("nanargmin", out)
    return _nanargmin(a, single_axis("nanargmin", axis), bool(keepdims))


# Means and variances ------------------------------------------------------------------------------


def _mean_of(
    name: str,
    a: ArrayLike,
    axis: Axis,
    dtype: np.dtype | None,
    keepdims: bool,
    where: ArrayLike | None,
) -> Any:
    a, aval = canonical(name, a)
    if not _has_nan(aval):
        return mean_of(name, a, axis, dtype, keepdims, where)
    result = dtype or aval.dtype
    computed = wide(result) if dtype is None else result
    count = reduce_along(name, SUM, _present(a), axis, computed, keepdims, where=where)
    total = reduce_along(
        name, SUM, _without_nan(name, a, SUM.identity), axis, computed, keepdims, where=where
    )
    average = arithmetic.div(total, count)
    return convert(average, type_of(average), result)


@numpy_function(static=("axis", "dtype", "keepdims"))
def _nanmean(
    a: ArrayLike, axis: Axis, dtype: np.dtype | None, keepdims: bool, where: ArrayLike | None
) -> Any:
    return _mean_of("nanmean", a, axis, dtype, keepdims, where)


def nanmean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """Mean of the elements of `a` along `axis` that are not NaN; NaN if all are.

    Result: shape of `a` without the axes `axis`, or with size 1 there if `keepdims`; dtype `dtype`, or that of `a`,
    float32 for integers and bools (float64 for 64-bit ones). `where`, bools that broadcast, selects elements.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for a `where` that isn't of bools, DtypeError for random keys, UnsupportedError for `out`.

    >>> nanmean(np.array([1.0, np.nan, 3.0]))
    Array(2., dtype=float32)
    """
    refuse_out("nanmean", out)
    return _nanmean(a, static_axis(axis), static_dtype("nanmean", dtype), bool(keepdims), where)


def _variance(
    name: str,
    a: ArrayLike,
    ddof: ArrayLike,
    mean: Any,
    axis: Axis,
    dtype: np.dtype | None,
    keepdims: bool,
    where: ArrayLike | None,
) -> Any:
    a, aval = canonical(name, a)
    computed, result = variance_dtypes(name, aval.dtype, dtype)
    a = convert(a, aval, computed)
    if mean is None:
        mean = _mean_of(name, a, axis, computed, True, where)
    else:
        mean = given_mean(name, mean, aval, computed)
    centred = arithmetic.sub(*promote_shapes(name, a, mean))
    centred = mask_elements(name, centred, where, computed.type(0))
    squares = absolute_squares(mask_elements(name, centred, _present(a), computed.type(0)))
    part = dtypes.to_floating_dtype(computed)
    count = reduce_along(name, SUM, _present(a), axis, part, keepdims, where=where)
    divisor = arithmetic.sub(count, convert(ddof, type_of(ddof), part))
    total = reduce_along(name, SUM, squares, axis, part, keepdims, where=where)
    defined = logical.gt(divisor, part.type(0))
    # Divisors of 0 and less are replaced by 1: a quotient by 0 has no derivative, also where it isn't selected.
    variance = arithmetic.div(total, mask_elements(name, divisor, defined, part.type(1)))
    variance = convert(variance, type_of(variance), result)
    return mask_elements(name, variance, defined, np.asarray(np.nan, result)[()])


@numpy_function(static=("axis", "dtype", "keepdims"))
def _nanvar(
    a: ArrayLike,
    ddof: ArrayLike,
    mean: ArrayLike | None,
    axis: Axis,
    dtype: np.dtype | None,
    keepdims: bool,
    where: ArrayLike | None,
) -> Any:
    return _variance("nanvar", a, ddof, mean, axis, dtype, keepdims, where)


def nanvar(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: ArrayLike = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """Variance of the elements of `a` along `axis` that are not NaN; NaN if there are not more than `ddof`.

    Result: shape of `a` without the axes `axis`, or with size 1 there if `keepdims`; dtype `dtype`, or the floating
    dtype of the elements or of their parts, float32 for integers and bools (float64 for 64-bit ones). `where`, bools
    that broadcast, selects elements; `mean`, if known, broadcasts to `a`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for an integer `dtype` or a `where` that isn't of bools, ShapeError for a `mean` that doesn't
    broadcast, DtypeError for random keys, UnsupportedError for `out`.

    >>> nanvar(np.array([1.0, np.nan, 3.0]))
    Array(1., dtype=float32)
    """
    refuse_out("nanvar", out)
    return _nanvar(
        a, ddof, mean, static_axis(axis), static_dtype("nanvar", dtype), bool(keepdims), where
    )


@numpy_function(static=("axis", "dtype", "keepdims"))
def _nanstd(
    a: ArrayLike,
    ddof: ArrayLike,
    mean: ArrayLike | None,
    axis: Axis,
    dtype: np.dtype | None,
    keepdims: bool,
    where: ArrayLike | None,
) -> Any:
    return arithmetic.sqrt(_variance("nanstd", a, ddof, mean, axis, dtype, keepdims, where))


def nanstd(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: ArrayLike = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """Standard deviation of the elements of `a` along `axis` that are not NaN.

    Result: shape of `a` without the axes `axis`, or with size 1 there if `keepdims`; dtype `dtype`, or the floating
    dtype of the elements or of their parts, float32 for integers and bools (float64 for 64-bit ones). The parameters
    are those of `nanvar`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for an integer `dtype` or a `where` that isn't of bools, ShapeError for a `mean` that doesn't
    broadcast, DtypeError for random keys, UnsupportedError for `out`.

    >>> nanstd(np.array([1.0, np.nan, 3.0]))
    Array(1., dtype=float32)
    """
    refuse_out("nanstd", out)
    return _nanstd(
        a, ddof, mean, static_axis(axis), static_dtype("nanstd", dtype), bool(keepdims), where
    )


# Cumulative ---------------------------------------------------------------------------------------


@numpy_function(static=("axis", "dtype"))
def _nancumsum(a: ArrayLike, axis: int | None, dtype: np.dtype | None) -> Any:
    name = "nancumsum"
    return accumulate(name, cumulative.cumsum, _without_nan(name, a, SUM.identity), axis, dtype)


def nancumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """Sums of the elements of `a` up to each one along `axis`, NaN counting as 0.

    Result: shape of `a`, or [size of `a`] if `axis` is None; dtype `dtype`, or that of `a`, the default integer dtype
    for bools.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for several axes, AxisError for axes out
    of bounds, DtypeError for random keys, UnsupportedError for `out`.

    >>> nancumsum(np.array([1.0, np.nan, 3.0]))
    Array([1., 1., 4.], dtype=float32)
    """
    refuse_out("nancumsum", out)
    return _nancumsum(a, single_axis("nancumsum", axis), static_dtype("nancumsum", dtype))


@numpy_function(static=("axis", "dtype"))
def _nancumprod(a: ArrayLike, axis: int | None, dtype: np.dtype | None) -> Any:
    name = "nancumprod"
    return accumulate(name, cumulative.cumprod, _without_nan(name, a, PROD.identity), axis, dtype)


def nancumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """Products of the elements of `a` up to each one along `axis`, NaN counting as 1.

    Result: shape of `a`, or [size of `a`] if `axis` is None; dtype `dtype`, or that of `a`, the default integer dtype
    for bools.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for several axes, AxisError for axes out
    of bounds, DtypeError for random keys, UnsupportedError for `out`.

    >>> nancumprod(np.array([2.0, np.nan, 3.0]))
    Array([2., 2., 6.], dtype=float32)
    """
    refuse_out("nancumprod", out)
    return _nancumprod(a, single_axis("nancumprod", axis), static_dtype("nancumprod", dtype))


__all__ = [
    "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum",
    "nanvar",
]  # fmt: skip

public_functions(__all__, globals())
