"""`what_if`: a figure of the estimated costs of a function under other placements."""

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
"""Time limit for a search requested by a view; no further estimate is started after it."""
MAX_ANSWERS = 64
"""Maximum number of earlier figures kept so that views of them can request further placements."""

_session, _numbers = uuid.uuid4().hex[:8], itertools.count(1)
_shown: weakref.WeakValueDictionary[str, WhatIfFigure] = weakref.WeakValueDictionary()


class WhatIfFigure(Figure):
    """The estimated costs of a function on another mesh or with other specs, compared with its current placement.

    `change` and `search` return further figures of the same function; estimates are cached. In a notebook with a
    running kernel, the figure has controls for both.
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
        self._first = weakref.ref(self)
        self.what_if = what_if
        self.placement = placement
        self.last_search = search

    def change(self, mesh: Any = None, specs: Mapping[str, Any] | None = None) -> WhatIfFigure:
        """A figure of the same function on another mesh, or with other specs for some arguments.

        `mesh` is a mesh, or axis sizes by name, with at most 4,096 devices, which need not exist; dimensions are no
        longer sharded over axes that it lacks. `specs` has PartitionSpecs by argument path, in which `*` matches any
        text.

        Raises: ArgumentTypeError if `mesh` or a spec has a wrong type; ArgumentValueError for paths that match no
        argument, and for too many devices; ShardingError if a spec doesn't fit.

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
        """A figure of the function with axis sizes by name, and the mesh axes of each dimension of each of
        `record.arguments`.
        """
        placement = self.what_if.placement_of(axis_sizes, dims, self.placement, self.last_search)
        return WhatIfFigure(self.what_if, placement, self.last_search)

    def asked(
        self,
        axis_sizes: Mapping[str, int],
        dims: Sequence[Sequence[Sequence[str]]],
        search_under: int | None,
    ) -> WhatIfFigure:
        """Answers a view's request: a placement like `placed` or, with `search_under` (bytes), the fastest placements
        that fit.
        """
        figure = self.placed(axis_sizes, dims)
        if search_under is not None:
            figure = figure.search(search_under, seconds=SEARCH_SECONDS)
        # The view requests the next figure by this one's key, and only the figure that a cell made keeps it alive: with that one the
        # answers are gone at once, as they refer to it weakly.
        first = self._first() or self
        first._answers.append(figure)
        figure._first = first._first
        return figure

    def search(
        self, memory_limit_bytes: int | None = None, count: int = 5, seconds: float = 10.0
    ) -> WhatIfFigure:
        """A figure of the same placement with a list of the `count` fastest placements found on the same number of
        devices.

        Only placements with a peak of at most `memory_limit_bytes` (default: the device's memory) are listed. No
        estimate is started after `seconds`.

        Raises: ArgumentValueError if `memory_limit_bytes`, `count` or `seconds` isn't positive.

        >>> x = pl.ShapeDtypeStruct((64, 32), "float32")
        >>> figure = what_if(lambda x: x.sum())(x).change({"data": 4}, {"x": pl.P("data")})
        >>> len(figure.search(count=1).record.best)
        1
        """
        search = analysis.fastest(self.what_if, self.placement, memory_limit_bytes, count, seconds)
        return WhatIfFigure(self.what_if, self.placement, search)

    def widget(self, height: int = DEFAULT_HEIGHT) -> Any:
        """Live view with a slider for each mesh axis, and axes that can be dropped on dimensions.

        Raises: UnsupportedError if anywidget is not installed.
        """
        module = importlib.import_module("pellucid_viz.placement_widget")
        return module.WhatIfWidget(self, height=height)


def what_if(
    function: Callable[..., Any], *args: Any, device: str | analysis.Machine = "H100"
) -> Callable[..., WhatIfFigure]:
    """A function that estimates what a call would cost over another mesh, beside how its arguments lie today.

    Bytes per device, collectives by axis and line, peak memory and run time are estimated without compiling and without
    devices. `figure.change(mesh, specs)` shows another placement, `figure.search()` the fastest ones found,
    `figure.widget()` controls for both. Arguments are arrays or ShapeDtypeStructs. Times are for `device`: `"A100"`,
    `"H100"`, `"H200"` or an `analysis.Machine`.

    Raises: ArgumentTypeError for anything that isn't a function; with the arguments, ArgumentValueError for another device, and for
    arguments that lie over several meshes; what the function raises when it is traced.

    >>> x = pl.ShapeDtypeStruct((64, 32), "float32")
    >>> figure = what_if(lambda x: x.sum())(x)
    >>> figure.change(mesh={"data": 16}, specs={"x": pl.P("data")}).record.placement.sent_bytes
    8
    """
    check_function(function, "what_if")
    if args:
        raise ArgumentTypeError(
            "what_if needs the arguments of the function in a second call.",
            got=f"got {len(args)} beside the function",
            do="Write pl.viz.what_if(f)(x).",
        )

    def estimate(*args: Any) -> WhatIfFigure:
        possible = analysis.WhatIf(function, *args, device=device)
        return WhatIfFigure(possible, possible.today)

    return estimate


def placement_record(
    figure: str,
    axis_sizes: Mapping[str, int],
    dims: Sequence[Sequence[Sequence[str]]],
    search_under: int | None,
) -> schema.WhatIfRecord:
    """The record of another placement of a figure given by its key. If it is invalid, the figure's own record with the
    reason.

    Raises: ArgumentValueError if the figure no longer exists.
    """
    shown = _shown.get(figure)
    if shown is None:
        raise ArgumentValueError(
            "this figure is gone: nothing holds it any more, or its kernel has ended.",
            do="Run the cell that made it again; `figure.change(mesh, specs)` shows other placements, too.",
        )
    try:
        return shown.asked(axis_sizes, dims, search_under).record
    except Exception as error:  # errors of the user's function are shown as the answer
        return dataclasses.replace(shown.record, refusal=str(error))
