"""Operations that are written as kernels, under the names of `jax.experimental.pallas.ops`.

They run compiled on every device. docs/kernel-operations.md has a table of them, with formulas and limits.
"""
