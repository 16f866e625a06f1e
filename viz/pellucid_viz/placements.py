"""Placements that a function could have, as a figure: `pellucid.viz.what_if`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pellucid import analysis
from pellucid.introspect import schema
from pellucid_viz.figure import Figure
from pellucid_viz.render.html import DEFAULT_HEIGHT


class WhatIfFigure(Figure):
    """A function over another mesh, or with other specs, beside how its arguments lie today.

    `change` and `search` give further figures of the same function; estimates are remembered.
    """

    record: schema.WhatIfRecord

    def __init__(
        self,
        what_if: analysis.WhatIf,
        placement: analysis.Placement,
        search: analysis.Search | None = None,
    ) -> None:
        super().__init__(what_if.record(placement, search))
        self.what_if = what_if
        self.placement = placement
        self.last_search = search

    def change(self, mesh: Any = None, specs: Mapping[str, Any] | None = None) -> WhatIfFigure:
        """The same function with another mesh, and with other specs for some arguments.

        `mesh` is a mesh or sizes by axis name, of at most 4,096 devices that need not exist; axes that it lacks divide
        nothing any more. `specs` has PartitionSpecs by path of an argument, in which `*` stands for any text.

        Raises: ArgumentTypeError for another mesh or spec; ArgumentValueError for paths that no argument has, and for too
        many devices; ShardingError where a spec doesn't fit.

        >>> x = pl.ShapeDtypeStruct((64, 32), "float32")
        >>> figure = what_if(lambda x: x.sum(), x)
        >>> changed = figure.change({"data": 16, "model": 2}, {"x": pl.P("data", "model")})
        >>> changed.record.arguments[0].device_bytes
        256
        """
        placement = self.what_if.placement(mesh, specs, self.placement)
        return WhatIfFigure(self.what_if, placement, self.last_search)

    def placed(
        self, axis_sizes: Mapping[str, int], dims: Sequence[Sequence[Sequence[str]]]
    ) -> WhatIfFigure:
        """The same function with sizes by axis name, and for each of `record.arguments` the axes of each dimension."""
        placement = self.what_if.placement_of(axis_sizes, dims, self.placement, self.last_search)
        return WhatIfFigure(self.what_if, placement, self.last_search)

    def search(
        self, memory_limit_bytes: int | None = None, count: int = 5, seconds: float = 10.0
    ) -> WhatIfFigure:
        """The same placement with a list of the `count` fastest that were found over as many devices.

        Only placements whose peak is at most `memory_limit_bytes` are listed, by default the memory of the device.
        No estimate is begun after `seconds`.

        Raises: ArgumentValueError for a limit, a count or a time that isn't positive.

        >>> x = pl.ShapeDtypeStruct((64, 32), "float32")
        >>> figure = what_if(lambda x: x.sum(), x).change({"data": 4}, {"x": pl.P("data")})
        >>> len(figure.search(count=1).record.best)
        1
        """
        search = analysis.fastest(self.what_if, self.placement, memory_limit_bytes, count, seconds)
        return WhatIfFigure(self.what_if, self.placement, search)

    def widget(self, height: int = DEFAULT_HEIGHT) -> Any:
        """The live view: a slider for each mesh axis, and axes that can be dropped on dimensions.

        Raises: UnsupportedError where anywidget is not installed.
        """
        module = importlib.import_module("pellucid_viz.placement_widget")
        return module.WhatIfWidget(self, height=height)


def what_if(function: Callable[..., Any], *args: Any, device: Any = "H100") -> WhatIfFigure:
    """Estimated costs of a function with its arguments over another mesh, beside how they lie today.

    Bytes on each device, exchanges by axis and line, peak memory and the time of a run are estimated without compiling and
    without devices; `figure.change(mesh, specs)` shows another placement, `figure.search()` the fastest that it finds,
    `figure.widget()` controls for both. Arguments are arrays or ShapeDtypeStructs. Times are for `device`, `"A100"`, `"H100"`,
    `"H200"` or an `analysis.Machine`.

    Raises: ArgumentTypeError for what is no function; ArgumentValueError for another device, and for arguments that lie
    over several meshes; what the function raises when it is traced.

    >>> x = pl.ShapeDtypeStruct((64, 32), "float32")
    >>> figure = what_if(lambda x: x.sum(), x)
    >>> figure.change(mesh={"data": 16}, specs={"x": pl.P("data")}).record.placement.sent_bytes
    8
    """
    possible = analysis.WhatIf(function, *args, device=device)
    return WhatIfFigure(possible, possible.today)
