"""A stop in terms of the Debug Adapter Protocol: stack of program and Python frames, scopes, and the program."""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Sequence
from types import FrameType
from typing import Any, NamedTuple

from pellucid import analysis, introspect
from pellucid.introspect.lineage import transformation_of
from pellucid.introspect.program import JaxprReading, name_of, read_jaxpr
from pellucid.introspect.values import bytes_text
from pellucid_kernel.debug.debug_session import DebugSession, Level, StackFrame
from pellucid_kernel.debug.stops import Stop
from pellucid_kernel.debug.values import Parts, References, summary

_numbers = itertools.count(1)
_KERNEL = uuid.uuid4().hex
"""Part of the keys of programs. A page keeps a program's view, also when it changes from one kernel to another."""


class ProgramFrame(NamedTuple):
    """A line of a program in the stack."""

    index: int
    """Index in the session's stack."""
    frame: StackFrame
    core: int | None = None
    """The row of the simulated core whose line it is; None for that one which is shown."""


class View:
    """A stop as shown by front ends until it moves. Frames get new numbers each time the stack is requested."""

    def __init__(self, stop: Stop) -> None:
        self.stop = stop
        self.references = References(reads=True)
        self._frames: dict[int, ProgramFrame | FrameType] = {}
        self._scopes: dict[int, int] = {}
        """Maps the number of a frame's scope of variables to the frame's number."""

    # The stack ----------------------------------------------------------------------------------------------

    def threads(self, first: int) -> list[dict[str, Any]]:
        """The program, and each device, core or thread of a kernel that is simulated, as threads of the protocol, numbered from `first` on."""
        rows = self.stop.session.cores()
        names = [" ".join(filter(None, [row.name, row.program])) for row in rows]
        texts = [f"{name}: {row.state}" for name, row in zip(names, rows, strict=True)]
        return [{"id": first + i, "name": text} for i, text in enumerate([self.stop.name, *texts])]

    def stack(self, core: int | None = None) -> list[dict[str, Any]]:
        """Frames of the protocol, innermost first: those of programs, then those of Python that called them.

        `core` is the row of a simulated core (default: the one that is shown).
        """
        session = self.stop.session
        rows: list[dict[str, Any]] = []
        file, line = "", 0
        frames = session.stack()
        if core is not None:
            frames = [*[each for each in frames if each.core < 0], *session.core_stack(core)]
        for index, each in enumerate(frames):
            if not (each.file or file) and index < len(frames) - 1:
                continue  # library operation that contains a user program
            file, line = (each.file, each.line) if each.file else (file, line)
            name = " ".join(
                filter(None, [each.function or self.stop.name, each.run, self._direction(each)])
            )
            rows.append(self._row(ProgramFrame(index, each, core), name, file, line))
        callers = [
            self._row(f, f.f_code.co_qualname, f.f_code.co_filename, f.f_lineno)
            for f in self.stop.callers
        ]
        return [*rows[::-1], *callers]

    def _row(
        self, frame: ProgramFrame | FrameType, name: str, file: str, line: int
    ) -> dict[str, Any]:
        number = next(_numbers)
        self._frames[number] = frame
        source = {"name": os.path.basename(file), "path": file}
        return {"id": number, "name": name, "line": line, "column": 1, "source": source}

    def _direction(self, each: StackFrame) -> str:
        level = self.stop.session.levels[each.level]
        equation = level.frame.equation
        is_backward = equation is not None and transformation_of(equation) == "transpose"
        return "(backward)" if is_backward and each.file else ""

    # Variables ----------------------------------------------------------------------------------------------

    def scopes(self, number: int) -> list[dict[str, Any]]:
        """The scopes of a frame."""
        frame = self._frames.get(number)
        if frame is None:
            return []
        if not isinstance(frame, ProgramFrame):
            return [
                self._scope("Locals", lambda: _public(frame.f_locals)),
                self._scope("Globals", lambda: _public(frame.f_globals), expensive=True),
            ]
        session = self.stop.session
        if frame.frame.core >= 0:
            own = lambda: session.core_variables(frame.frame.core, frame.core).items()
            return [self._scope("Values", own), self._scope("Cores", lambda: _cores(session))]
        level = session.levels[frame.frame.level]
        values = self._scope("Values", lambda: self.stop.session.variables(frame.index).items())
        self._scopes[values["variablesReference"]] = number
        blocks = self.stop.session.blocks(frame.index)
        return [
            values,
            *([self._scope("Blocks", blocks.items)] if blocks else []),
            self._scope("Operands", lambda: _operands(self.stop.session, level)),
            self._scope("Program", lambda: self._facts(level)),
        ]

    def _scope(self, name: str, parts: Any, *, expensive: bool = False) -> dict[str, Any]:
        return {
            "name": name,
            "variablesReference": self.references.number(parts),
            "expensive": expensive,
        }

    def _facts(self, level: Level) -> Parts:
        frame = level.frame
        if reason := self.stop.session.reason:
            yield "stopped", reason
        yield "position", f"{frame.position} of {len(frame.jaxpr.equations)}"
        if (iteration := iteration_of(level)) is not None:
            yield (
                "iteration",
                f"{iteration['run']} of {iteration['runs']}"
                if iteration["runs"]
                else str(iteration["run"]),
            )
        yield "operation", frame.equation.primitive.name if frame.equation is not None else "end"
        yield "kept", bytes_text(self.stop.session.bytes)

    def names(self, number: int | None) -> dict[str, Any]:
        """Namespace for expressions in a frame; that of the innermost frame if the number is out of date."""
        frame = self._frames.get(number or 0)
        if isinstance(frame, ProgramFrame) and frame.core is not None:
            outer = [each for each in self.stop.session.stack() if each.core < 0]
            names = self.stop.session.names(len(outer) - 1)
            for i in range(frame.frame.core + 1):
                names |= self.stop.session.core_variables(i, frame.core)
            return names
        if frame is None or isinstance(frame, ProgramFrame):
            return self.stop.session.names(None if frame is None else frame.index)
        return {**frame.f_globals, **frame.f_locals}

    def can_set(self, scope: int | None, number: int | None) -> bool:
        """Whether a scope, or else a frame, belongs to a program."""
        return scope in self._scopes or isinstance(self._frames.get(number or 0), ProgramFrame)

    def set(self, name: str, text: str, scope: int | None, number: int | None) -> Any:
        """Assigns the value of an expression to a variable of a scope or frame, and returns it."""
        number = number if scope is None else self._scopes[scope]
        frame = self._frames[number or 0]
        assert isinstance(frame, ProgramFrame)
        self.stop.session.set(name, self.evaluate(text, number), frame.index)
        return self.stop.session.variables(frame.index)[name]

    def evaluate(self, expression: str, number: int | None) -> Any:
        """Evaluates an expression in a frame. A statement is executed, with result None."""
        names = self.names(number)
        try:
            code = compile(expression.strip(), "<debug console>", "eval")
        except SyntaxError:
            exec(compile(expression, "<debug console>", "exec"), names)  # noqa: S102 - the user's
            return None
        return eval(code, names)  # noqa: S307 - the user asks for it

    def _variables(self, frame: ProgramFrame | FrameType | None) -> dict[str, Any]:
        """Values of a frame by variable name (default: the innermost frame)."""
        if isinstance(frame, FrameType):
            return dict(_public(frame.f_locals))
        if frame is not None and frame.core is not None and frame.frame.core >= 0:
            return self.stop.session.core_variables(frame.frame.core, frame.core)
        return self.stop.session.variables(-1 if frame is None else frame.index)

    def _list_arrays(self, frame: ProgramFrame | FrameType | None) -> list[dict[str, Any]]:
        """The arrays of a frame, described without reading them."""
        session = self.stop.session
        is_innermost = (
            not isinstance(frame, FrameType)
            and not (session.is_simulated or session.is_eager)
            and session.stack()[-1 if frame is None else frame.index].level + 1
            == len(session.levels)
        )
        return [
            {"name": name, "type": summary(value, reads=False), "canSet": is_innermost}
            for name, value in self._variables(frame).items()
            if hasattr(value, "dtype")
        ]

    def figure(self, name: str, number: int | None, index: Sequence[int]) -> dict[str, Any]:
        """Records of a variable's values and of its sharding. `index` selects along the dimensions before the last two.

        The sharding is None for an array on one device.
        """
        frame = self._frames.get(number or 0)
        variables = self._variables(frame)
        value = variables[name] if name in variables else self.evaluate(name, number)
        leading = [*value.shape[:-2]] if value.ndim > 2 else []
        chosen = [
            min(i, n - 1) for i, n in zip([*index, *[0] * len(leading)], leading, strict=False)
        ]
        is_cut = getattr(getattr(value, "sharding", None), "num_devices", 1) > 1
        return {
            "record": analysis.array_values(value, chosen).to_dict(),
            "leading": leading,
            "placement": introspect.sharding(value, name=name).to_dict() if is_cut else None,
        }

    def grid(self, number: int | None) -> dict[str, Any] | None:
        """The record of the kernel that a frame is in, at its program; None outside of kernels."""
        frame = self._frames.get(number or 0)
        index = frame.index if isinstance(frame, ProgramFrame) else -1
        record = self.stop.session.grid_record(index)
        return None if record is None else record.to_dict()

    # The program --------------------------------------------------------------------------------------------

    def program(self, number: int | None, version: str | None, shown: str | None) -> dict[str, Any]:
        """A frame's program for the explorer. `shown` is the key of the record that the front end already has."""
        frame = self._frames.get(number or 0)
        depth = frame.frame.level if isinstance(frame, ProgramFrame) else -1
        levels = self.stop.session.levels
        level = levels[depth]
        session = self.stop.session
        jaxpr, position = level.frame.jaxpr, level.frame.position
        on_core = session.core_level(*_core_place(frame, session))
        if on_core is not None:
            jaxpr, position = on_core.jaxpr, on_core.position
        reading = _reading(jaxpr)
        current = f"{reading.record.key}:{session.place()}:{position}:{session.position}:{session.lane}:{session.cores()}:{len(level.frame.values)}:{session.edits}"
        if version == current:
            return {"unchanged": True, "version": current}
        equation = jaxpr.equations[position] if position < len(jaxpr.equations) else None
        outer = levels[: levels.index(level) + (on_core is not None)]
        chosen = session.position
        return {
            "version": current,
            "program": reading.record.key,
            "record": None if shown == reading.record.key else reading.record.to_dict(),
            "equation": None if equation is None else equation.id,
            "position": position,
            "count": len(jaxpr.equations),
            "isInnermost": level is levels[-1] and on_core is None,
            "iteration": None if on_core is not None else iteration_of(level),
            "grid": self._grid_place(frame),
            "cores": [
                {
                    "name": " ".join(filter(None, [row.name, row.program])),
                    "line": None if row.line is None else row.line.line,
                    "state": row.state,
                    "inFlight": row.in_flight,
                    "isChosen": row.is_chosen,
                }
                for row in session.cores()
            ],
            "path": [name_of(each.frame.jaxpr) for each in outer],
            "variables": self._list_arrays(frame),
            # A core has values of its own, at no position of a `shard_map`.
            "positions": []
            if on_core is not None
            else [str(position) for position in session.positions()],
            "chosen": chosen,
            "batches": session.batch_sizes(),
            "lane": session.lane,
            "values": {
                str(reading.values[v]): summary(session.choice.values_to_show(level, [v])[0])
                for v in list(level.frame.values)
                if v in reading.values
            },
        }

    def _grid_place(self, frame: ProgramFrame | FrameType | None) -> dict[str, Any] | None:
        """Where in its grid the kernel's program is that a frame is in."""
        index = frame.index if isinstance(frame, ProgramFrame) else -1
        found = self.stop.session.grid_position(index)
        return None if found is None else {"position": [*found[0]], "sizes": [*found[1]]}


