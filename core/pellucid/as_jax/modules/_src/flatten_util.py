"""Trees as vectors, as `jax._src.flatten_util`."""

from pellucid.flatten_util import ravel_pytree

__all__ = ["ravel_pytree"]
