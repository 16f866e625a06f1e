"""Slots: the programs in the params of a primitive, with the roles of its operands and results.

They let tools follow values through programs, and rewrites replace programs.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pellucid._machine.base import strict_zip

from .rules import Operands, Values

if TYPE_CHECKING:
    from .jaxpr import ClosedJaxpr


class Role(enum.Enum):
    """Role of consecutive operands or results of an equation in its programs."""

    INDEX = "index"
    """Operand: number of the program that runs."""
    CONSTANT = "constant"
    """Operand: the same value in every run."""
    CARRY = "carry"
    """Operand and result: the result of one run is the operand of the next."""
    STACKED = "stacked"
    """Operand or result: each run has one element along axis 0."""
    RESULT = "result"
    """Result of the only run."""


class SlotGroup(NamedTuple):
    """Consecutive operands, or results, with the same role."""

    role: Role
    size: int


class Slot(NamedTuple):
    """A program, with the positions of the operand groups that are its inputs and of the result groups that it
    computes, in order.

    A program without result groups decides with its only result whether a loop continues.
    """

    program: ClosedJaxpr
    takes: tuple[int, ...]
    gives: tuple[int, ...]

    @property
    def is_predicate(self) -> bool:
        """Whether its result decides if a loop continues."""
        return not self.gives


class Slots(NamedTuple):
    """All programs of an equation."""

    operands: tuple[SlotGroup, ...]
    results: tuple[SlotGroup, ...]
    programs: tuple[Slot, ...]
    runs: int | None = 1
    """Number of runs of each program; None if known only at run time."""
    is_reversed: bool = False
    """Whether the runs read and write elements along axis 0 from the last to the first."""
    ends: bool = False
    """Whether a predicate follows each run and ends the loop; otherwise it precedes each run."""
    by_position: bool = False
    """Whether the program runs once for each position along mesh axes, on parts of the operands."""

    @property
    def choosing(self) -> list[int]:
        """Positions of the operand groups that select which of the programs runs: one, or none."""
        return _places(self.operands, Role.INDEX)

    @property
    def carries(self) -> list[tuple[int, int]]:
        """(position among operand groups, position among result groups) of each carry."""
        places = [_places(groups, Role.CARRY) for groups in (self.operands, self.results)]
        return list(strict_zip(*places))

    def split(self, values: Operands) -> list[Values]:
        """`values`, one per operand, divided into groups."""
        return _split_by_group(self.operands, values)

    def split_results(self, values: Operands) -> list[Values]:
        """`values`, one per result, divided into groups."""
        return _split_by_group(self.results, values)

    def gather_inputs(
        self, slot: Slot, groups: Sequence[Sequence[Any]] | Mapping[int, Sequence[Any]]
    ) -> Values:
        """The values of a program's inputs, from the values of all operands by group."""
        return [x for group in slot.takes for x in groups[group]]

    def group_inputs(self, slot: Slot, values: Operands) -> dict[int, Values]:
        """`values`, one per input of a program, by position of the operand group."""
        sizes = [self.operands[group] for group in slot.takes]
        return dict(strict_zip(slot.takes, _split_by_group(sizes, values)))

    def group_results(self, slot: Slot, values: Operands) -> list[tuple[int, Values]]:
        """`values`, one per result of a program, with the position of their result group."""
        sizes = [self.results[group] for group in slot.gives]
        return list(strict_zip(slot.gives, _split_by_group(sizes, values)))


def call_slots(program: ClosedJaxpr) -> Slots:
    """The slots of an equation that calls one program with all of its operands."""
    jaxpr = program.jaxpr
    operands, results = len(jaxpr.invars), len(jaxpr.outvars)
    return Slots(
        (SlotGroup(Role.CONSTANT, operands),),
        (SlotGroup(Role.RESULT, results),),
        (Slot(program, (0,), (0,)),),
    )


def _places(groups: Sequence[SlotGroup], role: Role) -> list[int]:
    return [i for i, group in enumerate(groups) if group.role is role]


def _split_by_group(groups: Sequence[SlotGroup], values: Operands) -> list[Values]:
    return consecutive([group.size for group in groups], values)[:-1]


def consecutive(sizes: Iterable[int], values: Operands) -> list[Values]:
    """Consecutive parts of `values` with these sizes, then the rest."""
    rest = iter(values)
    return [*([*itertools.islice(rest, n)] for n in sizes), [*rest]]
