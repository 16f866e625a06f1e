"""Recordings of debugged runs, which can be opened later in a notebook or browser without a kernel."""

from __future__ import annotations

import html
import linecache
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pellucid as pl
from pellucid.introspect.errors import ArgumentValueError
from pellucid.introspect.spans import source_record
from pellucid.introspect.traps import without_traps
from pellucid_kernel.debug.debug_session import BUDGET, DebugSession, StackFrame
from pellucid_kernel.debug.schema import (
    RecordedFrameColumns,
    RecordedValueColumns,
    RecordingRecord,
)
from pellucid_kernel.debug.stopping_places import check_function
from pellucid_kernel.debug.values import summary
from pellucid_viz.figure import Figure

MAX_ELEMENTS = 8
"""Maximum size of an array whose elements are recorded; of larger ones only the range is."""
LINES_AROUND = 10
"""Number of source lines kept before the first and after the last recorded line."""


def record(
    function: Callable[..., Any], *, into: bool = True, limit: int = 1000, budget: int = BUDGET
) -> Callable[..., Figure]:
    """Returns a function that runs a call line by line, and returns the run as a figure that works without a kernel.

    The figure shows lines, stack and variables, with controls to go forwards and backwards; `.save(path)` writes it as
    a page. `into`: also record the functions and programs that a line calls, with each loop iteration; `limit`: maximum
    number of recorded stops; `budget`: maximum bytes of values kept while running.

    Raises: ArgumentValueError for a `limit` below 1.

    >>> def double(x):
    ...     y = 2 * x
    ...     return y
    >>> record(double)(3)
    2 stops of double
    ...
    """
    if limit < 1:
        raise ArgumentValueError("a recording has at least one stop.", got=f"limit={limit}")

    check_function(function, "record")

    def record_call(*args: Any, **kwargs: Any) -> Figure:
        frame = sys._getframe(1)
        with without_traps():
            session = DebugSession(function, args, kwargs, budget)
            recorder = _Recorder()
            for stack in _stops(session, (frame.f_code.co_filename, frame.f_lineno), into=into):
                if len(recorder.stacks) == limit:
                    break
                recorder.add(session, stack)
            is_cut = not session.is_done
            session.finish()
            run = recorder.record(_name(function), session, is_cut=is_cut)
        text = _text(run)
        return Figure(run, text, f"<pre>{html.escape(text)}</pre>")

    return record_call


def _name(function: Any) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _stops(
    session: DebugSession, caller: tuple[str, int], *, into: bool
) -> Iterator[list[StackFrame]]:
    """Steps through the user's lines and yields the stack at each, skipping the frame of `caller`."""
    session.to_first_line()
    while not session.is_done:
        stack = session.stack()
        last = stack[-1]
        is_caller = (last.file, last.line) == caller
        if last.file and not is_caller:
            yield stack
        (session.step if (into and last.file) or is_caller else session.next)()


class _Recorder:
    """Tables in which data common to several stops is stored once."""

    def __init__(self) -> None:
        self.stacks: list[list[int]] = []
        self.variables: list[list[list[int]]] = []
        self._frames: dict[StackFrame, int] = {}
        self._values: dict[tuple[str, str], int] = {}
        self._texts: dict[int, tuple[Any, str]] = {}
        """Texts of arrays by id. The arrays are kept, too, so that no id is reused."""

    def add(self, session: DebugSession, stack: list[StackFrame]) -> None:
        """Records the current place of a session."""
        shown = [(i, frame) for i, frame in enumerate(stack) if frame.file]
        self.stacks.append(
            [self._frames.setdefault(frame, len(self._frames)) for _, frame in shown]
        )
        self.variables.append(
            [
                [
                    self._values.setdefault((name, self._text(value)), len(self._values))
                    for name, value in session.variables(i).items()
                ]
                for i, _ in shown
            ]
        )

    def _text(self, value: Any) -> str:
        if id(value) not in self._texts:
            self._texts[id(value)] = value, value_text(value)
        return self._texts[id(value)][1]

    def record(self, function: str, session: DebugSession, *, is_cut: bool) -> RecordingRecord:
        """The tables as the record that front ends display."""
        lines: dict[str, list[int]] = {}
        for frame in self._frames:
            lines.setdefault(frame.file, []).append(frame.line)
        files = {file: i for i, file in enumerate(lines)}
        return RecordingRecord(
            function=function,
            sources=[
                source_record(file, (min(of) - LINES_AROUND, max(of) + LINES_AROUND))
                for file, of in lines.items()
            ],
            frames=RecordedFrameColumns(
                function=[frame.function for frame in self._frames],
                source=[files[frame.file] for frame in self._frames],
                line=[frame.line for frame in self._frames],
                run=[frame.run for frame in self._frames],
            ),
            values=RecordedValueColumns(
                name=[name for name, _ in self._values], text=[text for _, text in self._values]
            ),
            stacks=self.stacks,
            variables=self.variables,
            results=[value_text(x) for x in session.levels[0].frame.results()],
            is_cut=is_cut,
        )


def value_text(value: Any) -> str:
    """Type of an array with its elements if it is small, else with their range.

    >>> value_text(pl.numpy.arange(3))
    'i32[3] [0 1 2]'
    """
    if 1 < getattr(value, "size", 0) <= MAX_ELEMENTS:
        elements = re.sub(r"\s+", " ", pl.numpy.array_str(value))
        return f"{summary(value, reads=False)} {elements}"
    return summary(value)


def _text(run: RecordingRecord) -> str:
    """Text with one line per stop, and the variables that are new there."""
    count = len(run.stacks)
    rows = [f"{count} stop{'s' * (count != 1)} of {run.function}{', cut' * run.is_cut}"]
    before: set[int] = set()
    for stack, variables in zip(run.stacks, run.variables, strict=True):
        frame = stack[-1]
        source, line = run.sources[run.frames.source[frame]], run.frames.line[frame]
        new = [
            f"{run.values.name[i]} = {run.values.text[i]}" for i in variables[-1] if i not in before
        ]
        before.update(variables[-1])
        text = linecache.getline(source.path, line).strip()
        iteration = run.frames.run[frame]
        rows.append(
            f"{source.name}:{line} {iteration}".rstrip()
            + f"  {text}"
            + "".join(f"\n    {each}" for each in new)
        )
    return "\n".join([*rows, *(f"result {i}: {text}" for i, text in enumerate(run.results))])
