"""Plans: programs over references in the form that the simulator runs. What touches no reference is compiled, in runs that are as long as can be."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import by_tool
from pellucid._machine.base.functional import strict_zip
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.ir import (
    AbstractRef,
    Equation,
    HigherOrderPrimitive,
    Jaxpr,
    Literal,
    Values,
    axis_names,
    programs_of,
    uses_references,
)
from pellucid._machine.refs.primitives import new_ref_p
from pellucid._machine.tracing import replay
from pellucid._machine.tracing.current import ensure_compile_time_eval


class Chunk(NamedTuple):
    """Equations that touch no reference, as one compiled function."""

    run: Callable[..., Any]
    operands: Sequence[Any]
    results: Sequence[Any]
    cost: int
    """Number of elements that it computes."""
    equations: Sequence[Equation]

    @property
    def equation(self) -> Equation:
        """The first one."""
        return self.equations[0]


class Plan(NamedTuple):
    """A program as steps, each a chunk or an equation."""

    jaxpr: Jaxpr
    steps: list[Chunk | Equation]
    used: frozenset[Any]
    """The variables that something uses."""
    positions: dict[Equation, int]
    """The position of each equation in the program."""


def plan_of(jaxpr: Jaxpr) -> Plan:
    """The plan of a program; compiles all chunks of it and of the programs within it."""
    return jaxpr.remembered("plan of the simulator", lambda: _planned(jaxpr))


def _planned(jaxpr: Jaxpr) -> Plan:
    last_use: dict[Any, int] = {}
    for i, equation in enumerate(jaxpr.equations):
        last_use.update((a, i) for a in equation.operands if type(a) is not Literal)
    # What scratch holds before anything is written to it: nobody computes that on a device.
    undefined = {
        e.operands[0]
        for e in jaxpr.equations
        if e.primitive is new_ref_p
        and type(e.operands[0]) is not Literal
        and e.params.memory_space is not None
    }
    end = len(jaxpr.equations)
    last_use.update((a, end) for a in jaxpr.outvars if type(a) is not Literal)
    steps: list[Chunk | Equation] = []
    run: list[Equation] = []
    for i, equation in enumerate([*jaxpr.equations, None]):
        if equation is not None and _is_pure(equation):
            run.append(equation)
            continue
        if run:
            # Results that something behind the run uses.
            made = [r for e in run for r in e.results if last_use.get(r, -1) >= i]
            if made:
                steps.append(_compiled(run, made, undefined))
            run = []
        if equation is not None:
            for program in programs_of(equation):
                plan_of(getattr(program, "jaxpr", program))
            steps.append(equation)
    positions = {e: i for i, e in enumerate(jaxpr.equations)}
    return Plan(jaxpr, steps, frozenset(last_use), positions)


def _is_pure(equation: Equation) -> bool:
    """Whether an equation touches no reference, has no effect, and asks for no position."""
    if equation.effects or axis_names(equation.primitive, equation.params):
        return False
    if any(type(a.aval) is AbstractRef for a in (*equation.operands, *equation.results)):
        return False
    return not isinstance(equation.primitive, HigherOrderPrimitive) or not any(
        uses_references(getattr(p, "jaxpr", p)) for p in programs_of(equation)
    )


@by_tool
def _compiled(
    equations: Sequence[Equation], results: Sequence[Any], undefined: Container[Any]
) -> Chunk:
    """The equations as one step; `undefined` results cost nothing."""
    made = {r for e in equations for r in e.results}
    used = [a for e in equations for a in e.operands if type(a) is not Literal and a not in made]
    operands: Any = [*dict.fromkeys(used)]
    program = Jaxpr((), operands, equations, results)

    def run(*values: Any) -> Values:
        return replay(program, (), *values)

    with ensure_compile_time_eval():
        compiled = jit(run).lower(*[a.aval for a in operands]).compile()
    made_avals: list[Any] = [r.aval for e in equations for r in e.results if r not in undefined]
    cost = sum([aval.size for aval in made_avals if hasattr(aval, "size")])
    return Chunk(compiled, operands, results, int(cost), equations)


def values_of(atoms: Sequence[Any], values: dict[Any, Any]) -> Values:
    """The values of operands."""
    return [a.val if type(a) is Literal else values[a] for a in atoms]


def as_numpy(x: Any) -> np.ndarray:
    """An array of a program as one of NumPy."""
    return x if type(x) is np.ndarray else np.asarray(x)


def assign(values: dict[Any, Any], results: Sequence[Any], found: Sequence[Any]) -> None:
    """Give results their values."""
    values.update(strict_zip(results, found))
