"""Records of debugged runs that front ends draw without a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.introspect.schema import SCHEMA_VERSION, Record, SourceRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFrameColumns(Record):
    """Frames of stacks, each listed once."""

    function: list[str]
    source: list[int]
    """Index into `RecordingRecord.sources`."""
    line: list[int]
    """Counted from 1."""
    run: list[str]
    """Which run of a loop it is, in words; empty for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedValueColumns(Record):
    """Variables with their values, each listed once."""

    name: list[str]
    text: list[str]
    """Type, and range or elements of the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingRecord(Record):
    """A run of a function by the user's lines: where it stood, and what the variables were."""

    function: str
    sources: list[SourceRecord]
    frames: RecordedFrameColumns
    values: RecordedValueColumns
    stacks: list[list[int]]
    """For each stop its frames, outermost first, as indices into `frames`."""
    variables: list[list[list[int]]]
    """For each stop, and each frame of it, indices into `values`."""
    results: list[str]
    """Types, and ranges or elements, of the results."""
    is_cut: bool
    """Whether the run went on after the last stop that was recorded."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["recording"] = "recording"
