"""Reductions along axes: sums, products, extrema, means, truth, counts; cumulative ones too."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from pellucid.base import dtypes
from pellucid.base.errors import ArgumentValueError, DtypeError, ShapeError
from pellucid.numpy import elementwise
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.manipulation import canonical_axes, diagonal
from pellucid.numpy.promotion import aval_of, broadcast_arrays, convert
from pellucid.primitives import (
    arithmetic,
    broadcasting,
    complex_parts,
    cumulative,
    logical,
    movement,
    reduction,
)
from pellucid.primitives.movement import canonical_axis
from pellucid.tracing.values import type_of

Axis = int | tuple[int, ...] | None


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    return canonical_axes(axis, ndim)


def _static_axis(axis: Any) -> Any:
    """`axis` as something hashable, for the cache of compiled calls."""
    if axis is None or isinstance(axis, int):
        return axis
    return operator.index(axis) if np.ndim(axis) == 0 else tuple(operator.index(a) for a in axis)


def _static_dtype(dtype: Any, name: str) -> Any:
    if dtype is None:
        return None
    return dtypes.canonicalize(np.dtype(dtypes.check_user_dtype(dtype, name)))


def _finished(result: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """`result` with its reduced axes kept with size 1, on request."""
    return broadcasting.expand_dims(result, axes) if keepdims else result


def _masked(a: Any, where: Any, neutral: Any) -> Any:
    """`a` with `neutral` where `where` is false; `neutral` has the dtype of `a`."""
    if where is None:
        return a
    where, a = broadcast_arrays("where", where, a)
    filler = broadcasting.broadcast_in_dim(neutral, type_of(a).shape, ())
    return logical.select_n(where, filler, a)


def _scalar(value: Any, dtype: Any) -> Any:
    return np.asarray(value, dtype)[()]


# Sums, products, bits ---------------------------------------------------------------------------------


def _widened(dtype: Any) -> Any:
    """The dtype in which integers are summed: at least the default integer of their sign."""
    if dtype == np.bool_:
        return dtypes.default_int_dtype()
    if dtypes.is_inexact(dtype) or "int" not in dtype.name:
        return dtype
    wide = dtypes.default_uint_dtype() if dtype.name.startswith("u") else dtypes.default_int_dtype()
    return wide if dtypes.item_bytes(dtype) < dtypes.item_bytes(wide) else dtype


_HALF = frozenset({"float16", "bfloat16"})


@numpy_function(static=("axis", "dtype", "keepdims", "promote_integers"))
def _sum(
    a: Any, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any, promote_integers: bool
) -> Any:
    aval = aval_of("sum", a)
    result = dtype or (_widened(aval.dtype) if promote_integers else aval.dtype)
    # Half precision is summed in float32, as XLA's own sums would round at each step.
    wide = np.dtype(np.float32) if result.name in _HALF else result
    a = convert(a, aval, wide, aval.weak_type and dtype is None and wide == aval.dtype)
    axes = _axes(axis, aval.ndim)
    a = _masked(a, where, _scalar(0, wide))
    total = broadcasting.reduce_sum(a, axes)
    if initial is not None:
        total = arithmetic.add(total, convert(initial, type_of(initial), wide))
    total = convert(total, type_of(total), result, type_of(total).weak_type)
    return _finished(total, axes, keepdims)


def sum(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Any:
    """Sum of the elements of `a` along `axis` (all axes by default); small integers are summed as default ones.

    >>> sum(np.arange(4))
    Array(6, dtype=int32)
    """
    return _sum(
        a,
        _static_axis(axis),
        _static_dtype(dtype, "sum"),
        keepdims,
        initial,
        where,
        promote_integers,
    )


@numpy_function(static=("axis", "dtype", "keepdims", "promote_integers"))
def _prod(
    a: Any, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any, promote_integers: bool
) -> Any:
    aval = aval_of("prod", a)
    result = dtype or (_widened(aval.dtype) if promote_integers else aval.dtype)
    a = convert(a, aval, result, aval.weak_type and dtype is None and result == aval.dtype)
    axes = _axes(axis, aval.ndim)
    product = reduction.reduce_prod(_masked(a, where, _scalar(1, result)), axes)
    if initial is not None:
        product = arithmetic.mul(product, convert(initial, type_of(initial), result))
    return _finished(product, axes, keepdims)


def prod(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Any:
    """Product of the elements of `a` along `axis` (all axes by default).

    >>> prod(np.arange(1, 4))
    Array(6, dtype=int32)
    """
    return _prod(
        a,
        _static_axis(axis),
        _static_dtype(dtype, "prod"),
        keepdims,
        initial,
        where,
        promote_integers,
    )


@numpy_function(static=("axis", "keepdims"))
def _all(a: Any, axis: Any, keepdims: bool, where: Any) -> Any:
    a = _as_bool("all", a)
    axes = _axes(axis, type_of(a).ndim)
    return _finished(reduction.reduce_and(_masked(a, where, np.True_), axes), axes, keepdims)


def all(
    a: Any, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: Any = None
) -> Any:
    """Whether all elements of `a` along `axis` are nonzero.

    >>> all(np.array([1, 0]))
    Array(False, dtype=bool)
    """
    return _all(a, _static_axis(axis), keepdims, where)


@numpy_function(static=("axis", "keepdims"))
def _any(a: Any, axis: Any, keepdims: bool, where: Any) -> Any:
    a = _as_bool("any", a)
    axes = _axes(axis, type_of(a).ndim)
    return _finished(reduction.reduce_or(_masked(a, where, np.False_), axes), axes, keepdims)


def any(
    a: Any, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: Any = None
) -> Any:
    """Whether some element of `a` along `axis` is nonzero.

    >>> any(np.array([1, 0]))
    Array(True, dtype=bool)
    """
    return _any(a, _static_axis(axis), keepdims, where)


def _as_bool(name: str, a: Any) -> Any:
    aval = aval_of(name, a)
    return a if aval.dtype == np.bool_ else logical.ne(a, _scalar(0, aval.dtype))


# Extrema ------------------------------------------------------------------------------------------------


def _lowest(dtype: Any) -> Any:
    """The value below which no value of `dtype` lies."""
    if dtype == np.bool_:
        return np.False_
    if dtypes.is_inexact(dtype):
        return _scalar(-np.inf, dtype) if dtypes.supports_inf(dtype) else dtypes.finfo(dtype).min
    return _scalar(dtypes.iinfo(dtype).min, dtype)


def _highest(dtype: Any) -> Any:
    """The value above which no value of `dtype` lies."""
    if dtype == np.bool_:
        return np.True_
    if dtypes.is_inexact(dtype):
        return _scalar(np.inf, dtype) if dtypes.supports_inf(dtype) else dtypes.finfo(dtype).max
    return _scalar(dtypes.iinfo(dtype).max, dtype)


def _extremum(
    name: str,
    reduce: Callable[..., Any],
    combine: Callable[..., Any],
    neutral: Callable[[Any], Any],
) -> Any:
    @numpy_function(static=("axis", "keepdims"))
    def apply(a: Any, axis: Any, keepdims: bool, initial: Any, where: Any) -> Any:
        aval = aval_of(name, a)
        if where is not None and initial is None:
            raise ArgumentValueError(
                f"jnp.{name} with `where` needs `initial`: its result if nothing is chosen."
            )
        axes = _axes(axis, aval.ndim)
        if initial is None and 0 in [aval.shape[i] for i in axes]:
            raise ShapeError(
                f"jnp.{name} of no elements is not defined.",
                got=f"a: {aval.text()}",
                do="Pass `initial`.",
            )
        a = convert(a, aval, aval.dtype, aval.weak_type)
        if where is not None:
            a = _masked(a, where, neutral(aval.dtype))
        result = reduce(a, axes)
        if initial is not None:
            result = combine(result, convert(initial, type_of(initial), aval.dtype))
        return _finished(result, axes, keepdims)

    return apply


_max = _extremum("max", reduction.reduce_max, arithmetic.max, _lowest)
_min = _extremum("min", reduction.reduce_min, arithmetic.min, _highest)


def max(
    a: Any,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The largest element of `a` along `axis`; NaN if one is NaN.

    >>> max(np.array([1, 3, 2]))
    Array(3, dtype=int32)
    """
    return _max(a, _static_axis(axis), keepdims, initial, where)


