"""Marks of lines in a recording: the programs of eager operations, which all lines share, belong to the line that calls."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid.introspect import recording
from pellucid_profiler.calls import Calls, Spans, enclosing
from pellucid_profiler.sources import Place
from pellucid_profiler.xspace import ABSENT, Column

_MARK = re.compile(r"line (\d+) of (.+)")
"""Name of the span of a line."""
_UNRECORDABLE = frozenset("#,=")
"""Characters in which XLA's recorder encodes details."""


class LineMarks:
    """Called with the number of a line, from its file, it marks what this thread does until the next call."""

    def __init__(self) -> None:
        self._span: Any = None

    def __call__(self, line: int) -> None:
        self.end()
        file = sys._getframe(1).f_code.co_filename
        if not _UNRECORDABLE & set(file):
            self._span = recording.Annotation(f"line {line} of {file}")
            self._span.__enter__()

    def end(self) -> None:
        """End the last mark."""
        if self._span is not None:
            self._span.__exit__(None, None, None)
            self._span = None


def marked_place(name: str) -> Place:
    """The line whose mark has this name.

    >>> marked_place("line 3 of cell.py")
    Place(file='cell.py', line=3, function='<module>')
    """
    match = _MARK.match(name)
    assert match is not None
    return Place(match[2], int(match[1]), "<module>")


def marked_places(names: Sequence[str]) -> list[Place]:
    """The lines whose marks are among the names of a recording."""
    return [marked_place(name) for name in names if _MARK.match(name)]


def line_of_calls(names: Sequence[str], spans: Spans, calls: Calls) -> Column:
    """For each call the number of the name of the mark that it began in; `ABSENT` where there is none."""
    is_mark = np.array([_MARK.match(name) is not None for name in names], bool)
    rows = np.flatnonzero(is_mark[spans.name]) if len(spans) else np.zeros(0, np.int64)
    marks = spans.chosen(rows)
    at = enclosing(marks, calls.thread, calls.start_ns)
    return np.where(at == ABSENT, ABSENT, marks.name[at]) if len(marks) else at
