"""Notes: the values by which a rewritten program returns its first failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.ir import ClosedJaxpr, Lineage, Operands, Results, Values
from pellucid._machine.primitives.arithmetic import add
from pellucid._machine.primitives.assembly import stack
from pellucid._machine.primitives.conversion import stop_gradient
from pellucid._machine.primitives.creation import zeros
from pellucid._machine.primitives.logical import bitwise_and, eq, gt, ne, select_n
from pellucid._machine.primitives.movement import broadcast_in_dim
from pellucid._machine.primitives.reduction import argmax, reduce_or
from pellucid._machine.tracing import context, type_of, use_lineage

from .errors import CheckSite

NONE = np.int32(0)
"""The code that represents no failure."""
NOTED = "checkify note"
"""Transformation name, in the lineage, of equations that compute the code of the first failure."""


class Checked(NamedTuple):
    """A program from (`consts`, inputs) to (notes, results).

    The notes are the number of the first failed site in `sites`, from 1, or 0, then the values of all sites.
    """

    program: ClosedJaxpr
    consts: Values
    sites: tuple[CheckSite, ...]

    @property
    def n_notes(self) -> int:
        """Number of results that are notes."""
        return 1 + sum(len(s.avals) for s in self.sites)


class FailureNotes:
    """The first failure up to the current equation: its number, and the values of all sites so far."""

    def __init__(self) -> None:
        self.code: Any = NONE
        self.values: Values = []
        self.sites: list[CheckSite] = []
        self._flags: Values = []
        """Whether each of the last sites, which have no values, has failed, as far as the code doesn't say it yet."""

    def add(self, site: CheckSite, has_failed: Any, values: Operands = ()) -> None:
        """Adds a site, which fails if the boolean scalar `has_failed` is true."""
        self._note_flags()
        self.sites.append(site)
        self.values += map(stop_gradient, values)
        self._note(has_failed, np.int32(len(self.sites)))

    def watch(self, site: CheckSite, has_failed: Any) -> None:
        """Adds a site without values; a few operations compute the code of all that follow each other."""
        self.sites.append(site)
        self._flags.append(has_failed)

    def merge(self, sites: Sequence[CheckSite], notes: Results) -> None:
        """Adds the `sites` of an inner program, which returned these `notes`."""
        if not sites:
            return
        self._note_flags()
        code, *values = notes
        offset = np.int32(len(self.sites))
        self.sites += sites
        self.values += values
        self._note(gt(code, NONE), add(code, offset))

    def skip(self, sites: Sequence[CheckSite]) -> None:
        """Adds the `sites` of an inner program that didn't run."""
        self._note_flags()
        self.sites += sites
        self.values += nothing(sites)[1:]

    def _note_flags(self) -> None:
        """Make the failures of the last sites part of the code."""
        holds, self._flags = self._flags, []
        before = np.int32(len(self.sites) - len(holds))
        if len(holds) == 1:
            self._note(holds[0], add(before, np.int32(1)))
        elif holds:
            together = stack(holds)
            number = argmax(together, 0, np.dtype(np.int32))
            self._note(reduce_or(together, (0,)), add(number, add(before, np.int32(1))))

    def _note(self, has_failed: Any, code: Any) -> None:
        origins = () if context.lineage is None else context.lineage.origins
        with use_lineage(Lineage(NOTED, origins)):
            if self.code is NONE:
                self.code = select_n(has_failed, NONE, code)
            else:
                is_first = bitwise_and(eq(self.code, NONE), has_failed)
                self.code = select_n(is_first, self.code, code)

    def results(self) -> Values:
        """The notes as results of the rewritten program."""
        self._note_flags()
        return [self.code, *self.values]


def nothing(sites: Sequence[CheckSite]) -> Values:
    """The notes of a program without failures at `sites`."""
    return [NONE, *(zeros(a) for s in sites for a in s.avals)]


def first(before: Operands, after: Operands) -> Values:
    """The first notes if they contain a failure, else the second; both belong to the same sites."""
    if not before:
        return []
    had = ne(before[0], NONE)
    return [
        select_n(_broadcast_flag(had, new), new, old)
        for old, new in zip(before, after, strict=True)
    ]


def _broadcast_flag(flag: Any, x: Any) -> Any:
    shape = type_of(x).shape
    return broadcast_in_dim(flag, shape, ()) if shape else flag
