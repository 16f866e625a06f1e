"""Forward mode: values together with their tangents."""

# Tracers and their traces share attributes with private names.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import Any

from pellucid._machine.base import (
    ArgumentTypeError,
    ConcretizationTypeError,
    DtypeError,
    Function,
    ShapeError,
    strict_zip,
)
from pellucid._machine.ir import (
    Jaxpr,
    Mask,
    Operands,
    Primitive,
    Values,
    Zero,
    is_always_transformed,
)
from pellucid._machine.primitives import instantiate, zero_of
from pellucid._machine.tracing import (
    Trace,
    Tracer,
    as_type,
    context,
    plumbing,
    replay,
    type_of,
    types_of,
    use_trace,
)
from pellucid._machine.xla import flatten, flatten_tangents, unflatten_tangents

from .arguments import (
    FlatFunction,
    argument_paths,
    as_results,
    check_by_argument,
    check_callable,
    checked_leaves,
    is_differentiable,
    structure_lines,
)
from .derived import Derived, derivation, flag_list, stage_open


def jvp_flat(
    function: Function, primals: Operands, tangents: Operands
) -> tuple[Values, Values, Values]:
    """(results, tangents, auxiliary values) of a function of flat values; a tangent may be `Zero`.

    `function` returns (results, auxiliary values); the latter may be any objects.
    """
    trace = JVPTrace(context.trace)
    arguments = trace.joined(primals, tangents)
    try:
        with use_trace(trace):
            results, aux = function(*arguments)
    finally:
        trace.alive = False
    split = [trace.split(x) for x in results]
    return [p for p, _ in split], [t for _, t in split], [trace.primal(x) for x in aux]


