"""Softmax and its logarithm, standardization: functions of all elements along axes."""

from __future__ import annotations

from typing import Any

from pellucid import numpy as jnp
from pellucid.base import ArgumentValueError, ArrayLike
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.log_sums import log_softmax, softmax
from pellucid.numpy.promotion import promote_dtypes_inexact
from pellucid.numpy.reductions import Axis, static_axis
from pellucid.primitives.arithmetic import rsqrt
from pellucid.xla.arrays import Array


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

    `algorithm`: "fast" computes the variance as `mean(x²) - mean(x)²` in one pass, "compensated" from deviations.
    Raises: ArgumentValueError for another algorithm.

    The result has the shape of `x`, and its dtype if that is floating-point or complex, else the default floating
    dtype. Raises, too: AxisError for an axis out of bounds, DtypeError for PRNG keys, ArgumentTypeError for lists and
    strings.

    >>> standardize(jnp.array([1.0, 3.0])).round(2)
    Array([-1.,  1.], dtype=float32)
    """
    if algorithm not in ("fast", "compensated"):
        raise ArgumentValueError(
            'nn.standardize has the algorithms "fast" and "compensated".', got=f"got {algorithm!r}"
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
    if mean is None:
        mean = jnp.mean(x, axis, keepdims=True, where=where)
    if variance is None:
        if is_fast:
            variance = jnp.mean(jnp.square(x), axis, keepdims=True, where=where) - jnp.square(mean)
        else:
            variance = jnp.mean(jnp.square(x - mean), axis, keepdims=True, where=where)
    return jnp.subtract(x, mean) * rsqrt(jnp.asarray(variance + epsilon))


__all__ = ["log_softmax", "softmax", "standardize"]
