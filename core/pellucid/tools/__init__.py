"""Commands, under the names of `jax.tools`."""
