"""All values of a program for given operands, to compare runs or check cotangents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from pellucid._machine.tracing import replay, run_equations

from .finding import check_effects
from .silence import silenced
from .stepping import called_program, frame_of, past_breakpoints, run
from .traps import untrapped


class Evaluation(NamedTuple):
    """The values of a program with its calls inlined. Loops and branches only have their results."""

    jaxpr: Jaxpr
    values: dict[Any, Any]
    """The value of each variable."""

    def read(self, atom: Atom) -> Any:
        """The value of an operand or a result."""
        return atom.val if type(atom) is Literal else self.values[atom]

    def results(self, equation: Equation) -> Values:
        """The values of those results of an equation that are used."""
        return [self.values[v] for v in equation.results if v in self.values]


@untrapped
def evaluated(
    program: ClosedJaxpr,
    operands: Operands,
    *,
    is_compiled: bool,
    compiler_options: Mapping[str, Any] | None = None,
    calls_host: bool = False,
) -> Evaluation:
    """All values of a program that is compiled as one, or run equation by equation. Effects such as prints are left
    out.

    Raises: EffectsError for a program that calls Python for results, unless `calls_host`.
    """
    frame = frame_of(program, *operands)
    if not calls_host:
        check_effects(frame)
    jaxpr, consts = inlined(frame.jaxpr, called_program)
    jaxpr = constants_as_inputs(jaxpr)
    equations = [e for e in silenced(jaxpr).equations if e.results or not e.effects]
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


def compiled_without_others(evaluation: Evaluation, variables: Sequence[Any]) -> Values:
    """Some values of a program as it gives them where no other value is kept, which would be rounded."""
    if not variables:
        return []
    inputs = [evaluation.values[v] for v in evaluation.jaxpr.invars]
    return run(ClosedJaxpr(evaluation.jaxpr.replace(outvars=[*variables])), inputs)


def where_rounding_begins(
    program: Evaluation, expected: Evaluation, distance: Callable[[Any, Any], float]
) -> tuple[int, float] | None:
    """(number of the first equation whose rounding in the compiled program differs from `expected`, distance).

    `expected` is a run equation by equation. Each value is compiled without keeping the others, because keeping a value
    rounds it. None if no result differs. The equation is found by bisecting those that a result depends on.
    """
    equations = program.jaxpr.equations
    values = {
        v: expected.values[w]
        for e, other in strict_zip(equations, expected.jaxpr.equations)
        for v, w in strict_zip(e.results, other.results)
        if w in expected.values
    }

    def distance_at(outvars: Sequence[Any]) -> float:
        kept = [v for v in outvars if v in values]
        found = compiled_without_others(program, kept)
        return max((distance(x, values[v]) for x, v in strict_zip(found, kept)), default=0.0)

    for result in program.jaxpr.outvars:
        farthest = 0.0 if type(result) is Literal else distance_at([result])
        if not farthest:
            continue
        needed = {result}
        numbers: list[int] = []
        for i in reversed(range(len(equations))):
            if not needed.isdisjoint(equations[i].results):
                needed.update(v for v in equations[i].operands if type(v) is not Literal)
                numbers.append(i)
        numbers.reverse()
        low, high = 0, len(numbers) - 1
        while low < high:
            middle = (low + high) // 2
            found = distance_at([v for v in equations[numbers[middle]].results if v in needed])
            if found:
                high, farthest = middle, found
            else:
                low = middle + 1
        return numbers[low], farthest
    return None
