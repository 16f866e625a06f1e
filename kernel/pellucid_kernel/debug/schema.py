"""Records of debugged runs that front ends draw without a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.introspect.schema import (
    SCHEMA_VERSION,
    ArrayValuesRecord,
    Record,
    SourceRecord,
    ViewRecord,
)


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
class RecordingRecord(ViewRecord):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLineColumns(Record):
    """Lines of the user, a row for each row of other columns."""

    sources: list[SourceRecord]
    source: list[int]
    """Index into `sources`; -1 where no line is the user's."""
    line: list[int]
    """Counted from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedEquationColumns(Record):
    """Equations that two runs have in common, in the order in which they run."""

    primitive: list[str]
    line: list[str]
    """The user's line."""
    error: list[float | None]
    """Largest difference of two elements, relative to the largest element; None where one isn't finite."""
    operand_error: list[float | None]
    """The largest error among its operands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceRecord(ViewRecord):
    """How two ways of running a call differ, equation by equation."""

    a: str
    b: str
    """Names of the two ways."""
    equations: ComparedEquationColumns
    places: UserLineColumns
    """For each equation its line."""
    unmatched: int
    """Number of equations that only one of the runs has."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["divergence"] = "divergence"


@dataclass(frozen=True, slots=True, kw_only=True)
class CotangentColumns(Record):
    """Cotangents by lines of the forward pass, in the order of the backward pass."""

    line: list[str]
    primitive: list[str]
    norm: list[float | None]
    """Euclidean norm; None where it isn't finite."""
    fault: list[str]
    """`NaN`, `infinite` or `zero`; empty for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientColumns(Record):
    """Derivatives by leaves of the arguments."""

    name: list[str]
    norm: list[float | None]
    fault: list[str]
    path: list[list[str]]
    """Operations along which a fault came, the first one first, each with its line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientRecord(ViewRecord):
    """A gradient with the cotangents of its backward pass."""

    cotangents: CotangentColumns
    places: UserLineColumns
    """For each cotangent its line."""
    gradients: GradientColumns
    operands: list[list[str]]
    """For each gradient the ranges of the operands of the first operation of its path."""
    within: str
    """What removes the fault, and where in a loop or a branch it begins; empty where it begins outside and nothing does."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["gradient"] = "gradient"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnequalOperationColumns(Record):
    """Operations whose results are not equal in all runs, in the order in which they run."""

    primitive: list[str]
    line: list[str]
    """The user's line."""
    runs: list[int]
    """Number of runs whose results are not those of the first."""
    ulps: list[float | None]
    """The largest distance of two elements, in units of the last place; None where it isn't finite."""
    begins: list[bool]
    """Whether its operands are equal in all runs, so that the difference begins here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedValueRecord(Record):
    """A value that is drawn under a name."""

    name: str
    values: ArrayValuesRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class UnequalRunsRecord(ViewRecord):
    """Runs of one call that are not equal to the bit, at the first operation where they aren't."""

    function: str
    runs: str
    """What is compared, in words."""
    primitive: str
    """The first operation whose results differ; empty where none does."""
    says: str
    """How they differ, and what cures it, in words."""
    way: UserLineColumns
    """The lines that lead to the operation, outermost first."""
    functions: list[str]
    """For each line of the way its function."""
    operations: UnequalOperationColumns
    places: UserLineColumns
    """For each operation its line."""
    values: list[NamedValueRecord]
    """The operands of the first operation, its results in two runs, and how far these are apart."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["unequal_runs"] = "unequal_runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRecord(ViewRecord):
    """The first operation of a call whose result meets a condition: how it was come to, and what it was given."""

    function: str
    primitive: str
    is_backward: bool
    """Whether it belongs to the backward pass of a derivative."""
    n_elements: int
    """Elements of its result that meet the condition."""
    size: int
    """All elements of the result."""
    index: list[int]
    """Of the first element; empty for a scalar."""
    lanes: list[str]
    """The lanes of batches of the first element, outermost first, in words."""
    iterations: list[int]
    """Of each loop around it, outermost first, counted from 0."""
    way: UserLineColumns
    """The lines that lead there, outermost first."""
    functions: list[str]
    """For each line of the way its function, and the run of a loop in words."""
    operands: list[ArrayValuesRecord]
    result: ArrayValuesRecord
    schema_version: int = SCHEMA_VERSION
    kind: Literal["finding"] = "finding"
