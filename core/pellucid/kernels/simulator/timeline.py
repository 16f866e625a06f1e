"""What a machine did, as text: for each core when it computed and waited, when copies were in flight, and which lines waited longest."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .machine import Event, Machine


class Bubble(NamedTuple):
    """How many steps of simulated time the cores waited at a line, in all."""

    line: str
    steps: float


def bubbles(events: Iterable[Event]) -> list[Bubble]:
    """The lines at which cores waited, the longest first."""
    steps: defaultdict[str, float] = defaultdict(float)
    for event in events:
        if event.kind == "wait" and event.end > event.start:
            steps[event.line or "unknown"] += event.end - event.start
    return sorted([Bubble(*row) for row in steps.items()], key=lambda b: -b.steps)


def timeline(machine: Machine, width: int = 64) -> str:
    """Two rows for each core, of `width` characters: `#` where it computes and `.` where it waits; `=` where copies that it started are in flight.

    Below are the lines at which cores waited longest. One character stands for an equal part of the simulated time.
    """
    events = machine.trace
    total = max([event.end for event in events], default=0.0)
    if not total:
        return "nothing took time"
    cores = sorted({(event.device, event.core) for event in events})
    has_others = len({core for _, core in cores}) > 1
    rows = [f"{total:.1f} steps"]
    for device, core in cores:
        own = [e for e in events if (e.device, e.core) == (device, core)]
        name = f"device {device}" + (f", core {core}" if has_others else "")
        marks = _row(own, {"wait": ".", "compute": "#"}, total, width)
        copies = _row(own, {"copy": "="}, total, width)
        rows += [f"{name:<18}|{marks}|", f"{'  copies':<18}|{copies}|"]
    found = bubbles(events)
    if found:
        rows.append("waits, of all cores together:")
        rows += [f"  {bubble.steps:.1f} steps, {bubble.line}" for bubble in found[:4]]
    return "\n".join(rows)


def _row(events: Sequence[Event], marks: dict[str, str], total: float, width: int) -> str:
    """A character for each part of the time, of the last kind in `marks` that happened in it."""
    row = [" "] * width
    for kind, mark in marks.items():
        for event in events:
            if event.kind == kind and event.end > event.start:
                first = int(event.start / total * width)
                last = min(width, max(first + 1, math.ceil(event.end / total * width)))
                row[first:last] = mark * (last - first)
    return "".join(row)
