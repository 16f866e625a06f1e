"""Dirichlet's distribution."""

from __future__ import annotations

from typing import Any

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import ArrayLike, ShapeError
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.promotion import promote_dtypes_inexact
from pellucid.scipy.special import gammaln, xlogy

_ROUNDING = 1e-5
"""Largest distance of a sum of probabilities from 1; SciPy's is smaller, and meant for float64 only."""


@numpy_function
def logpdf(x: Any, alpha: Any) -> Array:
    """Logarithm of the probability density at `x` [k, ...] of Dirichlet's distribution with parameters `alpha` [k].

    With k - 1 rows, the last one is what is left of 1. -inf outside of the simplex, NaN unless `alpha` is positive.
    Raises: ShapeError for another number of rows.

    >>> print(f"{logpdf(np.array([0.25, 0.75]), np.array([2.0, 1.0])):.4f}")
    -0.6931
    """
    x, alpha = promote_dtypes_inexact("stats.dirichlet.logpdf", x, alpha)
    shape, count = type_of(x).shape, type_of(alpha).shape
    if len(count) != 1 or not shape or shape[0] not in (count[0], count[0] - 1):
        raise ShapeError(
            "stats.dirichlet.logpdf needs parameters alpha of shape [k], and k or k - 1 rows x.",
            got=[f"x: {type_of(x).text()}", f"alpha: {type_of(alpha).text()}"],
        )
    x, alpha = jnp.asarray(x), jnp.asarray(alpha)
    if shape[0] == count[0] - 1:
        x = jnp.concatenate([x, 1 - jnp.sum(x, 0, keepdims=True)])
    scale = gammaln(jnp.sum(alpha)) - jnp.sum(gammaln(alpha))
    column = alpha.reshape(-1, *[1] * (len(shape) - 1))
    value = scale + jnp.sum(xlogy(column - 1, x), 0)
    inside = jnp.all((x >= 0) & (x <= 1), 0) & (jnp.abs(jnp.sum(x, 0) - 1) < _ROUNDING)
    return jnp.where(jnp.all(alpha > 0), jnp.where(inside, value, -np.inf), np.nan)


@numpy_function
def pdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """Probability density at `x` [k, ...] of Dirichlet's distribution with parameters `alpha` [k]; see `logpdf`.

    Raises: ShapeError as `logpdf` does.

    >>> print(f"{pdf(np.array([0.25, 0.75]), np.array([2.0, 1.0])):.4f}")
    0.5000
    """
    return jnp.exp(logpdf(x, alpha))


__all__ = ["logpdf", "pdf"]
