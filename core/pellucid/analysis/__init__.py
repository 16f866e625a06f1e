"""What is estimated of programs, or read from their compiled form, as records: costs, exchanges, memory, layouts."""

from pellucid.analysis.comparisons import diff, ladder, lens
from pellucid.analysis.compiled import compiled
from pellucid.analysis.function_sharding import sharding
from pellucid.analysis.programs import function_program, program

__all__ = ["compiled", "diff", "function_program", "ladder", "lens", "program", "sharding"]
