"""Access of kernels through references: each thread loads and stores its elements of a part, in memory of the GPU or of its block."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import Shape, strict_zip
from pellucid._machine.ir import Equation, Literal, shaped_array
from pellucid._machine.refs.index import RefIndex
from pellucid._machine.refs.primitives import addupdate_p, get_p, swap_p
from pellucid._machine.xla.mosaic_gpu import arith, ir
from pellucid.kernels.lowering.programs import is_float
from pellucid.kernels.mappings import BlockMapping
from pellucid.kernels.programs import undefined_element

from .layouts import Fragment, Layout, Strided
from .lowering import Lowering, bytes_of, element_pointer, load, rule, store, strides_of
from .shapes import repeated
from .swizzles import ALIGNMENT, Swizzle

Start = int | ir.Value


class Memory(NamedTuple):
    """A reference to a part of an array of `shape`, in row-major order in a memory, or in the order of `swizzle`."""

    base: ir.Value
    """Points to the array's first element."""
    shape: Shape
    """Of the array."""
    kept: tuple[int, ...]
    """The dimensions of the array that the kernel sees."""
    starts: tuple[Start, ...]
    """For each dimension the first position that it sees."""
    sizes: Shape
    """For each dimension the number of positions that it sees."""
    limits: tuple[tuple[int, int] | None, ...]
    """For each dimension (first, end) of the positions that have elements; None where all that it sees do."""
    dtype: np.dtype
    is_in_shared_memory: bool = False
    is_shared: bool = False
    """Whether several programs see the part."""
    is_mixed: bool = False
    """Whether the kernel both reads and writes it."""
    is_of_block: bool = True
    """Whether all warpgroups of a block see it, and not only one."""
    mapping: BlockMapping | None = None
    swizzle: Swizzle | None = None
    origin: Any = None
    """What identifies an array in shared memory that could be swizzled; None for others."""

    @property
    def name(self) -> str:
        """How messages name it."""
        return "scratch" if self.mapping is None else self.mapping.name


class Part(NamedTuple):
    """A part of a reference, of which `address` gives a pointer to the element at a place, and whether there is one (None: there is)."""

    shape: Shape
    address: Callable[[Sequence[ir.Value]], tuple[ir.Value, ir.Value | None]]


def both(x: ir.Value | None, y: ir.Value | None) -> ir.Value | None:
    """Whether two conditions hold, of which None always does."""
    return y if x is None else x if y is None else arith.andi(x, y)


def value_of(ctx: Lowering, x: Start) -> ir.Value:
    """A position in int32."""
    return ctx.int32(x) if isinstance(x, int) else x


def sum_of(ctx: Lowering, x: Start, y: Start) -> Start:
    """The sum of two positions."""
    if isinstance(x, int) and isinstance(y, int):
        return x + y
    if isinstance(x, int):
        return ctx.plus(y, x)  # pyright: ignore[reportArgumentType]
    return ctx.plus(x, y) if isinstance(y, int) else arith.addi(x, y)


def known_factor(x: Start) -> int:
    """A number of which a position is a multiple whatever the kernel computes; 0 for the position 0."""
    if isinstance(x, int):
        return abs(x)
    if not isinstance(x, ir.OpResult):  # an argument of a block
        return 1
    operation = x.owner.operation
    name, inner = operation.name, [*operation.operands]
    if name == "arith.constant":
        return abs(ir.IntegerAttr(operation.attributes["value"]).value)
    factors = [known_factor(y) for y in (inner[1:] if name == "arith.select" else inner)]
    if name == "arith.muli":
        return factors[0] * factors[1]
    if name in _KEEP_FACTORS:
        return math.gcd(*factors)
    return 1


_KEEP_FACTORS = {
    f"arith.{name}" for name in ("addi", "subi", "maxsi", "minsi", "select", "extsi", "trunci", "index_cast")
}  # fmt: skip
"""Operations whose results are multiples of what divides all operands."""


