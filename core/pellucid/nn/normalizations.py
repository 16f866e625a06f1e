"""Softmax and its logarithm, standardization: functions of all elements along axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid import numpy as jnp
from pellucid.base.errors import ArgumentValueError
from pellucid.higher_order.custom_jvp import custom_jvp
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.promotion import promote_dtypes_inexact
from pellucid.numpy.reductions import Axis, static_axis
from pellucid.primitives.arithmetic import rsqrt
from pellucid.primitives.conversion import stop_gradient


def softmax(x: Any, axis: Axis = -1, where: Any = None) -> Any:
    """`exp(x) / sum(exp(x))` along `axis`, computed relative to the largest element.

    Elements where `where` is false are left out, and 0.

    >>> softmax(jnp.array([0.0, 0.0]))
    Array([0.5, 0.5], dtype=float32)
    """
    return _softmax(x, where, static_axis(axis))


@numpy_function(static="axis")
def _softmax(x: Any, where: Any, axis: Any) -> Any:
    [x] = promote_dtypes_inexact("nn.softmax", x)

    @custom_jvp
    def of(x: Any) -> Any:
        largest = jnp.max(x, axis, where=where, initial=-np.inf, keepdims=True)
        terms = jnp.exp(x - largest)
        total = jnp.sum(terms, axis, where=where, keepdims=True)
        result = terms / total
        return result if where is None else jnp.where(where, result, 0)

    @of.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        y, [t] = of(*primals), tangents
        return y, y * (t - jnp.sum(y * t, axis, where=where, keepdims=True))

    return of(x)


def log_softmax(x: Any, axis: Axis = -1, where: Any = None) -> Any:
    """`log(softmax(x))` along `axis`; -inf where `where` is false.

    >>> log_softmax(jnp.array([0.0, 0.0]))
    Array([-0.6931472, -0.6931472], dtype=float32)
    """
    return _log_softmax(x, where, static_axis(axis))


@numpy_function(static="axis")
def _log_softmax(x: Any, where: Any, axis: Any) -> Any:
    [x] = promote_dtypes_inexact("nn.log_softmax", x)
    chosen = x if where is None else jnp.where(where, x, -np.inf)
    shifted = chosen - stop_gradient(
        jnp.max(chosen, axis, where=where, initial=-np.inf, keepdims=True)
    )
    total = jnp.log(jnp.sum(jnp.exp(shifted), axis, where=where, keepdims=True))
    result = shifted - total
    return result if where is None else jnp.where(where, result, -np.inf)


def standardize(
    x: Any,
    axis: Axis = -1,
    mean: Any = None,
    variance: Any = None,
    epsilon: Any = 1e-5,
    where: Any = None,
    *,
    algorithm: str = "fast",
) -> Any:
    """`(x - mean) / sqrt(variance + epsilon)`, by default those along `axis`.

    `algorithm`: "fast" computes the variance as `mean(x²) - mean(x)²` in one pass, "compensated" from deviations.
    Raises: ArgumentValueError for another algorithm.

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
    x: Any, mean: Any, variance: Any, epsilon: Any, where: Any, axis: Any, is_fast: bool
) -> Any:
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
