"""An interpreter of the modules of kernels for Hopper GPUs on NumPy, as slow as it is plain: what blocks of 128 threads, or several times as many, compute, without a GPU.

A value is an array with the threads of a warpgroup along its first axis. All of these take each operation together, and warpgroups take turns where they
wait, so what they owe each other is checked instead: a byte of memory that one thread writes and another one reads or writes without a barrier between is
an error, and so are reads of what nobody has written, and what a copy or a matrix product still uses. Copies are made as late as possible, when somebody
waits for them; who hasn't waited for one must not read what it has brought.
"""

from __future__ import annotations

import itertools
import re
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from scipy import special

from pellucid._machine.xla.mosaic_gpu import ir
from tests.core.kernels import mlir_interpreter
from tests.core.kernels.hopper_block import MAX_WARPGROUPS, THREADS, Agent, Barrier, Bytes, Team
from tests.core.kernels.mlir_interpreter import DTYPES, number

_SHIFT = 40
_SHARED, _LOCAL, _HOST = 1000, 1001, 1002
MORE_UNARY = {
    "math.tanh": np.tanh, "math.log1p": np.log1p, "math.expm1": np.expm1, "math.tan": np.tan, "math.roundeven": np.rint,
    "math.erfc": special.erfc, "math.cbrt": np.cbrt, "math.atan": np.arctan, "math.sinh": np.sinh, "math.cosh": np.cosh,
    "math.asin": np.arcsin, "math.acos": np.arccos, "math.asinh": np.arcsinh, "math.acosh": np.arccosh, "math.atanh": np.arctanh,
    "math.round": lambda x: np.trunc(x + np.copysign(0.5, x)),
}  # fmt: skip
MORE_BINARY = {"math.powf": np.power, "math.atan2": np.arctan2}


def size_of(kind: ir.Type) -> int:
    """Bytes of an element."""
    text = str(kind)
    if text.startswith("!llvm.ptr"):
        return 8
    if match := re.fullmatch(r"!llvm.array<(\d+) x i8>", text):
        return int(match[1])
    if isinstance(kind, ir.VectorType):
        return kind.shape[0] * size_of(kind.element_type)
    return np.dtype(DTYPES[text]).itemsize


class Copy(NamedTuple):
    """A copy of a box of an array, and what has to be done when it is made."""

    places: np.ndarray
    """Offsets in shared memory of its bytes."""
    data: np.ndarray


