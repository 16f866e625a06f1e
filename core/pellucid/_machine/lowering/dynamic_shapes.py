"""Operations on arrays with symbolic dimensions: sizes as values of the module, and StableHLO's dynamic operations.

XLA can't compile these operations. Before compilation, the module's shapes are refined to those of the arguments, which
converts each of them to its static equivalent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partialmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from pellucid._machine.base import CompilationError, Ints, Size, Symbol, is_static, strict_zip
from pellucid._machine.ir import abstract_token, physical, shaped_array
from pellucid._machine.xla.mlir import ir

if TYPE_CHECKING:
    from .module import LoweringContext
    from .operations import Attributes, OperationBuilder, Values

    Form = tuple[str, list[ir.Value], Attributes]
    """Name, operands and attributes of an operation."""

SIZE = shaped_array((), np.dtype(np.int32))
"""The type of a size."""
_BOOL = shaped_array((), np.dtype(bool))


class SizeValue:
    """A size as a value of the module. Its operators follow Python's integer arithmetic."""

    def __init__(self, ctx: OperationBuilder, value: ir.Value) -> None:
        self.ctx, self.value = ctx, value

    def _binary(self, name: str, other: Any) -> SizeValue:
        operands = [self.value, size_value(self.ctx, other).value]
        return SizeValue(self.ctx, self.ctx.op1(f"stablehlo.{name}", SIZE, operands))

    __add__ = __radd__ = partialmethod(_binary, "add")
    __sub__ = partialmethod(_binary, "subtract")
    __mul__ = __rmul__ = partialmethod(_binary, "multiply")
    maximum = partialmethod(_binary, "maximum")
    minimum = partialmethod(_binary, "minimum")

    def __rsub__(self, other: Any) -> SizeValue:
        return size_value(self.ctx, other) - self

    def __mod__(self, other: Any) -> SizeValue:
        # StableHLO's remainder has the sign of the dividend, Python's that of the divisor.
        divisor = size_value(self.ctx, other)
        rest = self._binary("remainder", divisor)
        return (rest + divisor)._binary("remainder", divisor)

    def __floordiv__(self, other: Any) -> SizeValue:
        return (self - self % other)._binary("divide", other)

    def __rmod__(self, other: Any) -> SizeValue:
        return size_value(self.ctx, other) % self

    def __rfloordiv__(self, other: Any) -> SizeValue:
        return size_value(self.ctx, other) // self


def unknown_size(size: Symbol) -> CompilationError:
    """The error to raise for a symbolic size in a program whose arguments have none."""
    return CompilationError(
        f"the symbolic dimension {size} has a value only in a program with arguments of such shapes.",
        do="Compute with it in a function that is exported for symbolic shapes, from sizes of its arguments.",
    )


def size_value(ctx: OperationBuilder, size: Any) -> SizeValue:
    """A size (integer or symbol) as a value in the current function."""
    if isinstance(size, SizeValue):
        return size
    if isinstance(size, Symbol):
        if not ctx.dimensions:
            raise unknown_size(size)
        values = ctx.globals[len(ctx.globals) - len(ctx.dimensions) :]
        variables = {name: SizeValue(ctx, x) for name, x in strict_zip(ctx.dimensions, values)}
        return size_value(ctx, size.evaluate(variables))
    return SizeValue(ctx, ctx.constant(np.int32(size)))


def sizes_value(ctx: OperationBuilder, sizes: Iterable[Size]) -> ir.Value:
    """Sizes as an int32 vector."""
    sizes = tuple(sizes)
    if not any(isinstance(size, (Symbol, SizeValue)) for size in sizes):
        return ctx.constant(np.asarray(sizes, np.int32))
    one, many = (SIZE.update(shape=(n,)) for n in (1, len(sizes)))
    parts = [ctx.op1("stablehlo.reshape", one, [ctx.size(size)]) for size in sizes]
    return ctx.op1("stablehlo.concatenate", many, parts, {"dimension": 0})


def pairs_value(ctx: OperationBuilder, pairs: Sequence[tuple[Size, Size]]) -> ir.Value:
    """Pairs of sizes as an int32 matrix."""
    flat = sizes_value(ctx, [size for pair in pairs for size in pair])
    return ctx.op1("stablehlo.reshape", SIZE.update(shape=(len(pairs), 2)), [flat])


# Dynamic forms of operations --------------------------------------------------------------------------

_FORMS = {
    "stablehlo.broadcast_in_dim": ("stablehlo.dynamic_broadcast_in_dim", ()),
    "stablehlo.reshape": ("stablehlo.dynamic_reshape", ()),
    "stablehlo.iota": ("stablehlo.dynamic_iota", ()),
    "stablehlo.slice": (
        "stablehlo.real_dynamic_slice", ("start_indices", "limit_indices", "strides"),
    ),
    "stablehlo.pad": (
        "stablehlo.dynamic_pad", ("edge_padding_low", "edge_padding_high", "interior_padding"),
    ),
    "stablehlo.gather": ("stablehlo.dynamic_gather", ("slice_sizes",)),
}  # fmt: skip
"""For each operation, the dynamic variant that takes sizes, or the shape of its result, as operands."""


