"""Programs that can stop between any two equations, and be stepped forwards and backwards by a debugger.

Values are immutable, so stepping back only changes the position. Equations between two stops run as one compiled
program; intermediate values that it doesn't return are recomputed when they are read. Effects happen only once.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterable, Sequence
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    Unary,
    cell_name,
    listing,
    source,
    strict_zip,
)
from pellucid._machine.callbacks.breakpoints import is_breakpoint, mute_breakpoints
from pellucid._machine.callbacks.pure import HostCall
from pellucid._machine.checks.check import CHECKS
from pellucid._machine.checks.checkify import checked_program
from pellucid._machine.checks.errors import error_of, user_checks
from pellucid._machine.higher_order.calls import ClosedCallParams, closed_call_p
from pellucid._machine.ir import (
    AbstractRef,
    Atom,
    ClosedJaxpr,
    DropVar,
    Equation,
    HigherOrderPrimitive,
    Jaxpr,
    Literal,
    Operands,
    Role,
    Slots,
    Values,
    Var,
    constants_as_inputs,
)
from pellucid._machine.parallel.manual import shard_map_p
from pellucid._machine.primitives.assembly import stack
from pellucid._machine.primitives.placement import device_put
from pellucid._machine.runtime.tokens import effects_barrier
from pellucid._machine.runtime.transfer import block_until_ready, from_host
from pellucid._machine.tracing import bind, context, type_of, without_references
from pellucid._machine.transforms import Derived

from .bodies import programs_within
from .compiling_ahead import Chain, ChainStep, steps_of, wait_for_compilation
from .kernel_steps import with_kernels_in_steps
from .lineage import transformation_of
from .loops import WINDOW_RUNS, LoopSearch, PartialLoop
from .mesh_positions import MeshPositions
from .noting import images_of
from .program import name_of, value_names
from .silence import is_note, is_silent, program_to_run
from .simulation import SimulatedRun
from .statements import statements_of
from .traps import disable_traps

__all__ = [
    "EquationRuns", "SteppedFrame", "Turn", "breakpoints_of", "called_program", "calls_host", "can_enter", "cell_name", "compiled_results", "frame_of", "is_loop", "is_variable", "known_variable", "latest_variables", "line_text", "listing", "n_bytes", "name_of",
    "open_program", "past_breakpoints", "programs_within", "run", "run_at", "scope_of", "slots_of", "user_codes",
    "user_stack",
]  # fmt: skip

Turn = tuple[int, int]
"""(index of a program of an equation, number of its run)."""

STRETCH_LENGTH = 16
"""Maximum number of equations that run as one program when the user steps over the first or reads its values."""
STRETCHES_AHEAD = 2
"""Maximum number of stretches of a program that are compiled while the program is stopped."""
MAX_STRETCH_BYTES = 1 << 25
"""Maximum bytes of values that are computed only in case the user reads them."""
REMEMBERED_RUNS = 64
"""Number of runs of a loop whose values or carries are cached; others are recomputed."""


class SteppedFrame:
    """A program with given inputs, stopped before the equation at `position` (at its end if that is the number of
    equations).
    """

    def __init__(
        self, jaxpr: Jaxpr, inputs: Operands, positions: MeshPositions | None = None
    ) -> None:
        self.jaxpr = jaxpr
        self.positions = positions
        """The mesh positions at which it runs if it is within a `shard_map`; its values contain the parts at all of
        them.
        """
        self.values: dict[Any, Any] = dict(strict_zip(jaxpr.invars, inputs))
        """The values computed so far; others are computed from them."""
        self.position = 0
        self.calls: dict[int, EquationRuns] = {}
        """The runs of equations that were entered, by position of the equation."""
        self.simulations: dict[int, SimulatedRun] = {}
        """The runs of simulated kernels that were entered, by position of the equation, so that no effect happens twice."""
        self._obstacles: dict[int, str] = {}
        """Why equations couldn't be entered, by position, such as mesh positions that take different branches."""
        self._original: SteppedFrame | None = None  # the frame before the last edit
        self._base = 0  # position of the last edit; earlier equations were computed without it
        self._edited: frozenset[Var] = frozenset()
        self._ran = 0  # equations before this one have run, with their effects
        self._filled = 0  # all values of the equations from `_ran` to here are computed
        if "last uses" not in jaxpr.memo:
            jaxpr.memo["last uses"] = _last_uses(jaxpr)

    @property
    def equation(self) -> Equation | None:
        """The next equation; None at the end of the program."""
        equations = self.jaxpr.equations
        return equations[self.position] if self.position < len(equations) else None

    def value(self, atom: Atom) -> Any:
        """The value of an operand, a result or any other variable that is computed before this position."""
        return self.read([atom])[0]

    def read(self, atoms: Sequence[Atom]) -> Values:
        """The values of several atoms; those that aren't cached are computed together."""
        self._know([a for a in atoms if type(a) is not Literal], self._ran)
        return [self._constant(a) if type(a) is Literal else self.values[a] for a in atoms]

    @disable_traps
    def user_values(self, atoms: Sequence[Atom], position: int | None = None) -> Values:
        """The values in the form of the user's code: within a `shard_map`, the parts at one position, or at all for
        None.

        At all positions, axis 0 of a varying value indexes the positions, see `MeshPositions`.
        """
        values = self.read(atoms)
        if self.positions is None:
            return values
        part = self.positions.part
        return [
            np.asarray(a.val) if type(a) is Literal else part(a.aval, x, position)
            for a, x in strict_zip(atoms, values)
        ]

    def obstacle(self, position: int) -> str:
        """Why an equation for which `call` returned None can't be entered at the positions of a `shard_map`; empty if
        it can.
        """
        return self._obstacles.get(position, "")

    def _constant(self, literal: Literal) -> Any:
        return literal.val if self.positions is None else self.positions.spread(literal.val)

    def results(self) -> Values:
        """The results of the program, which must be at its end."""
        return self.read(self.jaxpr.outvars)

    def move(self, position: int) -> None:
        """Go to the position before another equation, forwards or backwards.

        If an equation with effects, or with an edited value within it, was entered, its results are taken from these
        runs, so that no effect happens twice. Going back over an edit undoes it.
        """
        self.undo(position)
        # Equations before the new position that were entered: their runs give the results.
        for index in sorted({*self.calls, *self.simulations}):
            if index in self.simulations:
                if self._ran <= index < position and self.jaxpr.equations[index].effects:
                    self._advance(index)
                    self.position = index
                    self.pass_simulated(self.simulations[index].finish())
                continue
            call = self.calls[index]
            if self._ran <= index < position and (call.equation.effects or call.n_edits):
                self._advance(index)
                self.values.update(strict_zip(call.equation.results, call.results()))
                self._ran = index + 1
        self._advance(position)
        self.position = position

    def know_to(self, end: int, values: dict[Any, Any]) -> None:
        """Go forward to a position, given the values that the equations on the way, which have no effects, compute for later
        ones.
        """
        last: dict[Any, tuple[int, int]] = self.jaxpr.memo["last uses"]
        self.values.update((v, x) for v, x in values.items() if v in last and last[v][1] >= end)
        self._ran = self.position = end

    def know_from(self, position: int, values: dict[Any, Any]) -> None:
        """Go to a position, given all values of equations up to it and of the next one, which have no effects."""
        self.values.update(values)
        self._ran = self.position = position
        self._filled = position + 1

    def is_known(self, equation: Equation) -> bool:
        """Whether all results of an equation are known."""
        return all(v in self.values for v in equation.results)

    def pass_by(self) -> None:
        """Stop after the next equation, whose runs have ended; its results are taken from these, or computed when they are read."""
        call = self.calls.get(self.position)
        if call is not None and call.has_results:
            results = strict_zip(self.jaxpr.equations[self.position].results, call.results())
            self.values.update(results)
        self._ran = self.position = self.position + 1

    @property
    def can_simulate(self) -> bool:
        """Whether the next equation, which simulates a kernel, can be entered: unless its effects have happened in no run that is kept."""
        equation: Any = self.equation
        return (
            self.position >= self._ran or self.position in self.simulations or not equation.effects
        )

    def simulated_run(self) -> SimulatedRun:
        """The run of the kernel that the next equation simulates, on the devices of all positions of a `shard_map`."""
        if self.position not in self.simulations:
            self.simulations[self.position] = self._new_simulation()
        return self.simulations[self.position]

    def _new_simulation(self) -> SimulatedRun:
        equation: Any = self.equation
        number, *operands = equation.operands
        values = self.read(equation.operands)
        if self.positions is None:
            return SimulatedRun(equation, [(int(values[0]), values[1:])])
        part = self.positions.part
        machines = [
            (
                int(part(number.aval, values[0], p)),
                [part(a.aval, x, p) for a, x in strict_zip(operands, values[1:])],
            )
            for p in range(len(self.positions))
        ]
        machines.sort(key=lambda machine: machine[0])
        is_joint = equation.params.simulation.is_joint
        return SimulatedRun(equation, machines[:1] if is_joint else machines)

    def pass_simulated(self, found: Sequence[Values]) -> None:
        """Stop after the next equation, whose run of a simulated kernel has ended, with these results of each machine."""
        equation: Any = self.equation
        if self.positions is None:
            results: Values = [*map(from_host, found[0])]
        else:
            [number] = self.read(equation.operands[:1])
            aval, results = equation.operands[0].aval, []
            for i, variable in enumerate(equation.results):
                parts: list[Any] = []
                for p in range(len(self.positions)):
                    at = int(self.positions.part(aval, number, p))
                    # Of a run of all devices the first one has the results, and sends the others theirs.
                    parts.append(found[at][i] if at < len(found) else np.zeros_like(found[0][i]))
                results.append(self.positions.join(variable.aval, parts))
        self.values.update(strict_zip(equation.results, results))
        self._ran = self.position = self.position + 1

    def call(self) -> EquationRuns | None:
        """The runs of the next equation's programs, to step into; None if it has none in which one can stop.

        An equation whose effects have already happened can't be entered, because they would happen again. Nor can
        branches and loops for which the positions of a `shard_map` take different branches or different numbers of
        runs.
        """
        equation, index = self.equation, self.position
        if equation is None or not can_enter(equation) or index in self._obstacles:
            return None
        if index not in self.calls:
            if index < self._ran and equation.effects:
                return None
            obstacle = _obstacle(self.positions, equation)
            call = (
                None
                if obstacle
                else EquationRuns(equation, self.read(equation.operands), self.positions)
            )
            if call is not None and self.positions is not None and not call.is_common():
                obstacle = "positions run it in different ways"
            if call is None or obstacle:
                self._obstacles[index] = obstacle
                return None
            self.calls[index] = call
        return self.calls[index]

    def forget(self, call: EquationRuns) -> None:
        """Discard the values within a call that had no effects and no edits."""
        if not call.equation.effects and not call.n_edits:
            self.calls = {i: c for i, c in self.calls.items() if c is not call}

    def drop(self) -> None:
        """Discard values before this position that can be recomputed."""
        # Values used later, inputs, edits, and results of effects or edited calls are kept.
        lasting = {v for v, (origin, used) in self._uses() if origin < self.position <= used}
        lasting.update(self.jaxpr.invars)
        calls = {c.equation for c in self.calls.values() if c.n_edits}
        equations = self.jaxpr.equations[: self._ran]
        lasting.update(v for e in equations if e.effects or e in calls for v in e.results)
        lasting |= self._edited
        if self._original is not None:
            self._original.drop()
        self.values = {v: x for v, x in self.values.items() if v in lasting}
        self._filled = 0

    def replace_value(self, variable: Var, value: Any, position: int | None = None) -> Any:
        """The new value of an edited variable; within a `shard_map` its part at one position is replaced, or all parts
        for None.
        """
        previous = self.value(variable)
        if self.positions is not None:
            value = self.positions.replace_part(variable.aval, previous, value, position)
        return device_put(value, previous.sharding)

    # Edited values --------------------------------------------------------------------------------------------

    @property
    def n_edits(self) -> int:
        """Number of edited values in this program and those within it."""
        edits, frame = sum(call.n_edits for call in self.calls.values()), self
        while frame._original is not None:
            edits, frame = edits + 1, frame._original
        return edits

    def edit(self, variable: Var, value: Any) -> None:
        """Set a variable to another value from this position on. Values computed earlier keep the old one."""
        position = self.position
        # Compute values that are used later from the old value first.
        self.read([v for v, (origin, used) in self._uses() if origin < position <= used])
        # A shallow copy suffices, because `cut` makes new dicts.
        self._original = copy.copy(self)
        self._base = position
        self._edited |= {variable}
        self.cut()
        self.values[variable] = value

    def cut(self, call: EquationRuns | None = None) -> None:
        """Discard the values computed from this position on, except those of `call`, because an earlier or inner value
        has changed.
        """
        later = {v for e in self.jaxpr.equations[self.position :] for v in e.results}
        self.values = {v: x for v, x in self.values.items() if v not in later}
        self.calls = {i: c for i, c in self.calls.items() if i < self.position or c is call}
        self.simulations = {i: run for i, run in self.simulations.items() if i < self.position}
        self._obstacles = {i: text for i, text in self._obstacles.items() if i < self.position}
        self._ran, self._filled = min(self._ran, self.position), 0

    def undo(self, position: int) -> None:
        """Undo the edits made after a position."""
        while self._original is not None and position < self._base:
            # Restore the frame from before its last edit; its `_original` in turn is the one before the previous edit.
            vars(self).update(vars(self._original))
        edited = [i for i, call in self.calls.items() if i >= position and call.n_edits]
        if edited:
            self.position = min(edited)
            self.cut()

    def chains_ahead(self, next_stop: int) -> list[Chain]:
        """The programs that run if the user steps on from here: into an equation, or to `next_stop`."""
        # Equations before `start` have run, or all of their results are computed.
        start = max(self._ran, self._filled)
        chains: list[Chain] = []
        if start == self.position and self.equation is not None and can_enter(self.equation):
            chains += _chains_within(self.equation, self.values, self.positions)
        if next_stop - self._ran > STRETCH_LENGTH:
            program = self._program(
                *self._equations_for(self._variables_to_show(next_stop), next_stop)
            )
            chains.append(self._chain([program, *_stretches_from(self.jaxpr, next_stop)[:1]]))
        if start - self.position < STRETCH_LENGTH:
            chains.append(self._chain(_stretches_from(self.jaxpr, start)))
        return chains

    def chain_behind(self) -> Chain:
        """The program of the next equation, which the user is stepping through, to run the rest of it at once."""
        return self._chain(_stretches_from(self.jaxpr, self.position)[:1])

    def _chain(self, programs: Sequence[ClosedJaxpr]) -> Chain:
        return Chain(steps_of(programs, self.positions), self.values)

    def _advance(self, position: int) -> None:
        """Run the equations before `position` that haven't run, and keep the values that are used later."""
        if position > self._ran:
            if position - self._ran <= STRETCH_LENGTH:
                self._fill(position)
            self._know(self._variables_to_show(position), position)
            self._ran = position

    def _variables_to_show(self, position: int) -> list[Var]:
        """Variables used after a position and, if they are small, the last of each user's name that equations on the way
        assign.
        """
        # Values computed before `position` and used after it.
        live = [v for v, (origin, used) in self._uses() if origin < position <= used]
        names = value_names(self.jaxpr)
        equations = self.jaxpr.equations[self._ran : position]
        # The last assigned variable for each of the user's names.
        values = {names[v]: v for e in equations for v in e.results if v in names}
        is_small = sum(n_bytes(v.aval) for v in values.values()) <= MAX_STRETCH_BYTES
        return [*live, *values.values()] if is_small else live

    def _fill(self, position: int) -> None:
        """Run the stretches of equations that follow the last computed value, up to `position` or to an equation that begins none."""
        start = max(self._ran, self._filled)
        while start < position and (stretch := _stretch(self.jaxpr, start)) is not None:
            jaxpr = stretch.program.jaxpr
            results = run_at(self.positions, stretch.program, self.read(jaxpr.invars))
            self.values.update(strict_zip(jaxpr.outvars, results))
            start = self._filled = stretch.end

    def _uses(self) -> Iterable[tuple[Var, tuple[int, int]]]:
        return self.jaxpr.memo["last uses"].items()

    def _know(self, variables: Sequence[Any], end: int) -> None:
        """Compute `variables` from known values, and run the equations before `end` with effects that haven't run."""
        chosen, targets = self._equations_for(variables, end)
        if chosen:
            self.values.update(strict_zip(targets, self._run(chosen, targets)))

    def _equations_for(
        self, variables: Sequence[Any], end: int
    ) -> tuple[list[Equation], list[Var]]:
        """The equations that compute `variables` or have pending effects before `end`, and those results of theirs to
        keep.
        """
        # `needed`: variables still to be computed; `targets`: results to be kept; `chosen`: equations, last one first.
        needed = {v for v in variables if v not in self.values}
        targets = [v for v in dict.fromkeys(variables) if v in needed]
        chosen: list[Equation] = []
        # From last to first: an equation that uses an operand is visited before the one that computes it.
        for index in range(end - 1, self._base - 1, -1):
            # Effects from `_ran` on are pending; before it, an equation runs only if its result is needed.
            if index < self._ran and not needed:
                break
            equation = self.jaxpr.equations[index]
            if index >= self._ran and equation.effects:
                targets += [v for v in equation.results if type(v) is not DropVar]
            elif needed.isdisjoint(equation.results):
                continue
            chosen.append(equation)
            needed.difference_update(equation.results)
            needed.update(
                a for a in equation.operands if type(a) is not Literal and a not in self.values
            )
        if self._original is not None:
            # Values that no equation after the edit computes are taken from the frame before the edit.
            before = [v for v in needed if v not in self.values]
            self.values.update(strict_zip(before, self._original.read(before)))
            targets = [v for v in targets if v not in before]
        return chosen[::-1], [*dict.fromkeys(targets)]

    @disable_traps
    def _run(self, equations: Sequence[Equation], targets: Sequence[Var]) -> Values:
        """The values of `targets` after running some equations as one compiled program."""
        if any(CHECKS & e.effects for e in equations):
            return self._run_with_checks(equations, targets)
        is_one = len(equations) == 1 and not isinstance(
            equations[0].primitive, HigherOrderPrimitive
        )
        if is_one and self.positions is None:
            # A single primitive without programs runs eagerly, which compiles it once for all its uses.
            [equation] = equations
            if is_silent() and is_note(equation):
                return []
            operands = [a.val if type(a) is Literal else self.values[a] for a in equation.operands]
            interpret = lambda: context.trace.interpret(
                equation.primitive, tuple(operands), equation.params
            )
            results = past_breakpoints(interpret) if is_breakpoint(equation) else interpret()
            values = dict(strict_zip(equation.results, results))
            return [values[v] for v in targets]
        program = self._program(equations, targets)
        operands = [self.values[v] for v in program.jaxpr.invars]
        return run_at(self.positions, program, operands)

    def _run_with_checks(self, equations: Sequence[Equation], targets: Sequence[Var]) -> Values:
        """Like `_run`, for equations that include the user's checks. Raises: CheckError if one fails."""
        program = self._program(equations, targets)
        with scope_of(self.positions):
            checked = checked_program(program.jaxpr, user_checks)
        operands = [self.values[v] for v in program.jaxpr.invars]
        results = run_at(self.positions, checked.program, operands, checked.consts)
        # `results` are error codes (0 for no failure), values for messages, then the targets.
        codes, *notes = results[: checked.n_notes]
        failed = np.flatnonzero(codes)
        if failed.size:
            avals = [aval for site in checked.sites for aval in site.avals]
            # One row per mesh position if the check's values vary, else a single one.
            rows = [np.reshape(x, (-1, *a.shape)) for x, a in strict_zip(notes, avals)]
            values = [x[min(failed[0], len(x) - 1)] for x in rows]
            error_of(np.ravel(codes)[failed[0]], values, checked.sites).throw()
        return results[checked.n_notes :]

    def _program(self, equations: Sequence[Equation], targets: Sequence[Var]) -> ClosedJaxpr:
        """The program that consists of some equations; cached."""
        key = ("steps", tuple([id(e) for e in equations]), tuple(targets))
        memo = self.jaxpr.memo
        if key not in memo:
            memo[key] = _segment(self.jaxpr, equations, targets)
        return memo[key]


