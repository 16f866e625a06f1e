"""Conditions that a debugger checks on the results of all equations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from weakref import WeakSet

import numpy as np

from pellucid._machine.base import ArgumentTypeError
from pellucid._machine.higher_order.structured import Structured
from pellucid._machine.ir import (
    Equation,
    HigherOrderPrimitive,
    Jaxpr,
    Literal,
    Results,
    ShapedArray,
)
from pellucid._machine.primitives.conversion import convert_element_type_p
from pellucid._machine.primitives.logical import bitwise_or, ne, select_n_p
from pellucid._machine.primitives.movement import reshape
from pellucid._machine.primitives.reduction import reduce_or
from pellucid._machine.tracing import Tracer, is_array_like, type_of

from .errors import CheckSite, JaxException
from .notes import NOTED, FailureNotes

UNDEFINED = frozenset({"undefined", "steps"})
"""Transformation names of equations that create or move uninitialized elements, which aren't checked."""


def unwatched_equations(jaxpr: Jaxpr) -> frozenset[Equation]:
    """The equations of a program whose results aren't values of the user's computation; cached.

    Uninitialized elements aren't, and arrays filled with numbers of the program aren't either, wherever it moves them: such a number is
    found where an operation takes it for a result. Equations that run programs aren't among them.
    """
    if "unwatched" not in jaxpr.memo:
        jaxpr.memo["unwatched"] = frozenset(_unwatched_equations(jaxpr))
    return jaxpr.memo["unwatched"]


def _unwatched_equations(jaxpr: Jaxpr) -> Iterator[Equation]:
    filled: set[Any] = set()
    for equation in jaxpr.equations:
        primitive, lineage = equation.primitive, equation.lineage
        is_moved = primitive.traits.kind == "movement"
        if is_moved and all(type(a) is Literal or a in filled for a in equation.operands):
            filled.update(equation.results)
            yield equation
        elif isinstance(primitive, Structured):
            continue
        elif lineage is not None and lineage.transformation in UNDEFINED:
            yield equation


def _moved_equations(jaxpr: Jaxpr) -> frozenset[Equation]:
    """The equations that only move elements of values that are watched in the same program; cached.

    Conversions aren't among them, as an element may become NaN or infinite.
    """
    if "moved" not in jaxpr.memo:
        unwatched = unwatched_equations(jaxpr)
        watched: set[Any] = set()
        moved = set()
        for equation in jaxpr.equations:
            primitive = equation.primitive
            # What a program within gives may be what it took, or filled there: it isn't watched once more here.
            if isinstance(primitive, HigherOrderPrimitive) or equation in unwatched:
                continue
            is_moved = (
                primitive.traits.kind == "movement" and primitive is not convert_element_type_p
            )
            if is_moved and equation.operands and watched.issuperset(_variables(equation)):
                moved.add(equation)
            watched.update(equation.results)
        jaxpr.memo["moved"] = frozenset(moved)
    return jaxpr.memo["moved"]


def _variables(equation: Equation) -> Iterator[Any]:
    """The operands of an equation, with None for the numbers among them."""
    return (None if type(a) is Literal else a for a in equation.operands)


_OF_ELEMENTS: WeakSet[Callable[[Any], Any]] = WeakSet()


