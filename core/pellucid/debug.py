"""Looking into running programs, under the names of `jax.debug`."""

from pellucid.callbacks.debug import (
    breakpoint,
    debug_callback as callback,
    debug_log as log,
    debug_print as print,
)
from pellucid.callbacks.inspection import inspect_array_sharding, visualize_array_sharding
from pellucid.ir.effects import DebugEffect, OrderedDebugEffect
from pellucid.sharding.drawing import visualize_sharding

__all__ = [
    "DebugEffect",
    "OrderedDebugEffect",
    "breakpoint",
    "callback",
    "inspect_array_sharding",
    "log",
    "print",
    "visualize_array_sharding",
    "visualize_sharding",
]
