"""The one window for tools: programs, executables, memory and events of core as plain records.

A record is a copy: nothing in it changes core, and core holds nothing of it. `record.to_dict()` is ready for JSON.
"""

from pellucid.introspect import schema
from pellucid.introspect.comparisons import diff, ladder, lens
from pellucid.introspect.compiled import compiled
from pellucid.introspect.memory import memory
from pellucid.introspect.misses import misses
from pellucid.introspect.program import program
from pellucid.introspect.stream import stream, stream_to_file
from pellucid.transforms.residuals import saved_residuals

__all__ = [
    "compiled", "diff", "ladder", "lens", "memory", "misses", "program", "saved_residuals", "schema", "stream",
    "stream_to_file",
]  # fmt: skip
