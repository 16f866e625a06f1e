"""Dimension numbers of convolutions, and the shapes of their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    Ints,
    Shape,
    ShapeError,
    strict_zip,
    window_count,
)

from .movement import inverse_permutation, permute
from .padding import explicit_pads, padtype_to_pads, spans


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


class ConvDimensionNumbers(NamedTuple):
    """The axes of operands and result of a convolution: batch, feature and spatial axes of each.

    `lhs_spec` and `out_spec`: the batch axis, the feature axis, the spatial axes. `rhs_spec`: the axis of output
    features, that of input features, the spatial axes, each spatial axis at the place of the one that it slides over.

    >>> lax.conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 4), ("NHWC", "HWIO", "NHWC"))
    ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """

    lhs_spec: Ints
    rhs_spec: Ints
    out_spec: Ints


ConvGeneralDilatedDimensionNumbers = None | ConvDimensionNumbers | tuple[str, str, str]
"""Dimension numbers as users state them: three strings, `ConvDimensionNumbers`, or None for ('NCHW', 'OIHW', 'NCHW').
"""


def conv_general_permutations(dimension_numbers: Sequence[str]) -> tuple[Shape, Shape, Shape]:
    """Axes that three strings such as ('NHWC', 'HWIO', 'NHWC') name, in the order of `ConvDimensionNumbers`.

    Each of the three is a tuple of axes, a permutation of the shape that its string names.
    Raises: TypeError for anything that isn't a sequence of strings, ArgumentValueError for strings that do not name the same axes.

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
            "dimension_numbers of a convolution must be three strings, for lhs, rhs and the result.",
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


def conv_shape_tuple(
    lhs_shape: Ints,
    rhs_shape: Ints,
    strides: Ints,
    pads: str | Sequence[tuple[int, int]],
    batch_group_count: int = 1,
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
    padding: str | Sequence[tuple[int, int]],
    dimension_numbers: Sequence[str],
) -> Shape:
    """Shape of `conv_general_dilated` of operands of these shapes, without dilations.

    Raises: ValueError for strides and shapes of another rank, ArgumentValueError for an unknown `padding`.

    >>> conv_general_shape_tuple((2, 9, 9, 3), (3, 3, 3, 8), (2, 2), "SAME", ("NHWC", "HWIO", "NHWC"))
    (2, 5, 5, 8)
    """
    lhs, rhs, out_spec = _canonical_shapes(lhs_shape, rhs_shape, dimension_numbers)
    return permute(
        conv_shape_tuple(lhs, rhs, window_strides, padding), inverse_permutation(out_spec)
    )


def _canonical_shapes(lhs_shape: Ints, rhs_shape: Ints, dimension_numbers: Sequence[str]) -> Any:
    """The two shapes permuted to the order of `ConvDimensionNumbers`, and the axes of the result in this order."""
    lhs_spec, rhs_spec, out_spec = conv_general_permutations(dimension_numbers)
    return permute(lhs_shape, lhs_spec), permute(rhs_shape, rhs_spec), out_spec


def conv_transpose_shape_tuple(
    lhs_shape: Ints,
    rhs_shape: Ints,
    window_strides: Ints,
    padding: str | Sequence[tuple[int, int]],
    dimension_numbers: Sequence[str],
) -> Shape:
    """Shape of `conv_transpose` of operands of these shapes.

    Raises: ValueError for strides and shapes of another rank, ArgumentValueError for an unknown `padding`.

    >>> conv_transpose_shape_tuple((2, 4, 4, 3), (3, 3, 3, 8), (2, 2), "SAME", ("NHWC", "HWIO", "NHWC"))
    (2, 8, 8, 8)
    """
    lhs, rhs, out_spec = _canonical_shapes(lhs_shape, rhs_shape, dimension_numbers)
    if isinstance(padding, str):
        padding = [transpose_padding(k, s, padding) for k, s in strict_zip(rhs[2:], window_strides)]
    ones = (1,) * (len(lhs) - 2)
    shape = conv_shape(lhs, rhs, ones, padding, window_strides, ones, 1)
    return permute(shape, inverse_permutation(out_spec))


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
