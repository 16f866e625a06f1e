"""The debugger, `pellucid.debugger`: steps through jitted code by the user's lines, forwards and backwards.

`debug(f)(x)` gives a session to step through; `find(f, isnan)(x)` gives the place where a value first goes wrong, in the
backward pass too; `prompt(f)(x)` opens a prompt in a terminal.
"""

from pellucid_kernel.debug.finders import Finding, debug, exceeds, find, isinf, isnan
from pellucid_kernel.debug.prompt import Prompt, prompt
from pellucid_kernel.debug.session import Breakpoint, Difference, Session, StackFrame

__all__ = [
    "Breakpoint", "Difference", "Finding", "Prompt", "Session", "StackFrame", "debug", "exceeds", "find", "isinf", "isnan",
    "prompt",
]  # fmt: skip
