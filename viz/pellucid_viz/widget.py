"""Figures as live widgets, in every front end that supports anywidget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pellucid.introspect.errors import UnsupportedError
from pellucid_viz.render.html import VIEWER

try:  # only widgets need it
    import anywidget
    import traitlets
except ImportError as error:
    raise UnsupportedError(
        "a figure can't become a widget: anywidget is not installed.",
        do="Install it: pip install anywidget.",
    ) from error

if not VIEWER.exists():
    raise UnsupportedError(
        "a figure can't become a widget: the viewer is not built.",
        do="Run `npm run build:standalone` in lab-extension.",
    )


class RecordWidget(anywidget.AnyWidget):
    """Live view of a record.

    Assigning `record` replaces the view's content. `selected` has the rows of the equations that the user has selected,
    and can be set. `selection` describes these equations, for other widgets to observe.

    >>> widget = pl.viz.program(lambda x: jnp.sin(x) * 2.0)(1.0).widget()
    >>> widget.selected = [1]
    >>> [(each["primitive"], each["line"]) for each in widget.selection]
    [('mul', 1)]
    """

    _esm = VIEWER
    record = traitlets.Dict().tag(sync=True)
    text = traitlets.Unicode().tag(sync=True)
    height = traitlets.Int().tag(sync=True)
    selected = traitlets.List(traitlets.Int()).tag(sync=True)
    selection = traitlets.List(traitlets.Dict())
    """For each selected equation its `id`, `primitive`, `source` and `line`; the last two are None if unknown."""

    @traitlets.observe("selected", "record")
    def _describe_selected(self, _: Any) -> None:
        record = self.record
        program = record if record.get("kind") == "program" else record.get("program")
        self.selection = [] if program is None else equations_of(program, self.selected)


def equations_of(program: Mapping[str, Any], rows: Sequence[int]) -> list[dict[str, Any]]:
    """Descriptions of the equations of a program record, given by row."""
    equations, spans = program["equations"], program["spans"]
    described = []
    for row in rows:
        if row >= len(equations["id"]):
            continue
        span = equations["span"][row]
        described.append(
            {
                "id": equations["id"][row],
                "primitive": program["strings"][equations["primitive"][row]],
                "source": program["sources"][spans["source"][span]]["name"] if span >= 0 else None,
                "line": spans["line"][span] if span >= 0 else None,
            }
        )
    return described
