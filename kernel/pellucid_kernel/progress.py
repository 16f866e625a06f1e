"""Progress shown by front ends: compilations, waits for devices, and notes about functions that recompile."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from IPython.core.interactiveshell import InteractiveShell

from pellucid import events
from pellucid.introspect import waits
from pellucid.introspect.misses import joined_misses
from pellucid.introspect.schema import MissesRecord
from pellucid.introspect.unrolled import (
    UnrolledLoop,
    UserLine,
    calling_line,
    equation_count,
    running_line,
    unrolled_loop,
    user_line,
)
from pellucid_kernel.interrupts import Position
from pellucid_kernel.schema import ProgressRecord, UnrolledLoopRecord, UserLineRecord
from pellucid_viz import Figure

SHOWN_AFTER_SECONDS = 0.3
_MAX_NS_BETWEEN_STAGES = 50_000_000
"""Maximum time between tracing and lowering for both to belong to one compilation."""
_SECONDS_BETWEEN_COUNTS = 1.0
"""Interval between updates of the equation count during tracing."""
_SECONDS_BETWEEN_NOTES = 1.0
_SECONDS_BETWEEN_POSITIONS = 0.25
"""Interval between looks at where a cell is, and at what devices compute meanwhile."""


@dataclass(eq=False, slots=True)
class Work:
    """One compilation in one thread, from tracing to the executable."""

    name: str
    begun_ns: int
    place: UserLine | None
    """Line of the call."""
    cell: str | None
    is_by_tool: bool
    stage: str = ""
    program: Any = None
    """The trace or jaxpr of the current stage."""
    depth: int = 0
    """Nesting depth of the current stage."""
    ended_ns: int = 0
    loop: UnrolledLoop | None = None

    def age_seconds(self) -> float:
        return (time.monotonic_ns() - self.begun_ns) / 1e9

    def record(self, program: Any) -> ProgressRecord:
        """The message about its current stage and size; `program` is the trace or jaxpr to count."""
        if self.loop is None or self.stage != "compile":
            self.loop = unrolled_loop([*program.equations])
        return ProgressRecord(
            function=self.name,
            stage=self.stage,  # pyright: ignore[reportArgumentType]
            devices="",
            equation_count=equation_count(program),
            elapsed_seconds=self.age_seconds(),
            place=None if self.place is None else UserLineRecord(**self.place._asdict()),
            loop=None if self.loop is None else UnrolledLoopRecord(
                place=UserLineRecord(**user_line(self.loop.file, self.loop.line)._asdict()),
                iterations=self.loop.iterations,
            ),
            cell_id=self.cell,
            is_by_tool=self.is_by_tool,
        )  # fmt: skip


@dataclass(eq=False, slots=True)
class Wait:
    """A thread that waits for devices, devices that compute while a line of the cell goes on, or work that they continue
    after a wait was interrupted.
    """

    arrays: str
    devices: str
    begun_ns: int
    place: UserLine | None
    cell: str | None
    is_by_tool: bool
    stage: Literal["wait", "busy", "left"] = "wait"

    def age_seconds(self) -> float:
        return (time.monotonic_ns() - self.begun_ns) / 1e9

    def record(self, _: Any) -> ProgressRecord:
        return ProgressRecord(
            function=self.arrays,
            stage=self.stage,
            devices=self.devices,
            equation_count=0,
            elapsed_seconds=self.age_seconds(),
            place=None if self.place is None else UserLineRecord(**self.place._asdict()),
            loop=None,
            cell_id=self.cell,
            is_by_tool=self.is_by_tool,
        )


NOTHING = ProgressRecord(
    function=None, stage=None, devices="", equation_count=0, elapsed_seconds=0.0, place=None, loop=None,
    cell_id=None, is_by_tool=False,
)  # fmt: skip
"""Message that nothing is being compiled or waited for."""


class ProgramProgress(events.Observer):
    """Reports compilations and waits that take longer than `SHOWN_AFTER_SECONDS`, devices that compute while a line of a
    cell goes on, and devices still busy after an interrupt.

    A background thread sends the messages, since the compiling or waiting thread is busy.
    """

    def __init__(self, send: Callable[[ProgressRecord], None]) -> None:
        self._send = send
        self._cells: list[str | None] = []
        """Ids of the running cells, outermost first: a cell magic runs its body as another cell."""
        self._works: dict[int, Work] = {}
        """Current compilation by thread."""
        self._waits: dict[int, Wait] = {}
        self._left: Wait | None = None
        self._busy: Wait | None = None
        self._thread = 0
        """The thread of the running cell."""
        self._position: Position | None = None
        """Where it was at the last look."""
        self._changed = threading.Condition()
        self._is_stopped = False
        self.shown = NOTHING
        threading.Thread(target=self._watch, name="pellucid-progress", daemon=True).start()

    def cell_started(self, cell: str | None) -> None:
        """Sets the cell under which compilations are shown."""
        with self._changed:
            self._cells.append(cell)
            self._thread = threading.get_ident()
            self._changed.notify()

    def cell_ended(self) -> None:
        """Clears the cell and its unfinished work."""
        with self._changed:
            del self._cells[-1:]
            self._position = self._busy = None
            self._works.pop(threading.get_ident(), None)
            self._waits.pop(threading.get_ident(), None)
            self._changed.notify()

    def stop(self) -> None:
        """Stops the background thread."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify()

    def stage_started(self, event: events.StageStarted, /) -> None:
        work = self._works.get(event.thread)
        if work is not None and work.depth > 0:
            work.depth += 1
            return
        with self._changed:
            if work is None or not _continues(work, event):
                cell = self._cells[-1] if self._cells else None
                work = Work(event.name, event.time_ns, calling_line(), cell, event.is_by_tool)
                self._works[event.thread] = work
            work.stage, work.program, work.depth = event.stage, event.program, 1
            self._changed.notify()

    def stage_ended(self, event: events.StageEnded, /) -> None:
        work = self._works.get(event.thread)
        if work is None:
            return
        work.depth -= 1
        if work.depth == 0:
            with self._changed:
                work.program, work.ended_ns = None, event.time_ns
                self._changed.notify()

    def wait_started(self, event: events.WaitStarted, /) -> None:
        cell = self._cells[-1] if self._cells else None
        arrays, devices = waits.awaited_text(event.arrays), waits.devices_text(event.arrays)
        wait = Wait(arrays, devices, event.time_ns, calling_line(), cell, event.is_by_tool)
        with self._changed:
            self._waits[event.thread] = wait
            self._changed.notify()

    def wait_ended(self, event: events.WaitEnded, /) -> None:
        with self._changed:
            wait = self._waits.pop(event.thread, None)
            if event.is_left and wait is not None:
                wait.stage = "left"
                self._left = wait
            self._changed.notify()

    def _due(self) -> tuple[tuple[Work | Wait, str, int] | None, float | None]:
        """(state to display, as (work, stage, count so far); seconds until it may change without an event)."""
        works = [each for each in self._works.values() if each.program is not None]
        work = min([*works, *self._waits.values()], key=lambda each: each.begun_ns, default=None)
        if work is None:
            left, seconds = self._state_of_left_work()
            return (left, seconds) if left is not None else self._state_of_busy_devices()
        self._position = self._busy = None
        age = work.age_seconds()
        if age < SHOWN_AFTER_SECONDS:
            return None, SHOWN_AFTER_SECONDS - age
        if isinstance(work, Wait):
            return (work, work.stage, 0), None
        counts = int(age / _SECONDS_BETWEEN_COUNTS) if work.stage == "trace" else 0
        return (work, work.stage, counts), _SECONDS_BETWEEN_COUNTS if counts else None

    def _state_of_left_work(self) -> tuple[tuple[Wait, str, int] | None, float | None]:
        """State of work that devices continue after an interrupted wait, until they are done."""
        if self._left is None:
            return None, None
        self._left.devices = waits.busy_text()
        if not self._left.devices:
            self._left = None
            return None, None
        return (self._left, self._left.stage, 0), _SECONDS_BETWEEN_COUNTS

    def _state_of_busy_devices(self) -> tuple[tuple[Wait, str, int] | None, float | None]:
        """State of devices that compute while the cell stays at one position: NumPy may wait there for an array's memory,
        of which nothing is told.
        """
        if not self._cells:
            return None, None
        position, before = Position(self._thread), self._position
        self._position = position
        if position != before:
            self._busy = None
            return None, _SECONDS_BETWEEN_POSITIONS
        unfinished = waits.unfinished_arrays()
        if not unfinished:
            self._busy = None
        elif self._busy is None:
            self._busy = Wait(
                waits.awaited_text(unfinished), waits.devices_text(unfinished),
                time.monotonic_ns() - int(_SECONDS_BETWEEN_POSITIONS * 1e9),
                running_line(position.frame), self._cells[-1], is_by_tool=False, stage="busy",
            )  # fmt: skip
        return (
            None if self._busy is None else (self._busy, self._busy.stage, 0)
        ), _SECONDS_BETWEEN_POSITIONS

    def _watch(self) -> None:
        """Runs in the background thread: sends the state whenever it changes, until `stop`."""
        shown = None
        while not self._is_stopped:
            with self._changed:
                due, seconds = self._due()
                if due == shown:
                    self._changed.wait(seconds)
                    continue
                program = due[0].program if due is not None and isinstance(due[0], Work) else None
            shown = due
            self.shown = NOTHING if due is None else due[0].record(program)
            self._send(self.shown)


