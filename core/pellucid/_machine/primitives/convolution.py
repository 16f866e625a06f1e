"""Convolution: sums of products of a kernel with the windows of an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    DtypeError,
    DTypeLike,
    Ints,
    Shape,
    ShapeError,
    dilated_size,
    dtypes,
    known_at_least,
    replace_axis_size,
    strict_zip,
)
from pellucid._machine.base.dtypes import ExtendedDType
from pellucid._machine.ir import LaidOut, ShapedArray, Traits, shaped_array, with_mark, words
from pellucid._machine.lowering.faults import (
    CUT_GROUPS,
    CUT_POSITIONS,
    MIXED_PADDING,
    NEGATIVE_PADDING,
)
from pellucid._machine.sharding import PartitionSpec, Sharding
from pellucid._machine.sharding.explicit_types import cotangent_sharding
from pellucid._machine.tracing import bind1, type_of, types_of
from pellucid._machine.xla import Array

from .arithmetic import add, sub
from .assembly import pad
from .contraction import Bilinear, convert_real, dot_general
from .conversion import complex as complex_from_parts, imag, real, real_dtype
from .convolution_shapes import (
    ConvDimensionNumbers,
    ConvGeneralDilatedDimensionNumbers,
    conv_dimension_numbers,
    conv_shape,
    transpose_padding,
)
from .counts import convolution_operations
from .creation import broadcasted_iota, zero_like_elements, zeros
from .families import ANY, INTEGER, check_elements, check_one_dtype, kind_of
from .logical import eq
from .movement import (
    broadcast_in_dim,
    inverse_permutation,
    move_axis,
    permute,
    reshape,
    rev,
    transpose,
)
from .padding import (
    Pads,
    explicit_pads,
    padding_attribute,
    padtype_to_pads,
    positive_sizes,
    spans,
)
from .precision import (
    PrecisionLike,
    canonical_precision,
    component_bits,
    precision_attribute,
    preferred_dtype,
)

# The primitive ------------------------------------------------------------------------------------


class ConvParams(NamedTuple):
    window_strides: Shape
    padding: Pads
    lhs_dilation: Shape
    rhs_dilation: Shape
    dimension_numbers: ConvDimensionNumbers
    feature_group_count: int
    batch_group_count: int
    precision: Any
    preferred_element_type: Any
    out_sharding: Any


class ConvGeneralDilated(LaidOut, Bilinear[ConvParams]):
    name = "conv_general_dilated"
    traits = Traits(kind="contraction", flops=convolution_operations, linear="each", makes_nan=True)

    def abstract_eval(self, avals, params):
        lhs, rhs = avals
        _check_operands(lhs, rhs, params)
        lhs_spec, rhs_spec, out_spec = params.dimension_numbers
        shape = conv_shape(
            permute(lhs.shape, lhs_spec), permute(rhs.shape, rhs_spec), params.window_strides, params.padding,
            params.lhs_dilation, params.rhs_dilation, params.batch_group_count,
        )  # fmt: skip
        dtype = _result_dtype(lhs.dtype, params.preferred_element_type)
        weak_type = lhs.weak_type and rhs.weak_type
        return [shaped_array(permute(shape, inverse_permutation(out_spec)), dtype, weak_type)]

    def factors(self, avals, results, params):
        lhs_dims, rhs_dims, out_dims = params.dimension_numbers
        # Its output features are independent of each other, and so are groups of input features.
        kernel = words(avals[1].ndim, avals[0].ndim + 1, mark="!")
        kernel = with_mark(kernel, rhs_dims[:1], ":")
        grouped = ":" if params.feature_group_count > 1 else ""
        lhs = with_mark(words(avals[0].ndim), lhs_dims[1:2], f"!{grouped}")
        lhs = with_mark(lhs, lhs_dims[2:], "~")
        [features] = words(1, len(lhs))
        result = [features] * len(lhs)
        for dim, out_dim in strict_zip(lhs_dims, out_dims):
            if dim != lhs_dims[1]:
                result[out_dim] = lhs[dim]
        return [lhs, kernel], [result]

    def operand_cotangent(self, side, cotangent, operands, params):
        lhs, rhs = operands
        lhs_spec, rhs_spec, out_spec = params.dimension_numbers
        lhs_aval, rhs_aval = types_of(operands)
        aval, dtype = (lhs_aval, rhs_aval)[side], type_of(cotangent).dtype
        pads = []
        for i, (low, _) in enumerate(params.padding):
            window = dilated_size(rhs_aval.shape[rhs_spec[2 + i]], params.rhs_dilation[i])
            size = dilated_size(lhs_aval.shape[lhs_spec[2 + i]], params.lhs_dilation[i])
            n_windows = type_of(cotangent).shape[out_spec[2 + i]]
            rest = dilated_size(n_windows, params.window_strides[i]) - size - low
            pads.append((low, rest + window - 1) if side else (window - 1 - low, -rest))
        groups, batch_groups = params.feature_group_count, params.batch_group_count
        if side == 1:
            # The cotangent of a kernel element sums products with one strided slice of the array: a convolution of
            # the array with the cotangent, in which batch and feature axes change places.
            factors = convert_real(lhs, dtype), cotangent
            specs = [(s[1], s[0], *s[2:]) for s in (lhs_spec, out_spec, rhs_spec)]
            params = params._replace(
                window_strides=params.rhs_dilation, rhs_dilation=params.window_strides,
                feature_group_count=batch_groups, batch_group_count=groups,
            )  # fmt: skip
        else:
            # Each window's cotangent is spread over the window: a convolution with the reversed kernel, whose
            # input and output features are exchanged within each group.
            n_groups = groups * batch_groups
            if n_groups > 1:
                rhs = _move_groups(rhs, rhs_spec[0], rhs_spec[1], n_groups)
            factors = cotangent, convert_real(rev(rhs, rhs_spec[2:]), dtype)
            specs = [out_spec, (rhs_spec[1], rhs_spec[0], *rhs_spec[2:]), lhs_spec]
            params = params._replace(
                window_strides=params.lhs_dilation, lhs_dilation=params.window_strides,
                feature_group_count=n_groups, batch_group_count=1,
            )  # fmt: skip
        is_grouped = side == 0 and batch_groups > 1  # then it isn't shaped as the operand is
        stated = cotangent_sharding(aval, range(aval.ndim), map(type_of, factors))
        product = bind1(self, *factors, params=params._replace(
            padding=tuple(pads), dimension_numbers=ConvDimensionNumbers(*specs),
            out_sharding=None if is_grouped else stated,
        ))  # fmt: skip
        return (
            _move_groups(product, lhs_spec[1], lhs_spec[0], batch_groups) if is_grouped else product
        )

    def batch(self, axis, operands, dims, params):
        (lhs, rhs), (lhs_dim, rhs_dim) = operands, dims
        if axis.size == 0:  # there are no examples
            avals = [
                type_of(x) if d is None else type_of(x).without_dim(d)
                for x, d in strict_zip(operands, dims)
            ]
            [aval] = self.abstract_eval(avals, params)
            return [zeros(aval.update(shape=(0, *aval.shape)))], [0]
        lhs_spec, rhs_spec, out_spec = params.dimension_numbers
        features, batch = params.feature_group_count, params.batch_group_count
        place, within = out_spec[1], 1
        if lhs_dim is None:
            within = batch * features
            rhs = _merge_axes(rhs, rhs_dim, rhs_spec[0], within)  # type: ignore[arg-type]
        elif rhs_dim is None:
            place = out_spec[0]
            lhs = _merge_axes(lhs, lhs_dim, lhs_spec[0], batch)
        else:  # the examples become groups
            rhs = _merge_axes(rhs, rhs_dim, rhs_spec[0])
            if batch > 1:
                lhs = _merge_axes(lhs, lhs_dim, lhs_spec[0])
                params = params._replace(batch_group_count=axis.size * batch)
            else:
                lhs = _merge_axes(lhs, lhs_dim, lhs_spec[1])
                params = params._replace(feature_group_count=axis.size * features)
        result = bind1(self, lhs, rhs, params=params)
        return [_split_axis(result, place, axis.size, within)], [place]

    def lower(self, ctx, operands, params):
        if ctx.avals_in[0].dtype.kind == "c" and ctx.platform != "tpu":
            return ctx.from_python(_complex_by_parts, operands, params)
        pads = [pad for ends in params.padding for pad in ends]
        if not all(known_at_least(pad, 0) for pad in pads) and ctx.has_fault(NEGATIVE_PADDING):
            return ctx.from_python(_pad_before, operands, params)
        if any(_is_mixed(*ends) for ends in params.padding) and ctx.has_fault(MIXED_PADDING):
            return ctx.from_python(_pad_before, operands, params)
        if ctx.platform == "cpu" and params.dimension_numbers != _fast_order(ctx.avals_in[0].ndim):
            if not ctx.is_partitioned:
                return ctx.from_python(_transpose_to_fast_order, operands, params)
            ctx.is_slow_in_calls = True
        (lhs, rhs), (lhs_aval, rhs_aval) = operands, ctx.avals_in
        lhs_spec, rhs_spec, _ = params.dimension_numbers
        if ctx.is_partitioned and _is_cut_right(ctx, rhs, params):
            rhs = ctx.whole_along(CUT_POSITIONS, rhs, rhs_aval, range(rhs_aval.ndim))
        else:
            lhs = ctx.whole_along(CUT_POSITIONS, lhs, lhs_aval, lhs_spec[2:])
            rhs = ctx.whole_along(CUT_POSITIONS, rhs, rhs_aval, rhs_spec[2:])
        if params.batch_group_count > 1:
            if ctx.may_cut_by_some_axes:
                lhs = ctx.whole_along(CUT_GROUPS, lhs, lhs_aval, lhs_spec[1:2])
                rhs = ctx.whole_along(CUT_GROUPS, rhs, rhs_aval, rhs_spec[1:2])
            lhs = ctx.in_even_parts(CUT_GROUPS, lhs, lhs_aval)
            rhs = ctx.in_even_parts(CUT_GROUPS, rhs, rhs_aval)
        attributes = {
            **{name: getattr(params, name) for name in _UNCHANGED_ATTRIBUTES},
            "padding": padding_attribute(ctx, params.padding),
            "window_reversal": ctx.bools([False] * len(params.window_strides)),
            "dimension_numbers": _dimensions_attribute(ctx, params.dimension_numbers),
            "precision_config": precision_attribute(ctx, params.precision),
        }
        return [ctx.as_result("stablehlo.convolution", [lhs, rhs], attributes)]


_UNCHANGED_ATTRIBUTES = (
    "window_strides", "lhs_dilation", "rhs_dilation", "feature_group_count", "batch_group_count",
)  # fmt: skip


def _fast_order(ndim: int) -> ConvDimensionNumbers:
    """The axis order that XLA's fast CPU kernels need: `b01f_01io->b01f`."""
    last = ndim - 1
    spatial = range(1, last)
    return ConvDimensionNumbers(
        (0, last, *spatial), (last, last - 1, *range(last - 1)), (0, last, *spatial)
    )


