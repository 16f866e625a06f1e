"""Means, variances and averages."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    DTypeLike,
    ShapeError,
    as_value,
    dtypes,
    public_functions,
)
from pellucid._machine.ir import ShapedArray
from pellucid._machine.primitives import arithmetic, logical
from pellucid._machine.primitives.conversion import conj, real
from pellucid._machine.primitives.movement import broadcast_in_dim, broadcast_to, transpose
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array

from .compiled import numpy_function
from .manipulation import canonical_axes
from .promotion import (
    aval_of,
    canonical,
    convert,
    full_name,
    promote_dtypes_inexact,
    promote_shapes,
    refuse_out,
)
from .reductions import SUM, Axis, mask_elements, reduce_along, static_axis, static_dtype, wide


def _count(
    name: str,
    aval: ShapedArray,
    axis: Axis,
    where: ArrayLike | None,
    dtype: np.dtype | None,
    keepdims: bool,
) -> Any:
    """The number of elements reduced: from the shape, or counted from `where`."""
    if where is None:
        sizes = [aval.shape[i] for i in canonical_axes(axis, aval.ndim)]
        count = as_value(math.prod(sizes))
        return (
            np.asarray(count, dtype)[()]
            if type(count) is int
            else convert(count, type_of(count), dtype)
        )
    chosen = broadcast_to(where, aval.shape)
    return reduce_along(name, SUM, chosen, axis, dtype, keepdims)


def mean_of(
    name: str,
    a: ArrayLike,
    axis: Axis,
    dtype: np.dtype | None,
    keepdims: bool,
    where: ArrayLike | None,
) -> Any:
    """Mean, under a trace."""
    a, aval = canonical(name, a)
    result = dtype or dtypes.to_inexact_dtype(aval.dtype)
    computed = wide(result) if dtype is None else result
    total = reduce_along(name, SUM, a, axis, computed, keepdims, where=where)
    average = arithmetic.div(total, _count(name, aval, axis, where, computed, keepdims))
    return convert(average, type_of(average), result)


@numpy_function(static=("axis", "dtype", "keepdims"))
def _mean(
    a: ArrayLike, axis: Axis, dtype: np.dtype | None, keepdims: bool, where: ArrayLike | None
) -> Any:
    return mean_of("mean", a, axis, dtype, keepdims, where)


def mean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Mean of the elements of `a` along `axis`, floating or complex; half precision is summed in float32.

    Result: shape of `a` without the axes `axis`, or with size 1 there if `keepdims`; dtype `dtype`, or that of `a`,
    float32 for integers and bools (float64 for 64-bit ones). NaN for no elements. `where`, bools that broadcast,
    selects elements.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for a `where` that isn't of bools, DtypeError for random keys, UnsupportedError for `out`.

    >>> mean(np.arange(4))
    Array(1.5, dtype=float32)
    """
    refuse_out("mean", out)
    return _mean(a, static_axis(axis), static_dtype("mean", dtype), bool(keepdims), where)


def variance_dtypes(name: str, element_dtype: np.dtype, dtype: np.dtype | None) -> tuple[Any, Any]:
    """(dtype to compute in, dtype of the result) of a variance of elements of dtype `element_dtype`."""
    if dtype is None:
        computed = dtypes.to_inexact_dtype(element_dtype)
        return wide(computed), dtypes.to_floating_dtype(computed)
    if not dtypes.is_inexact(dtype) or (element_dtype.kind == "c" != dtype.kind):
        raise ArgumentValueError(
            f"jnp.{name} needs a floating dtype, for complex elements a complex one.",
            got=f"dtype {dtype.name} for elements of {element_dtype.name}",
        )
    return wide(dtype), dtype


def absolute_squares(x: ArrayLike) -> Any:
    """Squares of absolute values."""
    is_complex = type_of(x).dtype.kind == "c"
    return real(arithmetic.mul(x, conj(x))) if is_complex else arithmetic.square(x)


