"""Operations for which XLA exchanges elements between devices that Shardy doesn't plan."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from pellucid._machine.base import source
from pellucid._machine.ir import Equation
from pellucid._machine.primitives.sorting import sort_p
from pellucid._machine.sharding.explicit_types import FactorRule, rule_of
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


def exchanges_elements(
    equation: Equation, cut: Sequence[Collection[int]], cut_results: Sequence[Collection[int]]
) -> bool:
    """Whether XLA exchanges elements between devices for an equation, where no plan has it.

    `cut` and `cut_results` are the dimensions of each operand and of each result that lie in several parts. False if the
    equation has no rule.

    >>> program = pl.make_jaxpr(lambda x: lax.rev(x, [1]))(np.ones((2, 3)))
    >>> [exchanges_elements(program.equations[0], [dims], [dims]) for dims in ({0}, {1})]
    [False, True]
    """
    rule = _rule_of(equation)
    if rule is None:
        return False
    operands = [a.aval for a in equation.operands]
    found = {
        (place, d, name)
        for place, (dims, parts) in enumerate(zip(rule.operands, cut, strict=True))
        for d in parts
        if d < len(dims)  # keys have dimensions of their own behind them
        for name in dims[d]
    }
    in_first = {name for place, _, name in found if place == 0}
    kept = {name for dims in rule.results for names in dims for name in names}

    def is_exchanged(place: int, dim: int, name: str) -> bool:
        marks = {*rule.marks.get(name, "")}
        match equation.primitive.traits.parts_for(operands, equation.params):
            case "none":
                return True
            case "first" if name not in in_first:
                return True
            case "otherwise" if name not in kept or name not in in_first:
                return True
            case _:
                pass
        if "^" in marks and name not in in_first:
            return True
        crosses = "~" in marks or ("!" in marks and ":" not in marks)
        return crosses and not _is_taken_whole(equation, dim)

    # Where only the result is cut, XLA cuts the operand first, and then parts need elements of others at their edges.
    edges = {
        (d, name)
        for dims, parts in zip(rule.results, cut_results, strict=True)
        for d in parts
        if d < len(dims)
        for name in dims[d]
        if "~" in (marks := rule.marks.get(name, "")) and "=" not in marks
    }
    return any(is_exchanged(*each) for each in found) or any(
        not _is_taken_whole(equation, d) for d, _ in edges
    )


def is_planned_otherwise(equation: Equation, cut: Sequence[Collection[int]], parts: int) -> bool:
    """Whether XLA makes other exchanges than a plan has, where dimensions `cut` lie in up to `parts` parts: for some operations, and for
    sorts, which it moves to another dimension if one has as many elements.
    """
    avals: list[Any] = [a.aval for a in equation.operands]
    if equation.primitive.traits.parts_for(avals, equation.params) == "otherwise":
        return True
    if equation.primitive is not sort_p:
        return False
    others = (
        size
        for aval, dims in zip(avals, cut, strict=True)
        for d, size in enumerate(aval.shape)
        if d != equation.params.dimension and d not in dims
    )
    return any(size >= parts for size in others)


def _rule_of(equation: Equation) -> FactorRule | None:
    """The factors of an equation's dimensions; None if it has no rule, or none for operands without a sharding."""
    try:
        factors = equation.primitive.factors(
            [a.aval for a in equation.operands],
            [v.aval for v in equation.results],
            equation.params,
        )
    except (PellucidError, ValueError):
        return None
    return None if factors is None else rule_of(factors)


def _is_taken_whole(equation: Equation, dim: int) -> bool:
    """Whether a slice, an update or padding leaves a dimension as it is, or an update writes one element of it."""
    shapes = [getattr(a.aval, "shape", ()) for a in equation.operands]
    match equation.primitive.name:
        case "slice" | "dynamic_slice":
            return shapes[0][dim] == getattr(equation.results[0].aval, "shape", ())[dim]
        case "dynamic_update_slice":
            return shapes[1][dim] in (1, shapes[0][dim])
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