def _transpose_to_fast_order(lhs, rhs, *fields):
    """A convolution with its operands transposed to the axis order of XLA's fast CPU kernels.

    XLA's pass for it looks at a program's outermost computation only: not into loops, nor calls that stay calls.
    """
    params = ConvParams(*fields)
    order = _fast_order(type_of(lhs).ndim)
    lhs_spec, rhs_spec, out_spec = (
        permute(spec, inverse_permutation(fast))
        for spec, fast in strict_zip(params.dimension_numbers, order)
    )
    result = bind1(
        conv_general_dilated_p, transpose(lhs, lhs_spec), transpose(rhs, rhs_spec),
        params=params._replace(dimension_numbers=order),
    )  # fmt: skip
    return transpose(result, inverse_permutation(out_spec))


def _is_cut_right(ctx, kernel, params: ConvParams) -> bool:
    """Whether values are right where positions are cut (see `CUT_POSITIONS`).

    A kernel is made whole only if nothing has to be exchanged for it.
    """
    lhs_spec, _, out_spec = params.dimension_numbers
    return (
        params.batch_group_count == 1
        and set(params.lhs_dilation) <= {1}
        and ctx.splits_evenly(ctx.avals_in[0], lhs_spec[2:])
        and ctx.splits_evenly(ctx.avals_out[0], out_spec[2:])
        and ctx.is_surely_whole(kernel)
    )


