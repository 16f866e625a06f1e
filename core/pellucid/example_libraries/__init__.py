"""Small libraries of layers and optimizers, under the names of `jax.example_libraries`."""
