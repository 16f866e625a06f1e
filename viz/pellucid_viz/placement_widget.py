"""Widget of `what_if`: a slider for each mesh axis, axes to drop on dimensions, and a search."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import traitlets

from pellucid_viz.widget import RecordWidget

if TYPE_CHECKING:
    from pellucid_viz.placements import WhatIfFigure


class WhatIfWidget(RecordWidget):
    """Live view of a `WhatIfFigure`.

    `figure` is the displayed figure. `mesh`, the axis sizes by name, can be observed and set.
    """

    request = traitlets.Dict().tag(sync=True)
    """Placement requested by the front end: `axes`, `dims`, `searchUnder`, and the `number` of the request."""
    answered = traitlets.Int().tag(sync=True)
    """Number of requests that were answered."""
    mesh = traitlets.Dict()

    def __init__(self, figure: WhatIfFigure, height: int) -> None:
        super().__init__(text=repr(figure), height=height)
        self.show(figure)
        self.observe(self._answer, "request")
        self.observe(self._place, "mesh")

    def show(self, figure: WhatIfFigure) -> None:
        """Replaces the displayed figure."""
        self.figure = figure
        self.record = figure.record.to_dict()
        self.mesh = dict(figure.placement.mesh.shape)

    def _place(self, change: Any) -> None:
        """Shows the function on the mesh that was set. Raises the errors of `change`."""
        if dict(change["new"]) == dict(self.figure.placement.mesh.shape):
            return
        try:
            self.show(self.figure.change(dict(change["new"])))
        except Exception:
            self.mesh = dict(self.figure.placement.mesh.shape)
            raise

    def _answer(self, change: Any) -> None:
        request = change["new"]
        try:
            asked = dict(request["axes"]), request["dims"], request["searchUnder"]
            self.show(self.figure.asked(*asked))
        except Exception as error:  # errors of the user's function are shown as the answer
            refused = dataclasses.replace(self.figure.record, refusal=str(error))
            self.record = refused.to_dict()
        self.answered += 1
