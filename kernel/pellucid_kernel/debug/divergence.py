"""`diverge`: compares two ways of running a function, equation by equation: where they differ first, where errors grow."""

from __future__ import annotations

import difflib
import html
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import pellucid as pl
from pellucid.introspect.errors import ArgumentTypeError
from pellucid.introspect.evaluation import (
    Evaluation,
    Step,
    evaluate_program,
    runs_within,
    where_rounding_begins,
)
from pellucid.introspect.noting import noting
from pellucid.introspect.stepping import can_enter, is_loop, line_text, user_stack
from pellucid.introspect.traps import without_traps
from pellucid_kernel.debug.debug_session import DebugSession
from pellucid_kernel.debug.differences import finite
from pellucid_kernel.debug.equation_stacks import line_within, user_line_columns
from pellucid_kernel.debug.schema import ComparedEquationColumns, DivergenceRecord
from pellucid_kernel.debug.stopping_places import check_function, display_bundle
from pellucid_viz.figure import Figure

MAX_ROWS = 12
"""Maximum number of equations in the text of a comparison."""
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""Arguments of a call, by position and by name."""


class ComparedEquation(NamedTuple):
    """An equation that both runs have, and the difference of its results."""

    primitive: str
    line: str
    """Source line of the equation."""
    error: float
    """Largest difference of two elements, relative to the largest element of run `b`; infinite if unequal ones aren't
    both finite, or all of `b` is zero.

    For other than floating-point results, the fraction of elements that differ.
    """
    operand_error: float
    """Largest error among its operands."""
    equation: Any = None
    """The equation of run `a`."""
    iterations: tuple[int, ...] = ()
    """Iteration of each enclosing loop, outermost first, counted from 0."""
    steps: tuple[Step, ...] = ()
    """How `match_at` enters the loops and branches around it."""
    index: int = 0
    """Its number in the program of run `a`, or in the body of the innermost of these loops."""

    @property
    def growth(self) -> float:
        """Error of the results divided by that of the operands; infinite if the operands are bitwise equal."""
        if not self.error or np.isinf(self.operand_error):
            return float(bool(self.error))
        return self.error / self.operand_error if self.operand_error else float("inf")

    def __str__(self) -> str:
        growth = "new" if np.isinf(self.growth) else f"{self.growth:.3g}"
        return f"{self.error:10.3g} {growth:>10}  {self.primitive:<22} {self.place}"

    @property
    def place(self) -> str:
        """Its line, with the iterations of the loops around it."""
        return line_within(self.line, self.iterations)


class Divergence:
    """Comparison of the runs `a` and `b` of a call. `print(divergence)` shows where they differ first, and where errors
    grow.
    """

    def __init__(
        self,
        rows: list[ComparedEquation],
        unmatched: int,
        names: tuple[str, str],
        exact: Divergence | None = None,
        begin: Callable[[], DebugSession] | None = None,
    ) -> None:
        self._begin = begin
        self.rows = rows
        """The equations that both runs have, in execution order. Before a loop or branch in which they first differ, or whose
        error is largest, are the equations of its iteration in which its values first differ, and where they differ most.
        """
        self.unmatched = unmatched
        """Number of equations that only one of the runs has."""
        self.exact = exact
        """The comparison under `pl.exact_arithmetic()`, made if the compiled and the eager run differ without it."""
        self._names = names

    @property
    def first(self) -> ComparedEquation | None:
        """The first equation whose results differ; None if the runs are bitwise equal."""
        return next((row for row in self.rows if row.error), None)

    @property
    def largest(self) -> ComparedEquation | None:
        """The first equation with the largest error."""
        return max(self.rows, key=lambda row: row.error, default=None) if self.first else None

    def __str__(self) -> str:
        a, b = self._names
        missing = [f"{self.unmatched} operations have no counterpart"] if self.unmatched else []
        if self.exact is not None:
            missing.append(_exact_text(self.exact.first))
        if self.first is None or self.largest is None:
            return "\n".join([f"{a} and {b} are equal to the bit", *missing])
        differing = [i for i, row in enumerate(self.rows) if row.error]
        by_growth = sorted(differing, key=lambda i: -self.rows[i].growth)
        ends = {differing[0], differing[-1], self.rows.index(self.largest)}
        shown = sorted([*ends, *[i for i in by_growth if i not in ends]][:MAX_ROWS])
        more = len(differing) - len(shown)
        return "\n".join(
            [
                f"{a} and {b} first differ at `{self.first.primitive}`, by {self.first.error:.3g}: {self.first.place}",
                f"the error is largest at `{self.largest.primitive}`, {self.largest.error:.3g}: {self.largest.place}",
                *missing,
                f"{'error':>10} {'growth':>10}  {'operation':<22} line",
                *[str(self.rows[i]) for i in shown],
                *([f"… and {more} other operations that differ"] if more else []),
            ]
        )

    def __repr__(self) -> str:
        return f"Divergence({self})"

    def record(self) -> DivergenceRecord:
        """The comparison as the record that front ends display."""
        return DivergenceRecord(
            a=self._names[0],
            b=self._names[1],
            equations=ComparedEquationColumns(
                primitive=[row.primitive for row in self.rows],
                line=[row.place for row in self.rows],
                error=[finite(row.error) for row in self.rows],
                operand_error=[finite(row.operand_error) for row in self.rows],
            ),
            places=user_line_columns([row.equation for row in self.rows]),
            unmatched=self.unmatched,
        )

    def figure(self) -> Figure:
        """Plot of the equations' errors in execution order. Notebooks display it by default."""
        return Figure(self.record(), str(self), f"<pre>{html.escape(str(self))}</pre>")

    @property
    def _opened_row(self) -> ComparedEquation | None:
        """The operation that a front end opens."""
        largest = self.largest
        return largest if largest is not None and np.isinf(largest.error) else self.first

    def opened(self) -> tuple[str, DebugSession]:
        """(name of the call, a session of run `a` before the first operation whose error is infinite, or else whose results differ)."""
        assert self._begin is not None
        row = self._opened_row
        assert row is not None
        session = self._begin().go_within(row.steps, row.index, row.equation)
        return " and ".join(self._names), session

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        row = self._opened_row
        has_line = row is not None and bool(user_stack(row.equation))
        return display_bundle(self.figure(), self if has_line and self._begin is not None else None)


