"""Documents: text that is laid out on one line where it fits, and broken where it doesn't.

The algebra is Wadler's ("A prettier printer", 2003), laid out without recursion, so deep programs print.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple


class Text(NamedTuple):
    """A string without line breaks."""

    text: str


class Break(NamedTuple):
    """A new line; in a group that fits on its line, `flat` instead."""

    flat: str = " "


class Concat(NamedTuple):
    """Documents one after the other."""

    parts: Sequence[Doc]


class Nest(NamedTuple):
    """A document whose line breaks are indented by `indent` more."""

    indent: int
    body: Doc


class Group(NamedTuple):
    """A document that is flat if it fits on the rest of the line."""

    body: Doc


class Mark(NamedTuple):
    """Nothing; `layout` notes on which line it stands."""

    label: Any


Doc = Text | Break | Concat | Nest | Group | Mark


def concat(*parts: Doc | str) -> Doc:
    """Documents and strings one after the other."""
    return Concat([Text(p) if isinstance(p, str) else p for p in parts])


def join(separator: Doc | str, parts: Iterable[Doc | str]) -> Doc:
    """`parts` with `separator` between them."""
    joined = []
    for part in parts:
        if joined:
            joined.append(separator)
        joined.append(part)
    return concat(*joined)


def layout(doc: Doc, width: int = 80, marks: list[tuple[int, Any]] | None = None) -> str:
    """The text of `doc`, groups broken where they exceed `width` columns.

    For each `Mark` of `doc`, in order, `marks` gets (index of its line, label).
    """
    pieces = []
    column = line = 0
    todo = [(0, False, doc)]
    while todo:
        indent, flat, item = todo.pop()
        kind = type(item)
        if kind is Text:
            pieces.append(item.text)  # type: ignore[union-attr]
            breaks = item.text.count("\n")  # type: ignore[union-attr]
            line += breaks
            column = len(item.text) - item.text.rfind("\n") - 1 + (0 if breaks else column)  # type: ignore[union-attr]
        elif kind is Concat:
            todo.extend((indent, flat, part) for part in reversed(item.parts))  # type: ignore[union-attr]
        elif kind is Nest:
            todo.append((indent + item.indent, flat, item.body))  # type: ignore[union-attr]
        elif kind is Break:
            if flat:
                pieces.append(item.flat)  # type: ignore[union-attr]
                column += len(item.flat)  # type: ignore[union-attr]
            else:
                pieces.append("\n" + " " * indent)
                column = indent
                line += 1
        elif kind is Mark:
            if marks is not None:
                marks.append((line, item.label))  # type: ignore[union-attr]
        else:
            fits = flat or _fits(item.body, width - column)  # type: ignore[union-attr]
            todo.append((indent, fits, item.body))  # type: ignore[union-attr]
    return "\n".join(
        line.rstrip() if not line.strip() else line for line in "".join(pieces).split("\n")
    )


def _fits(doc: Doc, room: int) -> bool:
    """Whether the flat text of `doc` takes at most `room` columns."""
    todo = [doc]
    while todo:
        if room < 0:
            return False
        item = todo.pop()
        kind = type(item)
        if kind is Text:
            if "\n" in item.text:  # type: ignore[union-attr]
                return False
            room -= len(item.text)  # type: ignore[union-attr]
        elif kind is Break:
            room -= len(item.flat)  # type: ignore[union-attr]
        elif kind is Concat:
            todo.extend(reversed(item.parts))  # type: ignore[union-attr]
        elif kind is not Mark:
            todo.append(item.body)  # type: ignore[union-attr]
    return room >= 0
