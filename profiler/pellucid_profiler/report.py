"""A session as text: totals, findings, lines and operations."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from pellucid_profiler.findings import findings
from pellucid_profiler.session_tables import SessionTables
from pellucid_profiler.text import count_text, line_text, percent_text, seconds_text

MAX_ROWS = 12
"""Maximum number of lines, and of operations, in a report."""


def report(session: SessionTables) -> str:
    """The report of a session as text.

    >>> with pl.profiler.profile() as recorded:
    ...     pass
    >>> report(recorded.wait())[:17]
    'Nothing ran on de'
    """
    parts = [head(session), _findings(session), _lines(session), _operations(session)]
    return "\n\n".join("\n".join(part) for part in parts)


def head(session: SessionTables) -> Iterator[str]:
    """Lines with the session's totals: remarks, calls, operations, and the measured, estimated and unattributed shares
    of time.
    """
    totals = session.totals
    yield from (f"Note: {remark}" for remark in session.remarks)
    if not len(session.operations):
        yield f"Nothing ran on devices in {seconds_text(totals.wall_seconds)}."
        return
    of = totals.operation_seconds or 1.0
    if session.is_detail:
        yield "Compiled without fusions: another program than the one that runs otherwise."
    yield (
        f"{len(session.calls)} calls in {seconds_text(totals.wall_seconds)}; devices were busy for "
        f"{seconds_text(totals.busy_seconds)} ({percent_text(totals.busy_seconds / totals.wall_seconds)})"
    )
    yield (
        f"{len(session.operations)} operations took {seconds_text(of)}: "
        f"{percent_text(totals.measured_seconds / of)} measured by line, {percent_text(totals.estimated_seconds / of)} estimated, "
        f"{percent_text(totals.unattributed_seconds / of)} without a line"
    )
    if session.steps:
        seconds = [step.seconds for step in session.steps]
        yield (
            f"{count_text(len(seconds), 'step')} of {seconds_text(statistics.median(seconds))} (median), from "
            f"{seconds_text(min(seconds))} to {seconds_text(max(seconds))}"
        )


def _findings(session: SessionTables) -> Iterator[str]:
    for finding in findings(session):
        yield f"* {finding.text} {finding.evidence}"
        yield f"  {finding.remedy}"


def _lines(session: SessionTables) -> Iterator[str]:
    total = session.totals.operation_seconds or 1.0
    yield "   time   share   forward  backward  line"
    for row in session.lines[:MAX_ROWS]:
        yield (
            f"{seconds_text(row.seconds):>8}  {percent_text(row.seconds / total):>5}  {seconds_text(row.forward_seconds):>8}"
            f"  {seconds_text(row.backward_seconds):>8}  {line_text(session.sources, row.place)}"
        )


def _operations(session: SessionTables) -> Iterator[str]:
    total = session.totals.operation_seconds or 1.0
    yield "   time   share   count  operation"
    for row in session.by_operation[:MAX_ROWS]:
        rate = "" if not row.flops else f", {row.flops / row.seconds / 1e9:.3g} GFLOP/s"
        yield (
            f"{seconds_text(row.seconds):>8}  {percent_text(row.seconds / total):>5}  {row.count:>6}"
            f"  {row.program} %{session.infos[row.info].label} ({row.category}{rate})"
        )
