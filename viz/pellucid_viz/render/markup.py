"""Records as static HTML, shown in saved notebooks without scripts or extension.

Colours and sizes are inherited from the page, which may be light or dark.
"""

from __future__ import annotations

import html
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pellucid.introspect.schema import (
    CollectiveRecord,
    CompiledRecord,
    ErrorRecord,
    FunctionRecord,
    FunctionShardingRecord,
    MemoryRecord,
    MissesRecord,
    MissRecord,
    ShardingRecord,
    WhatIfRecord,
)
from pellucid.introspect.values import bytes_text
from pellucid_viz.render import placements
from pellucid_viz.render.array import array_markup
from pellucid_viz.render.grids import grids_markup
from pellucid_viz.render.memories import memories_markup
from pellucid_viz.render.picture import tiles_picture
from pellucid_viz.render.program import (
    cut_text,
    diff_markup,
    ladder_markup,
    lens_markup,
    program_markup,
)
from pellucid_viz.render.quantities import count_text, seconds_text
from pellucid_viz.render.sharded import (
    SiteRows,
    by_cost,
    collective_row,
    is_costly,
    mesh_text,
    site_rows,
    summary,
    uneven_row,
    where_text,
)
from pellucid_viz.render.text import (
    cause_text,
    compiled_facts,
    entry_facts,
    frame_lines,
    frame_title,
    function_text,
    holders_of,
    misses_text,
    runs_text,
    tile_count,
    tile_text,
)
from pellucid_viz.render.timelines import timelines_markup

_MAX_ROWS = 40
_MAX_SITES = 5
"""Maximum number of inner programs whose values are listed."""


def markup_of(record: Any, text: str) -> str:
    """Static HTML of any record that can be displayed on its own; `text` is its plain text."""
    writer = _WRITERS.get(record.kind)
    return cut_text(text) if writer is None else writer(record)


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], marked: Sequence[bool] | None = None
) -> str:
    """HTML table of texts. Rows after the first 40 are only counted. `marked` is a mask of rows drawn in amber."""
    shown = list(rows)
    more = len(shown) - _MAX_ROWS
    marks = marked or [False] * len(shown)
    body = "".join(
        _row("td", row, ' class="pl-amber"' if mark else "")
        for row, mark in zip(shown[:_MAX_ROWS], marks, strict=False)
    )
    rest = f"<p>and {more} more</p>" if more > 0 else ""
    return f"<table><thead>{_row('th', head)}</thead><tbody>{body}</tbody></table>{rest}"


def _row(tag: str, cells: Sequence[str], attributes: str = "") -> str:
    texts = (f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)
    return f"<tr{attributes}>{''.join(texts)}</tr>"


def _executable_markup(record: CompiledRecord) -> str:
    kernels = table(
        ["kernel", "kind", "work", "memory traffic"],
        (
            [
                kernel.name,
                kernel.category + runs_text(kernel),
                "" if kernel.flops is None else count_text(kernel.flops, "flop"),
                "" if kernel.bytes_accessed is None else bytes_text(kernel.bytes_accessed),
            ]
            for kernel in record.kernels
        ),
    )
    name = html.escape(record.name)
    return f"<p><b>{name}</b></p>{table(['', ''], compiled_facts(record))}{kernels}"


def _memory(record: MemoryRecord) -> str:
    devices = table(
        ["device", "in use", "limit", "known from"],
        (
            [
                f"{each.platform} {each.device_id}",
                bytes_text(each.in_use_bytes),
                "" if each.limit_bytes is None else bytes_text(each.limit_bytes),
                "the allocator" if each.basis == "measured" else "live arrays",
            ]
            for each in record.devices
        ),
    )
    arrays = table(
        ["array", "bytes", "held by", "made in"],
        (
            [
                each.type,
                bytes_text(each.total_bytes),
                ", ".join([*each.owners, *each.holders]) or "no variable",
                "" if each.source is None else f"{each.source}, line {each.line}",
            ]
            for each in record.arrays
        ),
    )
    return devices + arrays


def _misses(records: Iterable[MissRecord]) -> str:
    return table(
        ["function", "called in", "took", "because"],
        (
            [
                each.function,
                f"{each.cell or each.source.name}, line {each.line}" if each.source else "",
                seconds_text(each.seconds),
                "; ".join(cause_text(cause) for cause in each.causes),
            ]
            for each in records
        ),
    )


def _function(record: FunctionRecord) -> str:
    rows = [[f"({', '.join(entry.arguments)})", *entry_facts(entry)] for entry in record.entries]
    head, _, _ = function_text(record).partition("\n")
    programs = table(["program", "size", "compiled"], rows) if rows else "<p>not called yet</p>"
    return f"<p><code>{html.escape(head)}</code></p>{programs}"


def _all_misses(record: MissesRecord) -> str:
    if record.is_note:
        return "".join(f"<p>{html.escape(line)}</p>" for line in misses_text(record).splitlines())
    return _misses(reversed(record.misses))


