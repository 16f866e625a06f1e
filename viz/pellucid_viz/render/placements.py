"""Text and tables of the costs of a function on a hypothetical mesh, compared with its current placement."""

from __future__ import annotations

import math

from pellucid.introspect.schema import ExchangeCostRecord, PlacementRecord, WhatIfRecord
from pellucid.introspect.values import bytes_text
from pellucid_viz.render.quantities import seconds_text
from pellucid_viz.render.sharded import REASONS

HOW = (
    "figure.change(mesh, specs) shows another placement, figure.search() the fastest ones; where the kernel lives, "
    "the figure in a notebook has controls for both."
)


def is_today(record: WhatIfRecord) -> bool:
    """Whether the displayed placement is the current one."""
    placement, today = record.placement, record.today
    return (placement.axis_names, placement.axis_sizes, placement.dim_axes) == (
        today.axis_names, today.axis_sizes, today.dim_axes,
    )  # fmt: skip


def heads(record: WhatIfRecord) -> list[str]:
    """Column titles of `facts`."""
    return ["", "today"] if is_today(record) else ["", "today", "what if"]


def mesh_text(placement: PlacementRecord) -> str:
    """Mesh axes with their sizes, and the number of devices."""
    sizes = zip(placement.axis_names, placement.axis_sizes, strict=True)
    count = math.prod(placement.axis_sizes)
    axes = ", ".join(f"{name}={size}" for name, size in sizes)
    return f"{axes} ({count} {'device' if count == 1 else 'devices'})"


def dims_text(dims: list[list[str]]) -> str:
    """Text of the PartitionSpec of an array.

    >>> dims_text([["data"], [], ["x", "y"]]), dims_text([[], []])
    ("P('data', None, ('x', 'y'))", 'P()')
    """
    entries = [
        "None"
        if not axes
        else repr(axes[0])
        if len(axes) == 1
        else f"({', '.join(map(repr, axes))})"
        for axes in dims
    ]
    while entries and entries[-1] == "None":
        entries.pop()
    return f"P({', '.join(entries)})"


def seconds_of(placement: PlacementRecord) -> float:
    """Estimated time of a run, in seconds."""
    return placement.compute_seconds + placement.exchange_seconds


def facts(record: WhatIfRecord) -> list[list[str]]:
    """Rows with the costs of a run in the current and, if different, the displayed placement; `≈` marks estimates."""
    columns = [
        [
            mesh_text(each),
            bytes_text(each.argument_bytes),
            f"≈ {bytes_text(each.peak_bytes)}",
            f"≈ {each.exchange_count}, {bytes_text(each.sent_bytes)} sent",
            f"≈ {seconds_text(seconds_of(each))}",
            f"≈ {seconds_text(each.compute_seconds)}",
            f"≈ {seconds_text(each.exchange_seconds)}",
        ]
        for each in ((record.today,) if is_today(record) else (record.today, record.placement))
    ]
    names = (
        "mesh", "arguments on each device", "peak memory of each device", "collectives",
        f"time of a run on {record.device_kind}", "  of which computing", "  of which exchanging",
    )  # fmt: skip
    return [list(row) for row in zip(names, *columns, strict=True)]


def argument_rows(record: WhatIfRecord) -> list[list[str]]:
    """Rows with each argument's type, current and displayed spec, and bytes per device."""
    shown = [record.today] if is_today(record) else [record.today, record.placement]
    return [
        [
            each.name + (f" (× {each.count})" if each.count > 1 else ""),
            each.type,
            *(dims_text(placement.dim_axes[place]) for placement in shown),
            bytes_text(each.device_bytes),
        ]
        for place, each in enumerate(record.arguments)
    ]


def exchange_row(each: ExchangeCostRecord) -> list[str]:
    """Table row of some collectives: operation, axes, bytes, time, reason and line."""
    line = "" if each.source is None else f"{each.source.name}, line {each.line}"
    return [
        f"{each.operation} over {', '.join(each.axes)}"
        + (f" × {each.count}" if each.count > 1 else ""),
        bytes_text(each.sent_bytes),
        seconds_text(each.seconds),
        REASONS[each.reason],
        " in ".join(filter(None, (each.primitive, line))),
    ]


def best_rows(record: WhatIfRecord) -> list[list[str]]:
    """Rows with the placements found by a search: mesh, time, peak, and arguments with other specs than displayed."""
    return [
        [
            mesh_text(each),
            f"≈ {seconds_text(seconds_of(each))}",
            f"≈ {bytes_text(each.peak_bytes)}",
            "; ".join(
                f"{argument.name}: {dims_text(dims)}"
                for argument, dims, shown in zip(
                    record.arguments, each.dim_axes, record.placement.dim_axes, strict=True
                )
                if dims != shown
            )
            or "specs as shown",
        ]
        for each in record.best
    ]


def search_text(record: WhatIfRecord) -> str:
    """Text with the numbers of placements that a search estimated, excluded and skipped."""
    text = (
        f"{record.examined_count} placements estimated under {bytes_text(record.memory_limit_bytes)}, "
        f"{record.excluded_count} don't fit"
    )
    return text + (f", no time for {record.remaining_count}" if record.remaining_count else "")
