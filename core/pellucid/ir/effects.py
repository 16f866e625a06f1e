"""Effects of equations, and which of them must keep their order."""

from __future__ import annotations

from typing import Any


class Effect:
    """Something an equation does besides computing its results.

    `ordered` effects of one kind happen in program order (a token is threaded through the program);
    `control_flow_allowed` and `remat_allowed` say where such an equation may stand.
    """

    ordered = False
    control_flow_allowed = False
    remat_allowed = False
    custom_derivatives_allowed = False

    def __repr__(self) -> str:
        return type(self).__name__


class NamedAxisEffect(Effect):
    """Use of a named axis; it disappears where the axis is bound."""

    control_flow_allowed = remat_allowed = custom_derivatives_allowed = True

    def __init__(self, name: Any) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedAxisEffect) and self.name == other.name

    def __hash__(self) -> int:
        return hash((NamedAxisEffect, self.name))

    def __repr__(self) -> str:
        return f"NamedAxisEffect({self.name})"


Effects = frozenset[Effect]
no_effects: Effects = frozenset()
