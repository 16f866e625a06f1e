"""A figure: a record with the forms in which front ends show it."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

from pellucid_viz.render.html import DEFAULT_HEIGHT, view_html, view_page
from pellucid_viz.render.markup import markup_of
from pellucid_viz.render.text import text_of


def mime_type(kind: str) -> str:
    """The MIME type under which records of a kind stand in notebooks.

    >>> mime_type("lens")
    'application/vnd.pellucid.lens.v1+json'
    """
    return f"application/vnd.pellucid.{kind.replace('_', '-')}.v1+json"


def is_alone() -> bool:
    """Whether this kernel's front end is one that our extension can't be in: Visual Studio Code or Colab."""
    return "VSCODE_PID" in os.environ or "google.colab" in sys.modules


class Figure:
    """Display of a record in a notebook: the interactive view, static HTML without it, text in a terminal.

    `record` is the data itself, for programs. The text and the HTML are made when somebody asks, unless a tool brings
    its own. Where no extension
    can draw the record, the HTML holds the interactive view itself; `Figure.has_scripts` says otherwise if it is set.

    >>> figure = Figure(pl.analysis.program(lambda x: x * 2.0, 1.0))
    >>> figure
    { lambda ; a:f32[]. let b:f32[] = mul a 2.0:f32[] in (b,) }
    >>> sorted(figure.bundle())
    ['application/vnd.pellucid.program.v1+json', 'text/html', 'text/plain']
    """

    has_scripts: bool | None = None
    """Whether the HTML of figures holds the viewer; None leaves it to `is_alone`."""

    def __init__(self, record: Any, text: str | None = None, html: str | None = None) -> None:
        self.record = record
        self._text = text
        self._html = html

    def __repr__(self) -> str:
        if self._text is None:
            self._text = text_of(self.record)
        return self._text

    def bundle(self) -> dict[str, Any]:
        """The figure in all forms, by MIME type."""
        if is_alone() if self.has_scripts is None else self.has_scripts:
            page = view_html(self.record.to_dict(), repr(self))
            return {"text/html": page, "text/plain": repr(self)}
        return {
            mime_type(self.record.kind): self.record.to_dict(),
            "text/html": markup_of(self.record, repr(self)) if self._html is None else self._html,
            "text/plain": repr(self),
        }

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return self.bundle()

    def widget(self, height: int = DEFAULT_HEIGHT) -> Any:
        """The interactive view as a live widget: its `record` can be replaced, its `selected` equations be followed.

        Raises: UnsupportedError where anywidget is not installed.
        """
        return importlib.import_module("pellucid_viz.widget").RecordWidget(
            record=self.record.to_dict(), text=repr(self), height=height
        )

    def page(self, title: str = "pellucid") -> str:
        """The interactive view as a whole HTML document that needs nothing else: no kernel, no network."""
        return view_page(self.record.to_dict(), repr(self), title=title)

    def save(self, path: str | Path) -> Path:
        """Write `page()` into a file, and give its path."""
        path = Path(path)
        path.write_text(self.page(path.stem), encoding="utf-8")
        return path
