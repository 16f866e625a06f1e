"""The one window for tools: programs, executables, memory and events of core as plain records.

A record is a copy: nothing in it changes core, and core holds nothing of it. `record.to_dict()` is ready for JSON.
"""

from pellucid.base.source import Cell, find_cells_with
from pellucid.introspect import schema
from pellucid.introspect.comparisons import diff, ladder, lens
from pellucid.introspect.compiled import compiled
from pellucid.introspect.devices import set_cpu_device_count
from pellucid.introspect.failures import error
from pellucid.introspect.functions import function_program, functions
from pellucid.introspect.memory import clear_failed_frames, delete_array, memory
from pellucid.introspect.misses import misses
from pellucid.introspect.program import program
from pellucid.introspect.sharding import sharding
from pellucid.introspect.stream import stream, stream_to_file
from pellucid.introspect.values import short_text
from pellucid.transforms.residuals import saved_residuals

__all__ = [
    "Cell", "clear_failed_frames", "compiled", "delete_array", "diff", "error", "find_cells_with",
    "function_program", "functions", "ladder", "lens", "memory", "misses", "program",
    "saved_residuals", "schema", "set_cpu_device_count", "sharding", "short_text", "stream",
    "stream_to_file",
]  # fmt: skip
