"""Sums of matrix products, also over windows, that XLA's CPU compiler would hand to a library as one operation.

The library has a fault there (`SUMMED_PRODUCT` of `faults.py`): some results are those of other places. A selection between the
product and the sum, an identity of IEEE arithmetic, keeps them two operations.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pellucid._machine.base import Shape, dtypes
from pellucid._machine.ir import ShapedArray
from pellucid._machine.xla.mlir import ir

from .faults import SUMMED_PRODUCT

if TYPE_CHECKING:
    from .operations import OperationBuilder

_MAX_VISITED_OPERATIONS = 64
"""Maximum number of operations searched between a sum and a product; beyond it, a product is assumed."""
_MAX_BYTES = 1 << 16
"""Largest sum, in bytes, that the library computes at once: half of the smallest that was wrong."""
_APART = frozenset({
    "stablehlo.constant", "stablehlo.convolution", "stablehlo.custom_call", "stablehlo.fft", "stablehlo.gather", "stablehlo.iota",
})  # fmt: skip
"""Operations that XLA never fuses with a sum, besides those that contain programs."""


def apart_from_product(
    ctx: OperationBuilder, x: ir.Value, aval: ShapedArray, results: Shape
) -> ir.Value:
    """`x` of type `aval`, from which sums of shape `results` are computed, kept apart from a matrix product that it
    may be computed from.
    """
    is_large = (
        not all(type(size) is int for size in results)
        or math.prod(results) * aval.dtype.itemsize > _MAX_BYTES
    )
    is_floating = dtypes.is_inexact(aval.dtype) and aval.dtype.kind != "c"
    if not (results and is_large and is_floating and ctx.has_fault(SUMMED_PRODUCT)):
        return x
    if not _may_be_of_product(x):
        return x
    is_number = ctx.compare(x, x, "EQ", aval)
    return ctx.op1("stablehlo.select", aval, [is_number, x, ctx.full(aval, np.nan)])


def _may_be_of_product(x: ir.Value) -> bool:
    """Whether operations on elements make `x` of a product of matrices, here or in a caller or a callee."""
    pending, seen = [x], {x}
    while pending:
        value = pending.pop()
        operation = value.owner
        if isinstance(operation, ir.Block):
            around = operation.owner.operation
            # An argument of a function may be a product in its caller; values that loops carry aren't fused with it.
            if (
                around.name == "func.func"
                and ir.StringAttr(around.attributes["sym_name"]).value != "main"
            ):
                return True
            continue
        if operation.name in ("stablehlo.dot_general", "func.call"):
            return True
        if operation.name in _APART or len(operation.regions):
            continue
        new = [v for v in operation.operands if v not in seen]
        seen.update(new)
        pending += new
        if len(seen) > _MAX_VISITED_OPERATIONS:
            return True
    return False
