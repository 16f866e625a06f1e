"""Finds updates of part of an array with values computed from the array itself, as in `x.at[1:].set(x[:-1])`.

XLA's CPU compiler may fuse the computation of an update with the update, and write in place. It normally detects reads
of overwritten elements, but not if there is a reshape before or after the update: then results are wrong. Such an
update is lowered as a select between the array and its new elements, which is not done in place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pellucid._machine.xla.mlir import ir

from .faults import UPDATE_READS_ITSELF
from .operations import OperationBuilder

MAX_VISITED_OPERATIONS = 64
"""Maximum number of operations searched between an array and its update; beyond, the array is assumed to be read."""
_NEVER_FUSED = frozenset({
    "func.call", "stablehlo.case", "stablehlo.convolution", "stablehlo.custom_call", "stablehlo.dot_general",
    "stablehlo.fft", "stablehlo.rng_bit_generator", "stablehlo.scatter", "stablehlo.sort", "stablehlo.while",
})  # fmt: skip
"""Operations whose results are in a separate buffer before an update reads them."""
_RESHAPES = frozenset({
    "stablehlo.bitcast_convert", "stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.transpose",
})  # fmt: skip
"""Operations that may keep elements in place, if their number stays the same."""
_NEVER_WRITTEN = _RESHAPES | {"stablehlo.constant", "stablehlo.dynamic_broadcast_in_dim"}
"""Operations whose results, if in a buffer of their own, are constant or one repeated element: updates copy them first."""


class SelfUpdate(NamedTuple):
    """An update that reads its array, lowered in two ways."""

    in_place: ir.Value
    copied: ir.Value
    operations: Sequence[Any]
    """Operations that compute `copied`, in order."""
    is_reshaped: bool
    """Whether there is a reshape before the update."""


def checked_update(
    ctx: OperationBuilder,
    in_place: ir.Value,
    array: ir.Value,
    update: ir.Value,
    copied: Callable[[], ir.Value],
) -> None:
    """Registers an update of `array` that may read it; `copied()` lowers it without writing in place."""
    if not ctx.has_fault(UPDATE_READS_ITSELF) or not _may_read(update, array):
        return
    point: Any = ir.InsertionPoint.current
    block = point.block
    n_before = len(block.operations)
    value = copied()
    ctx.self_updates.append(
        SelfUpdate(in_place, value, list(block.operations)[n_before:], _buffer(array) != array)
    )


def settle(module: ir.Module, updates: Sequence[SelfUpdate]) -> None:
    """Keeps, for each update, the lowering that XLA compiles correctly: in place if possible."""
    for update in reversed(updates):
        if update.is_reshaped or _is_reshaped(module, update.in_place):
            update.in_place.replace_all_uses_with(update.copied)
        else:
            for operation in reversed(update.operations):
                operation.erase()


def _may_read(update: ir.Value, array: ir.Value) -> bool:
    """Whether a fusion that computes `update` may read the buffer of `array`."""
    buffer = _buffer(array)
    if not isinstance(buffer.owner, ir.Block) and buffer.owner.name in _NEVER_WRITTEN:
        return False
    pending, seen = [update], {buffer}
    while pending:
        value = pending.pop()
        if value == buffer or _are_arguments_of_a_call(value, buffer):
            return True
        if value in seen or isinstance(value.owner, ir.Block) or value.owner.name in _NEVER_FUSED:
            continue
        seen.add(value)
        if len(seen) > MAX_VISITED_OPERATIONS:
            return True
        pending += value.owner.operands
    return False


def _buffer(array: ir.Value) -> ir.Value:
    """The value whose buffer `array` may share."""
    while not isinstance(array.owner, ir.Block) and array.owner.name in _RESHAPES:
        operand = array.owner.operands[0]
        if _size(operand) != _size(array):
            break
        array = operand
    return array


def _size(value: ir.Value) -> int:
    return math.prod(ir.RankedTensorType(value.type).shape)


def _are_arguments_of_a_call(value: ir.Value, buffer: ir.Value) -> bool:
    """Whether both are arguments of a called function, where one may have been computed from the other."""
    if not (isinstance(value.owner, ir.Block) and value.owner == buffer.owner):
        return False
    return _name_of_function(value.owner.owner) not in (None, "main")


def _name_of_function(operation: ir.Operation | ir.OpView) -> str | None:
    attributes = operation.attributes
    return ir.StringAttr(attributes["sym_name"]).value if "sym_name" in attributes else None


def _is_reshaped(module: ir.Module, value: ir.Value) -> bool:
    """Whether a reshape uses `value` in its function or, if it is a result, in the function's callers."""
    for use in value.uses:
        user = use.owner
        if user.name in _RESHAPES and _size(user.results[0]) == _size(value):
            return True
        if user.name == "func.return":
            name = _name_of_function(user.operation.block.owner)
            results = (call.results[use.operand_number] for call in _calls(module.operation, name))
            if any(_is_reshaped(module, result) for result in results):
                return True
    return False


def _calls(operation: ir.Operation, name: str | None) -> list[Any]:
    """Calls of the function `name` within `operation`."""
    calls: list[Any] = []

    def visit(inner: Any) -> ir.WalkResult:
        if inner.name == "func.call" and inner.attributes["callee"].value == name:
            calls.append(inner)
        return ir.WalkResult.ADVANCE

    operation.walk(visit)
    return calls
