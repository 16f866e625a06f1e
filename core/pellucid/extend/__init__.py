"""Parts of the core that libraries build on, under the names of `jax.extend`."""
