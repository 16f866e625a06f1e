"""The older name of `jit` under the names of `jax.experimental.pjit`."""

from pellucid.higher_order.jitted import jit as pjit

__all__ = ["pjit"]
