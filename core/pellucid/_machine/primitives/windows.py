"""Windows that slide over arrays: their sizes and padding, also of convolutions; reductions over them, and selection of each one's extreme element."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    Ints,
    Shape,
    ShapeError,
    canonical_shape,
    dilated_size,
    expecting,
    inserted,
    is_static,
    larger,
    strict_zip,
    strided_length,
    window_count,
)
from pellucid._machine.ir import P, Primitive, Traits, is_linear, shaped_array
from pellucid._machine.lowering.dynamic_shapes import reduce_window
from pellucid._machine.tracing import bind, bind1, type_of

from .arithmetic import add
from .assembly import pad, slice
from .counts import window_combinations, window_comparisons
from .creation import iota, zero_like_elements, zeros
from .families import ANY, NUMBER, check_elements
from .gather_scatter import scatter_add
from .index_dims import ScatterDimensionNumbers
from .linear import JointlyLinear
from .logical import ge_p, le_p, select_n
from .monoids import MONOIDS, highest, lowest, monoid_body, ordered, scalar_program
from .movement import Movement, OfOneArray, aligned_at, inverse_permutation, permuted, reshape
from .slicing import slice_in_dim

Pads = tuple[tuple[int, int], ...]
PADDING_NAMES = ("VALID", "SAME", "SAME_LOWER")


def same_padding(
    size: int, window: int, stride: int, more_at_start: bool = False
) -> tuple[int, int]:
    """Padding that makes as many windows as there are strides in `size`; an odd one goes to the end."""
    total = larger((strided_length(size, stride) - 1) * stride + window - size, 0)
    return (total - total // 2, total // 2) if more_at_start else (total // 2, total - total // 2)


def padtype_to_pads(
    in_shape: Ints, window_shape: Ints, window_strides: Ints, padding: Any
) -> list[tuple[int, int]]:
    """Padding before and after each axis that `padding` means: 'VALID', 'SAME' or 'SAME_LOWER'.

    'VALID' pads nothing; 'SAME' makes ceil(size / stride) windows and puts an odd element of padding after the
    array, 'SAME_LOWER' before it. Raises ArgumentValueError for another name.

    The result has a pair for each size of `in_shape`. ShapeError for shapes of different ranks.

    >>> padtype_to_pads((10, 10), (3, 3), (2, 2), "SAME")
    [(0, 1), (0, 1)]
    """
    name = getattr(padding, "name", padding)
    name = name.upper() if isinstance(name, str) else name
    if name not in PADDING_NAMES:
        raise ArgumentValueError(
            "this is no padding.",
            got=f"padding: {padding!r}",
            do="Use 'VALID', 'SAME' or 'SAME_LOWER'.",
        )
    shapes = [tuple(x) for x in (in_shape, window_shape, window_strides)]
    if len({*map(len, shapes)}) > 1:
        raise ShapeError("padding needs a window and a stride for each size.", got=f"got {shapes}")
    if name == "VALID":
        return [(0, 0)] * len(in_shape)
    return [
        same_padding(size, window, stride, name == "SAME_LOWER")
        for size, window, stride in strict_zip(*shapes)
    ]


def positive_sizes(values: Any, count: int, name: str, caller: str) -> Shape:
    """`values` as a tuple of `count` positive integers; None means ones."""
    if values is None:
        return (1,) * count
    with expecting(f"{caller} needs integers as {name}", values):
        sizes = canonical_shape(values)
    if len(sizes) != count:
        raise ShapeError(
            f"{caller} needs one of {name} for each of {count} window axes, got {len(sizes)}.",
            got=f"{name}: {sizes}",
        )
    if any(size < 1 for size in sizes):
        raise ArgumentValueError(f"{caller} needs positive {name}.", got=f"{name}: {sizes}")
    return sizes


def spans(sizes: Ints, dilations: Ints) -> list[int]:
    """The dilated `sizes`, one by one."""
    return [dilated_size(size, d) for size, d in strict_zip(sizes, dilations)]


def padding_attribute(ctx: Any, pads: Pads) -> Any:
    """`pads` as an attribute of StableHLO, or as they are where sizes are symbolic."""
    if not all(map(is_static, pads)):
        return pads
    return ctx.int_matrix(np.array(pads, np.int64).reshape(-1, 2))


def explicit_pads(padding: Any, count: int, caller: str) -> Pads:
    """`padding` as `count` pairs (before, after); raises for another form."""
    try:
        pads = tuple([canonical_shape((low, high)) for low, high in padding])
    except (TypeError, ValueError):
        raise ArgumentTypeError(
            f"{caller} needs padding by name, or as pairs (before, after).",
            got=f"padding: {padding!r}",
        ) from None
    if len(pads) != count:
        raise ShapeError(
            f"{caller} needs {count} pairs of padding, got {len(pads)}.", got=f"padding: {pads}"
        )
    return pads


def reduce_window_shape_tuple(
    operand_shape: Ints,
    window_dimensions: Ints,
    window_strides: Ints,
    padding: Sequence[tuple[int, int]],
    base_dilation: Ints | None = None,
    window_dilation: Ints | None = None,
) -> Shape:
    """Shape of an array reduced over sliding windows.

    The result is a tuple with a size for each axis, as a shape is.
    Raises: ValueError for strides, padding or dilations of another rank.

    >>> reduce_window_shape_tuple((10,), (3,), (2,), ((0, 1),))
    (5,)
    """
    ones = (1,) * len(operand_shape)
    sizes = spans(operand_shape, base_dilation or ones)
    windows = spans(window_dimensions, window_dilation or ones)
    return tuple([
        window_count(size + low + high, window, stride)
        for size, window, stride, (low, high) in strict_zip(sizes, windows, window_strides, padding)
    ])  # fmt: skip


# Convolutions --------------------------------------------------------------------------------------


# Dimension numbers --------------------------------------------------------------------------------


class ConvDimensionNumbers(NamedTuple):
    """Which axis is what in a convolution.

    `lhs_spec` and `out_spec`: the batch axis, the feature axis, the spatial axes. `rhs_spec`: the axis of output
    features, that of input features, the spatial axes, each spatial axis at the place of the one that it slides over.

    >>> lax.conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 4), ("NHWC", "HWIO", "NHWC"))
    ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """

    lhs_spec: Ints
    rhs_spec: Ints
    out_spec: Ints


ConvGeneralDilatedDimensionNumbers = None | ConvDimensionNumbers | tuple[str, str, str]
"""None for ('NCHW', 'OIHW', 'NCHW'), three such strings, or `ConvDimensionNumbers`."""


def conv_general_permutations(dimension_numbers: Sequence[str]) -> tuple[Shape, Shape, Shape]:
    """Axes that three strings such as ('NHWC', 'HWIO', 'NHWC') name, in the order of `ConvDimensionNumbers`.

    Each of the three is a tuple of axes, a permutation of the shape that its string names.
    Raises: TypeError for what is no sequence of strings, ArgumentValueError for strings that do not name the same axes.

    >>> conv_general_permutations(("NHWC", "HWIO", "NHWC"))
    ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    """
    special = (("N", "C"), ("O", "I"), ("N", "C"))
    names = tuple(dimension_numbers)
    for i, (name, (first, second)) in enumerate(strict_zip(names, special)):
        if name.count(first) != 1 or name.count(second) != 1 or len(set(name)) != len(name):
            raise ArgumentValueError(
                f"dimension_numbers[{i}] must name {first!r}, {second!r} and each spatial axis once.",
                got=f"dimension_numbers: {names}",
            )
    lhs, rhs, out = names
    spatial = [c for c in rhs if c not in "OI"]
    if any({*name} - {*both} != {*spatial} for name, both in ((lhs, "NC"), (out, "NC"))):
        raise ArgumentValueError(
            "dimension_numbers must name the same spatial axes three times.",
            got=f"dimension_numbers: {names}",
        )
    return tuple(  # type: ignore[return-value]
        tuple([name.index(c) for c in (*both, *spatial)])
        for name, both in strict_zip(names, special)
    )


def conv_dimension_numbers(
    lhs_shape: Ints, rhs_shape: Ints, dimension_numbers: ConvGeneralDilatedDimensionNumbers
) -> ConvDimensionNumbers:
    """`dimension_numbers`, in any of their forms, as `ConvDimensionNumbers` for operands of these shapes.

    Raises: ShapeError for shapes of another rank, ArgumentTypeError for dimension numbers of another kind.

    >>> conv_dimension_numbers((1, 9, 9, 3), (3, 3, 3, 8), ("NHWC", "HWIO", "NHWC")).rhs_spec
    (3, 2, 0, 1)
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return ConvDimensionNumbers(*(tuple(spec) for spec in dimension_numbers))
    ndim = len(lhs_shape)
    if ndim != len(rhs_shape):
        raise ShapeError(
            "a convolution needs operands of equal rank.",
            got=[f"lhs: shape {tuple(lhs_shape)}", f"rhs: shape {tuple(rhs_shape)}"],
        )
    if dimension_numbers is None:
        axes = tuple(range(ndim))
        return ConvDimensionNumbers(axes, axes, axes)
    if (
        not isinstance(dimension_numbers, (tuple, list))
        or len(dimension_numbers) != 3
        or not all(isinstance(name, str) for name in dimension_numbers)
    ):
        raise ArgumentTypeError(
            "dimension_numbers of a convolution are three strings, for lhs, rhs and the result.",
            got=f"dimension_numbers: {dimension_numbers!r}",
            do="For example ('NHWC', 'HWIO', 'NHWC').",
        )
    for name in dimension_numbers:
        if len(name) != ndim:
            raise ShapeError(
                f"dimension_numbers must name {ndim} axes each.",
                got=f"dimension_numbers: {dimension_numbers}",
            )
    return ConvDimensionNumbers(*conv_general_permutations(dimension_numbers))


