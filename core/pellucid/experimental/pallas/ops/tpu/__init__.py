"""Operations whose kernels sum over the last axes of their grid, in scratch, as TPUs do."""
