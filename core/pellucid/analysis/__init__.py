"""Records of estimates for programs, and of facts read from their compiled form: costs, collectives, memory, shardings."""

from pellucid.analysis.array_values import array_slice, array_values
from pellucid.analysis.comparisons import diff, ladder, lens
from pellucid.analysis.compiled import compiled
from pellucid.analysis.function_sharding import sharding
from pellucid.analysis.function_views import function_view
from pellucid.analysis.hlo import Module as HloModule
from pellucid.analysis.kernel_grids import kernel_grid, kernel_grids
from pellucid.analysis.kernel_memories import kernel_memories
from pellucid.analysis.kernel_timelines import kernel_timelines, machine_timelines
from pellucid.analysis.kernels import Kernel, kernels
from pellucid.analysis.layouts import DeclaredMesh
from pellucid.analysis.machines import Machine
from pellucid.analysis.passes import passes
from pellucid.analysis.placement_search import fastest
from pellucid.analysis.programs import program, timed
from pellucid.analysis.uneven_cuts import UnevenCut, uneven_cuts
from pellucid.analysis.what_if import Placement, Search, WhatIf

__all__ = [
    "DeclaredMesh", "HloModule", "Kernel", "Machine", "Placement", "Search", "UnevenCut", "WhatIf", "array_slice", "array_values", "compiled", "diff", "fastest", "function_view", "kernel_grid", "kernel_grids", "kernel_memories", "kernel_timelines", "kernels", "ladder", "lens", "machine_timelines", "passes", "program", "sharding", "timed", "uneven_cuts",
]  # fmt: skip
