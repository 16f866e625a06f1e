"""Trees of arrays as vectors, under the names of `jax.flatten_util`."""

from pellucid.transforms.ravel import ravel_pytree as ravel_pytree
