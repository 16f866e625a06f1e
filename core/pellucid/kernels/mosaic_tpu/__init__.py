"""Kernels lowered to Mosaic, for TPUs: the module of a kernel, the rules of its operations, and its call in a program."""
