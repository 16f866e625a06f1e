"""The stages of a jitted function under the names of `jax.stages`."""

from pellucid.higher_order.stages import ArgInfo, Compiled, Lowered, Traced

__all__ = ["ArgInfo", "Compiled", "Lowered", "Traced"]
