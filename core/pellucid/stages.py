"""The stages of a jitted function under the names of `jax.stages`."""

from pellucid.higher_order.stages import (
    ArgInfo,
    Compiled,
    CompilerOptions,
    Lowered,
    Traced,
    Wrapped,
)

__all__ = ["ArgInfo", "Compiled", "CompilerOptions", "Lowered", "Traced", "Wrapped"]
