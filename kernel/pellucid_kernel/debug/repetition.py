"""`repeat`: runs a call several times, and finds operations whose results aren't bitwise equal."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Any, NamedTuple

import pellucid as pl
from pellucid.introspect.errors import ArgumentValueError
from pellucid.introspect.evaluation import evaluate_program
from pellucid.introspect.stepping import line_text, user_stack
from pellucid.introspect.traps import without_traps
from pellucid_kernel.debug.debug_session import DebugSession
from pellucid_kernel.debug.differences import UnequalOperation, bits, finite, ulps
from pellucid_kernel.debug.schema import UnequalOperationColumns, UnequalRunsRecord
from pellucid_kernel.debug.stopping_places import check_function, display_bundle
from pellucid_viz.figure import Figure

MAX_ROWS = 12
"""Maximum number of operations in the text of a repetition."""


class Unrepeated(NamedTuple):
    """An operation with different results in some run."""

    primitive: str
    line: str
    """Source line of the operation."""
    runs: int
    """Number of runs whose results differ from those of the first run."""
    ulps: float
    """Largest distance of two elements in units in the last place; 0 if only the sign of zero or the payload of NaN
    differs.
    """
    begins: bool
    """Whether its operands are equal in all runs, so that the difference begins here."""
    equation: Any = None

    def __str__(self) -> str:
        kind = "begins" if self.begins else "follows"
        return f"{self.runs:>5} {self.ulps:>8.3g}  {kind:<8} {self.primitive:<22} {self.line}"


class Repetition:
    """How the runs of one call repeat; `print(repetition)` shows the operations that don't, its figure the first of them.

    >>> repetition = repeat(lambda x: x * 2.0, 3)(1.0)
    >>> repetition.is_exact, repetition.rows
    (True, [])
    """

    def __init__(
        self,
        name: str,
        n: int,
        rows: list[Unrepeated],
        results: list[int],
        operation: UnequalOperation | None = None,
        begin: Callable[[], DebugSession] | None = None,
    ) -> None:
        self._name = name
        self._operation = operation
        self._begin = begin
        self.n = n
        """Number of runs."""
        self.rows = rows
        """The operations that aren't reproducible, in execution order."""
        self.results = results
        """Indices of irreproducible results of the function compiled as usual, without its intermediate values."""

    @property
    def is_exact(self) -> bool:
        """Whether all runs are bitwise equal, in results and intermediate values."""
        return not self.rows and not self.results

    @property
    def first(self) -> Unrepeated | None:
        """The first operation that isn't reproducible; None if all are."""
        return self.rows[0] if self.rows else None

    def __str__(self) -> str:
        if self.is_exact:
            return f"{self.n} runs of {self._name} are equal to the bit, in all values"
        numbers = ", ".join(map(str, self.results))
        words = (
            f"its result {numbers} differs"
            if len(self.results) == 1
            else f"its results {numbers} differ"
        )
        own = words if self.results else "its results are equal"
        if self.first is None:
            where = "no operation differs where all values are kept: the compiler's own order of a sum, or memory, does"
            return f"{self.n} runs of {self._name} don't repeat: {own}, and {where}"
        more = len(self.rows) - MAX_ROWS
        return "\n".join(
            [
                f"{self.n} runs of {self._name} don't repeat from `{self.first.primitive}` on ({own}): {self.first.line}",
                f"{'runs':>5} {'ulps':>8}  {'':<8} {'operation':<22} line",
                *map(str, self.rows[:MAX_ROWS]),
                *([f"… and {more} other operations"] if more > 0 else []),
            ]
        )

    def __repr__(self) -> str:
        return f"Repetition({self})"

    def record(self) -> UnequalRunsRecord:
        """The record of two unequal runs, for front ends. Raises: ArgumentValueError where no operation differs."""
        if self._operation is None:
            raise ArgumentValueError("no operation differs that could be drawn.")
        return self._operation.record(
            self._name,
            f"{self.n} runs",
            "\n".join(str(self).splitlines()[:1]),
            ("in the first run", "in another"),
            UnequalOperationColumns(
                primitive=[row.primitive for row in self.rows],
                line=[row.line for row in self.rows],
                runs=[row.runs for row in self.rows],
                ulps=[finite(row.ulps) for row in self.rows],
                begins=[row.begins for row in self.rows],
            ),
            [row.equation for row in self.rows],
        )

    def figure(self) -> Figure:
        """Figure of the first operation: the lines that lead to it, its operands and results. Notebooks display it by default."""
        return Figure(self.record(), str(self), f"<pre>{html.escape(str(self))}</pre>")

    def opened(self) -> tuple[str, DebugSession]:
        """The name of the call, and a session at the line of the first operation that doesn't repeat."""
        assert self._begin is not None
        assert self._operation is not None
        return self._name, self._begin().to_line_of(self._operation.equation)

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        if self._operation is None:
            return {"text/plain": str(self)}, {}
        has_place = self._begin is not None and bool(user_stack(self._operation.equation))
        return display_bundle(self.figure(), self if has_place else None)


