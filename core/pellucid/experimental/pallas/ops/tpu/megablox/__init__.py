"""Products of matrices in groups of rows, each group with a matrix of its own."""

from pellucid.experimental.pallas.ops.tpu.megablox.ops import gmm as gmm

__all__ = ["gmm"]
