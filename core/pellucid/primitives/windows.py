"""Reductions over sliding windows, and selection of each window's extreme element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid.base import dtypes
from pellucid.base.dims import dilated_size
from pellucid.base.errors import ArgumentValueError, DtypeError, ShapeError
from pellucid.ir.avals import ShapedArray, shaped_array
from pellucid.ir.factors import Factors, words
from pellucid.ir.primitive import Primitive
from pellucid.ir.rules import BatchAxis, BatchDim, Zero, is_linear
from pellucid.ir.traits import Traits
from pellucid.primitives.arithmetic import add
from pellucid.primitives.broadcasting import broadcast_in_dim
from pellucid.primitives.counts import window_combinations, window_comparisons
from pellucid.primitives.creation import iota
from pellucid.primitives.families import ANY, NUMBER, kind_of
from pellucid.primitives.filled import zero_like_elements, zeros
from pellucid.primitives.gather import scatter_add
from pellucid.primitives.index_dims import ScatterDimensionNumbers
from pellucid.primitives.logical import ge_p, le_p
from pellucid.primitives.monoids import MONOIDS, highest, lowest, monoid_body, ordered
from pellucid.primitives.movement import Movement, move_axis, reshape
from pellucid.primitives.padding import pad, slice
from pellucid.primitives.slicing import slice_in_dim
from pellucid.primitives.window_shapes import (
    Pads,
    Shape,
    explicit_pads,
    padtype_to_pads,
    positive_sizes,
    reduce_window_shape_tuple,
)
from pellucid.tracing.trace import bind1
from pellucid.tracing.values import type_of
from pellucid.xla.mlir import ir


class WindowParams(NamedTuple):
    window_dimensions: Shape
    window_strides: Shape
    padding: Pads
    base_dilation: Shape
    window_dilation: Shape


def window_params(
    shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None,
    padding: Any,
    base_dilation: Sequence[int] | None,
    window_dilation: Sequence[int] | None,
    caller: str,
) -> WindowParams:
    """Params of windows over an array of `shape`; None means ones, `padding` may be a name."""
    ndim = len(shape)
    windows = positive_sizes(window_dimensions, ndim, "window_dimensions", caller)
    strides = positive_sizes(window_strides, ndim, "window_strides", caller)
    spread = positive_sizes(base_dilation, ndim, "base_dilation", caller)
    dilation = positive_sizes(window_dilation, ndim, "window_dilation", caller)
    if isinstance(padding, str):
        sizes = [dilated_size(s, d) for s, d in zip(shape, spread, strict=True)]
        spans = [dilated_size(w, d) for w, d in zip(windows, dilation, strict=True)]
        padding = padtype_to_pads(sizes, spans, strides, padding)
    return WindowParams(windows, strides, explicit_pads(padding, ndim, caller), spread, dilation)


def window_shape(shape: Shape, params: WindowParams, name: str) -> Shape:
    """Shape of the result of windows over an array of `shape`."""
    if len(params.window_dimensions) != len(shape):
        raise ShapeError(
            f"{name} needs a window of rank {len(shape)}, got {params.window_dimensions}.",
            got=f"operand: {shape}",
        )
    return reduce_window_shape_tuple(shape, *params)


def window_attributes(ctx: Any, params: WindowParams) -> dict[str, Any]:
    """Attributes of `stablehlo.reduce_window`."""
    return {
        "window_dimensions": ctx.ints(params.window_dimensions),
        "window_strides": ctx.ints(params.window_strides),
        "base_dilations": ctx.ints(params.base_dilation),
        "window_dilations": ctx.ints(params.window_dilation),
        "padding": ctx.int_matrix(np.array(params.padding, np.int64).reshape(-1, 2)),
    }


def batched_window(params: WindowParams, dim: int) -> WindowParams:
    """`params` for an operand with one more axis at `dim`, along which windows have length 1."""
    neutral = (1, 1, (0, 0), 1, 1)
    return WindowParams(*((*f[:dim], v, *f[dim:]) for f, v in zip(params, neutral, strict=True)))  # pyright: ignore[reportArgumentType]


class ReduceWindow(Primitive[WindowParams]):
    """A reduction over windows by a monoid."""

    def __init__(self, monoid: str, accepts: frozenset[str]) -> None:
        super().__init__(f"reduce_window_{monoid}")
        self.monoid = MONOIDS[monoid]
        self.accepts = accepts

    def abstract_eval(self, avals, params):
        [x] = avals
        if kind_of(x.dtype) not in self.accepts:
            raise DtypeError(
                f"{self.name} does not accept {dtypes.short_name(x.dtype)} elements.",
                got=f"operand: {x.text()}",
            )
        return [shaped_array(window_shape(x.shape, params, self.name), x.dtype, x.weak_type)]

    def factors(self, avals, results, params):
        dims = words(avals[0].ndim, mark="~")
        return [dims], [dims]

    def batch(self, axis, operands, dims, params):
        dim: Any = dims[0]
        return [bind1(self, operands[0], params=batched_window(params, dim))], [dim]

    def lower(self, ctx, operands, params):
        result = ctx.avals_out[0]
        initial = ctx.constant(self.monoid.identity(result.dtype))
        op = ctx.op(
            "stablehlo.reduce_window", [ctx.type(result)], [operands[0], initial], window_attributes(ctx, params),
            regions=1,
        )  # fmt: skip
        monoid_body(ctx, op.regions[0], self.monoid, result.dtype)
        return [op.result]


class ReduceWindowSum(ReduceWindow, Movement[WindowParams]):
    """Sums over windows; linear."""

    traits = Traits(kind="reduction", flops=window_combinations, linear="all", makes_nan=True)

    def undo(self, cotangent, aval, params):
        # Each element's cotangent is the sum over the windows that hold it: a sum over windows of the spread cotangent.
        config = []
        for i, size in enumerate(aval.shape):
            span = dilated_size(params.window_dimensions[i], params.window_dilation[i])
            n_windows = dilated_size(type_of(cotangent).shape[i], params.window_strides[i])
            low = params.padding[i][0]
            high = dilated_size(size, params.base_dilation[i]) + low - n_windows
            config.append((span - 1 - low, high, params.window_strides[i] - 1))
        spread = pad(cotangent, zero_like_elements(cotangent), config)
        return bind1(self, spread, params=WindowParams(
            params.window_dimensions, params.base_dilation, ((0, 0),) * aval.ndim, (1,) * aval.ndim,
            params.window_dilation,
        ))  # fmt: skip


class ReduceWindowExtreme(ReduceWindow):
    """Maximum or minimum over windows; the derivative is that of the element which `select` prefers."""

    traits = Traits(kind="reduction", flops=window_combinations)

    def __init__(self, monoid: str, select: Primitive[Any]) -> None:
        super().__init__(monoid, ANY)
        self.select = select

    def jvp(self, primals, tangents, params) -> tuple[Any, Any]:
        [x], [t] = primals, tangents
        gather = GatherParams(self.select, *params)
        return [bind1(self, x, params=params)], [
            bind1(select_and_gather_add_p, t, x, params=gather)
        ]


# Selection ----------------------------------------------------------------------------------------


class GatherParams(NamedTuple):
    select_prim: Primitive[Any]
    window_dimensions: Shape
    window_strides: Shape
    padding: Pads
    base_dilation: Shape
    window_dilation: Shape


class ScatterParams(NamedTuple):
    select_prim: Primitive[Any]
    window_dimensions: Shape
    window_strides: Shape
    padding: Pads


_DIRECTIONS = {"ge": "GE", "le": "LE"}


def _worst(select: Primitive[Any], dtype: Any) -> Any:
    """The value over which `select` prefers any other."""
    return (lowest if select.name == "ge" else highest)(dtype)


def _aligned(
    axis: BatchAxis, operands: tuple[Any, ...], dims: tuple[BatchDim, ...]
) -> tuple[list[Any], int]:
    """Operands with the batch axis at one place; one without it is repeated."""
    found = {d for d in dims if d is not None}
    dim = found.pop() if len(found) == 1 and None not in dims else 0
    aligned = []
    for x, d in zip(operands, dims, strict=True):
        if d is None:
            shape = type_of(x).shape
            aligned.append(
                broadcast_in_dim(x, (axis.size, *shape), tuple(range(1, len(shape) + 1)))
            )
        else:
            aligned.append(move_axis(x, d, dim))
    return aligned, dim


class SelectAndGatherAdd(Primitive[GatherParams]):
    """From each window of `tangents`, the element where that of `operand` is preferred; linear in `tangents`."""

    name = "select_and_gather_add"
    traits = Traits(kind="reduction", flops=window_combinations, linear=(0,), passive=(1,))

    def abstract_eval(self, avals, params):
        tangents, operand = avals
        if tangents.shape != operand.shape:
            raise ShapeError(
                "select_and_gather_add needs operands of one shape.",
                got=[f"tangents: {tangents.text()}", f"operand: {operand.text()}"],
            )
        shape = window_shape(operand.shape, WindowParams(*params[1:]), self.name)
        return [shaped_array(shape, tangents.dtype, tangents.weak_type)]

    def factors(self, avals, results, params):
        dims = words(avals[0].ndim, mark="~=")
        return [dims, dims], [dims]

    def jvp(self, primals, tangents, params):
        source, operand = primals
        y = bind1(self, source, operand, params=params)
        if type(tangents[0]) is Zero:
            return [y], [Zero(type_of(y).tangent())]
        return [y], [bind1(self, tangents[0], operand, params=params)]

    def transpose(self, cotangents, operands, params):
        [cotangent], (source, operand) = cotangents, operands
        if not is_linear(source) or is_linear(operand):
            raise self.missing("transpose")
        if type(cotangent) is Zero:
            return [Zero(source.aval), None]
        select, windows, strides, pads, spread, dilation = params
        if any(d != 1 for d in dilation):
            return [self.scattered_by_index(cotangent, operand, params), None]
        is_spread = any(d != 1 for d in spread)
        if is_spread:
            config = [(0, 0, d - 1) for d in spread]
            operand = pad(operand, np.asarray(_worst(select, type_of(operand).dtype)), config)
        scatter = ScatterParams(select, windows, strides, pads)
        found = bind1(select_and_scatter_add_p, cotangent, operand, params=scatter)
        if is_spread:
            shape = type_of(found).shape
            found = slice(found, (0,) * len(shape), shape, spread)
        return [found, None]

    def scattered_by_index(self, cotangent: Any, operand: Any, params: GatherParams) -> Any:
        """The cotangent of the tangents where windows have holes, for which there is no operation.

        The place of each window's preferred element is gathered, and the cotangent added there; places count from 1,
        0 stands for padding.
        """
        shape = type_of(operand).shape
        aval: Any = type_of(cotangent)
        count = int(np.prod(shape, dtype=np.int64))
        places = reshape(add(iota(np.int32, count), np.int32(1)), shape)
        chosen = bind1(self, places, operand, params=params)
        numbers = ScatterDimensionNumbers((), (0,), (0,))
        nowhere = zeros(shaped_array((count + 1,), aval.dtype))
        found = scatter_add(
            nowhere, reshape(chosen, (aval.size, 1)), reshape(cotangent, (aval.size,)), numbers
        )
        return reshape(slice_in_dim(found, 1, count + 1), shape)

    def batch(self, axis, operands, dims, params):
        aligned, dim = _aligned(axis, operands, dims)
        windows = batched_window(WindowParams(*params[1:]), dim)
        return [bind1(self, *aligned, params=GatherParams(params.select_prim, *windows))], [dim]

    def lower(self, ctx, operands, params):
        tangents, operand = ctx.avals_in
        result = ctx.avals_out[0]
        worst = ctx.constant(_worst(params.select_prim, operand.dtype))
        zero = ctx.constant(tangents.dtype.type(0))
        op = ctx.op(
            "stablehlo.reduce_window", ctx.types([result.update(dtype=operand.dtype), result]),
            [operands[1], operands[0], worst, zero], window_attributes(ctx, WindowParams(*params[1:])), regions=1,
        )  # fmt: skip
        value, tangent = shaped_array((), operand.dtype), shaped_array((), tangents.dtype)
        block = ctx.block(op.regions[0], [value, tangent, value, tangent])
        x, t, y, u = block.arguments
        with ir.InsertionPoint(block):
            first = ordered(ctx, x, y, _DIRECTIONS[params.select_prim.name], value)
            chosen = [
                ctx.op1("stablehlo.select", value, [first, x, y]),
                ctx.op1("stablehlo.select", tangent, [first, t, u]),
            ]
            ctx.op("stablehlo.return", [], chosen)
        return [op.results[1]]


class SelectAndScatterAdd(Primitive[ScatterParams]):
    """Each element of `source` added where the window of `operand` that it belongs to has its preferred element."""

    name = "select_and_scatter_add"
    traits = Traits(
        kind="reduction", flops=window_comparisons, linear=(0,), passive=(1,), makes_nan=True
    )

    def abstract_eval(self, avals, params):
        source, operand = avals
        ones = (1,) * operand.ndim
        expected = window_shape(operand.shape, WindowParams(*params[1:], ones, ones), self.name)
        if source.shape != expected:
            raise ShapeError(
                f"select_and_scatter_add needs a source of shape {expected}, one element for each window.",
                got=[f"source: {source.text()}", f"operand: {operand.text()}"],
            )
        return [shaped_array(operand.shape, source.dtype, source.weak_type)]

    def factors(self, avals, results, params):
        dims = words(avals[0].ndim, mark="~=")
        return [dims, dims], [dims]

    def jvp(self, primals, tangents, params):
        source, operand = primals
        y = bind1(self, source, operand, params=params)
        if type(tangents[0]) is Zero:
            return [y], [Zero(type_of(y).tangent())]
        return [y], [bind1(self, tangents[0], operand, params=params)]

    def transpose(self, cotangents, operands, params):
        [cotangent], (source, operand) = cotangents, operands
        if not is_linear(source) or is_linear(operand):
            raise self.missing("transpose")
        if type(cotangent) is Zero:
            return [Zero(source.aval), None]
        ones = (1,) * type_of(operand).ndim
        gather = GatherParams(*params, ones, ones)
        return [bind1(select_and_gather_add_p, cotangent, operand, params=gather), None]

    def batch(self, axis, operands, dims, params):
        aligned, dim = _aligned(axis, operands, dims)
        ones = (1,) * len(params.window_dimensions)
        windows = batched_window(WindowParams(*params[1:], ones, ones), dim)
        return [bind1(self, *aligned, params=ScatterParams(params.select_prim, *windows[:3]))], [
            dim
        ]

    def lower(self, ctx, operands, params):
        source, operand = ctx.avals_in
        result = ctx.avals_out[0]
        # Padding must never be preferred, so it is done here, with the worst value, rather than by the operation.
        padded = operand.update(shape=tuple([
            low + size + high for size, (low, high) in zip(operand.shape, params.padding, strict=True)
        ]))  # fmt: skip
        values, is_padded = operands[1], padded.shape != operand.shape
        if is_padded:
            values = ctx.op1(
                "stablehlo.pad", padded, [values, ctx.constant(_worst(params.select_prim, operand.dtype))],
                {"edge_padding_low": ctx.ints([low for low, _ in params.padding]),
                 "edge_padding_high": ctx.ints([high for _, high in params.padding]),
                 "interior_padding": ctx.ints([0] * operand.ndim)},
            )  # fmt: skip
        op = ctx.op(
            "stablehlo.select_and_scatter", [ctx.type(padded.update(dtype=result.dtype))],
            [values, operands[0], ctx.constant(source.dtype.type(0))],
            {"window_dimensions": ctx.ints(params.window_dimensions),
             "window_strides": ctx.ints(params.window_strides),
             "padding": ctx.int_matrix(np.zeros((operand.ndim, 2), np.int64))},
            regions=2,
        )  # fmt: skip
        value = shaped_array((), operand.dtype)
        block = ctx.block(op.regions[0], [value, value])
        with ir.InsertionPoint(block):
            direction = _DIRECTIONS[params.select_prim.name]
            ctx.op("stablehlo.return", [], [ordered(ctx, *block.arguments, direction, value)])  # pyright: ignore[reportCallIssue]
        ctx.scalar_body(op.regions[1], "stablehlo.add", source.dtype)
        if not is_padded:
            return [op.result]
        limits = [low + size for size, (low, _) in zip(operand.shape, params.padding, strict=True)]
        return [ctx.op1(
            "stablehlo.slice", result, [op.result],
            {"start_indices": ctx.ints([low for low, _ in params.padding]), "limit_indices": ctx.ints(limits),
             "strides": ctx.ints([1] * operand.ndim)},
        )]  # fmt: skip


reduce_window_sum_p = ReduceWindowSum("sum", NUMBER)
reduce_window_max_p = ReduceWindowExtreme("max", ge_p)
reduce_window_min_p = ReduceWindowExtreme("min", le_p)
select_and_gather_add_p = SelectAndGatherAdd()
select_and_scatter_add_p = SelectAndScatterAdd()

REDUCE_WINDOW = {"sum": reduce_window_sum_p, "max": reduce_window_max_p, "min": reduce_window_min_p}
"""The primitives that reduce over windows, by the name of their monoid."""


def reduce_window_by(
    monoid: str,
    operand: Any,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """`operand` reduced over sliding windows by 'sum', 'max' or 'min'; padding does not count.

    Source: StableHLO specification, `reduce_window`.

    >>> reduce_window_by("max", np.array([1.0, 3.0, 2.0, 0.0]), (2,), (2,))
    Array([3., 2.], dtype=float32)
    """
    primitive = REDUCE_WINDOW.get(monoid)
    if primitive is None:
        raise ArgumentValueError(
            f"there is no reduction over windows by {monoid!r}.",
            do=f"Use one of {', '.join(REDUCE_WINDOW)}.",
        )
    params = window_params(
        type_of(operand).shape, window_dimensions, window_strides, padding, base_dilation, window_dilation,
        primitive.name,
    )  # fmt: skip
    return bind1(primitive, operand, params=params)


__all__ = [
    "reduce_window_by", "reduce_window_max_p", "reduce_window_min_p", "reduce_window_sum_p", "select_and_gather_add_p",
    "select_and_scatter_add_p",
]  # fmt: skip