def window_starts(
    ctx: Lowering, index: RefIndex, operands: Sequence[Any], avals: Sequence[Any], is_moved: bool = True,
) -> list[Any]:  # fmt: skip
    """For each dimension that an index selects from (start, size, step) of a window, or a position, or a block of positions. Positions outside are
    moved inside if `is_moved`, as in the kernel's definition.
    """
    rest = iter(strict_zip(operands, avals))
    found: list[Any] = []
    for entry, size in strict_zip(index.entries, index.shape):
        if entry is None:
            x, aval = next(rest)
            if aval.shape:
                found.append(x)
                continue
            found.append(_inside(ctx, x, size, 1, is_moved))
            continue
        start: Start = entry.start or 0
        if entry.start is None:
            start = _inside(ctx, next(rest)[0], size, entry.span, is_moved)
        found.append((start, entry.size, entry.stride))
    return found


def _inside(ctx: Lowering, x: ir.Value, size: int, span: int, is_moved: bool) -> ir.Value:
    """The first of `span` positions along a dimension: negative ones count from the end, others are moved inside if `is_moved`."""
    x, zero = ctx.signed32(x), ctx.int32(0)
    if not is_moved:
        return x
    is_negative = arith.cmpi(arith.CmpIPredicate.slt, x, zero)
    x = arith.select(is_negative, ctx.plus(x, size), x)
    return arith.minsi(arith.maxsi(x, zero), ctx.int32(size - span))


def part_of(
    ctx: Lowering, ref: Memory, index: RefIndex, operands: Sequence[Any], avals: Sequence[Any]
) -> Part:
    """The part of a reference that an index selects."""
    selected = window_starts(ctx, index, operands, avals)
    if any(type(item) is Fragment for item in selected):
        return _part_at_positions(ctx, ref, index, selected)
    shape = tuple([s[1] for s in selected if isinstance(s, tuple)])
    return Part(shape, lambda place: _address(ctx, ref, selected, place))


def _address(
    ctx: Lowering, ref: Memory, selected: Sequence[Any], place: Sequence[ir.Value]
) -> tuple[ir.Value, ir.Value | None]:
    """A pointer to the element at a place of the part that windows and positions select, and whether there is one."""
    element, strides, along = ctx.in_memory(ref.dtype), strides_of(ref.shape), iter(place)
    positions: list[Start] = [*ref.starts]
    for dim, item in strict_zip(ref.kept, selected):
        offset: Start
        if isinstance(item, tuple):
            start, _, step = item
            offset = sum_of(ctx, start, ctx.times(next(along), step))
        else:
            offset = item
        positions[dim] = sum_of(ctx, positions[dim], offset)
    exists: ir.Value | None = None
    total: Start = 0
    for x, limit, stride in strict_zip(positions, ref.limits, strides):
        if limit is not None:
            first, end = limit
            x = value_of(ctx, x)
            fits = arith.cmpi(arith.CmpIPredicate.slt, x, ctx.int32(end))
            if first:
                after = arith.cmpi(arith.CmpIPredicate.sge, x, ctx.int32(first))
                fits, x = arith.andi(fits, after), ctx.plus(x, -first)
            exists = both(exists, fits)
        total = sum_of(ctx, total, x * stride if isinstance(x, int) else ctx.times(x, stride))
    if ref.swizzle is not None:
        total = ref.swizzle.offset(ctx, [value_of(ctx, x) for x in positions])
    return element_pointer(ref.base, total, element), exists


def _part_at_positions(ctx: Lowering, ref: Memory, index: RefIndex, selected: list[Any]) -> Part:
    """The part of a reference that blocks of positions select, which threads read from shared memory."""
    # Dimensions of the reference with blocks of positions, and single ones, which all of them go with.
    blocks = {dim: item for dim, item in enumerate(selected) if type(item) is Fragment}
    shape = np.broadcast_shapes(*[x.shape for x in blocks.values()])
    n, first = len(shape), index.position
    spread = [
        as_block(ctx, repeated(ctx, x, tuple(range(n - len(x.shape), n)), shape), shape)
        for x in blocks.values()
    ]
    readers = dict(zip(blocks, ctx.exchanged_together(spread), strict=True))
    windows = [item[1] for item in selected if type(item) is tuple]

    def address(place: Sequence[ir.Value]) -> tuple[ir.Value, ir.Value | None]:
        at = list(place[first : first + n])
        items = [
            _inside(ctx, readers[dim](at), index.shape[dim], 1, True) if dim in readers else item
            for dim, item in enumerate(selected)
        ]
        return _address(ctx, ref, items, [*place[:first], *place[first + n :]])

    return Part((*windows[:first], *shape, *windows[first:]), address)


