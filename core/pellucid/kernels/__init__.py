"""Hand-written kernels: programs over the blocks of arrays, run for each point of a grid."""
