"""The sites at which a lowered program and its inner programs run, each with its own values."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pellucid._machine.ir import Equation, Jaxpr, Operands
from pellucid.introspect import schema


class ProgramSite:
    """A site at which a program runs: that of the whole program, or an equation that runs an inner program.

    Its values are numbered in the order constants, inputs, results of equations.
    """

    __slots__ = ("body", "equation", "first", "parent")

    def __init__(self, body: int, parent: int, first: int) -> None:
        self.body = body
        """Number of the program that runs there."""
        self.parent = parent
        """Index of the site that contains the equation; -1 for the whole program."""
        self.equation: int | None = None
        """Id of the equation that runs the program; None for the whole program."""
        self.first = first
        """Number of its first value."""


class Sites:
    """An observer of lowering that numbers the values of programs separately for each site.

    `bodies` maps each program to its number. Programs created by lowering rules belong to the equation being lowered.
    """

    def __init__(self, bodies: Mapping[Jaxpr, int]) -> None:
        self.found: list[ProgramSite] = []
        """The sites; each comes after the one that contains it."""
        self.value_count = 0
        self.noted: list[tuple[int, Any]] = []
        """(number, value of the module) of each value."""
        self._bodies = bodies
        self._open: list[_Open | None] = []

    def begin(self, jaxpr: Jaxpr, values: Operands) -> None:
        body = self._bodies.get(jaxpr)
        if body is None:
            self._open.append(None)
            return
        outer = next((each for each in reversed(self._open) if each is not None), None)
        site = ProgramSite(body, -1 if outer is None else outer.site, self.value_count)
        if outer is not None:
            outer.waiting.append(site)
        begun = _Open(len(self.found), self.value_count)
        self.found.append(site)
        self._open.append(begun)
        n_results = sum(len(each.results) for each in jaxpr.equations)
        self.value_count += len(jaxpr.constvars) + len(jaxpr.invars) + n_results
        self._note(begun, values)

    def lowered(self, equation: Equation, values: Operands) -> None:
        at = self._open[-1]
        if at is not None:
            for site in at.waiting:
                site.equation = equation.id
            at.waiting.clear()
            self._note(at, values)

    def end(self) -> None:
        self._open.pop()

    def _note(self, at: _Open, values: Operands) -> None:
        self.noted += enumerate(values, at.next)
        at.next += len(values)


class _Open:
    """A site whose program is being lowered."""

    def __init__(self, site: int, first: int) -> None:
        self.site = site
        self.next = first
        """Number of the next value."""
        self.waiting: list[ProgramSite] = []
        """Sites at the equation that is being lowered."""


def around(sites: Sequence[ProgramSite], place: int) -> Iterator[ProgramSite]:
    """The site at `place`, then the sites around it from the innermost on."""
    while place >= 0:
        yield sites[place]
        place = sites[place].parent


def place_of(sites: Sequence[ProgramSite], number: int) -> int:
    """The index of the site to which a value's number belongs."""
    return bisect.bisect_right(sites, number, key=lambda site: site.first) - 1


def calls_to(sites: Sequence[ProgramSite], number: int) -> tuple[int, ...]:
    """Ids of the equations that lead to a value's site, from the innermost on."""
    enclosing = around(sites, place_of(sites, number))
    return tuple(site.equation for site in enclosing if site.equation is not None)


class SiteValues:
    """Looks up values at sites by number in a program's record."""

    def __init__(self, record: schema.ProgramRecord, sites: Sequence[ProgramSite]) -> None:
        self.sites = sites
        self._makers = [-1] * len(record.values.name)
        """For each value of the record, the row of the equation that computes it; -1 for none."""
        self._record = record
        self._rows = {id: row for row, id in enumerate(record.equations.id)}
        self._ranges: list[range] = []
        counts, results = record.equations.result_counts, iter(record.equations.results)
        first = 0
        self._body_of: list[int] = []
        for index, body in enumerate(record.bodies):
            rows = range(body.first_equation, body.first_equation + body.equation_count)
            for row in rows:
                for value in itertools.islice(results, counts[row]):
                    self._makers[value] = row
            n_values = len(body.constants) + len(body.inputs) + sum(counts[row] for row in rows)
            self._ranges.append(range(first, first + n_values))
            self._body_of += [index] * len(rows)
            first += n_values
        self._sites_of: dict[int, list[int]] = {}
        for place, site in enumerate(sites):
            self._sites_of.setdefault(site.body, []).append(place)

    def numbers(self, site: ProgramSite) -> range:
        """The numbers of the values at a site."""
        return range(site.first, site.first + len(self._ranges[site.body]))

    def value(self, number: int) -> int:
        """The index in the record of a value's number."""
        site = self.sites[place_of(self.sites, number)]
        return self._ranges[site.body][number - site.first]

    def name(self, number: int) -> str:
        """The user's name of a value, or else the program's."""
        values, strings, value = self._record.values, self._record.strings, self.value(number)
        return strings[values.user_name[value]] or strings[values.name[value]]

    def maker(self, number: int) -> int:
        """The id of the equation that computes a value; -1 for none."""
        row = self._makers[self.value(number)]
        return self._record.equations.id[row] if row >= 0 else -1

    def row(self, equation: int | None) -> int:
        """The row of the equation with this id; -1 for none."""
        return -1 if equation is None else self._rows.get(equation, -1)

    def site_at(self, row: int, calls: Sequence[int]) -> int:
        """The site of an equation that shares most equations with `calls`; -1 if the equation has none."""
        if row < 0:
            return -1
        call_ids = set(calls)

        def common(place: int) -> int:
            return sum(site.equation in call_ids for site in around(self.sites, place))

        return max(self._sites_of.get(self._body_of[row], ()), key=common, default=-1)
