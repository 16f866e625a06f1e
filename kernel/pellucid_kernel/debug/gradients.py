"""`explain_grad`: norms of cotangents by line, and the path along which a gradient became NaN, infinite or zero."""

from __future__ import annotations

import html
import inspect
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import pellucid as pl
from pellucid.introspect.evaluation import (
    Evaluation,
    Step,
    evaluate_program,
    outputs_within,
    runs_within,
)
from pellucid.introspect.lineage import transformation_of
from pellucid.introspect.noting import noting
from pellucid.introspect.stepping import can_enter, is_loop, line_text, user_stack
from pellucid.introspect.traps import without_traps
from pellucid_kernel.debug.debug_session import DebugSession
from pellucid_kernel.debug.differences import finite
from pellucid_kernel.debug.equation_stacks import line_within, user_line_columns
from pellucid_kernel.debug.finders import Finding, isinf, isnan, range_text
from pellucid_kernel.debug.gaps import notes_on_gaps
from pellucid_kernel.debug.schema import CotangentColumns, GradientColumns, GradientRecord
from pellucid_kernel.debug.stopping_places import check_function, display_bundle
from pellucid_kernel.debug.unselected import CURE, cured_by_masks
from pellucid_viz.figure import Figure

_WRONG = ("NaN", "infinite")
_CONDITIONS = {"NaN": isnan, "infinite": isinf}
MAX_PATH = 8
"""Maximum number of operations of a path in the text of an explanation."""


class Cotangent(NamedTuple):
    """The last cotangent that the backward pass computes for a line of the forward pass."""

    line: str
    primitive: str
    norm: float
    """Euclidean norm."""
    fault: str
    """`NaN`, `infinite` or `zero` (all elements); empty if it is fine."""
    equation: Any = None
    """The equation of the backward pass that computes it."""


class PathStep(NamedTuple):
    """An equation along which a fault spread."""

    equation: Any
    index: int
    """Its number in the program, or in the body of the innermost loop or branch around it."""
    steps: tuple[Step, ...]
    """How `match_at` enters these."""
    iterations: tuple[int, ...]
    """Iteration of each loop around it, outermost first, counted from 0."""
    operands: list[str]
    """The ranges of its operands."""
    is_faulty: bool
    """Whether a result has the gradient's own fault, and not another one that led to it."""

    def __str__(self) -> str:
        line = line_within(line_text(self.equation), self.iterations)
        return f"`{self.equation.primitive.name}`: {line}"


class Gradient(NamedTuple):
    """The derivative with respect to one leaf of the arguments."""

    name: str
    """Path of the leaf, as in `params['w']`."""
    norm: float
    fault: str
    path: list[Any]
    """For a faulty gradient, the equations from the origin of the fault to the gradient; empty if it has no origin. Of a loop or
    branch in which it begins, those of the iteration where it does come first.
    """
    way: list[PathStep]
    """The path with its places."""

    @property
    def iterations(self) -> tuple[int, ...]:
        """Iteration of each loop around the fault's origin, outermost first, counted from 0."""
        return self.way[0].iterations if self.way else ()

    @property
    def opened_step(self) -> PathStep | None:
        """The first equation that gives the fault itself; None if the path is empty."""
        return next(
            (step for step in self.way if step.is_faulty), self.way[0] if self.way else None
        )


