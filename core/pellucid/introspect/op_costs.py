"""What operations of StableHLO and HLO cost, estimated from their shapes."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from pellucid.introspect import schema
from pellucid.introspect.columns import ProgramColumns
from pellucid.introspect.costs import FREE, UNKNOWN, Cost, cost_columns


class Shape(NamedTuple):
    """Dimensions of one array, and bits of an element (0 where that is not known)."""

    dims: tuple[int, ...]
    bits: float

    @property
    def size(self) -> int:
        return math.prod(self.dims)

    @property
    def bytes(self) -> float:
        return math.ceil(self.size * self.bits / 8)


def bits_of(dtype: str) -> int | None:
    """Bits of an element, from the name of its type: the first number in it."""
    complex_part = re.match(r"complex<(.*)>", dtype)
    if complex_part:
        bits = bits_of(complex_part.group(1))
        return None if bits is None else 2 * bits
    if dtype == "pred":
        return 8
    digits = re.search(r"\d+", dtype)
    if digits is None:
        return None
    return 8 if dtype == "i1" else int(digits.group())


_TRANSCENDENTAL = frozenset({
    "atan2", "cbrt", "cosine", "erf", "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic",
    "power", "rsqrt", "sine", "sqrt", "tan", "tanh", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh",
    "erf-inv", "erfc", "lgamma", "digamma", "polygamma", "zeta", "bessel-i1e",
})  # fmt: skip
_ELEMENTWISE = frozenset({
    "abs", "add", "and", "ceil", "clamp", "compare", "convert", "count-leading-zeros", "divide", "floor", "is-finite",
    "maximum", "minimum", "multiply", "negate", "not", "or", "popcnt", "reduce-precision", "remainder",
    "round-nearest-afz", "round-nearest-even", "select", "shift-left", "shift-right-arithmetic",
    "shift-right-logical", "sign", "subtract", "xor", "square", "conj", "next-after", "is-inf", "is-pos-inf",
    "is-neg-inf",
})  # fmt: skip
_FREE = frozenset({
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "opt-barrier", "after-all", "optimization-barrier",
    "create-token", "partition-id", "replica-id", "domain",
})  # fmt: skip
_MOVING = frozenset({
    "bitcast-convert", "broadcast", "broadcast-in-dim", "complex", "concatenate", "copy", "copy-start", "copy-done",
    "dynamic-slice", "dynamic-update-slice", "gather", "imag", "iota", "pad", "real", "reshape", "reverse", "slice",
    "transpose", "all-gather", "all-to-all", "collective-permute", "collective-broadcast",
})  # fmt: skip


def opcode_of(operation: str) -> str:
    """The HLO opcode for an operation of StableHLO or CHLO, `stablehlo.dot_general` for `dot`."""
    name = operation.partition(".")[2] or operation
    return "dot" if name == "dot_general" else name.replace("_", "-")


def is_free(opcode: str) -> bool:
    """Whether an operation only names values."""
    return opcode in _FREE


def op_cost(
    opcode: str,
    operands: Sequence[Shape],
    results: Sequence[Shape],
    summed: float = 1.0,
    window: float = 1.0,
) -> Cost:
    """Cost of one operation.

    `summed` is the number of products that a `dot` or `convolution` adds for one element of its result,
    `window` the number of elements in a window of a `reduce-window`.
    """
    if opcode in _FREE:
        return Cost(0, 0, 0)
    size = sum(r.size for r in results)
    n_bytes: float = sum(s.bytes for s in (*operands, *results))
    if opcode in ("dynamic-slice", "gather") and operands:
        n_bytes += results[0].bytes - operands[0].bytes
    elif opcode == "dynamic-update-slice" and len(operands) > 1:
        n_bytes += operands[1].bytes - operands[0].bytes - results[0].bytes
    if opcode in _TRANSCENDENTAL:
        return Cost(0, size, n_bytes)
    if opcode in _ELEMENTWISE:
        return Cost(size, 0, n_bytes)
    if opcode in _MOVING:
        return Cost(0, 0, n_bytes)
    if opcode in ("dot", "convolution"):
        return Cost(2.0 * size * summed, 0, n_bytes)
    if opcode in ("reduce", "all-reduce", "reduce-scatter"):
        return Cost(max(0, sum(o.size for o in operands[: len(results)]) - size), 0, n_bytes)
    if opcode == "reduce-window":
        return Cost(size * max(0.0, window - 1), 0, n_bytes)
    if opcode == "scatter":
        return Cost(operands[-1].size, 0, n_bytes)
    if opcode in ("sort", "top-k"):
        n = operands[0].size
        return Cost(n * math.log2(max(n, 2)), 0, n_bytes)
    if opcode == "fft":
        length = operands[0].dims[-1] if operands[0].dims else 1
        return Cost(5.0 * size * math.log2(max(length, 2)), 0, n_bytes)
    return UNKNOWN._replace(bytes=n_bytes)


RunBodies = Literal["all", "one", "fused"]
"""Which bodies an operation runs: all of them, one (at most the dearest), or its own as one kernel."""


class OpCosts:
    """Costs of the operations of a module; those that run bodies cost what is inside."""

    def __init__(self, columns: ProgramColumns) -> None:
        self._program = columns
        self._rows: list[Cost] = []
        self._running: dict[int, RunBodies] = {}
        self._bodies: dict[int, Cost] = {}

    def add(self, cost: Cost) -> None:
        """The next operation costs `cost`."""
        self._rows.append(cost)

    def add_running(self, which: RunBodies, own: Cost = FREE) -> None:
        """The next operation costs what its bodies cost; of `own`, a fused one has the bytes."""
        self._running[len(self._rows)] = which
        self._rows.append(own)

    def columns(self) -> list[schema.CostColumn]:
        """The costs as columns, once all bodies are written."""
        equations = self._program.equations
        self._uses: list[list[tuple[int, int | None]]] = []
        next_use = 0
        for count in equations.body_counts:
            uses = slice(next_use, next_use + count)
            self._uses.append(
                list(zip(equations.bodies[uses], equations.body_trips[uses], strict=True))
            )
            next_use += count
        return cost_columns([self._row(i) for i in range(len(self._rows))])

    def _row(self, row: int) -> Cost:
        which, own = self._running.get(row), self._rows[row]
        if which is None:
            return own
        inside = [
            UNKNOWN if trips is None and which == "all" else self._body(body).times(trips or 1)
            for body, trips in self._uses[row]
        ]
        total = FREE
        for cost in inside:
            total = total.maximum(cost) if which == "one" else total.plus(cost)
        return total._replace(bytes=own.bytes) if which == "fused" else total

    def _body(self, index: int) -> Cost:
        found = self._bodies.get(index)
        if found is None:
            body = self._program.bodies[index]
            found = FREE
            for row in range(body.first_equation, body.first_equation + body.equation_count):
                found = found.plus(self._row(row))
            self._bodies[index] = found
        return found