def _check_operands(lhs: ShapedArray, rhs: ShapedArray, params: ConvParams) -> None:
    got = [f"lhs: {lhs.text()}", f"rhs: {rhs.text()}"]
    check_elements("conv_general_dilated", (lhs, rhs), ANY)
    check_one_dtype(
        "conv_general_dilated", (lhs, rhs), "Convert one with `lax.convert_element_type`."
    )
    lhs_spec, rhs_spec, _ = params.dimension_numbers
    ndims = (lhs.ndim, rhs.ndim, lhs.ndim)
    for field, ndim, spec in strict_zip(
        ConvDimensionNumbers._fields, ndims, params.dimension_numbers
    ):
        if sorted(spec) != list(range(ndim)):
            raise ShapeError(
                f"conv_general_dilated: {field} must name each of {ndim} axes once, got {spec}.",
                got=got,
            )
    n_features, batch = lhs.shape[lhs_spec[1]], lhs.shape[lhs_spec[0]]
    n_out, n_in = rhs.shape[rhs_spec[0]], rhs.shape[rhs_spec[1]]
    groups, batch_groups = params.feature_group_count, params.batch_group_count
    if groups < 1 or batch_groups < 1 or (groups != 1 and batch_groups != 1):
        raise ArgumentValueError(
            "conv_general_dilated needs positive group counts, of which one is 1.",
            got=f"feature_group_count: {groups}, batch_group_count: {batch_groups}",
        )
    for count, name, size, of in (
        (groups, "feature_group_count", n_features, "input features of lhs"),
        (groups, "feature_group_count", n_out, "output features of rhs"),
        (batch_groups, "batch_group_count", batch, "examples of lhs"),
        (batch_groups, "batch_group_count", n_out, "output features of rhs"),
    ):
        if size % count:
            raise ShapeError(
                f"conv_general_dilated: {name} {count} does not divide the {size} {of}.", got=got
            )
    if n_features // groups != n_in:
        raise ShapeError(
            f"conv_general_dilated: rhs has {n_in} input features, lhs {n_features}"
            + (f" in {groups} groups." if groups != 1 else "."),
            got=got,
            do=f"By dimension_numbers, the feature axis of lhs is {lhs_spec[1]}, of rhs {rhs_spec[1]}.",
        )


