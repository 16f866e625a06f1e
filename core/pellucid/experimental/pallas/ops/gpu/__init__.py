"""Operations whose kernels become Triton's on NVIDIA's GPUs: a program's sums are loops within it."""
