"""The equations from which transformations and copies made an equation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from pellucid._machine.ir import Equation, Jaxpr

from .bodies import programs_within

_EQUATION_ID = re.compile(r"e(\d+):?")

_COPY = "replay"
"""The transformation name of equations that are copies, made by replaying a program."""


class Made(NamedTuple):
    """The transformation that made a program, and the original equations."""

    by: str = ""
    """Name of the transformation."""
    base: frozenset[int] = frozenset()
    """Ids of the equations of the original program, before any transformation."""


def transformation_of(equation: Equation) -> str:
    """The transformation that made `equation`; for a copy, the one that made the original. Empty for none."""
    lineage = equation.lineage
    while lineage is not None and lineage.transformation == _COPY:
        lineage = lineage.origins[0].lineage if lineage.origins else None
    return "" if lineage is None else lineage.transformation


def origins_of(equation: Equation, base: frozenset[int] = frozenset()) -> list[Equation]:
    """The equations from which `equation` was made: its direct origins, or, with `base`, its ancestors in `base`.

    Ancestors may be any number of transformations away.
    """
    lineage = equation.lineage
    if lineage is None:
        return []
    if not base:
        return list(lineage.origins)
    origins: dict[int, Equation] = {}
    seen: set[int] = set()
    waiting = list(lineage.origins)
    for origin in waiting:  # grows during the loop
        if origin.id in seen:
            continue
        seen.add(origin.id)
        if origin.id in base:
            origins[origin.id] = origin
        elif origin.lineage is not None:
            waiting += origin.lineage.origins
    return list(origins.values())


def ancestors_of(equation: Equation) -> Iterator[Equation]:
    """All equations that `equation` was made from, any number of steps away, the next ones first."""
    waiting, seen = [equation], {equation.id}
    for each in waiting:  # grows during the loop
        for origin in each.lineage.origins if each.lineage is not None else ():
            if origin.id not in seen:
                seen.add(origin.id)
                waiting.append(origin)
                yield origin


def written_origins_of(equation: Equation) -> list[Equation]:
    """The ancestors of `equation` that no transformation made: what the user wrote, any number of steps away."""
    return [e for e in ancestors_of(equation) if e.lineage is None or not e.lineage.origins]


def equations_by_id(jaxpr: Jaxpr) -> dict[int, Equation]:
    """All equations of a program and of the programs within it, by id."""
    return {e.id: e for program in programs_within(jaxpr) for e in program.equations}


def equation_id(kind: str) -> int | None:
    """The id of the equation that an operation was lowered from; `kind` is its type in XLA's metadata, `e7`."""
    match = _EQUATION_ID.fullmatch(kind)
    return None if match is None else int(match[1])


def equation_at(location: Any) -> int | None:
    """The id of the equation that an operation with this MLIR location was lowered from."""
    child = getattr(location, "child_loc", None)
    return equation_id(getattr(child, "name_str", ""))
