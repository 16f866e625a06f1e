"""Trees of arrays as vectors, under the names of `jax.flatten_util`."""

from pellucid._machine.transforms.ravel import ravel_pytree as ravel_pytree
