"""Costs of programs, estimated from types and traits of primitives: FLOPs, transcendentals, bytes.

Counts follow XLA: one operation per element of a result, two per product that is summed; functions such as `exp` are
counted separately, as transcendentals. Bytes are those of operands and results, each read or written once; with fusion
the actual number is smaller. Unknown counts are None, such as iterations of a `while` and native code.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

from pellucid._machine.base import cached
from pellucid._machine.ir import Equation, ShapedArray
from pellucid.introspect import schema
from pellucid.introspect.bodies import bodies_of
from pellucid.introspect.columns import ProgramColumns, array_bytes
from pellucid.introspect.kernel_bodies import shown_bodies
from pellucid.introspect.kernel_steps import is_kernel
from pellucid.introspect.program import JaxprReading, read_jaxpr
from pellucid.kernels.programs import GridKernel

from .kernel_operands import chooses_parts, moved_bytes as moved_bytes_of_kernel


class Cost(NamedTuple):
    """Estimated cost of one run; None for unknown quantities."""

    flops: float | None
    transcendentals: float | None
    bytes: float | None

    def plus(self, other: Cost) -> Cost:
        return Cost(*map(_sum, self, other))

    @property
    def known(self) -> Cost:
        """This cost with 0 in place of unknown quantities."""
        return Cost(*[each or 0 for each in self])

    def times(self, factor: float) -> Cost:
        return Cost(*[None if a is None else a * factor for a in self])

    def maximum(self, other: Cost) -> Cost:
        return Cost(
            *[
                None if a is None or b is None else max(a, b)
                for a, b in zip(self, other, strict=True)
            ]
        )


FREE = Cost(0, 0, 0)
UNKNOWN = Cost(None, None, None)


def _sum(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a + b


def moved_bytes(
    touches: Literal["all", "part", "in place"], operands: Sequence[float], results: Sequence[float]
) -> float:
    """Bytes that an operation reads and writes, given the bytes of its operands and results.

    `touches` is as in `Traits`: with `"part"`, only as much of the first operand is read as the results contain; with
    `"in place"`, as much of the first operand is written as the largest other operand contains.
    """
    if touches == "part" and operands:
        return sum(operands[1:]) + 2 * sum(results)
    if touches == "in place" and len(operands) > 1:
        return sum(operands[1:]) + max(operands[1:])
    return sum(operands) + sum(results)


RunBodies = Literal["all", "one", "fused", "combined", "stated"]
"""How an operation runs the programs inside of it: all of them, as often as known; one, at most the dearest; all as one
kernel, which moves the operation's own bytes; the first for each of the operation's own `flops`, to combine elements; all, with
the operation's own cost for them together."""


class EquationCost(NamedTuple):
    """The cost of an equation without its inner programs, and how often it runs each of these."""

    cost: Cost
    runs: RunBodies | None = None
    uses: Sequence[tuple[int, int | None]] = ()
    """Pairs (number of a program, its runs per run of the equation or None if unknown)."""


