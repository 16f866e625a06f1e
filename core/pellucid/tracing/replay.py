"""Run a program: all at once, or one equation at a time for whoever drives it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterable
from typing import Any, NamedTuple

from pellucid.base.functional import strict_zip
from pellucid.ir.jaxpr import Atom, ClosedJaxpr, Equation, Jaxpr, Lineage, Literal, Var
from pellucid.ir.rules import Operands, Values
from pellucid.tracing.context import context, use_facts


class Pause(NamedTuple):
    """The moment before an equation runs: `values` holds everything computed so far."""

    equation: Equation
    operands: Values
    values: dict[Var, Any]


def replay(jaxpr: Jaxpr, consts: Operands, *arguments: Any) -> Values:
    """Results of `jaxpr` on `arguments` under the current trace.

    What an equation turns into carries its source and scope, and has it as lineage.
    """
    values: dict[Any, Any] = dict(strict_zip(jaxpr.constvars, consts))
    values.update(strict_zip(jaxpr.invars, arguments))
    run_equations(jaxpr.equations, values)
    return [a.val if type(a) is Literal else values[a] for a in jaxpr.outvars]


def run_equations(equations: Iterable[Equation], values: dict[Any, Any]) -> None:
    """Add the results of `equations` under the current trace to `values`, which holds their operands."""
    interpret = context.trace.interpret
    with use_facts() as facts:
        for equation in equations:
            facts.enter(equation, Lineage("replay", (equation,)))
            results = interpret(
                equation.primitive,
                tuple([a.val if type(a) is Literal else values[a] for a in equation.operands]),
                equation.params,
            )
            values.update(strict_zip(equation.results, results))


def eval_jaxpr(
    jaxpr: Jaxpr, consts: Operands, *args: Any, propagate_source_info: bool = True
) -> Values:
    """Results of a program with the constants `consts` on `args`, as a list; traced if the arguments are.

    >>> program = pl.make_jaxpr(lambda x: x * 2.0)(1.0)
    >>> eval_jaxpr(program.jaxpr, program.consts, 4.0)
    [Array(8., dtype=float32, weak_type=True)]
    """
    return replay(jaxpr, consts, *args)


def jaxpr_as_fun(closed_jaxpr: ClosedJaxpr, *args: Any) -> Callable[..., Values]:
    """A function that gives the results of a program, with its constants, as a list; `args` are its first arguments.

    >>> program = pl.make_jaxpr(lambda x: x + 1)(np.float32(1))
    >>> jaxpr_as_fun(program)(np.float32(2))
    [Array(3., dtype=float32)]
    """
    return functools.partial(replay, closed_jaxpr.jaxpr, closed_jaxpr.consts, *args)


def steps(jaxpr: Jaxpr, consts: Operands, *arguments: Any) -> Generator[Pause, None, Values]:
    """The same as `replay`, pausing before each equation; its return value is the results."""
    values: dict[Any, Any] = dict(strict_zip(jaxpr.constvars, consts))
    values.update(strict_zip(jaxpr.invars, arguments))

    def read(atom: Atom) -> Any:
        return atom.val if type(atom) is Literal else values[atom]

    for equation in jaxpr.equations:
        operands = [read(a) for a in equation.operands]
        yield Pause(equation, operands, values)
        results = context.trace.interpret(equation.primitive, tuple(operands), equation.params)
        values.update(strict_zip(equation.results, results))
    return [read(a) for a in jaxpr.outvars]
