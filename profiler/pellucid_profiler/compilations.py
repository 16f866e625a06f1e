"""Compilations during a session: which functions and eager operations were traced and compiled, how long that took, and
why it was needed.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from pellucid.introspect import recording
from pellucid.introspect.eager_compilations import EagerCompilationLog
from pellucid.introspect.misses import misses_since
from pellucid.introspect.schema import MissRecord


class Compilation(NamedTuple):
    """A function, or an operation called eagerly, that was traced or compiled during a session.

    >>> with pl.profiler.profile() as recorded:
    ...     y = pl.jit(lambda x: x + 43)(1.0)
    >>> [(each.function, each.entry_count) for each in recorded.wait().compilations]
    [('<lambda>', 1)]
    """

    function: str
    file: str
    """File of the call; empty if the call is not in the user's code."""
    line: int
    trace_seconds: float
    lower_seconds: float
    """Time of lowering to StableHLO."""
    compile_seconds: float
    """Time of compilation by XLA."""
    entry_count: int
    """Number of programs compiled so far for this function, this one included; above 1 it is a recompilation."""
    causes: list[str]
    """Differences from the most similar earlier program, as `argument: before -> after`."""
    is_operation: bool = False
    """Whether it is an operation that was called eagerly, the first time for its types in this process."""

    @property
    def seconds(self) -> float:
        """Total time of tracing, lowering and compiling."""
        return self.trace_seconds + self.lower_seconds + self.compile_seconds


def compilations_since(time_ns: int) -> list[Compilation]:
    """The compilations after `time_ns` on the clock `time.monotonic_ns`, oldest first."""
    return [
        _compilation(record)
        for record in misses_since(time_ns)
        if record.function != recording.DRAINING
    ]


def _compilation(record: MissRecord) -> Compilation:
    seconds: dict[str, Any] = {phase.name: phase.seconds for phase in record.phases}
    return Compilation(
        function=record.function,
        file="" if record.source is None else record.source.path,
        line=record.line or 0,
        trace_seconds=seconds.get("trace", 0.0),
        lower_seconds=seconds.get("lower", 0.0),
        compile_seconds=seconds.get("compile", 0.0),
        entry_count=record.entry_count,
        causes=[
            f"{cause.path}: {cause.before} -> {cause.after}"
            for cause in record.causes
            if cause.part != "first_call"
        ],
    )


def operation_compilations(log: EagerCompilationLog) -> list[Compilation]:
    """The compilations of operations called eagerly, oldest first."""
    counts: Counter[str] = Counter()
    compilations: list[Compilation] = []
    for each in log.compilations:
        counts[each.operation] += 1
        compilations.append(
            Compilation(
                function=each.operation,
                file="" if each.frame is None else each.frame.file,
                line=0 if each.frame is None else each.frame.line,
                trace_seconds=0.0,
                lower_seconds=each.lower_seconds,
                compile_seconds=each.compile_seconds,
                entry_count=counts[each.operation],
                causes=[],
                is_operation=True,
            )
        )
    return compilations
