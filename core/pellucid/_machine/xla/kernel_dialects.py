"""MLIR's own dialects that kernels for devices use. Importing it loads the classes of their operations."""

from __future__ import annotations

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import arith, math, scf

__all__ = ["arith", "ir", "math", "scf"]
