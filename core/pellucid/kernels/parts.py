"""Parts of references among the operands of an equation: which steps lead from a reference to the part that a copy or a signal concerns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pellucid._machine.ir import Operands, Values
from pellucid._machine.refs.access import RefView, view_of
from pellucid._machine.refs.index import RefIndex


class Part(NamedTuple):
    """The part of a reference that steps lead to: indices, which have operands, and changes of shape or dtype; all of it without steps."""

    ref: int
    """Number of the reference among those of the equation."""
    steps: tuple[Any, ...]
    sizes: tuple[int, ...]
    """Number of operands of each step."""

    def view(self, ref: Any, operands: Operands) -> Any:
        """The part of `ref`, with the operands of its steps: `ref` itself where it is all of it, else a view."""
        rest = iter(operands)
        steps = [
            (step, tuple([next(rest) for _ in range(n)]))
            for step, n in zip(self.steps, self.sizes, strict=True)
        ]
        return RefView(ref, tuple(steps)) if steps else ref


class Parts(NamedTuple):
    """Parts of references among the operands of an equation: first each reference once, then the operands of each part's steps."""

    n_refs: int
    parts: tuple[Part | None, ...]

    @property
    def n_operands(self) -> int:
        """Number of operands that they have."""
        return self.n_refs + sum([sum(part.sizes) for part in self.parts if part is not None])

    def views(self, operands: Operands) -> Values:
        """The parts, as references or views; None where there is none."""
        views, start = [], self.n_refs
        for part in self.parts:
            if part is None:
                views.append(None)
                continue
            end = start + sum(part.sizes)
            views.append(part.view(operands[part.ref], operands[start:end]))
            start = end
        return views


def parts_of(caller: str, refs: Sequence[Any]) -> tuple[Parts, Values]:
    """(the parts that references and views are, their operands); None stands for no part."""
    found: dict[Any, tuple[int, Any]] = {}
    parts: list[Part | None] = []
    behind: Values = []
    for given in refs:
        if given is None:
            parts.append(None)
            continue
        view = given if type(given) is RefView else view_of(caller, given, ...)
        # A reference may have several tracers, all of one variable.
        key = getattr(view.ref, "variable", None) or id(view.ref)
        number, _ = found.setdefault(key, (len(found), view.ref))
        steps = view.steps
        if len(steps) == 1 and isinstance(steps[0][0], RefIndex) and steps[0][0].is_full:
            steps = ()
        for _, operands in steps:
            behind += operands
        sizes = tuple([len(operands) for _, operands in steps])
        parts.append(Part(number, tuple([step for step, _ in steps]), sizes))
    return Parts(len(found), tuple(parts)), [*[ref for _, ref in found.values()], *behind]
