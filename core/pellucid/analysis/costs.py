"""Costs of programs, estimated from types and traits: operations, transcendentals, bytes.

Counted as XLA counts: one operation for each element of a result, two for each product that is summed, and
functions such as `exp` apart, as transcendentals. Bytes are those of operands and results, each read or written
once; fusion makes the true figure smaller. What nobody can know is None: the trips of a `while`, native code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from pellucid._machine.base import cached
from pellucid._machine.ir import Equation, ShapedArray
from pellucid.introspect import schema
from pellucid.introspect.bodies import bodies_of
from pellucid.introspect.columns import ProgramColumns, array_bytes
from pellucid.introspect.program import JaxprReading


class Cost(NamedTuple):
    """Estimated cost of one run; None where it can't be known."""

    flops: float | None
    transcendentals: float | None
    bytes: float | None

    def plus(self, other: Cost) -> Cost:
        return Cost(*map(_sum, self, other))

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
    """Bytes that an operation reads and writes, from those of its operands and results.

    `touches` is as in `Traits`: `"part"` reads of the first operand what it gives, `"in place"` writes into the first
    operand as much as the largest of the others has.
    """
    if touches == "part" and operands:
        return sum(operands[1:]) + 2 * sum(results)
    if touches == "in place" and len(operands) > 1:
        return sum(operands[1:]) + max(operands[1:])
    return sum(operands) + sum(results)


RunBodies = Literal["all", "one", "fused", "combined"]
"""How an operation runs the programs inside of it: all of them, as often as known; one, at most the dearest; all as one
kernel, which moves the operation's own bytes; the first for each of the operation's own `flops`, to combine elements."""


class Costs:
    """Costs of the equations of a program, given one after the other; those that run bodies cost what is inside."""

    def __init__(self, program: ProgramColumns | schema.ProgramRecord) -> None:
        self._program = program
        self._own: list[tuple[Cost, RunBodies | None]] = []
        self._bodies: dict[int, Cost] = {}

    def add(self, cost: Cost, runs: RunBodies | None = None) -> None:
        """The next equation costs `cost` without its bodies, which it runs as `runs` says."""
        self._own.append((cost, runs))

    def columns(self) -> list[schema.CostColumn]:
        """The costs as columns, once the whole program is written."""
        equations = self._program.equations
        self._uses: list[list[tuple[int, int | None]]] = []
        next_use = 0
        for count in equations.body_counts:
            uses = slice(next_use, next_use + count)
            self._uses.append(
                list(zip(equations.bodies[uses], equations.body_trips[uses], strict=True))
            )
            next_use += count
        rows = list(map(self._row, range(len(self._own))))
        units = (("flops", "flop"), ("transcendentals", "op"), ("bytes", "B"))
        return [
            schema.CostColumn(
                name=name, unit=unit, basis="estimate", values=[_number(row[i]) for row in rows]
            )
            for i, (name, unit) in enumerate(units)
        ]

    def _row(self, row: int) -> Cost:
        cost, runs = self._own[row]
        uses = self._uses[row]
        if runs is None or not uses:
            return cost
        if runs == "combined":
            if cost.flops is None:
                return cost
            return self._body(uses[0][0]).times(cost.flops)._replace(bytes=cost.bytes)
        total = FREE
        for body, trips in uses:
            if runs == "one":
                total = total.maximum(self._body(body))
            else:
                unknown = trips is None and runs == "all"
                total = total.plus(UNKNOWN if unknown else self._body(body).times(trips or 1))
        return total._replace(bytes=cost.bytes) if runs == "fused" else total

    def _body(self, index: int) -> Cost:
        cost = self._bodies.get(index)
        if cost is None:
            body = self._program.bodies[index]
            cost = FREE
            for row in range(body.first_equation, body.first_equation + body.equation_count):
                cost = cost.plus(self._row(row))
            self._bodies[index] = cost
        return cost


def _number(value: float | None) -> float | None:
    """Whole numbers as integers: their text is shorter."""
    return int(value) if value is not None and value == int(value) else value


def jaxpr_costs(reading: JaxprReading) -> list[schema.CostColumn]:
    """Costs of the equations of a jaxpr, as columns."""
    costs = Costs(reading.record)
    for jaxpr in reading.bodies:
        for equation in jaxpr.equations:
            costs.add(equation_cost(equation), _runs(equation))
    return costs.columns()


def _runs(equation: Equation) -> RunBodies | None:
    """How an equation runs the programs among its params; None without any."""
    bodies = bodies_of(equation)
    if not bodies:
        return None
    if equation.primitive.traits.flops is not None:
        return "combined"
    return "one" if bodies[0].is_branch else "all"


def equation_cost(equation: Equation) -> Cost:
    """Cost of one run of an equation, without the programs inside of it: that of its primitive's traits."""
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