class _Stretch(NamedTuple):
    """The program of consecutive equations, which returns all of their results."""

    program: ClosedJaxpr
    end: int
    """The position after the last equation."""


def _stretch(jaxpr: Jaxpr, start: int) -> _Stretch | None:
    """The stretch that starts at an equation and runs when the user steps over it; cached.

    An equation with programs is a stretch by itself. None for effects, calls of Python and large values.
    """
    key = "stretch", start
    if key not in jaxpr.memo:
        # `end` is the position after the stretch, `size` the bytes of its results.
        end, size = start, 0
        for equation in jaxpr.equations[start : start + STRETCH_LENGTH]:
            size += sum(n_bytes(v.aval) for v in equation.results)
            is_apart = isinstance(equation.primitive, HigherOrderPrimitive)
            if equation.effects or calls_host(equation) or size > MAX_STRETCH_BYTES:
                break
            if is_apart and end > start:
                break
            end += 1
            if is_apart:
                break
        equations = jaxpr.equations[start:end]
        results = [v for e in equations for v in e.results if type(v) is not DropVar]
        program = _segment(jaxpr, equations, results)
        jaxpr.memo[key] = _Stretch(program, end) if equations else None
    return jaxpr.memo[key]


def _stretches_from(jaxpr: Jaxpr, start: int) -> list[ClosedJaxpr]:
    """The programs of the next stretches."""
    programs: list[ClosedJaxpr] = []
    while len(programs) < STRETCHES_AHEAD and (stretch := _stretch(jaxpr, start)) is not None:
        programs.append(stretch.program)
        start = stretch.end
    return programs


