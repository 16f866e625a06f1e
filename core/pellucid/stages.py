"""The stages of a jitted function under the names of `jax.stages`."""

from pellucid._machine.higher_order.stages import (
    ArgInfo as ArgInfo,
    Compiled as Compiled,
    CompilerOptions as CompilerOptions,
    Lowered as Lowered,
    Traced as Traced,
    Wrapped as Wrapped,
)
