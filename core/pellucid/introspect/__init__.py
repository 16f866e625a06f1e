"""Plain records of core's programs, functions, memory, errors and events.

A record is a copy that shares no state with core, and `record.to_dict()` is ready for JSON. Estimates, and facts read
from compiled programs, are in `pellucid.analysis`, which returns records too.
"""

from pellucid._machine.base import Cell, find_cells_with
from pellucid._machine.transforms.residuals import saved_residuals
from pellucid.introspect import schema
from pellucid.introspect.devices import set_cpu_device_count
from pellucid.introspect.failures import error
from pellucid.introspect.functions import function, functions
from pellucid.introspect.memory import clear_failed_frames, delete_array, memory
from pellucid.introspect.misses import misses
from pellucid.introspect.sharding import sharding
from pellucid.introspect.stream import stream, stream_to_file
from pellucid.introspect.values import array_key, array_of, short_text

__all__ = [
    "Cell", "array_key", "array_of", "clear_failed_frames", "delete_array", "error", "find_cells_with", "function", "functions", "memory",
    "misses", "saved_residuals", "schema", "set_cpu_device_count", "sharding", "short_text", "stream",
    "stream_to_file",
]  # fmt: skip