def _reading(jaxpr: Any) -> JaxprReading:
    """The record of a program; cached."""
    if "debugged" not in jaxpr.memo:
        jaxpr.memo["debugged"] = read_jaxpr(jaxpr, key=f"debugged:{_KERNEL}:{next(_numbers)}")
    return jaxpr.memo["debugged"]


def iteration_of(level: Level) -> dict[str, Any] | None:
    """Iteration of a loop that a level runs, counted from 0, and the number of iterations if known; None outside of
    loops.
    """
    call = level.call
    if call is None or not call.is_loop:
        return None
    return {"run": level.turn[1], "runs": call.slots.runs}


def _core_place(
    frame: ProgramFrame | FrameType | None, session: DebugSession
) -> tuple[int, int | None]:
    """(number of a frame in the stack of a simulated core, the core's row); the innermost one of the core that is shown for no frame."""
    if isinstance(frame, ProgramFrame):
        return frame.frame.core, frame.core
    return session.stack()[-1].core if frame is None else -1, None


def _cores(session: DebugSession) -> Parts:
    for row in session.cores():
        line = "" if row.line is None else f"line {row.line.line}, "
        flights = [f"in flight: {each}" for each in row.in_flight]
        name = " ".join(filter(None, [row.name, row.program]))
        yield name, line + "; ".join([row.state, *flights])


def _operands(session: DebugSession, level: Level) -> Parts:
    for i, value in enumerate(session.operands(level)):
        yield f"operand {i}", value


def _public(names: dict[str, Any]) -> Parts:
    return [(name, value) for name, value in list(names.items()) if not name.startswith("_")]
