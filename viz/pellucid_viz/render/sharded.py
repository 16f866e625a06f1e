"""Text and static HTML of a function's intermediate shardings and collectives."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

from pellucid.introspect.schema import (
    CollectiveRecord,
    ExchangeCostRecord,
    FunctionShardingRecord,
    MeshRecord,
    ProgramRecord,
    SpecRecord,
    UnevenCutRecord,
)
from pellucid.introspect.values import bytes_text

REASONS = {
    "written": "as written",
    "contraction": "partial results are combined",
    "reshard": "resharding",
    "full_replication": "full replication",
    "unknown": "reason not known",
}


class ValueRow(NamedTuple):
    """Table row of a value: its name and type, its sharding, and where the sharding comes from."""

    name: str
    type: str
    spec: str
    bytes: str
    made_by: str
    origins: str
    is_moved: bool
    """Whether the equation that gives it reshards something, or asks for uneven parts."""


def mesh_text(mesh: MeshRecord) -> str:
    """Axes of a mesh with their sizes.

    >>> from pellucid.introspect import sharding
    >>> mesh_text(sharding(pl.sharding.AbstractMesh((2, 4), ("x", "y"))).mesh)
    'x=2, y=4'
    """
    sizes = zip(mesh.axis_names, mesh.axis_sizes, strict=True)
    return ", ".join(f"{name}={size}" for name, size in sizes) or "of one device"


def where_text(record: FunctionShardingRecord) -> str:
    """The meshes on which a program runs, its own mesh first."""
    if is_alone(record):
        return "on one device"
    return f"on mesh {' and '.join(map(mesh_text, record.meshes))}"


def is_alone(record: FunctionShardingRecord) -> bool:
    """Whether a program runs on one device."""
    return math.prod(record.meshes[0].axis_sizes) == 1


def is_costly(each: CollectiveRecord | ExchangeCostRecord) -> bool:
    """Whether a collective was inserted without the user's request, and might be avoided."""
    return each.reason in ("reshard", "full_replication")


def by_cost(record: FunctionShardingRecord) -> list[CollectiveRecord]:
    """The collectives, sorted by bytes, most first."""
    return sorted(record.collectives, key=total_bytes, reverse=True)


def total_bytes(each: CollectiveRecord) -> int:
    """Bytes that one device sends in all runs of a collective; an unknown number of runs counts as one."""
    return each.bytes_per_device * (1 if each.runs is None else each.runs)


def summary(record: FunctionShardingRecord) -> str:
    """One line with the number of collectives, their bytes and the peak memory."""
    count = len(record.collectives)
    sent = bytes_text(sum(map(total_bytes, record.collectives)))
    costly = sum(map(is_costly, record.collectives))
    exchanged = (
        f"{count} {'collective' if count == 1 else 'collectives'}, {sent} sent by each device"
    )
    parts = [
        "nothing is divided or exchanged" if is_alone(record) else exchanged,
        *([f"{costly} of them resharding"] if costly else []),
        *(
            [f"peak {bytes_text(max(record.device_peak_bytes))} on each device"]
            if record.device_peak_bytes
            else []
        ),
    ]
    basis = "of the compiled program"
    if record.basis == "estimate":
        basis = f"estimate: {record.not_compiled.rstrip('.')}"
    return f"{'; '.join(parts)} ({basis})"


def place_text(program: ProgramRecord, equation: int) -> str:
    """Source line of an equation; empty if unknown."""
    span = program.equations.span[equation] if equation >= 0 else -1
    if span < 0:
        return ""
    source = program.sources[program.spans.source[span]]
    return f"{source.name}, line {program.spans.line[span]}"


def collective_row(record: FunctionShardingRecord, each: CollectiveRecord) -> list[str]:
    """Table row of a collective: operation, groups, bytes, reason, source line."""
    runs = "" if each.runs == 1 else " × ?" if each.runs is None else f" × {each.runs}"
    along = (", ".join(each.axes) or "unknown axes") + _mesh_suffix(record, each.mesh)
    program = record.program
    cause = (
        program.strings[program.equations.primitive[each.equation]] if each.equation >= 0 else ""
    )
    return [
        f"{each.operation} over {along}",
        f"{each.group_count} × {each.group_size} devices",
        bytes_text(each.bytes_per_device) + runs,
        f"{REASONS[each.reason]}: {each.note}" if each.note else REASONS[each.reason],
        " in ".join(part for part in (cause, place_text(program, each.equation)) if part),
    ]


