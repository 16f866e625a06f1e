"""Softmax and its logarithm, standardization: functions of all elements along axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import ArgumentValueError, ArrayLike, public_functions
from pellucid._machine.primitives.arithmetic import rsqrt
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.log_sums import log_softmax, softmax
from pellucid.numpy.promotion import promote_dtypes_inexact
from pellucid.numpy.reductions import Axis, static_axis, wide
from pellucid.numpy.statistics import absolute_squares


def standardize(
    x: ArrayLike,
    axis: Axis = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: ArrayLike = 1e-5,
    where: ArrayLike | None = None,
    *,
    algorithm: str = "fast",
) -> Array:
    """`(x - mean) / sqrt(variance + epsilon)`, by default those along `axis`.

    The variance is computed from deviations, in two passes. The algorithms differ where `mean` is given and is not that
    of `x`: "fast" means `mean(x²) - mean²`, but at least 0, "stable" `mean((x - mean)²)`. NaN where squares leave the range
    (in single precision those of deviations beyond 1e19): scale such numbers first.
    Raises: ArgumentValueError for another algorithm.

    The result has the shape of `x`, and its dtype if that is floating-point or complex, else the default floating
    dtype. Raises, too: AxisError for an axis out of bounds, DtypeError for PRNG keys, ArgumentTypeError for lists and
    strings.

    >>> standardize(jnp.array([1.0, 3.0])).round(2)
    Array([-1.,  1.], dtype=float32)
    """
    if algorithm not in ("fast", "stable"):
        raise ArgumentValueError(
            'nn.standardize has the algorithms "fast" and "stable".', got=f"got {algorithm!r}"
        )
    return _standardize(x, mean, variance, epsilon, where, static_axis(axis), algorithm == "fast")


@numpy_function(static=("axis", "is_fast"))
def _standardize(
    x: Any,
    mean: Any,
    variance: Any,
    epsilon: Any,
    where: Any,
    axis: Any,
    is_fast: bool,
) -> Array:
    [x] = promote_dtypes_inexact("nn.standardize", x)

    def mean_of(elements: Any) -> Array:
        return jnp.mean(elements, axis, keepdims=True, where=where)

    def keep_marked(elements: Any) -> Array:
        return elements if where is None else jnp.where(where, elements, 0)

    if mean is None:
        deviations = x - mean_of(x)
        deviations -= mean_of(deviations)  # removes the rounding error of the mean
    else:
        deviations = jnp.subtract(x, mean)
    if variance is not None:
        return deviations * rsqrt(jnp.asarray(variance + epsilon))
    if mean is None or not is_fast:
        variance = mean_of(_squares(keep_marked(deviations)))
    else:
        own_mean = mean_of(x)
        moved = (own_mean - mean) * jnp.conj(own_mean + mean)
        variance = jnp.maximum(mean_of(_squares(keep_marked(x - own_mean))) + moved.real, 0)
    # Where squares leave the range, nothing is known of the deviation: NaN, as 1 over an infinite one would be 0.
    inverse = rsqrt(jnp.where(jnp.isposinf(variance), np.nan, variance + epsilon))
    scale = inverse.astype(jnp.result_type(deviations, epsilon))
    if where is None:
        return deviations * scale
    # The derivative by `scale` multiplies excluded deviations by 0: only finite ones enter the product. Where `where`
    # keeps no element, results and derivatives are NaN.
    is_factor = where | jnp.isfinite(deviations) | jnp.isnan(scale)
    product = jnp.where(is_factor, deviations, 0) * scale
    return jnp.where(is_factor, product, deviations)


def _squares(deviations: Array) -> Any:
    """Squares of absolute values, in a dtype that holds those of narrow ones."""
    dtype = type_of(deviations).dtype
    return absolute_squares(deviations.astype(wide(dtype)))


__all__ = ["log_softmax", "softmax", "standardize"]

public_functions(__all__, globals())
