"""What the lowerings of kernels to devices have in common: going over programs, and operations of MLIR's own dialects."""
