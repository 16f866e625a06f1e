"""Documents for pretty-printing: text that is laid out on one line if it fits, and broken otherwise.

The algebra is Wadler's ("A prettier printer", 2003), laid out without recursion, so that deeply nested programs print.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple


class Break(NamedTuple):
    """A line break, or the text `flat` in a group that fits on its line."""

    flat: str = " "


class Concat(NamedTuple):
    """Concatenation of documents."""

    parts: Sequence[Doc]


class Nest(NamedTuple):
    """A document whose line breaks are indented by `indent` more."""

    indent: int
    body: Doc


class Group(NamedTuple):
    """A document that is flat if it fits on the rest of the line."""

    body: Doc


class Mark(NamedTuple):
    """An empty document, whose line `layout` records."""

    label: Any


Doc = str | Break | Concat | Nest | Group | Mark
"""A string is a document too."""


def concat(*parts: Doc) -> Doc:
    """Concatenation of documents."""
    return Concat(parts)


def join(separator: Doc, parts: Iterable[Doc]) -> Doc:
    """`parts` with `separator` between them."""
    joined = [doc for part in parts for doc in (separator, part)]
    return Concat(joined[1:])


def layout(doc: Doc, width: int = 80, marks: list[tuple[int, Any]] | None = None) -> str:
    """The text of `doc`, with groups broken that exceed `width` columns.

    `marks` receives (index of its line, label) for each `Mark` in `doc`, in order.
    """
    pieces: list[str] = []
    column = line = 0
    todo: list[tuple[int, bool, Doc]] = [(0, False, doc)]
    while todo:
        indent, flat, item = todo.pop()
        if isinstance(item, str):
            pieces.append(item)
            breaks = item.count("\n")
            line += breaks
            column = len(item) - item.rfind("\n") - 1 + (0 if breaks else column)
        elif isinstance(item, Concat):
            todo.extend((indent, flat, part) for part in reversed(item.parts))
        elif isinstance(item, Nest):
            todo.append((indent + item.indent, flat, item.body))
        elif isinstance(item, Break):
            if flat:
                pieces.append(item.flat)
                column += len(item.flat)
            else:
                pieces.append("\n" + " " * indent)
                column = indent
                line += 1
        elif isinstance(item, Mark):
            if marks is not None:
                marks.append((line, item.label))
        else:
            fits = flat or _fits(item.body, width - column)
            todo.append((indent, fits, item.body))
    return "\n".join(
        line.rstrip() if not line.strip() else line for line in "".join(pieces).split("\n")
    )


def _fits(doc: Doc, room: int) -> bool:
    """Whether the flat text of `doc` takes at most `room` columns."""
    todo: list[Doc] = [doc]
    while todo:
        if room < 0:
            return False
        item = todo.pop()
        if isinstance(item, str):
            if "\n" in item:
                return False
            room -= len(item)
        elif isinstance(item, Break):
            room -= len(item.flat)
        elif isinstance(item, Concat):
            todo.extend(reversed(item.parts))
        elif not isinstance(item, Mark):
            todo.append(item.body)
    return room >= 0