def _exact_text(first: ComparedEquation | None) -> str:
    under = "under `pl.exact_arithmetic()`"
    if first is None:
        return f"{under} they are equal to the bit"
    return f"{under} they first differ at `{first.primitive}`, by {first.error:.3g}: {first.place}"


def diverge(
    function: Callable[..., Any], *args: Any, a: Any = "jit", b: Any = "eager"
) -> Callable[..., Divergence]:
    """Returns a function that compares two ways of running a call of `function`, equation by equation.

    A way is "jit" (compiled as one program that returns all its values), "eager" (equation by equation), a
    floating-point dtype to which floating-point arguments are cast, another function, a dictionary of compiler options,
    or a sharding for the arguments. Errors are relative to `b`. If the equations differ, they are aligned by primitive
    and shape. Of loops and branches the results are compared, and where the runs first differ in one, or most, its values, too,
    iteration by iteration. All values of both runs are kept in memory. If "jit"
    and "eager" differ, they are also compared under `pl.exact_arithmetic()`.

    Raises: ArgumentTypeError for an unknown way; EffectsError for a function with callbacks that return values.

    >>> divergence = diverge(lambda x: pl.numpy.exp(x * 12.0), a=np.float16, b=np.float32)(np.ones(2, np.float32))
    >>> divergence.largest.primitive, divergence.largest.error
    ('exp', inf)
    """
    check_function(function, "diverge")
    if args:
        raise ArgumentTypeError(
            "diverge takes the arguments of the function in a second call.",
            got=f"got {len(args)} beside the function",
            do="Write pl.debugger.diverge(f)(x); another way or function to compare with is named: diverge(f, b=g)(x).",
        )
    return lambda *args, **kwargs: _divergence(function, (args, kwargs), a, b)