def _chains_within(
    equation: Equation, values: dict[Any, Any], positions: MeshPositions | None
) -> list[Chain]:
    """The first stretches of each program of an equation, after the steps that slice its operands for one run."""
    slots: Slots = slots_of(equation)
    constant: Unary = (lambda x: x) if positions is None else positions.spread
    # The values by key: the position of an operand, or "run" for the number of the run.
    operands: dict[Any, Any] = {
        i: constant(a.val) if type(a) is Literal else values.get(a)
        for i, a in enumerate(equation.operands)
    }
    if any(x is None for x in operands.values()):
        return []
    if positions is not None and _has_no_types(equation, positions):
        return []
    steps: list[ChainStep] = []
    # Keys of the operands by group; a step that slices operands replaces their keys by those of its results.
    groups: list[list[Any]] = slots.split([*operands])
    # The first step of a `shard_map`: from whole operands to their parts at the positions.
    if equation.primitive is shard_map_p:
        inner = MeshPositions(equation.params, positions)
        parts = [("part", i) for i in operands]
        steps, groups, positions = (
            [ChainStep(inner.cut(), [*operands], parts)],
            slots.split(parts),
            inner,
        )
    avals = [a.aval for a in equation.operands] if positions else map(type_of, operands.values())
    loop = PartialLoop(slots, tuple(avals), positions)
    # The next step of a scan: from stacked operands to their elements for one run.
    if stacked := loop.stacked_operands(groups):
        program = loop.element().program
        elements = [("element", key) for key in stacked]
        steps.append(ChainStep(program, ["run", *stacked], elements, positions))
        groups = loop.with_elements(groups, elements)
    operands["run"] = constant(np.int32(0))
    chains: list[Chain] = []
    for slot in slots.programs:
        jaxpr = slot.program.jaxpr
        # The key of the value of each of the program's inputs.
        keys = dict(strict_zip(jaxpr.invars, slots.gather_inputs(slot, groups)))
        stretches = steps_of(_stretches_from(jaxpr, 0), positions, keys)
        chains.append(Chain([*steps, *stretches], operands))
    return chains


