"""Access of kernels through references, as loads and stores of Triton: a block of an array is a pointer with offsets and a mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import strict_zip
from pellucid._machine.ir import Equation, Literal
from pellucid._machine.primitives import logical
from pellucid._machine.refs.index import RefIndex
from pellucid._machine.refs.primitives import addupdate_p, empty_ref_p, get_p, new_ref_p, swap_p
from pellucid._machine.xla.triton import arith, ir, triton
from pellucid.kernels.atomics import atomic_update_p
from pellucid.kernels.lowering.programs import is_float
from pellucid.kernels.mappings import BlockMapping
from pellucid.kernels.programs import undefined_element
from pellucid.kernels.specs import Squeezed, padding_of

from .lowering import Lowering, rule
from .rules import positions


class Pointer(NamedTuple):
    """A reference to the block of an array: `base` points to the array's first element."""

    base: ir.Value
    mapping: BlockMapping
    starts: tuple[Any, ...]
    """For each dimension of the array the block's first element, counted from the padding: an int or a 32-bit value."""
    is_shared: bool
    """Whether several programs see the same block."""
    is_mixed: bool
    """Whether the kernel both reads and writes it."""

    @property
    def kept(self) -> list[int]:
        """Dimensions of the array that the kernel sees."""
        return [i for i, dim in enumerate(self.mapping.dims) if type(dim) is not Squeezed]

    def may_exceed(self, dim: int) -> bool:
        """Whether the block may reach beyond the array along a dimension."""
        return self.mapping.padding()[dim] != (0, 0)


class _Part(NamedTuple):
    """A part of a block: pointers to its elements, and which of them are there."""

    pointers: ir.Value
    mask: ir.Value | None
    shape: tuple[int, ...]


def _strides(shape: Sequence[int]) -> list[int]:
    strides = [1] * len(shape)
    for i in reversed(range(len(shape) - 1)):
        strides[i] = strides[i + 1] * shape[i + 1]
    return strides


def _and(x: ir.Value | None, y: ir.Value | None) -> ir.Value | None:
    return y if x is None else x if y is None else arith.andi(x, y)


def _scaled(ctx: Lowering, x: ir.Value, factor: int) -> ir.Value:
    return x if factor == 1 else arith.muli(x, ctx.int32(factor, ctx.shape(x)))


def _part(
    ctx: Lowering, pointer: Pointer, index: RefIndex, operands: Sequence[ir.Value], avals: Sequence[Any], is_read: bool
) -> _Part:  # fmt: skip
    """The part of a block that an index selects. Positions outside of the block are moved inside where it is read, and for
    slices; written arrays of positions leave them out.
    """
    shape = index.result_shape(avals)
    ctx.type(shape, ctx.element(np.int32))  # raises for the whole part, not for one of its axes
    n_vector = len(shape) - len(index.windows)
    window_axes = iter([*range(index.position), *range(index.position + n_vector, len(shape))])
    strides = _strides(pointer.mapping.aval.shape)
    rest = iter(strict_zip(operands, avals))
    # Offset of the part's first element, from scalars alone, and of each element from there.
    first: ir.Value | None = None
    offsets: ir.Value | None = None
    mask: ir.Value | None = None
    has_vectors = any(a.shape for a in avals)

    def add(total: ir.Value | None, x: ir.Value) -> ir.Value:
        return x if total is None else arith.addi(total, x)

    kept = pointer.kept
    for dim, entry, size in strict_zip(kept, index.entries, index.shape):
        start = pointer.starts[dim]
        begin = ctx.int32(start) if isinstance(start, int) else start
        before, _ = padding_of(pointer.mapping.dims[dim])
        if entry is None:
            x, aval = next(rest)
            axes = tuple(range(index.position + n_vector - aval.ndim, index.position + n_vector))
            x, is_inside = _inside(ctx, x, size, is_moved=is_read or not has_vectors)
            if is_inside is not None:
                mask = _and(mask, ctx.along(is_inside, axes, shape))
            place = ctx.along(x, axes, shape)
        else:
            axis = next(window_axes)
            place = ctx.along(positions(ctx, (entry.size,), 0), (0,), (entry.size,))
            place = _scaled(ctx, place, entry.stride)
            if entry.start is None:
                moved = _moved(ctx, next(rest)[0], size, entry.span)
                place = arith.addi(place, ctx.along(moved, (), (entry.size,)))
            elif entry.start:
                place = arith.addi(place, ctx.int32(entry.start, (entry.size,)))
            place = ctx.along(place, (axis,), shape)
        if pointer.may_exceed(dim):
            # The element's position in the array, without the padding in front.
            where = arith.addi(place, ctx.along(begin, (), shape) if shape else begin)
            limits = ctx.int32(pointer.mapping.aval.shape[dim] + before, shape)
            fits = arith.cmpi(arith.CmpIPredicate.slt, where, limits)
            if before:
                least = ctx.int32(before, shape)
                fits = arith.andi(fits, arith.cmpi(arith.CmpIPredicate.sge, where, least))
            mask = _and(mask, fits)
        offset = begin if not before else arith.subi(begin, ctx.int32(before))
        if not isinstance(start, int) or start - before:
            first = add(first, _scaled(ctx, offset, strides[dim]))
        offsets = add(offsets, _scaled(ctx, place, strides[dim]))
    for dim in range(len(pointer.mapping.dims)):
        start = pointer.starts[dim]
        if dim not in kept and not (isinstance(start, int) and start == 0):
            begin = ctx.int32(start) if isinstance(start, int) else start
            first = add(first, _scaled(ctx, begin, strides[dim]))
    base = pointer.base if first is None else triton.addptr(pointer.base.type, pointer.base, first)
    if offsets is None:
        return _Part(ctx.along(base, (), shape), mask, shape)
    many = ctx.along(base, (), shape)
    return _Part(triton.addptr(many.type, many, offsets), mask, shape)


