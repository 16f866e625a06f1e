"""Correspondences between the equations of two programs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from pellucid.introspect.schema import LinkRecord, ProgramRecord

from .opcodes import opcode_of


def link(source: ProgramRecord, target: ProgramRecord, relation: str) -> LinkRecord:
    """Pairs of equations of which the second was made from the first, or both were made from the same one.

    Equations of `target` list their origins. If `source` is a jaxpr, these are its equations. Otherwise both programs
    were made from a third one: equations with a common origin are paired if they are the same operation, or all of them
    are paired with each other if none are the same.
    """
    pairs = (
        _origin_pairs(source, target)
        if source.dialect == "jaxpr"
        else _sibling_pairs(source, target)
    )
    return record_of(source, target, relation, pairs)


def link_siblings(source: ProgramRecord, target: ProgramRecord, relation: str) -> LinkRecord:
    """Pairs of equations of two programs that were both made from a third one."""
    return record_of(source, target, relation, _sibling_pairs(source, target))


def record_of(
    source: ProgramRecord, target: ProgramRecord, relation: str, pairs: Iterable[tuple[int, int]]
) -> LinkRecord:
    """The record of pairs of ids, without repetitions."""
    unique = list(dict.fromkeys(pairs))
    return LinkRecord(
        source=source.key,
        target=target.key,
        relation=relation,
        source_ids=[a for a, _ in unique],
        target_ids=[b for _, b in unique],
    )


def _origin_pairs(source: ProgramRecord, target: ProgramRecord) -> Iterator[tuple[int, int]]:
    source_ids = set(source.equations.id)
    # Equations that were made from others of the same program: those of a kernel's definition from those of its body.
    inner = {
        source.equations.id[row]: [each for each in origins if each in source_ids]
        for row, origins in _origins_by_row(source)
    }
    for row, origins in _origins_by_row(target):
        own_id = target.equations.id[row]
        if target.dialect == "jaxpr" and own_id in source_ids:
            yield own_id, own_id
        for origin in origins:
            if origin in source_ids:
                yield origin, own_id
                yield from ((each, own_id) for each in inner[origin])


def _sibling_pairs(source: ProgramRecord, target: ProgramRecord) -> Iterator[tuple[int, int]]:
    here, there = _by_origin(source), _by_origin(target)
    for origin, rows in here.items():
        others = there.get(origin, {})
        same = rows.keys() & others.keys()
        for operation, ids in rows.items():
            if operation in same:
                yield from ((a, b) for a in ids for b in others[operation])
            elif not same:
                yield from ((a, b) for a in ids for there_ids in others.values() for b in there_ids)


def _by_origin(program: ProgramRecord) -> dict[int, dict[str, list[int]]]:
    """Maps each origin to the ids of the equations made from it, by operation."""
    ids_by_origin: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row, origins in _origins_by_row(program):
        operation = opcode_of(program.strings[program.equations.primitive[row]])
        for origin in origins:
            ids_by_origin[origin][operation].append(program.equations.id[row])
    return ids_by_origin


def _origins_by_row(program: ProgramRecord) -> Iterator[tuple[int, list[int]]]:
    start = 0
    for row, count in enumerate(program.equations.origin_counts):
        yield row, program.equations.origins[start : start + count]
        start += count
