"""Records as plain text, for terminals and readers without interactive views."""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pellucid.introspect.schema import (
    CompiledRecord,
    DiffRecord,
    ErrorFrameRecord,
    ErrorRecord,
    FunctionEntryRecord,
    FunctionRecord,
    FunctionShardingRecord,
    KernelRecord,
    LadderRecord,
    LensRecord,
    MemoryRecord,
    MeshRecord,
    MissesRecord,
    MissRecord,
    ProgramRecord,
    ShardingRecord,
    WhatIfRecord,
)
from pellucid.introspect.values import bytes_text
from pellucid_viz.render import placements
from pellucid_viz.render.array import array_text
from pellucid_viz.render.grids import grids_text
from pellucid_viz.render.memories import memories_text
from pellucid_viz.render.program import STAGES
from pellucid_viz.render.quantities import count_text, seconds_text
from pellucid_viz.render.sharded import (
    by_cost,
    collective_row,
    is_costly,
    mesh_text,
    site_rows,
    summary,
    uneven_row,
    where_text,
)
from pellucid_viz.render.timelines import timelines_text

_MAX_ROWS = 40
_MAX_LINES = 4000
"""Maximum number of lines of each program to compare as text, because the comparison takes quadratic time."""


def text_of(record: Any) -> str:
    """Plain text of any record that can be displayed on its own."""
    return _WRITERS[record.kind](record)


def program_text(record: ProgramRecord) -> str:
    """A program as pretty-printed by core."""
    return "" if record.listing is None else record.listing.text


def lens_text(record: LensRecord) -> str:
    """Text of the stages of a program, one below the other."""
    return _sections(
        (STAGES[each.dialect], f"{note}\n{program_text(each)}" if note else program_text(each))
        for each, note in zip(
            record.programs, itertools.chain(record.notes, itertools.repeat("")), strict=False
        )
    )


def ladder_text(record: LadderRecord) -> str:
    """Text of a program and of those made from it, one below the other."""
    names = [name or record.name for name in record.transformations]
    return _sections(zip(names, map(program_text, record.programs), strict=True))


def _sections(parts: Iterable[tuple[str, str]]) -> str:
    return "\n\n".join(f"# {title}\n{text}" for title, text in parts)


def diff_text(record: DiffRecord) -> str:
    """The two programs as a unified diff."""
    before, after = (program_text(each).splitlines() for each in (record.before, record.after))
    if max(len(before), len(after)) > _MAX_LINES:
        return f"{record.before.name}: {len(before)} lines, {record.after.name}: {len(after)} lines"
    lines = difflib.unified_diff(before, after, record.before.name, record.after.name, lineterm="")
    return "\n".join(lines) or f"{record.before.name} and {record.after.name} are the same program"


def compiled_text(record: CompiledRecord) -> str:
    """Cost, memory and kernels of an executable."""
    lines = [
        (
            f"{record.name} on {record.device_count} {record.platform} "
            f"{'device' if record.device_count == 1 else 'devices'}"
        )
    ]
    lines += [f"  {name}: {value}" for name, value in compiled_facts(record)]
    if record.kernels:
        lines.append(f"  {len(record.kernels)} kernels:")
        rows = [
            f"    {kernel.name} ({kernel.category}{runs_text(kernel)})"
            for kernel in record.kernels[:_MAX_ROWS]
        ]
        lines += [*rows, *more_rows(len(record.kernels), "kernel")]
    return "\n".join(lines)


def compiled_facts(record: CompiledRecord) -> Iterator[tuple[str, str]]:
    """Properties of an executable, as (name, text)."""
    cost, memory = record.cost, record.memory
    if record.phases:
        steps = (f"{phase.name} {seconds_text(phase.seconds)}" for phase in record.phases)
        yield "made in", ", ".join(steps)
    least = "at least " if cost.is_least else ""
    if cost.flops is not None:
        yield "work (estimate)", least + count_text(cost.flops, "flop")
    if cost.bytes_accessed is not None:
        yield "memory traffic (estimate)", least + bytes_text(cost.bytes_accessed)
    yield "arguments", bytes_text(memory.argument_bytes)
    donated = f", {bytes_text(memory.alias_bytes)} in donated arguments"
    yield "results", bytes_text(memory.output_bytes) + (donated if memory.alias_bytes else "")
    yield "temporary", bytes_text(memory.temporary_bytes)
    yield "peak", bytes_text(memory.peak_bytes)


