"""Static picture of the shards of an array and their devices."""

from __future__ import annotations

import html
import itertools
from collections.abc import Iterator
from typing import NamedTuple

from pellucid.introspect.schema import ShardingRecord
from pellucid_viz.render.text import holders_of, processes_of, spans_processes

_WIDTH, _HEIGHT, _MARGIN = 420.0, 260.0, 18.0
_MAX_PARTS = 256
_CLOSE = 0.01
_HUES = (
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee8866", "#999933",
)  # fmt: skip
"""Colours that are distinguishable with any colour vision (Tol, 2021, "bright" and "muted")."""


class Box(NamedTuple):
    """A rectangle of the picture."""

    x: float
    y: float
    width: float
    height: float


def tiles_picture(record: ShardingRecord) -> str:
    """SVG of the shards along the last two dimensions, with the devices of each; empty if there are too many.

    Leading dimensions are shown at index 0.
    """
    holders = holders_of(record)
    shown = [tile for tile in range(len(holders)) if _is_in_front(record, tile)]
    if not shown or len(shown) > _MAX_PARTS:
        return ""
    ids = record.mesh.device_ids or list(range(len(record.device_tiles)))
    parts = []
    for tile in shown:
        box, names = _box(record, tile), ", ".join(str(ids[d]) for d in holders[tile])
        color = _HUES[holders[tile][0] % len(_HUES)]
        label = names if len(names) * 7 < box.width and box.height > 14 else ""
        parts.append(
            f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}"'
            f' fill="{color}" fill-opacity="0.55" stroke="currentColor" stroke-width="1">'
            f"<title>devices {html.escape(names)}</title></rect>"
            f'<text x="{box.x + box.width / 2:.1f}" y="{box.y + box.height / 2 + 4:.1f}" '
            f'text-anchor="middle" font-size="12" fill="currentColor">{label}</text>'
        )
    if spans_processes(record):
        owners = [processes_of(record, holders[tile]) for tile in shown]
        parts += _boundaries([_box(record, tile) for tile in shown], owners)
    picture = "".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="Parts and their devices" '
        f'width="{_WIDTH:.0f}" height="{_HEIGHT:.0f}" font-family="sans-serif">{picture}</svg>'
    )


def _boundaries(boxes: list[Box], owners: list[list[int]]) -> Iterator[str]:
    """Thick lines between neighbouring shards that belong to different processes."""
    for (a, processes), (b, other) in itertools.permutations(zip(boxes, owners, strict=True), 2):
        if processes == other:
            continue
        right, below = a.x + a.width, a.y + a.height
        if abs(right - b.x) < _CLOSE and a.y < b.y + b.height - _CLOSE and b.y < below - _CLOSE:
            line = (b.x, max(a.y, b.y), b.x, min(below, b.y + b.height))
        elif abs(below - b.y) < _CLOSE and a.x < b.x + b.width - _CLOSE and b.x < right - _CLOSE:
            line = (max(a.x, b.x), b.y, min(right, b.x + b.width), b.y)
        else:
            continue
        x1, y1, x2, y2 = line
        yield (
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="currentColor" '
            f'stroke-width="4"><title>process {_names(processes)} | process {_names(other)}</title></line>'
        )


def _names(processes: list[int]) -> str:
    return ", ".join(map(str, processes))


def _is_in_front(record: ShardingRecord, tile: int) -> bool:
    ndim = len(record.shape)
    hidden = record.tile_starts[tile * ndim : tile * ndim + max(ndim - 2, 0)]
    return not any(hidden)


def _box(record: ShardingRecord, tile: int) -> Box:
    """Rectangle of a shard. A vector is drawn horizontally, a scalar fills the picture."""
    ndim = len(record.shape)
    spans: list[tuple[float, float]] = []
    for dim in range(max(ndim - 2, 0), ndim):
        size = max(record.shape[dim], 1)
        start, stop = (x[tile * ndim + dim] for x in (record.tile_starts, record.tile_stops))
        spans.append((start / size, stop / size))
    (top, bottom), (left, right) = [(0.0, 1.0)] * (2 - len(spans)) + spans
    width = _WIDTH - 2 * _MARGIN
    height = (_HEIGHT - 2 * _MARGIN) * (1 if ndim >= 2 else 0.3)
    return Box(
        _MARGIN + left * width,
        _MARGIN + top * height,
        (right - left) * width,
        (bottom - top) * height,
    )
