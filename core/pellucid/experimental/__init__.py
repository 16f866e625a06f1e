"""Modules under the names of `jax.experimental`."""
