"""Comparison of two sessions: which lines became slower or faster."""

from __future__ import annotations

import html
from typing import NamedTuple

from pellucid_profiler.schema import ProfileComparisonRecord
from pellucid_profiler.session_tables import SessionTables
from pellucid_profiler.text import code_text, line_number_text, seconds_text

MAX_ROWS = 20
"""Maximum number of lines in the text of a comparison."""


class LineChange(NamedTuple):
    """Time of one line of code before and after. A line is recognized by its text and function, not by its number."""

    line: str
    """File and line number in the later session, or in the earlier one if it is gone; empty for time without a line."""
    code: str
    before_seconds: float
    after_seconds: float

    @property
    def change_seconds(self) -> float:
        """Difference in seconds, positive if the line became slower."""
        return self.after_seconds - self.before_seconds


class Comparison(NamedTuple):
    """Time of each line in two sessions. The changes of all lines add up to the change of the total time of operations.

    >>> with pl.profiler.profile() as first:
    ...     y = jnp.sin(1.0)
    >>> with pl.profiler.profile() as second:
    ...     y = jnp.sin(1.0)
    >>> comparison = compare(first.wait(), second.wait())
    >>> comparison.after_seconds == second.wait().totals.operation_seconds
    True
    """

    before_seconds: float
    """Total time of operations in the earlier session."""
    after_seconds: float
    lines: list[LineChange]
    """Sorted by the size of the change, largest first."""

    def record(self) -> ProfileComparisonRecord:
        """The comparison as the record that front ends display."""
        return ProfileComparisonRecord(
            before_seconds=self.before_seconds,
            after_seconds=self.after_seconds,
            places=[row.line for row in self.lines],
            codes=[row.code for row in self.lines],
            before=[row.before_seconds for row in self.lines],
            after=[row.after_seconds for row in self.lines],
        )

    def to_html(self) -> str:
        """The comparison as static HTML."""
        return f"<pre>{html.escape(repr(self))}</pre>"

    def __repr__(self) -> str:
        head = (
            f"operations took {seconds_text(self.before_seconds)} before, "
            f"{seconds_text(self.after_seconds)} after"
        )
        rows = [
            f"{_signed_seconds(row.change_seconds):>9}  {seconds_text(row.before_seconds):>8} -> "
            f"{seconds_text(row.after_seconds):<8}  {row.line or '(no line)'}  {row.code}".rstrip()
            for row in self.lines[:MAX_ROWS]
        ]
        return "\n".join([head, *rows])


def compare(before: SessionTables, after: SessionTables) -> Comparison:
    """Compares a session with a later one, line by line."""
    texts: dict[tuple[str, str], str] = {}
    seconds: list[dict[tuple[str, str], float]] = []
    for session in (before, after):
        of_line: dict[tuple[str, str], float] = {}
        for row in session.lines:
            key = ("", "")
            if row.place is not None:
                name = line_number_text(session.sources, row.place.file, row.place.line)
                key = (row.place.function, code_text(session.sources, row.place) or name)
                texts[key] = name
            of_line[key] = of_line.get(key, 0.0) + row.seconds
        seconds.append(of_line)
    rows = [
        LineChange(texts.get(key, ""), key[1], seconds[0].get(key, 0.0), seconds[1].get(key, 0.0))
        for key in {**seconds[0], **seconds[1]}
    ]
    return Comparison(
        before.totals.operation_seconds,
        after.totals.operation_seconds,
        sorted(rows, key=lambda row: -abs(row.change_seconds)),
    )


def _signed_seconds(seconds: float) -> str:
    return f"{'+' if seconds >= 0 else '-'}{seconds_text(abs(seconds))}"
