"""A session as text: totals, findings, lines and operations."""

from __future__ import annotations

import linecache
from collections.abc import Iterator

from pellucid_profiler.session import LineRow, Session

MAX_ROWS = 12
"""Lines and operations that a report lists."""


def report(session: Session) -> str:
    """Where time went, as text."""
    return "\n".join([*_head(session), "", *_lines(session), "", *_operations(session)])


def _head(session: Session) -> Iterator[str]:
    totals = session.totals
    if not len(session.operations):
        yield f"Nothing ran on devices in {seconds_text(totals.wall_seconds)}."
        return
    of = totals.operation_seconds or 1.0
    yield (
        f"{len(session.calls)} calls in {seconds_text(totals.wall_seconds)}; devices were busy for "
        f"{seconds_text(totals.busy_seconds)} ({totals.busy_seconds / totals.wall_seconds:.0%})"
    )
    yield (
        f"{len(session.operations)} operations took {seconds_text(of)}: "
        f"{totals.measured_seconds / of:.0%} measured by line, {totals.estimated_seconds / of:.0%} estimated, "
        f"{totals.unattributed_seconds / of:.0%} without a line"
    )


def _lines(session: Session) -> Iterator[str]:
    total = session.totals.operation_seconds or 1.0
    yield "   time   share   forward  backward  line"
    for row in session.lines[:MAX_ROWS]:
        yield (
            f"{seconds_text(row.seconds):>8}  {row.seconds / total:>5.0%}  {seconds_text(row.forward_seconds):>8}"
            f"  {seconds_text(row.backward_seconds):>8}  {line_text(row)}"
        )


def line_text(row: LineRow) -> str:
    """Where a line is, and what stands there."""
    if row.place is None:
        return "(no line)"
    code = linecache.getline(row.place.file, row.place.line).strip()
    return f"{row.place.file.rpartition('/')[2]}:{row.place.line} {code}"


def _operations(session: Session) -> Iterator[str]:
    total = session.totals.operation_seconds or 1.0
    yield "   time   share   count  operation"
    for row in session.by_operation[:MAX_ROWS]:
        rate = "" if not row.flops else f", {row.flops / row.seconds / 1e9:.3g} Gflop/s"
        yield (
            f"{seconds_text(row.seconds):>8}  {row.seconds / total:>5.0%}  {row.count:>6}"
            f"  {row.program} %{row.instruction} ({row.category}{rate})"
        )


def seconds_text(seconds: float) -> str:
    """A duration in the unit that fits.

    >>> seconds_text(0.0123)
    '12.3 ms'
    """
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1 or unit == "µs":
            return f"{seconds * factor:.3g} {unit}"
    return "0 s"