def _continues(work: Work, event: events.StageStarted) -> bool:
    """Whether a stage is the next one of the same compilation."""
    is_next = event.stage != "trace" and event.name == work.name
    return is_next and event.time_ns - work.ended_ns < _MAX_NS_BETWEEN_STAGES


def _is_worth_a_note(misses: Sequence[Any]) -> bool:
    """Whether cache misses of a function deserve a note: real recompilations, or redefinitions that cost noticeable
    time.
    """
    if misses[0].reasons[0].kind not in _DEFINED_AGAIN:
        return True
    return sum(each.trace_seconds + each.compile_seconds for each in misses) >= _NOTICED_SECONDS


_DEFINED_AGAIN = ("function", "closure")
_NOTICED_SECONDS = 0.1


class RecompilationNotes(events.Observer):
    """Shows below a cell which functions recompiled and why, in one output that is updated."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell: Any = shell
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._misses: dict[Any, list[Any]] = {}
        """Misses by function. A function that a line redefines counts as the same function."""
        self._traced: set[Any] = set()
        """Functions traced during the cell."""
        self._display_id = ""
        self._shown_at = 0.0

    def cache_looked(self, event: events.CacheLooked, /) -> None:
        miss = event.miss
        if miss is None or miss.is_by_tool:
            return
        function = event.name, getattr(event.function, "__code__", id(event.function))
        kind, is_again = miss.reasons[0].kind, function in self._traced
        self._traced.add(function)
        # Running a cell again redefines its functions, which is no reason for a note.
        if kind == "first call" or (kind in _DEFINED_AGAIN and not is_again):
            return
        with self._lock:
            self._misses.setdefault(function, []).append(miss)
        if time.monotonic() - self._shown_at > _SECONDS_BETWEEN_NOTES:
            self._show()

    def cell_ended(self) -> None:
        """Shows the cost of the cell's compilations, and resets."""
        if self._misses:
            self._show()
        self._misses, self._display_id, self._shown_at = {}, "", 0.0
        self._traced.clear()

    def _show(self) -> None:
        with self._lock:
            misses = [
                joined_misses(each) for each in self._misses.values() if _is_worth_a_note(each)
            ]
        if not misses:
            return
        self._shown_at = time.monotonic()
        is_update = self._display_id != ""
        if not is_update:
            self._display_id = f"pellucid-recompiled-{os.getpid()}-{next(self._numbers)}"
        figure = Figure(MissesRecord(misses=misses, is_note=True))
        self._shell.display_pub.publish(
            data=figure.displayed(), transient={"display_id": self._display_id}, update=is_update
        )
