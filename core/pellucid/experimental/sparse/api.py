"""Creation of sparse arrays in all formats, under the names of `jax.experimental.sparse.api`."""

from pellucid.experimental.sparse.creation import (
    empty,
    eye,
    todense,
    todense_p,
)

__all__ = [
    "empty",
    "eye",
    "todense",
    "todense_p",
]
