"""Placements that a function could have, as a figure: `pellucid.viz.what_if`."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import uuid
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pellucid import analysis
from pellucid.introspect import schema
from pellucid.introspect.errors import ArgumentTypeError, ArgumentValueError
from pellucid_viz.figure import Figure
from pellucid_viz.figures import check_function
from pellucid_viz.render.html import DEFAULT_HEIGHT

SEARCH_SECONDS = 10.0
"""Time after which a search that a view asks for begins no further estimate."""
MAX_ANSWERS = 64
"""Figures of other placements that a figure keeps for the views of it, from which they ask for further ones."""

_session, _numbers = uuid.uuid4().hex[:8], itertools.count(1)
_shown: weakref.WeakValueDictionary[str, WhatIfFigure] = weakref.WeakValueDictionary()


class WhatIfFigure(Figure):
    """A function over another mesh, or with other specs, beside how its arguments lie today.

    `change` and `search` give further figures of the same function; estimates are remembered. Where a kernel lives, the
    figure in a notebook has controls for both.
    """

    record: schema.WhatIfRecord

    def __init__(
        self,
        what_if: analysis.WhatIf,
        placement: analysis.Placement,
        search: analysis.Search | None = None,
    ) -> None:
        key = f"{_session}-{next(_numbers)}"
        super().__init__(dataclasses.replace(what_if.record(placement, search), figure=key))
        _shown[key] = self
        self._answers: deque[WhatIfFigure] = deque(maxlen=MAX_ANSWERS)
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
        >>> figure = what_if(lambda x: x.sum())(x)
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

    def asked(
        self,
        axis_sizes: Mapping[str, int],
        dims: Sequence[Sequence[Sequence[str]]],
        search_under: int | None,
    ) -> WhatIfFigure:
        """What a view asks for: a placement as `placed` takes it, and with a limit in bytes the fastest below it."""
        figure = self.placed(axis_sizes, dims)
        if search_under is not None:
            figure = figure.search(search_under, seconds=SEARCH_SECONDS)
        # The view asks for the next one by this one's name, and nobody else holds it.
        figure._answers = self._answers
        self._answers.append(figure)
        return figure

    def search(
        self, memory_limit_bytes: int | None = None, count: int = 5, seconds: float = 10.0
    ) -> WhatIfFigure:
        """The same placement with a list of the `count` fastest that were found over as many devices.

        Only placements whose peak is at most `memory_limit_bytes` are listed, by default the memory of the device.
        No estimate is begun after `seconds`.

        Raises: ArgumentValueError for a limit, a count or a time that isn't positive.

        >>> x = pl.ShapeDtypeStruct((64, 32), "float32")
        >>> figure = what_if(lambda x: x.sum())(x).change({"data": 4}, {"x": pl.P("data")})
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


def what_if(
    function: Callable[..., Any], *args: Any, device: str | analysis.Machine = "H100"
) -> Callable[..., WhatIfFigure]:
    """A function that estimates what a call would cost over another mesh, beside how its arguments lie today.

    Bytes on each device, exchanges by axis and line, peak memory and the time of a run are estimated without compiling and
    without devices; `figure.change(mesh, specs)` shows another placement, `figure.search()` the fastest that it finds,
    `figure.widget()` controls for both. Arguments are arrays or ShapeDtypeStructs. Times are for `device`, `"A100"`, `"H100"`,
    `"H200"` or an `analysis.Machine`.

    Raises: ArgumentTypeError for what is no function; with the arguments, ArgumentValueError for another device, and for
    arguments that lie over several meshes; what the function raises when it is traced.

    >>> x = pl.ShapeDtypeStruct((64, 32), "float32")
    >>> figure = what_if(lambda x: x.sum())(x)
    >>> figure.change(mesh={"data": 16}, specs={"x": pl.P("data")}).record.placement.sent_bytes
    8
    """
    check_function(function, "what_if")
    if args:
        raise ArgumentTypeError(
            "what_if takes the arguments of the function in a second call.",
            got=f"got {len(args)} beside the function",
            do="Write pl.viz.what_if(f)(x).",
        )

    def estimated(*args: Any) -> WhatIfFigure:
        possible = analysis.WhatIf(function, *args, device=device)
        return WhatIfFigure(possible, possible.today)

    return estimated


def placement_record(
    figure: str,
    axis_sizes: Mapping[str, int],
    dims: Sequence[Sequence[Sequence[str]]],
    search_under: int | None,
) -> schema.WhatIfRecord:
    """The record of another placement of the figure with this name; where it can't be, that figure's with the reason.

    Raises: ArgumentValueError if nobody holds the figure any more.
    """
    shown = _shown.get(figure)
    if shown is None:
        raise ArgumentValueError(
            "this figure is gone: nothing holds it any more, or its kernel has ended.",
            do="Run the cell that made it again; `figure.change(mesh, specs)` shows other placements, too.",
        )
    try:
        return shown.asked(axis_sizes, dims, search_under).record
    except Exception as error:  # what the user's function raises is an answer, too
        return dataclasses.replace(shown.record, refusal=str(error))