def repeat(function: Callable[..., Any], n: int = 5) -> Callable[..., Repetition]:
    """Returns a function that runs a call `n` times and finds operations that aren't bitwise reproducible.

    The call runs compiled as usual, and compiled again to return all its values; loops and branches are compared by
    their results. Host callbacks run each time. The values of two runs are kept in memory.

    Raises: ArgumentValueError for fewer than two runs, or for an `n` that is no whole number.

    >>> print(repeat(lambda x: x + 1.0)(2.0))
    5 runs of <lambda> are equal to the bit, in all values
    """
    check_function(function, "repeat")
    if not hasattr(n, "__index__") or n < 2:
        raise ArgumentValueError("debugger.repeat needs at least two runs.", got=f"n={n!r}")

    @without_traps()
    def compare_runs(*args: Any, **kwargs: Any) -> Repetition:
        program = pl.make_jaxpr(function)(*args, **kwargs)
        operands = [*map(pl.numpy.asarray, pl.tree.leaves((args, kwargs)))]
        compiled = pl.jit(function)
        first, *others = (pl.tree.leaves(compiled(*args, **kwargs)) for _ in range(n))
        differing = [
            i for i, x in enumerate(first) if any(bits(x) != bits(run[i]) for run in others)
        ]
        rows, operation = _compare(program, operands, n)
        return Repetition(
            getattr(function, "__name__", "the function"),
            n,
            rows,
            differing,
            operation,
            lambda: DebugSession(function, args, kwargs),
        )

    return compare_runs


def _compare(
    program: Any, operands: list[Any], n: int
) -> tuple[list[Unrepeated], UnequalOperation | None]:
    """The equations of a program whose results aren't equal in `n` runs, and the first of them with its values."""
    first = evaluate_program(program, operands, is_compiled=True, calls_host=True)
    found: dict[int, tuple[int, float]] = {}
    unequal: set[Any] = set()
    operation, number = None, len(first.jaxpr.equations)
    for _ in range(n - 1):
        run = evaluate_program(program, operands, is_compiled=True, calls_host=True)
        pairs = zip(first.jaxpr.equations, run.jaxpr.equations, strict=True)
        for i, (equation, other) in enumerate(pairs):
            distance = None
            for v, w in zip(equation.results, other.results, strict=True):
                if v not in first.values:
                    continue
                a, b = first.values[v], run.values[w]
                if bits(a) != bits(b):
                    distance = max(distance or 0.0, ulps(a, b))
                    unequal.add(v)
            if distance is not None and i < number:
                given = [first.read(atom) for atom in equation.operands]
                results = first.results(equation), run.results(other)
                operation, number = UnequalOperation(equation, given, results), i
            if distance is not None:
                runs, before = found.get(i, (0, 0.0))
                found[i] = runs + 1, max(before, distance)
    equations = first.jaxpr.equations
    rows = [
        Unrepeated(
            equations[i].primitive.name, line_text(equations[i]), runs, distance,
            not any(v in unequal for v in equations[i].operands if v in first.values), equations[i],
        )
        for i, (runs, distance) in sorted(found.items())
    ]  # fmt: skip
    return rows, operation