def runs_text(kernel: KernelRecord) -> str:
    """Suffix with the number of times that one run of the executable runs a kernel; empty for once."""
    if kernel.executions == 1:
        return ""
    return ", runs not known" if kernel.executions is None else f" × {kernel.executions:,}"


def memory_text(record: MemoryRecord) -> str:
    """Memory of the devices, then the largest arrays with their owners."""
    lines = []
    for device in record.devices:
        limit = "" if device.limit_bytes is None else f" of {bytes_text(device.limit_bytes)}"
        note = "" if device.basis == "measured" else " (sum of live arrays)"
        lines.append(
            f"{device.platform} {device.device_id}: {bytes_text(device.in_use_bytes)}{limit}{note}"
        )
    for array in record.arrays[:_MAX_ROWS]:
        held = ", ".join([*array.owners, *array.holders]) or "no variable"
        origin = f", made in {array.source}, line {array.line}" if array.source else ""
        lines.append(f"  {bytes_text(array.total_bytes)}  {array.type}: {held}{origin}")
    return "\n".join([*lines, *more_rows(len(record.arrays), "array")]) or "no device was used yet"


def more_rows(count: int, what: str) -> list[str]:
    """A line with the number of omitted rows, if there are any."""
    return [f"  and {count - _MAX_ROWS} more {what}s"] if count > _MAX_ROWS else []


def miss_text(record: MissRecord) -> str:
    """Why a function was traced or compiled again."""
    steps = {
        "trace": "traced",
        "lower": "lowered",
        "compile": "compiled",
        "load": "loaded from disk",
        "find": "found compiled before",
    }
    *first, last = [steps[phase.name] for phase in record.phases] or ["traced"]
    done = f"{', '.join(first)} and {last}" if first else last
    place = record.cell or (None if record.source is None else record.source.name)
    where = "" if place is None else f" in {place}, line {record.line}"
    head = f"`{record.function}` was {done} ({seconds_text(record.seconds)}){where}"
    return "\n".join([head, *(f"  because {cause_text(cause)}" for cause in record.causes)])


def cause_text(cause: Any) -> str:
    """One cause of a cache miss as a clause."""
    if cause.part == "first_call":
        return "it was never called before"
    if cause.part == "function":
        return cause.after
    return f"{cause.path}: was {cause.before}, is {cause.after}. {cause.advice}"


def misses_text(record: MissesRecord) -> str:
    """Cache misses, newest first; for a note, the functions that recompiled."""
    if record.is_note:
        return "\n".join(map(_recompilation_text, record.misses))
    texts = [miss_text(each) for each in reversed(record.misses)]
    return "\n".join(texts) or "no jitted function was traced or compiled yet"


def _recompilation_text(record: MissRecord) -> str:
    """One line: which function recompiled, how often, and why."""
    times = "" if record.count == 1 else f" {record.count} times, the last time"
    causes = "; ".join(map(cause_text, record.causes))
    return f"`{record.function}` compiled again{times} ({seconds_text(record.seconds)}): {causes}"


def function_text(record: FunctionRecord) -> str:
    """The signature of a jitted function, and its programs."""
    place = "" if record.source is None else f" in {record.source.name}, line {record.line}"
    rows = [
        f"  ({', '.join(entry.arguments)}): {', '.join(entry_facts(entry))}"
        for entry in record.entries[-_MAX_ROWS:]
    ]
    head = f"{record.name}{record.signature}, jitted{place}"
    return "\n".join(
        [head, *(rows or ["  not called yet"]), *more_rows(len(record.entries), "program")]
    )


