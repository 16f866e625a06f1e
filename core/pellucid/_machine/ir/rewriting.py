"""Rewriting of programs: dead-code elimination, inlining, closing over constants."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from pellucid._machine.base import strict_zip
from pellucid._machine.base.narrowing import is_tuple

from .avals import AbstractValue
from .jaxpr import Atom, ClosedJaxpr, DropVar, Equation, Jaxpr, Var


def remove_dead_equations(
    jaxpr: Jaxpr,
    used_outputs: Sequence[bool] | None = None,
    *,
    keep_inputs: bool | Sequence[bool] = False,
) -> tuple[Jaxpr, list[bool]]:
    """(the program without equations that its `used_outputs` don't need, whether each input is still needed).

    Inputs that are not needed are dropped unless they are in `keep_inputs`. Equations with effects stay.
    """
    used = [True] * len(jaxpr.outvars) if used_outputs is None else list(used_outputs)
    outvars = [v for v, u in strict_zip(jaxpr.outvars, used) if u]
    live: set[Atom] = {*outvars}
    equations: list[Equation] = []
    for equation in reversed(jaxpr.equations):
        if live.isdisjoint(equation.results) and not any(
            effect.keeps_equation for effect in equation.effects
        ):
            continue
        operands, remaining = equation.operands, equation
        dead_code = equation.primitive.dead_code
        if dead_code is not None:
            used_results = [v in live for v in equation.results]
            used_operands, remaining = dead_code(used_results, equation)
            if remaining is None:
                continue
            operands = [a for a, u in strict_zip(operands, used_operands) if u]
        equations.append(remaining)
        live.update(operands)
    equations.reverse()
    keep = [keep_inputs] * len(jaxpr.invars) if isinstance(keep_inputs, bool) else keep_inputs
    used_inputs = [k or v in live for v, k in strict_zip(jaxpr.invars, keep)]
    debug = jaxpr.debug
    if debug is not None and not (all(used_inputs) and all(used)):
        positions = [i for i, u in enumerate(used_inputs) if u]
        debug = debug.rearranged(len(used_inputs), positions, [i for i, u in enumerate(used) if u])
    pruned = Jaxpr(
        [v for v in jaxpr.constvars if v in live],
        [v for v, u in strict_zip(jaxpr.invars, used_inputs) if u],
        equations,
        outvars,
        debug=debug,
    )
    return pruned, used_inputs


def constants_as_inputs(jaxpr: Jaxpr, retained: Collection[Var] = ()) -> Jaxpr:
    """The program in which the constants, except `retained`, are the first inputs."""
    passed = [v for v in jaxpr.constvars if v not in retained]
    if not passed:
        return jaxpr
    n = len(jaxpr.invars)
    debug = jaxpr.debug and jaxpr.debug.rearranged(n, [*[None] * len(passed), *range(n)])
    return jaxpr.replace(constvars=tuple(retained), invars=(*passed, *jaxpr.invars), debug=debug)


def forget_sources(jaxpr: Jaxpr) -> Jaxpr:
    """`jaxpr`, whose own equations lose their sources in place: any line may call the program of an eager operation."""
    for equation in jaxpr.equations:
        equation.source = None
    return jaxpr


def rearrange_program(
    program: ClosedJaxpr,
    inputs: Sequence[int | AbstractValue],
    results: Sequence[int] | None = None,
) -> ClosedJaxpr:
    """A program without constants whose inputs and results are those of `program` at the given positions.

    `inputs` are positions, each once, perhaps without those of unused inputs, and types of additional, unused inputs.
    Results (by default all) may be repeated or left out; `~i` returns the input at position i. Equal arguments return
    the same object.
    """
    jaxpr = program.jaxpr
    if results is None:
        results = range(len(jaxpr.outvars))
    key = tuple(inputs), tuple(results)
    if key == (tuple(range(len(jaxpr.invars))), tuple(range(len(jaxpr.outvars)))):
        return program

    def derive() -> ClosedJaxpr:
        invars = [jaxpr.invars[i] if isinstance(i, int) else Var(i) for i in inputs]
        outvars = [jaxpr.outvars[i] if i >= 0 else jaxpr.invars[~i] for i in results]
        positions = [i if isinstance(i, int) else None for i in inputs]
        debug = jaxpr.debug and jaxpr.debug.rearranged(len(jaxpr.invars), positions, results)
        return ClosedJaxpr(jaxpr.replace(invars=invars, outvars=outvars, debug=debug))

    return jaxpr.remembered(("rearranged", *key), derive)


def drop_forwarded_results(
    programs: tuple[ClosedJaxpr, ...],
) -> tuple[tuple[ClosedJaxpr, ...], list[int | None]]:
    """The programs without results that are the same input in all of them, and for each result that input or None."""
    places: list[list[int | None]] = []
    for program in programs:
        positions: dict[Any, int] = {v: i for i, v in enumerate(program.jaxpr.invars)}
        places.append([positions.get(a) for a in program.jaxpr.outvars])
    forwarded = [column[0] if len({*column}) == 1 else None for column in strict_zip(*places)]
    computed = [i for i, f in enumerate(forwarded) if f is None]
    inputs = range(len(programs[0].jaxpr.invars))
    return tuple([rearrange_program(p, inputs, computed) for p in programs]), forwarded


def with_variables_as_inputs(
    jaxpr: Jaxpr, variables: Sequence[Var], results: Sequence[Atom]
) -> Jaxpr:
    """The program that takes the values of some `variables` of `jaxpr` as additional last inputs, and returns
    `results`.

    Equations that are no longer needed are removed; all inputs stay.
    """
    inputs: dict[Atom, Var] = {v: Var(v.aval) for v in variables}
    n = len(jaxpr.invars)
    equations = jaxpr.equations
    if variables:
        equations = [e.replace(operands=[inputs.get(a, a) for a in e.operands]) for e in equations]
    debug = jaxpr.debug
    if debug is not None:
        same = zip(results, jaxpr.outvars, strict=False)  # further results are residuals
        places = [i if a is b else -1 for i, (a, b) in enumerate(same)]
        debug = debug.rearranged(n, [*range(n), *[None] * len(inputs)], places)
    program = Jaxpr(
        jaxpr.constvars,
        [*jaxpr.invars, *inputs.values()],
        equations,
        [inputs.get(a, a) for a in results],
        debug=debug,
    )
    return remove_dead_equations(program, keep_inputs=True)[0]


def inline_programs(
    jaxpr: Jaxpr, body_of: Callable[[Equation], ClosedJaxpr | None]
) -> tuple[Jaxpr, list[Any]]:
    """`jaxpr` with equations replaced by the programs that `body_of` returns for them.

    Also returns the constants of those programs, which become constants after `jaxpr`'s own.
    """
    equations: list[Equation] = []
    constvars = list(jaxpr.constvars)
    consts: list[Any] = []
    renamed: dict[Atom, Any] = {}

    def visit(source: Sequence[Equation]) -> None:
        for equation in source:
            operands = [renamed.get(a, a) for a in equation.operands]
            body = body_of(equation)
            if body is None:
                results = [renamed.pop(v, v) for v in equation.results]
                equations.append(equation.replace(operands=operands, results=results))
                continue
            fresh: dict[Atom, Any] = {v: Var(v.aval) for v in body.jaxpr.constvars}
            constvars.extend(fresh.values())
            consts.extend(body.consts)
            fresh.update(strict_zip(body.jaxpr.invars, operands))
            for inner in body.jaxpr.equations:
                for v in inner.results:
                    fresh[v] = type(v)(v.aval) if type(v) is DropVar else Var(v.aval)
            copied = [
                inner.replace(
                    operands=[fresh.get(a, a) for a in inner.operands],
                    results=[fresh[v] for v in inner.results],
                    scope=equation.scope if inner.scope is None else inner.scope.on(equation.scope),
                )
                for inner in body.jaxpr.equations
            ]
            visit(copied)
            for var, inner_atom in strict_zip(equation.results, body.jaxpr.outvars):
                atom = fresh.get(inner_atom, inner_atom)
                renamed[var] = renamed.get(atom, atom)

    visit(jaxpr.equations)
    outvars = [renamed.get(a, a) for a in jaxpr.outvars]
    return Jaxpr(constvars, jaxpr.invars, equations, outvars, debug=jaxpr.debug), consts


def with_programs(params: Any, change: Callable[[Jaxpr], Jaxpr]) -> Any:
    """The params of an equation, or a part of them, with `change` applied to each program; the same object if that changes none."""
    if isinstance(params, Jaxpr):
        return change(params)
    if isinstance(params, ClosedJaxpr):
        jaxpr = change(params.jaxpr)
        return params if jaxpr is params.jaxpr else ClosedJaxpr(jaxpr, params.consts)
    if is_tuple(params):
        items = [with_programs(x, change) for x in params]
        if all(new is old for new, old in strict_zip(items, params)):
            return params
        return type(params)(*items) if hasattr(params, "_fields") else tuple(items)
    return params