class Description(NamedTuple):
    """What the host tells the copy engine of an array."""

    base: int
    itemsize: int
    sizes: list[int]
    strides: list[int]
    span: int
    box: list[int]
    dtype: Any

    def elements(self, position: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """(offsets in the array of the elements of a box, row by row; which of them are there)."""
        grid = np.indices(self.box).reshape(len(self.box), -1)
        places = grid + np.array(position)[:, None]
        sizes = np.array(self.sizes)[:, None]
        exist = ((places >= 0) & (places < sizes)).all(axis=0)
        offsets = (places * np.array(self.strides)[:, None]).sum(axis=0) * self.itemsize
        return offsets, exist

    def places(self, start: int) -> np.ndarray:
        """Offsets in shared memory of these elements, for a box that begins at `start`."""
        count = int(np.prod(self.box))
        assert start % 128 == 0, "a box that isn't aligned"
        assert max(self.box) <= 256
        width = self.box[-1] * self.itemsize
        assert width % 16 == 0
        assert self.span == 16 or width <= self.span
        assert self.span == 16 or width == self.span, "a row that isn't padded to the swizzle"
        return swizzled(start + np.arange(count) * self.itemsize, self.span)


def swizzled(addresses: np.ndarray, span: int) -> np.ndarray:
    """Addresses in shared memory with three bits (of 64 bytes two, of 32 bytes one) from the seventh on xored to those from the fourth on."""
    bits = {128: 7, 64: 3, 32: 1, 16: 0}[span]
    return addresses ^ ((addresses >> 7 & bits) << 4)


class Block(mlir_interpreter.Interpreter):
    """One warpgroup of a block."""

    ends = (*mlir_interpreter.Interpreter.ends, "gpu.terminator")

    def __init__(
        self, host: Host, position: tuple[int, int, int], shared: Bytes, team: Team, agent: Agent, barriers: dict[int, Barrier]
    ) -> None:  # fmt: skip
        super().__init__()
        self.values.update(host.values)
        self.position = position
        self.memories = {**host.memories, _SHARED: shared}
        self.team, self.agent, self.barriers = team, agent, barriers
        self.local = np.zeros((THREADS, 0), np.uint8)
        self.active = np.ones(THREADS, bool)
        self.stores: list[Any] = []
        self.store_groups: list[list[Any]] = []
        self.products: list[Any] = []
        self.product_groups: list[list[Any]] = []
        self.host = host

    # Running ----------------------------------------------------------------------------------------------

    def run(self, block: Any) -> list[Any]:
        for operation in block.operations:
            operands = [self.values[x] for x in operation.operands]
            name = operation.operation.name
            if name in self.ends:
                return operands
            results = self.results(name, operation.operation, operands)
            for result, value in zip(operation.results, results, strict=True):
                kind = result.type
                element = kind.element_type if isinstance(kind, ir.VectorType) else kind
                if str(element) in DTYPES:
                    value = np.asarray(value).astype(DTYPES[str(element)], copy=False)
                    shape = tuple(kind.shape) if isinstance(kind, ir.VectorType) else ()
                    assert value.shape == (THREADS, *shape), (name, value.shape, shape)
                self.values[result] = value
        return []

    def results(self, name: str, operation: Any, operands: list[Any]) -> list[Any]:
        if name in MORE_UNARY:
            return [MORE_UNARY[name](*operands)]
        if name in MORE_BINARY:
            return [MORE_BINARY[name](*operands)]
        return super().results(name, operation, operands)

    def all(self, value: Any) -> np.ndarray:
        """A number that all threads have."""
        return np.full(THREADS, value)

    def uniform(self, x: np.ndarray) -> Any:
        """The one value that all active threads have."""
        found = np.asarray(x)[self.active]
        assert (found == found[0]).all(), "threads go different ways"
        return found[0]

    # arith, vector ----------------------------------------------------------------------------------------

    def arith_constant(self, operation):
        value, kind = operation.attributes["value"], operation.results[0].type
        if isinstance(kind, ir.IndexType):
            return [self.all(number(operation, "value"))]
        if isinstance(value, ir.DenseElementsAttr):
            return [np.full((THREADS, *kind.shape), self.scalar(value.get_splat_value()))]
        return [self.all(self.scalar(value))]

    def arith_index_cast(self, operation, x):
        return [x.astype(np.int64)]

    def arith_select(self, operation, which, x, y):
        # One condition for all elements of a vector.
        return [np.where(which.reshape(which.shape + (1,) * (x.ndim - which.ndim)), x, y)]

    def arith_bitcast(self, operation, x):
        kind = operation.results[0].type
        element = kind.element_type if isinstance(kind, ir.VectorType) else kind
        return [x.view(DTYPES[str(element)])]

    def arith_fptosi(self, operation, x):
        return self.converted(operation, x)

    def vector_broadcast(self, operation, x):
        n = operation.results[0].type.shape[0]
        return [np.repeat(x[:, None], n, axis=1)]

    def vector_from_elements(self, operation, *parts):
        return [np.stack(parts, axis=1)]

    def vector_extract(self, operation, x):
        [i] = [int(i) for i in operation.attributes["static_position"]]
        return [x[:, i]]

    # scf --------------------------------------------------------------------------------------------------

    def scf_if(self, operation, condition):
        found = []
        for region, chosen in zip(operation.regions, (condition, ~condition), strict=True):
            outer, chosen = self.active, self.active & chosen
            if chosen.any() and len(region.blocks):
                self.active = chosen
                found.append((chosen, self.run(region.blocks[0])))
            self.active = outer
        if not found or not len(operation.results):
            return []
        values = [np.array(x) for x in found[0][1]]
        for chosen, others in found[1:]:
            for x, y in zip(values, others, strict=True):
                x[chosen] = y[chosen]
        return values

    def scf_for(self, operation, lower, upper, step, *carry):
        for i in range(*[int(self.uniform(x)) for x in (lower, upper, step)]):
            carry = self.call(operation.regions[0].blocks[0], [self.all(np.int32(i)), *carry])
        return list(carry)

    def scf_while(self, operation, *carry):
        before, after = [region.blocks[0] for region in operation.regions]
        while True:
            goes_on, *carry = self.call(before, list(carry))
            if not self.uniform(goes_on):
                return carry
            carry = self.call(after, carry)

    # Threads ----------------------------------------------------------------------------------------------

    def gpu_thread_id(self, operation):
        return [np.arange(THREADS) + THREADS * self.agent.number]

    def gpu_block_id(self, operation):
        axis = "xyz".index(str(operation.attributes["dimension"]).split()[-1].rstrip(">"))
        return [self.all(self.position[axis])]

    def gpu_barrier(self, operation):
        assert self.active.all(), "a barrier that only some threads reach"
        self.tick()
        team = self.team
        team.meeting.append(self.agent)
        if len(team.meeting) < team.count:
            number = team.meetings
            team.wait_until(self.agent.number, lambda: team.meetings > number)
        else:
            team.agreed, team.meeting = [Agent(a.number, a.clock.copy(), {*a.copies}) for a in team.meeting], []  # fmt: skip
            team.meetings += 1
        self.learn(team.agreed)
        return []

    def nvvm_barrier(self, operation, number, count):
        assert self.active.all(), "a barrier that only some threads reach"
        assert self.uniform(number) == self.agent.number + 1
        assert self.uniform(count) == THREADS
        self.tick()
        return []

    def nvvm_setmaxregister(self, operation):
        assert self.active.all()
        team, own = self.team, self.agent.number
        count, is_more = number(operation, "regCount"), "increase" in str(operation.attributes["action"])  # fmt: skip
        assert (count >= team.registers[own]) == is_more or count == team.registers[own]
        total = team.count * (65536 // (THREADS * team.count) // 8 * 8)
        fits = lambda: sum(team.registers) - team.registers[own] + count <= total
        team.wait_until(own, fits)
        team.registers[own] = count
        return []

    def tick(self) -> None:
        """Begin a new time, at which this warpgroup's threads know what they did before."""
        self.agent.clock[self.agent.number] = self.host.next_epoch()

    def learn(self, others: list[Agent]) -> None:
        """Know what others knew."""
        for other in others:
            np.maximum(self.agent.clock, other.clock, out=self.agent.clock)
            self.agent.copies.update(other.copies)

    def nvvm_shfl_sync(self, operation, members, x, offset, clamp):
        assert self.active.all()
        lanes = np.arange(THREADS)
        if "idx" in str(operation.attributes["kind"]):
            return [x[lanes // 32 * 32 + self.uniform(offset)]]
        assert "bfly" in str(operation.attributes["kind"])
        return [x[lanes ^ self.uniform(offset)]]

    # Memory -----------------------------------------------------------------------------------------------

    def builtin_unrealized_conversion_cast(self, operation, x):
        return [x]

    def gpu_dynamic_shared_memory(self, operation):
        return [None]

    def memref_extract_aligned_pointer_as_index(self, operation, x):
        return [self.all(_SHARED << _SHIFT)]

    def llvm_inttoptr(self, operation, x):
        return [x]

    llvm_ptrtoint = llvm_inttoptr

    def llvm_alloca(self, operation, count):
        start = self.local.shape[1]
        size = size_of(ir.TypeAttr(operation.attributes["elem_type"]).value)
        self.local = np.pad(self.local, ((0, 0), (0, size)))
        return [self.all((_LOCAL << _SHIFT) + start)]

    def llvm_getelementptr(self, operation, base, *indices):
        [mark] = [int(i) for i in operation.attributes["rawConstantIndices"]]
        index = indices[0].astype(np.int64) if mark == -(1 << 31) else mark
        return [base + index * size_of(ir.TypeAttr(operation.attributes["elem_type"]).value)]

    def end(self) -> None:
        """Check that nothing is in flight."""
        assert not self.stores
        assert not self.store_groups, "a copy from shared memory that nobody waited for"
        assert not self.products
        assert not self.product_groups, "a product that nobody waited for"

    # Barriers and copies ----------------------------------------------------------------------------------

    def llvm_mlir_undef(self, operation):
        return [None]

    def nvvm_fence_mbarrier_init(self, operation):
        return []

    def nvvm_fence_proxy(self, operation):
        memory = self.memories[_SHARED]
        memory.is_unfenced &= ~np.isin(memory.writer, self.agent.threads(self.active))
        return []

    def one(self, x: np.ndarray) -> int:
        """The value of the one active thread."""
        assert self.active.sum() == 1, "an operation of one thread"
        return int(x[self.active][0])

    def nvvm_mbarrier_init(self, operation, pointer, count):
        self.barriers[self.one(pointer)] = Barrier(self.one(count))
        return []

    def nvvm_mbarrier_arrive(self, operation, pointer):
        self.barriers[self.one(pointer)].arrive(self.agent)
        return [self.all(0)]

    def nvvm_mbarrier_arrive_expect_tx(self, operation, pointer, count):
        self.barriers[self.one(pointer)].arrive(self.agent, self.one(count))
        return [self.all(0)]

    def nvvm_mbarrier_try_wait_parity(self, operation, pointer, parity, ticks):
        barrier, parity = self.barriers[int(self.uniform(pointer))], int(self.uniform(parity))

        def is_over() -> bool:
            # The phase of this parity is over when the one at hand has another.
            while barrier.phase % 2 == parity:
                if not barrier.copies:
                    return False
                self.make_copy(barrier)
            return True

        self.team.wait_until(self.agent.number, is_over)
        self.learn(barrier.of_phases)
        self.agent.copies.update(barrier.brought)
        return []

    def nvvm_mbarrier_test_wait(self, operation, pointer, parity):
        barrier, parity = self.barriers[int(self.uniform(pointer))], int(self.uniform(parity))
        if barrier.copies:
            self.make_copy(barrier)  # one for each test
        is_over = barrier.phase % 2 != parity
        if is_over:
            self.learn(barrier.of_phases)
            self.agent.copies.update(barrier.brought)
        return [self.all(is_over)]

    def make_copy(self, barrier: Barrier) -> None:
        """Make one of the copies that a barrier waits for, the last one first."""
        copy, memory = barrier.copies.pop(), self.memories[_SHARED]
        memory.data[copy.places] = copy.data
        memory.in_flight[copy.places] = False
        memory.is_written[copy.places] = True
        memory.is_unfenced[copy.places] = False
        memory.written[copy.places] = -1
        memory.copy[copy.places] = self.host.next_epoch()
        barrier.brought.add(int(memory.copy[copy.places[0]]))
        barrier.bytes -= copy.data.size
        barrier.settle()

    def nvvm_cp_async_bulk_tensor_shared_cluster_global(self, operation, to, table, *rest):
        *position, pointer, predicate = rest
        assert predicate[self.active].all()
        made = self.description(table)
        memory, array = self.memories[_SHARED], self.memories[made.base]
        offsets, exist = made.elements([self.one(x) for x in reversed(position)])
        places = made.places(self.one(to) - (_SHARED << _SHIFT))[:, None] + np.arange(made.itemsize)
        sources = np.where(exist, offsets, 0)[:, None] + np.arange(made.itemsize)
        data = np.where(exist[:, None], array.data[sources], 0)
        assert not memory.in_flight[places].any(), "two copies to one place"
        assert not memory.uses[places].any(), "a copy to what is still read"
        recent = memory.is_unknown(places, self.agent).any() or memory.is_read(places, self.agent)
        assert not recent, "a copy to what threads have used since the last barrier"
        memory.check_copies(places, self.agent, "a copy to the place")
        assert not memory.is_unfenced[places].any(), (
            "a copy to what threads have written, without a fence"
        )
        memory.in_flight[places] = True
        self.barriers[self.one(pointer)].copies.append(Copy(places.ravel(), data.ravel()))
        return []

    def description(self, table):
        return self.host.descriptions[(self.one(table) & ((1 << _SHIFT) - 1)) // 128]

    def seen_by_engines(self, places: np.ndarray) -> np.ndarray:
        """What copies and products read at places of shared memory."""
        memory = self.memories[_SHARED]
        assert memory.is_written[places].all(), "a read of what nobody has written"
        memory.check_copies(places, self.agent, "a read")
        assert not memory.is_unfenced[places].any(), (
            "a read of what threads have written, without a fence"
        )
        assert not memory.is_unknown(places, self.agent).any(), "threads haven't met since they wrote"  # fmt: skip
        return memory.data[places]

    def release(self, places: np.ndarray) -> None:
        """Note that a copy or product has read places of shared memory."""
        memory, own = self.memories[_SHARED], self.agent
        memory.uses[places] -= 1
        memory.readers[own.number][places], memory.read_at[own.number][places] = -2, own.now

    def nvvm_cp_async_bulk_tensor_reduce(self, operation, table, source, *position):
        return self.store_box(
            table, source, position, str(operation.attributes["redKind"]).split("<")[-1].rstrip(">")
        )

    def nvvm_cp_async_bulk_tensor_global_shared_cta(self, operation, table, source, *position):
        return self.store_box(table, source, position)

    def store_box(self, table, source, position, kind=None):
        """Start a copy of a box from shared memory, which replaces what is there, or combines it by the operation `kind`."""
        made = self.description(table)
        places = made.places(self.one(source) - (_SHARED << _SHIFT))[:, None] + np.arange(
            made.itemsize
        )
        data = self.seen_by_engines(places)
        offsets, exist = made.elements([self.one(x) for x in reversed(position)])
        targets = offsets[exist][:, None] + np.arange(made.itemsize)
        self.memories[_SHARED].uses[places] += 1
        combine = None if kind is None else REDUCTIONS[kind]
        self.stores.append((places, made.base, targets, data[exist], combine, made.dtype))
        return []

    def nvvm_cp_async_bulk_commit_group(self, operation):
        self.store_groups.append(self.stores)
        self.stores = []
        return []

    def nvvm_cp_async_bulk_wait_group(self, operation):
        count = number(operation, "group")
        while len(self.store_groups) > count:
            for places, base, targets, data, combine, dtype in self.store_groups.pop(0):
                self.release(places)
                if combine is not None:
                    old = np.ascontiguousarray(self.memories[base].data[targets]).view(dtype)
                    data = combine(old, np.ascontiguousarray(data).view(dtype)).view(np.uint8)
                self.memories[base].data[targets] = data
        return []

    # Products ---------------------------------------------------------------------------------------------

    def nvvm_wgmma_fence_aligned(self, operation):
        assert self.active.all()
        return []

    def nvvm_wgmma_commit_group_sync_aligned(self, operation):
        self.product_groups.append(self.products)
        self.products = []
        return []

    def nvvm_wgmma_wait_group_sync_aligned(self, operation):
        while len(self.product_groups) > number(operation, "group"):
            for places in self.product_groups.pop(0):
                self.release(places)
        return []

    def llvm_inline_asm(self, operation, *operands):
        text = ir.StringAttr(operation.attributes["asm_string"]).value
        kind = operation.results[0].type
        count = str(kind).count(",") + 1
        if not text:
            return [list(operands)]
        if text.startswith("cvt.rna.tf32"):
            [x] = operands
            bits = (x.view(np.uint32).astype(np.uint64) + 0x1000) & 0xFFFFE000
            return [np.where(np.isfinite(x), bits.astype(np.uint32).view(np.float32), x)]
        found = re.search(
            r"m64n(\d+)k(\d+)\.(\w+)\.(\w+)\.(\w+) {[^}]*}, (.*), (\$\d+), p(?:, (.*))?; }", text
        )
        n, depth, result, name, other, left, right, flags = found.groups()
        n, depth, flags = (
            int(n),
            int(depth),
            [int(x) for x in (flags or "").split(",") if x.strip()],
        )
        assert name == other
        assert count == n // 2
        if result == "f32":
            assert flags[:2] == [1, 1]
            flags = flags[2:]
        value = lambda text: operands[int(text.strip().lstrip("$")) - count]
        adds = re.search(r"setp.ne.b32 p, (\$\d+), 0", text)[1]
        assert self.uniform(value(adds)) == 1
        dtype = np.dtype(ASSEMBLY[name])
        transposed = flags or [0] * (2 - left.startswith("{"))
        if left.startswith("{"):
            words = [value(x) for x in left.strip("{}").split(",")]
            a = fragment_rows(np.stack(words, axis=1), dtype)
        else:
            a = self.matrix(self.uniform(value(left)), 64, depth, dtype, transposed[0])
        b = self.matrix(self.uniform(value(right)), n, depth, dtype, transposed[-1])
        product = a.astype(np.float64) @ b.astype(np.float64).T
        rows, columns = accumulator_places(n)
        sums = np.stack(operands[:count], axis=1)
        new = sums + product[rows, columns].astype(sums.dtype)
        return [list(new.T.astype(sums.dtype))]

    def llvm_extractvalue(self, operation, parts):
        [i] = [int(i) for i in operation.attributes["position"]]
        return [parts[i]]

    def matrix(
        self, bits: Any, rows: int, depth: int, dtype: np.dtype, is_transposed: int
    ) -> np.ndarray:
        """A matrix of (rows, products) that a descriptor names, in the layouts of PTX's chapter on matrix descriptors."""
        bits = int(bits) & ((1 << 64) - 1)
        start, leading, stride = [(bits >> i & 0x3FFF) << 4 for i in (0, 16, 32)]
        span = {1: 128, 2: 64, 3: 32}[bits >> 62]
        assert bits >> 49 & 7 == 0
        i, k = np.indices((rows, depth))
        size = dtype.itemsize
        if not is_transposed:
            # Groups of 8 rows lie `stride` apart; products are neighbours, within one span.
            offsets = i // 8 * stride + i % 8 * span + k * size
        else:
            # Rows are neighbours, those of other spans `leading` apart; groups of 8 products lie `stride` apart.
            n = span // size
            offsets = i // n * leading + i % n * size + k // 8 * stride + k % 8 * span
        addresses = swizzled(start + offsets, span)
        places = addresses[..., None] + np.arange(size)
        data = self.seen_by_engines(places)
        self.memories[_SHARED].uses[places] += 1
        self.products.append(places)
        return np.ascontiguousarray(data).view(dtype)[..., 0]

    def llvm_bitcast(self, operation, x):
        dtype = DTYPES[str(operation.results[0].type)]
        return [np.ascontiguousarray(x).view(dtype)[:, 0]]

    def vector_extract_strided_slice(self, operation, x):
        [start], [size] = [[ir.IntegerAttr(a).value for a in operation.attributes[k]] for k in ("offsets", "sizes")]  # fmt: skip
        return [x[:, start : start + size]]

    # Loads and stores -------------------------------------------------------------------------------------

    def llvm_load(self, operation, pointers):
        kind = operation.results[0].type
        size = size_of(kind)
        element = kind.element_type if isinstance(kind, ir.VectorType) else kind
        dtype = np.dtype(DTYPES[str(element)])
        rows = np.zeros((THREADS, size), np.uint8)
        threads = np.flatnonzero(self.active)
        memory, offsets = self._memory(pointers)
        if memory is None:
            rows[threads] = self._own(threads, offsets, size)
        else:
            rows[threads] = memory.read(offsets, self.agent.threads(self.active), size, self.agent)
        found = rows.view(dtype)
        return [found if isinstance(kind, ir.VectorType) else found[:, 0]]

    def llvm_store(self, operation, value, pointers):
        rows = np.ascontiguousarray(value).reshape(THREADS, -1).view(np.uint8)
        threads = np.flatnonzero(self.active)
        memory, offsets = self._memory(pointers)
        if memory is None:
            places = offsets[:, None] + np.arange(rows.shape[1])
            self.local[threads[:, None], places] = rows[threads]
        else:
            memory.write(offsets, self.agent.threads(self.active), rows[threads], self.agent)
        return []

    def llvm_atomicrmw(self, operation, pointers, value):
        combine = ATOMICS[number(operation, "bin_op")]
        memory, offsets = self._memory(pointers)
        size = value.dtype.itemsize
        for offset, x in zip(offsets, value[self.active], strict=True):
            place = slice(int(offset), int(offset) + size)
            assert not memory.in_flight[place].any()
            assert memory.is_written[place].all()
            old = memory.data[place].copy().view(value.dtype)
            memory.data[place] = combine(old, x).astype(value.dtype).view(np.uint8)
        return [value]

    def _own(self, threads, offsets, size):
        return self.local[threads[:, None], offsets[:, None] + np.arange(size)]

    def _memory(self, pointers):
        """(the memory that active threads point to, None for their own; offsets there)."""
        found = pointers[self.active]
        place = self.uniform(pointers >> _SHIFT)
        return self.memories.get(int(place)), found & ((1 << _SHIFT) - 1)


REDUCTIONS = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}  # fmt: skip
ATOMICS = {
    0: lambda old, x: x, 1: np.add, 3: np.bitwise_and, 5: np.bitwise_or, 6: np.bitwise_xor, 7: np.maximum, 8: np.minimum,
    9: lambda old, x: np.maximum(mlir_interpreter.unsigned(old), mlir_interpreter.unsigned(x)).view(old.dtype),
    10: lambda old, x: np.minimum(mlir_interpreter.unsigned(old), mlir_interpreter.unsigned(x)).view(old.dtype),
    11: np.add,
}  # fmt: skip
"""By LLVM's number of an operation what it makes of two elements."""
ASSEMBLY = {
    "tf32": np.float32,
    "bf16": ml_dtypes.bfloat16, "f16": np.float16, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8,
    "u8": np.uint8,
}  # fmt: skip


DESCRIBED = {
    1: np.uint8, 2: np.uint16, 3: np.uint32, 4: np.uint64, 5: np.float16, 6: np.float32, 7: ml_dtypes.bfloat16, 9: np.int32,
    10: np.int64,
}  # fmt: skip
"""By number the dtype of an array that the copy engine knows."""


def accumulator_places(n: int) -> tuple[np.ndarray, np.ndarray]:
    """(row, column) of the element that each register of each thread has, by PTX's figure of the accumulator of m64nN."""
    thread, register = np.indices((THREADS, n // 2))
    lane = thread % 32
    rows = thread // 32 * 16 + lane // 4 + register // 2 % 2 * 8
    return rows, register // 4 * 8 + lane % 4 * 2 + register % 2


def fragment_rows(words: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The left matrix (64, 16) that threads hold in four registers each, by PTX's figure of m64k16."""
    elements = np.ascontiguousarray(words).view(dtype)
    thread, i = np.indices(elements.shape)
    lane = thread % 32
    found = np.zeros((64, 16), dtype)
    rows = thread // 32 * 16 + lane // 4 + (i // 2 % 2) * 8
    found[rows, lane % 4 * 2 + i % 2 + i // 4 * 8] = elements
    return found


class Host(mlir_interpreter.Interpreter):
    """The function of the host, which launches the blocks: one after another, the last one first."""

    ends = ("func.return",)

    def __init__(self, arrays: list[np.ndarray]) -> None:
        super().__init__()
        self.memories = {i + 1: Bytes(x, True, MAX_WARPGROUPS) for i, x in enumerate(arrays)}
        self.epoch = 0
        self.count = len(arrays)
        self.descriptions: list[Description] = []
        self.tables: list[dict[int, Any]] = []

    def next_epoch(self) -> int:
        self.epoch += 1
        return self.epoch

    def run(self, block: Any) -> list[Any]:
        for operation in block.operations:
            name = operation.operation.name
            if name in self.ends:
                break
            operands = [self.values[x] for x in operation.operands]
            results = self.results(name, operation.operation, operands)
            self.values.update(zip(operation.results, results, strict=True))
        return []

    def builtin_unrealized_conversion_cast(self, operation, x):
        return [None]

    def arith_constant(self, operation):
        value, kind = operation.attributes["value"], operation.results[0].type
        if isinstance(kind, ir.IndexType):
            return [np.int64(number(operation, "value"))]
        if isinstance(value, ir.DenseElementsAttr):
            return [np.full((THREADS, *kind.shape), self.scalar(value.get_splat_value()))]
        return [self.scalar(value)]

    def llvm_getelementptr(self, operation, base, *indices):
        [mark] = [int(i) for i in operation.attributes["rawConstantIndices"]]
        return [("buffer", mark) if base is None else (base[0], base[1] + mark)]

    def llvm_alloca(self, operation, count):
        self.tables.append({})
        return [(len(self.tables) - 1, 0)]

    def llvm_store(self, operation, value, pointer):
        self.tables[pointer[0]][pointer[1]] = int(value)
        return []

    def llvm_load(self, operation, pointer):
        if pointer is not None and pointer[0] != "buffer":
            return [np.full(THREADS, _HOST << _SHIFT)]
        i = 0 if pointer is None else pointer[1]
        return [np.full(THREADS, (i + 1) << _SHIFT)]

    def func_call(self, operation, at, base, kind, rank, sizes, strides, span, window):
        rows = [self.tables[table] for table, _ in (sizes, strides, window)]
        rows = [[row[i] for i in range(int(rank))] for row in rows]
        dtype = np.dtype(DESCRIBED[int(kind)])
        itemsize = dtype.itemsize
        assert at[1] == 128 * len(self.descriptions)
        assert rows[1][-1] == 1
        assert all(n * itemsize % 16 == 0 for n in rows[1][:-1]), "strides of 16 bytes"
        number = int(base[0]) >> _SHIFT
        self.descriptions.append(
            Description(number, itemsize, *rows[:2], int(span), rows[2], dtype)
        )
        return []

    def gpu_launch(self, operation, *operands):
        _, *sizes, shared = operands
        count = int(sizes[3]) // THREADS
        assert sizes[3:] == [THREADS * count, 1, 1]
        block = operation.regions[0].blocks[0]
        # Constants of the host are seen in the launch.
        values = {k: self._seen(v) for k, v in self.values.items()}
        self.values = values
        for z, y, x in itertools.product(*[reversed(range(n)) for n in reversed(sizes[:3])]):
            self.run_block((x, y, z), block, int(shared), count)
        return [None]

    def run_block(self, position: Any, block: Any, shared_bytes: int, count: int) -> None:
        """Run the warpgroups of one block."""
        shared = Bytes(np.full(shared_bytes, 0xFF, np.uint8), False, MAX_WARPGROUPS)
        team, barriers, now = Team(count), {}, self.next_epoch()
        agents = [Agent(i, np.full(count, now), set()) for i in range(count)]
        groups = [Block(self, position, shared, team, agent, barriers) for agent in agents]

        def program(group: Block) -> None:
            group.run(block)
            group.end()

        if count == 1:
            program(groups[0])
        else:
            team.run([lambda group=group: program(group) for group in groups])
        assert not any(barrier.copies for barrier in barriers.values()), "a copy that nobody waited for"  # fmt: skip

    def _seen(self, value):
        return np.full(THREADS, value) if np.shape(value) == () and value is not None else value


def in_memory(x: np.ndarray) -> np.ndarray:
    """The bytes of an array."""
    return np.ravel(x).copy().view(np.uint8)


def run(made: Any, inputs: list[np.ndarray], results: list[np.ndarray]) -> list[np.ndarray]:
    """What `results` hold in the end, from what they and `inputs` hold at first."""
    arrays = [*map(in_memory, inputs), *map(in_memory, results)]
    [function] = [
        f
        for f in made.module.body.operations
        if f.operation.name == "func.func" and f.regions[0].blocks
    ]
    host = Host(arrays)
    with np.errstate(all="ignore"):
        host.call(function.regions[0].blocks[0], [None, None])
    ends = arrays[len(inputs) :]
    return [end.view(x.dtype).reshape(x.shape) for end, x in zip(ends, results, strict=True)]
