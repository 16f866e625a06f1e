"""An interpreter of the modules of kernels for Hopper GPUs on NumPy, as slow as it is plain: what blocks of 128 threads compute, without a GPU.

A value is an array with the threads along its first axis. All threads take each operation together, so what they owe each other is checked instead: a
byte of memory that one thread writes and another one reads or writes without a barrier between is an error, and so are reads of what nobody has written,
and what a copy or a matrix product still uses. Copies are made as late as possible, when somebody waits for them.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
from scipy import special

from pellucid._machine.xla.mosaic_gpu import ir
from tests.core.kernels import mlir_interpreter
from tests.core.kernels.mlir_interpreter import DTYPES, number

THREADS = 128
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


class Bytes:
    """A memory: its bytes, and of each who wrote and read it last, and when: the number of barriers before."""

    def __init__(self, data: np.ndarray, is_written: bool) -> None:
        self.data = data
        n = len(data)
        self.is_written = np.full(n, is_written)
        self.writer, self.written = np.full(n, -1), np.full(n, -1)
        self.reader, self.read_at = np.full(n, -1), np.full(n, -1)
        self.is_unfenced = np.zeros(n, bool)
        """Written by a thread, not yet seen by copies and matrix products."""
        self.in_flight = np.zeros(n, bool)
        """Written by a copy that nobody has waited for."""
        self.uses = np.zeros(n, int)
        """Numbers of copies and products that still read it."""

    def read(self, offsets: np.ndarray, threads: np.ndarray, size: int, epoch: int) -> np.ndarray:
        """What `threads` read at `offsets`, `size` bytes each: an array of a row of bytes for each."""
        places = self._places(offsets, size)
        assert self.is_written[places].all(), "a read of what nobody has written"
        assert not self.in_flight[places].any(), "a read of what a copy may still write"
        other = (self.writer[places] != threads[:, None]) & (self.written[places] == epoch)
        assert not other.any(), "a read of what another thread has written since the last barrier"
        # Of several readers -2 is noted.
        again = (self.read_at[places] == epoch) & (self.reader[places] != threads[:, None])
        counts = np.bincount(places.ravel(), minlength=1)
        several = again | (counts[places] > 1)
        self.reader[places] = np.where(several, -2, threads[:, None])
        self.read_at[places] = epoch
        return self.data[places]

    def write(self, offsets: np.ndarray, threads: np.ndarray, rows: np.ndarray, epoch: int) -> None:
        """Write rows of bytes at `offsets`."""
        places = self._places(offsets, rows.shape[1])
        assert len(np.unique(places)) == places.size, "threads write to one place"
        assert not self.in_flight[places].any(), "a write of what a copy may still write"
        assert not self.uses[places].any(), "a write of what a copy or product still reads"
        mine = threads[:, None]
        other = (self.writer[places] != mine) & (self.written[places] == epoch)
        assert not other.any(), "a write of what another thread has written since the last barrier"
        other = (self.reader[places] != mine) & (self.read_at[places] == epoch)
        assert not other.any(), "a write of what another thread has read since the last barrier"
        self.data[places] = rows
        self.is_written[places] = self.is_unfenced[places] = True
        self.writer[places], self.written[places] = mine, epoch

    def _places(self, offsets: np.ndarray, size: int) -> np.ndarray:
        assert (offsets % min(size, 16) == 0).all(), "an address that isn't aligned"
        places = offsets[:, None] + np.arange(size)
        assert ((places >= 0) & (places < len(self.data))).all(), "outside of the memory"
        return places


class Block(mlir_interpreter.Interpreter):
    """One block of threads."""

    ends = (*mlir_interpreter.Interpreter.ends, "gpu.terminator")

    def __init__(self, host: Host, position: tuple[int, int, int], shared_bytes: int) -> None:
        super().__init__()
        self.values.update(host.values)
        self.position = position
        self.memories = dict(host.memories)
        self.memories[_SHARED] = Bytes(np.full(shared_bytes, 0xFF, np.uint8), False)
        self.local = np.zeros((THREADS, 0), np.uint8)
        self.active = np.ones(THREADS, bool)
        self.epoch = host.next_epoch()
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
        return [np.arange(THREADS)]

    def gpu_block_id(self, operation):
        axis = "xyz".index(str(operation.attributes["dimension"]).split()[-1].rstrip(">"))
        return [self.all(self.position[axis])]

    def gpu_barrier(self, operation):
        assert self.active.all(), "a barrier that only some threads reach"
        self.epoch = self.host.next_epoch()
        return []

    def nvvm_shfl_sync(self, operation, members, x, offset, clamp):
        assert self.active.all()
        assert "bfly" in str(operation.attributes["kind"])
        return [x[np.arange(THREADS) ^ self.uniform(offset)]]

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
            rows[threads] = memory.read(offsets, threads, size, self.epoch)
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
            memory.write(offsets, threads, rows[threads], self.epoch)
        return []

    def _own(self, threads, offsets, size):
        return self.local[threads[:, None], offsets[:, None] + np.arange(size)]

    def _memory(self, pointers):
        """(the memory that active threads point to, None for their own; offsets there)."""
        found = pointers[self.active]
        place = self.uniform(pointers >> _SHIFT)
        return self.memories.get(int(place)), found & ((1 << _SHIFT) - 1)


class Host(mlir_interpreter.Interpreter):
    """The function of the host, which launches the blocks: one after another, the last one first."""

    ends = ("func.return",)

    def __init__(self, arrays: list[np.ndarray]) -> None:
        super().__init__()
        self.memories = {i + 1: Bytes(x, True) for i, x in enumerate(arrays)}
        self.epoch = 0
        self.count = len(arrays)

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
        return [("buffer", mark)]

    def llvm_load(self, operation, pointer):
        i = 0 if pointer is None else pointer[1]
        return [np.full(THREADS, (i + 1) << _SHIFT)]

    def gpu_launch(self, operation, *operands):
        _, *sizes, shared = operands
        assert sizes[3:] == [THREADS, 1, 1]
        block = operation.regions[0].blocks[0]
        # Constants of the host are seen in the launch.
        values = {k: self._seen(v) for k, v in self.values.items()}
        self.values = values
        for z, y, x in itertools.product(*[reversed(range(n)) for n in reversed(sizes[:3])]):
            Block(self, (x, y, z), int(shared)).run(block)
        return [None]

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
