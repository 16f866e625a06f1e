"""Products of matrices that read an array of which some rows are set to 0: on CPUs the copy lives while its product runs.

Products read their operands from memory, so `where(rows, x, 0).T @ ct` needs a copy of `x`. XLA's scheduler for CPUs takes
first what is ready first: in a gradient with masks it would make the copies of all activations in the forward pass,
and keep twice as many arrays for the backward pass. A function that isn't inlined makes its copy when it is called.
What else reads `ct` waits for it, so the copy of one layer and the cotangent of the layer before are never there together.

    before                                  after

    c = select rows x 0                     d, ct1 = call product_of_selection rows x ct
    d = dot_general c ct                    e = dot_general ct1 w
    e = dot_general ct w
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from pellucid._machine.xla.mlir import ir

from .operations import FRONTEND

if TYPE_CHECKING:
    from .operations import OperationBuilder

_RESHAPES = frozenset({"stablehlo.reshape"})
_BEHIND_SELECTIONS = _RESHAPES | {"stablehlo.convert"}
"""Operations between a selection and its product."""
_OF_COPIES = _BEHIND_SELECTIONS | {
    "stablehlo.and", "stablehlo.broadcast_in_dim", "stablehlo.constant", "stablehlo.not", "stablehlo.or", "stablehlo.select",
}  # fmt: skip
"""Operations that make a copy of an array and small ones, such as a mask of rows."""
_OF_MASKS = frozenset({"stablehlo.compare", "stablehlo.iota"})
"""Further ones that make small arrays: positions that are compared with a length."""
_MAX_OPERATIONS = 32
"""Maximum number of them."""
MIN_BYTES = 1 << 18
"""Minimum size of a copy. A function costs time to compile, and many small arrays take little memory."""
_SMALL = 1 / 8
"""A small array has fewer bytes than this part of the copy."""
_READING_MEMORY = frozenset({
    "func.call", "func.return", "stablehlo.convolution", "stablehlo.custom_call", "stablehlo.dot_general", "stablehlo.return",
    "stablehlo.while",
})  # fmt: skip
"""Operations whose operands are in memory, not computed by the kernel that reads them."""


class _Copy(NamedTuple):
    """How an operand of a product is made."""

    operand: ir.Value
    array: ir.Value
    """What it is a copy of."""
    inputs: list[ir.Value]
    """All that `operations` read and don't make."""
    operations: list[ir.Operation]
    """In order."""


def note_product(ctx: OperationBuilder, product: ir.Value) -> None:
    """Registers a product for `call_selected_products`, if one of its operands is a selection.

    Not in the body of a loop, where a copy lives for one iteration in any case.
    """
    operation = product.owner.operation
    if not ctx.loop_depth and any(map(_is_selection, operation.operands)):
        ctx.selected_products.append(operation)


def call_selected_products(ctx: Any) -> None:
    """Moves registered products, each with the copy that it reads, to functions that aren't inlined.

    `ctx` is the `LoweringContext` of the whole module. Only for one CPU: other compilers order operations by memory, and programs
    in parts have other operands.
    """
    is_for_one_cpu = ctx.options.platforms == ("cpu",) and ctx.sharding_attributes is None
    # A listener was told the values of the equations.
    if not is_for_one_cpu or ctx.dimensions or ctx.listener is not None:
        return
    for product in ctx.selected_products:
        lhs, rhs = product.operands
        for x, other in ((lhs, rhs), (rhs, lhs)):
            is_large = _is_selection(x) and _bytes(x) >= MIN_BYTES
            copy = _copy_of_array(x) if is_large else None
            if copy is not None:
                _call(ctx, product, copy, other)
                break


def _is_selection(x: ir.Value) -> bool:
    """Whether `x` is a selection, perhaps in another shape, that nothing else reads."""
    made_by = _maker(x)
    while made_by is not None and made_by.name in _BEHIND_SELECTIONS and _has_one_use(x):
        x = made_by.operands[0]
        made_by = _maker(x)
    return made_by is not None and made_by.name == "stablehlo.select" and _has_one_use(x)


def _copy_of_array(operand: ir.Value) -> _Copy | None:
    """How a selection is made of one array that is in memory in any case, and small ones; None if it is made otherwise."""
    inputs: list[ir.Value] = []
    operations: list[ir.Operation] = []
    least = _SMALL * _bytes(operand)

    def visit(x: ir.Value) -> None:
        made_by = _maker(x)
        names = _OF_COPIES if _bytes(x) >= least else _OF_COPIES | _OF_MASKS
        if made_by is None or made_by.name not in names or len(operations) >= _MAX_OPERATIONS:
            if x not in inputs:
                inputs.append(x)
        elif made_by not in operations:
            for y in made_by.operands:
                visit(y)
            operations.append(made_by)

    visit(operand)
    large = [x for x in inputs if _bytes(x) >= least]
    if len(large) != 1 or not _is_in_memory(large[0], operations):
        return None
    if _size(large[0]) != _size(operand):  # a small array, repeated for each row
        return None
    return _Copy(operand, large[0], inputs, operations)


