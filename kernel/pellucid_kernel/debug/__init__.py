"""The debugger, `pellucid.debugger`: steps through jitted code by source lines, forwards and backwards.

`debug(f)(x)` gives a session to step through; `find(f, isnan)(x)` gives the place where a value first goes wrong, in the
backward pass too; `diverge` compares two ways of running; `explain_grad(f)(x)` says why a gradient is NaN or zero;
`post_mortem()` opens the call that failed; `prompt(f)(x)` opens a prompt in a terminal; `record(f)(x)` keeps a run to be
looked at later; `repeat(f, n)(x)` says which operation of n runs isn't equal to the bit,
`first_difference(f)(x)` which rounds otherwise alone than compiled; in a block `with watch("isnan"):` whatever runs stops at the first
value of a kind. In JupyterLab its own debugger stops.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pellucid_kernel.debug.debug_session import Breakpoint, DebugSession, StackFrame
    from pellucid_kernel.debug.differences import Difference, FirstDifference
    from pellucid_kernel.debug.divergence import Divergence, diverge
    from pellucid_kernel.debug.failures import post_mortem
    from pellucid_kernel.debug.finders import (
        Finding,
        debug,
        exceeds,
        find,
        first_difference,
        isinf,
        isnan,
    )
    from pellucid_kernel.debug.gradients import Explanation, explain_grad
    from pellucid_kernel.debug.recordings import record
    from pellucid_kernel.debug.repetition import Repetition, Unrepeated, repeat
    from pellucid_kernel.debug.terminal import Prompt, prompt, watch

__all__ = [
    "Breakpoint", "Difference", "Divergence", "Explanation", "Finding", "FirstDifference", "Prompt", "Repetition", "DebugSession", "StackFrame", "Unrepeated", "debug", "diverge",
    "exceeds", "explain_grad", "find", "first_difference", "isinf", "isnan", "post_mortem", "prompt", "record", "repeat", "watch",
]  # fmt: skip
_MODULES = (
    "differences",
    "divergence",
    "failures",
    "finders",
    "gradients",
    "recordings",
    "repetition",
    "debug_session",
    "terminal",
)


def __getattr__(name: str) -> Any:
    # A kernel loads this package when it starts, but the core, which its modules need, only when a cell needs it.
    if name in __all__:
        for module in _MODULES:
            value = vars(importlib.import_module(f"{__name__}.{module}")).get(name)
            if value is not None:
                globals()[name] = value
                return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
