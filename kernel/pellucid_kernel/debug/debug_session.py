"""Debugging sessions: step through a call of a function by source lines, forwards and backwards."""

from __future__ import annotations

import bisect
import dataclasses
import importlib
import inspect
import math
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import pellucid as pl
from pellucid import analysis
from pellucid.introspect.eager_operation import LocatedOperation
from pellucid.introspect.errors import ArgumentTypeError, ArgumentValueError, ExecutionError
from pellucid.introspect.evaluation import Step, match_at
from pellucid.introspect.finding import Match, first_failure, first_match, match_again
from pellucid.introspect.kernel_steps import (
    block_places,
    is_kernel,
    kernel_of,
    number_of,
    position_of,
)
from pellucid.introspect.lanes import Lane, lanes_at
from pellucid.introspect.lineage import transformation_of
from pellucid.introspect.loops import LoopSearch
from pellucid.introspect.mesh_positions import MeshPosition
from pellucid.introspect.noting import noting
from pellucid.introspect.schema import KernelGridsRecord
from pellucid.introspect.simulation import is_simulated, simulated_body
from pellucid.introspect.stepping import (
    breakpoints_of,
    calls_host,
    can_enter,
    cell_name,
    compiled_results,
    frame_of,
    is_loop,
    is_variable,
    known_variable,
    latest_variables,
    listing,
    programs_within,
    user_stack,
)
from pellucid.introspect.traps import disable_traps
from pellucid.tree_util import tree_leaves
from pellucid_kernel.debug.breakpoints import BUDGET
from pellucid_kernel.debug.choice import Choice, n_batches_around, n_batches_of, sizes_at
from pellucid_kernel.debug.conditions import Outer, array_of, counts, search_of
from pellucid_kernel.debug.differences import (
    Difference,
    FirstDifference,
    differences,
    first_difference_of,
)
from pellucid_kernel.debug.equation_stacks import Stack, equation_stacks
from pellucid_kernel.debug.simulated_cores import CoreState, SimulatedCores, table_of
from pellucid_kernel.debug.stepper import Level, NextRun, Stepper
from pellucid_kernel.debug.visits import Visit, has_stops, visits_of


class Breakpoint(NamedTuple):
    """A line to stop at, unconditionally or if `condition` is true there."""

    file: str
    line: int
    condition: str = ""
    hit_condition: str = ""
    """Which of the hits with a true condition count: `5`, `>= 5`, `% 3`; empty for all."""
    message: str = ""
    """If not empty, printed instead of stopping, with the expressions in braces replaced by their values."""


class StackFrame(NamedTuple):
    """A user line in the stack, or a program without user lines."""

    function: str
    """Qualified name of the function; for a program without user lines, the name of the next operation."""
    file: str
    line: int
    run: str
    """Text with the loop iteration and batch lanes; empty if there are none."""
    level: int
    """Number of programs around the frame's program."""
    core: int = -1
    """The frame's number in the stack of a simulated core; -1 outside of simulated kernels."""

    def __str__(self) -> str:
        file = cell_name(self.file) or os.path.basename(self.file)
        place = f"{file}:{self.line}" if file else "no line of yours"
        return f"{self.function or 'program'}  {place}{f'  {self.run}' if self.run else ''}"


class Named(NamedTuple):
    """A name and what it refers to: a variable of a program, or another value."""

    variable: Any
    """A variable of the program of `level`, or the value itself if `level` is None."""
    level: Level | None
    """The level whose program has the variable; None for a value outside of programs."""
    value: Any = None


_Stops = dict[Any, tuple[int, list[Breakpoint]]]


