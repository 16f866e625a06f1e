"""Padding of windows that slide over arrays."""

from __future__ import annotations

from typing import Any

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
    is_static,
    larger,
    strict_zip,
    strided_length,
)

Pads = tuple[tuple[int, int], ...]


PADDING_NAMES = ("VALID", "SAME", "SAME_LOWER")


def same_padding(
    size: int, window: int, stride: int, more_at_start: bool = False
) -> tuple[int, int]:
    """Padding (before, after) with which the number of windows is the size divided by `stride`, rounded up; odd
    padding goes to the end.
    """
    total = larger((strided_length(size, stride) - 1) * stride + window - size, 0)
    return (total - total // 2, total // 2) if more_at_start else (total // 2, total - total // 2)


def padtype_to_pads(
    in_shape: Ints, window_shape: Ints, window_strides: Ints, padding: str
) -> list[tuple[int, int]]:
    """Padding (before, after) of each axis for the name `padding`: 'VALID', 'SAME' or 'SAME_LOWER'.

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
    """`values` as a tuple of `count` positive integers; ones if it is None."""
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