def _segment(jaxpr: Jaxpr, equations: Sequence[Equation], results: Sequence[Var]) -> ClosedJaxpr:
    """A program that consists of some equations of another one; values that they don't compute are its inputs."""
    computed = {v for e in equations for v in e.results}
    # Each variable that the equations use and don't compute, in order of first use.
    inputs: Any = dict.fromkeys(
        a for e in equations for a in e.operands if type(a) is not Literal and a not in computed
    )
    return ClosedJaxpr(Jaxpr((), [*inputs], equations, results, debug=jaxpr.debug))


class EquationRuns:
    """The runs of an equation's programs, with a frame for each. A turn is (index of the program, number of the run)."""

    def __init__(
        self, equation: Equation, operands: Operands, positions: MeshPositions | None = None
    ) -> None:
        self.equation = equation
        self.slots: Slots = slots_of(equation)
        self.positions = positions
        """The mesh positions of the runs, for a `shard_map` and the programs within it."""
        if self.is_shard_map:
            self.positions = MeshPositions(equation.params, positions)
            operands = run(self.positions.cut(), operands)
        self._around: MeshPositions | None = None
        """The positions with types around programs that have none."""
        if positions is not None and _has_no_types(equation, positions):
            self._around, self.positions = positions, positions.without_types()
            avals = [a.aval for a in equation.operands]
            operands = positions.convert(avals, operands, self.positions)
        # Operands by group; those of a `shard_map` are split into their parts at all positions.
        self.groups = self.slots.split(operands)
        self.frames: dict[Turn, SteppedFrame] = {}
        # The carry before each run, by number of the run; that of run 0 is in `groups` too.
        self._carries: dict[int, Values] = {}
        if self.slots.carries:
            [(position, _)] = self.slots.carries
            self._carries[0] = self.groups[position]
        avals = [a.aval for a in equation.operands] if self.positions else map(type_of, operands)
        self._loop = PartialLoop(self.slots, tuple(avals), self.positions)
        self._flags: dict[Any, Any] = {}
        """The flags of a search by (key of the search, first run of a window): whether its conditions hold in each run."""
        # Indices of programs: the conditions of a loop, and the body; for a cond, the branch that is taken.
        self._predicates = [i for i, slot in enumerate(self.slots.programs) if slot.is_predicate]
        self._body = next(i for i, slot in enumerate(self.slots.programs) if not slot.is_predicate)
        if self.slots.choosing:
            [position] = self.slots.choosing
            last = len(self.slots.programs) - 1
            index = np.ravel(np.asarray(self.groups[position][0]))[0]
            self._body = int(np.clip(index, 0, last))

    @property
    def is_shard_map(self) -> bool:
        """Whether its program runs at positions along mesh axes."""
        return self.equation.primitive is shard_map_p

    @property
    def is_loop(self) -> bool:
        """Whether its body may run several times."""
        return is_loop(self.equation)

    def is_common(self) -> bool:
        """Whether all positions of a `shard_map` take the same branches and numbers of runs."""
        if self.slots.choosing:
            [position] = self.slots.choosing
            return _is_common(self.groups[position][0])
        if self.slots.runs is None and not self.equation.effects:
            return _is_common(self._count())
        if self.slots.runs is None:
            [condition] = self.slots.programs[self._predicates[0]].program.jaxpr.outvars
            return not self.positions or not self.positions.varying(condition.aval)
        return True

    def is_predicate(self, turn: Turn) -> bool:
        """Whether a turn runs the predicate of a loop."""
        return turn[0] in self._predicates

    def frame(self, turn: Turn) -> SteppedFrame:
        """The frame of a turn, at the position where it was left. Whether the run occurs isn't checked."""
        if turn not in self.frames:
            slot, number = self.slots.programs[turn[0]], turn[1]
            groups = self.groups
            # The body reads one element of each stacked operand per run.
            if stacked := self._loop.stacked_operands(groups):
                elements = self._run(self._loop.element(), [np.int32(number)], stacked)
                groups = self._loop.with_elements(groups, elements)
            groups = [*groups]
            for i, _ in self.slots.carries:
                # A condition at the end of a loop runs after the body, so it tests the next run's carry.
                groups[i] = self.carry(number + (slot.is_predicate and self.slots.ends))
            if len(self.frames) >= REMEMBERED_RUNS and not self.equation.effects:
                # The oldest frame without an edit is discarded, because it can be recomputed.
                self.frames.pop(
                    next((t for t, f in self.frames.items() if not f.n_edits), turn), None
                )
            inputs = self.slots.gather_inputs(slot, groups)
            self.frames[turn] = SteppedFrame(slot.program.jaxpr, inputs, self.positions)
        return self.frames[turn]

    def first(self) -> Turn | None:
        """The first turn; None for a scan without a run."""
        if self._predicates and not self.slots.ends:
            return self._predicates[0], 0
        return None if self.slots.runs == 0 else (self._body, 0)

    def after(self, turn: Turn) -> Turn | None:
        """The turn after another one, which is completed first; None after the last."""
        which, number = turn
        if not self.is_loop:
            return None
        # Turns alternate: condition 0, body 0, condition 1, …; or body 0, condition 0, … if the condition ends it.
        if which in self._predicates:
            if self._holds(turn) == self.slots.ends:
                return None
            return (self._body, number + self.slots.ends)
        if self._predicates:
            return (self._predicates[0], number + (not self.slots.ends))
        return (which, number + 1) if number + 1 < self.slots.runs else None  # type: ignore[operator]

    def before(self, turn: Turn) -> Turn | None:
        """The turn before another one; None before the first."""
        which, number = turn
        if turn == self.first():
            return None
        if which in self._predicates:
            return self._body, number - (not self.slots.ends)
        if self._predicates:
            return self._predicates[0], number - self.slots.ends
        return which, number - 1

    def last(self) -> Turn | None:
        """The last turn; None for a scan without a run."""
        if not self.is_loop:
            return self.first()
        runs = self.runs()
        if not self._predicates:
            return (self._body, runs - 1) if runs else None
        # A condition before the body runs once more than the body.
        return (self._predicates[0], runs - 1 if self.slots.ends else runs)

    def turns_of(self, number: int) -> list[Turn]:
        """The turns that belong to one run of a loop, in order."""
        turns = [*[(i, number) for i in self._predicates], (self._body, number)]
        return turns[::-1] if self.slots.ends else turns

    def runs(self) -> int:
        """The number of runs of the body, computed if the equation doesn't state it."""
        if self.slots.runs is None:
            if self.equation.effects or self.n_edits:
                turn, number = self.first(), 0
                while turn is not None:
                    number, turn = number + (turn[0] == self._body), self.after(turn)
            else:
                number = int(np.ravel(np.asarray(self._count()))[0])
            self.slots = self.slots._replace(runs=number)
        return self.slots.runs  # type: ignore[return-value]

    def _count(self) -> Any:
        """The computed number of runs; within a `shard_map`, at each position."""
        return self._run(self._loop.counting(), [], self._inputs(self._carries[0]))[0]

    def jump(self, number: int) -> Turn:
        """The turn of the body in run `number`, counted from 0.

        Raises: ArgumentValueError if there is no such run.
        """
        if not 0 <= number < (self.runs() if self.is_loop else 1):
            raise ArgumentValueError(
                f"there is no run {number} of `{self.equation.primitive.name}`.",
                got=f"it runs {self.runs() if self.is_loop else 1} times, from run 0",
            )
        return self._body, number

    def carry(self, number: int) -> Values:
        """The carry before run `number` of the body."""
        if number not in self._carries:
            # `near` is the last run before `number` whose carry is known, or computable from an edited run.
            near, body = max(n for n in self._carries if n <= number), self._body
            edited = [
                n for (which, n), frame in self.frames.items()
                if which == body and near <= n < number and frame.n_edits
            ]  # fmt: skip
            if edited and not self.equation.effects:
                near = max(edited) + 1
                self._carries[near] = self._loop.carry_of(self._results_of_turn((body, near - 1)))
            # Runs that have effects or were entered give their results; the others run as one program.
            if self.equation.effects or (number == near + 1 and (body, near) in self.frames):
                for each in range(near, number):
                    self._keep_carry(
                        each + 1, self._loop.carry_of(self._results_of_turn((body, each)))
                    )
            elif near < number:
                bounds = [np.int32(near), np.int32(number)]
                inputs = self._inputs(self._carries[near])
                self._keep_carry(number, self._run(self._loop.jumping(), bounds, inputs))
        return self._carries[number]

    def know_results(self, turn: Turn, results: Values) -> None:
        """Take the carry after a run of the body from its results, which are known."""
        if self.slots.carries:
            self._keep_carry(turn[1] + 1, self._loop.carry_of(results))

    def _keep_carry(self, number: int, carry: Values) -> None:
        self._carries[number] = carry
        if len(self._carries) > REMEMBERED_RUNS:
            # The oldest carry is discarded, but not the first entry: the carry before run 0 can't be recomputed.
            del self._carries[[*self._carries][1]]

    def meeting(self, search: LoopSearch, number: int, *, is_forward: bool = True) -> int | None:
        """The first run from `number` on (backwards: the last run before it) in which a condition holds; None if there
        is none.

        One compiled program, which runs once per window, searches the runs. The predicate that ends a loop belongs to
        no run.
        Raises: errors of the conditions, which are traced.
        """
        runs = self.runs()
        while 0 <= number - (not is_forward) < runs:
            # The window's first run. A backward search starts with the run before `number`.
            lower = (number - (not is_forward)) // WINDOW_RUNS * WINDOW_RUNS
            flags = self._search(search, lower, min(lower + WINDOW_RUNS, runs))
            numbers = lower + np.flatnonzero(flags)
            numbers = numbers[numbers >= number] if is_forward else numbers[numbers < number]
            if numbers.size:
                found = int(numbers[0 if is_forward else -1])
                if self.slots.carries and found not in self._carries:
                    # The program that searched gives the carry, too: another one would have to be compiled.
                    self._keep_carry(found, self._run_window(search, lower, found)[1])
                return found
            number = lower + WINDOW_RUNS if is_forward else lower
        return None

    def _search(self, search: LoopSearch, lower: int, upper: int) -> Any:
        """For each run of a window, whether a condition holds at any position of a `shard_map`."""
        key = search.key, lower
        if key not in self._flags:
            flags, carry = self._run_window(search, lower, upper)
            # One row per position of a `shard_map`. The last window has flags for runs that don't occur.
            rows: Any = np.reshape(np.asarray(flags), (-1, WINDOW_RUNS))
            self._flags[key] = np.any(rows[:, : upper - lower], axis=0)
            if self.slots.carries and upper not in self._carries:
                self._keep_carry(upper, carry)
        return self._flags[key]

    def _run_window(self, search: LoopSearch, lower: int, upper: int) -> tuple[Any, Values]:
        """(a flag for each run of a window, carry after the runs from `lower` to before `upper`)."""
        bounds = [np.int32(lower), np.int32(upper)]
        carry = self.carry(lower) if self.slots.carries else []
        inputs = [*search.values, *self._inputs(carry)]
        flags, *carry = self._run(self._loop.searching(search), bounds, inputs)
        return flags, carry

    @property
    def n_edits(self) -> int:
        """Number of edited values in its runs."""
        return sum(frame.n_edits for frame in self.frames.values())

    def cut(self, turn: Turn) -> None:
        """Discard the turns after one in which a value has changed."""
        order = self._order(turn)
        self.frames = {t: f for t, f in self.frames.items() if self._order(t) <= order}
        last = turn[1] + (self.is_predicate(turn) and self.slots.ends)
        self._carries = {n: carry for n, carry in self._carries.items() if n <= last}
        self._flags.clear()
        self.slots = slots_of(self.equation)

    def undo(self, turn: Turn) -> bool:
        """Undo the edits made after a turn; returns whether there were any."""
        order = self._order(turn)
        if not any(f.n_edits and self._order(t) > order for t, f in self.frames.items()):
            return False
        self.cut(turn)
        return True

    def _order(self, turn: Turn) -> tuple[int, bool]:
        """Sort key of turns: the predicate comes first in its run, or last if it ends the loop."""
        return turn[1], self.is_predicate(turn) == self.slots.ends

    @property
    def has_results(self) -> bool:
        """Whether its last run gives all results, once it has ended: there are none that are stacked over all runs."""
        return not self.is_loop or all(g.role is Role.CARRY for g in self.slots.results if g.size)

    @disable_traps
    def results(self) -> Values:
        """The results of the equation, gathered from its runs."""
        if not self.is_loop:
            results = self._results_of_turn(self.first())  # type: ignore[arg-type]
            if self._around is not None and self.positions is not None:
                avals = [v.aval for v in self.equation.results]
                return self.positions.convert(avals, results, self._around)
            return run(self.positions.joined_program(), results) if self.is_shard_map else results  # type: ignore[union-attr]
        runs, body = self.runs(), self.slots.programs[self._body]
        carries = self.carry(runs) if self.slots.carries else []
        # The outputs of each run, by result group.
        outputs = [
            dict(self.slots.group_results(body, self._results_of_turn((self._body, i))))
            for i in range(runs)
        ]
        results: Values = []
        for i, group in enumerate(self.slots.results):
            if group.role is Role.CARRY:
                results += carries
            else:
                # `rows` has a list per run, in order of elements; a `column` is one result over all runs.
                rows = [each[i] for each in (outputs[::-1] if self.slots.is_reversed else outputs)]
                results += [stack(list(column), self._axis) for column in strict_zip(*rows)]
        return results

    def _results_of_turn(self, turn: Turn) -> Values:
        frame = self.frame(turn)
        # The frame is run to its end for the results and then moved back.
        position = frame.position
        frame.move(len(frame.jaxpr.equations))
        results = frame.results()
        frame.position = position
        return results

    def _holds(self, turn: Turn) -> bool:
        return bool(np.ravel(np.asarray(self._results_of_turn(turn)[0]))[0])

    # Programs that run a loop in part -----------------------------------------------------------------------

    def _run(self, derived: Derived, bounds: Operands, operands: Operands) -> Values:
        """The results of a program that runs a part of the loop, given constants and values of the frames."""
        return run_at(self.positions, derived.program, operands, [*derived.consts, *bounds])

    @property
    def _axis(self) -> int:
        """The axis of stacked values that indexes the runs."""
        return 0 if self.positions is None else self.positions.n_axes

    def _inputs(self, carry: Operands) -> Values:
        groups = [*self.groups]
        for i, _ in self.slots.carries:
            groups[i] = [*carry]
        return [x for group in groups for x in group]