# Shapes -------------------------------------------------------------------------------------------


def conv_shape_tuple(
    lhs_shape: Ints, rhs_shape: Ints, strides: Ints, pads: Any, batch_group_count: int = 1
) -> Shape:
    """Shape of `conv` of operands of these shapes; `pads` is a name or pairs.

    Raises: ValueError for strides and shapes of another rank, ArgumentValueError for an unknown name.

    >>> conv_shape_tuple((2, 3, 9), (8, 3, 3), (2,), "SAME")
    (2, 8, 5)
    """
    count = len(lhs_shape) - 2
    ones = (1,) * count
    if isinstance(pads, str):
        pads = padtype_to_pads(lhs_shape[2:], rhs_shape[2:], strides, pads)
    pads = explicit_pads(pads, count, "conv_shape_tuple")
    return conv_shape(lhs_shape, rhs_shape, strides, pads, ones, ones, batch_group_count)


def conv_general_shape_tuple(
    lhs_shape: Ints,
    rhs_shape: Ints,
    window_strides: Ints,
    padding: Any,
    dimension_numbers: Sequence[str],
) -> Shape:
    """Shape of `conv_general_dilated` of operands of these shapes, without dilations.

    Raises: ValueError for strides and shapes of another rank, ArgumentValueError for an unknown `padding`.

    >>> conv_general_shape_tuple((2, 9, 9, 3), (3, 3, 3, 8), (2, 2), "SAME", ("NHWC", "HWIO", "NHWC"))
    (2, 5, 5, 8)
    """
    lhs, rhs, out_spec = _in_order(lhs_shape, rhs_shape, dimension_numbers)
    return permuted(
        conv_shape_tuple(lhs, rhs, window_strides, padding), inverse_permutation(out_spec)
    )


