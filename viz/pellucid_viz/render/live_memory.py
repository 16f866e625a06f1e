"""Memory in use over the run of an optimized program, from the lifetimes of its values."""

from __future__ import annotations

from collections.abc import Sequence

from pellucid_viz.render.outline import Outline

_ALIASES = frozenset(
    {
        "bitcast", "tuple", "get-tuple-element", "while", "optimization-barrier", "opt-barrier", "copy-done",
    }
)  # fmt: skip
"""Operations whose results are stored in the memory of their operands."""
_WITH_PROGRAMS = frozenset({"while", "call", "conditional"})
"""Operations whose called programs need memory of their own, unlike those of fusions."""


def live_bytes(outline: Outline) -> tuple[Sequence[int], list[int]]:
    """(operations of the entry computation, bytes in use at each of them, including arguments)."""
    record = outline.record
    entry = record.bodies[0]
    base = sum(_bytes(outline, value) for value in (*entry.constants, *entry.inputs))
    steps = range(entry.first_equation, entry.first_equation + entry.equation_count)
    return steps, [base + each for each in _bytes_within_body(outline, 0, {})]


def _bytes_within_body(outline: Outline, body: int, peaks: dict[int, int]) -> list[int]:
    """Bytes of the values computed within a body, at each of its operations."""
    at = outline.record.bodies[body]
    steps = range(at.first_equation, at.first_equation + at.equation_count)
    owners: dict[int, list[int]] = {}
    born: dict[int, int] = {}
    last: dict[int, int] = {}
    for step in steps:
        operands = [operand for operand in outline.operands(step) if operand >= 0]
        shared = [owner for operand in operands for owner in owners.get(operand, ())]
        last.update(dict.fromkeys(shared, step))
        is_alias = outline.primitive(step) in _ALIASES
        for value in outline.results(step):
            owners[value] = shared if is_alias else [value]
            if not is_alias:
                born[value] = last[value] = step
    for output in at.outputs:
        last.update(dict.fromkeys(owners.get(output, ()), steps.stop - 1))
    changes = [0] * (len(steps) + 1)
    for value, step in born.items():
        changes[step - steps.start] += _bytes(outline, value)
        changes[last[value] + 1 - steps.start] -= _bytes(outline, value)
    curve, alive = [], 0
    for step, change in zip(steps, changes, strict=False):
        alive += change
        curve.append(alive + _inside(outline, step, peaks))
    return curve


def _inside(outline: Outline, step: int, peaks: dict[int, int]) -> int:
    """Peak memory of the programs that an operation runs, beyond its operands and results."""
    if outline.primitive(step) not in _WITH_PROGRAMS:
        return 0
    bodies = [body for body, _ in outline.bodies(step)]
    for body in bodies:
        if body not in peaks:
            peaks[body] = max(_bytes_within_body(outline, body, peaks), default=0)
    return max((peaks[body] for body in bodies), default=0)


def _bytes(outline: Outline, value: int) -> int:
    record = outline.record
    return record.types[record.values.type[value]].bytes or 0
