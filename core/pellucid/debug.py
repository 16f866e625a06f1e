"""Looking into running programs, under the names of `jax.debug`."""

from pellucid.callbacks.debug import (
    breakpoint,
    debug_callback as callback,
    debug_log as log,
    debug_print as print,
)
from pellucid.ir.effects import DebugEffect, OrderedDebugEffect

__all__ = ["DebugEffect", "OrderedDebugEffect", "breakpoint", "callback", "log", "print"]
