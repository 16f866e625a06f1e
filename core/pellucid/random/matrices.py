"""Random vectors and matrices that need a decomposition."""

from __future__ import annotations

from typing import Any

from pellucid.base.errors import ArgumentValueError, UnsupportedError
from pellucid.random.sampling import single_key

_DECOMPOSITIONS = {"cholesky": "cholesky", "eigh": "eigh", "svd": "svd"}


def multivariate_normal(
    key: Any, mean: Any, cov: Any, shape: Any = None, dtype: Any = None, method: str = "cholesky", *,
    out_sharding: Any = None,
) -> Any:  # fmt: skip
    """Normal vectors with means `mean` and covariances `cov`, by the decomposition `method` of the covariance.

    Raises: UnsupportedError, as long as there is no `numpy.linalg`.
    """
    single_key("multivariate_normal", key)
    if method not in _DECOMPOSITIONS:
        raise ArgumentValueError(
            'the method of multivariate_normal is "cholesky", "eigh" or "svd".',
            got=f"method: {method!r}",
        )
    raise UnsupportedError(
        f"multivariate_normal needs `numpy.linalg.{_DECOMPOSITIONS[method]}`, which isn't there yet.",
        do="Multiply normal numbers by a factor of the covariance that you have: mean + normal(key, (n,)) @ factor.T",
    )


def orthogonal(
    key: Any, n: int, shape: Any = (), dtype: Any = None, m: int | None = None, *, out_sharding: Any = None
) -> Any:  # fmt: skip
    """Orthogonal matrices, uniformly distributed.

    Raises: UnsupportedError, as long as there is no `numpy.linalg`.
    """
    single_key("orthogonal", key)
    raise UnsupportedError("orthogonal needs `numpy.linalg.qr`, which isn't there yet.")


__all__ = ["multivariate_normal", "orthogonal"]
