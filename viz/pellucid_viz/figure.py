"""A figure: a record with the forms in which front ends show it."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

from pellucid_viz.render.html import (
    DEFAULT_HEIGHT,
    compressed_viewer,
    plain_viewer,
    view_html,
    view_page,
)
from pellucid_viz.render.markup import markup_of
from pellucid_viz.render.text import text_of


def mime_type(kind: str) -> str:
    """The MIME type under which records of a kind stand in notebooks.

    >>> mime_type("lens")
    'application/vnd.pellucid.lens.v1+json'
    """
    return f"application/vnd.pellucid.{kind.replace('_', '-')}.v1+json"


_ALONE_VARIABLES = ("VSCODE_PID", "KAGGLE_KERNEL_RUN_TYPE", "DATABRICKS_RUNTIME_VERSION")
_ALONE_MODULES = ("google.colab", "marimo")


def is_alone() -> bool:
    """Whether this kernel's front end is one that our extension can't be in, and that may show each output apart from others.

    Those are Visual Studio Code, Kaggle, Databricks, Colab and marimo.
    """
    return any(name in os.environ for name in _ALONE_VARIABLES) or any(
        name in sys.modules for name in _ALONE_MODULES
    )


STORED_IN_HTML = "text/html"
"""Value of `stored_in` of a record's MIME type: the record itself is in the HTML, so that it is stored once."""
MAX_PLAIN_LINES = 200
"""Lines of the text of a figure in a notebook; `repr` has all."""


class Figure:
    """Display of a record in a notebook: the interactive view, static HTML without it, text in a terminal.

    `record` is the data itself, for programs. The text and the HTML are made when somebody asks, unless a tool brings
    its own. The HTML holds the record; the first figure of a notebook holds the viewer, too, which draws all of them where scripts
    run, as in a page that nbconvert wrote. Where no extension can draw records, each figure holds the viewer.
    `Figure.has_scripts` says otherwise if it is set.

    >>> figure = Figure(pl.analysis.program(lambda x: x * 2.0, 1.0))
    >>> figure
    { lambda ; a:f32[]. let b:f32[] = mul a 2.0:f32[] in (b,) }
    >>> sorted(figure.bundle())
    ['application/vnd.pellucid.program.v1+json', 'text/html', 'text/plain']
    """

    has_scripts: bool | None = None
    """Whether the HTML of figures holds the viewer; None leaves it to `is_alone` and `carries_viewer`."""

    def __init__(self, record: Any, text: str | None = None, html: str | None = None) -> None:
        self.record = record
        self._text = text
        self._html = html

    def __repr__(self) -> str:
        if self._text is None:
            self._text = text_of(self.record)
        return self._text

    @property
    def static(self) -> str:
        """Markup that needs no script."""
        return markup_of(self.record, repr(self)) if self._html is None else self._html

    def bundle(self, *, viewer: str = "") -> dict[str, Any]:
        """The figure in all forms, by MIME type, with the HTML of a `viewer`.

        >>> figure = Figure(pl.analysis.program(lambda x: x * 2.0, 1.0))
        >>> figure.bundle()["application/vnd.pellucid.program.v1+json"]
        {'kind': 'program', 'schema_version': 1, 'stored_in': 'text/html'}
        """
        record = self.record
        stored = {
            "kind": record.kind,
            "schema_version": record.schema_version,
            "stored_in": STORED_IN_HTML,
        }
        return {
            mime_type(record.kind): stored,
            "text/html": view_html(record.to_dict(), self.static, viewer=viewer),
            "text/plain": _first_lines(repr(self)),
        }

    def displayed(self) -> dict[str, Any]:
        """The figure in all forms as a cell's output: with the viewer where the notebook needs it."""
        if is_alone() if self.has_scripts is None else self.has_scripts:
            alone = self.bundle(viewer=plain_viewer())
            return {name: alone[name] for name in ("text/html", "text/plain")}
        is_carrier = self.has_scripts is None and carries_viewer()
        return self.bundle(viewer=compressed_viewer() if is_carrier else "")

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return self.displayed()

    def widget(self, height: int = DEFAULT_HEIGHT) -> Any:
        """The interactive view as a live widget: its `record` can be replaced, its `selected` equations be followed.

        Raises: UnsupportedError where anywidget is not installed.
        """
        return importlib.import_module("pellucid_viz.widget").RecordWidget(
            record=self.record.to_dict(), text=repr(self), height=height
        )

    def chart(self) -> Any:
        """A plotly figure to be zoomed, exported and combined with others.

        Of `compiled` and `memory(f)`: memory in use over the run. Of `what_if`: time and peak memory of placements. Of a profile: its
        roofline. Of a divergence: the growth of the difference.

        Raises: ArgumentTypeError for a figure without a chart; UnsupportedError where plotly is not installed.
        """
        return importlib.import_module("pellucid_viz.charts").chart_of(self.record)

    def page(self, title: str = "pellucid") -> str:
        """The interactive view as a whole HTML document that needs nothing else: no kernel, no network."""
        return view_page(self.record.to_dict(), self.static, title=title)

    def save(self, path: str | Path) -> Path:
        """Write `page()` into a file, and give its path."""
        path = Path(path)
        path.write_text(self.page(path.stem), encoding="utf-8")
        return path


def carries_viewer() -> bool:
    """Whether the figure that is shown now is to hold the viewer: the first one of a kernel, and again when its cell runs again."""
    global _carrier
    ipython = sys.modules.get("IPython")
    shell: Any = None if ipython is None else ipython.get_ipython()
    if getattr(shell, "kernel", None) is None:
        return False
    cell = shell.get_parent().get("metadata", {}).get("cellId")
    run = (cell, shell.execution_count)
    if _carrier is None or (cell is not None and _carrier[0] == cell and _carrier != run):
        _carrier = run
        return True
    return False


_carrier: tuple[str | None, int] | None = None
"""Id of the cell whose output holds the viewer, and the count of its run."""


def _first_lines(text: str) -> str:
    lines = text.splitlines()
    more = len(lines) - MAX_PLAIN_LINES
    return (
        text
        if more <= 0
        else "\n".join([*lines[:MAX_PLAIN_LINES], f"… {more:,} more lines: print() shows all"])
    )