class CostTable:
    """The table of equations' costs and numbers of runs, from which all views take their figures.

    `bodies` has the equations of each program, the main one first; rows are numbered across all of them.

    >>> dot, loop = EquationCost(Cost(8, 0, 4)), EquationCost(FREE, "all", [(1, 100)])
    >>> table = CostTable([[dot, loop], [dot]])
    >>> table.total.flops, table.runs
    (808, [1, 1, 100])
    """

    def __init__(self, bodies: Sequence[Sequence[EquationCost]]) -> None:
        self.rows = [row for body in bodies for row in body]
        ends = list(itertools.accumulate(map(len, bodies), initial=0))
        self.ranges = [range(*each) for each in itertools.pairwise(ends)]
        """The range of rows of each program."""
        self._body_of = [body for body, rows in enumerate(self.ranges) for _ in rows]
        self._wholes: dict[tuple[int, bool], Cost] = {}

    def whole(self, row: int) -> Cost:
        """Cost of one run of an equation, including its inner programs; None for unknown quantities."""
        return self._row(row, is_known=True)

    def least(self, row: int) -> Cost:
        """Lower bound of `whole`: loops of unknown length count once, native code costs nothing."""
        return self._row(row, is_known=False)

    @property
    def total(self) -> Cost:
        """Cost of one run of the main program; None for unknown quantities."""
        return self._body(0, is_known=True)

    @property
    def least_total(self) -> Cost:
        """Lower bound of `total`."""
        return self._body(0, is_known=False)

    @cached_property
    def runs(self) -> list[int | None]:
        """For each equation, the number of its runs per run of the main program.

        None if unknown: in branches, loops of unknown length and functions called by native code.
        """
        return self._counts(is_known=True)

    @cached_property
    def least_runs(self) -> list[int]:
        """Like `runs`, but branches and loops of unknown length count once."""
        return [count or 0 for count in self._counts(is_known=False)]

    def _counts(self, *, is_known: bool) -> list[int | None]:
        callers: list[list[int]] = [[] for _ in self.ranges]
        for row, each in enumerate(self.rows):
            for body in dict.fromkeys(body for body, _ in each.uses):
                callers[body].append(row)
        counts: dict[int, int | None] = {0: 1}

        def of(body: int) -> int | None:
            if body not in counts:
                count: int | None = 0
                for row in callers[body]:
                    each = times(of(self._body_of[row]), self._runs_of(row, body, is_known))
                    count = None if count is None or each is None else count + each
                counts[body] = count
            return counts[body]

        def times(a: int | None, b: int | None) -> int | None:
            return 0 if a == 0 or b == 0 else None if a is None or b is None else a * b

        return [of(body) for body in self._body_of]

    def _runs_of(self, row: int, body: int, is_known: bool) -> int | None:
        """Number of runs of a program per run of an equation."""
        cost, runs, uses = self.rows[row]
        counts = [trips for used, trips in uses if used == body]
        if runs == "combined" and body == uses[0][0] and cost.flops is not None:
            return int(cost.flops)
        if runs == "fused" or not is_known:
            return sum(1 if trips is None else trips for trips in counts)
        known = [trips for trips in counts if trips is not None]
        return sum(known) if runs in ("all", "stated") and len(known) == len(counts) else None

    def _row(self, row: int, *, is_known: bool) -> Cost:
        key = (row, is_known)
        if key not in self._wholes:
            self._wholes[key] = self._with_bodies(*self.rows[row], is_known)
        return self._wholes[key]

    def _with_bodies(
        self, cost: Cost, runs: RunBodies | None, uses: Sequence[tuple[int, int | None]], is_known: bool
    ) -> Cost:  # fmt: skip
        if not is_known:
            cost = cost.known
        if runs in (None, "stated") or not uses:
            return cost
        if runs == "combined":
            if cost.flops is None:
                return cost
            return self._body(uses[0][0], is_known).times(cost.flops)._replace(bytes=cost.bytes)
        total = FREE
        for body, trips in uses:
            inside = self._body(body, is_known)
            if runs == "one":
                total = total.maximum(inside)
            elif trips is None and runs == "all" and is_known:
                total = UNKNOWN
            else:
                total = total.plus(inside.times(1 if trips is None else trips))
        return total._replace(bytes=cost.bytes) if runs == "fused" else total

    def _body(self, body: int, is_known: bool) -> Cost:
        total = FREE
        for row in self.ranges[body]:
            total = total.plus(self._row(row, is_known=is_known))
        return total

    def columns(self, rows: Iterable[int] | None = None) -> list[schema.CostColumn]:
        """Costs of one run of each equation, including its inner programs, as columns; only of `rows` if these are
        given.
        """
        costs = [self.whole(row) for row in (range(len(self.rows)) if rows is None else rows)]
        units = (("flops", "flop"), ("transcendentals", "op"), ("bytes", "B"))
        return [
            schema.CostColumn(
                name=name, unit=unit, basis="estimate", values=[_number(each[i]) for each in costs]
            )
            for i, (name, unit) in enumerate(units)
        ]


class Costs:
    """Collects the costs of a program's equations while its record is written, in the order of the equations."""

    def __init__(self, program: ProgramColumns) -> None:
        self._program = program
        self._own: list[tuple[Cost, RunBodies | None]] = []

    def add(self, cost: Cost, runs: RunBodies | None = None) -> None:
        """Adds the next equation: its cost without its bodies, and how it runs these (`runs`)."""
        self._own.append((cost, runs))

    def columns(self) -> list[schema.CostColumn]:
        """The costs as columns, after the last equation."""
        return CostTable(rows_of(self._program, self._own)).columns()


