"""Arrays in files, under the names of `jax.experimental.array_serialization`."""
