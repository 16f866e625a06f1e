"""Sparse arrays of random numbers, under the names of `jax.experimental.sparse.random`."""

from pellucid.experimental.sparse.creation import (
    random_bcoo,
)

__all__ = [
    "random_bcoo",
]