@without_traps()
def _divergence(function: Callable[..., Any], call: Arguments, a: Any, b: Any) -> Divergence:
    (begin_first, first), (_, second) = (
        _evaluation(function, call, a),
        _evaluation(function, call, b),
    )
    pairs = _pairs(first, second)
    rows = _with_runs_within(_compare(first, second, pairs), first, second, pairs)
    are_plain = isinstance(a, str) and isinstance(b, str) and {a, b} == {"jit", "eager"}
    if are_plain and not any(row.error for row in rows):
        # Returned values are rounded. Here all are returned, which hides what the program compiled as usual rounds otherwise.
        compiled, eager = (first, second) if a == "jit" else (second, first)
        begin = where_rounding_begins(compiled, eager, distance)
        if begin is not None:
            rows[begin[0]] = rows[begin[0]]._replace(error=begin[1])
    n_equations = len(first.jaxpr.equations) + len(second.jaxpr.equations)
    divergence = Divergence(
        rows, n_equations - 2 * len(pairs), (_name(a), _name(b)), begin=begin_first
    )
    if divergence.first is not None and are_plain and not pl.config.jax_exact_arithmetic:
        with pl.exact_arithmetic():
            divergence.exact = _divergence(function, call, a, b)
    return divergence


def _pairs(first: Evaluation, second: Evaluation) -> dict[int, int]:
    """The indices of the equations that both programs have."""
    keys = [[_key(e) for e in run.jaxpr.equations] for run in (first, second)]
    blocks = difflib.SequenceMatcher(None, *keys, autojunk=False).get_matching_blocks()
    return {block.a + i: block.b + i for block in blocks for i in range(block.size)}


def _compare(
    first: Evaluation, second: Evaluation, pairs: Mapping[int, int]
) -> list[ComparedEquation]:
    """The equations that two runs have in common, with their errors."""
    errors: dict[Any, float] = {
        v: distance(first.values[v], second.values[w])
        for v, w in zip(first.jaxpr.invars, second.jaxpr.invars, strict=False)
        if np.shape(first.values[v]) == np.shape(second.values[w])
    }
    rows = []
    for i, one in enumerate(first.jaxpr.equations):
        operand_errors = [errors.get(v, 0.0) for v in one.operands if v in first.values]
        operand_error = max(operand_errors, default=0.0)
        if i not in pairs:
            errors.update(dict.fromkeys(one.results, operand_error))
            continue
        error = 0.0
        other = second.jaxpr.equations[pairs[i]]
        for v, w in zip(one.results, other.results, strict=True):
            if v in first.values and w in second.values:
                errors[v] = distance(first.values[v], second.values[w])
                error = max(error, errors[v])
        name = one.primitive.name
        rows.append(ComparedEquation(name, line_text(one), error, operand_error, one, index=i))
    return rows


def _with_runs_within(
    rows: list[ComparedEquation], first: Evaluation, second: Evaluation, pairs: Mapping[int, int]
) -> list[ComparedEquation]:
    """The rows of two runs, and before those that first and most differ, if they are loops or branches, the rows within these."""
    begin = next((row for row in rows if row.error), None)
    largest = max(rows, key=lambda row: row.error, default=None)
    entered = [row.index for row in (begin, largest) if row is not None and can_enter(row.equation)]
    found: list[ComparedEquation] = []
    for row in rows:
        if row.index in entered and row.error:
            found += _rows_in_iteration(row, first, second, pairs[row.index])
        found.append(row)
    return found


def _rows_in_iteration(
    row: ComparedEquation, first: Evaluation, second: Evaluation, other: int
) -> list[ComparedEquation]:
    """The rows of the iteration in which a loop's values first differ, and of the one where they differ most."""
    begin: list[ComparedEquation] = []
    largest: list[ComparedEquation] = []
    runs = zip(
        runs_within(first, row.equation),
        runs_within(second, second.jaxpr.equations[other]),
        strict=False,
    )
    pairs: dict[int, int] | None = None
    farthest = 0.0
    for number, (one, two) in enumerate(runs):
        pairs = _pairs(one, two) if pairs is None else pairs
        rows = _compare(one, two, pairs)
        error = max((each.error for each in rows), default=0.0)
        if error > farthest:
            farthest = error
            rows = _with_runs_within(rows, one, two, pairs)
            here = [
                each._replace(
                    iterations=(*([number] if is_loop(row.equation) else []), *each.iterations),
                    steps=((row.index, number), *each.steps),
                )
                for each in rows
            ]
            begin, largest = (begin, here) if begin else (here, [])
        if np.isinf(farthest):
            break
    return begin + largest


