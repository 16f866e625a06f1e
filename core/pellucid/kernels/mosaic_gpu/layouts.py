"""Which elements of a block each thread holds: a layout gives every register of every thread its place in the block.

A block of shape () is a scalar, which all threads hold; it has no layout.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from pellucid._machine.base import Shape
from pellucid._machine.xla.mosaic_gpu import arith, ir

State: TypeAlias = Any
"""The lowering of a kernel, which makes operations."""
THREADS = 128
"""Threads of a warpgroup, which hold a block together."""
WARP = 32
MAX_REGISTERS = 255
"""Registers of 32 bits that a thread has."""


@dataclass(frozen=True)
class Splat:
    """All elements are one number, which each thread holds."""

    shape: Shape
    registers: int = 0
    """Its value is no vector."""

    def place(self, ctx: State, register: int) -> list[ir.Value]:
        """The position of the first element."""
        return [ctx.int32(0) for _ in self.shape]

    def holds(self, ctx: State, register: int) -> ir.Value | None:
        """Whether this thread writes the element to memory: the first does."""
        return arith.cmpi(arith.CmpIPredicate.eq, ctx.thread, ctx.int32(0))


@dataclass(frozen=True)
class Strided:
    """Elements in row-major order go around the threads: register r of thread t holds element 128 r + t; those beyond the last hold the last one, too."""

    shape: Shape

    @property
    def registers(self) -> int:
        """Registers of each thread."""
        return max(-(-math.prod(self.shape) // THREADS), 1)

    @property
    def is_full(self) -> bool:
        """Whether all registers of all threads hold elements."""
        return math.prod(self.shape) % THREADS == 0

    def place(self, ctx: State, register: int) -> list[ir.Value]:
        """The position along each axis of the element that a register of this thread holds."""
        flat = ctx.plus(ctx.thread, register * THREADS)
        if not self.is_full:  # a register without an element has that of the last
            flat = arith.minsi(flat, ctx.int32(math.prod(self.shape) - 1))
        return unravel(ctx, flat, self.shape)

    def holds(self, ctx: State, register: int) -> ir.Value | None:
        """Whether a register of this thread holds an element; None where those of all threads do."""
        count = math.prod(self.shape)
        if (register + 1) * THREADS <= count:
            return None
        flat = ctx.plus(ctx.thread, register * THREADS)
        return arith.cmpi(arith.CmpIPredicate.slt, flat, ctx.int32(count))


@dataclass(frozen=True)
class Replicated:
    """Each thread holds all elements, in row-major order."""

    shape: Shape

    @property
    def registers(self) -> int:
        """Registers of each thread."""
        return math.prod(self.shape)

    def place(self, ctx: State, register: int) -> list[ir.Value]:
        """The position along each axis of the element that a register holds."""
        return unravel(ctx, ctx.int32(register), self.shape)

    def holds(self, ctx: State, register: int) -> ir.Value | None:
        """Whether a thread writes the element of a register to memory: one of them does."""
        return arith.cmpi(arith.CmpIPredicate.eq, ctx.thread, ctx.int32(register % THREADS))


@dataclass(frozen=True)
class Accumulator:
    """As matrix products of a warpgroup leave their sums: 64 rows for four warps, in tiles of 8 columns, of which a thread holds two
    neighbours in rows 8 apart.
    """

    shape: Shape

    @property
    def registers(self) -> int:
        """Registers of each thread."""
        return math.prod(self.shape) // THREADS

    @staticmethod
    def fits(shape: Shape) -> bool:
        """Whether a matrix of this shape can have the layout."""
        return len(shape) == 2 and shape[0] % 64 == 0 and shape[1] % 8 == 0 and 0 not in shape

    def split(self, register: int) -> tuple[int, int]:
        """(row, column) of a register's element, but for what the thread adds: the same for all threads."""
        rest, column = divmod(register, 2)
        rest, half = divmod(rest, 2)
        tile, group = divmod(rest, self.shape[1] // 8)
        # (64-row tile `tile`, 8-column tile `group`, upper or lower `half`, even or odd `column`)
        return 64 * tile + 8 * half, 8 * group + column

    def place(self, ctx: State, register: int) -> list[ir.Value]:
        """The row and column of the element that a register of this thread holds."""
        row, column = self.split(register)
        return [ctx.plus(row_of(ctx), row), ctx.plus(column_of(ctx), column)]

    def holds(self, ctx: State, register: int) -> ir.Value | None:
        """None: all registers hold elements."""
        return None


@dataclass(frozen=True)
class AccumulatorRows:
    """One number for each row of an `Accumulator`, which the four threads that share the row hold."""

    shape: Shape
    """With one size other than 1."""

    @property
    def registers(self) -> int:
        """Registers of each thread."""
        return max(self.shape) // WARP

    def register_of(self, row: int, column: int) -> int:
        """The register for the row, up to what the thread adds, of an `Accumulator`."""
        tile, rest = divmod(row, 64)
        return 2 * tile + rest // 8

    def place(self, ctx: State, register: int) -> list[ir.Value]:
        """The position of the element that a register of this thread holds."""
        tile, half = divmod(register, 2)
        return _only(ctx, ctx.plus(row_of(ctx), 64 * tile + 8 * half), self.shape)

    def holds(self, ctx: State, register: int) -> ir.Value | None:
        """Whether this thread writes the element to memory: one of the four that hold it."""
        rest = arith.remui(ctx.thread, ctx.int32(4))
        return arith.cmpi(arith.CmpIPredicate.eq, rest, ctx.int32(0))


@dataclass(frozen=True)
class AccumulatorColumns:
    """One number for each column of an `Accumulator`, which all threads that share the column hold."""

    shape: Shape
    """With one size other than 1."""

    @property
    def registers(self) -> int:
        """Registers of each thread."""
        return max(self.shape) // 4

    def register_of(self, row: int, column: int) -> int:
        """The register for the column, up to what the thread adds, of an `Accumulator`."""
        group, rest = divmod(column, 8)
        return 2 * group + rest

    def place(self, ctx: State, register: int) -> list[ir.Value]:
        """The position of the element that a register of this thread holds."""
        group, column = divmod(register, 2)
        return _only(ctx, ctx.plus(column_of(ctx), 8 * group + column), self.shape)

    def holds(self, ctx: State, register: int) -> ir.Value | None:
        """Whether this thread writes the element to memory: one of the four first."""
        return arith.cmpi(arith.CmpIPredicate.slt, ctx.thread, ctx.int32(4))


@dataclass(frozen=True, eq=False)
class Deferred:
    """Elements that follow from their places, as masks do: each thread computes those that it needs once it is known which these are."""

    shape: Shape
    compute: Callable[[Any], ir.Value]
    """What a thread holds in a layout."""
    spread: Callable[[Sequence[int], Shape], Fragment]
    """The same, whose axes are those of a block of a shape at some axes, repeated along the others."""
    registers: int = 0


Layout: TypeAlias = (
    Splat | Strided | Replicated | Accumulator | AccumulatorRows | AccumulatorColumns
)
_ORDER = (Splat, Deferred, Replicated, Strided, AccumulatorRows, AccumulatorColumns, Accumulator)


def common(layouts: Sequence[Layout]) -> Layout:
    """The layout in which blocks of one shape are combined: the one that is the most expensive to leave."""
    return max(layouts, key=lambda layout: _ORDER.index(type(layout)))


class Fragment(NamedTuple):
    """A block of `layout.shape`, of which `value` is what a thread holds: a vector with an element for each register, a number for a `Splat`,
    None while it is `Deferred`.
    """

    value: Any
    layout: Any
    """A `Layout`, or `Deferred`."""

    @property
    def shape(self) -> Shape:
        """Shape of the block."""
        return self.layout.shape


def _only(ctx: State, position: ir.Value, shape: Shape) -> list[ir.Value]:
    """A position along the one dimension of `shape` that has several."""
    return [ctx.int32(0) if n == 1 else position for n in shape]


def unravel(ctx: State, flat: ir.Value, shape: Shape) -> list[ir.Value]:
    """The position along each axis of the element with a number in row-major order."""
    found: list[ir.Value] = []
    for n in reversed(shape[1:]):
        size = ctx.int32(n)
        found.append(arith.remui(flat, size))
        flat = arith.divui(flat, size)
    return [flat, *reversed(found)]


def row_of(ctx: State) -> ir.Value:
    """The first row of an `Accumulator` that a thread holds: 16 for each warp before its own, and one for four threads before it there."""
    warp = arith.divui(ctx.thread, ctx.int32(WARP))
    lane = arith.remui(ctx.thread, ctx.int32(WARP))
    return arith.addi(arith.muli(warp, ctx.int32(16)), arith.divui(lane, ctx.int32(4)))


def column_of(ctx: State) -> ir.Value:
    """The first column of an `Accumulator` that a thread holds."""
    return arith.muli(arith.remui(ctx.thread, ctx.int32(4)), ctx.int32(2))