def _in_order(lhs_shape: Ints, rhs_shape: Ints, dimension_numbers: Sequence[str]) -> Any:
    """The two shapes in the order of `ConvDimensionNumbers`, and the axes of the result in it."""
    lhs_spec, rhs_spec, out_spec = conv_general_permutations(dimension_numbers)
    return permuted(lhs_shape, lhs_spec), permuted(rhs_shape, rhs_spec), out_spec


def conv_transpose_shape_tuple(
    lhs_shape: Ints,
    rhs_shape: Ints,
    window_strides: Ints,
    padding: Any,
    dimension_numbers: Sequence[str],
) -> Shape:
    """Shape of `conv_transpose` of operands of these shapes.

    Raises: ValueError for strides and shapes of another rank, ArgumentValueError for an unknown `padding`.

    >>> conv_transpose_shape_tuple((2, 4, 4, 3), (3, 3, 3, 8), (2, 2), "SAME", ("NHWC", "HWIO", "NHWC"))
    (2, 8, 8, 8)
    """
    lhs, rhs, out_spec = _in_order(lhs_shape, rhs_shape, dimension_numbers)
    if isinstance(padding, str):
        padding = [transpose_padding(k, s, padding) for k, s in strict_zip(rhs[2:], window_strides)]
    ones = (1,) * (len(lhs) - 2)
    shape = conv_shape(lhs, rhs, ones, padding, window_strides, ones, 1)
    return permuted(shape, inverse_permutation(out_spec))


