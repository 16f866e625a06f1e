"""Kernels lowered to Triton, for GPUs: the names that kernels use (`language`), the lowering, and its call in a program."""