def dynamic_form(
    ctx: OperationBuilder, name: str, result: Any, operands: Values, attributes: Attributes
) -> Form:
    """The operation itself, or its dynamic variant if some attributes or the result's shape are symbolic."""
    if name == "stablehlo.dynamic_slice" and not is_static(attributes["slice_sizes"]):
        return _dynamic_slice(ctx, operands, attributes["slice_sizes"])
    if name == "stablehlo.convolution" and not isinstance(attributes["padding"], ir.Attribute):
        pads = pairs_value(ctx, attributes["padding"])
        return "stablehlo.dynamic_conv", [*operands, pads], _drop_fields(attributes, ("padding",))
    dynamic_name, fields = _FORMS.get(name, (name, None))
    if fields is not None:
        sizes = [attributes[field] for field in fields] or [physical(result).shape]
        if not all(map(is_static, sizes)):
            more = [sizes_value(ctx, part) for part in sizes]
            return dynamic_name, [*operands, *more], _drop_fields(attributes, fields)
    return name, list(operands), attributes


def _drop_fields(attributes: Attributes, fields: Sequence[str]) -> Attributes:
    return {key: x for key, x in attributes.items() if key not in fields}


def _dynamic_slice(ctx: OperationBuilder, operands: Values, sizes: Ints) -> Form:
    x, *indices = operands
    starts: list[SizeValue] = []
    for dim, (index, size) in enumerate(strict_zip(indices, sizes)):
        last = SizeValue(ctx, dimension_size(ctx, x, dim)) - size
        starts.append(SizeValue(ctx, ctx.convert(index, SIZE)).maximum(0).minimum(last))
    first, window, ones = (sizes_value(ctx, part) for part in (starts, sizes, [1] * len(sizes)))
    # Shape refinement needs a sum of vectors here to recognize a window of constant size.
    end = ctx.op1("stablehlo.add", SIZE.update(shape=(len(sizes),)), [first, window])
    return "stablehlo.real_dynamic_slice", [x, first, end, ones], {}


def reduce_window(
    ctx: LoweringContext,
    results: Sequence[Any],
    operands: Values,
    attributes: Attributes,
    fill: Callable[[ir.Region], None],
) -> list[ir.Value]:
    """`stablehlo.reduce_window` over operands and their initial values; `fill` builds the region that combines
    elements.
    """
    fields = ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
    pads = attributes["padding"]
    if isinstance(pads, ir.Attribute):
        if all(is_static(attributes[field]) for field in fields):
            op = ctx.op(
                "stablehlo.reduce_window", ctx.types(results), operands, attributes, regions=1
            )
            fill(op.regions[0])
            return list(op.results)
        pads = np.asarray(ir.DenseIntElementsAttr(pads)).tolist()
    sizes = [sizes_value(ctx, attributes[field]) for field in fields]
    function = ctx.combination([a.update(shape=()) for a in results], fill)
    call = ctx.op(
        "stablehlo.custom_call", ctx.types(results), [*operands, *sizes, pairs_value(ctx, pads)],
        {"call_target_name": "stablehlo.dynamic_reduce_window", "api_version": ctx.integer(2, 32),
         "called_computations": ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(function)])},
    )  # fmt: skip
    return list(call.results)


def shape_operands(
    ctx: OperationBuilder, results: Sequence[Any], n_operands: int
) -> tuple[list[ir.Value], Attributes]:
    """(additional operands, attributes) by which a custom call states its result shapes, if they are symbolic."""
    shapes = [() if result is abstract_token else physical(result).shape for result in results]
    if all(map(is_static, shapes)):
        return [], {}
    positions = np.arange(n_operands, n_operands + len(shapes), dtype=np.int64)
    return [sizes_value(ctx, shape) for shape in shapes], {
        "indices_of_shape_operands": ir.DenseIntElementsAttr.get(positions)
    }


def dimension_size(ctx: OperationBuilder, x: ir.Value, dim: int) -> ir.Value:
    """The size of one dimension of a value, an int32 scalar."""
    return ctx.op1("stablehlo.get_dimension_size", SIZE, [x], {"dimension": dim})


# The entry of a module ----------------------------------------------------------------------------------


def solved_variables(ctx: OperationBuilder, equations: Any, arguments: Values) -> list[ir.Value]:
    """Values of the module's dimension variables, solved from the sizes of its arguments, which are checked."""

    def size_at(argument: int, dim: int) -> SizeValue:
        return SizeValue(ctx, dimension_size(ctx, arguments[argument], dim))

    def require(left: Any, relation: str, right: Any, message: str) -> None:
        sides = [size_value(ctx, side).value for side in (left, right)]
        holds = ctx.compare(sides[0], sides[1], "EQ" if relation == "==" else "GE", SIZE)
        ctx.op(
            "stablehlo.custom_call", [], [holds, *sides],
            {"call_target_name": "shape_assertion", "error_message": message, "has_side_effect": True,
             "api_version": ctx.integer(2, 32)},
        )  # fmt: skip

    values = equations.solve(size_at, require)
    return [values[name].value for name in equations.variables]