def given_mean(name: str, mean: ArrayLike, aval: ShapedArray, dtype: np.dtype) -> Any:
    """`mean`, an argument of `name`, in `dtype`; raises ShapeError unless it has as many axes as the array, or none."""
    mean_aval = aval_of(name, mean, 1)
    if mean_aval.ndim not in (0, aval.ndim):
        raise ShapeError(
            f"{full_name(name)} needs a `mean` with the axes of its array.",
            got=[f"a: {aval.text()}", f"mean: {mean_aval.text()}"],
            do="Compute it with `keepdims=True`.",
        )
    return convert(mean, mean_aval, dtype)


def _variance(
    name: str,
    a: ArrayLike,
    correction: ArrayLike | None,
    mean: Any,
    axis: Axis,
    dtype: np.dtype | None,
    keepdims: bool,
    where: ArrayLike | None,
) -> Any:
    """Variance, under a trace; NaN where there are no more elements than `correction`."""
    a, aval = canonical(name, a)
    computed, result = variance_dtypes(name, aval.dtype, dtype)
    a = convert(a, aval, computed)
    if mean is None:
        mean = mean_of(name, a, axis, computed, True, where)
    else:
        mean = given_mean(name, mean, aval, computed)
    deviations = arithmetic.sub(*promote_shapes(name, a, mean))
    # Masked before they are squared: derivatives multiply elements left out by 0, so their squares must be finite.
    squares = absolute_squares(mask_elements(name, deviations, where, computed.type(0)))
    part = dtypes.to_floating_dtype(computed)
    count = _count(name, aval, axis, where, part, keepdims)
    divisor = arithmetic.sub(count, convert(correction, type_of(correction), part))
    total = reduce_along(name, SUM, squares, axis, part, keepdims, where=where)
    variance = arithmetic.div(total, divisor)
    variance = convert(variance, type_of(variance), result)
    return mask_elements(
        name, variance, logical.gt(divisor, part.type(0)), np.asarray(np.nan, result)[()]
    )


def _correction(name: str, ddof: ArrayLike, correction: ArrayLike | None) -> Any:
    if correction is None:
        return ddof
    if isinstance(ddof, (int, float)) and ddof == 0:
        return correction
    raise ArgumentValueError(f"jnp.{name} takes `ddof` or `correction`, not both.")


@numpy_function(static=("axis", "dtype", "keepdims"))
def _var(
    a: ArrayLike,
    correction: ArrayLike | None,
    mean: ArrayLike | None,
    axis: Axis,
    dtype: np.dtype | None,
    keepdims: bool,
    where: ArrayLike | None,
) -> Any:
    return _variance("var", a, correction, mean, axis, dtype, keepdims, where)


def var(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: ArrayLike = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: ArrayLike | None = None,
) -> Array:
    """Variance of the elements of `a` along `axis`: the mean square of their distance from their mean.

    The sum is divided by the number of elements less `ddof` (or `correction`); NaN if that is not positive. `mean`
    may be given if it is known, with reduced axes of size 1.
    Result: shape of `a` without the axes `axis`, or with size 1 there if `keepdims`; dtype `dtype`, or the floating
    dtype of the elements or of their parts, float32 for integers and bools (float64 for 64-bit ones). `where`, bools
    that broadcast, selects elements; `correction` is another name of `ddof`; `mean`, if known, broadcasts to `a`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for an integer `dtype`, a `where` that isn't of bools, or both `ddof` and `correction`,
    ShapeError for a `mean` that doesn't broadcast, DtypeError for random keys, UnsupportedError for `out`.

    >>> var(np.arange(4))
    Array(1.25, dtype=float32)
    """
    refuse_out("var", out)
    correction = _correction("var", ddof, correction)
    return _var(
        a, correction, mean, static_axis(axis), static_dtype("var", dtype), bool(keepdims), where
    )


