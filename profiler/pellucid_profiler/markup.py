"""A session as static HTML, for notebooks and pages without scripts or kernel.

Colours and fonts are inherited from the page, which may be light or dark.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence

from pellucid.introspect.schema import SourceRecord
from pellucid_profiler.findings import findings
from pellucid_profiler.report import head
from pellucid_profiler.session_tables import LineRow, SessionTables
from pellucid_profiler.text import line_number_text, percent_text, seconds_text

MAX_ROWS = 40
"""Maximum number of rows in the table of operations, and in that of compilations."""
MAX_SOURCES = 8

_FORWARD, _BACKWARD = "#4477aa", "#aa3377"
"""Colours for forward and backward time, distinguishable with any colour vision (Tol, 2021, "bright")."""
_LEFT, _RIGHT = "text-align: left; vertical-align: top", "text-align: right; white-space: nowrap"
_CODE = "text-align: left; white-space: pre; font-family: monospace"


def session_html(session: SessionTables) -> str:
    """Static HTML of a session: findings, source lines with their time, operations.

    >>> with pl.profiler.profile() as recorded:
    ...     pass
    >>> session_html(recorded.wait())[:20]
    '<div><p>Nothing ran '
    """
    parts = [
        "".join(f"<p>{html.escape(line)}</p>" for line in head(session)),
        _findings(session),
        *(_source(session, source) for source in _files_by_time(session)[:MAX_SOURCES]),
        _operations(session),
        _compilations(session),
    ]
    return f"<div>{''.join(parts)}</div>"


def _findings(session: SessionTables) -> str:
    items = "".join(
        f"<li><b>{html.escape(each.text)}</b> {html.escape(each.evidence)}<br>{html.escape(each.remedy)}</li>"
        for each in findings(session)
    )
    return f"<ul>{items}</ul>" if items else ""


def _files_by_time(session: SessionTables) -> list[SourceRecord]:
    """The source files and cells, sorted by time, longest first."""
    seconds = dict.fromkeys(session.sources, 0.0)
    for row in session.lines:
        if row.place is not None and row.place.file in seconds:
            seconds[row.place.file] += row.seconds
    timed = [source for source in session.sources.values() if seconds[source.path]]
    return sorted(timed, key=lambda source: -seconds[source.path])


def _source(session: SessionTables, source: SourceRecord) -> str:
    rows = {
        row.place.line: row
        for row in session.lines
        if row.place is not None and row.place.file == source.path
    }
    texts = dict(enumerate(source.lines or [], source.first_line)) or dict.fromkeys(rows, "")
    longest = max((row.seconds for row in session.lines), default=0.0)
    table = _table(
        ["line", "forward", "backward", "", ""],
        [_RIGHT, _RIGHT, _RIGHT, _LEFT, _CODE],
        (
            [str(number), *_line_cells(rows.get(number), longest), html.escape(text)]
            for number, text in texts.items()
        ),
    )
    is_open = " open" if rows else ""
    return (
        f"<details{is_open}><summary>Time of lines of {html.escape(source.name)}</summary>"
        f'<div style="overflow-x: auto">{table}</div></details>'
    )


def _line_cells(row: LineRow | None, longest: float) -> Iterator[str]:
    seconds = (row.forward_seconds, row.backward_seconds) if row else (0.0, 0.0)
    yield from (seconds_text(each) if each else "" for each in seconds)
    bars = "".join(
        f'<span style="display: inline-block; height: 0.7em; background: {color}; '
        f'width: {100 * each / longest:.0f}px"></span>'
        for each, color in zip(seconds, (_FORWARD, _BACKWARD), strict=True)
        if each
    )
    yield f'<span style="white-space: nowrap">{bars}</span>'


def _operations(session: SessionTables) -> str:
    total = session.totals.operation_seconds or 1.0
    places = session.place_texts_of_infos
    rows = (
        [
            seconds_text(row.seconds),
            f"{percent_text(row.seconds / total, 1)}",
            str(row.count),
            *map(
                html.escape,
                (row.program, session.infos[row.info].label, row.category, places[row.info]),
            ),
        ]
        for row in session.by_operation[:MAX_ROWS]
    )
    more = len(session.by_operation) - MAX_ROWS
    if not session.by_operation:
        return ""
    return (
        "<details><summary>Operations</summary>"
        + _table(
            ["time", "share", "count", "program", "operation", "category", "line"],
            [_RIGHT] * 3 + [_LEFT] * 4,
            rows,
        )
        + (f"<p>and {more} more</p>" if more > 0 else "")
        + "</details>"
    )


def _compilations(session: SessionTables) -> str:
    rows = [
        [
            html.escape(each.function),
            html.escape(line_number_text(session.sources, each.file, each.line)),
            seconds_text(each.trace_seconds),
            seconds_text(each.lower_seconds),
            seconds_text(each.compile_seconds),
            html.escape("; ".join(each.causes) or "first call"),
        ]
        for each in session.compilations[:MAX_ROWS]
    ]
    if not rows:
        return ""
    table = _table(
        ["function", "called in", "traced in", "lowered in", "compiled in", "because"],
        [_LEFT, _LEFT, _RIGHT, _RIGHT, _RIGHT, _LEFT],
        rows,
    )
    return f"<details><summary>Compilations</summary>{table}</details>"


def _table(head: Sequence[str], styles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """An HTML table. Cells contain HTML; `styles` has the CSS of each column."""
    titles = "".join(
        f'<th style="{style.removesuffix("; white-space: nowrap")}">{title}</th>'
        for title, style in zip(head, styles, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="{style}">{cell}</td>' for cell, style in zip(row, styles, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"
