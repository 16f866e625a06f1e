"""The order of elements in shared memory that copies and matrix products of Hopper GPUs agree on, in which columns don't share a bank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import Shape
from pellucid._machine.xla.mosaic_gpu import arith, ir

from .layouts import State

ALIGNMENT = 1024
"""Bytes of which arrays in shared memory begin at a multiple whose elements are swizzled."""
SPANS = (128, 64, 32)
"""Bytes of the rows of panels whose parts are exchanged."""


class Swizzle(NamedTuple):
    """A matrix in panels of `span` bytes of columns, one behind the other, each with all rows, of which 8 are permuted together: 16-byte parts of a
    row are exchanged by the row's number.
    """

    shape: Shape
    span: int
    """128, 64 or 32 bytes; 16 for panels without exchange."""
    itemsize: int

    @property
    def columns(self) -> int:
        """Columns of a panel."""
        return self.span // self.itemsize

    @property
    def panels(self) -> int:
        """Panels of the matrix."""
        return self.shape[-1] // self.columns

    @property
    def panel_bytes(self) -> int:
        """Bytes of a panel."""
        return self.shape[-2] * self.span

    def offset(self, ctx: State, place: Sequence[ir.Value]) -> ir.Value:
        """The number of the element at a place, in the order of memory."""
        *outer, row, column = place
        columns = ctx.int32(self.columns)
        panel, within = arith.divui(column, columns), arith.remui(column, columns)
        # Panels of the matrices before this one come first.
        stride = self.panels
        for x, n in zip(reversed(outer), reversed(self.shape[:-2]), strict=True):
            panel = arith.addi(panel, ctx.times(x, stride))
            stride *= n
        flat = arith.addi(
            arith.muli(arith.addi(arith.muli(panel, ctx.int32(self.shape[-2])), row), columns),
            within,
        )
        # Numbers of 16-byte parts: those of 128-byte lines are exchanged by the last bits of the line's number.
        of_part = ctx.int32(16 // self.itemsize)
        part, rest = arith.divui(flat, of_part), arith.remui(flat, of_part)
        parts = self.span // 16
        if parts > 1:
            line = arith.divui(part, ctx.int32(8))
            mask = arith.andi(line, ctx.int32(parts - 1))
            part = arith.xori(part, mask)
        return arith.addi(arith.muli(part, of_part), rest)


def fitting_swizzle(shape: Any, dtype: Any) -> Swizzle | None:
    """The widest swizzle that an array of matrices can have; None if it can have none."""
    itemsize = np.dtype(dtype).itemsize
    for span in SPANS:
        fits = len(shape) > 1 and shape[-2] % 8 == 0 and shape[-1] * itemsize % span == 0
        if fits and (len(shape) == 2 or shape[-2] * shape[-1] * itemsize % ALIGNMENT == 0):
            return Swizzle(tuple(shape), span, itemsize)
    return None
