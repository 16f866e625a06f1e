"""`find`: the first operation whose result meets a condition, with its line, iteration, elements and operands."""

from __future__ import annotations

import html
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import pellucid as pl
from pellucid.introspect.bodies import bodies_of, programs_within
from pellucid.introspect.finding import Match, meets, of_elements
from pellucid.introspect.lineage import equations_by_id, transformation_of
from pellucid.introspect.traps import without_traps
from pellucid_kernel.debug.debug_session import BUDGET, DebugSession
from pellucid_kernel.debug.differences import FirstDifference
from pellucid_kernel.debug.equation_stacks import columns_of_lines
from pellucid_kernel.debug.gaps import ADVICE, decomposition_behind
from pellucid_kernel.debug.schema import FindingRecord
from pellucid_kernel.debug.stopping_places import check_condition, check_function, display_bundle
from pellucid_kernel.debug.unselected import CURE, compiled_results, cured_by_masks
from pellucid_viz.figure import Figure

Condition = Callable[[Any], Any]
"""A traceable function of one array that returns booleans: one per element, or a single one."""


class Finding:
    """The first operation whose result meets a condition. `print(finding)` shows its place and operands.

    `session` is stopped before the operation, to look around and to step from there.
    """

    def __init__(
        self,
        session: DebugSession,
        condition: Condition,
        name: str = "",
        *,
        is_cured: bool = False,
    ) -> None:
        self._name = name or "the function"
        self._place = session.place()
        self.session = session
        self.equation = session.equation
        self.iterations = [
            level.turn[1] for level in self.session.levels if level.call and level.call.is_loop
        ]
        """Iteration of each enclosing loop, outermost first, counted from 0."""
        self.results, self.number, self.elements = session.results_meeting(condition)
        """`number`: that of the first result with elements that meet the condition; `elements`: their indices, one row for
        each.
        """
        self.lanes = session.lanes
        """Batch lanes of the first element, outermost first, as far as they are known."""
        self.operands = session.operands()
        self.is_cured = is_cured
        """Whether a derivative among the results is non-finite that is finite under `masked_gradients`."""

    @property
    def primitive(self) -> str:
        """Name of the primitive."""
        return self.equation.primitive.name

    @property
    def is_backward(self) -> bool:
        """Whether the operation belongs to the backward pass of a derivative."""
        return transformation_of(self.equation) == "transpose"

    @property
    def line(self) -> int:
        """The innermost user line; 0 if there is none."""
        return self.session.stack()[-1].line

    @property
    def result(self) -> Any:
        """The first result with elements that meet the condition."""
        return self.results[self.number]

    @property
    def summary(self) -> str:
        """The operation, and how many elements of its result meet the condition, with the first one's index."""
        n, total = len(self.elements), np.size(self.result)
        first = tuple(map(int, self.elements[0])) if n and self.elements.shape[1] else ()
        where = f", first at index {first}" if first else ""
        of = f" of result {self.number}" if len(self.results) > 1 else ""
        direction = " of the backward pass" if self.is_backward else ""
        return f"`{self.primitive}`{direction}: {n} of {total} elements{of}{where}"

    def __str__(self) -> str:
        behind = decomposition_behind(self.equation)
        rows = [
            self.summary,
            *(f"  in iteration {i}" for i in self.iterations),
            *(f"  in {lane}" for lane in self.lanes),
            *(f"  operand {i}: {range_text(x)}" for i, x in enumerate(self.operands)),
            *([f"  the derivative that isn't finite {CURE}"] if self.is_cured else []),
            *([f"  a quotient of the derivative of `{behind}`; {ADVICE}"] if behind else []),
            str(self.session),
        ]
        return "\n".join(rows)

    def __repr__(self) -> str:
        return f"Finding({self})"

    def opened(self) -> tuple[str, DebugSession]:
        """(name of the call, a new session before the operation)."""
        return self._name, self.session.again().go_to_place(self._place)

    def record(self) -> FindingRecord:
        """The finding as the record that front ends display."""
        stack = self.session.stack()
        with without_traps():
            values = [pl.analysis.array_values(x) for x in [*self.operands, self.result]]
        return FindingRecord(
            function=self._name,
            primitive=self.primitive,
            is_backward=self.is_backward,
            n_elements=len(self.elements),
            size=int(np.size(self.result)),
            index=[*map(int, self.elements[0])] if len(self.elements) else [],
            lanes=[*map(str, self.lanes)],
            iterations=self.iterations,
            way=columns_of_lines([frame if frame.line else None for frame in stack]),
            functions=[f"{frame.function}  {frame.run}".strip() for frame in stack],
            operands=values[:-1],
            result=values[-1],
        )

    def figure(self) -> Figure:
        """Figure of the operation, its operands and how it was reached. Notebooks display it by default."""
        return Figure(self.record(), str(self), f"<pre>{html.escape(str(self))}</pre>")

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return display_bundle(self.figure(), self)


def _has_backward_pass(jaxpr: Any) -> bool:
    equations = equations_by_id(jaxpr).values()
    return any(transformation_of(equation) == "transpose" for equation in equations)


def debug(function: Callable[..., Any], *, budget: int = BUDGET) -> Callable[..., DebugSession]:
    """Returns a function that starts to debug a call: `session = debug(f)(x)` is stopped before the first line of `f`.

    `function` may be jitted, differentiated or batched; it is traced once. `budget`: maximum bytes of values to keep.

    >>> session = debug(pl.jit(lambda x: pl.numpy.sin(x) * 2.0))(0.0)
    >>> session.finish()
    Array(0., dtype=float32, weak_type=True)
    """
    check_function(function, "debug")

    def start_session(*args: Any, **kwargs: Any) -> DebugSession:
        return DebugSession(function, args, kwargs, budget)

    return start_session


