"""Quantiles, percentiles and medians, with and without NaN."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    UnsupportedError,
    dtypes,
    public_functions,
)
from pellucid._machine.ir import ShapedArray
from pellucid._machine.primitives.conversion import size_scalar
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array

from .annotations import OutSharding
from .compiled import numpy_function
from .creation import asarray, full
from .cumulative import cumsum
from .elementwise import ceil, clip, floor
from .manipulation import broadcast_to, canonical_axes, expand_dims, reshape, where
from .number_kinds import isnan
from .promotion import aval_of, canonical, convert, refuse_out
from .reductions import Axis, any, argmax, static_axis, sum
from .selection import take_along_axis
from .sorting import argsort, sort

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


def _check_arguments(
    name: str, a: ArrayLike, q: ArrayLike, method: str, weights: ArrayLike | None
) -> None:
    aval, q_aval = aval_of(name, a), aval_of(name, q, 1)
    if aval.dtype.kind == "c" or q_aval.dtype.kind == "c":
        raise ArgumentValueError(
            f"jnp.{name} has no order for complex numbers.",
            got=f"a: {aval.text()}, q: {q_aval.text()}",
        )
    if q_aval.ndim > 1:
        raise ArgumentValueError(
            f"jnp.{name} needs a number or a vector `q`.", got=f"q: {q_aval.text()}"
        )
    if method not in _METHODS:
        raise ArgumentValueError(
            f"jnp.{name} has no such method.",
            got=f"got {method!r}",
            do=f"Use one of {', '.join(_METHODS)}.",
        )
    if weights is not None and method != "inverted_cdf":
        raise UnsupportedError(
            f"jnp.{name} has weights with method 'inverted_cdf' only.", got=f"method {method!r}"
        )


@numpy_function(static=("name", "axis", "method", "keepdims", "skips_nan", "scale"))
def _quantile(
    name: str,
    a: ArrayLike,
    q: ArrayLike,
    weights: ArrayLike | None,
    axis: Axis,
    method: str,
    keepdims: bool,
    skips_nan: bool,
    scale: float,
) -> Any:
    a, aval = canonical(name, a)
    dtype = dtypes.to_inexact_dtype(aval.dtype)
    q_aval = type_of(q)
    computed = dtype if dtype.itemsize >= 4 else np.dtype(np.float32)
    q = convert(
        q,
        q_aval,
        dtypes.promote_types(computed, q_aval.dtype)
        if q_aval.dtype.kind == "f" and not q_aval.weak_type
        else computed,
    )
    if scale != 1:
        q = q / np.asarray(scale, type_of(q).dtype)[()]
    axes = canonical_axes(axis, aval.ndim)
    keepdims_shape = tuple([1 if i in axes else n for i, n in enumerate(aval.shape)])
    rest = tuple([n for i, n in enumerate(aval.shape) if i not in axes])
    size = math.prod(aval.shape[i] for i in axes)
    order = (*axes, *(i for i in range(aval.ndim) if i not in axes))
    x = convert(a, aval, dtype if dtype.itemsize > 1 else computed)
    x = reshape(x.transpose(order), (size, *rest))
    if weights is not None:
        weights = _weights_by_element(name, weights, aval, axes, order, x.shape)
    result = _quantiles_along_first(x, q, weights, method, skips_nan)  # [*q.shape, *rest]
    if keepdims:
        result = reshape(result, (*q_aval.shape, *keepdims_shape))
    return convert(result, type_of(result), dtype)


def _weights_by_element(
    name: str,
    weights: Any,
    aval: ShapedArray,
    axes: tuple[int, ...],
    order: tuple[int, ...],
    shape: Any,
) -> Any:
    """`weights` in the shape of the elements that are sorted."""
    weights_aval = aval_of(name, weights)
    weights = convert(weights, weights_aval, dtypes.to_inexact_dtype(weights_aval.dtype))
    if weights_aval.shape != aval.shape:
        if len(axes) != 1 or weights_aval.shape != (aval.shape[axes[0]],):
            raise ArgumentValueError(
                f"jnp.{name} needs weights of the array's shape, or a vector along one axis.",
                got=[f"a: {aval.text()}", f"weights: {weights_aval.text()}"],
            )
        weights = reshape(weights, tuple(-1 if i == axes[0] else 1 for i in range(aval.ndim)))
        weights = broadcast_to(weights, aval.shape)
    return reshape(weights.transpose(order), shape)


def _quantiles_along_first(x: Array, q: Any, weights: Any, method: str, skips_nan: bool) -> Any:
    """Quantiles `q` of `x` [size, *rest] along its first axis: [*q.shape, *rest]."""
    size, *rest = x.shape
    if not size:
        return full((*q.shape, *rest), np.nan, x.dtype)
    has_nan = any(isnan(x), axis=0)
    q = reshape(q, (*q.shape, *[1] * len(rest)))
    if weights is None:
        x = sort(x, axis=0)
        count = sum(~isnan(x), axis=0) if skips_nan else size_scalar(size, np.dtype(np.int32))
        last = clip(asarray(count, dtype=q.dtype) - 1, 0)
        result = _interpolate(x, q, last, method)
    else:
        order = argsort(x, axis=0)
        x, weights = (take_along_axis(each, order, axis=0) for each in (x, weights))
        cumulative = cumsum(where(isnan(x), 0, weights) if skips_nan else weights, axis=0)
        size_axis = -1 - len(rest)
        is_reached = cumulative >= expand_dims(q, size_axis) * cumulative[-1]
        result = _elements(x, argmax(is_reached, axis=size_axis))
    if skips_nan:
        return result
    return where(has_nan, np.asarray(np.nan, x.dtype)[()], result)


def _elements(x: Array, positions: Array) -> Any:
    """Elements of `x` [size, *rest] at `positions` [*batch, *rest] along its first axis."""
    rest = x.shape[1:]
    shape = (*positions.shape[: positions.ndim - len(rest)], *rest)
    batch = shape[: len(shape) - len(rest)]
    rows = reshape(broadcast_to(positions.astype(np.int32), shape), (math.prod(batch), *rest))
    return reshape(take_along_axis(x, rows, axis=0), shape)


def _interpolate(x: Array, q: ArrayLike, last: ArrayLike, method: str) -> Any:
    """Elements of `x`, sorted along its first axis, at q times `last`, or between two of them."""
    if method == "inverted_cdf":
        return _elements(x, clip(ceil(q * (last + 1)) - 1, 0, last))
    position = clip(q * last, 0, last)
    low = floor(position)
    weight = position - low
    if method == "lower":
        return _elements(x, low)
    below, above = _elements(x, low), _elements(x, ceil(position))
    if method == "higher":
        return above
    if method == "nearest":
        return where(weight <= 0.5, below, above)
    if method == "midpoint":
        return (below + above) * np.asarray(0.5, x.dtype)[()]
    weight = weight.astype(x.dtype) if x.dtype.itemsize >= 4 else weight
    return below * (1 - weight) + above * weight


def _public(
    name: str,
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis,
    out: Any,
    method: str,
    keepdims: bool,
    weights: ArrayLike | None,
    scale: float,
) -> Any:
    refuse_out(name, out)
    _check_arguments(name, a, q, method, weights)
    return _quantile(
        name,
        a,
        q,
        weights,
        static_axis(axis),
        method,
        bool(keepdims),
        name.startswith("nan"),
        scale,
    )


def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Quantiles `q`, numbers from 0 to 1, of the elements of `a` along `axis`; NaN where there is one among them.

    Result: shape `(*q.shape, ...)` with the rest of the shape of `a`. `method`, between two elements: "linear",
    "lower", "higher", "midpoint", "nearest", or "inverted_cdf", which can have `weights`.
    Raises: ArgumentValueError for complex numbers, an unknown method, and `q` of two dimensions.

    >>> quantile(jnp.array([1.0, 2.0, 3.0, 4.0]), 0.5)
    Array(2.5, dtype=float32)
    """
    return _public("quantile", a, q, axis, out, method, keepdims, weights, 1)