def slots_of(equation: Equation) -> Any:
    """The programs of an equation with the roles of its operands; None if it has none."""
    primitive = equation.primitive
    return primitive.slots(equation.params) if isinstance(primitive, HigherOrderPrimitive) else None


def calls_host(equation: Equation) -> bool:
    """Whether an equation calls a Python function."""
    return isinstance(equation.primitive, HostCall)


def is_loop(equation: Equation) -> bool:
    """Whether an equation repeats a program in which a debugger can stop."""
    slots = slots_of(equation) if can_enter(equation) else None
    return slots is not None and (slots.runs != 1 or bool(slots.carries))


def called_program(equation: Equation) -> ClosedJaxpr | None:
    """The program that an equation calls once; None for loops, branches and equations without a program."""
    slots = slots_of(equation)
    if (
        slots is None
        or slots.by_position
        or len(slots.programs) != 1
        or slots.choosing
        or is_loop(equation)
    ):
        return None
    [slot] = slots.programs
    inputs = slots.gather_inputs(slot, slots.split(equation.operands))
    is_whole = len(slot.program.jaxpr.outvars) == len(equation.results)
    return slot.program if inputs == [*equation.operands] and is_whole else None


def can_enter(equation: Equation) -> bool:
    """Whether a debugger can stop in the programs of an equation."""
    return slots_of(equation) is not None


