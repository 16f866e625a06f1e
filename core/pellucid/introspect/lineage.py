"""Which equations an equation was made from, through transformations and mere copies."""

from __future__ import annotations

from typing import NamedTuple

from pellucid.ir.jaxpr import Equation

_COPY = "replay"
"""What the lineage of an equation says that was made by running a program again."""


class Made(NamedTuple):
    """How a program was made from another one."""

    by: str = ""
    """The transformation."""
    base: frozenset[int] = frozenset()
    """Ids of the equations of the program it all began with."""


def transformation_of(equation: Equation) -> str:
    """The transformation that made `equation`; a copy has that of what it is a copy of. Empty for none."""
    lineage = equation.lineage
    while lineage is not None and lineage.transformation == _COPY:
        lineage = lineage.origins[0].lineage if lineage.origins else None
    return "" if lineage is None else lineage.transformation


def origins_of(equation: Equation, base: frozenset[int] = frozenset()) -> list[Equation]:
    """The equations that `equation` was made from: its own lineage, or, if `base` is given, those in `base`.

    The latter may be any number of steps away.
    """
    lineage = equation.lineage
    if lineage is None:
        return []
    if not base:
        return list(lineage.origins)
    found: dict[int, Equation] = {}
    seen: set[int] = set()
    waiting = list(lineage.origins)
    for origin in waiting:  # grows meanwhile
        if origin.id in seen:
            continue
        seen.add(origin.id)
        if origin.id in base:
            found[origin.id] = origin
        elif origin.lineage is not None:
            waiting += origin.lineage.origins
    return list(found.values())
