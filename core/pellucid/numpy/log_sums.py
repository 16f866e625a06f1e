"""Logarithms of sums and means of exponentials, and softmax, without overflow."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pellucid._machine.base import ArrayLike, cached, dtypes, library_code, public_functions
from pellucid._machine.higher_order.custom_jvp import custom_jvp
from pellucid._machine.primitives.conversion import stop_gradient
from pellucid._machine.primitives.families import scalar
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array

from .compiled import numpy_function
from .elementwise import absolute, exp, log, sign
from .manipulation import broadcast_arrays, broadcast_to, canonical_axes, where as choose
from .number_kinds import isfinite
from .promotion import aval_of, check_promotion, promote_dtypes_inexact
from .reductions import Axis, any, max, static_axis, sum


def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Any:
    """`log(sum(b * exp(a)))` along `axis`, computed relative to the largest element; `b` are weights.

    Elements where `where` is false are left out. A negative sum gives NaN; with `return_sign` the result is
    (logarithm of the absolute value, sign).

    Results have the shape of `a` without `axis`, or with size 1 there if `keepdims`, and the floating-point or complex
    dtype that `a` and `b` promote to.
    Raises: AxisError for an axis out of bounds, ShapeError for a `b` or `where` that does not fit, DtypeError for PRNG
    keys, ArgumentTypeError for lists and strings.

    >>> logsumexp(jnp.array([0.0, 0.0]))
    Array(0.6931472, dtype=float32)
    """
    return _logsumexp(a, b, where, static_axis(axis), bool(keepdims), bool(return_sign))


@numpy_function(static=("axis", "keepdims", "return_sign"))
def _logsumexp(
    a: ArrayLike,
    b: ArrayLike | None,
    where: ArrayLike | None,
    axis: Axis,
    keepdims: bool,
    return_sign: bool,
) -> Any:
    if b is None:
        [x] = promote_dtypes_inexact("logsumexp", a)
    else:
        check_promotion("logsumexp", a, b)
        x, b = broadcast_arrays(*promote_dtypes_inexact("logsumexp", a, b))
    axes = canonical_axes(axis, type_of(x).ndim)
    lowest = np.asarray(-np.inf, type_of(x).dtype)[()]
    counted = x.real if b is None else choose(b != 0, x.real, -np.inf)
    largest = max(counted, axis=axes, keepdims=True, where=where, initial=-np.inf)
    largest = stop_gradient(choose(isfinite(largest), largest, 0))
    # Elements left out get the lowest value: their exponentials must not overflow, as derivatives multiply them by 0.
    if where is not None:
        x = choose(where, x, lowest)
    if b is not None:  # the derivative by a weight of 0 is exp(x), so a finite one is kept
        x = choose((b != 0) | isfinite(exp(x - largest)), x, lowest)
        # Where all weights are 0 the result is -inf whatever `a` is, so it has no derivative by `a`; that by a weight is infinite.
        has_terms = any(b != 0, axis=axes, keepdims=True, where=where)
        x = choose(has_terms, x, stop_gradient(x))
    terms = exp(x - largest)
    if b is not None:
        terms = terms * b
    total = sum(terms, axis=axes, keepdims=keepdims, where=where)
    offset = largest if keepdims else largest.squeeze(axes)
    signs = sign(total)
    is_complex = type_of(total).dtype.kind == "c"
    if return_sign or (b is not None and not is_complex):
        result = log(absolute(total)) + offset
        if return_sign:
            return result, signs
        return choose(signs < 0, np.asarray(np.nan, type_of(result).dtype)[()], result)
    return log(total) + offset


def logmeanexp(
    x: ArrayLike, axis: Axis = None, where: ArrayLike | None = None, keepdims: bool = False
) -> Array:
    """`log(mean(exp(x)))` along `axis`, computed relative to the largest element.

    The result has the shape of `x` without `axis`, or with size 1 there if `keepdims`, and its dtype if that is
    floating-point or complex, else the default floating dtype.
    Raises: AxisError for an axis out of bounds, ShapeError for a `where` that does not fit, DtypeError for PRNG keys,
    ArgumentTypeError for lists and strings.

    >>> logmeanexp(jnp.array([1.0, 1.0]))
    Array(1., dtype=float32)
    """
    return _logmeanexp(x, static_axis(axis), where, bool(keepdims))


@numpy_function(static=("axis", "keepdims"))
def _logmeanexp(x: ArrayLike, axis: Axis, where: ArrayLike | None, keepdims: bool) -> Any:
    total = logsumexp(x, axis, None, keepdims, where=where)
    shape = type_of(x).shape
    if where is None:
        count = math.prod(shape[i] for i in canonical_axes(axis, len(shape)))
        return total - log(scalar(count, type_of(total).dtype))
    counted = broadcast_to(where, shape)
    count = sum(
        counted, axis=axis, keepdims=keepdims, dtype=dtypes.to_floating_dtype(type_of(total).dtype)
    )
    return total - log(count)


def softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """`exp(x) / sum(exp(x))` along `axis`, computed relative to the largest element.

    Elements where `where` is false are left out, and 0.

    The result has the shape of `x`, and its dtype if that is floating-point or complex, else the default floating
    dtype.
    Raises: AxisError for an axis out of bounds, ShapeError for a `where` that does not fit, DtypeError for PRNG keys,
    ArgumentTypeError for lists and strings.

    >>> softmax(jnp.array([0.0, 0.0]))
    Array([0.5, 0.5], dtype=float32)
    """
    aval_of("nn.softmax", x)
    return _softmax(x, where, static_axis(axis))


@numpy_function(static="axis")
def _softmax(x: ArrayLike, where: ArrayLike | None, axis: Axis) -> Any:
    [x] = promote_dtypes_inexact("nn.softmax", x)
    return _softmax_along(axis)(x, where)


@cached(1 << 8)
def _softmax_along(axis: Axis) -> Any:
    """The softmax of floats along `axis` with its derivative: one function for all calls, so that equal layers are equal."""

    @custom_jvp
    def softmax(x: ArrayLike, where: ArrayLike | None) -> Any:
        largest = max(x, axis, where=where, initial=-np.inf, keepdims=True)
        terms = exp(x - largest)
        total = sum(terms, axis, where=where, keepdims=True)
        result = terms / total
        return result if where is None else choose(where, result, 0)

    @softmax.defjvp
    @library_code
    def _(primals: Any, tangents: Any) -> Any:
        (_, where), t = primals, tangents[0]
        y = softmax(*primals)
        slope = y * (t - sum(y * t, axis, where=where, keepdims=True))
        return y, slope if where is None else choose(where, slope, 0)

    return softmax


def log_softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """`log(softmax(x))` along `axis`; -inf where `where` is false.

    The result has the shape of `x`, and its dtype if that is floating-point or complex, else the default floating
    dtype.
    Raises: AxisError for an axis out of bounds, ShapeError for a `where` that does not fit, DtypeError for PRNG keys,
    ArgumentTypeError for lists and strings.

    >>> log_softmax(jnp.array([0.0, 0.0]))
    Array([-0.6931472, -0.6931472], dtype=float32)
    """
    aval_of("nn.log_softmax", x)
    return _log_softmax(x, where, static_axis(axis))


@numpy_function(static="axis")
def _log_softmax(x: ArrayLike, where: ArrayLike | None, axis: Axis) -> Any:
    [x] = promote_dtypes_inexact("nn.log_softmax", x)
    chosen = x if where is None else choose(where, x, -np.inf)
    shifted = chosen - stop_gradient(max(chosen, axis, where=where, initial=-np.inf, keepdims=True))
    total = log(sum(exp(shifted), axis, where=where, keepdims=True))
    result = shifted - total
    return result if where is None else choose(where, result, -np.inf)


__all__ = ["log_softmax", "logmeanexp", "logsumexp", "softmax"]

public_functions(__all__, globals())
