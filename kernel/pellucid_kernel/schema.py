"""Messages between a kernel and the panels of a front end; each travels as the data of one comm message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.introspect.schema import (
    FunctionsRecord,
    MemoryRecord,
    ProgramRecord,
    Record,
    ShardingRecord,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookRequest(Record):
    """Asks for the state now."""

    kind: Literal["look"] = "look"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRequest(Record):
    """Asks for the program of a cache entry."""

    request: int
    """Number that the answer repeats."""
    entry: int
    kind: Literal["show_program"] = "show_program"


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeArrayRequest(Record):
    """Asks to free the memory of a live array."""

    request: int
    array: int
    kind: Literal["free_array"] = "free_array"


@dataclass(frozen=True, slots=True, kw_only=True)
class LetGoRequest(Record):
    """Asks to forget what the last error and the outputs of cells keep alive."""

    request: int
    kind: Literal["let_go"] = "let_go"


Request = LookRequest | ProgramRequest | FreeArrayRequest | LetGoRequest
"""What a panel sends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRecord(Record):
    """What lives in a kernel: sent after each cell and when a panel asks."""

    functions: FunctionsRecord
    memory: MemoryRecord
    """Without the smallest arrays where there are very many."""
    array_count: int
    meshes: list[ShardingRecord]
    """The user's meshes, each by the name of its variable."""
    device_note: str
    """How to get another number of devices; empty where that has no sense."""
    compiling: str | None
    """Name of the function that XLA compiles now."""
    kind: Literal["state"] = "state"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRecord(Record):
    """The answer to a request with a number."""

    request: int
    program: ProgramRecord | None
    error: str | None
    """What went wrong; None if nothing did."""
    kind: Literal["answer"] = "answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilationRecord(Record):
    """What XLA compiles now: sent when it starts, and when it has ended."""

    function: str | None
    """As `StateRecord.compiling`."""
    kind: Literal["compilation"] = "compilation"


Message = StateRecord | AnswerRecord | CompilationRecord
"""What a kernel sends."""
