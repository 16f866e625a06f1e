"""Windows that slide over arrays: reductions over them, and selection of each one's extreme element."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentValueError,
    Ints,
    Shape,
    ShapeError,
    dilated_size,
    insert_at,
    strict_zip,
)
from pellucid._machine.ir import P, Primitive, Traits, is_linear, shaped_array
from pellucid._machine.lowering.dynamic_shapes import reduce_window
from pellucid._machine.lowering.summed_products import apart_from_product
from pellucid._machine.tracing import bind, bind1, type_of

from .arithmetic import add
from .assembly import pad, slice
from .convolution_shapes import reduce_window_shape_tuple
from .counts import window_combinations, window_comparisons
from .creation import iota, zero_like_elements, zeros
from .families import ANY, NUMBER, check_elements
from .index_dims import ScatterDimensionNumbers
from .linear import JointlyLinear
from .logical import ge_p, le_p, select_n
from .monoids import MONOIDS, compare_lexically, highest, lowest, monoid_body, scalar_program
from .movement import Movement, OfOneArray, aligned_at, reshape
from .padding import Pads, explicit_pads, padding_attribute, padtype_to_pads, positive_sizes, spans
from .scatter import scatter_add
from .slicing import slice_in_dim

# Shapes -------------------------------------------------------------------------------------------


class WindowParams(NamedTuple):
    window_dimensions: Shape
    window_strides: Shape
    padding: Pads
    base_dilation: Shape
    window_dilation: Shape


def window_params(
    shape: Ints,
    window_dimensions: Ints,
    window_strides: Ints | None,
    padding: Any,
    base_dilation: Ints | None,
    window_dilation: Ints | None,
    caller: str,
) -> WindowParams:
    """Params of windows over an array of `shape`; None counts as ones, `padding` may be a name."""
    ndim = len(shape)
    stated = {
        "window_dimensions": window_dimensions, "window_strides": window_strides, "base_dilation": base_dilation,
        "window_dilation": window_dilation,
    }  # fmt: skip
    windows, strides, spread, dilation = [
        positive_sizes(sizes, ndim, name, caller) for name, sizes in stated.items()
    ]
    if isinstance(padding, str):
        padding = padtype_to_pads(spans(shape, spread), spans(windows, dilation), strides, padding)
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
        "window_dimensions": params.window_dimensions,
        "window_strides": params.window_strides,
        "base_dilations": params.base_dilation,
        "window_dilations": params.window_dilation,
        "padding": padding_attribute(ctx, params.padding),
    }


def batched_window(params: WindowParams, dim: int) -> WindowParams:
    """`params` for an operand with one more axis at `dim`, along which windows have length 1."""
    neutral = (1, 1, (0, 0), 1, 1)
    return WindowParams(*(insert_at(f, dim, v) for f, v in strict_zip(params, neutral)))  # pyright: ignore[reportArgumentType]


class ReduceWindow(OfOneArray[WindowParams]):
    """A reduction over windows by a monoid."""

    all_dims = "~"

    def __init__(self, monoid: str, accepts: frozenset[str]) -> None:
        super().__init__(f"reduce_window_{monoid}")
        self.monoid = MONOIDS[monoid]
        self.accepts = accepts

    def result_shape(self, x, params):
        check_elements(self.name, [x], self.accepts)
        return window_shape(x.shape, params, self.name)

    def batched_params(self, params, dim, size):
        return batched_window(params, dim), dim

    def lower(self, ctx, operands, params):
        result = ctx.avals_out[0]
        initial = ctx.constant(self.monoid.identity(result.dtype))
        x = apart_from_product(ctx, operands[0], ctx.avals_in[0], result.shape)
        return reduce_window(
            ctx, [result], [x, initial], window_attributes(ctx, params),
            lambda region: monoid_body(ctx, region, self.monoid, result.dtype),
        )  # fmt: skip


class ReduceWindowSum(ReduceWindow, Movement[WindowParams]):
    """Sums over windows; linear."""

    traits = Traits(kind="reduction", flops=window_combinations, linear="all", makes_nan=True)

    def operand_cotangent(self, cotangent, aval, params):
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
    """Maximum or minimum over windows; its derivative is that of the element that `select` prefers."""

    traits = Traits(kind="reduction", flops=window_combinations)

    def __init__(self, monoid: str, select: Primitive) -> None:
        super().__init__(monoid, ANY)
        self.select = select

    def jvp(self, primals, tangents, params):
        gather = SelectAndGatherParams(self.select, *params)
        return bind(self, *primals, params=params), bind(
            select_and_gather_add_p, *tangents, *primals, params=gather
        )


# Selection ----------------------------------------------------------------------------------------


class SelectAndGatherParams(NamedTuple):
    select_prim: Primitive
    window_dimensions: Shape
    window_strides: Shape
    padding: Pads
    base_dilation: Shape
    window_dilation: Shape


class SelectAndScatterParams(NamedTuple):
    select_prim: Primitive
    window_dimensions: Shape
    window_strides: Shape
    padding: Pads


def _windows(params: SelectAndGatherParams | SelectAndScatterParams) -> WindowParams:
    """The windows of a selection; without dilations where the params have none."""
    ones = (1,) * len(params.window_dimensions)
    return (
        WindowParams(*params[1:])
        if isinstance(params, SelectAndGatherParams)
        else WindowParams(*params[1:], ones, ones)
    )


def _worst(select: Primitive, dtype):
    """The value over which `select` prefers any other."""
    return (lowest if select.name == "ge" else highest)(dtype)


class _Selecting(JointlyLinear[P]):
    """A primitive of two operands: a source, in which it is linear, and the array from whose windows elements are
    selected.
    """

    all_dims = "~="

    def transpose(self, cotangents, operands, params):
        if is_linear(operands[1]):
            raise self.missing("transpose")
        return super().transpose(cotangents, operands, params)

    def batch(self, axis, operands, dims, params):
        first = next(d for d in dims if d is not None)
        dim = first if set(dims) == {first} else 0
        aligned = aligned_at(axis, operands, dims, dim)
        fields: Any = params
        windows = batched_window(_windows(fields), dim)[: len(fields) - 1]
        return bind(self, *aligned, params=type(fields)(fields.select_prim, *windows)), [dim]


class SelectAndGatherAdd(_Selecting[SelectAndGatherParams]):
    """From each window of `tangents`, the element at the position that is preferred in `operand`; linear in
    `tangents`.
    """

    name = "select_and_gather_add"
    traits = Traits(kind="reduction", flops=window_combinations, linear=(0,), passive=(1,))

    def abstract_eval(self, avals, params):
        tangents, operand = avals
        if tangents.shape != operand.shape:
            raise ShapeError(
                "select_and_gather_add needs operands of one shape.",
                got=[f"tangents: {tangents.text()}", f"operand: {operand.text()}"],
            )
        shape = window_shape(operand.shape, _windows(params), self.name)
        return [shaped_array(shape, tangents.dtype, tangents.weak_type)]

    def operand_cotangents(self, cotangent, operands, params):
        _, operand = operands
        select, windows, strides, pads, spread, dilation = params
        if any(d != 1 for d in dilation):
            return [self.scatter_by_index(cotangent, operand, params)]
        is_spread = any(d != 1 for d in spread)
        if is_spread:
            config = [(0, 0, d - 1) for d in spread]
            operand = pad(operand, np.asarray(_worst(select, type_of(operand).dtype)), config)
        scatter = SelectAndScatterParams(select, windows, strides, pads)
        result = bind1(select_and_scatter_add_p, cotangent, operand, params=scatter)
        if is_spread:
            shape = type_of(result).shape
            result = slice(result, (0,) * len(shape), shape, spread)
        return [result]

    def scatter_by_index(self, cotangent: Any, operand: Any, params: SelectAndGatherParams) -> Any:
        """The cotangent of the tangents where windows have holes, for which there is no operation.

        The place of each window's preferred element is gathered, and the cotangent added there; places count from 1,
        0 stands for padding.
        """
        shape = type_of(operand).shape
        aval = type_of(cotangent)
        count = int(np.prod(shape, dtype=np.int64))
        places = reshape(add(iota(np.int32, count), np.int32(1)), shape)
        chosen = bind1(self, places, operand, params=params)
        numbers = ScatterDimensionNumbers((), (0,), (0,))
        nowhere = zeros(shaped_array((count + 1,), aval.dtype))
        sums = scatter_add(
            nowhere, reshape(chosen, (aval.size, 1)), reshape(cotangent, (aval.size,)), numbers
        )
        return reshape(slice_in_dim(sums, 1, count + 1), shape)

    def lower(self, ctx, operands, params):
        tangents, operand = ctx.avals_in
        result = ctx.avals_out[0]
        worst = ctx.constant(_worst(params.select_prim, operand.dtype))
        zero = ctx.constant(tangents.dtype.type(0))
        select = params.select_prim

        def prefer(x, t, y, u):
            is_first = compare_lexically(functools.partial(bind1, select), x, y)
            return [select_n(is_first, y, x), select_n(is_first, u, t)]

        program = scalar_program(prefer, *(operand.dtype, tangents.dtype) * 2)
        return reduce_window(
            ctx, [result.update(dtype=operand.dtype), result], [operands[1], operands[0], worst, zero],
            window_attributes(ctx, _windows(params)), lambda region: ctx.jaxpr_body(region, program),
        )[1:]  # fmt: skip


class SelectAndScatterAdd(_Selecting[SelectAndScatterParams]):
    """Each element of `source` added where the window of `operand` that it belongs to has its preferred element."""

    name = "select_and_scatter_add"
    traits = Traits(
        kind="reduction", flops=window_comparisons, linear=(0,), passive=(1,), makes_nan=True
    )

    def abstract_eval(self, avals, params):
        source, operand = avals
        expected = window_shape(operand.shape, _windows(params), self.name)
        if source.shape != expected:
            raise ShapeError(
                f"select_and_scatter_add needs a source of shape {expected}, one element for each window.",
                got=[f"source: {source.text()}", f"operand: {operand.text()}"],
            )
        return [shaped_array(operand.shape, source.dtype, source.weak_type)]

    def operand_cotangents(self, cotangent, operands, params):
        gather = SelectAndGatherParams(params.select_prim, *_windows(params))
        return bind(select_and_gather_add_p, cotangent, operands[1], params=gather)

    def lower(self, ctx, operands, params):
        source, operand = ctx.avals_in
        result = ctx.avals_out[0]
        if any(map(any, params.padding)):
            return ctx.from_python(_scatter_into_padding, operands, params)
        op = ctx.op(
            "stablehlo.select_and_scatter", [ctx.type(result)],
            [operands[1], operands[0], ctx.constant(source.dtype.type(0))],
            {"window_dimensions": params.window_dimensions,
             "window_strides": params.window_strides,
             "padding": padding_attribute(ctx, params.padding)},
            regions=2,
        )  # fmt: skip
        select = functools.partial(bind1, params.select_prim)
        prefers = scalar_program(
            lambda x, y: [compare_lexically(select, x, y)], operand.dtype, operand.dtype
        )
        ctx.jaxpr_body(op.regions[0], prefers)
        ctx.scalar_body(op.regions[1], "stablehlo.add", source.dtype)
        return [op.result]


def _scatter_into_padding(source, operand, select: Primitive, sizes, strides, padding: Pads):
    """`select_and_scatter_add` with the operand padded beforehand by a value that is never preferred; the operation's
    own padding might be.
    """
    aval = type_of(operand)
    config = [(low, high, 0) for low, high in padding]
    padded = pad(operand, np.asarray(_worst(select, aval.dtype)), config)
    params = SelectAndScatterParams(select, sizes, strides, ((0, 0),) * aval.ndim)
    result = bind1(select_and_scatter_add_p, source, padded, params=params)
    starts = [low for low, _ in padding]
    return slice(result, starts, [low + size for low, size in strict_zip(starts, aval.shape)])


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
    window_dimensions: Ints,
    window_strides: Ints | None = None,
    padding: Any = "VALID",
    base_dilation: Ints | None = None,
    window_dilation: Ints | None = None,
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