class Explanation:
    """A gradient and its backward pass. `print(explanation)` shows the norms by line, and the origin of faults."""

    def __init__(
        self,
        cotangents: list[Cotangent],
        gradients: list[Gradient],
        origins: list[str],
        begin: Callable[[], DebugSession],
        cured: list[bool],
        notes: Sequence[str] = (),
    ) -> None:
        self._begin = begin
        self.notes = [*notes]
        """Decompositions of matrices whose derivative divides by differences of equal, or nearly equal, values."""
        self.cotangents = cotangents
        """One for each line of the forward pass, in the order of the backward pass."""
        self.gradients = gradients
        self.finding = self._finding()
        """For a NaN or infinity that arises in a loop or branch: the first there, with its iteration and a session."""
        self.cured = cured
        """For each gradient, whether it is only non-finite because of unselected values: finite under
        `masked_gradients`.
        """
        self._origins = origins

    def _finding(self) -> Finding | None:
        within = [g for g in self.gradients if g.fault in _WRONG and g.way and g.way[0].steps]
        if not within:
            return None
        step, condition = within[-1].opened_step, _CONDITIONS[within[-1].fault]
        assert step is not None
        session = self._begin().go_within(step.steps, step.index, step.equation)
        return Finding(session, condition, session.name)

    @property
    def _opened_step(self) -> PathStep | None:
        """The equation that a front end opens: of the worst fault."""
        kinds = (*_WRONG, "zero")
        faults = sorted((g for g in self.gradients if g.way), key=lambda g: kinds.index(g.fault))
        return faults[0].opened_step if faults else None

    @property
    def faults(self) -> list[Gradient]:
        """The gradients that are NaN, infinite or zero."""
        return [each for each in self.gradients if each.fault]

    def __str__(self) -> str:
        rows = [f"{'norm':>10}  {'':<8}  line of the forward pass"]
        rows += [f"{c.norm:10.3g}  {c.fault:<8}  {c.line}" for c in self.cotangents]
        rows += [f"{g.norm:10.3g}  {g.fault:<8}  gradient of {g.name}" for g in self.gradients]
        rows += [*self._origins, *self._cures(), *self.notes]
        if self.finding is not None:
            rows.append(f"within it: {self.finding}")
        return "\n".join(rows)

    def _cures(self) -> list[str]:
        return [
            f"this {g.fault} in the gradient of {g.name} {CURE}"
            + (f" ({line_text(g.path[0])})" if g.path else "")
            for g, cured in zip(self.gradients, self.cured, strict=True)
            if cured
        ]

    def _elements(self) -> list[str]:
        """Which elements are at fault where it begins in a loop or branch; lines, iterations and operands are those of the path."""
        if self.finding is None:
            return []
        lanes = "".join(f", in {lane}" for lane in self.finding.lanes)
        return [f"in the loop or branch, {self.finding.summary}{lanes}"]

    def __repr__(self) -> str:
        return f"Explanation({self})"

    def record(self) -> GradientRecord:
        """The explanation as the record that front ends display."""
        return GradientRecord(
            cotangents=CotangentColumns(
                line=[c.line for c in self.cotangents],
                primitive=[c.primitive for c in self.cotangents],
                norm=[finite(c.norm) for c in self.cotangents],
                fault=[c.fault for c in self.cotangents],
            ),
            places=user_line_columns([c.equation for c in self.cotangents]),
            gradients=GradientColumns(
                name=[g.name for g in self.gradients],
                norm=[finite(g.norm) for g in self.gradients],
                fault=[g.fault for g in self.gradients],
                path=[[*map(str, g.way)] for g in self.gradients],
            ),
            operands=[g.way[0].operands if g.way else [] for g in self.gradients],
            within="\n".join([*self._cures(), *self.notes, *self._elements()]),
        )

    def figure(self) -> Figure:
        """Figure of the norms by line and the paths of faults. Notebooks display it by default."""
        return Figure(self.record(), str(self), f"<pre>{html.escape(str(self))}</pre>")

    def opened(self) -> tuple[str, DebugSession]:
        """(name of the gradient's call, a session before the operation that first gives its fault)."""
        step = self._opened_step
        assert step is not None
        session = self._begin().go_within(step.steps, step.index, step.equation)
        return session.name, session

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        step = self._opened_step
        has_line = step is not None and bool(user_stack(step.equation))
        return display_bundle(self.figure(), self if has_line else None)


def explain_grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0
) -> Callable[..., Explanation]:
    """Returns a function that explains `grad(function, argnums)` of a call: norms by line, and the origin of NaN,
    infinity or zero.

    The gradient runs compiled, as one program that gives all its values; a loop in which a fault begins is looked into, run by
    run. `function` gives a floating-point scalar. Where NaN
    or infinity comes of what the function computes and doesn't select, the explanation says so; and where the derivative of a
    decomposition divides by differences of values that are equal up to rounding.

    Raises: EffectsError for a function with callbacks that return values; ArgumentTypeError like `grad`.

    >>> explanation = explain_grad(lambda x: pl.numpy.sqrt(x * 0.0))(1.0)
    >>> [(g.name, g.fault, g.path[-1].primitive.name) for g in explanation.gradients]
    [('x', 'NaN', 'mul')]
    """
    check_function(function, "explain_grad")

    @without_traps()
    def explain(*args: Any, **kwargs: Any) -> Explanation:
        derivative = pl.value_and_grad(function, argnums)
        with noting():
            program = pl.make_jaxpr(derivative)(*args, **kwargs)
        leaves = [*map(pl.numpy.asarray, pl.tree.leaves((args, kwargs)))]
        run = evaluate_program(program, leaves, is_compiled=True)
        indices = [i % len(args) for i in ([argnums] if isinstance(argnums, int) else argnums)]
        ends = [*itertools.accumulate((len(pl.tree.leaves(x)) for x in args), initial=0)]
        argument_names = program.jaxpr.debug.argument_names
        names = [name for i in indices for name in argument_names[ends[i] : ends[i + 1]]]
        atoms = run.jaxpr.outvars[1:]
        gradients = [_gradient(run, name, atom) for name, atom in zip(names, atoms, strict=True)]
        origins = _origin_texts(gradients)

        def begin() -> DebugSession:
            innermost = inspect.unwrap(function)
            session = DebugSession.of_program(
                program, leaves, getattr(innermost, "__globals__", {})
            )
            session.name = getattr(function, "__name__", "")
            return session

        # The first result is the function's value.
        cured = cured_by_masks(derivative, args, kwargs, run)[1:]
        return Explanation(
            _cotangents(run),
            gradients,
            origins,
            begin,
            cured,
            notes_on_gaps(run),
        )

    return explain


