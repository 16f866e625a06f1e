"""Spans of the user's source with their callers, and the variable names that they assign."""

from __future__ import annotations

import linecache
import os
from collections.abc import Callable
from types import CodeType
from typing import Any, NamedTuple

from pellucid._machine.base import source
from pellucid._machine.xla.traceback import Traceback

from . import schema
from .statements import Assigned, Returned, Statements, statements_of


class Naming(NamedTuple):
    """The assignment that gives a value its name."""

    place: int
    """The span of the assigned expression."""
    names: tuple[str, ...]


class SourceSpans:
    """Collects the spans of one program; `function` is the unqualified name of its function, to name values."""

    def __init__(self, string: Callable[[str], int], function: str = "") -> None:
        self._string = string
        self._function = function
        self._columns: list[tuple[int, ...]] = []
        self._by_source: dict[Any, int] = {None: -1}
        self._by_place: dict[tuple[CodeType, int, int], int] = {}
        self._frames: dict[tuple[CodeType, int], source.SourceFrame] = {}
        self._files: dict[str, int] = {}
        self._statements: list[Statements] = []
        self._namings: dict[int, Naming | None] = {}
        self._functions: list[str] = []
        self.calls: set[int] = set()
        """Spans of equations that run other programs: their results aren't the value that the caller assigns."""
        self.calling_back: set[int] = set()
        """Spans of calls of library functions that call the user's functions, as `value_and_grad` does: their result
        may differ from that of the user's function.
        """
        self._outermost: set[int] = set()
        """Spans in the function itself; assignments of its caller aren't part of the program."""

    def span(self, captured: Traceback | None) -> int:
        """The index of the span of a captured traceback; -1 if no frame is the user's."""
        index = self._by_source.get(captured)
        if index is None:
            index, is_direct = -1, True
            codes, offsets = ([], []) if captured is None else captured.raw_frames()
            for code, offset in reversed([*zip(codes, offsets, strict=True)]):
                is_users = source.is_user_file(code.co_filename)
                if is_users:
                    caller, index = index, self._at(code, offset, index)
                    if not is_direct:
                        self.calling_back.add(caller)
                is_direct = is_users
            self._by_source[captured] = index
        return index

    def _at(self, code: CodeType, offset: int, caller: int) -> int:
        key = (code, offset, caller)
        index = self._by_place.get(key)
        if index is None:
            frame = self._frames.get((code, offset))
            if frame is None:
                frame = self._frames[code, offset] = source.frame_of(code, offset)
            index = self._by_place[key] = self._add(frame, caller)
        return index

    def _add(self, frame: source.SourceFrame, caller: int) -> int:
        file = self._files.get(frame.file)
        if file is None:
            file = self._files[frame.file] = len(self._files)
            self._statements.append(statements_of(frame.file))
        line, column = max(frame.line, 0), max(frame.column, 0)
        end_line, end_column = max(frame.end_line, line), max(frame.end_column, 0)
        in_lambda = frame.function.endswith("<lambda>")
        variable = (
            ""
            if in_lambda
            else self._statements[file].variable((line, column, end_line, end_column))
        )
        if frame.function.rpartition(".")[2] == self._function:
            self._outermost.add(len(self._columns))
        self._functions.append(frame.function)
        self._columns.append(
            (
                file,
                line,
                end_line,
                column,
                end_column,
                self._string(frame.function),
                self._string(variable),
                caller,
            )
        )
        return len(self._columns) - 1

    def function(self, span: int) -> str:
        """The qualified name of the function that contains a span."""
        return self._functions[span]

    def line(self, span: int) -> int:
        """The first line of a span."""
        return self._columns[span][1]

    def naming(self, span: int) -> Naming | None:
        """The assignment of the value of the whole expression at `span`, directly, or by a caller if the function returns
        it.
        """
        if span not in self._namings:
            self._namings[span] = self._find_naming(span)
        return self._namings[span]

    def _find_naming(self, span: int) -> Naming | None:
        item: int | None = None
        while span >= 0:
            file, line, end_line, column, end_column, _, _, caller = self._columns[span]
            fate = self._statements[file].values.get((line, column, end_line, end_column))
            if isinstance(fate, Returned):
                item = fate.item if item is None else item
                is_last = span in self._outermost or caller in self.calling_back
                span = -1 if is_last or caller in self.calls else caller
            elif isinstance(fate, Assigned):
                if item is None:
                    return Naming(span, fate.names)
                return (
                    Naming(span, (fate.names[item],)) if 0 <= item < len(fate.names) > 1 else None
                )
            else:
                return None
        return None

    def columns(self) -> schema.SpanColumns:
        """The spans as columns."""
        columns = list(map(list, zip(*self._columns, strict=True))) or [[] for _ in range(8)]
        names = (
            "source",
            "line",
            "end_line",
            "column",
            "end_column",
            "function",
            "variable",
            "caller",
        )
        return schema.SpanColumns(**dict(zip(names, columns, strict=True)))

    def sources(self, *, with_lines: bool) -> list[schema.SourceRecord]:
        """The files and cells that contain the spans; for a file, the lines from the first span to the last."""
        first = [10**9] * len(self._files)
        last = [0] * len(self._files)
        for file, line, end_line, *_ in self._columns:
            first[file] = min(first[file], line)
            last[file] = max(last[file], end_line)
        return [
            source_record(path, (first[i], last[i]) if with_lines else None)
            for path, i in self._files.items()
        ]


def source_record(path: str, lines: tuple[int, int] | None) -> schema.SourceRecord:
    """The record of a file or cell. `lines` are the (first, last) line of a file whose text to include; a cell's is
    complete.
    """
    cell = source.cell_of(path)
    text: list[str] | None = None
    first_line = 1
    if lines is not None:
        text = [line.rstrip("\r\n") for line in linecache.getlines(path)]
        if cell is None and not path.startswith("<"):
            first_line = max(1, lines[0])
            text = text[first_line - 1 : lines[1]]
    return schema.SourceRecord(
        name=_short_path(path) if cell is None else cell.name,
        path=path,
        cell_id=None if cell is None else cell.id,
        execution_count=None if cell is None else cell.execution_count,
        first_line=first_line,
        lines=text or None,
    )


def _short_path(path: str) -> str:
    if path.startswith("<"):
        return path
    relative = os.path.relpath(path)
    return os.path.basename(path) if relative.startswith("..") else relative
