"""Plotly charts of figures, which can be zoomed, exported and combined: `figure.chart()`."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

from pellucid.introspect.errors import ArgumentTypeError, UnsupportedError
from pellucid.introspect.schema import CompiledRecord, PlacementRecord, WhatIfRecord
from pellucid_viz.render.live_memory import live_bytes
from pellucid_viz.render.outline import Outline
from pellucid_viz.render.placements import mesh_text, seconds_of


def chart_of(record: Any) -> Any:
    """Converts a record to a `plotly.graph_objects.Figure`.

    Raises: ArgumentTypeError if there is no chart for the kind of record; UnsupportedError if plotly is not installed.
    """
    draw = _CHARTS.get(record.kind)
    if draw is None:
        raise ArgumentTypeError(
            "this figure has no chart.",
            got=f"got a figure of kind {record.kind!r}",
            do="Charts are of `compiled`, `memory(f)`, `what_if`, profiles and divergences.",
        )
    try:
        plotly = importlib.import_module("plotly.graph_objects")
    except ImportError as error:
        raise UnsupportedError(
            "a figure can't become a chart: plotly is not installed.",
            do="Install it: pip install plotly.",
        ) from error
    return draw(record, plotly)


def _memory(record: CompiledRecord, plotly: Any) -> Any:
    """Memory in use over the run of an optimized program, computed from the lifetimes of its values."""
    if record.program is None:
        raise ArgumentTypeError(
            "this executable has no chart of its memory.", got="got one without its program"
        )
    outline = Outline(record.program)
    steps, curve = live_bytes(outline)
    places = [f"{outline.primitive(step)}<br>{outline.place(step)}" for step in steps]
    line = plotly.Scatter(
        y=curve, mode="lines", line_shape="hv", fill="tozeroy", text=places,
        hovertemplate="%{y:.4s}B at %{text}<extra></extra>",
    )  # fmt: skip
    return _figure(
        plotly, [line], f"Memory over {record.name}", "operation, in order", "bytes in use"
    )


def _what_if(record: WhatIfRecord, plotly: Any) -> Any:
    """Time and peak memory of placements: the current one, the displayed one, and the best ones found."""
    groups: list[tuple[str, list[PlacementRecord]]] = [
        ("today", [record.today]),
        ("what if", [record.placement]),
        ("found", record.best),
    ]
    traces = [
        plotly.Scatter(
            x=[each.peak_bytes for each in placements],
            y=[seconds_of(each) for each in placements],
            mode="markers",
            name=name,
            marker_size=11,
            text=[mesh_text(each) for each in placements],
            hovertemplate="%{text}<br>%{y:.3s}s, %{x:.4s}B<extra></extra>",
        )
        for name, placements in groups
        if placements
    ]
    figure = _figure(
        plotly, traces, f"{record.name} for {record.device_kind}, estimated",
        "peak memory of each device in bytes", "time of a run in seconds",
    )  # fmt: skip
    if any(
        each.peak_bytes > record.memory_limit_bytes / 4 for each in (record.today, *record.best)
    ):
        figure.add_vline(x=record.memory_limit_bytes, line_dash="dash")
    return figure


def _roofline(record: Any, plotly: Any) -> Any:
    """Roofline: arithmetic intensity and rate of a profile's operations, with the device's peak rates."""
    operations, peaks = record.operations, record.peaks
    columns = zip(
        operations.name, operations.seconds, operations.flops, operations.bytes, strict=True
    )
    points = [
        (record.strings[name], flops / size, flops / seconds, seconds)
        for name, seconds, flops, size in columns
        if seconds and flops and size
    ]
    names, intensities, rates, seconds = (
        map(list, zip(*points, strict=True)) if points else ([],) * 4
    )
    sizes = [6 + 18 * math.sqrt(each / max(seconds)) for each in seconds]
    dots = plotly.Scatter(
        x=intensities, y=rates, mode="markers", marker_size=sizes, text=names, name="operations",
        hovertemplate="%{text}<br>%{y:.3s}flop/s<extra></extra>",
    )  # fmt: skip
    traces = [dots]
    if peaks is not None:
        ridge = peaks.flops_per_second / peaks.bytes_per_second
        ends = [min([ridge, *intensities]) / 2, ridge, max([ridge, *intensities]) * 2]
        roof = [min(peaks.flops_per_second, each * peaks.bytes_per_second) for each in ends]
        traces.insert(0, plotly.Scatter(x=ends, y=roof, mode="lines", name=peaks.device_kind))
    figure = _figure(plotly, traces, "Roofline", "flops per byte", "flop/s")
    return figure.update_xaxes(type="log").update_yaxes(type="log")


def _errors(record: Any, plotly: Any) -> Any:
    """Relative difference of two runs, equation by equation."""
    equations = record.equations
    line = plotly.Scatter(
        y=equations.error, mode="lines+markers", text=equations.line,
        hovertemplate="%{y:.3g} at %{text}<extra></extra>",
    )  # fmt: skip
    figure = _figure(
        plotly, [line], f"{record.a} and {record.b}", "equation, in order", "relative difference"
    )
    return figure.update_yaxes(type="log")


def _figure(plotly: Any, traces: list[Any], title: str, x: str, y: str) -> Any:
    layout = {"title": title, "xaxis_title": x, "yaxis_title": y, "showlegend": len(traces) > 1}
    return plotly.Figure(traces, layout)


_CHARTS: dict[str, Callable[[Any, Any], Any]] = {
    "compiled": _memory,
    "what_if": _what_if,
    "profile": _roofline,
    "divergence": _errors,
}