def _wrapped(ctx: Lowering, x: ir.Value, size: int) -> ir.Value:
    """Indices, in which negative numbers count from the end."""
    shape = ctx.shape(x)
    is_negative = arith.cmpi(arith.CmpIPredicate.slt, x, ctx.int32(0, shape))
    return arith.select(is_negative, arith.addi(x, ctx.int32(size, shape)), x)


def _moved(ctx: Lowering, x: ir.Value, size: int, span: int) -> ir.Value:
    """The start of a slice, moved to the nearest inside."""
    x = _int32(ctx, x)
    last = ctx.int32(size - span)
    return arith.minsi(arith.maxsi(_wrapped(ctx, x, size), ctx.int32(0)), last)


def _inside(
    ctx: Lowering, x: ir.Value, size: int, *, is_moved: bool
) -> tuple[ir.Value, ir.Value | None]:
    """(positions inside, which of them were): those outside are moved to the nearest one, or left out."""
    x = _wrapped(ctx, _int32(ctx, x), size)
    shape = ctx.shape(x)
    zero, last = ctx.int32(0, shape), ctx.int32(size - 1, shape)
    inside = arith.minsi(arith.maxsi(x, zero), last)
    if is_moved:
        return inside, None
    return inside, arith.cmpi(arith.CmpIPredicate.eq, inside, x)


def _int32(ctx: Lowering, x: ir.Value) -> ir.Value:
    kind = ctx.scalar_type(x)
    if kind == ctx.element(np.int32):
        return x
    target = ctx.type(ctx.shape(x), ctx.element(np.int32))
    wide = ir.IntegerType(kind).width > 32
    return arith.trunci(target, x) if wide else arith.extsi(target, x)


# Reading and writing -----------------------------------------------------------------------------------------


def _loaded(ctx: Lowering, pointer: Pointer, part: _Part) -> ir.Value:
    dtype = np.dtype(pointer.mapping.aval.dtype)
    options: dict[str, Any] = {}
    if part.mask is not None:
        memory = np.dtype(np.int8) if dtype == np.bool_ else dtype
        other = ctx.constant(
            undefined_element(memory) if dtype != np.bool_ else 0, memory, part.shape
        )
        options = {"mask": part.mask, "other": other}
    x = triton.LoadOp(part.pointers, **options).result
    if dtype != np.bool_:
        return x
    zero = ctx.constant(0, np.int8, part.shape)
    return arith.cmpi(arith.CmpIPredicate.ne, x, zero)


