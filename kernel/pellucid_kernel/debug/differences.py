"""Differences between the results of a debugged run and of the compiled program, and the operation where they begin."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import pellucid as pl
from pellucid.introspect.errors import ArgumentValueError, EffectsError
from pellucid.introspect.evaluation import (
    Evaluation,
    compile_without_others,
    evaluate_program,
    where_rounding_begins,
)
from pellucid.introspect.stepping import line_text, user_stack
from pellucid.introspect.traps import without_traps
from pellucid_kernel.debug.equation_stacks import columns_of_lines, user_line_columns
from pellucid_kernel.debug.schema import (
    NamedValueRecord,
    UnequalOperationColumns,
    UnequalRunsRecord,
)
from pellucid_kernel.debug.stopping_places import display_bundle
from pellucid_viz.figure import Figure

if TYPE_CHECKING:
    from pellucid_kernel.debug.debug_session import DebugSession


class Difference(NamedTuple):
    """Difference between a result of the debugged run and the same result of the compiled one."""

    result: int
    """Index of the result."""
    ulps: float
    """Largest distance of two elements in units in the last place (ULPs); 0 for bitwise equal results."""


@dataclass(frozen=True, eq=False)
class UnequalOperation:
    """An operation with its operands, and the results that it gave in two runs."""

    equation: Any
    operands: Sequence[Any]
    results: tuple[Sequence[Any], Sequence[Any]]

    def record(
        self,
        function: str,
        runs: str,
        says: str,
        names: tuple[str, str],
        operations: UnequalOperationColumns,
        equations: Sequence[Any],
    ) -> UnequalRunsRecord:
        """The operation as front ends draw it, with the first of its results that differ; `names` are those of the two runs."""
        a, b = next(
            (pair for pair in zip(*self.results, strict=True) if bits(pair[0]) != bits(pair[1])),
            [results[0] for results in self.results],
        )
        values = [(f"operand {i}", x) for i, x in enumerate(self.operands)]
        values += [(f"result {name}", x) for name, x in zip(names, (a, b), strict=True)]
        values.append(("distance, in units of the last place", distances(a, b).astype(np.float32)))
        stack = user_stack(self.equation)
        with without_traps():
            drawn = [
                NamedValueRecord(name=n, values=pl.analysis.array_values(x)) for n, x in values
            ]
        return UnequalRunsRecord(
            function=function,
            runs=runs,
            primitive=self.equation.primitive.name,
            says=says,
            way=columns_of_lines(stack),
            functions=[frame.function for frame in stack],
            operations=operations,
            places=user_line_columns(equations),
            values=drawn,
        )


@dataclass(frozen=True, eq=False)
class FirstDifference:
    """The first operation whose results depend on whether it runs alone or within the compiled program.

    `print(difference)` says which; in a notebook its figure draws its operands, and its results alone and compiled.
    """

    primitive: str
    """Name of the primitive; empty if no single operation differs, at most results of the program compiled as usual."""
    line: str
    """Source line of the operation."""
    ulps: float
    """Largest distance of two elements in units in the last place."""
    is_exact_equal: bool = False
    """Whether none differs under `pl.exact_arithmetic()`."""
    are_equal: bool = False
    """Whether there is no difference at all."""
    operation: UnequalOperation | None = None
    """With its operands and results; None where no single operation differs."""
    begin: Callable[[], tuple[str, DebugSession]] | None = None
    """Gives the name of the call, and a session at its start."""

    def __str__(self) -> str:
        if self.are_equal:
            return "the compiled call and its operations, run one by one, are equal to the bit"
        if not self.primitive:
            return "no single operation differs: the compiler rounds otherwise where it keeps no value between"
        line = f": {self.line}" if self.line else ""
        cure = "; under `pl.exact_arithmetic()` none does" if self.is_exact_equal else ""
        return f"they first differ at `{self.primitive}`, by {in_ulps(self.ulps)}{line}{cure}"

    def record(self) -> UnequalRunsRecord:
        """The difference as front ends draw it. Raises: ArgumentValueError where no single operation differs."""
        if self.operation is None:
            raise ArgumentValueError("no single operation differs that could be drawn.")
        operations = UnequalOperationColumns(
            primitive=[self.primitive], line=[self.line], runs=[1], ulps=[finite(self.ulps)], begins=[True]
        )  # fmt: skip
        name = "" if self.begin is None else self.begin()[0]
        ways = ("alone", "compiled")
        return self.operation.record(
            name, " and ".join(ways), str(self), ways, operations, [self.operation.equation]
        )

    def figure(self) -> Figure:
        """Figure of the operation: the lines that lead to it, its operands and both results. Notebooks display it by default."""
        return Figure(self.record(), str(self), f"<pre>{html.escape(str(self))}</pre>")

    def opened(self) -> tuple[str, DebugSession]:
        """The name of the call, and a session at the line of the operation."""
        assert self.begin is not None
        assert self.operation is not None
        name, session = self.begin()
        return name, session.to_line_of(self.operation.equation)

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        if self.operation is None:
            return {"text/plain": str(self)}, {}
        has_place = self.begin is not None and bool(user_stack(self.operation.equation))
        return display_bundle(self.figure(), self if has_place else None)


def differences(results: Sequence[Any], compiled: Sequence[Any]) -> list[Difference]:
    """The difference of each result from that of the compiled program."""
    pairs = zip(results, compiled, strict=True)
    return [Difference(i, ulps(a, b)) for i, (a, b) in enumerate(pairs)]


def first_difference_of(
    program: Any,
    operands: Sequence[Any],
    max_equations: int | None = None,
    begin: Callable[[], tuple[str, DebugSession]] | None = None,
) -> FirstDifference | None:
    """Finds the first operation of a program that rounds differently when it runs alone.

    The program is compiled to return all its values, and compared with a run operation by operation; loops are compared
    by their results. None for a program with callbacks that return values, with more than `max_equations` equations, or
    whose operands were donated.
    """
    if any(isinstance(x, pl.Array) and x.is_deleted() for x in operands):
        return None
    try:
        whole = evaluate_program(program, operands, is_compiled=True)
        if max_equations is not None and len(whole.jaxpr.equations) > max_equations:
            return None
        alone = evaluate_program(program, operands, is_compiled=False)
    except EffectsError:
        return None
    for equation, other in zip(whole.jaxpr.equations, alone.jaxpr.equations, strict=True):
        distance = _farthest(alone.results(other), whole.results(equation))
        if distance:
            break
    else:
        place = where_rounding_begins(whole, alone, ulps)
        if place is None:
            return FirstDifference("", "", 0.0, are_equal=_are_equal(whole, alone))
        number, distance = place
        equation, other = whole.jaxpr.equations[number], alone.jaxpr.equations[number]
        kept = [v for v in equation.results if v in whole.values]
        whole.values.update(zip(kept, compile_without_others(whole, kept), strict=True))
    is_equal = False
    if not pl.config.jax_exact_arithmetic:
        with pl.exact_arithmetic():
            again = first_difference_of(program, operands)
        is_equal = again is not None and not again.primitive
    return FirstDifference(
        equation.primitive.name,
        line_text(equation),
        distance,
        is_exact_equal=is_equal,
        operation=_unequal(equation, other, whole, alone),
        begin=begin,
    )


def _unequal(equation: Any, other: Any, whole: Evaluation, alone: Evaluation) -> UnequalOperation:
    """An operation of a compiled run, and its counterpart of the run by operations."""
    pairs = [
        (alone.values[w], whole.values[v])
        for v, w in zip(equation.results, other.results, strict=True)
        if v in whole.values and w in alone.values
    ]
    ours, theirs = zip(*pairs, strict=True)
    return UnequalOperation(equation, [whole.read(a) for a in equation.operands], (ours, theirs))


def _are_equal(whole: Evaluation, alone: Evaluation) -> bool:
    """Whether a program, compiled with its results alone, gives those of its operations to the bit."""
    pairs = zip(whole.jaxpr.outvars, alone.jaxpr.outvars, strict=True)
    results = {v: alone.values[w] for v, w in pairs if v in whole.values}
    compiled = compile_without_others(whole, [*results])
    return _farthest(compiled, [*results.values()]) == 0


def _farthest(results: Sequence[Any], others: Sequence[Any]) -> float:
    return max(map(ulps, results, others), default=0.0)


def ulps(a: Any, b: Any) -> float:
    """Largest distance of elements of two arrays in units in the last place; infinite if unequal ones aren't finite.

    For other than floating-point dtypes 0, or infinity if elements differ. PRNG keys are compared by their words.

    >>> ulps(np.float32(1), np.nextafter(np.float32(1), np.float32(2)))
    1.0
    """
    return float(distances(a, b).max(initial=0.0))


def distances(a: Any, b: Any) -> Any:
    """The distance of each pair of elements of two arrays, as `ulps` measures it.

    >>> distances(np.array([1, 2]), np.array([1, 3]))
    array([ 0., inf])
    """
    x, y = map(_elements, (a, b))
    if x.dtype.kind == "c":
        return np.maximum(distances(x.real, y.real), distances(x.imag, y.imag))
    if not pl.numpy.issubdtype(x.dtype, pl.numpy.floating):
        return np.where(x == y, 0.0, np.inf)
    is_equal = (x == y) | (np.isnan(x) & np.isnan(y))
    m, n = _ordinals(x), _ordinals(y)
    # Ordinals of numbers of unlike signs may differ by more than 64 bits hold: their distance is computed in float64.
    distance = np.abs(np.where((m < 0) == (n < 0), m - n, m.astype(np.float64) - n))
    return np.where(is_equal, 0.0, np.where(np.isfinite(x) & np.isfinite(y), distance, np.inf))


def in_ulps(distance: float) -> str:
    """A distance in words.

    >>> in_ulps(1.0), in_ulps(2.5)
    ('1 unit of the last place', '2.5 units of the last place')
    """
    return f"{distance:g} unit{'' if distance == 1 else 's'} of the last place"


def bits(x: Any) -> bytes:
    """The bits of an array's elements, or of the words of keys."""
    return _elements(x).tobytes()


def finite(x: float) -> float | None:
    """A number that JSON has; None for NaN and infinity.

    >>> finite(0.5), finite(float("inf"))
    (0.5, None)
    """
    return x if np.isfinite(x) else None


def _elements(x: Any) -> Any:
    is_key = pl.numpy.issubdtype(getattr(x, "dtype", np.float32), pl.dtypes.extended)
    return np.atleast_1d(np.asarray(pl.random.key_data(x) if is_key else x))


def _ordinals(x: Any) -> Any:
    """Ranks of floating-point numbers in ascending order; zero has rank 0."""
    bits = x.view(f"u{x.dtype.itemsize}")
    sign = bits.dtype.type(1 << (8 * x.dtype.itemsize - 1))
    magnitude = (bits & ~sign).astype(np.int64)
    return np.where(bits & sign, -magnitude, magnitude)