def fault_of(x: Any) -> str:
    """Fault of a value as a gradient: `NaN`, `infinite`, `zero`, or empty for none.

    >>> fault_of(np.array([1.0, np.nan])), fault_of(np.zeros(2)), fault_of(np.ones(2))
    ('NaN', 'zero', '')
    """
    value = np.asarray(x)
    if np.isnan(value).any():
        return "NaN"
    if np.isinf(value).any():
        return "infinite"
    return "" if value.any() or not value.size else "zero"


def _is_cotangent(x: Any) -> bool:
    return pl.numpy.issubdtype(x.dtype, pl.numpy.inexact)


def _norm(x: Any) -> float:
    value = np.asarray(x)
    wide = value.astype(np.complex128 if value.dtype.kind == "c" else np.float64)
    return float(np.linalg.norm(wide.ravel()))


def _cotangents(run: Evaluation) -> list[Cotangent]:
    rows = []
    backward = [e for e in run.jaxpr.equations if transformation_of(e) == "transpose"]
    for line, group in itertools.groupby(backward, line_text):
        last = [(e, x) for e in group for x in run.results(e) if _is_cotangent(x)][-1:]
        rows += [Cotangent(line, e.primitive.name, _norm(x), fault_of(x), e) for e, x in last]
    return rows


def _gradient(run: Evaluation, name: str, atom: Any) -> Gradient:
    value = run.read(atom)
    fault = fault_of(value)
    way = _way(run, atom, fault, (), ()) if fault else []
    return Gradient(name, _norm(value), fault, [step.equation for step in way], way)


def _way(
    run: Evaluation,
    atom: Any,
    fault: str,
    steps: tuple[Step, ...],
    iterations: tuple[int, ...],
) -> list[PathStep]:
    """The equations along which a fault reached a value, its origin first; those of a loop or branch where it begins, too.

    A zero is followed through the backward pass only: if it comes from a zero factor of the forward pass, it begins
    there.
    """
    origins = {v: e for e in run.jaxpr.equations for v in e.results}
    indices = {e: i for i, e in enumerate(run.jaxpr.equations)}
    way: list[PathStep] = []
    while (equation := origins.get(atom) if atom in run.values else None) is not None:
        operands = [range_text(run.read(a)) for a in equation.operands]
        is_faulty = any(fault_of(x) == fault for x in run.results(equation) if _is_cotangent(x))
        index = indices[equation]
        way.insert(0, PathStep(equation, index, steps, iterations, operands, is_faulty))
        atoms = [a for a in equation.operands if a in origins and _is_cotangent(run.values[a])]
        if fault == "zero":
            atoms = [a for a in atoms if _is_backward(origins[a])]
            worse = atoms if all(fault_of(run.values[a]) == "zero" for a in atoms) else []
        else:
            kinds = ("NaN", "infinite")
            worse = [a for kind in kinds for a in atoms if fault_of(run.values[a]) == kind]
        if not worse:
            return _way_within(run, equation, atom, fault, way[0]) + way
        atom = worse[0]
    return way


def _way_within(
    run: Evaluation, equation: Any, atom: Any, fault: str, step: PathStep
) -> list[PathStep]:
    """The equations along which a fault that begins in a loop or branch spread in the run where it does."""
    if not can_enter(equation):
        return []
    number = next(i for i, v in enumerate(equation.results) if v is atom)
    found: tuple[int, Evaluation, Any] | None = None
    for i, each in enumerate(runs_within(run, equation)):
        own, carried = outputs_within(equation, number, each)
        if fault == "zero":
            is_zero = fault_of(each.read(own)) == fault
            # The fault is of this run only while all later ones are zero, too: another value begins the search anew.
            found = (found or (i, each, own)) if is_zero else None
            continue
        outputs = [a for a in (own, *carried) if _is_cotangent(np.asarray(each.read(a)))]
        faulty = next((a for a in outputs if fault_of(each.read(a)) == fault), None)
        if faulty is not None:
            found = i, each, faulty
            break
    if found is None:
        return []
    i, each, output = found
    iterations = (*step.iterations, *([i] if is_loop(equation) else []))
    return _way(each, output, fault, (*step.steps, (step.index, i)), iterations)


def _is_backward(equation: Any) -> bool:
    """Whether an equation of the backward pass computes a cotangent from another one, and not a constant."""
    is_constant = all(hasattr(a, "val") for a in equation.operands)
    return transformation_of(equation) == "transpose" and not is_constant


def _origin_texts(gradients: Sequence[Gradient]) -> list[str]:
    rows = []
    # One gradient for each origin of faults: the first.
    firsts = {(g.way[0].steps, g.way[0].index): g for g in reversed(gradients) if g.way}
    for each in firsts.values():
        first, *rest = each.way
        rows += [
            f"{each.fault} in the gradient of {each.name} begins at {first}",
            *[f"  operand {i}: {text}" for i, text in enumerate(first.operands)],
            *[f"  → {step}" for step in rest[:MAX_PATH]],
            *([f"  → … and {len(rest) - MAX_PATH} operations"] if len(rest) > MAX_PATH else []),
        ]
    return rows + [
        f"the gradient of {g.name} is zero whatever the values: the result doesn't depend on it"
        for g in gradients
        if g.fault and not g.path
    ]
