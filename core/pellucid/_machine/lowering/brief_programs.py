"""Which modules run so briefly that only the time to compile them counts, and give the same bits however they are compiled.

Most programs of a session are small eager operations: filling, slicing, indexing, one sum, the bits of a key. XLA's CPU
compiler takes 20 to 60 ms for each, most of it for optimizations that save nothing on a few hundred elements; without them
it takes 6 to 20 ms. Its two ways to emit code approximate functions such as `exp` differently, and either may contract a
product and a sum, or make an extreme, which flushes subnormal numbers, of a comparison and a selection. So a module is brief
only if all its results are defined to the bit: it moves elements, computes with integers and flags, and has at most one
operation that rounds or compares floating-point numbers.
"""

from __future__ import annotations

import math
from typing import Any

from pellucid._machine.xla.mlir import ir

MAX_ELEMENTS = 2048
"""Maximum number of elements of a result. Code that isn't optimized takes about 1 ns longer for each of them."""
MAX_ELEMENTS_OF_ALL = 2**15
"""Maximum number of elements in the results of all operations, most of which are fused: about 0.1 ns for each."""
_MOVEMENTS = frozenset({
    "func.return", "stablehlo.bitcast_convert", "stablehlo.broadcast_in_dim", "stablehlo.concatenate", "stablehlo.constant",
    "stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice", "stablehlo.gather", "stablehlo.iota", "stablehlo.is_finite",
    "stablehlo.optimization_barrier", "stablehlo.pad", "stablehlo.reshape", "stablehlo.return", "stablehlo.reverse",
    "stablehlo.scatter", "stablehlo.select", "stablehlo.slice", "stablehlo.transpose",
})  # fmt: skip
"""Operations that move elements of any type."""
_OF_INTEGERS = frozenset({
    "stablehlo.abs", "stablehlo.add", "stablehlo.and", "stablehlo.clamp", "stablehlo.compare", "stablehlo.convert",
    "stablehlo.divide", "stablehlo.maximum", "stablehlo.minimum", "stablehlo.multiply", "stablehlo.negate", "stablehlo.not",
    "stablehlo.or", "stablehlo.reduce", "stablehlo.remainder", "stablehlo.shift_left", "stablehlo.shift_right_arithmetic",
    "stablehlo.shift_right_logical", "stablehlo.sign", "stablehlo.subtract", "stablehlo.xor",
})  # fmt: skip
"""Operations that are exact where operands and results are integers or flags."""
_DEFINED_ALONE = frozenset(
    f"stablehlo.{name}" for name in ("add", "compare", "convert", "divide", "multiply", "subtract")
)
"""Operations whose results in single or double precision are as IEEE 754 defines, unless others of these are fused with them."""
_FLOATS = (ir.F32Type, ir.F64Type)
_MOVED = (ir.IntegerType, *_FLOATS, ir.BF16Type, ir.F16Type, ir.ComplexType)
_MIN_WIDTH = 8
"""Narrower integers, except flags, are packed."""


def is_brief(module: ir.Module) -> bool:
    """Whether a module has no loops or calls, computes few elements, and defines them to the bit."""
    functions = list(module.body.operations)
    if len(functions) != 1:
        return False
    counts = _Counts()
    if not counts.include(functions[0].regions[0]):
        return False
    alone, among = counts.alone, counts.moved
    # XLA multiplies by the reciprocal of a constant, and makes `max(x, y)` of `select(x > y, x, y)`.
    return len(alone) <= 1 and not (
        ("stablehlo.divide" in alone and "stablehlo.constant" in among)
        or ("stablehlo.compare" in alone and "stablehlo.select" in among)
    )


class _Counts:
    """The elements and the operations of a module, as far as they have been counted."""

    def __init__(self) -> None:
        self.elements = 0
        self.alone: list[str] = []
        """Operations of `_DEFINED_ALONE` that compute or compare floating-point numbers."""
        self.moved: set[str] = set()
        """Movements that have floating-point results."""

    def include(self, region: ir.Region, *, is_inner: bool = False) -> bool:
        """Count a region's operations, until one doesn't belong to a brief module; whether all do."""
        for block in region:
            for view in block:
                operation = view.operation
                types = [value.type for value in operation.results]
                if not all(map(self._include_type, types)):
                    return False
                if not self._include_operation(operation, types, is_inner):
                    return False
                if not all(self.include(inner, is_inner=True) for inner in operation.regions):
                    return False
        return True

    def _include_type(self, type_: Any) -> bool:
        if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
            return False
        elements = math.prod(type_.shape)
        self.elements += elements
        element = type_.element_type
        is_packed = isinstance(element, ir.IntegerType) and 1 < element.width < _MIN_WIDTH
        are_few = elements <= MAX_ELEMENTS and self.elements <= MAX_ELEMENTS_OF_ALL
        return are_few and isinstance(element, _MOVED) and not is_packed

    def _include_operation(self, operation: ir.Operation, types: list[Any], is_inner: bool) -> bool:
        name = operation.name
        if name in _MOVEMENTS:
            if not all(isinstance(type_.element_type, ir.IntegerType) for type_ in types):
                self.moved.add(name)
            return True
        of_operands = [value.type for value in operation.operands]
        elements = [type_.element_type for type_ in (*types, *of_operands)]
        if all(isinstance(element, ir.IntegerType) for element in elements):
            reduced = of_operands if operation.regions else ()
            return name in _OF_INTEGERS and all(map(self._include_type, reduced))
        self.alone.append(name)
        return (
            name in _DEFINED_ALONE
            and not is_inner
            and all(isinstance(element, (ir.IntegerType, *_FLOATS)) for element in elements)
        )