def _evaluation(
    function: Callable[..., Any], call: Arguments, way: Any
) -> tuple[Callable[[], DebugSession], Evaluation]:
    """(function that starts a session of a run, all values of the run)."""
    options: Mapping[str, Any] | None = None
    width = 0
    if isinstance(way, Mapping):
        options = way
    elif isinstance(way, pl.sharding.Sharding):
        call = pl.device_put(call, way)
    elif (dtype := _floating(way)) is not None:
        width = dtype.itemsize
        call = pl.tree.map(lambda x: _cast(x, dtype), call)
    elif callable(way):
        function = way
    elif way not in ("jit", "eager"):
        raise ArgumentTypeError(
            "diverge: there is no such way of running a function.",
            got=f"got {way!r}",
            do="Take 'jit', 'eager', a floating-point dtype, a function, a dictionary of compiler options or a sharding.",
        )
    with pl.enable_x64(width == 8 or bool(pl.config.jax_enable_x64)):
        args, kwargs = call
        with noting():
            program = pl.make_jaxpr(function)(*args, **kwargs)
        operands = [*map(pl.numpy.asarray, pl.tree.leaves(call))]
        run = evaluate_program(
            program, operands, is_compiled=way != "eager", compiler_options=options
        )
    names = getattr(inspect.unwrap(function), "__globals__", {})
    return lambda: DebugSession.of_program(program, operands, names), run


def _floating(way: Any) -> np.dtype[Any] | None:
    """The dtype, if a way is a dtype; else None."""
    if isinstance(way, str) and way in ("jit", "eager"):
        return None
    try:
        dtype = pl.numpy.dtype(way)
    except TypeError:
        return None
    return dtype if pl.numpy.issubdtype(dtype, pl.numpy.floating) else None


def _cast(x: Any, dtype: np.dtype[Any]) -> Any:
    is_floating = pl.numpy.issubdtype(pl.numpy.result_type(x), pl.numpy.floating)
    return np.asarray(x).astype(dtype) if is_floating else x


def _name(way: Any) -> str:
    return way if isinstance(way, str) else getattr(way, "__name__", None) or str(way)


def _key(equation: Any) -> Any:
    return equation.primitive.name, *[getattr(v.aval, "shape", ()) for v in equation.results]


def distance(a: Any, b: Any) -> float:
    """Error of an array compared with another of the same shape, see `ComparedEquation.error`.

    >>> distance(np.array([2.0, 5.0]), np.array([2.0, 4.0]))
    0.25
    """
    x, y = _numbers(a), _numbers(b)
    if np.array_equal(x, y, equal_nan=x.dtype.kind in "fc"):
        return 0.0
    if x.dtype.kind not in "fc":
        return float(np.mean(x != y))
    is_finite = np.isfinite(x) & np.isfinite(y)
    is_same = (x == y) | (np.isnan(x) & np.isnan(y))
    if not np.all(is_finite | is_same):
        return float("inf")
    scale = np.max(np.abs(y[is_finite]), initial=0.0)
    error = np.max(np.abs(x[is_finite] - y[is_finite]), initial=0.0)
    return float(error / scale) if scale else float("inf")


def _numbers(x: Any) -> np.ndarray:
    """Elements of an array: floating-point ones in at least double precision, PRNG keys as their words."""
    if pl.numpy.issubdtype(x.dtype, pl.dtypes.prng_key):
        x = pl.random.key_data(x)
    is_complex = pl.numpy.issubdtype(x.dtype, pl.numpy.complexfloating)
    if is_complex or pl.numpy.issubdtype(x.dtype, pl.numpy.floating):
        return np.asarray(x).astype(np.complex128 if is_complex else np.float64)
    return np.asarray(x)
