"""Durations and lines as text."""

from __future__ import annotations

import linecache

from pellucid_profiler.sources import Place


def line_text(place: Place | None) -> str:
    """File, number and text of a line."""
    if place is None:
        return "(no line)"
    code = linecache.getline(place.file, place.line).strip()
    return f"{place.file.rpartition('/')[2]}:{place.line} {code}"


def seconds_text(seconds: float) -> str:
    """A duration in the unit that fits.

    >>> seconds_text(0.0123)
    '12.3 ms'
    """
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1 or unit == "µs":
            return f"{seconds * factor:.3g} {unit}"
    return "0 s"
