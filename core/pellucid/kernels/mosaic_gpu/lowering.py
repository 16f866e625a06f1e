"""A kernel as a program of 128 threads, or of several times as many, which go their own ways: blocks are fragments in their registers, scalars are
in all of them, references are in memory. What users call a thread is a warpgroup, 128 threads of the GPU.

Rules of operations are in `rules` and `reductions`, of loops in `control`, access through references in `memory`.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import dtypes, strict_zip
from pellucid._machine.ir import Equation, Primitive
from pellucid._machine.xla.mosaic_gpu import (
    FloatType,
    VectorType,
    arith,
    gpu,
    ir,
    llvm,
    nvvm,
    scf,
    vector,
)
from pellucid.kernels.lowering import elements, programs
from pellucid.kernels.lowering.programs import COMMON, Rules, registering
from pellucid.kernels.mappings import BlockMapping

from .layouts import (
    MAX_REGISTERS,
    THREADS,
    WARP,
    Deferred,
    Fragment,
    Layout,
    Splat,
    Strided,
    common,
)
from .shapes import repeated


class SwizzleNeeded(Exception):
    """Raised where a product takes an array in shared memory that is in row-major order: the kernel is lowered again with a swizzle for it."""

    def __init__(self, origin: Any) -> None:
        super().__init__()
        self.origin = origin


RULES: Rules = {}
"""By primitive how it is lowered; `rules`, `reductions`, `control` and `memory` fill it."""
ON_ELEMENTS: Rules = {}
"""By primitive how an operation on elements is lowered, beside those that devices share."""
SHARED = (elements,)
"""The modules of rules that it shares with other devices."""
rule = registering(RULES)


class BlockMemory(NamedTuple):
    """What a reference takes of the memory of a block of threads."""

    space: str
    """`shared` or `registers`."""
    kind: str
    """The type of the reference, in words."""
    n_bytes: int
    """With what lies unused in front of it, as it begins at a multiple of 16 bytes or more."""
    needed_bytes: int
    source: Any
    """The traceback of the line in the kernel that makes it; None for scratch of the call."""


class Lowering(programs.Lowering):
    """The state while one kernel is lowered to Mosaic's programs for GPUs."""

    device = "Mosaic GPU"
    rules = RULES

    def __init__(
        self, name: str, context: ir.Context, mappings: Sequence[BlockMapping] = ()
    ) -> None:
        super().__init__(name, context, mappings)
        self.n_warpgroups = 1
        """Warpgroups of a block."""
        self.warpgroup: Any = None
        """The number of the thread's warpgroup, in int32."""
        self.thread: Any = None
        """The number of the thread in its warpgroup, in int32."""
        self.shared: Any = None
        """A pointer to the block's shared memory."""
        self.shared_bytes = 0
        """Bytes of it that references have so far."""
        self.memory: list[BlockMemory] = []
        """What references take of it, and of registers."""
        self.exchanged_bytes = 0
        """Bytes behind these in which threads exchange elements."""
        self.exchange_starts: list[Any] = []
        """Constants that hold where these begin, which is known in the end."""
        self.exchange_alignment = 16
        """Bytes of which these begin at a multiple."""
        self.exchange_sizes: list[Any] = []
        """Constants that hold how many of these each warpgroup has."""
        self.conditions = 0
        """How many conditions there are around the equation at hand."""
        self.descriptors: dict[Any, int] = {}
        """By array and box the number of the description that copies of it need."""
        self.described: list[Callable[[ir.Value], None]] = []
        """Functions that write these descriptions to where a pointer points, on the host."""
        self.descriptor_base: Any = None
        """A pointer to the descriptions, in the launch."""
        self.entry: Any = None
        """The block of the launch."""
        self.writes_shared_memory = False
        """Whether threads write to references in shared memory, and not only copies."""
        self.chosen: frozenset[Any] = frozenset()
        """Identities of arrays in shared memory that are swizzled as products need them, though the user states no swizzle."""
        self._layout: Layout | None = None

    # Types --------------------------------------------------------------------------------------------------

    def in_memory(self, dtype: Any) -> ir.Type:
        """The type of an element in memory, where booleans are bytes."""
        is_bool = np.dtype(dtype) == np.bool_
        return ir.IntegerType.get_signless(8) if is_bool else self.element(dtype)

    def element(self, dtype: Any) -> ir.Type:
        """The type of an element in registers."""
        dtype = np.dtype(dtype)
        if dtype.kind != "b" and dtypes.itemsize_bits(dtype) < 8:
            raise self.unsupported(f"it has no {dtypes.short_name(dtype)}.")
        return super().element(dtype)

    def type(self, shape: Sequence[int], element: ir.Type) -> ir.Type:
        """The type of what a thread holds of a block; of a scalar for the shape ()."""
        layout = self._layout
        if not shape or layout is None or type(layout) is Splat:
            return element
        return VectorType.get([layout.registers], element)

    def shape(self, x: Any) -> tuple[int, ...]:
        """The shape of a block, () of a scalar."""
        return x.shape if type(x) is Fragment else ()

    def scalar_type(self, x: Any) -> ir.Type:
        """The type of the elements of a value."""
        kind = (x.value if type(x) is Fragment else x).type
        return VectorType(kind).element_type if isinstance(kind, VectorType) else kind

    def along(self, x: Any, axes: Sequence[int], shape: Sequence[int]) -> Any:
        """What a thread holds of a block with one number everywhere, in the layout at hand."""
        kind = self.type(shape, self.scalar_type(x))
        return x if isinstance(x.type, VectorType) or kind == x.type else vector.broadcast(kind, x)

    def spread(self, x: Any, shape: Sequence[int]) -> Any:
        """A number as what a thread holds of a block in the layout at hand; what is one already as it is."""
        return self.along(x, (), shape)

    def constant(self, value: Any, dtype: Any, shape: Sequence[int] = ()) -> Any:
        """A block that holds one number everywhere; within a rule of elements what a thread holds of it."""
        if self._layout is not None:
            return super().constant(
                value, dtype, (1,) if shape and type(self._layout) is not Splat else ()
            )
        found = super().constant(value, dtype)
        return Fragment(found, Splat(tuple(shape))) if shape else found

    def check_size(self, shape: Sequence[int]) -> None:
        """Raise UnsupportedError for a block of which each thread would hold more than it has registers."""
        count = math.prod(shape)
        if count == 0:
            raise self.unsupported("it has no empty blocks.", f"a value of shape {list(shape)}")
        if Strided(tuple(shape)).registers > MAX_REGISTERS:
            raise self.unsupported(
                f"each of 128 threads has {MAX_REGISTERS} registers, and holds one element of a block in each.",
                f"a value of shape {list(shape)}, {count:,} elements: {-(-count // 128):,} registers of each thread",
                "Choose smaller blocks, 8,192 elements or fewer, with a larger grid, or read parts in a loop.",
            )

    # Numbers ------------------------------------------------------------------------------------------------

    def plus(self, x: ir.Value, n: int) -> ir.Value:
        """A 32-bit integer plus a known one."""
        return x if n == 0 else arith.addi(x, self.int32(n))

    def times(self, x: ir.Value, n: int) -> ir.Value:
        """A 32-bit integer times a known one."""
        return x if n == 1 else arith.muli(x, self.int32(n))

    def wide(self, x: ir.Value) -> ir.Value:
        """A 32-bit integer in 64 bits."""
        return arith.extsi(ir.IntegerType.get_signless(64), x)

    def signed32(self, x: ir.Value) -> ir.Value:
        """An integer scalar with 32 bits."""
        kind = self.element(np.int32)
        if x.type == kind:
            return x
        is_wide = ir.IntegerType(x.type).width > 32
        return arith.trunci(kind, x) if is_wide else arith.extsi(kind, x)

    # Fragments ----------------------------------------------------------------------------------------------

    def parts(self, x: Fragment) -> list[ir.Value]:
        """The elements that a thread holds, one for each register."""
        if type(x.layout) is Splat:
            return [x.value]
        return [
            vector.extract(x.value, dynamic_position=[], static_position=[i])
            for i in range(x.layout.registers)
        ]

    def joined(self, parts: Sequence[ir.Value], layout: Layout) -> Fragment:
        """The fragment of the elements that a thread holds in its registers."""
        if type(layout) is Splat:
            return Fragment(parts[0], layout)
        kind = VectorType.get([layout.registers], parts[0].type)
        return Fragment(vector.from_elements(kind, list(parts)), layout)

    def zeros_like(self, layout: Layout, dtype: Any) -> Fragment:
        """A block of zeros in a layout."""
        return self.changed(Fragment(super().constant(0, dtype), Splat(layout.shape)), layout)

    def changed(self, x: Fragment, layout: Layout) -> Fragment:
        """A block in another layout: threads exchange elements through shared memory, unless each has those that it needs."""
        if x.layout == layout:
            return x
        if type(x.layout) is Deferred:
            return Fragment(x.layout.compute(layout), layout)
        if type(x.layout) is Splat:
            kind = VectorType.get([layout.registers], x.value.type)
            return Fragment(vector.broadcast(kind, x.value), layout)
        return self.gathered(x, layout, lambda place: place)

    def gathered(
        self, x: Fragment, layout: Layout, source: Callable[[list[ir.Value]], list[ir.Value]]
    ) -> Fragment:
        """The block in `layout` whose element at each place is that of `x` at the place `source` of it, by an exchange through shared memory."""
        read = self.exchanged(x)
        return self.joined(
            [read(source(layout.place(self, r))) for r in range(layout.registers)], layout
        )

    def exchanged(self, x: Fragment) -> Callable[[list[ir.Value]], ir.Value]:
        """A function that reads the element of a block at a place, which all threads have written to shared memory."""
        return self.exchanged_together([x])[0]

    def exchanged_together(
        self, operands: Sequence[Fragment]
    ) -> list[Callable[[list[ir.Value]], ir.Value]]:
        """`exchanged` of several blocks, which stand behind each other in shared memory."""
        kinds = [self._kept_type(self.scalar_type(x)) for x in operands]
        starts, end = [], 0
        for x, kept in strict_zip(operands, kinds):
            starts.append(-(-end // 16) * 16)
            end = starts[-1] + math.prod(x.shape) * bytes_of(kept)
        base = self.exchange_area(end)
        byte = ir.IntegerType.get_signless(8)
        bases = [element_pointer(base, start, byte) if start else base for start in starts]
        self.meet()
        for x, kept, to in strict_zip(operands, kinds, bases):
            strides = strides_of(x.shape)
            for r, value in enumerate(self.parts(x)):
                with self.only_if(x.layout.holds(self, r)):
                    place = self.address(to, x.layout.place(self, r), strides, kept)
                    store(self._kept(value), place, bytes_of(kept))
        self.meet()

        def reader(x: Fragment, kept: ir.Type, base: ir.Value) -> Any:
            strides, element = strides_of(x.shape), self.scalar_type(x)

            def read(place: list[ir.Value]) -> ir.Value:
                found = load(kept, self.address(base, place, strides, kept), bytes_of(kept))
                return found if kept == element else arith.trunci(element, found)

            return read

        return [reader(*each) for each in strict_zip(operands, kinds, bases)]

    def exchanged_by_warp(self, values: Sequence[ir.Value], lanes: int = 1) -> list[list[ir.Value]]:
        """For each value what the four warps have of it; threads of a warp whose numbers are the same modulo `lanes` have the same."""
        kept, element = self._kept_type(values[0].type), values[0].type
        size, warps = bytes_of(kept), THREADS // WARP
        base = self.exchange_area(len(values) * warps * lanes * size)
        warp = arith.divui(self.thread, self.int32(WARP))
        lane = arith.remui(self.thread, self.int32(WARP))
        own = arith.remui(lane, self.int32(lanes))
        strides = [warps * lanes, lanes, 1]
        self.meet()
        with self.only_if(arith.cmpi(arith.CmpIPredicate.slt, lane, self.int32(lanes))):
            for i, x in enumerate(values):
                place = [self.int32(i), warp, own]
                store(self._kept(x), self.address(base, place, strides, kept), size)
        self.meet()
        found = []
        for i in range(len(values)):
            places = [[self.int32(i), self.int32(w), own] for w in range(warps)]
            parts = [load(kept, self.address(base, p, strides, kept), size) for p in places]
            found.append([x if kept == element else arith.trunci(element, x) for x in parts])
        return found

    def _kept_type(self, element: ir.Type) -> ir.Type:
        """The type of an element in shared memory, where masks are bytes."""
        is_mask = element == self.element(np.bool_)
        return self.in_memory(np.bool_) if is_mask else element

    def _kept(self, x: ir.Value) -> ir.Value:
        """A value as memory holds it."""
        kept = self._kept_type(x.type)
        return x if kept == x.type else arith.extui(kept, x)

    def exchange_area(self, size: int) -> ir.Value:
        """A pointer to the part of shared memory that threads exchange `size` bytes in."""
        self.exchanged_bytes = max(self.exchanged_bytes, size)
        start = self.int32(0)
        self.exchange_starts.append(start)
        byte = ir.IntegerType.get_signless(8)
        found = element_pointer(self.shared, start, byte)
        if self.n_warpgroups == 1:
            return found
        stride = self.int32(0)
        self.exchange_sizes.append(stride)
        return element_pointer(found, arith.muli(self.warpgroup, stride), byte)

    def allocated(self, size: int, alignment: int, kind: str, is_of_block: bool = True) -> ir.Value:
        """A pointer to `size` new bytes of shared memory, for what is of that `kind`, which a block has once, or each warpgroup of it."""
        byte, is_single = ir.IntegerType.get_signless(8), is_of_block or self.n_warpgroups == 1
        start = -(-self.shared_bytes // alignment) * alignment
        stride = -(-size // alignment) * alignment
        end = start + (size if is_single else stride * self.n_warpgroups)
        needed = size if is_single else size * self.n_warpgroups
        self.note_memory("shared", kind, end - self.shared_bytes, needed)
        self.shared_bytes = end
        if is_single:
            return element_pointer(self.shared, start, byte)
        offset = self.plus(self.times(self.warpgroup, stride), start)
        return element_pointer(self.shared, offset, byte)

    def note_memory(self, space: str, kind: str, size: int, needed: int) -> None:
        """Take note of what a reference takes of a memory."""
        line = None if self.equation is None else self.equation.source
        self.memory.append(BlockMemory(space, kind, size, needed, line))

    def address(
        self, base: ir.Value, place: Sequence[ir.Value], strides: Sequence[int], element: ir.Type
    ) -> ir.Value:
        """A pointer to the element at a place."""
        total: ir.Value | None = None
        for x, stride in strict_zip(place, strides):
            x = self.times(x, stride)
            total = x if total is None else arith.addi(total, x)
        return base if total is None else element_pointer(base, total, element)

    def meet(self) -> None:
        """Let all threads of a warpgroup wait for each other; what one has written before, others read behind."""
        if self.n_warpgroups == 1:
            gpu.barrier()
            return
        # Barrier 0 is that of the block.
        number = self.plus(self.warpgroup, 1)
        nvvm.barrier(barrier_id=number, number_of_threads=self.int32(THREADS))

    def meet_all(self) -> None:
        """Let all threads of a block wait for each other."""
        gpu.barrier()

    def meet_once(self) -> None:
        """`meet`, unless threads have just met, and none has read or written memory since."""
        block = ir.InsertionPoint.current.block
        for operation in reversed([*block.operations]):
            if operation.operation.name in ("gpu.barrier", "nvvm.barrier"):
                return
            if not _touches_nothing(operation):
                break
        self.meet()

    def fence(self) -> None:
        """Let copies and matrix products see what this thread has written to shared memory, once threads have met."""
        kind, space = "#nvvm.proxy_kind<async.shared>", "#nvvm.shared_space<cta>"
        nvvm.fence_proxy(ir.Attribute.parse(kind), space=ir.Attribute.parse(space))

    def is_first_thread(self) -> ir.Value:
        """Whether this is the thread that acts for its warpgroup."""
        return arith.cmpi(arith.CmpIPredicate.eq, self.thread, self.int32(0))

    def is_first_thread_of_block(self) -> ir.Value:
        """Whether this is the thread that acts for its block."""
        first = self.is_first_thread()
        if self.n_warpgroups == 1:
            return first
        of_first = arith.cmpi(arith.CmpIPredicate.eq, self.warpgroup, self.int32(0))
        return arith.andi(first, of_first)

    def own(self, kind: ir.Type) -> ir.Value:
        """A pointer to a new value of a thread's own, which the compiler keeps in registers."""
        with ir.InsertionPoint.at_block_begin(self.entry):
            pointer = ir.Type.parse("!llvm.ptr")
            return llvm.alloca(pointer, self.int32(1), kind)

    @contextlib.contextmanager
    def only_if(self, condition: ir.Value | None) -> Iterator[None]:
        """Put operations where only threads for which `condition` holds run them; None where all do."""
        if condition is None:
            yield
            return
        operation: Any = scf.IfOp(condition)
        with self.inside(operation.then_block):
            yield
            scf.yield_([])

    # Programs -----------------------------------------------------------------------------------------------

    def held_type(self, aval: Any, layout: Layout | None) -> ir.Type:
        """The type of what a thread holds of a block in a layout, or of a scalar, whose layout is None."""
        element = self.element(aval.dtype)
        if layout is None or type(layout) is Splat:
            return element
        return VectorType.get([layout.registers], element)

    @contextlib.contextmanager
    def on_trial(self) -> Iterator[None]:
        """Drop the operations that are made meanwhile, and the memory that they would need."""
        before = self.shared_bytes, self.exchanged_bytes, len(self.exchange_starts)
        n_sizes, n_parts = len(self.exchange_sizes), len(self.memory)
        operation: Any = scf.IfOp(self.constant(0, np.bool_))
        try:
            with self.inside(operation.then_block):
                yield
        finally:
            self.shared_bytes, self.exchanged_bytes, count = before
            del self.exchange_starts[count:]
            del self.exchange_sizes[n_sizes:]
            del self.memory[n_parts:]
            operation.operation.erase()

    def _results(self, equation: Equation, inputs: list[Any]) -> list[Any]:
        shared = ON_ELEMENTS.get(equation.primitive)
        if shared is None and equation.primitive not in RULES:
            shared = COMMON.get(equation.primitive)
        if shared is None or shared.__module__ not in _OF_ELEMENTS:
            takes_all = equation.primitive in _TAKE_DEFERRED or (
                equation.primitive not in RULES and equation.primitive not in COMMON
            )
            return super()._results(equation, inputs if takes_all else [*map(self.held, inputs)])
        return self.on_elements(shared, equation, inputs)

    def held(self, x: Any) -> Any:
        """A value of which threads hold the elements."""
        is_deferred = type(x) is Fragment and type(x.layout) is Deferred
        return self.changed(x, Strided(x.shape)) if is_deferred else x

    def on_elements(
        self, lower: Callable[..., Any], equation: Equation, inputs: list[Any]
    ) -> list[Any]:
        """The results of an operation on elements, each thread's in one layout."""
        avals: list[Any] = [v.aval for v in equation.results]
        shapes = {tuple(aval.shape) for aval in avals}
        [shape] = shapes
        if not shape:
            return lower(self, equation, inputs)
        self.check_size(shape)
        # Operands are broadcast along axes that they lack or have one element along.
        n = len(shape)
        inputs = [
            repeated(self, x, tuple(range(n - len(x.shape), n)), shape)
            if type(x) is Fragment and x.shape != shape
            else x
            for x in inputs
        ]
        blocks = [x for x in inputs if type(x) is Fragment]
        layout = common([x.layout for x in blocks]) if blocks else Splat(shape)
        if type(layout) is Deferred and len(avals) == 1:
            return [self._deferred(lower, equation, inputs, shape)]
        if type(layout) is Deferred:
            layout = Strided(shape)
        return [Fragment(x, layout) for x in self._in_layout(lower, equation, inputs, layout)]

    def _in_layout(
        self, lower: Callable[..., Any], equation: Equation, inputs: list[Any], layout: Layout
    ) -> list[ir.Value]:
        """What a thread holds of the results of an operation on elements in a layout."""
        values = [self.changed(x, layout).value if type(x) is Fragment else x for x in inputs]
        self._layout = layout
        try:
            return lower(self, equation, values)
        finally:
            self._layout = None

    def _deferred(
        self, lower: Callable[..., Any], equation: Equation, inputs: list[Any], shape: Sequence[int]
    ) -> Fragment:
        """The result of an operation on blocks that follow from places, or are one number everywhere."""

        def compute(layout: Any) -> ir.Value:
            outer, self.equation = self.equation, equation
            try:
                [found] = self._in_layout(lower, equation, inputs, layout)
            finally:
                self.equation = outer
            return found

        def spread(axes: Sequence[int], shape: Any) -> Fragment:
            moved = [repeated(self, x, tuple(axes), shape) if type(x) is Fragment else x for x in inputs]  # fmt: skip
            return self._deferred(lower, equation, moved, shape)

        return Fragment(None, Deferred(tuple(shape), compute, spread))


_OF_ELEMENTS = {elements.__name__}
_TAKE_DEFERRED: set[Primitive] = set()


def take_deferred(*primitives: Primitive) -> None:
    """Let the rules of primitives see blocks that no thread holds yet."""
    _TAKE_DEFERRED.update(primitives)


def of_elements(module: str) -> None:
    """Let rules of a module be ones of operations on elements."""
    _OF_ELEMENTS.add(module)


def _touches_nothing(operation: Any) -> bool:
    """Whether an operation computes, asks for copies, or waits for them, but neither reads nor writes memory itself."""
    name = operation.operation.name
    if name == "scf.if":
        blocks = [block for region in operation.regions for block in region.blocks]
        return all(_touches_nothing(o) for block in blocks for o in block.operations)
    return name.startswith(("arith.", "nvvm.mbarrier", "nvvm.cp.async", "scf.yield")) or name in (
        "llvm.getelementptr",
        "llvm.ptrtoint",
    )


# Memory -------------------------------------------------------------------------------------------------------


def bytes_of(element: ir.Type) -> int:
    """Bytes of an element in memory."""
    if isinstance(element, ir.IntegerType):
        return max(ir.IntegerType(element).width // 8, 1)
    return FloatType(element).width // 8


def strides_of(shape: Sequence[int]) -> list[int]:
    """For each dimension of an array in row-major order the number of elements from one position to the next."""
    strides = [1] * len(shape)
    for i in reversed(range(len(shape) - 1)):
        strides[i] = strides[i + 1] * shape[i + 1]
    return strides


def int64(n: int) -> ir.Value:
    """A known number in 64 bits, signed or not."""
    kind = ir.IntegerType.get_signless(64)
    signed = n - (1 << 64) if n >= 1 << 63 else n  # attributes have signs
    return arith.ConstantOp(kind, ir.IntegerAttr.get(kind, signed)).result


_DYNAMIC = -(1 << 31)
"""The mark of an index that is an operand."""


def element_pointer(base: ir.Value, index: ir.Value | int, element: ir.Type) -> ir.Value:
    """A pointer to the element with a number, counted from the one that `base` points to."""
    is_known = isinstance(index, int)
    operands, marks = ([], [index]) if is_known else ([index], [_DYNAMIC])
    return llvm.GEPOp(base.type, base, operands, marks, element, 0).result


def load(element: ir.Type, pointer: ir.Value, alignment: int) -> ir.Value:
    """What memory holds."""
    return llvm.load(element, pointer, alignment=alignment)


def store(value: ir.Value, pointer: ir.Value, alignment: int) -> None:
    """Let memory hold a value."""
    llvm.store(value, pointer, alignment=alignment)