def uneven_row(record: FunctionShardingRecord, each: UnevenCutRecord) -> list[str]:
    """(note on a sharding constraint that divides unevenly, its source line)."""
    return [each.note, place_text(record.program, each.equation)]


class SiteRows(NamedTuple):
    """The values of a program at one of its call sites."""

    title: str
    """Call path of the site; empty for the whole program."""
    rows: list[ValueRow]


def site_rows(record: FunctionShardingRecord) -> Iterator[SiteRows]:
    """Yields the sites of a program with their values: inputs, then results of equations."""
    program, sites = record.program, record.sites
    equations, origins = program.equations, _origins(record)
    moved = {(each.site, each.equation) for each in record.collectives if is_costly(each)}
    moved |= {(each.site, each.equation) for each in record.uneven}
    starts, number = _starts(equations.result_counts), 0
    for place, index in enumerate(sites.body):
        body, rows = program.bodies[index], []
        number += len(body.constants)
        for value in body.inputs:
            rows.append(_value_row(record, number, value, "", origins, False))
            number += 1
        for row in range(body.first_equation, body.first_equation + body.equation_count):
            made_by = program.strings[equations.primitive[row]]
            made_by = f"{made_by} in {place_text(program, row)}".removesuffix(" in ")
            for value in equations.results[starts[row] : starts[row + 1]]:
                is_moved = (place, row) in moved
                rows.append(_value_row(record, number, value, made_by, origins, is_moved))
                number += 1
        yield SiteRows(site_text(record, place), rows)


def site_text(record: FunctionShardingRecord, place: int) -> str:
    """The calls that lead to a site, outermost first; empty for the whole program."""
    program, sites = record.program, record.sites
    row = sites.equation[place]
    if row < 0:
        return ""
    called = program.strings[program.equations.primitive[row]]
    text = f"{called} of {program.bodies[sites.body[place]].name}"
    text = ", ".join(filter(None, (text, place_text(program, row))))
    twins = [
        each
        for each, parent in enumerate(sites.parent)
        if (parent, sites.body[each]) == (sites.parent[place], sites.body[place])
    ]
    if len(twins) > 1:
        text += f" (call {twins.index(place) + 1} of {len(twins)})"
    inner_axes = sites.manual_axes[place][len(sites.manual_axes[sites.parent[place]]) :]
    if inner_axes:
        text += f", each device along {', '.join(inner_axes)} for itself"
    return " › ".join(filter(None, (site_text(record, sites.parent[place]), text)))


def _value_row(
    record: FunctionShardingRecord, number: int, value: int, made_by: str, origins: list[str], is_moved: bool
) -> ValueRow:  # fmt: skip
    values, strings = record.program.values, record.program.strings
    sharding, others = record.layouts.sharding[number], record.layouts.count[number] - 1
    spec = "not known" if sharding < 0 else spec_text(record, record.shardings[sharding])
    return ValueRow(
        strings[values.user_name[value]] or strings[values.name[value]],
        record.program.types[values.type[value]].text,
        spec + (f" and {others} more" if others > 0 else ""),
        bytes_text(record.layouts.device_bytes[number]),
        made_by,
        origins[number],
        is_moved,
    )


def spec_text(record: FunctionShardingRecord, spec: SpecRecord) -> str:
    """Text of a spec, with its mesh if that isn't the program's own."""
    return spec.text + _mesh_suffix(record, spec.mesh)


def _mesh_suffix(record: FunctionShardingRecord, mesh: int) -> str:
    return f" (mesh {mesh_text(record.meshes[mesh])})" if mesh else ""


def _origins(record: FunctionShardingRecord) -> list[str]:
    """For each value at each site, text that tells where each of its mesh axes comes from."""
    why, starts = record.why, _starts(record.why.counts)
    texts = [
        f"{record.axes[axis]}: {record.origins[origin].text if origin >= 0 else 'the partitioner'}"
        for axis, origin in zip(why.axis, why.origin, strict=True)
    ]
    return ["; ".join(texts[start:stop]) for start, stop in itertools.pairwise(starts)]


def _starts(counts: list[int]) -> list[int]:
    return list(itertools.accumulate(counts, initial=0))
