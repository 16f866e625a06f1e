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

from pellucid.events import EquationEntered, Observer, add_observer, remove_observer
from pellucid.introspect import recording
from pellucid_profiler.calls import (
    HostSpans,
    LaunchColumns,
    enclosing,
    function_name,
    module_name,
    nesting,
)
from pellucid_profiler.operations import Operations
from pellucid_profiler.sources import SourceLine
from pellucid_profiler.text import Sources, line_number_text
from pellucid_profiler.xspace import ABSENT, Column

_MARK = re.compile(r"(backward of )?line (\d+) of (\S+) in (.+)")
"""Pattern of a mark's span name."""
_UNRECORDABLE = frozenset("#,=")
"""Characters that XLA's recorder uses to encode details, so that span names can't contain them."""


class LineMarks(Observer):
    """Marks the user lines that a thread runs between `begin` and `end`: one span per line, until the next line begins.

    What a backward pass runs eagerly is marked by the lines of the equations that it transposes, or by those of the user's rule.

    >>> marks = LineMarks()
    >>> marks.begin()
    True
    >>> marks.end()
    """

    def __init__(self, watch: Callable[[FrameType], bool] | None = None) -> None:
        """`watch` is called with the frame before each line is marked; marking stops when it returns True."""
        self._watch = watch
        self._span: recording.Annotation | None = None
        self._names: dict[tuple[CodeType, int, bool], str | None] = {}
        self._line_name: str | None = None
        """Name of the span of the line that the thread is in."""
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
        add_observer(self)
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
        remove_observer(self)
        self._outer.clear()
        self._thread = 0

    def equation_entered(self, event: EquationEntered, /) -> None:
        if event.thread != self._thread:
            return
        place = None if event.source is None else recording.line_of(event.source)
        if place is None:
            self._open(self._line_name)
        else:
            self._open(self._name(*place, is_backward=event.transformation == "transpose"))

    def _call(self, frame: FrameType, event: str, value: Any) -> Any:
        return self._line if _is_of_user(frame) else None

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
        name = None
        if frame is not None:
            is_backward = recording.is_in_backward_pass()
            name = self._name(frame.f_code, frame.f_lineno, is_backward=is_backward)
        self._line_name = name
        self._open(name)

    def _open(self, name: str | None) -> None:
        """Begins a span in place of the current one, which never nest; only ends it if there is no name."""
        if self._span is not None:
            self._span.__exit__(None, None, None)
            self._span = None
        if name is not None:
            self._span = recording.Annotation(name)
            self._span.__enter__()

    def _name(self, code: CodeType, line: int, *, is_backward: bool = False) -> str | None:
        key = code, line, is_backward
        if key not in self._names:
            name = f"line {line} of {code.co_qualname} in {code.co_filename}"
            name = f"backward of {name}" if is_backward else name
            self._names[key] = None if _UNRECORDABLE & set(name) else name
        return self._names[key]


def user_frame_of(frame: FrameType | None) -> FrameType | None:
    """The innermost user frame of the stack that starts at `frame`."""
    while frame is not None and not _is_of_user(frame):
        frame = frame.f_back
    return frame


def _is_of_user(frame: FrameType) -> bool:
    """Whether a frame runs lines that a user has written: no library's, and none that a dataclass is made of."""
    code = frame.f_code
    if not recording.is_user_file(code.co_filename):
        return False
    # `python -c` runs code of this name, too.
    return code.co_filename != "<string>" or (
        frame.f_globals.get("__name__") == "__main__" and "__create_fn__" not in code.co_qualname
    )


def marked_place(name: str) -> SourceLine:
    """Parses a mark's span name into its source line.

    >>> marked_place("line 3 of f in cell.py")
    SourceLine(file='cell.py', line=3, function='f')
    """
    match = _MARK.match(name)
    assert match is not None
    return SourceLine(match[4], int(match[2]), match[3])


def is_backward_mark(name: str) -> bool:
    """Whether a mark is around what a backward pass runs for its line.

    >>> is_backward_mark("backward of line 3 of f in cell.py")
    True
    """
    return name.startswith("backward of ")


def marked_places(names: Sequence[str]) -> list[SourceLine]:
    """The source lines of all marks among the names of a recording."""
    return [marked_place(name) for name in names if _MARK.match(name)]


def shown_name(sources: Sources, name: str) -> str:
    """Display name of a span: the function's name for a call, the cell or file and line number for a mark.

    >>> shown_name({}, "PjitFunction(step)"), shown_name({}, "line 3 of f in model.py")
    ('step', 'model.py, line 3')
    """
    if _MARK.match(name):
        line = line_number_text(sources, *marked_place(name)[:2])
        return f"{line}, backward" if is_backward_mark(name) else line
    return function_name(name)


def line_of_calls(names: Sequence[str], spans: HostSpans, calls: LaunchColumns) -> Column:
    """For each call, the index of the name of the mark in which it started; `ABSENT` if there is none."""
    marks = _marks_among(names, spans)
    at = enclosing(marks, calls.thread, calls.start_ns)
    return np.where(at == ABSENT, ABSENT, marks.name[at]) if len(marks) else at


def line_within_calls(
    names: Sequence[str], spans: HostSpans, operations: Operations, modules: Sequence[str]
) -> Column:
    """For each operation that began in the thread of its own call, the index of the name of the mark around it; else
    `ABSENT`. `modules` are the names of the operations' modules.

    A function such as `jnp.sum` runs several programs under `grad`, of which a session's call has the first only. The
    innermost span of a call around an operation is that of its own program if it has the name of its module.
    """
    marks = _marks_among(names, spans)
    is_call = np.array([function_name(name) != name for name in names], bool)
    rows = np.flatnonzero(is_call[spans.name]) if len(spans) else np.zeros(0, np.int64)
    if not len(marks) or not len(rows):
        return np.full(len(operations.thread), ABSENT)
    # The times at which operations begin are spans without length, which may have each other for a parent.
    parent = nesting(
        np.concatenate([spans.thread[rows], operations.thread]),
        np.concatenate([spans.start_ns[rows], operations.start_ns]),
        np.concatenate([spans.end_ns[rows], operations.start_ns]),
    )
    around = parent[len(rows) :]
    while (is_operation := around >= len(rows)).any():
        around[is_operation] = parent[around[is_operation]]
    used: list[int] = np.unique(spans.name[rows]).tolist()
    module_of_name = {i: module_name(function_name(names[i])) for i in used}
    own = np.array(
        [
            at != ABSENT and module_of_name[int(spans.name[rows[at]])] == module
            for at, module in zip(around.tolist(), modules, strict=True)
        ],
        bool,
    )
    at = enclosing(marks, operations.thread, operations.start_ns)
    return np.where(own & (at != ABSENT), marks.name[at], ABSENT)


def _marks_among(names: Sequence[str], spans: HostSpans) -> HostSpans:
    is_mark = np.array([_MARK.match(name) is not None for name in names], bool)
    return spans.rows(np.flatnonzero(is_mark[spans.name]) if len(spans) else np.zeros(0, np.int64))
