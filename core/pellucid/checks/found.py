"""What was found so far, while a program is rewritten so that it gives its failures as values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid.checks.errors import Site
from pellucid.ir.jaxpr import ClosedJaxpr
from pellucid.ir.rules import Operands
from pellucid.primitives.arithmetic import add
from pellucid.primitives.broadcasting import broadcast_in_dim
from pellucid.primitives.conversion import stop_gradient
from pellucid.primitives.filled import zeros
from pellucid.primitives.logical import bitwise_and, eq, gt, ne, select_n
from pellucid.tracing.values import type_of

NONE = np.int32(0)


class Checked(NamedTuple):
    """A program that gives (the number of the first of its `sites` that failed, or 0; their values; its results).

    It takes (`consts`, the inputs).
    """

    program: ClosedJaxpr
    consts: list[Any]
    sites: tuple[Site, ...]

    @property
    def n_found(self) -> int:
        """How many results in front of the program's own tell what was found."""
        return 1 + sum(len(s.avals) for s in self.sites)


class Found:
    """The first failure at this point of the program: its number, and the values of all sites so far."""

    def __init__(self) -> None:
        self.code: Any = NONE
        self.values: list[Any] = []
        self.sites: list[Site] = []

    def add(self, site: Site, has_failed: Any, values: Operands = ()) -> None:
        """Another site, which fails where the boolean scalar `has_failed` is true."""
        self.sites.append(site)
        self.values += map(stop_gradient, values)
        self._note(has_failed, np.int32(len(self.sites)))

    def merge(self, sites: Sequence[Site], found: Sequence[Any]) -> None:
        """The sites of a program within this one, with what it found: a number and values."""
        if not sites:
            return
        code, *values = found
        offset = np.int32(len(self.sites))
        self.sites += sites
        self.values += values
        self._note(gt(code, NONE), add(code, offset))

    def _note(self, has_failed: Any, code: Any) -> None:
        if self.code is NONE:
            self.code = select_n(has_failed, NONE, code)
        else:
            self.code = select_n(bitwise_and(eq(self.code, NONE), has_failed), self.code, code)

    def results(self) -> list[Any]:
        """What the rewritten program gives in front of its results."""
        return [self.code, *self.values]


def nothing(sites: Sequence[Site]) -> list[Any]:
    """What a program gives that finds no failure at `sites`."""
    return [NONE, *(zeros(a) for s in sites for a in s.avals)]


def first(before: Sequence[Any], after: Sequence[Any]) -> list[Any]:
    """Of two failures (or none) at the same sites the first."""
    had = ne(before[0], NONE)
    return [select_n(_like(had, new), new, old) for old, new in zip(before, after, strict=True)]


def _like(flag: Any, x: Any) -> Any:
    shape = type_of(x).shape
    return broadcast_in_dim(flag, shape, ()) if shape else flag