def of_elements(condition: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`condition`, which holds of an element wherever it stands: what only moves elements isn't the first to meet it."""
    _OF_ELEMENTS.add(condition)
    return condition


class ConditionMetError(JaxException):
    """A value satisfied a watched condition."""


class Watch:
    """A category of errors: results for which `condition`, a traceable function of one array, has a true element.

    Watches for one condition are equal, so that what was compiled to search a program serves its next call.
    """

    def __init__(self, condition: Callable[[Any], Any]) -> None:
        self.condition = condition

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.condition == self.condition

    def __hash__(self) -> int:
        return hash((type(self), self.condition))

    def passes_by(self, jaxpr: Jaxpr) -> frozenset[Equation]:
        """The equations of a program that can't be the first whose result satisfies the condition, or don't count."""
        unwatched = unwatched_equations(jaxpr)
        is_of_elements = self.condition in _OF_ELEMENTS
        return unwatched | _moved_equations(jaxpr) if is_of_elements else unwatched

    def check(self, notes: FailureNotes, equation: Equation, results: Results) -> None:
        """Record whether a result of `equation` satisfies the condition."""
        holds = [flag for x in results if (flag := self.holds(x)) is not None]
        if not holds:
            return
        total = holds[0]
        for flag in holds[1:]:
            total = bitwise_or(total, flag)
        self.note(notes, _site(equation), total)

    def note(self, notes: FailureNotes, site: CheckSite, holds: Any) -> None:
        """Record that a result satisfies the condition where `holds` is true."""
        notes.watch(site, holds)

    def holds(self, x: Any) -> Any:
        """Whether any element of `x` satisfies the condition; None if that is known to be false, or `x` isn't an array."""
        if type(type_of(x)) is not ShapedArray:
            return None
        answer = self.condition(x)
        if isinstance(answer, (bool, np.bool_)) and not answer:
            return None
        if not is_array_like(answer) or type_of(answer).dtype != np.bool_:
            raise ArgumentTypeError(
                "a watched condition must return booleans.",
                got=f"for {type_of(x).text()}: {type_of(answer).text() if is_array_like(answer) else type(answer).__name__}",
                do="Compare, for example `lambda x: abs(x) > 1e4`.",
            )
        if not isinstance(answer, Tracer):
            answer = np.asarray(answer)
        ndim = type_of(answer).ndim
        return reduce_or(answer, tuple(range(ndim))) if ndim else answer


class FirstNote(Watch):
    """An error category: failure codes in a program that `checkify` has rewritten, entirely or in part."""

    def __init__(self) -> None:
        super().__init__(_is_failure)

    def check(self, notes: FailureNotes, equation: Equation, results: Results) -> None:
        """Record whether `equation` computes the code of a failure."""
        if equation.primitive is select_n_p and checked_equation(equation) is not None:
            super().check(notes, equation, results)

    def note(self, notes: FailureNotes, site: CheckSite, holds: Any) -> None:
        """Record the failure by equations of its own, from whose lineage it is found."""
        notes.add(site, holds)


def _is_failure(code: Any) -> Any:
    return ne(code, np.zeros(type_of(code).shape, np.int32))


def checked_equation(equation: Equation) -> Equation | None:
    """The checked equation whose failure code `equation`, or one of its origins, computes; None if there is none."""
    waiting = [equation]
    for each in waiting:  # grows during the loop
        if each.lineage is None or not each.lineage.origins:
            continue
        if each.lineage.transformation == NOTED:
            return each.lineage.origins[0]
        waiting += each.lineage.origins
    return None


Read = Callable[[Any], Any]
"""Returns the value of a variable of the equation's program."""


class Conditions:
    """An error category: equations before which a condition on already known values holds."""

    def __init__(self, conditions: Mapping[Equation, Callable[[Read], Any]]) -> None:
        self._conditions = conditions
        self._checked: set[Equation] = set()

    def unchecked_equations(self) -> list[Equation]:
        """The equations whose conditions are in no program built with this category."""
        return [e for e in self._conditions if e not in self._checked]

    def check(self, notes: FailureNotes, equation: Equation, values: Mapping[Any, Any]) -> None:
        """Record whether the condition of an equation holds, given the values of its program."""
        condition = self._conditions.get(equation)
        if condition is None:
            return
        self._checked.add(equation)
        holds = condition(values.__getitem__)
        aval = type_of(holds)
        if aval.size != 1:
            raise ArgumentTypeError("a condition must have one element.", got=aval.text())
        flag = ne(reshape(holds, ()), np.zeros((), aval.dtype))
        notes.add(_site(equation), flag)


def _site(equation: Equation) -> CheckSite:
    message = lambda: f"a result of `{equation.primitive.name}` met the condition"
    return CheckSite(ConditionMetError, message, (), equation.source, equation)
