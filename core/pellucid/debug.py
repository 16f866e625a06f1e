"""Looking into running programs, under the names of `jax.debug`."""

from pellucid._machine.callbacks.breakpoints import breakpoint as breakpoint
from pellucid._machine.callbacks.debug import (
    debug_callback as callback,
    debug_log as log,
    debug_print as print,
)
from pellucid._machine.callbacks.drawing import visualize_sharding as visualize_sharding
from pellucid._machine.callbacks.inspection import (
    inspect_array_sharding as inspect_array_sharding,
    visualize_array_sharding as visualize_array_sharding,
)
from pellucid._machine.ir.effects import (
    DebugEffect as DebugEffect,
    OrderedDebugEffect as OrderedDebugEffect,
)