def _has_no_types(equation: Equation, positions: MeshPositions) -> bool:
    """Whether types in the programs of an equation don't say over which axes values vary, though those around it do."""
    primitive = equation.primitive
    is_joint = isinstance(primitive, HigherOrderPrimitive) and primitive.varies_jointly
    return positions.are_typed and is_joint


def _obstacle(positions: MeshPositions | None, equation: Equation) -> str:
    """Why values at mesh positions can't be represented in the programs of an equation; empty if they can."""
    if equation.primitive is shard_map_p:
        positions = MeshPositions(equation.params, positions)
    elif positions and _has_no_types(equation, positions):
        positions = positions.without_types()
    programs = [slot.program.jaxpr for slot in slots_of(equation).programs]
    obstacles = map(positions.obstacle, programs) if positions else ()
    return next((each for each in obstacles if each), "")


def _is_common(value: Any) -> bool:
    """Whether a scalar has the same value at all positions."""
    elements = np.ravel(np.asarray(value))
    return bool((elements == elements[0]).all())


def run_at(
    positions: MeshPositions | None,
    program: ClosedJaxpr,
    operands: Operands,
    constants: Operands = (),
) -> Values:
    """The results of a compiled program for `constants` followed by `operands`, which are values of frames.

    With `positions`, it runs at all of them, and constants are broadcast to them first.
    """
    program = program_to_run(program)
    if positions is None:
        return run(program, [*constants, *operands])
    wait_for_compilation(program)
    return run(positions.on_all(program), [*map(positions.spread, constants), *operands])


