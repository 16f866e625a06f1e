"""Operations along dimensions that are cut, for which XLA exchanges elements that Shardy doesn't plan."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from pellucid._machine.base import source
from pellucid._machine.ir import Equation
from pellucid._machine.sharding.explicit_types import rule_of
from pellucid.introspect.errors import PellucidError


class Uncounted(NamedTuple):
    """An operation whose exchanges no plan has."""

    operation: str
    place: source.SourceFrame | None
    """The user's line; None if it isn't known."""

    def __str__(self) -> str:
        """The operation with its line: `sort (step.py:12)`."""
        if self.place is None:
            return f"`{self.operation}`"
        cell = source.cell_name(self.place.file)
        return f"`{self.operation}` ({cell or os.path.basename(self.place.file)}:{self.place.line})"


def crossed_dims(equation: Equation) -> list[frozenset[int]]:
    """The dimensions of each operand along which an operation moves elements, or must see all of them; none if unknown.

    >>> program = pl.make_jaxpr(lambda x: lax.rev(x, [1]))(np.ones((2, 3)))
    >>> crossed_dims(program.equations[0])
    [frozenset({1})]
    """
    operands = [a.aval for a in equation.operands]
    nothing = [frozenset[int]() for _ in operands]
    try:
        factors = equation.primitive.factors(
            operands, [v.aval for v in equation.results], equation.params
        )
    except (PellucidError, ValueError):  # it has no rule, or none for operands without a sharding
        return nothing
    if factors is None:
        return nothing
    rule = rule_of(factors)
    return [
        frozenset(
            d
            for d, names in enumerate(dims)
            if any({"!", "~"} & {*rule.marks.get(name, "")} for name in names)
            and not _is_taken_whole(equation, d)
        )
        for dims in rule.operands
    ]


def _is_taken_whole(equation: Equation, dim: int) -> bool:
    """Whether a slice, an update or padding leaves a dimension as it is."""
    shapes = [getattr(a.aval, "shape", ()) for a in equation.operands]
    match equation.primitive.name:
        case "slice" | "dynamic_slice":
            return shapes[0][dim] == getattr(equation.results[0].aval, "shape", ())[dim]
        case "dynamic_update_slice":
            return shapes[0][dim] == shapes[1][dim]
        case "pad":
            return not any(equation.params.padding_config[dim])
        case _:
            return False


def uncounted_text(found: Sequence[Uncounted]) -> str:
    """A sentence that names the operations, the first three of them.

    >>> uncounted_text([Uncounted("sort", None)])
    '`sort` works along a dimension that is cut: XLA exchanges elements there, which nothing here counts.'
    """
    names = [*map(str, found[:3])]
    rest = len(found) - len(names)
    if rest:
        names.append(f"{rest} more")
    verb = "works" if len(found) == 1 else "work"
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{listed} {verb} along a dimension that is cut: XLA exchanges elements there, which nothing here counts."
