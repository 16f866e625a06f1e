"""What kernels of Hopper GPUs are written with: memories, barriers, copies, matrix products, threads, pipelines."""