def conv_shape(
    lhs_shape: Ints,
    rhs_shape: Ints,
    strides: Ints,
    pads: Sequence[tuple[int, int]],
    lhs_dilation: Ints,
    rhs_dilation: Ints,
    batch_group_count: int,
) -> Shape:
    """Shape (batch, features, spatial) of a convolution of (batch, features, spatial) with (out, in, spatial)."""
    spatial = reduce_window_shape_tuple(
        lhs_shape[2:], rhs_shape[2:], strides, pads, lhs_dilation, rhs_dilation
    )
    return (lhs_shape[0] // batch_group_count, rhs_shape[0], *spatial)


def transpose_padding(window: int, stride: int, padding: str) -> tuple[int, int]:
    """Padding of the dilated array that undoes `padding` of a convolution with these windows and strides."""
    if padding == "SAME":
        total = window + stride - 2
        low = window - 1 if stride > window - 1 else -(-total // 2)
    elif padding == "VALID":
        total = window + stride - 2 + max(window - stride, 0)
        low = window - 1
    else:
        raise ArgumentValueError(
            "conv_transpose knows no such padding.",
            got=f"padding: {padding!r}",
            do="Use 'SAME' or 'VALID', or pairs.",
        )
    return low, total - low


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
    """Params of windows over an array of `shape`; None means ones, `padding` may be a name."""
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
    return WindowParams(*(inserted(f, dim, v) for f, v in strict_zip(params, neutral)))  # pyright: ignore[reportArgumentType]


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
        return reduce_window(
            ctx, [result], [operands[0], initial], window_attributes(ctx, params),
            lambda region: monoid_body(ctx, region, self.monoid, result.dtype),
        )  # fmt: skip


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

    def __init__(self, monoid: str, select: Primitive) -> None:
        super().__init__(monoid, ANY)
        self.select = select

    def jvp(self, primals, tangents, params):
        gather = GatherParams(self.select, *params)
        return bind(self, *primals, params=params), bind(
            select_and_gather_add_p, *tangents, *primals, params=gather
        )


# Selection ----------------------------------------------------------------------------------------


class GatherParams(NamedTuple):
    select_prim: Primitive
    window_dimensions: Shape
    window_strides: Shape
    padding: Pads
    base_dilation: Shape
    window_dilation: Shape


class ScatterParams(NamedTuple):
    select_prim: Primitive
    window_dimensions: Shape
    window_strides: Shape
    padding: Pads


def _windows(params: GatherParams | ScatterParams) -> WindowParams:
    """The windows of a selection; without dilations where the params have none."""
    ones = (1,) * len(params.window_dimensions)
    return (
        WindowParams(*params[1:])
        if isinstance(params, GatherParams)
        else WindowParams(*params[1:], ones, ones)
    )


def _worst(select: Primitive, dtype):
    """The value over which `select` prefers any other."""
    return (lowest if select.name == "ge" else highest)(dtype)


class _Selecting(JointlyLinear[P]):
    """A primitive of a source, in which it is linear, and an operand from whose windows elements are selected."""

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


class SelectAndGatherAdd(_Selecting[GatherParams]):
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
        shape = window_shape(operand.shape, _windows(params), self.name)
        return [shaped_array(shape, tangents.dtype, tangents.weak_type)]

    def operand_cotangents(self, cotangent, operands, params):
        _, operand = operands
        select, windows, strides, pads, spread, dilation = params
        if any(d != 1 for d in dilation):
            return [self.scattered_by_index(cotangent, operand, params)]
        is_spread = any(d != 1 for d in spread)
        if is_spread:
            config = [(0, 0, d - 1) for d in spread]
            operand = pad(operand, np.asarray(_worst(select, type_of(operand).dtype)), config)
        scatter = ScatterParams(select, windows, strides, pads)
        result = bind1(select_and_scatter_add_p, cotangent, operand, params=scatter)
        if is_spread:
            shape = type_of(result).shape
            result = slice(result, (0,) * len(shape), shape, spread)
        return [result]

    def scattered_by_index(self, cotangent: Any, operand: Any, params: GatherParams) -> Any:
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
            is_first = ordered(functools.partial(bind1, select), x, y)
            return [select_n(is_first, y, x), select_n(is_first, u, t)]

        program = scalar_program(prefer, *(operand.dtype, tangents.dtype) * 2)
        return reduce_window(
            ctx, [result.update(dtype=operand.dtype), result], [operands[1], operands[0], worst, zero],
            window_attributes(ctx, _windows(params)), lambda region: ctx.jaxpr_body(region, program),
        )[1:]  # fmt: skip


class SelectAndScatterAdd(_Selecting[ScatterParams]):
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
        gather = GatherParams(params.select_prim, *_windows(params))
        return bind(select_and_gather_add_p, cotangent, operands[1], params=gather)

    def lower(self, ctx, operands, params):
        source, operand = ctx.avals_in
        result = ctx.avals_out[0]
        if any(map(any, params.padding)):
            return ctx.from_python(_scattered_into_padded, operands, params)
        op = ctx.op(
            "stablehlo.select_and_scatter", [ctx.type(result)],
            [operands[1], operands[0], ctx.constant(source.dtype.type(0))],
            {"window_dimensions": params.window_dimensions,
             "window_strides": params.window_strides,
             "padding": padding_attribute(ctx, params.padding)},
            regions=2,
        )  # fmt: skip
        select = functools.partial(bind1, params.select_prim)
        prefers = scalar_program(lambda x, y: [ordered(select, x, y)], operand.dtype, operand.dtype)
        ctx.jaxpr_body(op.regions[0], prefers)
        ctx.scalar_body(op.regions[1], "stablehlo.add", source.dtype)
        return [op.result]


def _scattered_into_padded(source, operand, select: Primitive, sizes, strides, padding: Pads):
    """`select_and_scatter_add` that pads the operand itself, with what is never preferred; the operation might prefer it."""
    aval = type_of(operand)
    config = [(low, high, 0) for low, high in padding]
    padded = pad(operand, np.asarray(_worst(select, aval.dtype)), config)
    params = ScatterParams(select, sizes, strides, ((0, 0),) * aval.ndim)
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
