"""Random vectors and matrices that need a decomposition."""

from __future__ import annotations

import operator

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    DTypeLike,
    Ints,
    ShapeError,
    public_functions,
)
from pellucid._machine.primitives.families import COMPLEX, FLOATING
from pellucid._machine.primitives.movement import broadcast_shapes
from pellucid._machine.sharding import PartitionSpec, Sharding
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array

from .sampling import (
    check_parameters,
    checked_dtype,
    laid_out,
    sampler,
    shape_of_result,
    single_key,
)
from .uniform import default_float, normal

_METHODS = ("cholesky", "eigh", "svd")


def multivariate_normal(
    key: Array, mean: ArrayLike, cov: ArrayLike, shape: int | Ints | None = None, dtype: DTypeLike | None = None, method: str = "cholesky", *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:  # fmt: skip
    """Normal vectors with means `mean` [..., n] and covariances `cov` [..., n, n], which broadcast.

    `shape` is that of the samples without n, by default that of the parameters. `method` decomposes the covariance:
    "cholesky" is the quickest, "eigh" and "svd" also take singular matrices. Result: `(*shape, n)`.
    Raises: ArgumentValueError for an unknown method, ShapeError for parameters that don't fit.

    >>> pl.random.multivariate_normal(pl.random.key(0), jnp.zeros(2), jnp.eye(2), (3,)).shape
    (3, 2)
    """
    typed = single_key("multivariate_normal", key)
    if method not in _METHODS:
        raise ArgumentValueError(
            'the method of multivariate_normal must be "cholesky", "eigh" or "svd".',
            got=f"method: {method!r}",
        )
    dtype = checked_dtype("multivariate_normal", dtype, FLOATING, default_float())
    mean, cov = check_parameters("multivariate_normal", mean=mean, cov=cov)
    means, matrices = type_of(mean).shape, type_of(cov).shape
    if not means or len(matrices) < 2 or matrices[-2:] != (means[-1], means[-1]):
        raise ShapeError(
            "multivariate_normal needs means of shape [..., n] and covariances of shape [..., n, n].",
            got=[f"mean: {type_of(mean).text()}", f"cov: {type_of(cov).text()}"],
        )
    batch = broadcast_shapes(means[:-1], matrices[:-2])
    samples = batch if shape is None else shape_of_result("multivariate_normal", shape)
    if broadcast_shapes(samples, batch) != samples:
        raise ShapeError(
            "multivariate_normal needs a shape that the parameters broadcast to.",
            got=f"shape: {samples}, parameters: {batch}",
        )
    return laid_out(
        out_sharding, _multivariate_normal, typed, (*samples, means[-1]), dtype, mean, cov, method
    )


@sampler("shape", "dtype", "method")
def _multivariate_normal(
    key: Array, shape: tuple[int, ...], dtype: np.dtype, mean: Array, cov: Array, method: str
) -> Array:
    computed = jnp.promote_types(dtype, "float32")  # decompositions take no half precision
    mean, cov = jnp.astype(mean, computed), jnp.astype(cov, computed)
    if method == "cholesky":
        factor = jnp.linalg.cholesky(cov)
    elif method == "eigh":
        values, vectors = jnp.linalg.eigh(cov)
        factor = vectors * jnp.sqrt(values[..., None, :])
    else:
        vectors, values, _ = jnp.linalg.svd(cov)
        factor = vectors * jnp.sqrt(values[..., None, :])
    samples = mean + jnp.einsum("...ij,...j->...i", factor, normal(key, shape, computed))
    return jnp.astype(samples, dtype)


def orthogonal(
    key: Array, n: int, shape: int | Ints = (), dtype: DTypeLike | None = None, m: int | None = None, *, out_sharding: Sharding | PartitionSpec | None = None
) -> Array:  # fmt: skip
    """Matrices [*shape, n, m] with orthonormal columns or rows, uniformly distributed; unitary ones if complex.

    `m` is `n` by default. They are the Q of normal matrices, its columns' signs as those of R's diagonal (Mezzadri,
    "How to generate random matrices from the classical compact groups", 2007).
    Raises: ArgumentValueError for a dtype that is neither floating nor complex.

    >>> q = pl.random.orthogonal(pl.random.key(0), 3)
    >>> bool(jnp.allclose(q @ q.T, jnp.eye(3), atol=1e-5))
    True
    """
    typed = single_key("orthogonal", key)
    dtype = checked_dtype("orthogonal", dtype, FLOATING | COMPLEX, default_float())
    rows = operator.index(n)
    columns = rows if m is None else operator.index(m)
    batch = shape_of_result("orthogonal", shape)
    return laid_out(out_sharding, _orthogonal, typed, (*batch, rows, columns), dtype)


@sampler("shape", "dtype")
def _orthogonal(key: Array, shape: tuple[int, ...], dtype: np.dtype) -> Array:
    *batch, n, m = shape
    matrices = normal(key, (*batch, max(n, m), min(n, m)), dtype)
    q, r = jnp.linalg.qr(jnp.astype(matrices, jnp.promote_types(dtype, "float32")))
    diagonal = jnp.diagonal(r, 0, -2, -1)
    q = q * jnp.expand_dims(jnp.sign(diagonal), -2)
    return jnp.astype(jnp.matrix_transpose(q) if n < m else q, dtype)


__all__ = ["multivariate_normal", "orthogonal"]

public_functions(__all__, globals())
