"""Estimates of programs and readings of their compiled form, as records: costs, exchanges, memory, layouts."""

from pellucid.analysis.comparisons import diff, ladder, lens
from pellucid.analysis.compiled import compiled
from pellucid.analysis.function_sharding import sharding
from pellucid.analysis.function_views import function_view
from pellucid.analysis.hlo import Module as HloModule
from pellucid.analysis.kernels import Kernel, kernels
from pellucid.analysis.programs import program

__all__ = [
    "HloModule", "Kernel", "compiled", "diff", "function_view", "kernels", "ladder", "lens", "program", "sharding",
]  # fmt: skip
