"""All values of a program on certain operands: what comparisons of runs, and of cotangents, read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pellucid._machine.base import strict_zip
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.ir import (
    Atom,
    ClosedJaxpr,
    DropVar,
    Equation,
    Jaxpr,
    Literal,
    Operands,
    Values,
    constants_as_inputs,
    inlined,
)
from pellucid._machine.parallel.manual import shard_map_p
from pellucid._machine.tracing import replay, run_equations

from .finding import check_effects
from .stepping import frame_of, is_loop, past_breakpoints, run, slots_of


class Evaluation(NamedTuple):
    """The values of a program whose calls are part of it; those of loops and branches are the results alone."""

    jaxpr: Jaxpr
    values: dict[Any, Any]
    """For each variable its value."""

    def read(self, atom: Atom) -> Any:
        """The value of an operand or a result."""
        return atom.val if type(atom) is Literal else self.values[atom]

    def results(self, equation: Equation) -> Values:
        """The results of an equation that are used."""
        return [self.values[v] for v in equation.results if v in self.values]


def evaluated(
    program: ClosedJaxpr,
    operands: Operands,
    *,
    is_compiled: bool,
    compiler_options: Mapping[str, Any] | None = None,
) -> Evaluation:
    """All values of a program, run compiled as one, or equation by equation; prints and other effects don't happen.

    Raises: EffectsError for a program that calls Python for values.
    """
    frame = frame_of(program, *operands)
    check_effects(frame)
    jaxpr, consts = inlined(frame.jaxpr, _called)
    jaxpr = constants_as_inputs(jaxpr)
    equations = [e for e in jaxpr.equations if e.results or not e.effects]
    jaxpr = jaxpr.replace(equations=equations)
    inputs = [*consts, *[frame.values[v] for v in frame.jaxpr.invars]]
    values: dict[Any, Any] = dict(strict_zip(jaxpr.invars, inputs))
    if not is_compiled:
        past_breakpoints(lambda: run_equations(equations, values))
        return Evaluation(jaxpr, values)
    results = [v for e in equations for v in e.results if type(v) is not DropVar]
    recorded = jaxpr.replace(outvars=results)
    if compiler_options:
        function = jit(
            lambda *xs: replay(recorded, (), *xs), compiler_options=dict(compiler_options)
        )
        values.update(strict_zip(results, past_breakpoints(lambda: function(*inputs))))
    else:
        values.update(strict_zip(results, run(ClosedJaxpr(recorded), inputs)))
    return Evaluation(jaxpr, values)


def _called(equation: Equation) -> ClosedJaxpr | None:
    """The program that an equation runs once on its operands; None for loops, branches, and what runs none."""
    slots = None if equation.primitive is shard_map_p else slots_of(equation)
    if slots is None or len(slots.programs) != 1 or slots.choosing or is_loop(equation):
        return None
    [slot] = slots.programs
    inputs = slots.gathered(slot, slots.split(equation.operands))
    is_whole = len(slot.program.jaxpr.outvars) == len(equation.results)
    return slot.program if inputs == [*equation.operands] and is_whole else None
