"""Densities estimated from samples by Gaussian kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pellucid.numpy as jnp
from pellucid import random
from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    ShapeError,
    UnsupportedError,
    public_functions,
    register_pytree_node_class,
)
from pellucid._machine.linalg.cholesky import cholesky
from pellucid._machine.linalg.triangular import triangular_solve
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.log_sums import logsumexp
from pellucid.numpy.promotion import promote_dtypes_inexact
from pellucid.scipy.special import ndtr

_FIELDS = ("neff", "dataset", "weights", "covariance", "inv_cov")


def _log_kernels(points: Any, centres: Array, covariance: Array) -> Array:
    """Logarithms [m, n] of normal densities of `points` [d, m] around `centres` [d, n]."""
    factor = cholesky(covariance)
    away = points[:, :, None] - centres[:, None, :]
    d, m, n = away.shape
    solved = triangular_solve(factor, away.reshape(d, m * n), left_side=True, lower=True)
    logs = jnp.sum(jnp.log(jnp.diagonal(factor))) + 0.5 * d * math.log(2 * math.pi)
    return (-0.5 * jnp.sum(jnp.square(solved), 0) - logs).reshape(m, n)


@register_pytree_node_class
class gaussian_kde:
    """The density of samples `dataset` [d, n] (or [n]), each the centre of a Gaussian kernel.

    `bw_method` is "scott" (the default), "silverman", a factor or a function of this object that gives one: the
    covariance of kernels is that of the samples times the factor's square. `weights` [n] are those of samples.
    Source: Scott, Multivariate Density Estimation, 1992. Raises: ArgumentValueError for less than two samples and for an
    unknown `bw_method`, ShapeError for arrays of other shapes.

    >>> kde = gaussian_kde(jnp.array([1.0, 2.0, 3.0]))
    >>> print(f"{float(kde.evaluate(2.0)[0]):.3f}")
    0.318
    """

    neff: Any
    dataset: Any
    weights: Any
    covariance: Any
    inv_cov: Any

    def __init__(
        self, dataset: ArrayLike, bw_method: str | float | Callable[[gaussian_kde], Any] | None = None, weights: Any = None
    ) -> None:  # fmt: skip
        [dataset] = promote_dtypes_inexact("stats.gaussian_kde", dataset)
        self.dataset = jnp.atleast_2d(dataset)
        if self.dataset.ndim != 2 or type_of(self.dataset).dtype.kind == "c":
            raise ShapeError(
                "stats.gaussian_kde needs real samples [d, n].", got=type_of(self.dataset).text()
            )
        if self.n < 2:
            raise ArgumentValueError(
                "stats.gaussian_kde needs at least two samples.", got=type_of(self.dataset).text()
            )
        dtype = self.dataset.dtype
        if weights is None:
            self.weights = jnp.full(self.n, 1 / self.n, dtype)
        else:
            weights = jnp.atleast_1d(jnp.asarray(weights, dtype))
            if weights.shape != (self.n,):
                raise ShapeError(
                    "stats.gaussian_kde needs one weight for each sample.",
                    got=[f"dataset: {type_of(self.dataset).text()}", f"weights: {type_of(weights).text()}"],
                )  # fmt: skip
            self.weights = weights / jnp.sum(weights)
        self.neff = 1 / jnp.sum(jnp.square(self.weights))
        spread = jnp.atleast_2d(
            jnp.cov(self.dataset, rowvar=True, bias=False, aweights=self.weights)
        )
        self.covariance = spread * jnp.square(self._factor(bw_method))
        self.inv_cov = jnp.linalg.inv(self.covariance)

    def _factor(self, bw_method: Any) -> Any:
        if bw_method is None or isinstance(bw_method, str):
            if bw_method not in (None, "scott", "silverman"):
                raise ArgumentValueError(
                    "stats.gaussian_kde: bw_method must be 'scott', 'silverman', a number or a function.",
                    got=f"got {bw_method!r}",
                )
            scale = (self.d + 2) / 4 if bw_method == "silverman" else 1.0
            return jnp.power(self.neff * scale, -1 / (self.d + 4))
        return bw_method(self) if callable(bw_method) else bw_method

    @property
    def d(self) -> int:
        """Number of dimensions."""
        return self.dataset.shape[0]

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.dataset.shape[1]

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        """The arrays of the estimate."""
        return tuple(getattr(self, name) for name in _FIELDS), None

    @classmethod
    def tree_unflatten(cls, aux_data: None, children: Any) -> gaussian_kde:
        """The estimate with the arrays `children`."""
        kde = object.__new__(cls)
        for name, value in zip(_FIELDS, children, strict=True):
            setattr(kde, name, value)
        return kde

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in _FIELDS)
        return f"gaussian_kde({fields})"

    def _points(self, points: Any) -> Array:
        points = jnp.atleast_2d(jnp.asarray(points, self.dataset.dtype))
        if points.ndim == 2 and points.shape == (1, self.d) and self.d > 1:
            points = points.T  # the only point is a vector
        if points.ndim != 2 or points.shape[0] != self.d:
            raise ShapeError(
                f"stats.gaussian_kde needs points [{self.d}, m].", got=type_of(points).text()
            )
        return points

    def logpdf(self, x: ArrayLike) -> Array:
        """Logarithms [m] of the density at points [d, m]."""
        logs = _log_kernels(self._points(x), self.dataset, self.covariance)
        return logsumexp(logs, axis=1, b=self.weights)

    def evaluate(self, points: ArrayLike) -> Array:
        """The density [m] at points [d, m]."""
        return jnp.exp(self.logpdf(points))

    def pdf(self, x: ArrayLike) -> Array:
        """The density [m] at points [d, m]."""
        return self.evaluate(x)

    def __call__(self, points: ArrayLike) -> Array:
        """The density [m] at points [d, m]."""
        return self.evaluate(points)

    def integrate_gaussian(self, mean: Any, cov: Any) -> Array:
        """The integral of the density times that of the normal distribution with `mean` [d] and `cov` [d, d]."""
        mean = jnp.atleast_1d(jnp.squeeze(jnp.asarray(mean, self.dataset.dtype)))
        cov = jnp.atleast_2d(jnp.asarray(cov, self.dataset.dtype))
        if mean.shape != (self.d,) or cov.shape != (self.d, self.d):
            raise ShapeError(
                f"stats.gaussian_kde.integrate_gaussian needs a mean [{self.d}] and covariances [{self.d}, {self.d}].",
                got=[f"mean: {type_of(mean).text()}", f"cov: {type_of(cov).text()}"],
            )
        logs = _log_kernels(mean[:, None], self.dataset, self.covariance + cov)
        return jnp.sum(jnp.exp(logs[0]) * self.weights)

    def integrate_box_1d(self, low: ArrayLike, high: ArrayLike) -> Array:
        """The probability between `low` and `high`, of one-dimensional samples."""
        if self.d != 1:
            raise ShapeError(
                "stats.gaussian_kde.integrate_box_1d needs samples of one dimension.", got=type_of(self.dataset).text()
            )  # fmt: skip
        deviation = jnp.sqrt(self.covariance[0, 0])
        ends = [ndtr((jnp.asarray(end) - self.dataset[0]) / deviation) for end in (low, high)]
        return jnp.sum(self.weights * (ends[1] - ends[0]))

    def integrate_kde(self, other: gaussian_kde) -> Array:
        """The integral of the product of two densities with equally many dimensions."""
        if other.d != self.d:
            raise ShapeError(
                "stats.gaussian_kde.integrate_kde needs samples of equally many dimensions.",
                got=[
                    f"self: {type_of(self.dataset).text()}",
                    f"other: {type_of(other.dataset).text()}",
                ],
            )
        logs = _log_kernels(self.dataset, other.dataset, self.covariance + other.covariance)
        return jnp.sum(jnp.exp(logs) * self.weights[:, None] * other.weights)

    def resample(self, key: Array, shape: tuple[int, ...] = ()) -> Array:
        """Draws [d, *shape] from the density."""
        index_key, noise_key = random.split(key)
        index = random.choice(index_key, self.n, shape=shape, p=self.weights)
        noise = random.multivariate_normal(
            noise_key, jnp.zeros(self.d, self.dataset.dtype), self.covariance, shape=shape, dtype=self.dataset.dtype
        )  # fmt: skip
        return self.dataset[:, index] + jnp.moveaxis(noise, -1, 0)

    def integrate_box(
        self, low_bounds: ArrayLike, high_bounds: ArrayLike, maxpts: Any = None
    ) -> Array:
        """Not supported. Raises: UnsupportedError."""
        raise UnsupportedError(
            "stats.gaussian_kde.integrate_box isn't supported.", do="Use integrate_box_1d in one dimension."
        )  # fmt: skip

    def set_bandwidth(self, bw_method: Any = None) -> Array:
        """Not supported, because it would change this object. Raises: UnsupportedError."""
        raise UnsupportedError(
            "stats.gaussian_kde.set_bandwidth isn't supported.",
            do="Make another one with `bw_method`.",
        )


__all__ = ["gaussian_kde"]

public_functions(__all__, globals())
