"""Collectives that some devices would reach and others not, found while a function is traced."""

from __future__ import annotations

from typing import Any

from pellucid.base.errors import CollectiveError
from pellucid.ir.jaxpr import Equation, Jaxpr, subjaxprs
from pellucid.parallel.axes import AxisIndex
from pellucid.primitives.varying import PVary
from pellucid.tracing.tracer import where_made

_SILENT = (AxisIndex, PVary)
"""Equations that name axes but wait for nobody."""


def check_no_divergence(caller: str, jaxpr: Jaxpr) -> None:
    """Raise CollectiveError if a collective stands where devices along its axes may take different ways.

    That is in a branch of `cond` or `switch`, or in a `while_loop`, whose predicate varies over one of the axes:
    devices that take the other way would never arrive.
    """
    for equation in jaxpr.equations:
        varying, programs = _ways(equation)
        if varying:
            for program in programs:
                found = _collective_over(program, varying)
                if found is not None:
                    raise _diverging(caller, equation, found, varying)
        for inner in subjaxprs(equation.params):
            check_no_divergence(caller, inner)


def _ways(equation: Equation) -> tuple[frozenset[Any], list[Jaxpr]]:
    """(axes over which the predicate of a choice varies, programs that only some devices may run)."""
    name = equation.primitive.name
    if name == "cond":
        return equation.operands[0].aval.varying, subjaxprs(equation.params)  # type: ignore[attr-defined]
    if name == "while":
        [predicate] = equation.params.cond_jaxpr.out_avals
        return predicate.varying, subjaxprs(equation.params)
    return frozenset(), []


def _collective_over(jaxpr: Jaxpr, axes: frozenset[Any]) -> Equation | None:
    """The first collective over one of `axes`, in programs within the program too."""
    for equation in jaxpr.equations:
        inner = subjaxprs(equation.params)
        waits = not inner and not isinstance(equation.primitive, _SILENT)
        if waits and equation.primitive.axis_names(equation.params, frozenset()) & axes:
            return equation
        for program in inner:
            found = _collective_over(program, axes)
            if found is not None:
                return found
    return None


def _diverging(
    caller: str, choice: Equation, collective: Equation, varying: frozenset[Any]
) -> CollectiveError:
    name = collective.primitive.name
    axes = collective.primitive.axis_names(collective.params, frozenset()) & varying
    kind = {"cond": "a branch of cond", "while": "a while_loop"}[choice.primitive.name]
    [axis, *_] = sorted(axes, key=str)
    lines = [f"the predicate varies over axis {axis!r}"]
    for what, equation in ((f"the {choice.primitive.name}", choice), (name, collective)):
        place = where_made(equation.source)
        if place:
            lines.append(f"{what}: {place}")
    return CollectiveError(
        f"{caller}: `{name}` in {kind} would wait for devices that go another way.",
        got=lines,
        do=f"Move the collective out, or make the predicate the same everywhere (`psum`, `pmax` over {axis!r}).",
    )