@numpy_function(static=("axis", "dtype", "keepdims"))
def _std(
    a: ArrayLike,
    correction: ArrayLike | None,
    mean: ArrayLike | None,
    axis: Axis,
    dtype: np.dtype | None,
    keepdims: bool,
    where: ArrayLike | None,
) -> Any:
    return arithmetic.sqrt(_variance("std", a, correction, mean, axis, dtype, keepdims, where))


def std(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: ArrayLike = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: ArrayLike | None = None,
) -> Array:
    """Standard deviation of the elements of `a` along `axis`: the root of their variance.

    Result: shape of `a` without the axes `axis`, or with size 1 there if `keepdims`; dtype `dtype`, or the floating
    dtype of the elements or of their parts, float32 for integers and bools (float64 for 64-bit ones). The parameters
    are those of `var`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for an integer `dtype`, a `where` that isn't of bools, or both `ddof` and `correction`,
    ShapeError for a `mean` that doesn't broadcast, DtypeError for random keys, UnsupportedError for `out`.

    >>> std(np.array([1.0, 3.0]))
    Array(1., dtype=float32)
    """
    refuse_out("std", out)
    correction = _correction("std", ddof, correction)
    return _std(
        a, correction, mean, static_axis(axis), static_dtype("std", dtype), bool(keepdims), where
    )


# Weighted averages --------------------------------------------------------------------------------


@numpy_function(static=("axis", "keepdims"))
def _average(a: ArrayLike, weights: Any, axis: Axis, keepdims: bool) -> tuple[Any, Any]:
    a, aval = canonical("average", a)
    if weights is None:
        average = mean_of("average", a, axis, None, keepdims, None)
        average_aval = type_of(average)
        count = _count("average", aval, axis, None, average_aval.dtype, keepdims)
        return average, broadcast_in_dim(count, average_aval.shape, ())
    a, weights = promote_dtypes_inexact("average", a, weights)
    weights = _spread_weights(aval, weights, axis)
    dtype = type_of(a).dtype
    total = reduce_along("average", SUM, weights, axis, dtype, keepdims)
    weighted = reduce_along("average", SUM, arithmetic.mul(a, weights), axis, dtype, keepdims)
    return arithmetic.div(weighted, total), total


def _spread_weights(aval: ShapedArray, weights: ArrayLike, axis: Axis) -> ArrayLike:
    """`weights` broadcast to the shape of the array; they have that shape already, or one weight per element of the
    reduced axes.
    """
    shape = type_of(weights).shape
    if shape == aval.shape:
        return weights
    axes = canonical_axes(axis, aval.ndim) if axis is not None else ()
    if shape != tuple([aval.shape[i] for i in axes]) or not axes:
        raise ShapeError(
            "jnp.average needs weights of the array's shape, or for the axes that it reduces.",
            got=[f"a: {aval.text()}, axis {axis}", f"weights: shape {shape}"],
        )
    order = sorted(range(len(axes)), key=axes.__getitem__)
    return broadcast_in_dim(transpose(weights, order), aval.shape, tuple(sorted(axes)))


def average(
    a: ArrayLike,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    """Mean of `a` along `axis`, weighted by `weights`; with `returned`, also the sums of the weights.

    Result: shape of `a` without the axes `axis`, or with size 1 there if `keepdims`; floating or complex dtype that `a`
    and `weights` promote to. `weights` has the shape of `a`, or that of the reduced axes.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ShapeError for weights of another shape, DtypeError for random keys.

    >>> average(np.array([1.0, 4.0]), weights=np.array([3.0, 1.0]))
    Array(1.75, dtype=float32)
    """
    weighted_mean, total = _average(a, weights, static_axis(axis), bool(keepdims))
    return (weighted_mean, total) if returned else weighted_mean


__all__ = ["average", "mean", "std", "var"]

public_functions(__all__, globals())
