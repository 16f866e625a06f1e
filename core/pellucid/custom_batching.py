"""Functions with their own batching, under the names of `jax.custom_batching`."""

from pellucid._machine.higher_order.custom_vmap import (
    custom_vmap as custom_vmap,
    sequential_vmap as sequential_vmap,
)