def _sharding(record: ShardingRecord) -> str:
    mesh = record.mesh
    holders = holders_of(record)
    ids = mesh.device_ids or range(len(record.device_tiles))
    parts = table(
        ["part", "on devices"],
        (
            [tile_text(record, tile), ", ".join(str(ids[device]) for device in devices)]
            for tile, devices in enumerate(holders)
        ),
    )
    name = mesh_text(mesh) if record.type == "mesh" else record.spec.text
    title = f"<code>{html.escape(f'{record.type} {name}'.strip())}</code>"
    count = tile_count(record)
    word = "part" if count == 1 else "parts"
    listed = f"<details><summary>{count} {word} on {len(ids)} devices</summary>{parts}</details>"
    return f"<p>{title}</p>{tiles_picture(record)}{listed}"


def _function_sharding(record: FunctionShardingRecord) -> str:
    exchanges = by_cost(record)
    whole, *within = itertools.islice(site_rows(record), _MAX_SITES)
    values = _values(whole) + "".join(
        f"<details><summary>{html.escape(site.title)}</summary>{_values(site)}</details>"
        for site in within
    )
    more = len(record.sites.body) - 1 - len(within)
    values += f"<p>and {more} more programs within it</p>" if more else ""
    moved = table(
        ["exchange", "groups", "each device sends", "why", "where"],
        *_counted_rows([collective_row(record, each) for each in exchanges], exchanges),
    )
    if record.uneven:
        cuts = [uneven_row(record, each) for each in record.uneven]
        moved += table(["a constraint that can't be met", "where"], cuts, [True] * len(cuts))
    title = f"<b>{html.escape(record.name)}</b> {html.escape(where_text(record))}"
    differs = "".join(f"<li>{html.escape(each)}</li>" for each in record.differences)
    noted = f"<p>Differs from Shardy's plan:</p><ul>{differs}</ul>" if differs else ""
    return f"<p>{title}: {html.escape(summary(record))}</p>{values}{moved}{noted}"


def _counted_rows(
    rows: Sequence[list[str]], exchanges: Sequence[CollectiveRecord]
) -> tuple[list[list[str]], list[bool]]:
    """(rows with equal ones merged and counted, mask of those drawn in amber)."""
    counts = Counter(map(tuple, rows))
    costly = dict(zip(map(tuple, rows), map(is_costly, exchanges), strict=True))
    texts = [
        [f"{count} × {first}" if count > 1 else first, *others]
        for (first, *others), count in counts.items()
    ]
    return texts, [costly[row] for row in counts]


def _what_if(record: WhatIfRecord) -> str:
    search = ""
    if record.best:
        best = table(["mesh", "time", "peak", "specs"], placements.best_rows(record))
        search = f"<p>Best found: {placements.search_text(record)}</p>{best}"
    moved = table(
        ["collectives", "each device sends", "time", "why", "where"],
        map(placements.exchange_row, record.exchanges),
        list(map(is_costly, record.exchanges)),
    )
    arguments = table(
        ["argument", "type", *placements.heads(record)[1:], "on each device"],
        placements.argument_rows(record),
    )
    remarks = "".join(f"<li>{html.escape(each)}</li>" for each in (placements.HOW, *record.remarks))
    facts = table(placements.heads(record), placements.facts(record))
    title = f"<b>{html.escape(record.name)}</b>, estimated for {html.escape(record.device_kind)}"
    return f"<p>{title}</p>{facts}{arguments}{moved}{search}<ul>{remarks}</ul>"


def _values(site: SiteRows) -> str:
    return table(
        ["value", "type", "layout", "on each device", "made by", "laid out by"],
        [row[:-1] for row in site.rows],
        [row.is_moved for row in site.rows],
    )


def _error(record: ErrorRecord) -> str:
    """The message, the user's frames, and the full traceback in a collapsed section."""
    got = "".join(f"<li><code>{html.escape(each)}</code></li>" for each in record.got)
    frames = "".join(
        f"<p>{html.escape(frame_title(frame))}</p><pre>"
        + "\n".join(
            f"<b>{html.escape(f'{number:4} {text}')}</b>"
            if is_marked
            else html.escape(f"{number:4} {text}")
            for number, text, is_marked in frame_lines(frame)
        )
        + "</pre>"
        for frame in record.frames
    )
    advice = "" if record.do is None else f"<p>{html.escape(record.do)}</p>"
    page = "" if record.page is None else f"<p>More: {_address(record.page)}</p>"
    return (
        f"<p><b>{html.escape(record.name)}</b>: {html.escape(record.what)}</p><ul>{got}</ul>{advice}{page}{frames}"
        f"<details><summary>The whole traceback</summary>{cut_text(record.traceback)}</details>"
    )


def _address(page: str) -> str:
    """A link for a web page, or the path of a file as text."""
    text = html.escape(page)
    return f'<a href="{text}">{text}</a>' if page.startswith("https:") else f"<code>{text}</code>"


_WRITERS: dict[str, Callable[[Any], str]] = {
    "program": program_markup,
    "lens": lens_markup,
    "ladder": ladder_markup,
    "diff": diff_markup,
    "compiled": _executable_markup,
    "memory": _memory,
    "miss": lambda record: _misses([record]),
    "misses": _all_misses,
    "function": _function,
    "sharding": _sharding,
    "function_sharding": _function_sharding,
    "error": _error,
    "what_if": _what_if,
    "array_values": array_markup,
    "kernel_grids": lambda record: grids_markup(record, table),
    "kernel_memories": lambda record: memories_markup(record, table),
    "kernel_timelines": lambda record: timelines_markup(record, table),
}
