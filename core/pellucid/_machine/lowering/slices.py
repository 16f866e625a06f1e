"""Windows at computed positions, where XLA merges a window of a window into one.

Its simplifier replaces `dynamic_slice(dynamic_slice(x, i), j)` by `dynamic_slice(x, i + j)`, and updates of windows in the
same way. That is right only if both positions are inside, where nothing has to be moved; so positions are moved before. For
a single 32-bit integer it also sees through a product with a constant, which then is lost.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from pellucid._machine.base import Size, fits, smaller
from pellucid._machine.xla.mlir import ir

from .faults import LOST_FACTOR, MERGED_WINDOWS

if TYPE_CHECKING:
    from .operations import OperationBuilder

_AFFECTED = (np.dtype(np.int32), np.dtype(np.uint32))
"""Dtypes of which factors are lost."""


def clamp_start(ctx: OperationBuilder, start: ir.Value, aval: Any, last: Size) -> ir.Value:
    """The scalar position `start` of type `aval` clamped to 0 … `last`, as the operation that uses it would clamp it."""
    if not ctx.has_fault(MERGED_WINDOWS):
        return start
    largest = int(np.iinfo(aval.dtype).max)
    last = last if fits(last, largest) else smaller(last, largest)
    known = _constant_scalar(start)
    if type(last) is int and (last == 0 or known is not None):
        inside = min(max(known or 0, 0), last)
        return start if inside == known else ctx.constant(inside, aval.dtype)
    zero = ctx.constant(0, aval.dtype)
    return ctx.op1("stablehlo.clamp", aval, [zero, start, ctx.constant(last, aval.dtype)])


def element_apart(ctx: OperationBuilder, x: ir.Value, aval: Any, result: Any) -> ir.Value:
    """The array `x` of type `aval`, of which one element, of type `result`, is read at a computed position."""
    is_scalar = all(type(n) is int for n in result.shape) and math.prod(result.shape) == 1
    if aval.dtype not in _AFFECTED or not is_scalar or not ctx.has_fault(LOST_FACTOR):
        return x
    if isinstance(x.owner, ir.Block):
        # An argument of a function or loop that XLA may inline may be a product too.
        may_be_product = ctx.stated_for_argument(x) is None
    else:
        may_be_product = x.owner.name != "stablehlo.constant"
    return _apart(ctx, x) if may_be_product else x


def factor_apart(ctx: OperationBuilder, x: ir.Value, aval: Any) -> ir.Value:
    """The factor `x` of type `aval`, kept apart in partitioned programs if it is a constant: the partitioner makes
    slices of products, too.
    """
    if aval.dtype not in _AFFECTED or not ctx.is_partitioned or not ctx.has_fault(LOST_FACTOR):
        return x
    return _apart(ctx, x) if _is_constant(x) else x


def _apart(ctx: OperationBuilder, x: ir.Value) -> ir.Value:
    """`x` behind a barrier, which hides it from XLA's simplifier and is removed before operations are fused."""
    return ctx.op("stablehlo.optimization_barrier", [x.type], [x]).result


def _is_constant(x: ir.Value) -> bool:
    while not isinstance(x.owner, ir.Block) and x.owner.name == "stablehlo.broadcast_in_dim":
        x = x.owner.operands[0]
    return not isinstance(x.owner, ir.Block) and x.owner.name == "stablehlo.constant"


def _constant_scalar(x: ir.Value) -> int | None:
    """The value of a constant scalar; None if `x` isn't one."""
    if isinstance(x.owner, ir.Block) or x.owner.name != "stablehlo.constant":
        return None
    return int(np.asarray(ir.DenseIntElementsAttr(x.owner.attributes["value"])))