def jvp(fun: Function, primals: Operands, tangents: Operands, has_aux: bool = False) -> Any:
    """`(fun(*primals), tangent)`: the value of `fun` and its derivative in the direction `tangents`.

    `tangents` has the structure, shapes and dtypes of `primals` (`float0` for integers). With `has_aux`, `fun`
    gives `(result, aux)`, and `aux` comes last.

    >>> jvp(lambda x: x * x, (3.0,), (1.0,))
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    check_callable(fun, "jvp")
    check_by_argument("jvp", primals=primals, tangents=tangents)
    leaves, tree = flatten(primals)
    tangent_leaves, tangent_tree = flatten_tangents(tree, tangents)
    if tree != tangent_tree:
        raise ArgumentTypeError(
            "jvp: the tangents don't have the structure of the primals.",
            got=structure_lines("tangents", tree, tangent_tree, tangent_leaves),
        )
    leaves = checked_leaves(leaves, "jvp", fun, primals)
    avals = types_of(leaves)
    tangent_leaves = checked_leaves(tangent_leaves, "jvp", fun, tangents)
    for i, (aval, t) in enumerate(strict_zip(avals, tangent_leaves)):
        expected, got = aval.tangent(), type_of(t)
        if got.shape != expected.shape or got.dtype != expected.dtype:
            path = argument_paths(fun, primals)[i]
            error = ShapeError if got.dtype == expected.dtype else DtypeError
            raise error(
                "jvp: a tangent doesn't have the type of its primal.",
                got=f"{path}: primal {aval.text()}, expected tangent {expected.text()}, got {got.text()}",
                do="Tangents have shape and dtype of their primals; those of integers have dtype float0.",
            )
    flat = FlatFunction(fun, "jvp", has_aux, tree.unflatten)
    # Tangents of integers have dtype float0 and no information: `Zero`.
    live_tangents = [
        t if is_differentiable(aval) else Zero(aval.tangent())
        for aval, t in strict_zip(avals, tangent_leaves)
    ]
    results, out_tangents, aux = jvp_flat(flat, leaves, live_tangents)
    with plumbing("jvp"):
        out_tangents = as_results(map(instantiate, out_tangents))
    result = flat.out_tree.unflatten(as_results(results))
    pair = result, unflatten_tangents(flat.out_tree, out_tangents)
    return flat.with_aux(pair, aux)


class JVPTracer(Tracer):
    """A value with its tangent, of a JVPTrace or a trace derived from it.

    >>> pl.jvp(lambda x: isinstance(x, JVPTracer) and x, (1.0,), (2.0,))
    (Array(1., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """

    __slots__ = ("primal", "tangent")

    def __init__(self, trace: JVPTrace, primal: Any, tangent: Any) -> None:
        self._trace = trace
        self.aval = type_of(primal)
        self.primal = primal
        self.tangent = tangent

    def concrete(self) -> Any:
        return concrete_value(self.primal)

    def ask_for(self, use: str, kind: type[ConcretizationTypeError], do: str) -> Any:
        return self.primal.ask_for(use, kind, do) if isinstance(self.primal, Tracer) else None

    def details(self) -> str:
        return f", primal={self.primal}"

    def transformed(self) -> Any:
        return self.primal


def _primal_and_tangent(x: JVPTracer) -> tuple[Any, Any]:
    """(primal, tangent) with the type of `x`: Python numbers have the dtype they had at the time, according to
    `enable_x64`.
    """
    primal, tangent = x.primal, x.tangent
    if type(primal) in _FLOATING:
        primal = as_type(primal, x.aval)
    if type(tangent) in _FLOATING:
        tangent = as_type(tangent, x.aval.tangent())
    return primal, tangent


_FLOATING = (float, complex)


class JVPTrace(Trace):
    """Applies jvp rules. A value of another trace has a zero tangent, which prevents perturbation confusion.

    >>> from pellucid.core import trace_ctx
    >>> _ = pl.jvp(lambda x: print(type(trace_ctx.trace).__name__) or x, (1.0,), (1.0,))
    JVPTrace
    """

    __slots__ = ("alive", "parent", "rules")

    def __init__(self, parent: Trace, rules: Trace | None = None) -> None:
        self.parent = parent
        self.rules = rules or parent
        """The trace under which rules run."""
        self.alive = True

    def as_tangent(self, value: Any) -> Any:
        return self.rules.as_tangent(value)

    def split(self, x: Any) -> tuple[Any, Any]:
        """(primal, tangent) of `x`."""
        if type(x) is JVPTracer and x._trace is self:
            return _primal_and_tangent(x)
        return x, zero_of(x)

    def primal(self, x: Any) -> Any:
        """The value of `x` without its tangent."""
        return _primal_and_tangent(x)[0] if type(x) is JVPTracer and x._trace is self else x

    def joined(self, primals: Operands, tangents: Operands) -> Values:
        """Tracers of values with their tangents; plain values where the tangent is zero."""
        return [
            p if type(t) is Zero else JVPTracer(self, p, t)
            for p, t in strict_zip(primals, tangents)
        ]

    def interpret(self, primitive: Primitive, operands: Operands, params: Any) -> Values:
        # One primal and tangent per operand; a value of another trace has tangent None until a zero is needed.
        primals: Values = []
        tangents: Values = []
        is_zero = True
        for x in operands:
            if type(x) is JVPTracer and x._trace is self:
                primal, tangent = _primal_and_tangent(x)
                primals.append(primal)
                tangents.append(tangent)
                is_zero = is_zero and type(tangent) is Zero
            else:
                primals.append(x)
                tangents.append(None)
        if is_zero and not is_always_transformed(primitive):
            with use_trace(self.parent):
                return self.parent.interpret(primitive, tuple(primals), params)
        for i, t in enumerate(tangents):
            if t is None:
                tangents[i] = Zero(type_of(primals[i]).tangent())
        return self.joined(*self._derivative(primitive, tuple(primals), tuple(tangents), params))

    def _derivative(
        self, primitive: Primitive, primals: Operands, tangents: Operands, params: Any
    ) -> Any:
        """Results of `primitive`, and their tangents."""
        with use_trace(self.rules):
            return primitive.jvp(primals, tangents, params)

    def custom_call(self, call: Any, operands: Operands) -> Values:
        primals, tangents = strict_zip(*map(self.split, operands)) if operands else ((), ())
        if all(type(t) is Zero for t in tangents):
            with use_trace(self.parent):
                return self.parent.custom_call(call, primals)
        with use_trace(self.rules):
            results, out_tangents = call.rule(primals, tangents)
        return self.joined(results, out_tangents)


def concrete_value(x: Any) -> Any:
    """The value of `x`, if known, through tracers of eager transformations; else None."""
    return x.concrete() if isinstance(x, Tracer) else x


@derivation("jvp")
def jvp_jaxpr(jaxpr: Jaxpr, nonzero: Mask, instantiate_results: bool | Mask) -> Derived:
    """The program that computes values and tangents of `jaxpr`, which has no constants.

    Inputs: those of `jaxpr`, then the tangents of inputs marked in `nonzero`. Results: those of `jaxpr`, then the
    tangents of results marked in `mask`: nonzero ones, and those in `instantiate_results`.
    """
    want = flag_list(instantiate_results, len(jaxpr.outvars))
    mask: list[bool] = []

    def both(*arguments: Any) -> Values:
        # `arguments` are the program's inputs, then one tangent for each of those that are `nonzero`.
        primals = arguments[: len(jaxpr.invars)]
        live_tangents = iter(arguments[len(jaxpr.invars) :])
        tangents = [
            next(live_tangents) if nz else Zero(v.aval.tangent())
            for v, nz in strict_zip(jaxpr.invars, nonzero)
        ]
        results, out_tangents, _ = jvp_flat(
            lambda *xs: (replay(jaxpr, (), *xs), ()), primals, tangents
        )
        # One flag per result; tangents in `mask` become results after the program's own.
        mask[:] = [w or type(t) is not Zero for w, t in strict_zip(want, out_tangents)]
        return [*results, *(instantiate(t) for t, nz in strict_zip(out_tangents, mask) if nz)]

    tangent_avals = [v.aval.tangent() for v, nz in strict_zip(jaxpr.invars, nonzero) if nz]
    n, with_tangent = len(jaxpr.invars), [i for i, nz in enumerate(nonzero) if nz]
    debug = jaxpr.debug and jaxpr.debug.rearranged(n, range(n), tangents=with_tangent)
    program, consts = stage_open(both, [*jaxpr.in_avals, *tangent_avals], debug)
    return Derived(program, consts, tuple(mask))