def entry_facts(entry: FunctionEntryRecord) -> list[str]:
    """Size of a program in a function's cache, its number of placements, and the reason for it."""
    number = entry.executable_count
    placements = (
        "not compiled" if number == 0 else f"compiled for {number} placement{'s' * (number > 1)}"
    )
    because = "" if entry.miss is None else f"; {'; '.join(map(cause_text, entry.miss.causes))}"
    plural = "" if entry.equation_count == 1 else "s"
    return [f"{entry.equation_count} equation{plural}", placements + because]


def error_text(record: ErrorRecord) -> str:
    """An error with the user's lines that led to it."""
    lines = [f"{record.name}: {record.what}", *(f"  {each}" for each in record.got)]
    if record.where is not None:
        lines.append(f"  in {record.where}")
    if record.do is not None:
        lines.append(f"  {record.do}")
    if record.page is not None:
        lines.append(f"  (More: {record.page})")
    for frame in record.frames:
        lines += ["", f"{frame_title(frame)}:"]
        lines += [
            f"{'-->' if is_marked else '   '} {number:4} {text}".rstrip()
            for number, text, is_marked in frame_lines(frame)
        ]
    return "\n".join(lines)


def frame_title(frame: ErrorFrameRecord) -> str:
    """Location and function of a frame."""
    function = "" if frame.function == "<module>" else f", in {frame.function}"
    return f"{frame.source.name}, line {frame.line}{function}"


def frame_lines(frame: ErrorFrameRecord) -> Iterator[tuple[int, str, bool]]:
    """Yields (number, text, whether it is the frame's own) for the lines around a frame's line."""
    near = range(frame.line - 2, frame.end_line + 3)
    for number, text in enumerate(frame.source.lines or [], frame.source.first_line):
        if number in near:
            yield number, text, frame.line <= number <= frame.end_line


def sharding_text(record: ShardingRecord) -> str:
    """The shards of an array with their devices; for a mesh, its devices in rows along the last axis."""
    mesh = record.mesh
    if record.type == "mesh":
        return _mesh_rows(mesh)
    name = ": ".join(part for part in (record.name, record.type) if part)
    head = f"{name or 'array'} as {record.spec.text} on mesh {mesh_text(mesh)}"
    lines = []
    for tile, devices in enumerate(holders_of(record)):
        if tile == _MAX_ROWS:
            lines += more_rows(tile_count(record), "part")
            break
        ids = ", ".join(str(mesh.device_ids[d] if mesh.device_ids else d) for d in devices)
        where = ""
        if spans_processes(record):
            names = ", ".join(map(str, processes_of(record, devices)))
            where = f" of process {names}"
        lines.append(f"  devices {ids}{where}: {tile_text(record, tile)}")
    return "\n".join([head, *lines])


