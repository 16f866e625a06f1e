"""Records of debugger results that front ends display without a kernel."""

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
    """Frames of recorded stacks; each distinct frame is listed once."""

    function: list[str]
    source: list[int]
    """Index into `RecordingRecord.sources`."""
    line: list[int]
    """Line number, counted from 1."""
    run: list[str]
    """Text with the loop iteration; empty if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedValueColumns(Record):
    """Names and values of variables; each distinct pair is listed once."""

    name: list[str]
    text: list[str]
    """Type of the value, with its elements or their range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingRecord(ViewRecord):
    """A run of a function recorded line by line: the stack and the variables at each stop."""

    function: str
    sources: list[SourceRecord]
    frames: RecordedFrameColumns
    values: RecordedValueColumns
    stacks: list[list[int]]
    """For each stop, the indices into `frames` of its stack, outermost first."""
    variables: list[list[list[int]]]
    """For each stop and each of its frames, indices into `values`."""
    results: list[str]
    """Types of the results, with their elements or ranges."""
    is_cut: bool
    """Whether the run continued after the last recorded stop."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["recording"] = "recording"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLineColumns(Record):
    """User lines, one row for each row of other columns."""

    sources: list[SourceRecord]
    source: list[int]
    """Index into `sources`; -1 for no user line."""
    line: list[int]
    """Line number, counted from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedEquationColumns(Record):
    """Equations that two runs have in common, in execution order."""

    primitive: list[str]
    line: list[str]
    """Source line of the equation, with the iterations of the loops around it."""
    error: list[float | None]
    """Largest difference of two elements, relative to the largest element; None if it isn't finite."""
    operand_error: list[float | None]
    """Largest error among its operands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceRecord(ViewRecord):
    """Comparison of two ways of running a call, equation by equation."""

    a: str
    b: str
    """Names of the two ways."""
    equations: ComparedEquationColumns
    places: UserLineColumns
    """Source line of each equation."""
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
    """Euclidean norm; None if it isn't finite."""
    fault: list[str]
    """`NaN`, `infinite` or `zero`; empty if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientColumns(Record):
    """Derivatives by leaves of the arguments."""

    name: list[str]
    norm: list[float | None]
    fault: list[str]
    path: list[list[str]]
    """Operations along which a fault spread, its origin first, each with its line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientRecord(ViewRecord):
    """A gradient with the cotangents of its backward pass."""

    cotangents: CotangentColumns
    places: UserLineColumns
    """Source line of each cotangent."""
    gradients: GradientColumns
    operands: list[list[str]]
    """For each gradient, the ranges of the operands of its path's first operation."""
    within: str
    """Text that tells what removes the fault, which decompositions have values that are equal up to rounding, and which
    elements are at fault where it begins in a loop or branch; may be empty.
    """
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
    """A text that says what is compared."""
    primitive: str
    """The first operation whose results differ."""
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
    """The first operation of a call whose result meets a condition, its operands, and how it was reached."""

    function: str
    primitive: str
    is_backward: bool
    """Whether it belongs to the backward pass of a derivative."""
    n_elements: int
    """Number of elements of its result that meet the condition."""
    size: int
    """Number of all elements of the result."""
    index: list[int]
    """Index of the first such element; empty for a scalar."""
    lanes: list[str]
    """Text for each batch lane of the first element, outermost first."""
    iterations: list[int]
    """Iteration of each enclosing loop, outermost first, counted from 0."""
    way: UserLineColumns
    """User lines that lead to the operation, outermost first."""
    functions: list[str]
    """For each of these lines, its function, with the loop iteration as text."""
    operands: list[ArrayValuesRecord]
    result: ArrayValuesRecord
    schema_version: int = SCHEMA_VERSION
    kind: Literal["finding"] = "finding"