def find(function: Callable[..., Any], condition: Condition) -> Callable[..., Finding | None]:
    """Returns a function that finds the first operation of a call whose result meets a condition; it returns None if
    there is none.

    The search includes operations within jit, branches, derivatives, and each iteration of loops; the call runs
    compiled, and rounds as its operations do when called by themselves; a warning says where a result of the call meets the
    condition and no operation by itself does. `condition` is `isnan`, `isinf`, `exceeds(bound)`, or a traceable function of one array that returns
    booleans. Raises: EffectsError for a function with callbacks that return values.

    >>> finding = find(pl.grad(lambda x: pl.numpy.sqrt(x * 0.0)), isnan)(1.0)
    >>> finding.primitive, finding.is_backward
    ('mul', True)
    """
    check_function(function, "find")
    check_condition(condition)

    def search(*args: Any, **kwargs: Any) -> Finding | None:
        with without_traps():
            session = DebugSession(function, args, kwargs)
            match = session.search(condition)
            if match is None:
                _warn_of_results(function, args, kwargs, condition, session.program)
                return None
            # What isn't selected may be NaN in the forward pass, too.
            is_asked = (
                condition in (isnan, isinf)
                and _has_backward_pass(session.program)
                and (transformation_of(match.equation) == "transpose" or _may_be_left_out(match))
            )
            cured = cured_by_masks(function, args, kwargs) if is_asked else []
            name = getattr(function, "__name__", "")
            return Finding(session.go_to(match), condition, name, is_cured=any(cured))

    return search


def _may_be_left_out(match: Match) -> bool:
    """Whether a selection gets the value that was found, in its program or one around that; later runs of a loop don't count."""
    for frame in reversed(match.frames):
        equations = frame.jaxpr.equations[frame.position :]
        reached = {*equations[0].results}
        for equation in equations[1:]:
            if reached.isdisjoint(equation.operands):
                continue
            within = (
                e
                for body in bodies_of(equation)
                for p in programs_within(body.jaxpr)
                for e in p.equations
            )
            if any(e.primitive.name == "select_n" for e in (equation, *within)):
                return True
            reached.update(equation.results)
        if reached.isdisjoint(frame.jaxpr.outvars):
            return False
    return False


def _warn_of_results(
    function: Callable[..., Any], args: Any, kwargs: Any, condition: Condition, program: Any
) -> None:
    """Warns if a result of a call that is compiled as a whole meets a condition, though no operation by itself does."""
    if program.effects:  # which would happen again
        return
    for number, x in enumerate(compiled_results(function, args, kwargs)):
        if isinstance(x, pl.Array) and meets(condition, x):
            warnings.warn(
                f"find: result {number} of the compiled call meets the condition, and no operation does that rounds by itself. "
                "`pl.debugger.diverge(f)(*args)` names the operations that the compiler computes otherwise; with "
                "`pl.exact_arithmetic()` the call computes what they do.",
                RuntimeWarning,
                stacklevel=3,
            )
            return


def first_difference(function: Callable[..., Any]) -> Callable[..., FirstDifference | None]:
    """Returns a function that finds the first operation of a call that rounds otherwise alone than compiled.

    The call runs operation by operation, and compiled to give all its values; loops are compared by their results. The
    result says so if none differs, and is None for a function that calls Python for values. `diverge` compares all
    operations, and other ways of running.

    >>> difference = first_difference(lambda x: x * 2.0)(1.0)
    >>> print(difference)
    the compiled call and its operations, run one by one, are equal to the bit
    """
    check_function(function, "first_difference")

    def compare(*args: Any, **kwargs: Any) -> FirstDifference | None:
        with without_traps():
            return DebugSession(function, args, kwargs).first_difference()

    return compare


@of_elements
def isnan(x: Any) -> Any:
    """Condition for `find`: mask of the elements that are NaN; False for dtypes without NaN.

    >>> isnan(np.float32(np.nan))
    Array(True, dtype=bool)
    """
    return pl.numpy.isnan(x) if pl.numpy.issubdtype(x.dtype, pl.numpy.inexact) else False


@of_elements
def isinf(x: Any) -> Any:
    """Condition for `find`: mask of the elements that are infinite; False for dtypes without infinity.

    >>> isinf(np.float32(np.inf))
    Array(True, dtype=bool)
    """
    return pl.numpy.isinf(x) if pl.numpy.issubdtype(x.dtype, pl.numpy.inexact) else False


def exceeds(bound: float) -> Condition:
    """Condition for `find`: mask of the elements whose absolute value is larger than `bound`.

    >>> exceeds(10.0)(np.float32(-11))
    Array(True, dtype=bool)
    """

    @of_elements
    def is_beyond(x: Any) -> Any:
        return pl.numpy.abs(x) > bound if pl.numpy.issubdtype(x.dtype, np.number) else False

    return is_beyond


def range_text(x: Any) -> str:
    """Type and range of an operand, with its numbers of NaNs and infinities."""
    value = np.asarray(x)
    text = pl.typeof(x).text() if hasattr(pl.typeof(x), "text") else str(pl.typeof(x))
    if value.dtype.kind != "f":
        return f"{text} {value if value.size == 1 else ''}".rstrip()
    finite = value[np.isfinite(value)]
    parts = [f"in [{finite.min():.6g}, {finite.max():.6g}]"] if finite.size else []
    for name, count in (("NaN", np.isnan(value).sum()), ("infinite", np.isinf(value).sum())):
        parts += [f"{count} {name}"] if count else []
    return f"{text} {', '.join(parts)}".rstrip()
