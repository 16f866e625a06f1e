"""A figure: a record with the forms in which front ends show it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pellucid_viz.render.html import view_page
from pellucid_viz.render.markup import markup_of
from pellucid_viz.render.text import text_of


def mime_type(kind: str) -> str:
    """The MIME type under which records of a kind stand in notebooks.

    >>> mime_type("lens")
    'application/vnd.pellucid.lens.v1+json'
    """
    return f"application/vnd.pellucid.{kind.replace('_', '-')}.v1+json"


class Figure:
    """What a notebook shows of a record: the interactive view, static HTML without it, text in a terminal.

    `record` is the data itself, for programs. The text and the HTML are made when somebody asks.

    >>> figure = Figure(pl.introspect.program(lambda x: x * 2.0, 1.0))
    >>> figure
    { lambda ; a:f32[]. let b:f32[] = mul a 2.0:f32[] in (b,) }
    >>> sorted(figure.bundle())
    ['application/vnd.pellucid.program.v1+json', 'text/html', 'text/plain']
    """

    def __init__(self, record: Any, text: str | None = None) -> None:
        self.record = record
        self._text = text

    def __repr__(self) -> str:
        if self._text is None:
            self._text = text_of(self.record)
        return self._text

    def bundle(self) -> dict[str, Any]:
        """The figure in all forms, by MIME type."""
        return {
            mime_type(self.record.kind): self.record.to_dict(),
            "text/html": markup_of(self.record, repr(self)),
            "text/plain": repr(self),
        }

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return self.bundle()

    def page(self, title: str = "pellucid") -> str:
        """The interactive view as a whole HTML document that needs nothing else: no kernel, no network."""
        return view_page(self.record.to_dict(), repr(self), title=title)

    def save(self, path: str | Path) -> Path:
        """Write `page()` into a file, and give its path."""
        path = Path(path)
        path.write_text(self.page(path.stem), encoding="utf-8")
        return path