def _store(
    ctx: Lowering, pointer: Pointer, part: _Part, value: ir.Value, mask: ir.Value | None
) -> None:
    dtype = np.dtype(pointer.mapping.aval.dtype)
    if dtype == np.bool_:
        value = arith.extui(ctx.type(part.shape, ctx.in_memory(dtype)), value)
    triton.StoreOp(part.pointers, value, mask=_and(part.mask, mask))
    ctx.writes += 1


def _wait(ctx: Lowering, pointer: Pointer) -> None:
    """Let the threads of a program meet, so that what one has written another one reads, and none writes what is still read."""
    if pointer.is_mixed:
        ir.Operation.create("gpu.barrier")


def _access(
    ctx: Lowering, equation: Equation, operands: list[Any], n_values: int, is_read: bool
) -> tuple[Pointer, _Part]:
    pointer, *rest = operands
    atoms = equation.operands[1 + n_values :]
    avals = [a.aval for a in atoms]
    return pointer, _part(ctx, pointer, equation.params.index, rest[n_values:], avals, is_read)


def _key(ctx: Lowering, equation: Equation, n_values: int) -> tuple[Any, ...]:
    """A key that identifies a part of a reference, and its content."""
    atoms = equation.operands[1 + n_values :]
    indices = tuple([getattr(a, "val", a) for a in atoms])
    return equation.operands[0], equation.params.index, indices, ctx.writes


@rule(new_ref_p, empty_ref_p)
def _new_ref(ctx: Lowering, equation, operands):
    raise ctx.unsupported(
        "references that it makes are not in memory.", do="Carry the value, or write a result."
    )


@rule(get_p)
def _get(ctx: Lowering, equation, operands):
    pointer, part = _access(ctx, equation, operands, 0, True)
    _wait(ctx, pointer)
    ctx.scope.reads[equation.results[0]] = _key(ctx, equation, 0)
    return [_loaded(ctx, pointer, part)]


@rule(swap_p)
def _swap(ctx: Lowering, equation, operands):
    pointer, part = _access(ctx, equation, operands, 1, False)
    _wait(ctx, pointer)
    is_used = equation.results[0] in ctx.scope.first_uses
    old = [_loaded(ctx, pointer, part)] if is_used else []
    value, mask = operands[1], None
    # A `select` between what the part holds and a new value becomes a masked store, as programs may share the part.
    definition = ctx.scope.definitions.get(equation.operands[1])
    if definition is not None and definition.primitive is logical.select_n_p:
        which, kept, *new = definition.operands
        if len(new) == 1 and ctx.scope.reads.get(kept) == _key(ctx, equation, 1):
            mask = ctx.spread(ctx.value(which), part.shape)
            value = ctx.spread(ctx.value(new[0]), part.shape)
            if pointer.is_shared and not part.shape and _decides(ctx, equation, definition):
                raise ctx.unsupported(
                    "its programs run at once, and what one reads of a shared block decides what it writes there.",
                    f"an element of {pointer.mapping.name}, as `triton.atomic_cas` replaces it",
                    "Let the block depend on all axes of the grid, or sum with `triton.atomic_add`.",
                )
    if (
        mask is None
        and pointer.is_shared
        and all(type(a) is Literal for a in equation.operands[2:])
    ):
        raise ctx.unsupported(
            "its programs run at once, and several would write the same block.",
            f"{pointer.mapping.name}: block {pointer.mapping.sizes} of an array of shape {pointer.mapping.aval.shape}",
            "Let the block depend on all axes of the grid, or sum by a loop in the kernel.",
        )
    _store(ctx, pointer, part, ctx.spread(value, part.shape), mask)
    return old or [None]


def _decides(ctx: Lowering, write: Equation, choice: Equation) -> bool:
    """Whether anything but `choice`, the select of a masked write, uses what the program at hand reads of the reference that is written."""
    jaxpr = ctx.scope.jaxpr
    if jaxpr is None:
        return False
    read = {
        v
        for e in jaxpr.equations
        if e.primitive in (get_p, swap_p) and e.operands[0] is write.operands[0]
        for v in e.results
    }
    uses = [*jaxpr.outvars]
    for equation in jaxpr.equations:
        if equation is not choice:
            uses += equation.operands
    return any(type(atom) is not Literal and atom in read for atom in uses)