class DebugSession:
    """A call of `function`, stopped between two lines. `print(session)` shows where; commands return the session.

    `budget`: maximum bytes of values to keep; other values are recomputed when needed. The function is traced once,
    unmodified. Side effects such as prints happen once, even if the session goes back.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        budget: int = BUDGET,
    ) -> None:
        with noting():
            program, shape = pl.make_jaxpr(function, return_shape=True)(*args, **kwargs)
        self._begin(program, [*map(pl.numpy.asarray, tree_leaves((args, kwargs)))], budget)
        self.name = getattr(function, "__name__", "")
        self._tree = pl.tree_util.tree_structure(shape)
        innermost = inspect.unwrap(function)
        self._file = getattr(getattr(innermost, "__code__", None), "co_filename", "")
        self._names = getattr(innermost, "__globals__", {})

    @classmethod
    def of_program(
        cls, program: Any, operands: Sequence[Any], names: dict[str, Any], budget: int = BUDGET
    ) -> DebugSession:
        """A session that runs a traced program on flat operands; its results are a list.

        Python scalars and NumPy arrays among the operands are cast to the program's dtypes. `names` are additional
        names for expressions, such as globals of the calling module.
        """
        session = cls.__new__(cls)
        arrays = [
            x if isinstance(x, pl.Array) else pl.numpy.asarray(x, v.aval.dtype)
            for x, v in zip(operands, program.jaxpr.invars, strict=True)
        ]
        session._begin(program, arrays, budget)
        session._tree = pl.tree_util.tree_structure([0] * len(program.jaxpr.outvars))
        session._file = ""
        session._names = names
        return session

    @classmethod
    def at_operation(
        cls,
        operation: LocatedOperation,
        names: dict[str, Any],
        condition: Callable[[Any], Any],
        what: str,
    ) -> DebugSession:
        """A session at the line of an operation that has run eagerly, some of whose results meet `condition`, which `what` describes.

        The operation doesn't run again.
        """
        session = cls.of_program(operation.program, operation.operands, names, sys.maxsize)
        session.is_eager = True
        frame = session._stepper.top.frame
        [equation] = frame.jaxpr.equations
        frame.know_from(0, dict(zip(equation.results, operation.results, strict=True)))
        session._give_value_reason(f"`{operation.name}`", condition, what)
        return session

    def _begin(self, program: Any, operands: list[Any], budget: int) -> None:
        self.name = ""
        """Name of the function; empty if it is unknown."""
        self.is_eager = False
        """Whether it stands at an operation that Python runs, and that has run."""
        self._program, self._operands = program, operands
        self._stepper = Stepper(frame_of(program, *operands), budget)
        self._stepper.passed = self._log_passed_breakpoints
        self._places = equation_stacks(self._stepper.top.frame.jaxpr)
        self._names: dict[str, Any] = {}
        self._grid: tuple[Any, Any, KernelGridsRecord] | None = None
        """The kernel whose grid was drawn last, with its record."""
        self.breakpoints: list[Breakpoint] = []
        self.hits: dict[Breakpoint, int] = {}
        """Number of times that each breakpoint's condition was true while going forwards."""
        self.log: Callable[[str], Any] = print
        """Receives the messages of breakpoints that have one."""
        self._reason: tuple[tuple[int, ...], str] = (), ""  # (place at which it was set, text)
        self._watched: tuple[Any, tuple[int, ...], str, Callable[[Any], Any]] | None = None
        # (place at which they were noted, lanes of the value there)
        self._lanes: tuple[tuple[int, ...], tuple[Lane, ...]] = ((), ())
        self.choice = Choice()
        self._edits: list[str] = []
        self._simulated: SimulatedCores | None = None
        """The run of the kernel that the next equation simulates, while it is stopped in it."""
        self._stand_at_start()

    # Current place -----------------------------------------------------------------------------------------

    @property
    def is_done(self) -> bool:
        """Whether the call has ended."""
        return self._stepper.is_done and self._visit_index(self._stepper.top) == len(self._visits())

    @property
    def program(self) -> Any:
        """The jaxpr of the outermost program."""
        return self._stepper.levels[0].frame.jaxpr

    @property
    def levels(self) -> list[Level]:
        """The active programs, outermost first."""
        return self._stepper.levels

    @property
    def bytes(self) -> int:
        """Bytes of the values currently kept."""
        return self._stepper.bytes

    def is_on_python_line(self) -> bool:
        """Whether Python executed the current line while tracing.

        False for lines of backward passes, for those that `checkpoint` runs again, and for programs that were traced without a
        debugger.
        """
        visit = self._visit(self._stepper.top)
        around = [level.frame.equation for level in self.levels[:-1]]
        return visit is not None and visit.calls[-1] > 0 and not any(map(_runs_again, around))

    def place(self) -> tuple[int, ...]:
        """Current place as numbers: for each program its run and the position in it."""
        return self._stepper.place()

    @property
    def reason(self) -> str:
        """Why the session stopped here if not for a line: a condition or message raised, or the next operation computes
        a watched value or fails. Empty for other stops.
        """
        if self._simulated is not None and self._simulated.failure is not None:
            return str(self._simulated.failure)
        place, text = self._reason
        return text if place == self._stepper.place() else ""

    @property
    def equation(self) -> Any:
        """The next equation; None at the end of a program."""
        return self._stepper.equation

    def stack(self) -> list[StackFrame]:
        """The current stack of lines, outermost first, through all active programs."""
        frames: list[StackFrame] = []
        for depth, level in enumerate(self._stepper.levels):
            lines, run = self._lines_of(level), self._run_text(level)
            if not lines and (level is not self._stepper.top or self._simulated is not None):
                lines = self._places.stack(level.frame.equation)[-1:]
                if not lines and self._simulated is not None and frames:
                    continue
            if not run and frames and self._repeats_line(level, lines, frames[-1]):
                continue
            if not lines:
                equation = level.frame.equation
                name = "end of the program" if equation is None else equation.primitive.name
                frames.append(StackFrame(name, "", 0, run, depth))
            for i, line in enumerate(lines):
                texts = [] if i else [run]
                texts += [self._lanes_text(level)] if i + 1 == len(lines) else []
                text = " ".join(filter(None, texts))
                frames.append(StackFrame(line.function, line.file, line.line, text, depth))
        return [*frames, *self.core_stack()]

    def _repeats_line(self, level: Level, lines: Stack, caller: StackFrame) -> bool:
        """Whether a program, made by the library, is at the line that has called it, and in no function of its own."""
        visit = self._visit(level)
        here = [(line.file, line.line) for line in lines]
        return here == [(caller.file, caller.line)] and (visit is None or visit.calls[-1] < 0)

    # Simulated kernels --------------------------------------------------------------------------------------

    @property
    def is_simulated(self) -> bool:
        """Whether it is in a kernel that runs in the simulator."""
        return self._simulated is not None

    def cores(self) -> list[CoreState]:
        """What each device, core or thread of the simulated kernel does around here; empty outside of one."""
        return [] if self._simulated is None else self._simulated.cores()

    def cores_text(self) -> str:
        """The table of `cores()`; a sentence where there are none."""
        return table_of(self.cores()) or "no kernel is simulated here"

    def on_core(self, number: int) -> DebugSession:
        """Shows another device, core or thread of a simulated kernel, by its row in `cores()`; the commands step that one.

        The others go on as far as they do without a debugger, so the results stay the same. Raises: ArgumentValueError if there is none.
        """
        if self._simulated is None:
            raise ArgumentValueError(
                "there are no cores here to choose from.",
                do="Step into a kernel that is simulated, or stop at a line of it.",
            )
        self._simulated.choose(number)
        return self

    def core_stack(self, number: int | None = None) -> list[StackFrame]:
        """The lines of a simulated core (default: the one that is shown), outermost first; empty outside of simulated kernels."""
        if self._simulated is None:
            return []
        frames = self._simulated.stack_of(number)
        depth = len(self._stepper.levels) - 1
        return [
            StackFrame(each.line.function, each.line.file, each.line.line, each.run, depth, i)
            for i, each in enumerate(frames)
        ]

    def core_variables(self, frame: int, number: int | None = None) -> dict[str, Any]:
        """The variables of a frame of `core_stack(number)`."""
        return {} if self._simulated is None else self._simulated.variables(frame, number)

    def core_level(self, frame: int, number: int | None = None) -> Any:
        """The program and position of a frame of `core_stack(number)`; None for no frame."""
        if self._simulated is None or frame < 0:
            return None
        return self._simulated.stack_of(number)[frame].level

    def _enter_simulation(self) -> SimulatedCores:
        """Begins the run of the kernel that the next equation simulates."""
        frame = self._stepper.top.frame
        lines = self._lines_of(self._stepper.top)
        self._simulated = SimulatedCores(frame.simulated_run(), lines[-1] if lines else None)
        return self._simulated

    def _leave_simulation(self) -> None:
        """Goes behind the equation that simulates a kernel, with the results of the run, which has come to its end."""
        assert self._simulated is not None
        frame = self._stepper.top.frame
        frame.pass_simulated(self._simulated.results)
        self._simulated = None
        self._stay(self._stepper.top)

    def _in_simulation(self, move: Callable[[SimulatedCores], bool]) -> bool:
        """Whether the session is in a simulated kernel, and still is after a move; else it is behind the kernel."""
        if self._simulated is None:
            return False
        if move(self._simulated):
            return True
        self._leave_simulation()
        return False

    def _stops_on_core(self) -> bool:
        """Whether a breakpoint stops at the line where a simulated core has come to."""
        line = None if self._simulated is None else self._simulated.line
        if line is None or self._simulated is None:
            return False
        here = [b for b in self.breakpoints if (b.file, b.line) == (line.file, line.line)]
        if not here:
            return False
        with self._simulated.shown():
            # Evaluated for all breakpoints, so that each counts its hits.
            stopping = [self._stops_at(each, is_forward=True) for each in here]
            return any(stopping)

    def _has_stops_in_kernel(self, equation: Any) -> bool:
        """Whether a breakpoint lies within the kernel that an equation simulates."""
        if not is_simulated(equation) or not self._stepper.top.frame.can_simulate:
            return False
        lines = {(each.file, each.line) for each in self._places.lines_in(simulated_body(equation))}
        return any((b.file, b.line) in lines for b in self.breakpoints)

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """Batch lanes of the value found by a search, outermost first, while the session is at that value."""
        place, lanes = self._lanes
        return lanes if place == self._stepper.place() else ()

    @lanes.setter
    def lanes(self, lanes: tuple[Lane, ...]) -> None:
        self._lanes = self._stepper.place(), lanes

    def _lanes_text(self, level: Level) -> str:
        """Text with the lanes of batches around the next equation of a level; empty if it isn't batched."""
        if level is self._stepper.top and self.lanes:
            return f"({', '.join(map(str, self.lanes))})"
        return self.choice.lanes_text(level)

    @disable_traps
    def variables(self, frame: int = -1) -> dict[str, Any]:
        """Arrays held by the user's variables in a frame of the stack (default: the innermost)."""
        core = self.stack()[frame].core
        if core >= 0 and self._simulated is not None:
            return self._simulated.variables(core)
        level, depth = self._frame_at(frame)
        named = self._values_of_names(level, depth)
        shown = {name: each.value for name, each in named.items() if each.level is None}
        for each in {id(n.level): n.level for n in named.values() if n.level is not None}.values():
            of_level = {name: n.variable for name, n in named.items() if n.level is each}
            n_batches = self._n_batches(level, depth)
            values = self.choice.values_to_show(each, [*of_level.values()], n_batches)
            shown |= zip(of_level, values, strict=True)
        return {name: shown[name] for name in named}

    def _frame_at(self, frame: int) -> tuple[Level, int]:
        """(level of a frame of the stack, index of its function within the level)."""
        stack = self.stack()
        level = stack[frame].level
        depth = sum(f.level == level for f in stack[: frame % len(stack)])
        return self._stepper.levels[level], depth

    def _values_of_names(self, level: Level, depth: int) -> dict[str, Named]:
        """What the names of a function refer to at the current place: as recorded while tracing, or else derived from
        equations.
        """
        visit = self._visit(level)
        held = None if visit is None else visit.held[depth]
        if held is None:
            place = ("", None, 0) if visit is None else visit.lines[depth]
            file, function, line = place
            latest = latest_variables(level.frame.jaxpr, level.frame.position, function, file, line)
            return {name: Named(variable, level) for name, variable in latest.items()}
        around = self._stepper.levels[self._stepper.levels.index(level) :: -1]
        named = {}
        for name, value in held.items():
            if not is_variable(value):
                named[name] = Named(None, None, value)
                continue
            for each in around:
                variable = known_variable(each.frame, value)
                if variable is not None:
                    named[name] = Named(variable, each)
                    break
        return named

    def _n_batches(self, level: Level, depth: int) -> int | None:
        """Number of batches around a function; None if no lane is selected, so that it doesn't matter."""
        if not self.choice.lane_in(level):
            return None
        visit = self._visit(level)
        noted = None if visit is None else visit.batches[depth]
        if noted is None:
            return n_batches_around(self._places, level, depth)
        return noted + n_batches_of(level)

    @disable_traps
    def operands(self, level: Level | None = None) -> list[Any]:
        """Operands of the next equation in a level (default: the innermost)."""
        level = level or self._stepper.top
        equation = level.frame.equation
        if self._simulated is not None and level is self._stepper.top:
            return []
        return [] if equation is None else self.choice.values_to_show(level, equation.operands)

    @property
    def lane(self) -> list[int | None]:
        """Selected lane of each batch, whose values are shown and used in expressions; None for all lanes."""
        return self.choice.lane_in(self._stepper.top)

    def batch_sizes(self) -> list[int]:
        """Batch sizes around the current place, outermost first; empty outside of `vmap`."""
        return sizes_at(self._stepper.top)

    def in_lane(self, *lane: int | None) -> DebugSession:
        """Selects one lane of each batch, outermost first, None for all lanes; without arguments shows all lanes.

        Values whose batch dimensions are unknown are shown whole. Raises: ArgumentValueError if there is no such lane.
        """
        self.choice.choose_lane(self._stepper.top, lane)
        return self

    @property
    def position(self) -> int | None:
        """Index of the selected position of a `shard_map`, whose values are shown and used in expressions; None for
        all.
        """
        return self.choice.position_in(self._stepper.top.frame)

    @position.setter
    def position(self, index: int | None) -> None:
        self.choice.choose_position(self._stepper.top.frame, index)

    def positions(self) -> list[MeshPosition]:
        """The positions of the `shard_map` around the current place; empty outside of one."""
        positions = self._stepper.top.frame.positions
        return [] if positions is None else positions.all()

    def at(self, **coordinates: int) -> DebugSession:
        """Selects one position of a `shard_map` by its index along each axis; without arguments shows all positions.

        Raises: ArgumentValueError if there is no such position.
        """
        matching = [p.index for p in self.positions() if dict(p.coordinates) == coordinates]
        if coordinates and not matching:
            raise ArgumentValueError(
                "there is no such position here.",
                got=", ".join(f"{axis}={i}" for axis, i in coordinates.items()),
                do=f"Name one from {self.positions()[0]} to {self.positions()[-1]}."
                if self.positions()
                else "Step into a `shard_map` before.",
            )
        self.position = matching[0] if coordinates else None
        return self

    @disable_traps
    def evaluate(self, expression: str, frame: int = -1) -> Any:
        """Evaluates a Python expression of the variables at the current place, `pl`, `jnp` and `np`.

        `frame` is an index in the stack (default: the innermost frame).
        """
        index = frame % len(self.stack())
        return eval(expression, self.names(index))  # noqa: S307 - the user asks for it

    def names(self, frame: int | None = None) -> dict[str, Any]:
        """Namespace for expressions: `pl`, `jnp`, `np`, and the variables of the stack up to `frame`, inner ones taking
        precedence.

        `frame` is an index in the stack (default: the innermost frame).
        """
        names: dict[str, Any] = {"pl": pl, "jnp": pl.numpy, "np": np, **self._names}
        for index in range(len(self.stack()) if frame is None else frame + 1):
            names |= self.variables(index)
        return names

    # Edited values ------------------------------------------------------------------------------------------

    @property
    def edits(self) -> list[str]:
        """The current edits of values, each as name and place."""
        return self._edits[: self._stepper.levels[0].frame.n_edits]

    @disable_traps
    def set(self, name: str, value: Any, frame: int = -1) -> DebugSession:
        """Assigns another value to a variable. What runs next is computed with it, and its side effects happen again.

        Values computed earlier stay the same. Going back before this place, or restarting, reverts the edit. `frame` is
        the index in the stack of the variable's line, which must belong to the innermost program. Within a `shard_map`,
        the value is that at the selected position, or at all positions.

        Raises: ArgumentValueError for an unknown name; ArgumentTypeError for a value of another type.
        """
        each = self.stack()[frame]
        if self.is_eager:
            raise ArgumentValueError(
                "the operation of this line has run, by Python: its values can't be edited here.",
                got=f"{name!r} of {each}",
                do="Go to the next line, and edit the variable there.",
            )
        if each.core >= 0:
            raise ArgumentValueError(
                "values of simulated kernels can't be edited.",
                got=f"{name!r} of {each}",
                do="Edit an operand of the kernel, at the line that calls it.",
            )
        top = self._stepper.top.frame
        if each.level + 1 < len(self.levels):
            raise ArgumentValueError(
                "values can be edited in the innermost program only.",
                got=f"{name!r} of {each}",
                do="Step out to its line, or go back before this program, and edit it there.",
            )
        level, depth = self._frame_at(frame)
        named = self._values_of_names(level, depth)
        variables = {n: v.variable for n, v in named.items() if v.level is level}
        if name not in variables:
            raise ArgumentValueError(
                "there is no variable of this name whose value could be edited here.",
                got=repr(name),
                do=f"Name one of {', '.join(variables) or 'another line: this one has none'}.",
            )
        variable = variables[name]
        part, put = self.choice.part(self._stepper.top, variable, self._n_batches(level, depth))
        array = value if hasattr(value, "dtype") else _with_dtype(value, part.dtype)
        if array.dtype != part.dtype or array.shape != part.shape:
            raise ArgumentTypeError(
                f"an edited value has the type of its variable `{name}`, {part.dtype}{[*part.shape]}.",
                got=f"{array.dtype}{[*array.shape]}",
                where=str(each),
                do=f"Write, for example, `jnp.full({part.shape}, …, {str(part.dtype)!r})`, or convert it: `.astype({str(part.dtype)!r})`.",
            )
        self._edits = [*self.edits, f"{name} in {each}"]
        self._stepper.edit(variable, top.replace_value(variable, put(array), self.position))
        return self

    # Lines --------------------------------------------------------------------------------------------------

    def next(self) -> DebugSession:
        """Runs to the next line of the same function, over calls, or to its caller's if it returns."""
        if self._in_simulation(SimulatedCores.next):
            return self
        calls = self._calls_of(self._stepper.top)
        return self._go_on(lambda visit, calls: not calls or visit.calls[-1] in calls, calls)

    def step(self) -> DebugSession:
        """Steps into what the line calls: a function, or a program (jit, loop iteration, branch)."""
        if self._in_simulation(SimulatedCores.step):
            return self
        return self._go_on(lambda visit, calls: True, (), into=True)

    def out(self) -> DebugSession:
        """Runs until the current function returns, or until the current program and its remaining iterations end."""
        if self._simulated is not None:
            return self if self._in_simulation(SimulatedCores.out) else self.next()
        calls = self._calls_of(self._stepper.top)[:-1]
        if calls:
            return self._go_on(lambda visit, calls: visit.calls[-1] in calls, calls)
        level = self._stepper.top
        self._stepper.out()
        if self._stepper.top is level:
            level.visit = None
            return self
        self._stay(self._stepper.top)
        return self.next()

    def _go_on(
        self,
        is_wanted: Callable[[Visit, Sequence[int]], bool],
        calls: Sequence[int],
        *,
        into: bool = False,
    ) -> DebugSession:
        """Goes forward to the next visit for which `is_wanted(visit, calls)`: in this program, in inner ones if `into`,
        and after its end in outer ones.

        `calls` are the function calls active where the step begins; empty if any line is wanted.
        """
        while not self.is_done:
            level, start = self._stepper.top, self._visit_index(self._stepper.top)
            visits = self._visits()
            # A program of the library, at the line that calls it, has no line of its own.
            caller = self._lines_of(self.levels[-2])[-1:] if len(self.levels) > 1 else None
            wanted = (
                i
                for i in range(start + 1, len(visits))
                if visits[i].is_stop
                and is_wanted(visits[i], calls)
                and not (visits[i].calls[-1] < 0 and visits[i].lines == caller)
            )
            index = next(wanted, len(visits))
            equations = level.frame.jaxpr.equations
            end = visits[index].position if index < len(visits) else len(equations)
            entered = range(level.frame.position, end) if into else ()
            enters = next((p for p in entered if has_stops(equations[p], level.frame.jaxpr)), None)
            if enters is not None:
                self._stepper.move(enters)
                level.visit = enters, start
                if is_simulated(equations[enters]) and level.frame.can_simulate:
                    if self._enter_simulation().step():
                        return self
                    self._leave_simulation()
                    continue
                self._stepper.forward(into=True)
                if self._stepper.top is level:
                    level.visit = level.frame.position, start
                    if obstacle := level.frame.obstacle(enters):
                        name = equations[enters].primitive.name
                        self._give_reason(f"`{name}` was stepped over: {obstacle}")
                        return self
                else:
                    self._stepper.top.visit = 0, -1
                    is_wanted, calls = (lambda visit, calls: True), ()
                continue
            self._stepper.move(end)
            level.visit = end, index
            if index < len(visits) or len(self._stepper.levels) == 1:
                return self
            self._stepper.forward()
            if self._stepper.top.call is level.call:  # the loop's next iteration
                self._stepper.top.visit, calls = (0, -1), ()
            else:
                self._stay(self._stepper.top)
                calls = () if into else self._calls_of(self._stepper.top)
                if not into:
                    is_wanted = lambda visit, calls: not calls or visit.calls[-1] in calls
        return self

    def back(self) -> DebugSession:
        """Goes back to the previous line, over what it called."""
        if self._simulated is not None:
            if not self._simulated.back():
                self._simulated = None  # it stands at the line that calls the kernel
            return self
        while not (self._stepper.is_at_start and self._is_at_first()):
            level, visits = self._stepper.top, self._visits()
            start = self._visit_index(level)
            calls = self._calls_of(level)
            lowest = min([len(visit.calls) for visit in visits], default=0)
            for index in range(start - 1, -1, -1):
                visit = visits[index]
                if visit.is_stop and (
                    visit.calls[-1] in calls
                    or (start == len(visits) and len(visit.calls) == lowest)
                ):
                    self._stepper.move(visit.position)
                    level.visit = visit.position, index
                    return self
            if len(self._stepper.levels) == 1:
                return self.restart()
            self._stepper.move(0)
            self._stepper.back()
            if self._stepper.top.call is not level.call and not self._to_program_before():
                while len(self.levels) > 1 and not self._visits():  # skip programs of the library
                    self._stepper.back_out()
                self._stay(self._stepper.top)
                return self
            top = self._stepper.top
            top.visit = top.frame.position, len(self._visits())
        return self

    def _to_program_before(self) -> bool:
        """Goes from the start of a kernel's body to the end of the previous grid program's body. Returns False if there
        is none.
        """
        top = self._stepper.top
        if kernel_of(top.frame.jaxpr) is None or top.call is None or not top.call.is_loop:
            return False
        if top.turn[1] == 0:
            return False
        body = top.frame.position
        self._stepper.move(0)
        self._stepper.back()
        self._stepper.move(body + 1)
        self._stepper.back(into=True)
        return True

    def run(self, *, first: bool = False) -> DebugSession:
        """Runs to the next breakpoint or `debug.breakpoint`, or to the end; equations in between run compiled.

        With `first`, stops at once if the current place has a breakpoint.
        """
        if first and self._stops_here(self._stops()):
            return self
        if self._simulated is None and self._has_stops_in_kernel(self.equation) and not first:
            self._enter_simulation()
        if self._simulated is not None:
            if self._in_simulation(lambda cores: cores.run(self._stops_on_core)):
                return self
            if self._stops_here(self._stops()):
                return self
        return self._run(is_forward=True)

    def run_back(self) -> DebugSession:
        """Goes back to the previous breakpoint, or to the start."""
        if self._simulated is not None:
            if self._simulated.run_back(self._stops_on_core):
                return self
            self._simulated = None
            if self._has_breakpoint_here():
                return self
        return self._run(is_forward=False)

    def watch(self, condition: Callable[[Any], Any], name: str) -> bool:
        """Makes `run` stop before the first equation with a result that meets `condition`. Returns whether there is
        one.

        `name` describes the condition in messages. Raises: EffectsError for a program with callbacks that return
        values.
        """
        match = self.search(condition)
        if match is not None:
            place = [
                n for t, f in zip(match.turns, match.frames, strict=True) for n in (*t, f.position)
            ]
            self._watched = match.equation, tuple(place[2:]), name, condition
            if self._stepper.is_at_start and not self.program.effects:
                # Reuses the values that the search has computed.
                [frame, *_] = match.frames
                frame.move(0)
                self._stepper.levels = [Level(frame)]
        return match is not None

    @property
    def watched(self) -> Callable[[Any], Any] | None:
        """The condition of a value that is watched for, and that the call has; None for others."""
        return None if self._watched is None else self._watched[3]

    def may_stop(self) -> bool:
        """Whether `run` may stop without a breakpoint: at the value that is watched for, or at a `debug.breakpoint`."""
        return self._watched is not None or bool(breakpoints_of(self.program))

    def forget_watch(self) -> DebugSession:
        """Removes the watchpoint."""
        self._watched = None
        return self

    def run_to(self, line: int, file: str | None = None) -> DebugSession:
        """Runs to a line, or to the end if it isn't reached."""
        place = self._resolve(line, file)
        if self._simulated is not None or any(
            (each.file, each.line) == place
            for equation in self._places.simulated
            for each in self._places.lines_in(simulated_body(equation))
        ):
            others, self.breakpoints = self.breakpoints, [Breakpoint(*place)]
            try:
                return self.run()
            finally:
                self.breakpoints = others
        depths = self._places.first_of(*place)
        self._leave_lines()
        if self._stepper.run_to(depths.__contains__):
            self._stand_on(depths[self.equation])
        return self

    def to_line_of(self, equation: Any) -> DebugSession:
        """Go on, where it doesn't stand there, to the user's line of an equation of the program, or of a copy of it."""
        line, here = user_stack(equation)[-1], self.stack()[-1]
        if (here.file, here.line) != (line.file, line.line):
            self.run_to(line.line, line.file)
        return self

    def go_within(self, steps: Sequence[Step], index: int, equation: Any) -> DebugSession:
        """Goes to an equation of the program's evaluation, see `match_at`; to its line if a program on the way can't be entered."""
        match = match_at(frame_of(self._program, *self._operands), steps, index)
        return self.to_line_of(equation) if match is None else self.go_to(match)

    def go_to_place(self, place: Sequence[int]) -> DebugSession:
        """Goes to the `place()` of a session of the same call."""
        return self.go_to(match_again(frame_of(self._program, *self._operands), place))

    def jump(self, run: int | tuple[int, ...]) -> DebugSession:
        """Goes to the start of iteration `run`, counted from 0, of the innermost loop or of the next loop in this
        program.

        A tuple such as `(1, 0)` is a grid position of a program of the innermost kernel, or of the next one. Raises:
        ArgumentValueError if there is no loop, or no such iteration.
        """
        kernel = self._kernel_ahead()
        if kernel is not None and not kernel.grid:
            raise ArgumentValueError(
                "this kernel has no grid: it runs once, and there is no program of it to jump to.",
                got=f"jump to {run}",
                do="Step into it.",
            )
        if self._simulated is not None:
            position = run if isinstance(run, tuple) else (run,)
            if not self._simulated.to_program(position):
                raise ArgumentValueError("the grid has no such program.", got=str(position))
            return self
        if isinstance(run, tuple):
            return self._jump_to_program(run)
        if not any(level.call and level.call.is_loop for level in self.levels):
            self._leave_lines()
            frame = self._stepper.top.frame
            equations = frame.jaxpr.equations
            for position in range(frame.position, len(equations)):
                if is_loop(equations[position]):
                    self._stepper.move(position)
                    break
        self._stepper.jump(run)
        if visits := self._visits():
            self._stepper.move(visits[0].position)
            self._stepper.top.visit = visits[0].position, 0
        return self

    def _kernel_ahead(self) -> Any:
        """The kernel around the current place, or the next one in this program; None if there is none, or a loop comes first."""
        around = [found for level in self.levels if (found := self._kernel_program(level))]
        frame = self._stepper.top.frame
        if around:
            in_loop = any(
                level.call is not None and level.call.is_loop for level in self.levels
            ) or any(map(is_loop, frame.jaxpr.equations))
            return None if in_loop else around[-1][0]
        if any(level.call is not None and level.call.is_loop for level in self.levels):
            return None
        ahead = frame.jaxpr.equations[frame.position :]
        first = next((e for e in ahead if is_kernel(e) or is_loop(e)), None)
        return first.params.kernel if first is not None and is_kernel(first) else None

    def _jump_to_program(self, position: tuple[int, ...]) -> DebugSession:
        """Goes to the first line of the body of a kernel's grid program."""
        depths = [
            i for i, level in enumerate(self.levels) if self._kernel_program(level) is not None
        ]
        if depths:
            found = self._kernel_program(self.levels[depths[-1]])
            assert found is not None
            # Before anything moves: a jump that is refused leaves the session where it is.
            _check_position(found[0], position)
            del self.levels[depths[-1] :]
        else:
            self._leave_lines()
            frame = self._stepper.top.frame
            calls = [i for i, e in enumerate(frame.jaxpr.equations) if is_kernel(e)]
            ahead = [i for i in calls if i >= frame.position]
            if not ahead:
                raise ArgumentValueError(
                    "there is no kernel here whose programs one could jump to.",
                    do="Go to the line that calls one, or before it, in its program.",
                )
            _check_position(frame.jaxpr.equations[ahead[0]].params.kernel, position)
            self._stepper.move(ahead[0])
            self._stepper.forward(into=True)
        kernel = kernel_of(self._stepper.top.frame.jaxpr)
        if kernel is None:  # a derivative, or a batch of kernels
            raise ArgumentValueError("the program of this kernel has no grid to jump in.")
        loop = self._stepper.top.call
        if loop is not None and loop.is_loop:
            self._stepper.levels.pop()
        if number_of(kernel, position) or any(
            is_loop(e) for e in self._stepper.top.frame.jaxpr.equations
        ):
            equations = self._stepper.top.frame.jaxpr.equations
            self._stepper.move(next(i for i, e in enumerate(equations) if is_loop(e)))
            self._stepper.jump(number_of(kernel, position))
        return self._go_on(lambda visit, calls: True, (), into=True)

    def blocks(self, frame: int = -1) -> dict[str, str]:
        """Text with the position in the whole array of each block that a kernel's references hold, by argument name;
        empty outside of kernels.

        `frame` is an index in the stack (default: the innermost frame).
        """
        found = self._kernel_program(self._frame_at(frame)[0])
        if found is None:
            return {}
        places = block_places(*found)
        return {
            name: "where data choose" if place is None else place.text for name, place in places
        }

    def grid(self, frame: int = -1) -> Any:
        """The figure of a kernel's grid, at the program in which a frame of the stack is; None outside of kernels."""
        record = self.grid_record(frame)
        if record is None:
            return None
        return importlib.import_module("pellucid_viz.figure").Figure(record)

    def grid_record(self, frame: int = -1) -> KernelGridsRecord | None:
        """The record that `grid` draws."""
        found = self._kernel_program(self._frame_at(frame)[0])
        if found is None:
            return None
        kernel, number = found
        # Cached for each call of a kernel, not for its program: the blocks depend on sizes of the grid and prefetched scalars.
        operands = self._grid_operands(kernel)
        values = [None if xs is None else [x.tobytes() for x in xs] for xs in operands]
        if self._grid is None or self._grid[0] is not kernel or self._grid[1] != values:
            self._grid = kernel, values, analysis.kernel_grid(kernel, *operands)
        return dataclasses.replace(self._grid[2], program=number)

    def grid_position(self, frame: int = -1) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """(position, sizes of the grid) of the kernel's program that a frame is in; None outside of kernels, and where the sizes are operands."""
        found = self._kernel_program(self._frame_at(frame)[0])
        position = None if found is None else position_of(*found)
        return None if found is None or position is None else (position, found[0].grid)

    def _grid_operands(self, kernel: Any) -> tuple[list[Any] | None, list[Any] | None]:
        """(sizes of the grid that are operands, prefetched scalars) of the innermost call of a kernel; None where they aren't kept."""
        n_bounds, n_scalars = kernel.grid.count(None), len(kernel.scalars)
        for level in reversed(self.levels):
            is_call = level.call is None or not level.call.is_loop
            if is_call and kernel_of(level.frame.jaxpr) is kernel:
                inputs = level.frame.jaxpr.invars
                first = len(inputs) - len(kernel.inputs) - n_scalars - n_bounds
                chosen = inputs[first : first + n_bounds + n_scalars]
                if all(v in level.frame.values for v in chosen):
                    values = [np.asarray(level.frame.values[v]) for v in chosen]
                    return values[:n_bounds], values[n_bounds:]
        return None, None

    def _kernel_program(self, level: Level) -> tuple[Any, int] | None:
        """(the kernel, number of its grid program) if a level is a kernel's body, else None."""
        depth = self.levels.index(level)
        around = self.levels[depth - 1] if depth else None
        kernel = None if around is None else kernel_of(around.frame.jaxpr)
        call = None if level.call is None else level.call.equation
        if around is None or kernel is None or call is None or call.primitive.name != "jit":
            return None
        is_loop_run = around.call is not None and around.call.is_loop
        return kernel, around.turn[1] if is_loop_run else 0

    def to_first_line(self) -> DebugSession:
        """Goes to the program's first user line, if it doesn't start at one."""
        if not self._lines():
            self._go_on(lambda visit, calls: True, (), into=True)
        return self

    def move(self, position: int) -> DebugSession:
        """Goes to an equation of the innermost program, by its position.

        Raises: ArgumentValueError if there is none.
        """
        self._simulated = None
        frame = self._stepper.top.frame
        count = len(frame.jaxpr.equations)
        if not 0 <= position < count:
            raise ArgumentValueError(
                "there is no such equation in this program.", got=f"{position}, of {count}"
            )
        self._leave_lines()
        self._stepper.move(position)
        return self

    def compile_ahead(self) -> None:
        """Starts to compile, in a thread, what the next step will run. Displayed sessions do so by themselves."""
        if self._simulated is None and self.equation is not None:
            self._stepper.compile_ahead(self._end_of_line())

    def again(self) -> DebugSession:
        """A new session of the same call, at its start."""
        session = DebugSession.of_program(self._program, self._operands, self._names)
        session._tree, session._file, session.name = self._tree, self._file, self.name
        return session

    def restart(self) -> DebugSession:
        """Goes back to the start."""
        self._simulated = None
        self._stepper.restart()
        self._stand_at_start()
        return self

    def break_at(self, line: int, file: str | None = None, condition: str = "") -> Breakpoint:
        """Sets a breakpoint at a line (default: in the function's file), with an optional Python expression as
        condition.

        If no equation comes from the line, the breakpoint moves to the next line of the same function that has one; see
        the returned breakpoint. Raises: ArgumentValueError if there is none.
        """
        breakpoint = Breakpoint(*self._resolve(line, file), condition)
        self.breakpoints.append(breakpoint)
        return breakpoint

    # The end ------------------------------------------------------------------------------------------------

    def finish(self) -> Any:
        """Runs to the end, ignoring breakpoints, and returns the results of the call."""
        if self._simulated is not None:
            self._simulated.to_end()
            self._leave_simulation()
        while not self._stepper.is_done:
            self._stepper.out()
        self._stepper.top.visit = None
        return pl.tree_util.tree_unflatten(self._tree, self._stepper.top.frame.results())

    def differences(self, compiled: Sequence[Any] | None = None) -> list[Difference]:
        """Differences of the results from those of the call compiled as a whole, which rounds differently; only after
        the end.

        If values were edited (see `edits`), they are compared with the unedited call.

        `compiled`: results of the compiled call, if it has already run. Raises: ArgumentValueError before the end.
        """
        if not self.is_done:
            raise ArgumentValueError(
                "results are compared after the end of the call.", do="Call `finish()` before."
            )
        if compiled is None:
            compiled = compiled_results(self._program, *self._operands)
        return differences(self._stepper.top.frame.results(), compiled)

    def first_difference(self, max_equations: int | None = None) -> FirstDifference | None:
        """The first operation that rounds differently alone than within the compiled call, see `differences`. Runs
        both.

        None for a program with callbacks that return values, or with more than `max_equations` equations.
        """
        begin = lambda: (self.name, self.again())
        return first_difference_of(self._program, self._operands, max_equations, begin)

    def to_failure(self) -> DebugSession:
        """Runs to the host callback that raises, or to the end if none does; repeats the callbacks before it."""
        try:
            self._leave_lines()
            while not self._stepper.is_done:
                self._stepper.run_to(calls_host)
        except ExecutionError as error:
            self._give_reason(f"the next operation fails: {str(error).splitlines()[0]}")
        return self

    def __str__(self) -> str:
        if self.is_done:
            edited = f", with edited values: {'; '.join(self.edits)}" if self.edits else ""
            return f"at the end of the call{edited}"
        self.compile_ahead()
        reason = [self.reason] if self.reason else []
        cores = [self.cores_text()] if len(self.cores()) > 1 else []
        return "\n".join([*reason, *map(str, self.stack()), *self._source(), *cores])

    def __repr__(self) -> str:
        return f"DebugSession({self})"

    # ----------------------------------------------------------------------------------------------------------

    def go_to(self, match: Match) -> DebugSession:
        """Goes to the equation of a match found in this session's program."""
        turns = zip(match.frames[1:], match.calls[1:], match.turns[1:], strict=True)
        self._stepper.levels = [Level(match.frames[0]), *(Level(*each) for each in turns)]
        return self

    def search(self, condition: Callable[[Any], Any]) -> Match | None:
        """The first place of the whole call with a result that meets `condition`."""
        return first_match(frame_of(self._program, *self._operands), condition)

    @disable_traps
    def results_meeting(self, condition: Callable[[Any], Any]) -> tuple[list[Any], int, Any]:
        """(results of the next equation, number of the first with elements that meet `condition`, their indices).

        The indices have a row for each element; they are those at the first `shard_map` position with any, which becomes
        selected. If no result has any, there are none, and the number is 0. The session's `lanes` are set to those of the
        first element.
        """
        frame, equation, values = self._stepper.top.frame, self.equation, []
        results = [*equation.results]
        # A search knows them; to move on, all that is used later would be computed.
        is_known = all(v in frame.values for v in results)
        frame.move(frame.position + (not is_known))
        number, elements = 0, np.zeros((0, 0), np.int64)
        for position in self.positions() or [None]:
            self.position = position and position.index
            values = frame.user_values(results, self.position)
            holding = [
                (i, h) for i, x in enumerate(values) if np.any(h := np.asarray(condition(x)))
            ]
            if holding:
                number, elements = holding[0][0], np.argwhere(holding[0][1])
                break
        frame.move(frame.position - (not is_known))
        if len(elements):
            self.lanes = lanes_at(frame.jaxpr, equation, results[number], elements[0])
        return values, number, elements

    def search_failure(self, errors: Any) -> Match | None:
        """The first place of the whole call at which a check of the categories `errors` fails."""
        return first_failure(frame_of(self._program, *self._operands), errors)

    # Visits -------------------------------------------------------------------------------------------------

    def _visits(self) -> list[Visit]:
        return visits_of(self._stepper.top.frame.jaxpr)

    def _visit_index(self, level: Level) -> int:
        """Index of a level's current visit; -1 before the first, and the number of visits after the last."""
        frame, visits = level.frame, visits_of(level.frame.jaxpr)
        if level.visit is None or level.visit[0] != frame.position:
            last = bisect.bisect_right(visits, frame.position, key=lambda visit: visit.position) - 1
            level.visit = frame.position, len(visits) if frame.equation is None else last
        return level.visit[1]

    def _visit(self, level: Level) -> Visit | None:
        visits, index = visits_of(level.frame.jaxpr), self._visit_index(level)
        return visits[index] if 0 <= index < len(visits) else None

    def _leave_lines(self) -> None:
        """Resets the current lines to those of the next equations."""
        for level in self._stepper.levels:
            level.visit = None

    def _stay(self, level: Level) -> None:
        """Keeps a level on the same line after it moved behind what the line called, or back before it."""
        if level.visit is not None:
            level.visit = level.frame.position, level.visit[1]

    def _calls_of(self, level: Level) -> tuple[int, ...]:
        """Active function calls of a level; empty before its first line and at its end."""
        visit = self._visit(level)
        return () if visit is None else visit.calls

    def _stand_at_first(self) -> None:
        """At the start of the innermost program, makes its first line current if the program begins with one."""
        visits = self._visits()
        if self._stepper.top.frame.position == 0 and visits and visits[0].position == 0:
            self._stepper.top.visit = 0, 0

    def _stand_at_start(self) -> None:
        self._stepper.top.visit = None
        self._stand_at_first()

    def _is_at_first(self) -> bool:
        return self._visit_index(self._stepper.top) <= 0

    def _stand_on(self, depth: int) -> None:
        """Makes the line at `depth` in the next equation's stack current, if the equation is the first of that line."""
        level, visits = self._stepper.top, self._visits()
        level.visit = None
        lines = self._places.stack(self.equation)[:depth]
        for index in range(self._visit_index(level), -1, -1):
            if visits[index].position != level.frame.position:
                return
            if visits[index].is_stop and visits[index].lines[-1:] == lines[-1:]:
                level.visit = level.frame.position, index
                return

    def _lines_of(self, level: Level) -> Stack:
        visit = self._visit(level)
        return () if visit is None else visit.lines

    def _lines(self) -> Stack:
        return self._lines_of(self._stepper.top)

    def _end_of_line(self) -> int:
        """Position at which a step over the current line ends."""
        level, visits = self._stepper.top, self._visits()
        calls = self._calls_of(level)
        for index in range(self._visit_index(level) + 1, len(visits)):
            visit = visits[index]
            if visit.is_stop and (not calls or visit.calls[-1] in calls):
                return visit.position
        return len(level.frame.jaxpr.equations)

    def _stops(self) -> _Stops:
        """By equation to stop before: the depth of the breakpoint's line in its stack of lines, and the breakpoints there."""
        stops: _Stops = {}
        for breakpoint in self.breakpoints:
            places = self._places.first_of(breakpoint.file, breakpoint.line)
            for equation, depth in places.items():
                stops.setdefault(equation, (depth, []))[1].append(breakpoint)
        if self._watched is not None:
            equation = self._watched[0]
            stops.setdefault(equation, (len(self._places.stack(equation)), []))
        for equation in breakpoints_of(self.program):
            stops.setdefault(equation, (max(len(self._places.stack(equation)), 1), []))
        for equation in self._places.simulated:
            if self._has_stops_in_kernel(equation):
                stops.setdefault(equation, (len(self._places.stack(equation)), []))
        return stops

    def _run(self, *, is_forward: bool) -> DebugSession:
        stops = self._stops()
        self._leave_lines()
        self._simulated = None
        next_run = self._next_run(stops)
        run = self._stepper.run_to if is_forward else self._stepper.run_back_to
        while run(stops.__contains__, next_run):
            while True:
                equation = self.equation
                if self._stops_here(stops, is_forward=is_forward):
                    return self
                if self.equation is equation or self.equation not in stops:
                    break  # else it has gone over a simulated kernel, to a place where it may stop
        self._stepper.top.visit = None
        if not is_forward:
            self._stand_at_first()
        return self

    def _stops_here(self, stops: _Stops, *, is_forward: bool = True) -> bool:
        """Whether to stop before the next equation, one of `stops`."""
        if self.equation not in stops:
            return False
        if not is_forward and self._has_stops_in_kernel(self.equation):
            cores = self._enter_simulation()
            cores.to_end()
            if cores.run_back(self._stops_on_core):
                return True
            self._simulated = None
        depth, breakpoints = stops[self.equation]
        self._stand_on(depth)
        # Evaluated for all breakpoints, so that each counts its hits.
        stopping = [self._stops_at(each, is_forward) for each in breakpoints]
        if any(stopping) or self.equation in breakpoints_of(self.program):
            return True
        if self._watched and self._watched[:2] == (self.equation, self._stepper.place()):
            self._stand_on(len(self._places.stack(self.equation)))
            _, _, what, condition = self._watched
            self._give_value_reason("the next operation", condition, what)
            return True
        if is_forward and self._has_stops_in_kernel(self.equation):
            self._enter_simulation()
            return self._in_simulation(lambda cores: cores.run(self._stops_on_core))
        return False

    def _has_breakpoint_here(self) -> bool:
        """Whether the line at which the innermost program stands has a breakpoint."""
        frames = self.stack()
        return any((b.file, b.line) == (frames[-1].file, frames[-1].line) for b in self.breakpoints)

    def _next_run(self, stops: _Stops) -> NextRun:
        """A function that skips loop iterations in which no breakpoint's condition holds, as found by compiled
        searches.
        """
        searches: dict[Any, tuple[bool, LoopSearch | None]] = {}
        calls = breakpoints_of(self.program)

        def search_in(call: Any, depth: int) -> tuple[bool, LoopSearch | None]:
            """(whether iterations of a loop can be skipped, its search, or None if the loop has no breakpoint)."""
            within = [
                equation
                for slot in call.slots.programs
                for program in programs_within(slot.program.jaxpr)
                for equation in program.equations
                if equation in stops
            ]
            conditions = {e: [each.condition for each in stops[e][1]] for e in within}
            conditions = {e: texts for e, texts in conditions.items() if texts or e in calls}
            if call.equation.effects or not all(t and all(t) for t in conditions.values()):
                return False, None
            if not conditions:
                return True, None
            if self.lane:
                return False, None  # the condition refers to values in the selected lane
            lines = lambda e: self._places.stack(e)[: stops[e][0]]
            search = search_of(call, conditions, lines, lambda name: self._outer(name, depth))
            return search is not None, search

        def next_run(depth: int, number: int, is_forward: bool) -> int | None:
            call: Any = self.levels[depth].call
            same = number - (not is_forward)
            if call.n_edits:
                return same
            try:
                if call not in searches:
                    searches[call] = search_in(call, depth)
                can_pass, search = searches[call]
                if not can_pass:
                    return same
                chosen = search and call.meeting(search, number, is_forward=is_forward)
            except Exception:  # raised by the user's expression during tracing
                searches[call] = False, None
                return same
            watched = self._watched_run(depth)
            if watched is None:
                return chosen
            if call.is_predicate(watched):
                return same
            turn = watched[1]
            if turn < number if is_forward else turn >= number:
                return chosen
            return turn if chosen is None else (min if is_forward else max)(turn, chosen)

        return next_run

    def _watched_run(self, depth: int) -> Any:
        """Run of the loop at `depth` of the stack in which the watched value is computed; None if it isn't computed
        there.
        """
        place, start = self._stepper.place(), 3 * depth - 2
        if self._watched is None or len(self._watched[1]) <= start + 2:
            return None
        watched = self._watched[1]
        return watched[start : start + 2] if watched[:start] == place[:start] else None

    def _outer(self, name: str, depth: int) -> Outer | None:
        """Value of a name defined outside the loop at `depth` of the stack; None if it isn't defined there."""
        positions = self.levels[depth].frame.positions
        for level in self.levels[depth - 1 :: -1]:
            frame = level.frame
            for function in range(len(self._lines_of(level)) or 1)[::-1]:
                named = self._values_of_names(level, function).get(name)
                if named is None:
                    continue
                if named.level is None:
                    return Outer(named.value, array_of(named.value))
                frame, variable = named.level.frame, named.variable
                [value] = frame.read([variable])
                if frame.positions is positions:
                    return Outer(value, variable.aval)
                if frame.positions is None and positions is not None:
                    return Outer(positions.spread(value), pl.typeof(value))
                return None
        names = {"pl": pl, "jnp": pl.numpy, "np": np, **self._names}
        if name not in names:
            return None
        aval = array_of(names[name])
        if aval is None or positions is None:
            return Outer(names[name], aval)
        return Outer(positions.spread(names[name]), aval)

    def _stops_at(self, breakpoint: Breakpoint, is_forward: bool) -> bool:
        try:
            if breakpoint.condition and not self._holds(breakpoint.condition):
                return False
            if is_forward:
                count = self.hits[breakpoint] = self.hits.get(breakpoint, 0) + 1
                if breakpoint.hit_condition and not counts(breakpoint.hit_condition, count):
                    return False
                if breakpoint.message:
                    self.log(self._fill_message(breakpoint.message))
        except Exception as error:  # raised by the user's expression
            what = "message" if breakpoint.message else "condition"
            self._give_reason(
                f"the {what} of line {breakpoint.line} raised {type(error).__name__}: {error}"
            )
            return True
        return not breakpoint.message

    def _holds(self, condition: str) -> bool:
        """Whether an expression is true here at the selected position, or else at any position, which becomes selected."""
        if self.position is not None or not self.positions():
            return bool(self.evaluate(condition))
        for position in self.positions():
            self.position = position.index
            if self.evaluate(condition):
                return True
        self.position = None
        return False

    def _run_text(self, level: Level) -> str:
        """Text with the loop iteration, grid program or `shard_map` position of a level; empty if there is none."""
        call = level.call
        if call is not None and call.is_loop:
            total = f" of {call.slots.runs}" if call.slots.runs is not None else ""
            part = "condition, iteration" if call.is_predicate(level.turn) else "iteration"
            return f"({part} {level.turn[1]}{total})"
        program = self._kernel_program(level)
        if program is not None:
            kernel, number = program
            position = position_of(kernel, number)
            grid = f" of grid {kernel.grid}" if position is not None else ""
            return f"(program {number if position is None else position}{grid})"
        frame = level.frame
        if call is None or frame.positions is None or not call.is_shard_map:
            return ""
        position = self.choice.position_in(frame)
        if position is None:
            return f"(over {len(frame.positions)} positions)"
        return f"({frame.positions.all()[position]})"

    def _log_passed_breakpoints(self, equation: Any, obstacle: str) -> None:
        self.log(f"breakpoints within `{equation.primitive.name}` were passed: {obstacle}")

    def _give_value_reason(
        self, operation: str, condition: Callable[[Any], Any], what: str
    ) -> None:
        """Say that the next operation gives a value for which one stops, in which lane, and which of its elements are such.

        What has effects, or programs within, doesn't run to find that out.
        """
        text, elements = f"{operation} gives a value with {what}", ""
        frame, equation = self._stepper.top.frame, self.equation
        if frame.is_known(equation) or not (equation.effects or can_enter(equation)):
            values, number, indices = self.results_meeting(condition)
            shape = np.shape(values[number]) if values else ()
            # A condition may have one answer for all elements.
            if len(indices) and 0 < len(shape) == indices.shape[1]:
                first = tuple(indices[0].tolist())
                elements = (
                    f": {len(indices)} of {math.prod(shape)} elements, first at index {first}"
                )
        self._give_reason(", ".join([text, *map(str, self.lanes)]) + elements)

    def _give_reason(self, text: str) -> None:
        self._reason = self._stepper.place(), text

    def _fill_message(self, message: str) -> str:
        """Replaces the expressions in braces in a message by their values."""
        return re.sub(r"\{([^{}]+)\}", lambda match: str(self.evaluate(match[1])), message)

    def _resolve(self, line: int, file: str | None) -> tuple[str, int]:
        """(file of the call, line at which a breakpoint at `line` stops)."""
        files = self._places.files()
        name = file or (self._file if self._file in files else self.stack()[-1].file)
        matching = [f for f in files if f == name or os.path.basename(f) == name]
        resolved = self._places.resolve(matching[0], line) if matching else None
        if resolved is None:
            raise ArgumentValueError(
                f"nothing is computed from line {line} of {os.path.basename(name) or 'the program'} on, in its function.",
                got=[
                    f"{os.path.basename(f)}: lines {_ranges(self._places.lines(f))}"
                    for f in sorted(files)
                ],
                do="Name a line, and perhaps a file, of those.",
            )
        return matching[0], resolved

    def _source(self) -> list[str]:
        """The source lines around the current line, which is marked."""
        shown = [frame for frame in self.stack() if frame.file]
        if not shown:
            return []
        file, line = shown[-1].file, shown[-1].line
        return listing(file, line, 2)


def _check_position(kernel: Any, position: tuple[int, ...]) -> None:
    """Raise ArgumentValueError if the grid of a kernel has no program at `position`."""
    sizes = kernel.grid
    if len(position) != len(sizes) or not all(
        i >= 0 and (n is None or i < n) for i, n in zip(position, sizes, strict=True)
    ):
        raise ArgumentValueError("the grid has no such program.", got=f"{position}, grid {sizes}")


def _runs_again(equation: Any) -> bool:
    """Whether an equation runs programs of a function that has run before: backward, or for what `checkpoint` didn't save."""
    is_recomputed = getattr(equation.params, "differentiated", False)  # a param of `checkpoint`
    return is_recomputed or transformation_of(equation) == "transpose"


def _with_dtype(value: Any, dtype: Any) -> Any:
    """Numbers as an array of `dtype` if that can represent their kind, else of their own dtype."""
    array = pl.numpy.asarray(value)
    return array.astype(dtype) if pl.numpy.result_type(dtype, value) == dtype else array


def _ranges(numbers: list[int]) -> str:
    """Text of ascending numbers, with consecutive ones as ranges."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return ", ".join(f"{r[0]}-{r[-1]}" if len(r) > 1 else str(r[0]) for r in runs)