def _result_dtype(dtype, preferred):
    """Dtype of a convolution; `preferred` must be of the same kind (or floating for integers) and no narrower."""
    if preferred is None:
        return dtype
    kind, new_kind = kind_of(dtype), kind_of(preferred)
    fits = (
        kind in ("bool", new_kind)
        or (kind in INTEGER and new_kind == "floating")
        or (kind, new_kind) == ("unsigned", "signed")
    )
    if not fits or component_bits(preferred) < component_bits(dtype):
        raise DtypeError(
            f"conv_general_dilated of {dtypes.short_name(dtype)} can't give {dtypes.short_name(preferred)}.",
            do="preferred_element_type must be of the operands' kind, or floating for integers, and no narrower.",
        )
    return preferred


def _merge_axes(x, axis: int, into: int, within: int = 1):
    """`x` with `axis` merged into axis `into` of the other axes; this axis is split into `within` parts, to each of
    which `axis` is added.
    """
    moved = move_axis(x, axis, into)
    shape = type_of(moved).shape
    if within > 1:
        split = replace_axis_size(shape, into + 1, within, shape[into + 1] // within)
        moved = move_axis(reshape(moved, split), into, into + 1)
    return reshape(moved, (*shape[:into], shape[into] * shape[into + 1], *shape[into + 2 :]))


def _split_axis(x, axis: int, size: int, within: int = 1):
    """`x` with its `axis`, made by `_merge_axes`, split again; the axis of length `size` is at `axis`."""
    shape = type_of(x).shape
    rest = shape[axis] // (size * within)
    if within == 1:
        return reshape(x, replace_axis_size(shape, axis, size, rest))
    split = move_axis(
        reshape(x, replace_axis_size(shape, axis, within, size, rest)), axis + 1, axis
    )
    return reshape(split, replace_axis_size(shape, axis, size, within * rest))


def _move_groups(x, source: int, target: int, groups: int):
    """`x` with its axis `source`, which is (groups, rest), left with the rest; axis `target` becomes (groups, itself)."""
    shape = list(type_of(x).shape)
    split = reshape(x, replace_axis_size(shape, source, groups, shape[source] // groups))
    moved = move_axis(split, source, target)
    shape[source] //= groups
    shape[target] *= groups
    return reshape(moved, shape)


def _dimensions_attribute(ctx, numbers: ConvDimensionNumbers):
    """The MLIR attribute `#stablehlo.conv` of `numbers`."""

    def text(spec: Ints, first: str, second: str) -> str:
        labels = [""] * len(spec)
        for label, a in strict_zip((first, second, *map(str, range(len(spec) - 2))), spec):
            labels[a] = label
        return f"[{', '.join(labels)}]"

    lhs, rhs, out = numbers
    return ctx.attribute(
        f"#stablehlo.conv<{text(lhs, 'b', 'f')}x{text(rhs, 'o', 'i')}->{text(out, 'b', 'f')}>"
    )


def _is_mixed(low, high) -> bool:
    """Whether the two ends of a dimension may be padded with opposite signs: one end cut, the other one padded."""
    return not (known_at_least(low, 0) and known_at_least(high, 0)) and not (
        known_at_least(-low, 0) and known_at_least(-high, 0)
    )


def _pad_before(lhs, rhs, *fields):
    """A convolution whose left operand is dilated, padded and cut by itself."""
    params = ConvParams(*fields)
    aval = type_of(lhs)
    config = [(0, 0, 0)] * aval.ndim
    spatial = params.dimension_numbers.lhs_spec[2:]
    for axis, (low, high), dilation in strict_zip(spatial, params.padding, params.lhs_dilation):
        config[axis] = (low, high, dilation - 1)
    ones = (1,) * len(spatial)
    plain = params._replace(padding=((0, 0),) * len(spatial), lhs_dilation=ones)
    return bind1(
        conv_general_dilated_p, pad(lhs, zero_like_elements(lhs), config), rhs, params=plain
    )


def _complex_by_parts(lhs, rhs, *fields):
    """A complex convolution (a + bi)(c + di) = (k - m) + (k + l)i by three real ones.

    k = (a + b)c, l = a(d - c), m = b(c + d). CPUs and GPUs have real convolutions only.
    """
    params = ConvParams(*fields)
    if params.preferred_element_type is not None:
        part = real_dtype(params.preferred_element_type)
        params = params._replace(preferred_element_type=part)
    a, b, c, d = real(lhs), imag(lhs), real(rhs), imag(rhs)
    k = bind1(conv_general_dilated_p, add(a, b), c, params=params)
    l = bind1(conv_general_dilated_p, a, sub(d, c), params=params)
    m = bind1(conv_general_dilated_p, b, add(c, d), params=params)
    return complex_from_parts(sub(k, m), add(k, l))


conv_general_dilated_p = ConvGeneralDilated()

# Public functions ---------------------------------------------------------------------------------


def conv_general_dilated(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Ints,
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Ints | None = None,
    rhs_dilation: Ints | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | ExtendedDType | None = None,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """Convolution of `lhs` with the kernel `rhs`, which is not reversed (so a correlation, as in neural networks).

    `padding` is 'VALID', 'SAME', 'SAME_LOWER', or pairs (before, after), negative to crop. Dilations put holes
    between elements. With feature groups, each group of input features makes its own output features; with
    batch groups, each group of examples meets its own output features. Raises ShapeError for operands that don't fit.

    The result has dtype `preferred_element_type`, or that of the operands, which is one. Raises, too: DtypeError for
    different dtypes, ArgumentValueError for strides and dilations below 1 and for an unknown `padding`,
    ArgumentTypeError for lists and strings.
    Source: StableHLO specification, `convolution`.

    >>> image, kernel = np.ones((1, 8, 8, 3), np.float32), np.ones((3, 3, 3, 16), np.float32)
    >>> conv_general_dilated(image, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")).shape
    (1, 8, 8, 16)
    """
    caller = "conv_general_dilated"
    lhs_shape, rhs_shape = _shapes(lhs, rhs, caller)
    numbers = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    count = len(lhs_shape) - 2
    strides = positive_sizes(window_strides, count, "window_strides", caller)
    spread = positive_sizes(lhs_dilation, count, "lhs_dilation", caller)
    dilation = positive_sizes(rhs_dilation, count, "rhs_dilation", caller)
    if isinstance(padding, str):
        if any(s != 1 for s in spread):
            raise ArgumentValueError(
                f"padding {padding!r} has no meaning where lhs is dilated.",
                do="Give padding as pairs, or use `lax.conv_transpose`.",
            )
        padding = padtype_to_pads(
            permute(lhs_shape, numbers.lhs_spec[2:]),
            spans(permute(rhs_shape, numbers.rhs_spec[2:]), dilation), strides, padding,
        )  # fmt: skip
    params = ConvParams(
        strides, explicit_pads(padding, count, caller), spread, dilation, numbers, int(feature_group_count),
        int(batch_group_count), canonical_precision(precision, caller),
        preferred_dtype(preferred_element_type, caller), conv_general_dilated_p.stated_layout(out_sharding),
    )  # fmt: skip
    return bind1(conv_general_dilated_p, lhs, rhs, params=params)


def _shapes(lhs, rhs, caller: str) -> tuple[Shape, Shape]:
    lhs_aval, rhs_aval = type_of(lhs), type_of(rhs)
    if lhs_aval.ndim != rhs_aval.ndim or lhs_aval.ndim < 2:
        raise ShapeError(
            f"{caller} needs operands of equal rank, two at least.",
            got=[f"lhs: {lhs_aval.text()}", f"rhs: {rhs_aval.text()}"],
        )
    return lhs_aval.shape, rhs_aval.shape


def conv(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Ints,
    padding: str,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | ExtendedDType | None = None,
) -> Array:
    """Convolution of `lhs` (examples, features, spatial axes) with `rhs` (output features, features, spatial axes).

    The result has shape [examples, output features, spatial axes] and dtype `preferred_element_type`, or that of the
    operands, which is one.
    Raises: DtypeError for different dtypes, ShapeError for shapes that do not fit, ArgumentValueError for strides below
    1 and for an unknown `padding`, ArgumentTypeError for lists and strings.

    >>> conv(np.ones((1, 3, 8, 8)), np.ones((16, 3, 3, 3)), (2, 2), "SAME").shape
    (1, 16, 4, 4)
    """
    return conv_with_general_padding(
        lhs, rhs, window_strides, padding, None, None, precision, preferred_element_type
    )


def conv_with_general_padding(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Ints,
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Ints | None,
    rhs_dilation: Ints | None,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | ExtendedDType | None = None,
) -> Array:
    """`conv` with dilations and any padding.

    Shapes and dtypes are as for `conv`.
    Raises: as `conv`, and ArgumentValueError for dilations below 1.

    >>> conv_with_general_padding(np.ones((1, 1, 5)), np.ones((1, 1, 3)), (1,), [(1, 1)], (2,), (1,)).shape
    (1, 1, 9)
    """
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, precision=precision,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip


_CHANNELS_LAST: dict[int, tuple[str, str, str]] = {
    3: ("NHC", "HIO", "NHC"), 4: ("NHWC", "HWIO", "NHWC"), 5: ("NHWDC", "HWDIO", "NHWDC"),
}  # fmt: skip


def conv_transpose(
    lhs: ArrayLike,
    rhs: ArrayLike,
    strides: Ints,
    padding: str | Sequence[tuple[int, int]],
    rhs_dilation: Ints | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    transpose_kernel: bool = False,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | ExtendedDType | None = None,
    use_consistent_padding: bool = False,
) -> Array:
    """The transpose of a convolution ("deconvolution"): `lhs` is spread by `strides` and convolved with `rhs`.

    Axes are by default as ('NHWC', 'HWIO', 'NHWC') says. `padding` names the padding of the convolution
    that is transposed; pairs are applied to the spread array, or belong to that convolution, too, if
    `use_consistent_padding`. `transpose_kernel` reverses the kernel and exchanges its features, which makes this
    the gradient of the convolution with the same kernel. Raises ShapeError for operands that don't fit.

    The result has dtype `preferred_element_type`, or that of the operands, which is one. Raises, too: DtypeError for
    different dtypes, ArgumentValueError for strides and dilations below 1 and for an unknown `padding`,
    ArgumentTypeError for lists and strings.

    >>> conv_transpose(np.ones((1, 4, 4, 8)), np.ones((3, 3, 8, 2)), (2, 2), "SAME").shape
    (1, 8, 8, 2)
    """
    caller = "conv_transpose"
    lhs_shape, rhs_shape = _shapes(lhs, rhs, caller)
    if dimension_numbers is None:
        dimension_numbers = _CHANNELS_LAST.get(len(lhs_shape))
        if dimension_numbers is None:
            raise ShapeError(
                "conv_transpose knows dimension_numbers for one to three spatial axes only.",
                got=f"lhs: {type_of(lhs).text()}",
                do="Pass dimension_numbers.",
            )
    numbers = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    count = len(lhs_shape) - 2
    strides = positive_sizes(strides, count, "strides", caller)
    dilation = positive_sizes(rhs_dilation, count, "rhs_dilation", caller)
    windows = spans(permute(rhs_shape, numbers.rhs_spec[2:]), dilation)
    by_window = isinstance(padding, str)
    pads: Any = padding if by_window else explicit_pads(padding, count, caller)
    if by_window:
        pads = [transpose_padding(w, s, pads) for w, s in strict_zip(windows, strides)]
    elif use_consistent_padding:
        pads = [(w - 1 - low, w - 1 - high) for w, (low, high) in strict_zip(windows, pads)]
    if transpose_kernel:
        out_axis, in_axis, *spatial = numbers.rhs_spec
        exchanged = list(range(len(rhs_shape)))
        exchanged[out_axis], exchanged[in_axis] = in_axis, out_axis
        for axis in spatial:
            rhs = rev(rhs, (axis,))
        rhs = transpose(rhs, exchanged)
    return conv_general_dilated(
        lhs, rhs, (1,) * count, pads, strides, dilation, numbers, precision=precision,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip


def conv_general_dilated_patches(
    lhs: ArrayLike,
    filter_shape: Ints,
    window_strides: Ints,
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Ints | None = None,
    rhs_dilation: Ints | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | ExtendedDType | None = None,
) -> Array:
    """The windows that a convolution with a kernel of spatial shape `filter_shape` would see.

    The result has a feature for each (input feature, place in the window), in row-major order.

    It has the dtype of `lhs`, or `preferred_element_type`.
    Raises: ShapeError for a `filter_shape` of another rank or with negative sizes, ArgumentValueError for strides and
    dilations below 1 and for an unknown `padding`, DtypeError for PRNG keys, ArgumentTypeError for lists and strings.

    >>> conv_general_dilated_patches(np.arange(5.0).reshape(1, 1, 5), (2,), (1,), "VALID")[0]
    Array([[0., 1., 2., 3.],
           [1., 2., 3., 4.]], dtype=float32)
    """
    aval = type_of(lhs)
    filter_shape = tuple(filter_shape)
    numbers = conv_dimension_numbers(aval.shape, (1, 1, *filter_shape), dimension_numbers)
    n_features = aval.shape[numbers.lhs_spec[1]]
    n_places = int(np.prod(filter_shape, dtype=np.int64))
    square = (n_places, n_places)
    identity = convert_real(
        eq(broadcasted_iota(np.int32, square, 0), broadcasted_iota(np.int32, square, 1)), aval.dtype
    )
    repeated = broadcast_in_dim(identity, (n_features, *square), (1, 2))
    kernel = reshape(repeated, (n_features * n_places, 1, *filter_shape))
    kernel = transpose(kernel, inverse_permutation(numbers.rhs_spec))
    return conv_general_dilated(
        lhs, kernel, window_strides, padding, lhs_dilation, rhs_dilation, numbers, feature_group_count=n_features,
        precision=precision, preferred_element_type=preferred_element_type,
    )  # fmt: skip


def conv_general_dilated_local(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Ints,
    padding: str | Sequence[tuple[int, int]],
    filter_shape: Ints,
    lhs_dilation: Ints | None = None,
    rhs_dilation: Ints | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    precision: PrecisionLike = None,
) -> Array:
    """Convolution with another kernel at each place of the result.

    `rhs` has the result's spatial shape; its input features are those of `conv_general_dilated_patches`.

    Raises: ShapeError for operands that do not fit, ArgumentValueError for strides and dilations below 1 and for an
    unknown `padding`, DtypeError for PRNG keys, ArgumentTypeError for lists and strings.

    >>> conv_general_dilated_local(np.ones((1, 1, 5)), np.ones((3, 2, 4)), (1,), "VALID", (2,)).shape
    (1, 3, 4)
    """
    precision = canonical_precision(precision, "conv_general_dilated_local")
    of_patches = (precision[0], precision[0]) if type(precision) is tuple else precision
    patches = conv_general_dilated_patches(
        lhs,
        filter_shape,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        dimension_numbers,
        of_patches,
    )
    shape = type_of(lhs).shape
    _, rhs_spec, out_spec = conv_dimension_numbers(shape, (1, 1, *filter_shape), dimension_numbers)
    pairs = (((out_spec[1],), (rhs_spec[1],)), (out_spec[2:], rhs_spec[2:]))
    products = dot_general(patches, rhs, pairs, precision)
    return transpose(products, inverse_permutation((*out_spec[2:], *out_spec[:2])))