def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Like `quantile`, of the elements that aren't NaN.

    Result: shape `(*q.shape, ...)` with the rest of the shape of `a`; dtype of `a`, float32 for integers and bools
    (float64 for 64-bit ones). `method` and `weights` are those of `quantile`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for complex numbers, an unknown `method` and `q` of two dimensions, UnsupportedError for `out`,
    and for `weights` with another `method` than "inverted_cdf".

    >>> nanquantile(jnp.array([1.0, jnp.nan, 3.0]), 0.5)
    Array(2., dtype=float32)
    """
    return _public("nanquantile", a, q, axis, out, method, keepdims, weights, 1)


def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Like `quantile`, with `q` in per cent.

    Result: shape `(*q.shape, ...)` with the rest of the shape of `a`; dtype of `a`, float32 for integers and bools
    (float64 for 64-bit ones). `method` and `weights` are those of `quantile`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for complex numbers, an unknown `method` and `q` of two dimensions, UnsupportedError for `out`,
    `out_sharding`, and for `weights` with another `method` than "inverted_cdf".

    >>> percentile(jnp.array([1.0, 2.0, 3.0]), 50)
    Array(2., dtype=float32)
    """
    if out_sharding is not None:
        raise UnsupportedError("jnp.percentile has no out_sharding yet.", do="Use reshard.")
    return _public("percentile", a, q, axis, out, method, keepdims, weights, 100)


def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Like `percentile`, of the elements that aren't NaN.

    Result: shape `(*q.shape, ...)` with the rest of the shape of `a`; dtype of `a`, float32 for integers and bools
    (float64 for 64-bit ones). `method` and `weights` are those of `quantile`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for complex numbers, an unknown `method` and `q` of two dimensions, UnsupportedError for `out`,
    and for `weights` with another `method` than "inverted_cdf".

    >>> nanpercentile(jnp.array([1.0, jnp.nan, 3.0]), 50)
    Array(2., dtype=float32)
    """
    return _public("nanpercentile", a, q, axis, out, method, keepdims, weights, 100)


def median(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """Median of the elements of `a` along `axis`: of an even number, the mean of the middle two.

    Result: shape of `a` without the axes `axis`, or with size 1 there if `keepdims`; dtype of `a`, float32 for integers
    and bools (float64 for 64-bit ones). NaN where there is one among the elements, and for no elements.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for complex numbers, UnsupportedError for `out`.

    >>> median(jnp.array([3.0, 1.0, 2.0]))
    Array(2., dtype=float32)
    """
    return _public("median", a, 0.5, axis, out, "midpoint", keepdims, None, 1)


def nanmedian(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """Like `median`, of the elements that aren't NaN.

    Result: shape of `a` without the axes `axis`, or with size 1 there if `keepdims`; dtype of `a`, float32 for integers
    and bools (float64 for 64-bit ones).
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for complex numbers, UnsupportedError for `out`.

    >>> nanmedian(jnp.array([3.0, jnp.nan, 2.0]))
    Array(2.5, dtype=float32)
    """
    return _public("nanmedian", a, 0.5, axis, out, "midpoint", keepdims, None, 1)


__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]

public_functions(__all__, globals())
