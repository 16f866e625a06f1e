"""A figure as a widget: a live view in a cell output, in every front end that shows anywidget."""

from __future__ import annotations

from pellucid.introspect.errors import UnsupportedError
from pellucid_viz.render.html import VIEWER

try:  # needed by widgets alone
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
    """The view of a record.

    A new `record` is shown in its place. `selected` are the equations that the user has selected in a program; setting
    it selects them.
    """

    _esm = VIEWER
    record = traitlets.Dict().tag(sync=True)
    text = traitlets.Unicode().tag(sync=True)
    height = traitlets.Int().tag(sync=True)
    selected = traitlets.List(traitlets.Int()).tag(sync=True)
