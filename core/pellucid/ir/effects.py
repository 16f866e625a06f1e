"""Effects of equations, and which of them must keep their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class Effect:
    """Something an equation does besides computing its results.

    `ordered` effects of one kind happen in program order (a token is threaded through the program);
    `control_flow_allowed`, `remat_allowed` and `custom_derivatives_allowed` say where such an equation may stand,
    `batched_control_flow_allowed` whether it may stand where `vmap` runs what an element of the batch doesn't choose.
    `keeps_equation` says whether it happens though nobody uses the equation's results.
    """

    ordered = False
    control_flow_allowed = False
    remat_allowed = False
    custom_derivatives_allowed = False
    batched_control_flow_allowed = False
    keeps_equation = True

    def __repr__(self) -> str:
        return type(self).__name__


@dataclass(frozen=True, repr=False)
class NamedAxisEffect(Effect):
    """Use of a named axis; it disappears where the axis is bound."""

    name: Any
    control_flow_allowed = remat_allowed = custom_derivatives_allowed = True

    def __repr__(self) -> str:
        return f"NamedAxisEffect({self.name})"


class DebugEffect(Effect):
    """Output for whoever looks; nothing in the program depends on it."""

    control_flow_allowed = remat_allowed = custom_derivatives_allowed = True
    batched_control_flow_allowed = True


class OrderedDebugEffect(DebugEffect):
    """Debug output that comes in program order."""

    ordered = True


class IOEffect(Effect):
    """Side effects of a Python function."""

    control_flow_allowed = True


class OrderedIOEffect(IOEffect):
    """Side effects of a Python function, in program order."""

    ordered = True


class NoDCEEffect(Effect):
    """Nothing happens, but the equation stays in the program."""

    control_flow_allowed = remat_allowed = custom_derivatives_allowed = True
    batched_control_flow_allowed = True


class StateEffect(Effect):
    """Use of a reference; it ends where the reference does, so a program without references as inputs has none."""

    control_flow_allowed = remat_allowed = custom_derivatives_allowed = True


class ReadEffect(StateEffect):
    """A reference is read."""

    keeps_equation = False


class WriteEffect(StateEffect):
    """A reference is written."""


class AccumEffect(StateEffect):
    """Something is added to a reference."""


class AllocationEffect(StateEffect):
    """A reference is made."""

    keeps_equation = False


read_effect = ReadEffect()
write_effect = WriteEffect()
accum_effect = AccumEffect()
allocation_effect = AllocationEffect()
debug_effect = DebugEffect()
ordered_debug_effect = OrderedDebugEffect()
no_dce_effect = NoDCEEffect()
io_effect = IOEffect()
ordered_io_effect = OrderedIOEffect()

Effects = frozenset[Effect]
no_effects: Effects = frozenset()
