"""Branches inside `shard_map` among which devices choose differently.

What such a branch computes with varies as the choice does, and is made to vary before it: the transpose of that cast
sums over devices, which they can do only where all of them arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pellucid.base.functional import strict_zip
from pellucid.higher_order.bodies import Body
from pellucid.ir.jaxpr import Jaxpr, Literal
from pellucid.ir.primitive import called
from pellucid.ir.rules import Avals, Operands, Values
from pellucid.primitives.varying import pvary_p, vary
from pellucid.tracing.context import context
from pellucid.tracing.replay import replay
from pellucid.tracing.trace import bind, types_of
from pellucid.transforms.derived import stage_open


def varying_alike(bodies: list[Body], axes: frozenset[Any]) -> list[Body]:
    """The bodies made to take constants that vary over `axes`, and to give results that vary alike."""
    if not context.checked_axes:
        return bodies
    if axes:
        # A value that several branches use is made to vary once, so that its cotangents are summed once.
        used = {id(x): x for body in bodies for x in body.consts}
        varying = {i: vary(x, axes) for i, x in used.items()}
        bodies = [_with_constants(body, [varying[id(x)] for x in body.consts]) for body in bodies]
    if len({len(body.out_avals) for body in bodies}) > 1:
        return bodies
    columns: Any = strict_zip(*(body.out_avals for body in bodies))
    result_axes = [axes.union(*(aval.varying for aval in column)) for column in columns]
    return [_with_varying_results(body, result_axes) for body in bodies]


def _with_constants(body: Body, consts: Values) -> Body:
    """`body` with its constants exchanged for others, which may vary over more axes."""
    if all(a is b for a, b in strict_zip(consts, body.consts)):
        return body
    jaxpr = body.program.jaxpr
    avals = [*types_of(consts), *jaxpr.in_avals[len(consts) :]]
    return body._replace(
        program=stage_open(lambda *xs: _replayed(jaxpr, xs), avals, jaxpr.debug)[0], consts=consts
    )


def _replayed(jaxpr: Jaxpr, operands: Operands) -> Values:
    """Results of a program on operands that vary over more axes than those it was traced with."""
    values: dict[Any, Any] = dict(strict_zip(jaxpr.invars, operands))

    def read(atom):
        return atom.val if type(atom) is Literal else values[atom]

    for equation in jaxpr.equations:
        inputs = [read(a) for a in equation.operands]
        body = called(equation.primitive, equation.params)
        if equation.primitive is pvary_p:
            results = [vary(inputs[0], equation.params.axes)]
        elif body is not None:
            results = _replayed(body, inputs)
        else:
            results = bind(equation.primitive, *inputs, params=equation.params)
        values.update(strict_zip(equation.results, results))
    return [read(a) for a in jaxpr.outvars]


def _with_varying_results(body: Body, result_axes: Sequence[frozenset[Any]]) -> Body:
    avals: Avals = list(body.out_avals)
    if all(aval.varying == axes for aval, axes in strict_zip(avals, result_axes)):
        return body
    jaxpr = body.program.jaxpr

    def run(*operands):
        results = replay(jaxpr, (), *operands)
        return [vary(x, axes) for x, axes in strict_zip(results, result_axes)]

    return body._replace(program=stage_open(run, jaxpr.in_avals, jaxpr.debug)[0])
