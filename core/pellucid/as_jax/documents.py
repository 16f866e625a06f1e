"""Documents that are laid out on lines of a width, as `jax._src.pretty_printer`; colours and annotations change nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pellucid._machine.base import pretty


class Doc:
    """A document.

    >>> print((text("f(") + nest(2, brk("") + text("x") + brk("") + text("y")) + text(")")).format(width=80))
    f(
      x
      y)
    """

    def __init__(self, doc: pretty.Doc) -> None:
        self.doc = doc

    def format(self, width: int = 80, **_: Any) -> str:
        """The text, groups broken where they exceed `width` columns."""
        return pretty.layout(self.doc, width)

    def __str__(self) -> str:
        return self.format()

    def __add__(self, other: Doc) -> Doc:
        return concat([self, other])


def nil() -> Doc:
    """The empty document."""
    return Doc("")


def text(s: str, annotation: str | None = None) -> Doc:
    """The document of a string."""
    return Doc(s)


def brk(text: str = " ") -> Doc:
    """A new line; in a group that fits on its line, `text`."""
    return Doc(pretty.Break(text))


def concat(docs: Iterable[Doc]) -> Doc:
    """Concatenation of documents."""
    return Doc(pretty.Concat([d.doc for d in docs]))


def group(doc: Doc) -> Doc:
    """A document that is flat if it fits on the rest of the line."""
    return Doc(pretty.Group(doc.doc))


def nest(n: int, doc: Doc) -> Doc:
    """A document whose line breaks are indented by `n` more."""
    return Doc(pretty.Nest(n, doc.doc))


def join(sep: Doc, docs: Iterable[Doc]) -> Doc:
    """Documents with `sep` between them."""
    return Doc(pretty.join(sep.doc, [d.doc for d in docs]))
