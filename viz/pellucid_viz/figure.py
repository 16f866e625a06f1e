"""`Figure`: a record with its representations for front ends."""

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
    """MIME type of records of a kind in notebooks.

    >>> mime_type("lens")
    'application/vnd.pellucid.lens.v1+json'
    """
    return f"application/vnd.pellucid.{kind.replace('_', '-')}.v1+json"


_ALONE_VARIABLES = ("VSCODE_PID", "KAGGLE_KERNEL_RUN_TYPE", "DATABRICKS_RUNTIME_VERSION")
_ALONE_MODULES = ("google.colab", "marimo")


def is_alone() -> bool:
    """Whether the front end can't load our extension and may show each output in a page of its own.

    That is the case in Visual Studio Code, Kaggle, Databricks, Colab and marimo.
    """
    return any(name in os.environ for name in _ALONE_VARIABLES) or any(
        name in sys.modules for name in _ALONE_MODULES
    )


STORED_IN_HTML = "text/html"
"""Value of `stored_in` of a record's MIME type: the record is in the HTML, so that notebooks store it only once."""
MAX_PLAIN_LINES = 200
"""Maximum number of lines of a figure's plain text in a notebook; `repr` has all lines."""


class Figure:
    """Display of a record: an interactive view in notebooks, static HTML without the extension, text in a terminal.

    `record` is the data for use in programs. Text and HTML are generated on demand, unless a tool passes its own. The
    HTML contains the record. The first figure of a notebook also contains the viewer, a script that draws all records
    of the page, for example in a page written by nbconvert. In front ends that can't load the extension, each figure
    contains the viewer. `Figure.has_scripts` overrides this.

    >>> figure = Figure(pl.analysis.program(lambda x: x * 2.0, 1.0))
    >>> figure
    { lambda ; a:f32[]. let b:f32[] = mul a 2.0:f32[] in (b,) }
    >>> sorted(figure.bundle())
    ['application/vnd.pellucid.program.v1+json', 'text/html', 'text/plain']
    """

    has_scripts: bool | None = None
    """Whether the HTML of figures contains the viewer; None decides by `is_alone` and `carries_viewer`."""

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
        """HTML of the figure that works without scripts."""
        return markup_of(self.record, repr(self)) if self._html is None else self._html

    def bundle(self, *, viewer: str = "") -> dict[str, Any]:
        """MIME bundle of the figure; its HTML includes `viewer`, a script element.

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
        """MIME bundle for a cell's output, with the viewer if the notebook needs it."""
        if is_alone() if self.has_scripts is None else self.has_scripts:
            alone = self.bundle(viewer=plain_viewer())
            return {name: alone[name] for name in ("text/html", "text/plain")}
        is_carrier = self.has_scripts is None and carries_viewer()
        return self.bundle(viewer=compressed_viewer() if is_carrier else "")

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return self.displayed()

    def widget(self, height: int = DEFAULT_HEIGHT) -> Any:
        """The interactive view as a live widget: its `record` can be replaced, and its `selected` equations observed.

        Raises: UnsupportedError if anywidget is not installed.
        """
        return importlib.import_module("pellucid_viz.widget").RecordWidget(
            record=self.record.to_dict(), text=repr(self), height=height
        )

    def chart(self) -> Any:
        """A plotly figure, which can be zoomed, exported and combined with others.

        For `compiled` and `memory(f)`: memory in use over the run. For `what_if`: time and peak memory of placements.
        For a profile: its roofline. For a divergence: the errors by equation.

        Raises: ArgumentTypeError for a figure without a chart; UnsupportedError if plotly is not installed.
        """
        return importlib.import_module("pellucid_viz.charts").chart_of(self.record)

    def page(self, title: str = "pellucid") -> str:
        """The interactive view as a self-contained HTML document, which needs neither kernel nor network."""
        return view_page(self.record.to_dict(), self.static, title=title)

    def save(self, path: str | Path) -> Path:
        """Writes `page()` to a file, and returns its path."""
        path = Path(path)
        path.write_text(self.page(path.stem), encoding="utf-8")
        return path


def carries_viewer() -> bool:
    """Whether the figure displayed now contains the viewer: the first one of a kernel, again if its cell runs again."""
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
"""The output that contains the viewer: (id of its cell, execution count)."""


def _first_lines(text: str) -> str:
    lines = text.splitlines()
    more = len(lines) - MAX_PLAIN_LINES
    return (
        text
        if more <= 0
        else "\n".join([*lines[:MAX_PLAIN_LINES], f"… {more:,} more lines: print() shows all"])
    )
