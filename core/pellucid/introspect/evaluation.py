"""All values of a program for given operands, to compare runs or check cotangents."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

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
    Role,
    Values,
    constants_as_inputs,
    inline_programs,
)
from pellucid._machine.tracing import replay, run_equations

from .finding import Match, check_effects
from .silence import is_note, silence, without_notes
from .stepping import (
    EquationRuns,
    SteppedFrame,
    Turn,
    called_program,
    frame_of,
    past_breakpoints,
    run,
    slots_of,
)
from .traps import disable_traps

Step = tuple[int, int]
"""(index of an equation of an evaluation's jaxpr, number of the run of its program that is entered)."""


class Evaluation(NamedTuple):
    """The values of a program with its calls inlined. Loops and branches only have their results, see `runs_within`."""

    jaxpr: Jaxpr
    values: dict[Any, Any]
    """The value of each variable."""
    compiler_options: Mapping[str, Any] | None = None
    """The options with which the program was compiled."""

    def read(self, atom: Atom) -> Any:
        """The value of an operand or a result."""
        return atom.val if type(atom) is Literal else self.values[atom]

    def results(self, equation: Equation) -> Values:
        """The values of those results of an equation that are used."""
        return [self.values[v] for v in equation.results if v in self.values]


@disable_traps
def evaluate_program(
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
    if is_compiled:
        return _all_values(frame, compiler_options)
    jaxpr, values = _program_and_inputs(frame)
    past_breakpoints(lambda: run_equations(jaxpr.equations, values))
    return Evaluation(jaxpr, values)


def runs_within(evaluation: Evaluation, equation: Equation) -> Iterator[Evaluation]:
    """All values of each run of the program that a loop of an evaluation repeats, or of the branch that it takes.

    The program is compiled to give all its values, as those of compiled evaluations are; a run starts from what the one
    before gave. Those of a `shard_map` aren't looked into.
    """
    slots = slots_of(equation)
    if slots is None or slots.by_position:
        return
    call = EquationRuns(equation, [evaluation.read(a) for a in equation.operands])
    for number in range(call.runs() if call.is_loop else 1):
        turn = call.jump(number)
        run_values = _all_values(call.frame(turn), evaluation.compiler_options)
        call.know_results(turn, [run_values.read(a) for a in run_values.jaxpr.outvars])
        yield run_values


def outputs_within(equation: Equation, number: int, run: Evaluation) -> tuple[Atom, list[Atom]]:
    """(output of a run within an equation that gives its result `number`, outputs that the next run continues from)."""
    slots = slots_of(equation)
    body = next(slot for slot in slots.programs if not slot.is_predicate)
    # `starts`: for each group of results, the number of its first one.
    sizes = [group.size for group in slots.results]
    starts = list(itertools.accumulate(sizes, initial=0))
    given = slots.group_results(body, run.jaxpr.outvars)
    [own] = [a for i, atoms in given for k, a in enumerate(atoms, starts[i]) if k == number]
    return own, [a for i, atoms in given if slots.results[i].role is Role.CARRY for a in atoms]


def match_at(frame: SteppedFrame, steps: Sequence[Step], index: int) -> Match | None:
    """The place of an equation of an evaluation, in a frame of the same program: by its `index` in the run that `steps` enter.

    None if a program on the way can't be entered.
    """
    frames: list[SteppedFrame] = [frame]
    calls: list[Any] = [None]
    turns: list[Turn] = [(0, 0)]

    def enter(position: int, number: int) -> bool:
        frames[-1].move(position)
        call = frames[-1].call()
        if call is None:
            return False
        calls.append(call)
        turns.append(call.jump(number))
        frames.append(call.frame(turns[-1]))
        return True

    with silence():
        for at, number in [*steps, (index, None)]:
            places = [*_places(frames[-1].jaxpr)]
            if at >= len(places):
                return None
            *around, position = places[at]
            if not all(enter(each, 0) for each in around):
                return None
            if number is None:
                frames[-1].move(position)
            elif not enter(position, number):
                return None
    return Match(frames, calls, turns)


def _places(jaxpr: Jaxpr) -> Iterator[tuple[int, ...]]:
    """For each equation of a program's evaluation, its position after those of the calls around it."""
    for position, equation in enumerate(jaxpr.equations):
        program = called_program(equation)
        if program is not None:
            yield from ((position, *inner) for inner in _places(program.jaxpr))
        elif _has_place(equation):
            yield (position,)


def _has_place(equation: Equation) -> bool:
    """Whether an equation belongs to evaluations: it isn't there for its effect alone."""
    return not is_note(equation) and bool(equation.results or not equation.effects)


def _evaluable(jaxpr: Jaxpr) -> tuple[Jaxpr, Values]:
    """(a program with its calls inlined and without effects, values of its leading inputs); cached."""
    if "evaluable" not in jaxpr.memo:
        flat, consts = inline_programs(jaxpr, called_program)
        flat = without_notes(constants_as_inputs(flat))
        equations = [e for e in flat.equations if _has_place(e)]
        jaxpr.memo["evaluable"] = flat.replace(equations=equations), consts
    return jaxpr.memo["evaluable"]


def _program_and_inputs(frame: SteppedFrame) -> tuple[Jaxpr, dict[Any, Any]]:
    """(the program of a frame's evaluation, values of its inputs)."""
    jaxpr, consts = _evaluable(frame.jaxpr)
    inputs = [*consts, *[frame.values[v] for v in frame.jaxpr.invars]]
    # Literals that a loop takes may be Python numbers.
    arrays = [
        x if hasattr(x, "dtype") else np.asarray(x, getattr(v.aval, "dtype", None))
        for v, x in strict_zip(jaxpr.invars, inputs)
    ]
    return jaxpr, dict(strict_zip(jaxpr.invars, arrays))


def _all_values(frame: SteppedFrame, compiler_options: Mapping[str, Any] | None) -> Evaluation:
    """All values of a frame's program, compiled as one."""
    jaxpr, values = _program_and_inputs(frame)
    results = [v for e in jaxpr.equations for v in e.results if type(v) is not DropVar]
    inputs = [values[v] for v in jaxpr.invars]
    options = dict(compiler_options or {})
    key = "all values", tuple(sorted(options.items()))
    if key not in jaxpr.memo:
        recorded = jaxpr.replace(outvars=results)
        function = jit(lambda *xs: replay(recorded, (), *xs), compiler_options=options)
        jaxpr.memo[key] = function if options else ClosedJaxpr(recorded)
    program = jaxpr.memo[key]
    given = past_breakpoints(lambda: program(*inputs)) if options else run(program, inputs)
    values.update(strict_zip(results, given))
    return Evaluation(jaxpr, values, compiler_options)


def compile_without_others(evaluation: Evaluation, variables: Sequence[Any]) -> Values:
    """Some values of a program as it gives them where no other value is kept, which would be rounded."""
    if not variables:
        return []
    inputs = [evaluation.values[v] for v in evaluation.jaxpr.invars]
    return run(ClosedJaxpr(evaluation.jaxpr.replace(outvars=[*variables])), inputs)


def where_rounding_begins(
    program: Evaluation, expected: Evaluation, distance: Callable[[Any, Any], float]
) -> tuple[int, float] | None:
    """(number of the first equation whose rounding in the compiled program differs from `expected`, distance).

    `expected` is a run equation by equation. None if no result of the program, compiled as usual, differs. The equation is found by
    bisecting those that the first such result depends on: each value is compiled without keeping the others, because keeping a value
    rounds it. It is that of the result itself where this differs only beside the others.
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
        found = compile_without_others(program, kept)
        return max((distance(x, values[v]) for x, v in strict_zip(found, kept)), default=0.0)

    outvars: list[Any] = [v for v in program.jaxpr.outvars if type(v) is not Literal]
    results = [v for v in dict.fromkeys(outvars) if v in values]
    given = compile_without_others(program, results)
    distances = {v: distance(x, values[v]) for v, x in strict_zip(results, given)}
    differing = [v for v in results if distances[v]]
    for result in differing:
        farthest = distance_at([result])
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
    for i, equation in enumerate(equations):
        if differing and differing[0] in equation.results:
            return i, distances[differing[0]]
    return None
