"""Two sessions side by side: which lines became slower or faster."""

from __future__ import annotations

import html
from typing import NamedTuple

from pellucid_profiler.schema import ProfileComparisonRecord
from pellucid_profiler.session_tables import SessionTables
from pellucid_profiler.text import code_text, line_number_text, seconds_text

MAX_ROWS = 20
"""Lines that the text of a comparison lists."""


class LineChange(NamedTuple):
    """Time of a line of code before and after; lines are the same that have the same text in the same function."""

    line: str
    """Where it is in the later session, or was in the earlier one; empty for operations of no line."""
    code: str
    before_seconds: float
    after_seconds: float

    @property
    def change_seconds(self) -> float:
        """Above 0 where it became slower."""
        return self.after_seconds - self.before_seconds


class Comparison(NamedTuple):
    """Time of lines in two sessions; changes of lines add up to the change of the operations' time.

    >>> with pl.profiler.profile() as first:
    ...     y = jnp.sin(1.0)
    >>> with pl.profiler.profile() as second:
    ...     y = jnp.sin(1.0)
    >>> comparison = compare(first.wait(), second.wait())
    >>> comparison.after_seconds == second.wait().totals.operation_seconds
    True
    """

    before_seconds: float
    """Of all operations of the earlier session."""
    after_seconds: float
    lines: list[LineChange]
    """The one that changed most first."""

    def record(self) -> ProfileComparisonRecord:
        """The comparison as front ends draw it."""
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
            f"{_signed(row.change_seconds):>9}  {seconds_text(row.before_seconds):>8} -> "
            f"{seconds_text(row.after_seconds):<8}  {row.line or '(no line)'}  {row.code}".rstrip()
            for row in self.lines[:MAX_ROWS]
        ]
        return "\n".join([head, *rows])


def compare(before: SessionTables, after: SessionTables) -> Comparison:
    """The comparison of a session with a later one."""
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


def _signed(seconds: float) -> str:
    return f"{'+' if seconds >= 0 else '-'}{seconds_text(abs(seconds))}"
