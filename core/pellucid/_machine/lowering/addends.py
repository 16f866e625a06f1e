"""Lowering of equations whose results are unreduced: each device computes its own addend from addends of the operands.

Lowering rules don't annotate their intermediate values. Shardy would treat these as reduced: devices would sum the
operand's addends, and each would use the whole result as its addend.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from pellucid._machine.ir import shaped_array
from pellucid._machine.sharding import NamedSharding, PartitionSpec
from pellucid._machine.sharding.partition_spec import NO_AXES
from pellucid._machine.sharding.shardy import axis_texts
from pellucid._machine.xla.mlir import ir

from .operations import OperationBuilder, Values


def compute_with_addends(ctx: OperationBuilder, operands: Values, results: Values) -> None:
    """If the results of the current equation are unreduced, annotates the intermediate values computed from unreduced
    operands likewise.
    """
    addends = ctx.addends
    if addends is None:
        return
    are_addends = dict.fromkeys(operands, False)
    for x, aval in zip(operands, ctx.avals_in, strict=True):
        sharding = ctx.placed_by_type(aval)
        are_addends[x] |= sharding is not None and bool(sharding.spec.unreduced)

    def visit(x: ir.Value) -> bool:
        """Whether `x` is computed from addends; if so, annotates it."""
        if x not in are_addends:
            made_by = x.owner
            if isinstance(made_by, ir.Block):
                return False
            are_addends[x] = any(list(map(visit, made_by.operands)))
            if are_addends[x] and x not in results and made_by.name != "sdy.sharding_constraint":
                attributes = {"sharding": _layout(ctx, x, addends)}
                with ir.InsertionPoint.after(made_by):
                    held = ctx.op("sdy.sharding_constraint", [x.type], [x], attributes)
                x.replace_all_uses_except(held.result, held)
        return are_addends[x]

    for result in results:
        visit(result)


def _layout(ctx: OperationBuilder, x: ir.Value, addends: NamedSharding) -> ir.Attribute:
    """Sharding of an intermediate value: that of an operand or result of the same shape, or else unsharded."""
    aval = shaped_array(tuple(ir.RankedTensorType(x.type).shape), np.dtype(np.float32))
    placed = [
        ctx.placed_by_type(other)
        for other in (*ctx.avals_out, *ctx.avals_in)
        if other.shape == aval.shape
    ]
    alike = next((sharding for sharding in placed if sharding is not None), None)
    spec = PartitionSpec() if alike is None else alike.spec
    spec = spec.padded(aval.ndim).update(unreduced=addends.spec.unreduced, reduced=NO_AXES)
    sharding = NamedSharding(addends.mesh, spec)
    return ctx.sharding_attributes.attribute(sharding, aval, leave_auto_open=True)


def is_product_of_parts(ctx: OperationBuilder, x: ir.Value, addends: NamedSharding) -> bool:
    """Whether `x` is a product whose contracted dimensions are sharded equally, over exactly the axes of `addends`.

    Devices then compute addends over these axes if the product is annotated with `addends`. For any other operation,
    each device would get the whole result.
    """
    if isinstance(x.owner, ir.Block) or x.owner.name != "stablehlo.dot_general":
        return False
    numbers = str(x.owner.attributes["dot_dimension_numbers"])
    names = axis_texts(addends.mesh)
    summed_axes = sorted(names[axis] for axis in addends.spec.unreduced)
    stated: list[list[list[str]]] = []
    for side, operand in zip(("lhs", "rhs"), x.owner.operands, strict=True):
        match = re.search(rf"{side}_contracting_dimensions = \[([\d, ]*)\]", numbers)
        layout = _stated_layout(ctx, operand)
        if match is None or layout is None:
            return False
        stated.append([layout[int(dim)] for dim in match.group(1).split(",")])
    lhs, rhs = stated
    return lhs == rhs and sorted(name for axes in lhs for name in axes) == summed_axes


def _stated_layout(ctx: OperationBuilder, x: ir.Value) -> list[list[str]] | None:
    """Mesh axes that shard each dimension of `x`; None if its sharding is left to Shardy."""
    attribute: Any = None
    if isinstance(x.owner, ir.Block):
        attribute = (ctx.stated_for_argument(x) or {}).get("sdy.sharding")
    elif x.owner.name == "sdy.sharding_constraint":
        attribute = x.owner.attributes["sharding"]
    match = re.search(r", \[(.*?)\]", str(attribute))
    if match is None or "?" in match.group(1):
        return None
    return [re.findall(r'"(.*?)"', dim) for dim in re.findall(r"\{(.*?)\}", match.group(1))]
