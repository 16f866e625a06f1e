"""References as `jax._src.state`."""
