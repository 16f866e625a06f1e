"""Line marks: spans in a recording that attribute eager operations, whose programs all lines share, to the calling
line.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import Any

import numpy as np

from pellucid.introspect import recording
from pellucid_profiler.calls import HostSpans, LaunchColumns, enclosing, function_name
from pellucid_profiler.sources import SourceLine
from pellucid_profiler.text import Sources, line_number_text
from pellucid_profiler.xspace import ABSENT, Column

_MARK = re.compile(r"line (\d+) of (\S+) in (.+)")
"""Pattern of a mark's span name."""
_UNRECORDABLE = frozenset("#,=")
"""Characters that XLA's recorder uses to encode details, so that span names can't contain them."""


class LineMarks:
    """Marks the user lines that a thread runs between `begin` and `end`: one span per line, until the next line begins.

    >>> marks = LineMarks()
    >>> marks.begin()
    True
    >>> marks.end()
    """

    def __init__(self, watch: Callable[[FrameType], bool] | None = None) -> None:
        """`watch` is called with the frame before each line is marked; marking stops when it returns True."""
        self._watch = watch
        self._span: recording.Annotation | None = None
        self._names: dict[tuple[CodeType, int], str | None] = {}
        self._outer: list[FrameType] = []
        self._thread = 0

    def begin(self) -> bool:
        """Starts marking this thread; returns False if it can't, because a debugger already uses `sys.settrace`."""
        if sys.gettrace() is not None:
            return False
        self._thread = threading.get_ident()
        frame = user_frame_of(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]  # public by use
        self._mark(frame)
        while frame is not None:
            frame.f_trace = self._line
            self._outer.append(frame)
            frame = user_frame_of(frame.f_back)
        sys.settrace(self._call)
        return True

    def pause(self) -> None:
        """Ends the mark of the current line. Marking continues with the next line."""
        self._mark(None)

    def end(self) -> None:
        """Stops marking. If called from another thread, marking stops at the marked thread's next line."""
        if threading.get_ident() == self._thread:
            sys.settrace(None)
            for frame in self._outer:
                frame.f_trace = None
            self._mark(None)
        self._outer.clear()
        self._thread = 0

    def _call(self, frame: FrameType, event: str, value: Any) -> Any:
        return self._line if recording.is_user_file(frame.f_code.co_filename) else None

    def _line(self, frame: FrameType, event: str, value: Any) -> Any:
        if not self._thread:
            sys.settrace(None)
            self._mark(None)
            return None
        if event == "line":
            if self._watch is not None and self._watch(frame):
                return None
            self._mark(frame)
        elif event == "return":
            self._mark(user_frame_of(frame.f_back))
        return self._line

    def _mark(self, frame: FrameType | None) -> None:
        if self._span is not None:
            self._span.__exit__(None, None, None)
            self._span = None
        name = None if frame is None else self._name(frame.f_code, frame.f_lineno)
        if name is not None:
            self._span = recording.Annotation(name)
            self._span.__enter__()

    def _name(self, code: CodeType, line: int) -> str | None:
        if (code, line) not in self._names:
            name = f"line {line} of {code.co_qualname} in {code.co_filename}"
            self._names[code, line] = None if _UNRECORDABLE & set(name) else name
        return self._names[code, line]


def user_frame_of(frame: FrameType | None) -> FrameType | None:
    """The innermost user frame of the stack that starts at `frame`."""
    while frame is not None and not recording.is_user_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def marked_place(name: str) -> SourceLine:
    """Parses a mark's span name into its source line.

    >>> marked_place("line 3 of f in cell.py")
    SourceLine(file='cell.py', line=3, function='f')
    """
    match = _MARK.match(name)
    assert match is not None
    return SourceLine(match[3], int(match[1]), match[2])


def marked_places(names: Sequence[str]) -> list[SourceLine]:
    """The source lines of all marks among the names of a recording."""
    return [marked_place(name) for name in names if _MARK.match(name)]


def shown_name(sources: Sources, name: str) -> str:
    """Display name of a span: the function's name for a call, the cell or file and line number for a mark.

    >>> shown_name({}, "PjitFunction(step)"), shown_name({}, "line 3 of f in model.py")
    ('step', 'model.py, line 3')
    """
    if _MARK.match(name):
        return line_number_text(sources, *marked_place(name)[:2])
    return function_name(name)


def line_of_calls(names: Sequence[str], spans: HostSpans, calls: LaunchColumns) -> Column:
    """For each call, the index of the name of the mark in which it started; `ABSENT` if there is none."""
    is_mark = np.array([_MARK.match(name) is not None for name in names], bool)
    rows = np.flatnonzero(is_mark[spans.name]) if len(spans) else np.zeros(0, np.int64)
    marks = spans.rows(rows)
    at = enclosing(marks, calls.thread, calls.start_ns)
    return np.where(at == ABSENT, ABSENT, marks.name[at]) if len(marks) else at
