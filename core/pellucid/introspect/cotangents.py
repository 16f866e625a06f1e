"""Names of cotangents: `d(logits)` is the derivative of a result by the value that the user calls `logits`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pellucid.introspect.lineage import origins_of, transformation_of
from pellucid.ir.jaxpr import Equation, Jaxpr, Var


def cotangent_names(jaxpr: Jaxpr, names: Mapping[Var, str]) -> dict[Var, str]:
    """A name for each whole cotangent of a value in `names`, `d(name)`; a summand of one has none.

    Reverse mode transposes the equations of the forward pass, last one first. What the transposes of one equation take from
    those of others is the cotangent of its result: all summands are added by then. What they give is the cotangent of an
    operand, unless another equation uses the operand too.
    """
    transposes = _transposes(jaxpr)
    if not transposes:
        return {}
    definers = {v: e for e in jaxpr.equations for v in e.results}
    users: dict[Var, list[Equation]] = {}
    for equation in jaxpr.equations:
        for v in equation.operands:
            if isinstance(v, Var):
                users.setdefault(v, []).append(equation)
    backward = next(i for i, e in enumerate(jaxpr.equations) if transformation_of(e) == "transpose")
    forward = {*jaxpr.equations[:backward]}
    outputs = {v for v in jaxpr.outvars if type(v) is Var}
    cotangents: dict[Var, str] = {}
    for equation, group in transposes.items():
        inside = {v for e in group for v in e.results}
        incoming = [
            v
            for e in group
            for v in e.operands
            if isinstance(v, Var)
            and v not in inside
            and v in definers
            and transformation_of(definers[v]) == "transpose"
        ]
        leaving = [
            v for v in inside if v in outputs or any(user not in group for user in users.get(v, ()))
        ]
        if len(equation.results) == 1:
            _name(equation.results[0], incoming, names, cotangents)
        operands = [v for v in equation.operands if isinstance(v, Var)]
        for operand in operands:
            # An addition passes its cotangent on without an equation of its own.
            others = [e for e in users[operand] if e is not equation and e in forward]
            alike = [v for v in operands if _shape(v) == _shape(operand)]
            if not others and len(alike) == 1:
                _name(operand, leaving, names, cotangents)
    return cotangents


def _transposes(jaxpr: Jaxpr) -> dict[Equation, list[Equation]]:
    """For each equation of a program its transposes in the same program."""
    equations_by_id = {e.id: e for e in jaxpr.equations}
    ids = frozenset(equations_by_id)
    transposes: dict[Equation, list[Equation]] = {}
    for equation in jaxpr.equations:
        if transformation_of(equation) == "transpose":
            origins = origins_of(equation, ids)
            if len(origins) == 1:
                transposes.setdefault(equations_by_id[origins[0].id], []).append(equation)
    return transposes


def _name(
    primal: Var, candidates: list[Var], names: Mapping[Var, str], cotangents: dict[Var, str]
) -> None:
    """Name the one candidate that has the type of the primal value."""
    fitting = {v for v in candidates if _type(v) == _type(primal)}
    if primal in names and len(fitting) == 1:
        cotangents.setdefault(fitting.pop(), f"d({names[primal]})")


def _shape(v: Var) -> Any:
    return getattr(v.aval, "shape", None)


def _type(v: Var) -> Any:
    return _shape(v), getattr(v.aval, "dtype", None)
