"""Rounding of differences and products in compiled programs as in eager operations (`exact_arithmetic`).

XLA's CPU compiler contracts `a * b - c` to a fused operation that doesn't round the product. In `p - max(p)` of a
product `p`, the largest element is then not 0 but the product's rounding error, which `exp` of large numbers makes
infinite. No option of XLA and no barrier prevents this: LLVM contracts a product with a single use. So operands are
rewritten, by identities of IEEE arithmetic, such that no contraction is possible. This happens in lowering, below
differentiation, which it would mislead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from pellucid._machine.base import dtypes
from pellucid._machine.ir import ShapedArray
from pellucid._machine.xla.mlir import ir

from .faults import CONTRACTED_SHIFT

if TYPE_CHECKING:
    from .operations import OperationBuilder

MAX_VISITED_OPERATIONS = 32
"""Maximum number of operations searched between a difference and an extreme."""
_EXTREMES = frozenset({
    "chlo.top_k", "stablehlo.clamp", "stablehlo.dynamic_slice", "stablehlo.gather", "stablehlo.maximum", "stablehlo.minimum", "stablehlo.reduce",
    "stablehlo.reduce_window", "stablehlo.sort",
})  # fmt: skip
"""Operations that select elements by order or position. Reductions count if their body contains only `_IN_EXTREMES`."""
_IN_EXTREMES = frozenset({
    "func.call", "stablehlo.compare", "stablehlo.maximum", "stablehlo.minimum", "stablehlo.return", "stablehlo.select",
})  # fmt: skip
_MOVEMENTS = frozenset({
    "sdy.sharding_constraint", "stablehlo.bitcast_convert", "stablehlo.broadcast_in_dim", "stablehlo.convert",
    "stablehlo.dynamic_broadcast_in_dim", "stablehlo.dynamic_reshape", "stablehlo.optimization_barrier", "stablehlo.reshape", "stablehlo.reverse", "stablehlo.select", "stablehlo.slice",
    "stablehlo.transpose", "stablehlo.xor",
})  # fmt: skip
"""Operations whose results are elements of their operands, as they occur in computing an extreme."""


def difference(ctx: OperationBuilder, x: ir.Value, y: ir.Value, aval: ShapedArray) -> ir.Value:
    """`x - y` of type `aval`; exactly 0 (of infinities NaN) if one is an extreme of the other's elements, and equal."""
    result = ctx.op1("stablehlo.subtract", aval, [x, y])
    is_shift = _is_floating(aval) and (_is_extreme_of(y, x) or _is_extreme_of(x, y))
    if not is_shift or not ctx.has_fault(CONTRACTED_SHIFT):
        return result
    # Comparing bits uses the rounded product a second time, which prevents contraction. Differences of infinities stay
    # NaN.
    of_bits = aval.update(dtype=np.dtype(f"int{dtypes.itemsize_bits(aval.dtype)}"))
    bits_x, bits_y = (ctx.op1("stablehlo.bitcast_convert", of_bits, [v]) for v in (x, y))
    is_same = ctx.compare(bits_x, bits_y, "EQ", of_bits)
    flags = aval.update(dtype=np.dtype(bool))
    is_finite = ctx.op1("stablehlo.is_finite", flags, [y])
    zero, nan = ctx.full(aval, 0), ctx.full(aval, np.nan)
    of_same = ctx.op1("stablehlo.select", aval, [is_finite, zero, nan])
    return ctx.op1("stablehlo.select", aval, [is_same, of_same, result])


def protect_product(ctx: OperationBuilder, product: ir.Value, aval: ShapedArray) -> ir.Value:
    """The `product` of type `aval`; in exact programs, protected from contraction with other operations."""
    if not ctx.is_exact or not _is_floating(aval):
        return product
    is_number = ctx.compare(product, product, "EQ", aval)
    return ctx.op1("stablehlo.select", aval, [is_number, product, ctx.full(aval, np.nan)])


def protect_value(ctx: OperationBuilder, x: ir.Value, aval: ShapedArray) -> ir.Value:
    """`x` of type `aval`; in exact programs, protected from being rewritten together with its users."""
    if not ctx.is_exact or not dtypes.is_inexact(aval.dtype):
        return x
    return ctx.op1("stablehlo.optimization_barrier", aval, [x])


def _is_floating(aval: ShapedArray) -> bool:
    return dtypes.is_inexact(aval.dtype) and aval.dtype.kind != "c"


def _is_extreme_of(y: ir.Value, x: ir.Value) -> bool:
    """Whether `y` is an extreme of elements from which `x` was also made."""
    origins = set(_moved_values(x, frozenset()))
    return any(
        _chooses(v) and not origins.isdisjoint(_moved_values(v, _EXTREMES))
        for v in _moved_values(y, frozenset())
    )


def _chooses(x: ir.Value) -> bool:
    operation = x.owner
    if isinstance(operation, ir.Block) or operation.name not in _EXTREMES:
        return False
    if not operation.name.startswith("stablehlo.reduce"):
        return True
    body = operation.regions[0].blocks[0]
    return all(inner.operation.name in _IN_EXTREMES for inner in body.operations)


def _moved_values(x: ir.Value, passed: frozenset[str]) -> Iterator[ir.Value]:
    """The values from which movements, and operations named in `passed`, made `x`, including `x`."""
    pending, seen = [x], {x}
    while pending and len(seen) < MAX_VISITED_OPERATIONS:
        value = pending.pop()
        yield value
        operation = value.owner
        if isinstance(operation, ir.Block) or operation.name not in _MOVEMENTS | passed:
            continue
        new = [v for v in operation.operands if v not in seen]
        seen.update(new)
        pending += new
