"""Effects: what an equation does besides computing its results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class Effect:
    """Something an equation does besides computing its results.

    Effects that are `ordered` happen in program order within their kind (a token is threaded through the program).
    `control_flow_allowed` says whether such an equation may be in a branch or a loop; `batched_control_flow_allowed`
    whether it may be there under `vmap`, where all elements of the batch run all branches. `keeps_equation` says
    whether it happens even if the results are unused; `may_repeat` whether it may happen again when `checkpoint`
    recomputes a value.

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
    """Use of a named axis; it is removed where the axis is bound."""

    name: Any
    control_flow_allowed = True

    def __repr__(self) -> str:
        return f"NamedAxisEffect({self.name})"


class DebugEffect(Effect):
    """Output for debugging, on which nothing in the program depends.

    >>> [effect] = pl.make_jaxpr(lambda x: pl.debug.print("{}", x))(1.0).effects
    >>> isinstance(effect, pl.debug.DebugEffect), effect.ordered
    (True, False)
    """

    control_flow_allowed = True
    batched_control_flow_allowed = True


class OrderedDebugEffect(DebugEffect):
    """Debug output in program order.

    >>> pl.make_jaxpr(lambda x: pl.debug.print("{}", x, ordered=True))(1.0).effects
    frozenset({OrderedDebugEffect})
    """

    ordered = True


class IOEffect(Effect):
    """Side effects of a Python function, not ordered."""

    may_repeat = False
    control_flow_allowed = True


class OrderedIOEffect(IOEffect):
    """Side effects of a Python function, in program order."""

    ordered = True


class NoDCEEffect(Effect):
    """No effect, but the equation isn't removed as dead code."""

    control_flow_allowed = True
    batched_control_flow_allowed = True


class GuardEffect(Effect):
    """A condition that raises if it fails. In branches and loops in which elements of a batch go different ways it is a
    value, and raises behind them (`batched_guards`).
    """

    control_flow_allowed = True
    batched_control_flow_allowed = True


class StateEffect(Effect):
    """Use of a reference; a program whose references are all internal doesn't have it."""

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