def scope_of(positions: MeshPositions | None) -> contextlib.AbstractContextManager[None]:
    """The context in which programs that run at mesh positions are traced."""
    return contextlib.nullcontext() if positions is None else positions.scope()


@disable_traps
def run(program: ClosedJaxpr, operands: Operands) -> Values:
    """The results of a program without constants, compiled; breakpoints in it don't stop."""
    program = program_to_run(program)
    wait_for_compilation(program)
    call = lambda: bind(closed_call_p, *operands, params=ClosedCallParams(program))
    return past_breakpoints(call) if breakpoints_of(program.jaxpr) else call()


def breakpoints_of(jaxpr: Jaxpr) -> list[Equation]:
    """The equations of `debug.breakpoint` in a program and the programs within it; cached."""
    if "breakpoint equations" not in jaxpr.memo:
        jaxpr.memo["breakpoint equations"] = [
            e for program in programs_within(jaxpr) for e in program.equations if is_breakpoint(e)
        ]
    return jaxpr.memo["breakpoint equations"]


def past_breakpoints(call: Callable[[], Any]) -> Any:
    """The result of `call()` with breakpoints disabled, once the program it runs has ended."""
    with mute_breakpoints():
        results = block_until_ready(call())
        effects_barrier()
    return results


def frame_of(program: ClosedJaxpr, *operands: Any) -> SteppedFrame:
    """The frame of a whole program; references are replaced by their values.

    Raises: ArgumentTypeError for a wrong number of operands.
    """
    jaxpr, consts = open_program(program)
    inputs = [*consts, *program.consts, *operands]
    if len(inputs) != len(jaxpr.invars):
        raise ArgumentTypeError(
            "a program must be stepped with as many operands as it takes.",
            got=f"{len(operands)}, for {len(program.jaxpr.invars)}",
        )
    return SteppedFrame(jaxpr, inputs)


