"""Kernels on Hopper GPUs, lowered to Mosaic's programs: blocks in the registers of 128 threads, references in memories of the GPU."""
