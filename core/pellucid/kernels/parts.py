"""Parts of references among the operands of an equation: which steps lead from a reference to the part that a copy or a signal concerns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pellucid._machine.ir import Operands, Values
from pellucid._machine.refs.access import RefView, Step, view_of


class Part(NamedTuple):
    """The steps from a reference to a part of it. Operands are the reference, then those of each step's index."""

    steps: tuple[Any, ...]
    sizes: tuple[int, ...]
    """Number of operands of each step."""

    @property
    def n_operands(self) -> int:
        """Number of operands: the reference and those of all indices."""
        return 1 + sum(self.sizes)

    def view(self, operands: Operands) -> Any:
        """The part: the reference itself where it is all of it, else a view."""
        steps, rest = self.of(operands)
        return RefView(operands[0], steps) if steps else rest

    def of(self, operands: Operands) -> tuple[tuple[Step, ...], Any]:
        """(the steps, each with its operands; the reference)."""
        rest = iter(operands[1:])
        steps = [
            (step, tuple([next(rest) for _ in range(n)]))
            for step, n in zip(self.steps, self.sizes, strict=True)
        ]
        return tuple(steps), operands[0]


def part_of(caller: str, ref: Any) -> tuple[Part, Values]:
    """(the part that a reference or a view is, its operands)."""
    if type(ref) is not RefView:
        ref = view_of(caller, ref, ...)
    steps = ref.steps
    if len(steps) == 1 and not steps[0][1] and getattr(steps[0][0], "is_full", False):
        steps = ()
    operands: Values = [ref.ref]
    for _, more in steps:
        operands += more
    return Part(
        tuple([step for step, _ in steps]), tuple([len(more) for _, more in steps])
    ), operands


def split_parts(
    parts: Sequence[Part | None], operands: Operands
) -> Iterator[tuple[Part | None, Values]]:
    """Each part with its own operands, of those of all one after another; none for None."""
    start = 0
    for part in parts:
        n = 0 if part is None else part.n_operands
        yield part, [*operands[start : start + n]]
        start += n