@rule(addupdate_p)
def _addupdate(ctx: Lowering, equation, operands):
    pointer, part = _access(ctx, equation, operands, 1, False)
    _check_unread(ctx, equation, 1)
    value = ctx.spread(operands[1], part.shape)
    _atomic(ctx, pointer, part, "add", value, None)
    return []


@rule(atomic_update_p)
def _atomic_update(ctx: Lowering, equation, operands):
    pointer, part = _access(ctx, equation, operands, 2, False)
    _check_unread(ctx, equation, 2)
    value, which = (ctx.spread(x, part.shape) for x in operands[1:3])
    operation = equation.params.operation
    if operation != "cas":
        return [_atomic(ctx, pointer, part, operation, value, which)]
    _check_is_atomic(ctx, pointer, operation)
    _wait(ctx, pointer)
    if part.mask is not None:
        raise ctx.unsupported(
            "what it compares and swaps may lie beyond the edge of the array.",
            f"an element of {pointer.mapping.name}, blocks {pointer.mapping.sizes} of an array of shape {pointer.mapping.aval.shape}",
            "Choose blocks that divide the array.",
        )
    kind = ctx.element(pointer.mapping.aval.dtype)
    old = triton.AtomicCASOp(kind, part.pointers, which, value, *_ORDER).result
    ctx.writes += 1
    return [old]


_ORDER = triton.MemSemantic.ACQUIRE_RELEASE, triton.MemSyncScope.GPU
"""What other programs see of memory before and after an atomic operation: all of it, on the whole GPU."""

_OPERATIONS = {
    ("add", "i"): triton.RMWOp.ADD,
    ("add", "u"): triton.RMWOp.ADD,
    ("add", "f"): triton.RMWOp.FADD,
    ("max", "i"): triton.RMWOp.MAX,
    ("max", "u"): triton.RMWOp.UMAX,
    ("min", "i"): triton.RMWOp.MIN,
    ("min", "u"): triton.RMWOp.UMIN,
    **{(name, kind): getattr(triton.RMWOp, name.upper()) for name in ("and", "or", "xor", "xchg") for kind in "iu"},
    ("xchg", "f"): triton.RMWOp.XCHG,
}  # fmt: skip
"""By operation and kind of dtype what Triton calls it. It has no maximum of floating numbers, which keeps NaN."""


def _check_is_atomic(ctx: Lowering, pointer: Pointer, operation: str) -> None:
    """Raise for dtypes whose elements can't be changed in one step."""
    dtype = np.dtype(pointer.mapping.aval.dtype)
    if (dtype.kind != "b" and dtype.itemsize >= 4) or (dtype == np.float16 and operation == "add"):
        return
    raise ctx.unsupported(
        f"atomic operations change elements of 32 and 64 bits, and add to float16; not {dtype}.",
        f"atomic_{operation} of {pointer.mapping.name}",
    )


def _check_unread(ctx: Lowering, equation: Equation, n_values: int) -> None:
    """Raise for an atomic operation on what was read before: other programs change it between the two."""
    key = _key(ctx, equation, n_values)
    if any(k == key and v in ctx.scope.first_uses for v, k in ctx.scope.reads.items()):
        raise ctx.unsupported(
            "the part of a reference that it changes was read before, which other programs change meanwhile.",
            do="Use what the atomic operation, `triton.atomic_add` and others, returns.",
        )


def _atomic(
    ctx: Lowering, pointer: Pointer, part: _Part, operation: str, value: ir.Value, mask: ir.Value | None
) -> ir.Value:  # fmt: skip
    """Change a part of a reference by an atomic operation where `mask` is true; the part before it."""
    dtype = np.dtype(pointer.mapping.aval.dtype)
    _check_is_atomic(ctx, pointer, operation)
    found = _OPERATIONS.get((operation, "f" if is_float(dtype) else dtype.kind))
    if found is None:
        raise ctx.unsupported(
            f"it has no atomic {operation} of floating numbers.",
            f"{pointer.mapping.name}: {dtype}",
            "Reduce in the kernel to one value for each program, and outside over these.",
        )
    _wait(ctx, pointer)
    kind = ctx.type(part.shape, ctx.element(dtype))
    both = _and(part.mask, mask)
    old = triton.AtomicRMWOp(kind, found, part.pointers, value, *_ORDER, mask=both).result
    ctx.writes += 1
    return old
