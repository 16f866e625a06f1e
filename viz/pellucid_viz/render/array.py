"""Array values as text and static HTML."""

from __future__ import annotations

import html
import math
from itertools import pairwise

from pellucid.introspect.schema import ArrayValuesRecord

_WIDTH, _HEIGHT = 240, 60
_CELL = 4
FEW_VALUES = 4
"""Up to this size, an array's values are shown instead of a picture."""
_POSITIVE, _NEGATIVE, _ABSENT = "#d2603a", "#3566d6", "#8b98a6"
_BLOCKS = " ▁▂▃▄▅▆▇█"


def array_facts(record: ArrayValuesRecord) -> list[str]:
    """Texts with the counts and the range of an array's values."""
    if record.note:
        return [record.note]
    counts = (
        (record.nan_count, "NaN"),
        (record.infinite_count, "infinite"),
        (record.zero_count, "zero"),
    )
    facts = [f"{count:,} {name}" for count, name in counts if count]
    if record.low is not None:
        what = "absolute values" if record.is_absolute else "values"
        facts = [
            f"{what} {record.low:.6g} to {record.high:.6g}",
            f"mean {record.mean:.6g}",
            *facts,
        ]
    return facts


def array_text(record: ArrayValuesRecord) -> str:
    """Counts, range, and the histogram as a row of block characters."""
    rows = [record.type, *array_facts(record)]
    if record.low != record.high and record.sample_count > FEW_VALUES:
        rows.append("".join(_BLOCKS[math.ceil(8 * n / max(record.bins))] for n in record.bins))
    return "\n".join(rows)


def array_markup(record: ArrayValuesRecord) -> str:
    """Counts and range, with the histogram and the heat map as SVG."""
    facts = ", ".join(map(html.escape, array_facts(record)))
    pictures = [picture for picture in (_histogram(record), _heat_map(record)) if picture]
    return (
        f"<p><code>{html.escape(record.type)}</code> {facts}</p>"
        + " ".join(pictures)
        + f"<pre>{html.escape(record.numbers)}</pre>"
    )


def _histogram(record: ArrayValuesRecord) -> str:
    highest = max(record.bins, default=0)
    if not highest or record.sample_count <= FEW_VALUES:
        return ""
    width = _WIDTH / len(record.bins)
    bars = "".join(
        f'<rect x="{i * width:.1f}" y="{_HEIGHT * (1 - n / highest):.1f}" '
        f'width="{width:.1f}" height="{_HEIGHT * n / highest:.1f}"/>'
        for i, n in enumerate(record.bins)
    )
    return _picture("Histogram", _WIDTH, _HEIGHT, f'<g fill="{_NEGATIVE}">{bars}</g>')


def _heat_map(record: ArrayValuesRecord) -> str:
    if not record.cells or record.sample_count <= FEW_VALUES:
        return ""
    largest = max((abs(x) for row in record.cells for x in row if x is not None), default=0.0)
    rows = []
    for i, row in enumerate(record.cells):
        # Adjacent cells of one colour are drawn as one rectangle.
        shades = [_shade(x, largest) for x in row]
        edges = [0, *(j for j in range(1, len(row)) if shades[j] != shades[j - 1]), len(row)]
        rows += [
            f'<rect x="{a * _CELL}" y="{i * _CELL}" width="{(b - a) * _CELL}" height="{_CELL}" '
            f'fill="{shades[a][0]}" fill-opacity="{shades[a][1]}"/>'
            for a, b in pairwise(edges)
        ]
    width, height = len(record.cells[0]) * _CELL, len(record.cells) * _CELL
    return _picture("Heat map", width, height, "".join(rows))


def _shade(x: float | None, largest: float) -> tuple[str, float]:
    if x is None:
        return _ABSENT, 0.5
    return _POSITIVE if x >= 0 else _NEGATIVE, round(abs(x) / largest, 1) if largest else 0.0


def _picture(label: str, width: int, height: int, content: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label}" '
        f'width="{width}" height="{height}" style="border: 1px solid currentColor">{content}</svg>'
    )