def rows_of(
    program: ProgramColumns | schema.ProgramRecord, own: Sequence[tuple[Cost, RunBodies | None]]
) -> list[list[EquationCost]]:
    """The equation costs of each program of a record; `own` are the costs without inner programs."""
    equations = program.equations
    uses = zip(equations.bodies, equations.body_trips, strict=True)
    rows = [
        EquationCost(*each, tuple(itertools.islice(uses, count)))
        for each, count in zip(own, equations.body_counts, strict=True)
    ]
    return [
        rows[body.first_equation : body.first_equation + body.equation_count]
        for body in program.bodies
    ]


def _number(value: float | None) -> float | None:
    """Converts whole numbers to integers, whose text is shorter."""
    return int(value) if value is not None and value == int(value) else value


def is_branch(role: str) -> bool:
    """Whether a program in this role is one of several of which the equation runs one."""
    return role.startswith("branches[")


def jaxpr_costs(reading: JaxprReading) -> CostTable:
    """The cost table of a jaxpr; its rows are the equations of the record."""
    return CostTable([
        [
            EquationCost(
                kernel_cost(equation) if is_kernel(equation) else equation_cost(equation), _runs(equation),
                [(reading.bodies[each.jaxpr], each.trips) for each in shown_bodies(equation)],
            )
            for equation in jaxpr.equations
        ]
        for jaxpr in reading.bodies
    ])  # fmt: skip


def kernel_cost(equation: Equation) -> Cost:
    """Cost of one call of a kernel over a grid: the user's `cost_estimate`, else that of its body for each program, with the bytes of the blocks
    that they move. Of what was derived from a kernel, that of the program that runs.
    """
    params = equation.params
    if not params.is_own:
        return jaxpr_costs(read_jaxpr(params.jaxpr.jaxpr)).total
    kernel = params.kernel
    return cost_of_kernel(kernel) if kernel.cost is not None else _computed_cost(kernel)


def cost_of_kernel(kernel: GridKernel) -> Cost:
    """Cost of one call of a kernel over a grid, as it was written, without looking at it program by program: the bytes are unknown of one that chooses
    parts of whole arrays itself, or whose blocks data choose.
    """
    if kernel.cost is not None:
        stated = kernel.cost
        return Cost(stated.flops, stated.transcendentals, stated.bytes_accessed)
    return _computed_cost(kernel, is_quick=True)


def _computed_cost(kernel: GridKernel, *, is_quick: bool = False) -> Cost:
    body = jaxpr_costs(read_jaxpr(kernel.body.jaxpr)).total
    sizes = [n for n in kernel.grid if n is not None]
    count = None if len(sizes) < len(kernel.grid) else math.prod(sizes)
    each = UNKNOWN if count is None else body.times(count)
    blocks = (*kernel.inputs, *kernel.results)
    is_unknown = is_quick and (chooses_parts(kernel) or any(m.indices is None for m in blocks))
    return each._replace(bytes=None if is_unknown else moved_bytes_of_kernel(kernel))


def _runs(equation: Equation) -> RunBodies | None:
    """How an equation runs the programs in its params; None if it has none."""
    if is_kernel(equation):
        return "stated"
    bodies = bodies_of(equation)
    if not bodies:
        return None
    if equation.primitive.traits.flops is not None:
        return "combined"
    return "one" if bodies[0].is_branch else "all"


def equation_cost(equation: Equation) -> Cost:
    """Cost of one run of an equation without its inner programs, according to its primitive's traits."""
    operands = [atom.aval for atom in equation.operands]
    results = [var.aval for var in equation.results]
    operand_bytes, result_bytes = list(map(_bytes_of, operands)), list(map(_bytes_of, results))
    traits = equation.primitive.traits
    if None in operand_bytes or None in result_bytes:
        return UNKNOWN
    n_bytes = moved_bytes(traits.touches, operand_bytes, result_bytes)  # type: ignore[arg-type]
    return Cost(*traits.counts(operands, results, equation.params), n_bytes)


@cached(4096)
def _bytes_of(aval: Any) -> int | None:
    return array_bytes(aval) if isinstance(aval, ShapedArray) else 0
