"""Derivatives by the stored elements of sparse arrays, under the names of `jax.experimental.sparse.ad`."""

from pellucid.experimental.sparse.derivatives import (
    grad,
    jacfwd,
    jacobian,
    jacrev,
    value_and_grad,
)

__all__ = [
    "grad",
    "jacfwd",
    "jacobian",
    "jacrev",
    "value_and_grad",
]
