"""Operations of HLO and StableHLO: kind and cost of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from .costs import Cost, RunBodies, moved_bytes
from .shapes import Shape


class Details(NamedTuple):
    """Attributes that affect the cost and don't follow from the operands' shapes."""

    summed: float = 1.0
    """Number of products that a `dot` or `convolution` sums per element of its result."""
    window: float = 1.0
    """Number of elements in a window of a `reduce-window`."""
    lengths: tuple[int, ...] = ()
    """Lengths of the transformed dimensions of an `fft`, or of the sorted dimension of a sort."""
    is_real: bool = False
    """Whether the input or the output of an `fft` is real."""


Shapes = Sequence[Shape]
CountRule = Callable[[Shapes, Shapes, Details], float]
"""(operands, results, details) -> number of operations per run."""


class Operation(NamedTuple):
    """The kind and cost of one operation."""

    kind: str
    """The kind, as in `ir.traits.Kind`."""
    flops: float | CountRule | None = 0.0
    """FLOPs per result element, or a rule for one run; None if unknown."""
    transcendentals: float = 0.0
    """Transcendental functions per result element."""
    touches: Literal["all", "part", "in place", "nothing"] = "all"
    """Memory traffic, as in `Traits.touches`; operations that only name values touch nothing."""
    bodies: RunBodies | None = None
    """How it runs its inner programs; None if these don't count."""


def _size(shapes: Shapes) -> float:
    return sum(each.size for each in shapes)


def _operations(shapes: Shapes) -> float:
    """Real operations for one operation per element: four if complex, as in `ir.rules.Traits.counts`."""
    return sum(each.size * (4.0 if each.is_complex else 1.0) for each in shapes)


def _products(operands: Shapes, results: Shapes, details: Details) -> float:
    return 2.0 * _operations(results) * details.summed


def _combinations(operands: Shapes, results: Shapes, details: Details) -> float:
    # With several operands, one run of the function combines elements of all of them.
    return max(0, operands[0].size - results[0].size)


def _window_combinations(operands: Shapes, results: Shapes, details: Details) -> float:
    return results[0].size * max(0.0, details.window - 1)


def _comparisons(operands: Shapes, results: Shapes, details: Details) -> float:
    n, length = operands[0].size, math.prod(details.lengths or operands[0].dims[-1:])
    return n * math.log2(max(length, 2))


def _largest(operands: Shapes, results: Shapes, details: Details) -> float:
    return operands[0].size * math.log2(math.prod(results[0].dims[-1:]) + 1)


def _updates(operands: Shapes, results: Shapes, details: Details) -> float:
    return operands[-1].size


def _fft(operands: Shapes, results: Shapes, details: Details) -> float:
    """5 N log2 N for N complex numbers (Cooley and Tukey), or half of it if one side is real."""
    n = math.prod(details.lengths)
    transforms = math.prod(results[0].dims[: -len(details.lengths) or None])
    return transforms * 5.0 * n * math.log2(max(n, 1)) * (0.5 if details.is_real else 1.0)


_ROWS: dict[str, Operation] = {
    "abs add and ceil clamp compare count-leading-zeros divide floor is-finite is-inf is-neg-inf is-pos-inf maximum"
    " minimum multiply negate next-after not or popcnt reduce-precision remainder round-nearest-afz round-nearest-even"
    " select shift-left shift-right-arithmetic shift-right-logical sign square subtract xor":
        Operation("elementwise", 1.0),
    "acos acosh asin asinh atan atan2 atanh bessel-i1e cbrt cosh cosine digamma erf erf-inv erfc exponential"
    " exponential-minus-one lgamma log log-plus-one logistic polygamma power rsqrt sine sinh sqrt tan tanh zeta":
        Operation("elementwise", 0.0, 1.0),
    "conj": Operation("elementwise", 1.0),
    "complex imag real": Operation("elementwise"),
    "dot convolution": Operation("contraction", _products),
    "cholesky triangular-solve": Operation("contraction", None),
    "fft": Operation("contraction", _fft),
    "reduce": Operation("reduction", _combinations, bodies="combined"),
    "reduce-window": Operation("reduction", _window_combinations, bodies="combined"),
    "select-and-scatter": Operation("reduction", None),
    "sort": Operation("reduction", _comparisons),
    "top-k topk": Operation("reduction", _largest),
    "convert": Operation("movement", 1.0),
    "bitcast-convert broadcast broadcast-in-dim concatenate copy dynamic-broadcast-in-dim dynamic-reshape pad reshape"
    " reverse set-dimension-size transpose":
        Operation("movement"),
    "add-dependency bitcast domain get-tuple-element opt-barrier optimization-barrier tuple":
        Operation("movement", touches="nothing"),
    "slice": Operation("movement", touches="part"),
    "dynamic-slice gather": Operation("indexing", touches="part"),
    "dynamic-update-slice": Operation("indexing", touches="in place"),
    "scatter": Operation("indexing", _updates, touches="in place", bodies="combined"),
    "async call composite manual-computation while": Operation("control", bodies="all"),
    "case conditional if": Operation("control", bodies="one"),
    "fusion": Operation("control", bodies="fused"),
    "all-reduce reduce-scatter": Operation("collective", 1.0),
    "all-gather all-to-all collective-broadcast collective-permute ragged-all-to-all": Operation("collective"),
    "partition-id replica-id": Operation("collective", touches="nothing"),
    "rng rng-bit-generator rng-get-and-update-state": Operation("random", None),
    "iota": Operation("creation"),
    "constant create-token parameter": Operation("creation", touches="nothing"),
    "after-all": Operation("host", touches="nothing"),
    "custom-call infeed outfeed recv send": Operation("host", None),
}  # fmt: skip
OPERATIONS = {opcode: row for names, row in _ROWS.items() for opcode in names.split()}
_UNKNOWN = Operation("elementwise", None)


def opcode_of(operation: str) -> str:
    """The HLO opcode for an operation of StableHLO or CHLO: `dot` for `stablehlo.dot_general`.

    Both halves of an asynchronous operation have the opcode of the operation.
    """
    name = (operation.partition(".")[2] or operation).replace("_", "-")
    return "dot" if name == "dot-general" else name.removesuffix("-start").removesuffix("-done")


def operation_of(name: str) -> Operation:
    """The table's row for an operation of HLO, StableHLO or CHLO."""
    row = OPERATIONS.get(opcode_of(name), _UNKNOWN)
    return (
        row._replace(flops=0.0, touches="nothing", bodies=None) if name.endswith("-done") else row
    )


def is_free(opcode: str) -> bool:
    """Whether an operation only names values and costs nothing."""
    return operation_of(opcode).touches == "nothing"


def is_exchange(name: str) -> bool:
    """Whether an operation communicates between devices."""
    row = operation_of(name)
    return row.kind == "collective" and row.touches != "nothing"


def operation_cost(row: Operation, operands: Shapes, results: Shapes, details: Details) -> Cost:
    """Cost of one run of an operation, without its inner programs."""
    if row.touches == "nothing":
        return Cost(0, 0, 0)
    n_bytes = moved_bytes(row.touches, [s.bytes for s in operands], [s.bytes for s in results])
    if row.flops is None:
        return Cost(None, None, n_bytes)
    if callable(row.flops):
        flops = row.flops(operands, results, details)
    else:
        flops = row.flops * _operations(results)
    return Cost(flops, row.transcendentals * _size(results), n_bytes)