def read(ctx: Lowering, ref: Memory, part: Part, layout: Layout | None = None) -> Any:
    """What a part of a reference holds: a block in a layout, by default strided, or a scalar."""
    kept, dtype = ctx.in_memory(ref.dtype), ref.dtype
    layout = layout or Strided(part.shape)

    def element(place: Sequence[ir.Value]) -> ir.Value:
        pointer, exists = part.address(place)
        if exists is not None:
            # Where there is no element, one is read that is there, and left out.
            pointer = arith.select(exists, pointer, ref.base)
        found = load(kept, pointer, bytes_of(kept))
        if dtype == np.bool_:
            found = arith.cmpi(arith.CmpIPredicate.ne, found, ctx.constant(0, np.int8))
        if exists is not None:
            other = ctx.constant(undefined_element(dtype), dtype)
            found = arith.select(exists, found, other)
        return found

    if not part.shape:
        return element([])
    ctx.check_size(part.shape)
    places = [layout.place(ctx, r) for r in range(layout.registers)]
    return ctx.joined([*map(element, places)], layout)


def write(ctx: Lowering, ref: Memory, part: Part, value: Any) -> None:
    """Let a part of a reference hold a value."""
    kept = ctx.in_memory(ref.dtype)

    def put(x: ir.Value, place: Sequence[ir.Value], holds: ir.Value | None) -> None:
        pointer, exists = part.address(place)
        with ctx.only_if(both(holds, exists)):
            x = arith.extui(kept, x) if ref.dtype == np.bool_ else x
            store(x, pointer, bytes_of(kept))

    if not part.shape:
        first = arith.cmpi(arith.CmpIPredicate.eq, ctx.thread, ctx.int32(0))
        put(value, [], first)
        if ref.is_in_shared_memory:
            ctx.fence()
        return
    ctx.check_size(part.shape)
    block = as_block(ctx, value, part.shape)
    layout = block.layout
    for r, x in enumerate(ctx.parts(block)):
        put(x, layout.place(ctx, r), layout.holds(ctx, r))
    if ref.is_in_shared_memory:
        ctx.fence()


def as_block(ctx: Lowering, value: Any, shape: Shape) -> Fragment:
    """A value as a block of which threads hold different elements."""
    strided = Strided(tuple(shape))
    if type(value) is not Fragment:
        return ctx.joined([value] * strided.registers, strided)
    return ctx.changed(value, strided) if value.layout.registers == 0 else value


# Primitives ---------------------------------------------------------------------------------------------------


def _access(
    ctx: Lowering, equation: Equation, operands: list[Any], n_values: int
) -> tuple[Memory, Part]:
    ref, *rest = operands
    avals = [a.aval for a in equation.operands[1 + n_values :]]
    if (
        ref.is_mixed
    ):  # what one thread has written another one reads, and none writes what is still read
        ctx.meet()
    return ref, part_of(ctx, ref, equation.params.index, rest[n_values:], avals)


@rule(get_p)
def _get(ctx: Lowering, equation, operands):
    if not isinstance(operands[0], Memory):
        return [operands[0].get(ctx, equation)]
    return [read(ctx, *_access(ctx, equation, operands, 0))]


@rule(swap_p)
def _swap(ctx: Lowering, equation, operands):
    _check_is_memory(ctx, operands[0])
    ref, part = _access(ctx, equation, operands, 1)
    _check_is_own(ctx, ref, equation)
    is_used = equation.results[0] in ctx.scope.first_uses
    old = [None]
    if is_used:
        old = [read(ctx, ref, part)]
        ctx.meet()
    write(ctx, ref, part, operands[1])
    return old


@rule(addupdate_p)
def _addupdate(ctx: Lowering, equation, operands):
    _check_is_memory(ctx, operands[0])
    ref, part = _access(ctx, equation, operands, 1)
    _check_is_own(ctx, ref, equation)
    value = operands[1]
    add = arith.addf if is_float(ref.dtype) else arith.addi
    if not part.shape:
        old = read(ctx, ref, part)
        ctx.meet()
        write(ctx, ref, part, add(old, value))
        return []
    block = as_block(ctx, value, part.shape)
    old = read(ctx, ref, part, block.layout)
    ctx.meet()
    write(ctx, ref, part, Fragment(add(old.value, block.value), block.layout))
    return []


