"""Interpreters as `jax._src.interpreters`."""
