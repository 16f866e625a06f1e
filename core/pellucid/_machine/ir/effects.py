"""Effects, which say what an equation does besides computing its results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class Effect:
    """Something an equation does besides computing its results.

    `ordered` effects of one kind happen in program order (a token is threaded through the program);
    `control_flow_allowed` says whether such an equation may stand in a branch or a loop, `batched_control_flow_allowed`
    whether it may where `vmap` runs what an element of the batch doesn't choose.
    `keeps_equation` says whether it happens though nobody uses the equation's results, `may_repeat` whether it may
    happen again where `checkpoint` computes a value for a second time.

    >>> pl.make_jaxpr(lambda x: pl.debug.print("{}", x))(1.0).effects
    frozenset({DebugEffect})
    """

    ordered = False
    control_flow_allowed = False
    batched_control_flow_allowed = False
    keeps_equation = True
    may_repeat = True

    def __repr__(self) -> str:
        return type(self).__name__


@dataclass(frozen=True, repr=False)
class NamedAxisEffect(Effect):
    """Use of a named axis; it disappears where the axis is bound."""

    name: Any
    control_flow_allowed = True

    def __repr__(self) -> str:
        return f"NamedAxisEffect({self.name})"


class DebugEffect(Effect):
    """Output for whoever looks; nothing in the program depends on it.

    >>> [effect] = pl.make_jaxpr(lambda x: pl.debug.print("{}", x))(1.0).effects
    >>> isinstance(effect, pl.debug.DebugEffect), effect.ordered
    (True, False)
    """

    control_flow_allowed = True
    batched_control_flow_allowed = True


class OrderedDebugEffect(DebugEffect):
    """Debug output that comes in program order.

    >>> pl.make_jaxpr(lambda x: pl.debug.print("{}", x, ordered=True))(1.0).effects
    frozenset({OrderedDebugEffect})
    """

    ordered = True


class IOEffect(Effect):
    """Side effects of a Python function."""

    may_repeat = False
    control_flow_allowed = True


class OrderedIOEffect(IOEffect):
    """Side effects of a Python function, in program order."""

    ordered = True


class NoDCEEffect(Effect):
    """Nothing happens, but the equation stays in the program."""

    control_flow_allowed = True
    batched_control_flow_allowed = True


class GuardEffect(Effect):
    """A condition that raises where it fails. Branches that elements of a batch choose apart go without, and warn (`unguarded`)."""

    control_flow_allowed = True
    batched_control_flow_allowed = True


class StateEffect(Effect):
    """Use of a reference; it ends where the reference does, so a program without references as inputs has none."""

    control_flow_allowed = True


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


guard_effect = GuardEffect()


io_effect = IOEffect()


ordered_io_effect = OrderedIOEffect()


Effects = frozenset[Effect]


no_effects: Effects = frozenset()