def open_program(program: ClosedJaxpr) -> tuple[Jaxpr, Values]:
    """The program to step through, with values in place of references, and its leading inputs; cached.

    These are followed by the constants of `program`, then by its arguments.
    """
    memo = program.jaxpr.memo
    if "opened" not in memo:
        jaxpr, consts = without_references(program.jaxpr)
        memo["opened"] = constants_as_inputs(with_kernels_in_steps(jaxpr)), consts
    return memo["opened"]


def n_bytes(x: Any) -> int:
    """The bytes of a value's elements; 0 for values that aren't arrays."""
    return int(getattr(x, "nbytes", 0))


def _last_uses(jaxpr: Jaxpr) -> dict[Var, tuple[int, int]]:
    """For each used result of an equation: (position of the equation, position of its last use)."""
    origins = {v: i for i, e in enumerate(jaxpr.equations) for v in e.results}
    last: dict[Any, int] = {}
    for i, equation in enumerate(jaxpr.equations):
        last.update((a, i) for a in equation.operands if type(a) is not Literal)
    last.update((a, len(jaxpr.equations)) for a in jaxpr.outvars if type(a) is not Literal)
    return {v: (i, last[v]) for v, i in origins.items() if v in last}


def user_stack(equation: Equation) -> list[source.SourceFrame]:
    """The user's frames that made an equation, outermost first."""
    return source.user_frames(equation.source)[::-1]


def user_codes(equation: Equation) -> list[CodeType]:
    """The code of the user's frames that made an equation, innermost first."""
    return [] if equation.source is None else [c for c, _ in source.user_places(equation.source)]


def line_text(equation: Equation) -> str:
    """The innermost user line of an equation, with its function; empty if there is none."""
    return "" if equation.source is None else source.describe(equation.source) or ""


def latest_variables(
    jaxpr: Jaxpr,
    position: int,
    function: str | None = None,
    file: str = "",
    line: int = 0,
) -> dict[str, Var]:
    """The variables computed before a position, by the user's names; the latest for each name.

    With `function`, only variables that the function of this qualified name assigns, and the arguments if the program
    is its. With the `file` and `line` where that function stands, only those that its names have before this line: not
    an argument that was assigned anew, nor in a backward pass the value of another line or of a run of a loop.
    """
    statements = statements_of(file) if line else None
    is_backward = any(transformation_of(e) == "transpose" for e in jaxpr.equations)
    names = value_names(jaxpr)
    has_arguments = function is None or function.rpartition(".")[2] == name_of(jaxpr)
    results = [v for e in jaxpr.equations[:position] for v in e.results]
    latest: dict[str, Var] = {}
    # In order of assignment: later variables replace earlier ones of the same name.
    for variable in [*jaxpr.invars, *results]:
        name = names.get(variable)
        if name is None:
            continue
        if statements is not None and not statements.is_current(
            name.name, name.line, (function or "").rpartition(".")[2], line, is_backward=is_backward
        ):
            continue
        if name.function == function or function is None or (has_arguments and not name.function):
            latest[name.name] = variable
    return latest


def is_variable(held: Any) -> bool:
    """Whether the recorded value of a name is a variable of a program rather than a known value."""
    return isinstance(held, Var)


def known_variable(frame: SteppedFrame, noted: Var) -> Var | None:
    """The variable of a frame's program that corresponds to one recorded in its trace.

    None if it is uncertain or computed only after the frame's position. For a reference, the variable of its current
    content.
    """
    debug = frame.jaxpr.debug
    if isinstance(noted.aval, AbstractRef) or (debug is not None and noted in debug.references):
        return _held_variable(frame, noted)
    images = images_of(frame.jaxpr)
    variable = None if images is None else images.variables.get(noted)
    if variable is None:
        return None
    position = _computing_positions(frame.jaxpr).get(variable, -1)
    return variable if position < frame.position else None


def _held_variable(frame: SteppedFrame, reference: Var) -> Var | None:
    """The variable whose value a reference contains at the frame's position; None if unknown."""
    debug, equations = frame.jaxpr.debug, frame.jaxpr.equations
    history = () if debug is None else debug.references.get(reference, ())
    if "positions" not in frame.jaxpr.memo:
        frame.jaxpr.memo["positions"] = {e.id: i for i, e in enumerate(equations)}
    positions = frame.jaxpr.memo["positions"]
    held = None
    for atom, place in history:
        position = -1 if place is None else positions.get(place)
        if position is None or position >= frame.position:
            # Programs of an entered equation may have written another value to the reference.
            if position == frame.position and position in frame.calls:
                return None
            break
        held = atom
    known = {*frame.jaxpr.invars} if type(held) is Var else ()
    return held if held in known or held in _computing_positions(frame.jaxpr) else None


def _computing_positions(jaxpr: Jaxpr) -> dict[Var, int]:
    """Maps each variable to the position of the equation that computes it; cached."""
    if "origins" not in jaxpr.memo:
        jaxpr.memo["origins"] = {v: i for i, e in enumerate(jaxpr.equations) for v in e.results}
    return jaxpr.memo["origins"]


def compiled_results(program: ClosedJaxpr, *operands: Any) -> Values:
    """The results of a whole program, compiled as one."""
    frame = frame_of(program, *operands)
    return run(ClosedJaxpr(frame.jaxpr), [frame.values[v] for v in frame.jaxpr.invars])
