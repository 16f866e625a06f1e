"""MLIR dialects with a class for each operation, which come with jaxlib, as submodules: `dialects.stablehlo.AddOp`."""

from __future__ import annotations

import sys

from pellucid._machine.xla import mlir

__path__: list[str] = []  # the dialects are submodules, though not files of this package

for _name in (
    "arith", "builtin", "chlo", "func", "math", "memref", "mpmd", "scf", "sdy", "sparse_tensor", "stablehlo", "vector",
):  # fmt: skip
    globals()[_name] = sys.modules[f"{__name__}.{_name}"] = mlir.operation_classes(_name)
