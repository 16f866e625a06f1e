"""The normal distribution of vectors."""

from __future__ import annotations

import math
from typing import Any

import pellucid.numpy as jnp
from pellucid._machine.base import ArrayLike, ShapeError, UnsupportedError, public_functions
from pellucid._machine.linalg.cholesky import cholesky
from pellucid._machine.linalg.triangular import triangular_solve
from pellucid._machine.primitives.movement import broadcast_shapes
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.promotion import promote_dtypes_inexact


@numpy_function
def _logpdf(x: Any, mean: Any, cov: Any) -> Array:
    x, mean, cov = map(
        jnp.asarray, promote_dtypes_inexact("stats.multivariate_normal", x, mean, cov)
    )
    if not mean.ndim:
        return -0.5 * (jnp.square(x - mean) / cov + jnp.log(2 * math.pi * cov))
    n = mean.shape[-1]
    if not cov.ndim:
        away = x - mean
        return -0.5 * (jnp.sum(jnp.square(away), -1) / cov + n * jnp.log(2 * math.pi * cov))
    if cov.ndim < 2 or cov.shape[-2:] != (n, n):
        raise ShapeError(
            "stats.multivariate_normal needs a mean [..., n] and covariances [..., n, n].",
            got=[f"mean: {type_of(mean).text()}", f"cov: {type_of(cov).text()}"],
        )
    factor = cholesky(cov)
    away = x - mean
    batch = broadcast_shapes(away.shape[:-1], factor.shape[:-2])
    factors = jnp.broadcast_to(factor, (*batch, n, n))
    solved = triangular_solve(
        factors, jnp.broadcast_to(away, (*batch, n))[..., None], left_side=True, lower=True
    )
    logs = jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)), -1)
    return -0.5 * jnp.sum(jnp.square(solved[..., 0]), -1) - 0.5 * n * math.log(2 * math.pi) - logs


def logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: Any = None) -> Array:
    """Logarithm of the probability density at `x` [..., n] of the normal distribution of vectors.

    `mean` is [..., n] and `cov` [..., n, n] or a variance; NaN unless the covariance is positive definite. A scalar mean
    is that of each element. Raises: UnsupportedError for `allow_singular`; ShapeError for shapes that don't fit.

    >>> print(f"{logpdf(np.ones(2), np.zeros(2), 2.0):.4f}")
    -3.0310
    """
    if allow_singular is not None:
        raise UnsupportedError(
            "stats.multivariate_normal.logpdf has no allow_singular.", got=f"got {allow_singular!r}"
        )
    return _logpdf(x, mean, cov)


def pdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array:
    """Probability density at `x` [..., n] of the normal distribution of vectors; see `logpdf`.

    Raises: ShapeError for shapes that don't fit.

    >>> print(f"{pdf(np.zeros(2), np.zeros(2), np.eye(2)):.4f}")
    0.1592
    """
    return jnp.exp(logpdf(x, mean, cov))


__all__ = ["logpdf", "pdf"]

public_functions(__all__, globals())