def _check_is_memory(ctx: Lowering, ref: Any) -> None:
    """Raise UnsupportedError for references to barriers and accumulators, which operations of their own change."""
    if not isinstance(ref, Memory):
        raise ctx.unsupported(
            "barriers and accumulators aren't written.",
            do="Multiply into an accumulator, `mosaic_gpu.wgmma`, or begin with a value: `ACC.init(array)`.",
        )


def _check_is_own(ctx: Lowering, ref: Memory, equation: Equation) -> None:
    """Raise UnsupportedError for a write of a part that other programs write at the same time, or whose elements may be the same."""
    indices: list[Any] = [a.aval for a in equation.operands[2:]]
    if any(aval.shape for aval in indices):
        raise ctx.unsupported(
            "several of its threads would write where positions by arrays are the same.",
            do="Write slices, `pl.ds(start, size)`, or in a loop; sums go by `mosaic_gpu.atomic_add`.",
        )
    n_values = 1
    if not all(type(a) is Literal for a in equation.operands[1 + n_values :]):
        return
    if ctx.n_warpgroups > 1 and ref.is_of_block and not ctx.conditions:
        raise ctx.unsupported(
            "its threads run at once, and all would write the same part.",
            f"{ref.name}: a part of an array of shape {ref.shape}, num_threads={ctx.n_warpgroups}",
            "Let the part depend on `lax.axis_index` of the threads, or let one of them write: `pl.when(i == 0)`.",
        )
    if ref.is_shared:
        raise ctx.unsupported(
            "its programs run at once, and several would write the same block.",
            f"{ref.name}: a part of an array of shape {ref.shape}",
            "Let the block depend on all axes of the grid, or sum by a loop in the kernel.",
        )


def whole(ctx: Lowering, ref: Memory) -> Part:
    """All of what a reference shows."""
    element, strides = ctx.in_memory(ref.dtype), strides_of(ref.shape)

    def address(place: Sequence[ir.Value]) -> tuple[ir.Value, ir.Value | None]:
        if ref.swizzle is not None:
            return element_pointer(ref.base, ref.swizzle.offset(ctx, place), element), None
        return ctx.address(ref.base, place, strides, element), None

    return Part(ref.shape, address)


def scratch(
    ctx: Lowering, shape: Shape, dtype: Any, swizzle: Swizzle | None = None, *, is_of_block: bool = True
) -> Memory:  # fmt: skip
    """A reference to new shared memory, which the threads of a block have together, or those of each warpgroup."""
    dtype = np.dtype(dtype)
    element = ctx.in_memory(dtype)
    base = ctx.allocated(
        int(np.prod(shape, dtype=int)) * bytes_of(element),
        ALIGNMENT if swizzle else _ROW_ALIGNMENT,
        shaped_array(shape, dtype).text(),
        is_of_block,
    )
    return Memory(
        base,
        tuple(shape),
        tuple(range(len(shape))),
        (0,) * len(shape),
        tuple(shape),
        (None,) * len(shape),
        dtype,
        is_in_shared_memory=True,
        is_of_block=is_of_block,
        is_mixed=True,
        swizzle=swizzle,
    )


_ROW_ALIGNMENT = 128
"""Bytes of which arrays in shared memory begin at a multiple, as targets of copies do."""


def check_part_of_matrix(ctx: Lowering, ref: Memory) -> None:
    """Raise UnsupportedError for a part of a swizzled matrix that copies and products can't name: one that begins within rows or columns that are exchanged."""
    matrix = ref.swizzle
    if matrix is None:
        return
    n = len(ref.shape)
    steps = (_ROWS_TOGETHER, matrix.columns)
    is_matrix = {n - 2, n - 1} <= {*ref.kept}
    fits = all(
        start == 0 if size == whole else size % step == 0 and known_factor(start) % step == 0
        for start, size, whole, step in strict_zip(ref.starts[-2:], ref.sizes[-2:], ref.shape[-2:], steps)
    )  # fmt: skip
    if is_matrix and fits:
        return
    raise ctx.unsupported(
        f"a part of a matrix that is swizzled by {matrix.span} bytes begins at a multiple of {steps[0]} rows and of {steps[1]} columns, and has so many.",
        f"sizes {list(ref.sizes)} of scratch of shape {list(ref.shape)}",
        f"Let its start be a product with such a number, `ds(i * {steps[0]}, size)`, or give the part a leading dimension of one.",
    )


_ROWS_TOGETHER = 8
"""Rows whose 16-byte parts are exchanged together."""