def _mesh_rows(mesh: MeshRecord) -> str:
    ids = [*map(str, mesh.device_ids or range(math.prod(mesh.axis_sizes)))]
    labels = ids
    if len(set(mesh.process_indices)) > 1:
        owners = zip(ids, mesh.process_indices, strict=True)
        labels = [f"{device} (process {process})" for device, process in owners]
    *outer, last = mesh.axis_names or [""]
    columns = mesh.axis_sizes[-1] if mesh.axis_sizes else 1
    kind = f"{len(ids)} {mesh.platform or 'abstract'} devices"
    lines = [f"mesh {mesh_text(mesh)} of {kind}; along {last}:" if last else f"mesh of {kind}"]
    for row, place in enumerate(itertools.product(*map(range, mesh.axis_sizes[:-1]))):
        if row == _MAX_ROWS:
            lines += more_rows(len(ids) // columns, "row")
            break
        where = " ".join(f"{name}={index}" for name, index in zip(outer, place, strict=True))
        row_labels = " ".join(labels[row * columns : (row + 1) * columns])
        lines.append(f"  {where}: {row_labels}" if where else f"  {row_labels}")
    return "\n".join(lines)


def spans_processes(record: ShardingRecord) -> bool:
    """Whether the devices belong to several processes."""
    return len(set(record.mesh.process_indices)) > 1


def processes_of(record: ShardingRecord, devices: list[int]) -> list[int]:
    """Sorted processes to which `devices` belong, given by their indices in the mesh."""
    return sorted({record.mesh.process_indices[d] for d in devices})


def function_sharding_text(record: FunctionShardingRecord) -> str:
    """The values of a function with their layouts, then the exchanges between devices; `!` marks resharding and uneven cuts."""
    lines = [f"{record.name} {where_text(record)}", f"  {summary(record)}"]
    rows: list[list[str]] = []
    titles: dict[int, str] = {}
    for site in site_rows(record):
        titles[len(rows)] = site.title
        rows += [["!" if row.is_moved else " ", *row[:-1]] for row in site.rows]
    for place, text in enumerate(_align(rows[:_MAX_ROWS])):
        lines += [f"in {titles[place]}:"] if titles.get(place) else []
        lines.append(text)
    lines += more_rows(len(rows), "value")
    exchanges = [
        ["!" if is_costly(each) else " ", *collective_row(record, each)]
        for each in by_cost(record)[:_MAX_ROWS]
    ]
    if exchanges:
        lines += ["exchanges between devices:", *_align(exchanges)]
        lines += more_rows(len(record.collectives), "exchange")
    if record.uneven:
        cuts = [["!", *uneven_row(record, each)] for each in record.uneven[:_MAX_ROWS]]
        lines += ["constraints that can't be met:", *_align(cuts)]
        lines += more_rows(len(record.uneven), "constraint")
    if record.differences:
        lines += ["differs from Shardy's plan:", *(f"    {each}" for each in record.differences)]
    return "\n".join(lines)


def what_if_text(record: WhatIfRecord) -> str:
    """Costs of a function in its current and the displayed placement, its arguments, collectives, and the best
    placements found.
    """
    lines = [f"{record.name}, estimated for {record.device_kind}"]
    parts = [
        ("", [placements.heads(record), *placements.facts(record)]),
        ("arguments:", placements.argument_rows(record)),
        ("collectives:", list(map(placements.exchange_row, record.exchanges))),
        (f"best found ({placements.search_text(record)}):", placements.best_rows(record)),
    ]
    for title, rows in parts:
        if rows:
            lines += [title] if title else []
            lines += [f"  {row}" for row in _align(rows[:_MAX_ROWS])]
            lines += more_rows(len(rows), "row")
    return "\n".join([*lines, placements.HOW, *record.remarks])


def _align(rows: list[list[str]]) -> list[str]:
    """Rows of texts with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def tile_count(record: ShardingRecord) -> int:
    """Number of distinct shards of an array."""
    return max(record.device_tiles, default=-1) + 1


def tile_text(record: ShardingRecord, tile: int) -> str:
    """Shard number `tile`, written as an index."""
    ndim = len(record.shape)
    at = slice(tile * ndim, (tile + 1) * ndim)
    bounds = zip(record.tile_starts[at], record.tile_stops[at], strict=True)
    return "[" + ", ".join(f"{start}:{stop}" for start, stop in bounds) + "]"


def holders_of(record: ShardingRecord) -> list[list[int]]:
    """For each shard, the mesh indices of the devices that hold it."""
    placed = sorted((tile, device) for device, tile in enumerate(record.device_tiles) if tile >= 0)
    return [
        [d for _, d in group] for _, group in itertools.groupby(placed, key=lambda each: each[0])
    ]


_WRITERS: dict[str, Callable[[Any], str]] = {
    "program": program_text,
    "lens": lens_text,
    "ladder": ladder_text,
    "diff": diff_text,
    "compiled": compiled_text,
    "memory": memory_text,
    "miss": miss_text,
    "misses": misses_text,
    "function": function_text,
    "sharding": sharding_text,
    "function_sharding": function_sharding_text,
    "error": error_text,
    "what_if": what_if_text,
    "array_values": array_text,
    "kernel_grids": lambda record: grids_text(record, _align),
    "kernel_memories": lambda record: memories_text(record, _align),
    "kernel_timelines": lambda record: timelines_text(record, _align),
}