def min(
    a: Any,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The smallest element of `a` along `axis`; NaN if one is NaN.

    >>> min(np.array([1, 3, 2]))
    Array(1, dtype=int32)
    """
    return _min(a, _static_axis(axis), keepdims, initial, where)


amax, amin = max, min


def ptp(a: Any, axis: Axis = None, out: None = None, keepdims: bool = False) -> Any:
    """The largest minus the smallest element of `a` along `axis`."""
    return elementwise.subtract(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))


def _position(name: str, find: Callable[..., Any]) -> Any:
    @numpy_function(static=("axis", "keepdims"))
    def apply(a: Any, axis: int | None, keepdims: bool) -> Any:
        aval = aval_of(name, a)
        if axis is None:
            flat = movement.reshape(a, (aval.size,))
            dims, along, axis = tuple(range(aval.ndim)), flat, 0
        else:
            axis = canonical_axis(axis, aval.ndim)
            dims, along = (axis,), a
        if type_of(along).shape[axis] == 0:
            raise ShapeError(f"jnp.{name} of no elements is not defined.", got=f"a: {aval.text()}")
        found = find(along, axis, dtypes.default_int_dtype())
        return _finished(found, dims, keepdims)

    return apply


_argmax = _position("argmax", reduction.argmax)
_argmin = _position("argmin", reduction.argmin)


def argmax(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Any:
    """The index of the first largest element of `a` along `axis`, or in the raveled array.

    >>> argmax(np.array([1, 3, 2]))
    Array(1, dtype=int32)
    """
    return _argmax(a, _static_axis(axis), bool(keepdims))


def argmin(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Any:
    """The index of the first smallest element of `a` along `axis`, or in the raveled array.

    >>> argmin(np.array([3, 1, 2]))
    Array(1, dtype=int32)
    """
    return _argmin(a, _static_axis(axis), bool(keepdims))


# Means --------------------------------------------------------------------------------------------------


def _count(a: Any, axes: tuple[int, ...], where: Any, dtype: Any) -> Any:
    """How many elements are reduced: a number known when tracing, or counts where `where` chooses."""
    shape = type_of(a).shape
    if where is None:
        return _scalar(int(np.prod([shape[i] for i in axes], dtype=np.int64)), dtype)
    chosen = broadcasting.broadcast_in_dim(
        where, shape, range(len(shape) - type_of(where).ndim, len(shape))
    )
    return broadcasting.reduce_sum(convert(chosen, type_of(chosen), dtype), axes)


def _floating(dtype: Any) -> Any:
    return dtype if dtypes.is_inexact(dtype) else dtypes.to_inexact_dtype(dtype)


@numpy_function(static=("axis", "dtype", "keepdims"))
def _mean(a: Any, axis: Any, dtype: Any, keepdims: bool, where: Any) -> Any:
    aval = aval_of("mean", a)
    result = dtype or _floating(aval.dtype)
    wide = np.dtype(np.float32) if result.name in _HALF else result
    axes = _axes(axis, aval.ndim)
    a = convert(a, aval, wide, aval.weak_type and dtype is None and wide == aval.dtype)
    total = broadcasting.reduce_sum(_masked(a, where, _scalar(0, wide)), axes)
    average = arithmetic.div(total, _count(a, axes, where, wide))
    return _finished(
        convert(average, type_of(average), result, type_of(average).weak_type), axes, keepdims
    )


def mean(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Any = None,
) -> Any:
    """Mean of the elements of `a` along `axis`, floating or complex.

    >>> mean(np.arange(4))
    Array(1.5, dtype=float32)
    """
    return _mean(a, _static_axis(axis), _static_dtype(dtype, "mean"), keepdims, where)


@numpy_function(static=("axis", "dtype", "correction", "keepdims"))
def _var(a: Any, axis: Any, dtype: Any, correction: float, keepdims: bool, where: Any) -> Any:
    aval = aval_of("var", a)
    computed = _floating(aval.dtype)
    if dtype is not None:
        if computed.kind == "c" != dtype.kind:
            raise DtypeError(
                "jnp.var of complex numbers needs a complex dtype.", got=f"dtype {dtype.name}"
            )
        computed = dtypes.promote(((computed, False), (dtype, False)))[0]
    wide = np.dtype(np.float32) if computed.name in _HALF else computed
    axes = _axes(axis, aval.ndim)
    a = convert(a, aval, wide)
    count = _count(a, axes, where, np.dtype(wide.type(0).real.dtype) if wide.kind == "c" else wide)
    total = broadcasting.reduce_sum(_masked(a, where, _scalar(0, wide)), axes)
    centre = arithmetic.div(total, convert(count, type_of(count), wide))
    centred = arithmetic.sub(a, broadcasting.expand_dims(centre, axes))
    if wide.kind == "c":
        parts = complex_parts.real(centred), complex_parts.imag(centred)
        squares = arithmetic.add(*map(arithmetic.square, parts))
    else:
        squares = arithmetic.square(centred)
    squares = _masked(squares, where, _scalar(0, type_of(squares).dtype))
    real = type_of(squares).dtype
    divisor = (
        arithmetic.sub(count, _scalar(correction, real))
        if where is not None
        else _scalar(count - correction, real)
    )
    if where is None:
        divisor = _scalar(np.nan, real) if divisor < 0 or (divisor == 0 and correction) else divisor
    result = arithmetic.div(broadcasting.reduce_sum(squares, axes), divisor)
    kept = (
        real
        if dtype is None and computed.name not in _HALF
        else (dtype if dtype is not None else computed)
    )
    kept = real if kept.kind == "c" else kept
    return _finished(convert(result, type_of(result), kept), axes, keepdims)


def var(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: None = None,
    correction: float | None = None,
) -> Any:
    """Variance of the elements of `a` along `axis`: the mean square of their distance from their mean.

    The sum is divided by the number of elements less `ddof` (or `correction`).

    >>> var(np.arange(4))
    Array(1.25, dtype=float32)
    """
    chosen = ddof if correction is None else correction
    return _var(a, _static_axis(axis), _static_dtype(dtype, "var"), chosen, keepdims, where)


def std(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: None = None,
    correction: float | None = None,
) -> Any:
    """Standard deviation of the elements of `a` along `axis`: the root of their variance."""
    return elementwise.sqrt(
        var(a, axis, dtype, None, ddof, keepdims, where=where, correction=correction)
    )


def average(
    a: Any, axis: Axis = None, weights: Any = None, returned: bool = False, keepdims: bool = False
) -> Any:
    """Mean of `a` along `axis`, weighted by `weights`; with `returned`, also the sum of the weights."""
    if weights is None:
        result = mean(a, axis, keepdims=keepdims)
        aval = aval_of("average", a)
        count = int(np.prod([aval.shape[i] for i in _axes(axis, aval.ndim)], dtype=np.int64))
        total = broadcasting.broadcast_in_dim(
            _scalar(count, type_of(result).dtype), type_of(result).shape, ()
        )
    else:
        a_aval, w_aval = aval_of("average", a), aval_of("average", weights, 1)
        if a_aval.shape != w_aval.shape:
            axes = _axes(axis, a_aval.ndim)
            if w_aval.shape != tuple(a_aval.shape[i] for i in axes):
                raise ShapeError(
                    "jnp.average needs weights for the axes that it reduces.",
                    got=[f"a: {a_aval.text()}", f"weights: {w_aval.text()}"],
                )
            weights = broadcasting.broadcast_in_dim(weights, a_aval.shape, sorted(axes))
        total = sum(weights, axis, keepdims=keepdims)
        result = elementwise.divide(
            sum(elementwise.multiply(a, weights), axis, keepdims=keepdims), total
        )
    return (result, total) if returned else result


# Counting and NaN -----------------------------------------------------------------------------------------


def count_nonzero(a: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """How many elements of `a` along `axis` are nonzero.

    >>> count_nonzero(np.array([1, 0, 2]))
    Array(2, dtype=int32)
    """
    return _count_nonzero(a, _static_axis(axis), keepdims)


@numpy_function(static=("axis", "keepdims"))
def _count_nonzero(a: Any, axis: Any, keepdims: bool) -> Any:
    chosen = _as_bool("count_nonzero", a)
    axes = _axes(axis, type_of(chosen).ndim)
    wide = convert(chosen, type_of(chosen), dtypes.default_int_dtype())
    return _finished(broadcasting.reduce_sum(wide, axes), axes, keepdims)


def _without_nan(a: Any, neutral: Callable[[Any], Any]) -> Any:
    aval = aval_of("nan functions", a)
    if not dtypes.is_inexact(aval.dtype):
        return a
    return _masked(a, elementwise.logical_not(elementwise.isnan(a)), neutral(aval.dtype))


def nansum(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """Sum of the elements of `a` along `axis`, NaN counting as 0."""
    return sum(
        _without_nan(a, lambda d: _scalar(0, d)), axis, dtype, None, keepdims, initial, where
    )


def nanprod(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """Product of the elements of `a` along `axis`, NaN counting as 1."""
    return prod(
        _without_nan(a, lambda d: _scalar(1, d)), axis, dtype, None, keepdims, initial, where
    )


def nanmax(
    a: Any,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The largest element of `a` along `axis` that is not NaN; NaN if all are."""
    found = max(_without_nan(a, _lowest), axis, None, keepdims, initial, where)
    return _nan_where_all_are(a, found, axis, keepdims) if initial is None else found


def nanmin(
    a: Any,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The smallest element of `a` along `axis` that is not NaN; NaN if all are."""
    found = min(_without_nan(a, _highest), axis, None, keepdims, initial, where)
    return _nan_where_all_are(a, found, axis, keepdims) if initial is None else found


def _nan_where_all_are(a: Any, found: Any, axis: Axis, keepdims: bool) -> Any:
    dtype = type_of(found).dtype
    if not dtypes.is_inexact(dtype):
        return found
    none = all(elementwise.isnan(a), axis, keepdims=keepdims)
    return _masked(found, elementwise.logical_not(none), _scalar(np.nan, dtype))


def nanmean(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    where: Any = None,
) -> Any:
    """Mean of the elements of `a` along `axis` that are not NaN; NaN if all are."""
    aval = aval_of("nanmean", a)
    if not dtypes.is_inexact(aval.dtype):
        return mean(a, axis, dtype, None, keepdims, where=where)
    present = elementwise.logical_not(elementwise.isnan(a))
    if where is not None:
        present = elementwise.logical_and(present, where)
    return mean(
        _without_nan(a, lambda d: _scalar(0, d)), axis, dtype, None, keepdims, where=present
    )


# Cumulative -----------------------------------------------------------------------------------------------


def _cumulative(name: str, apply: Callable[..., Any]) -> Any:
    @numpy_function(static=("axis", "dtype"))
    def run(a: Any, axis: int | None, dtype: Any) -> Any:
        aval = aval_of(name, a)
        if axis is None:
            a, axis = movement.reshape(a, (aval.size,)), 0
        else:
            axis = canonical_axis(axis, aval.ndim)
        wanted = dtype or (dtypes.default_int_dtype() if aval.dtype == np.bool_ else aval.dtype)
        return apply(
            convert(
                a, type_of(a), wanted, aval.weak_type and dtype is None and wanted == aval.dtype
            ),
            axis,
        )

    return run


_cumsum = _cumulative("cumsum", cumulative.cumsum)
_cumprod = _cumulative("cumprod", cumulative.cumprod)


def cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """Sums of the elements of `a` up to each one along `axis`, or in the raveled array.

    >>> cumsum(np.arange(4))
    Array([0, 1, 3, 6], dtype=int32)
    """
    return _cumsum(a, _static_axis(axis), _static_dtype(dtype, "cumsum"))


def cumprod(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """Products of the elements of `a` up to each one along `axis`, or in the raveled array.

    >>> cumprod(np.arange(1, 5))
    Array([ 1,  2,  6, 24], dtype=int32)
    """
    return _cumprod(a, _static_axis(axis), _static_dtype(dtype, "cumprod"))


def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None
) -> Any:
    """Sum of the diagonal number `offset` of the matrices of `a` over two axes."""
    return sum(diagonal(a, offset, axis1, axis2), -1, dtype)


def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Whether all elements of `a` and `b` are close, as `isclose` says."""
    return all(elementwise.isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Whether `a1` and `a2` have one shape and equal elements."""
    first, second = aval_of("array_equal", a1), aval_of("array_equal", a2, 1)
    if first.shape != second.shape:
        return broadcasting.broadcast_in_dim(np.False_, (), ())
    same = elementwise.equal(a1, a2)
    if equal_nan:
        same = elementwise.logical_or(
            same, elementwise.logical_and(elementwise.isnan(a1), elementwise.isnan(a2))
        )
    return all(same)


__all__ = [
    "all", "allclose", "amax", "amin", "any", "argmax", "argmin", "array_equal", "average", "count_nonzero", "cumprod",
    "cumsum", "max", "mean", "min", "nanmax", "nanmean", "nanmin", "nanprod", "nansum", "prod", "ptp", "std", "sum",
    "trace", "var",
]  # fmt: skip