def _is_in_memory(x: ir.Value, besides: list[ir.Operation]) -> bool:
    """Whether an array is in memory even if the operations `besides` don't read it there."""
    if _maker(x) is None:
        return True
    users = [use.owner.operation for use in x.uses]
    return any(
        user.name in _READING_MEMORY
        or (user.name in _RESHAPES and _is_in_memory(user.results[0], besides))
        for user in users
        if user not in besides
    )


def _call(ctx: Any, product: ir.Operation, copy: _Copy, factor: ir.Value) -> None:
    """Replaces `product`, of `copy` and `factor`, by a call of a function that makes the copy, and returns the factor as well."""
    last = _transpose_behind(product) or product
    whole = _before_reshapes(factor)
    inputs = [*copy.inputs, *[whole] * (whole not in copy.inputs)]
    # Both arrays have the shapes that products read: XLA has a kernel for each shape of what one makes.
    shapes = {copy.array: copy.operand, whole: factor}
    types = [_with_shape(x, shapes.get(x, x)) for x in inputs]
    is_passed = _maker(whole) is not None  # nobody waits for arguments, such as weights
    results = [last.results[0].type, *[types[inputs.index(whole)]] * is_passed]
    with last.location:
        name = ctx.unique_name("product_of_selection")
        with ir.InsertionPoint(ctx.module.body):
            region = ctx.empty_function(name, types, results)
        block = ir.Block.create_at_start(region, types, [last.location] * len(types))
        with ir.InsertionPoint(block):
            arguments = dict(zip(inputs, block.arguments, strict=True))
            inside = {x: _reshape(ctx, argument, x.type) for x, argument in arguments.items()}
            inside[factor] = _reshape(ctx, arguments[whole], factor.type)
            for operation in [*copy.operations, *dict.fromkeys([product, last])]:
                clone = operation.clone()
                for i, x in enumerate(operation.operands):
                    clone.operands[i] = inside[x]
                inside[operation.results[0]] = clone.results[0]
            ctx.op("func.return", [], [inside[last.results[0]], *[arguments[whole]] * is_passed])
        with _point_after(inputs, last):
            operands = [_reshape(ctx, x, of) for x, of in zip(inputs, types, strict=True)]
            stays = ctx.dictionary({"inlineable": "false"})
            attributes = {"callee": ir.FlatSymbolRefAttr.get(name), FRONTEND: stays}
            call = ctx.op("func.call", results, operands, attributes).operation
            passed = [_reshape(ctx, x, whole.type) for x in [*call.results][1:]]
    last.results[0].replace_all_uses_with(call.results[0])
    for new in passed:
        for use in [*whole.uses]:
            if _is_behind(use.owner.operation, call):
                use.owner.operands[use.operand_number] = new
    for operation in [*dict.fromkeys([last, product]), *reversed(copy.operations)]:
        if not any([*result.uses] for result in operation.results):
            operation.erase()


def _transpose_behind(product: ir.Operation) -> ir.Operation | None:
    """The only user of a product, if it is a transpose."""
    [*uses] = product.results[0].uses
    user = uses[0].owner.operation if len(uses) == 1 else None
    return user if user is not None and user.name == "stablehlo.transpose" else None


def _before_reshapes(x: ir.Value) -> ir.Value:
    made_by = _maker(x)
    while made_by is not None and made_by.name in _RESHAPES:
        x = made_by.operands[0]
        made_by = _maker(x)
    return x


def _point_after(values: list[ir.Value], user: ir.Operation) -> ir.InsertionPoint:
    """The first place in the block of `user` behind all of `values`."""
    last: Any = None
    for made_by in map(_maker, values):
        if made_by is None or made_by.block != user.block:
            continue
        if last is None or last.is_before_in_block(made_by):
            last = made_by
    return (
        ir.InsertionPoint.at_block_begin(user.block)
        if last is None
        else ir.InsertionPoint.after(last)
    )


def _is_behind(user: Any, call: Any) -> bool:
    """Whether an operation, or one that it is part of, follows `call` in its block."""
    while user.block != call.block:
        user = user.parent.operation
    return call.is_before_in_block(user)


def _maker(x: ir.Value) -> ir.Operation | None:
    """The operation that made `x`; None for an argument."""
    return None if isinstance(x.owner, ir.Block) else x.owner.operation


def _has_one_use(x: ir.Value) -> bool:
    return len([*x.uses]) == 1


def _with_shape(x: ir.Value, of: ir.Value) -> ir.Type:
    """The type of `x` in the shape of `of`."""
    element = ir.RankedTensorType(x.type).element_type
    return ir.RankedTensorType.get(ir.RankedTensorType(of.type).shape, element)


def _reshape(ctx: OperationBuilder, x: ir.Value, new: ir.Type) -> ir.Value:
    return x if x.type == new else ctx.op("stablehlo.reshape", [new], [x]).result


def _size(x: ir.Value) -> int:
    return math.prod(ir.RankedTensorType(x.type).shape)


def _bytes(x: ir.Value) -> float:
    array: Any = ir.RankedTensorType(x.type)
    # Complex elements have no width.
    return _size(x) * max(getattr(array.element_type, "width", 128), 8) / 8
