"""An interpreter of Mosaic's modules on NumPy, as slow as it is plain: what kernels compute on TPUs, without one.

Programs run one after another, in the order of the grid. Blocks are moved when their index changes, what they have beyond the edge of
an array is poison, and so are scratch and results before something is written.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import ml_dtypes
import numpy as np

from pellucid._machine.xla.mosaic_tpu import MemRefType, ir
from tests.core.kernels import mlir_interpreter
from tests.core.kernels.mlir_interpreter import DTYPES, number, shaped

REDUCTIONS = {
    "add": np.sum, "maxsi": np.max, "minsi": np.min, "maximumf": np.max, "minimumf": np.min,
}  # fmt: skip
MORE_UNARY = {
    "math.tanh": np.tanh, "math.log1p": np.log1p, "math.tan": np.tan, "math.roundeven": np.rint,
}  # fmt: skip


def integers(operation, name):
    return [int(x) for x in operation.attributes[name]]


class Interpreter(mlir_interpreter.Interpreter):
    """One program of a kernel, or an index map."""

    ends = (*mlir_interpreter.Interpreter.ends, "func.return")

    def __init__(self, sizes: list[int]) -> None:
        super().__init__()
        self.sizes = sizes

    def results(self, name: str, operation: Any, operands: list[Any]) -> list[Any]:
        if name in MORE_UNARY:
            return [MORE_UNARY[name](*operands)]
        return super().results(name, operation, operands)

    def arith_constant(self, operation):
        kind = operation.results[0].type
        if isinstance(kind, ir.IndexType):
            return [number(operation, "value")]
        return super().arith_constant(operation)

    def arith_index_cast(self, operation, x):
        return [int(x)]

    def math_powf(self, operation, x, y):
        return [np.power(x, y)]

    def tpu_iteration_bound(self, operation):
        return [np.int32(self.sizes[number(operation, "dim")])]

    def tpu_assume_multiple(self, operation, x):
        assert x % number(operation, "multiple") == 0, "no multiple"
        return [x]

    # Memory ---------------------------------------------------------------------------------------------

    def part(self, ref, starts, sizes, strides):
        slices = []
        for start, size, stride, n in zip(starts, sizes, strides, ref.shape, strict=True):
            end = start + (size - 1) * stride + 1
            assert min(start, n - end) >= 0, ("outside of the memory", starts, sizes, ref.shape)
            slices.append(slice(start, end, stride))
        return ref[tuple(slices)]

    def vector_load(self, operation, ref, *starts):
        sizes, _ = shaped(operation.results[0].type)
        return [self.part(ref, starts, sizes, [1] * len(sizes)).copy()]

    def tpu_strided_load(self, operation, ref, *starts):
        sizes, _ = shaped(operation.results[0].type)
        return [self.part(ref, starts, sizes, integers(operation, "strides")).copy()]

    def tpu_vector_store(self, operation, value, ref, *starts):
        self.part(ref, starts, value.shape, [1] * value.ndim)[...] = value
        return []

    def tpu_strided_store(self, operation, value, ref, *starts):
        self.part(ref, starts, value.shape, integers(operation, "strides"))[...] = value
        return []

    def memref_load(self, operation, ref, *place):
        return [ref[place]]

    def memref_store(self, operation, value, ref, *place):
        ref[place] = value
        return []

    def tpu_memref_slice(self, operation, ref, *starts):
        shape = MemRefType(operation.results[0].type).shape
        return [self.part(ref, starts, shape, [1] * len(shape))]

    def tpu_memref_squeeze(self, operation, ref):
        return [ref.reshape(tuple(MemRefType(operation.results[0].type).shape))]

    # Copies are made when they start, and semaphores count them; those of other devices are those of this one.

    def tpu_enqueue_dma(self, operation, source, target, *semaphores):
        assert source.shape == target.shape
        target[...] = source
        for semaphore in semaphores:
            semaphore += source.size
        return []

    def tpu_wait_dma2(self, operation, semaphore, source, target):
        assert semaphore >= target.size, "a wait without end"
        semaphore -= target.size
        return []

    def tpu_sem_signal(self, operation, semaphore, amount):
        semaphore += amount
        return []

    def tpu_sem_wait(self, operation, semaphore, amount):
        assert semaphore >= amount, "a wait without end"
        semaphore -= amount
        return []

    def tpu_sem_read(self, operation, semaphore):
        return [semaphore]

    # Vectors --------------------------------------------------------------------------------------------

    def _shape(self, operation):
        return shaped(operation.results[0].type)[0]

    def vector_broadcast(self, operation, x):
        return [np.broadcast_to(x, self._shape(operation))]

    def vector_shape_cast(self, operation, x):
        return [np.reshape(x, self._shape(operation))]

    def vector_extract(self, operation, x):
        return [x[tuple(integers(operation, "static_position"))]]

    def vector_extract_strided_slice(self, operation, x):
        rows = [[number_of(x) for x in operation.attributes[name]] for name in ("offsets", "sizes")]
        return [x[tuple(slice(a, a + n) for a, n in zip(*rows, strict=True))]]

    def vector_multi_reduction(self, operation, x, start):
        kind = str(operation.attributes["kind"]).split("<")[1].rstrip(">")
        axes = tuple(integers(operation, "reduction_dims"))
        found = REDUCTIONS[kind](x, axis=axes)
        neutral = {
            "add": 0, "maxsi": np.iinfo(np.int32).min, "minsi": np.iinfo(np.int32).max,
            "maximumf": -np.inf, "minimumf": np.inf,
        }  # fmt: skip
        assert (start == neutral[kind]).all()
        return [found]

    def tpu_iota(self, operation):
        [axis] = integers(operation, "dimensions")
        shape = self._shape(operation)
        along = np.arange(shape[axis], dtype=np.int32)
        return [np.broadcast_to(along.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape)]  # fmt: skip

    def tpu_transpose(self, operation, x):
        return [np.transpose(x, integers(operation, "permutation"))]

    def tpu_concatenate(self, operation, *parts):
        return [np.concatenate(parts, number(operation, "dimension"))]

    def tpu_bitcast(self, operation, x):
        shape, element = shaped(operation.results[0].type)
        dtype = np.dtype(DTYPES[element])
        if x.dtype.itemsize >= dtype.itemsize:
            n = x.dtype.itemsize // dtype.itemsize
            parts = np.ascontiguousarray(x)[..., None].view(dtype).reshape(*x.shape, n)
            return [np.moveaxis(parts, -1, -2).reshape(shape)]
        n = dtype.itemsize // x.dtype.itemsize
        parts = np.moveaxis(x.reshape(*shape[:-1], n, shape[-1]), -2, -1)
        return [np.ascontiguousarray(parts).view(dtype).reshape(shape)]

    def tpu_log(self, operation, *numbers):
        tag = ir.StringAttr(operation.attributes["tag"]).value
        is_formatted = ir.BoolAttr(operation.attributes["formatted"]).value
        if is_formatted:
            assert all(np.asarray(n).dtype == np.int32 for n in numbers), (
                "the compiler ends the process"
            )
        print(tag.format(*numbers) if is_formatted else tag + "".join(map(str, numbers)))
        return []

    def tpu_dynamic_gather(self, operation, x, at):
        [axis] = integers(operation, "dimensions")
        assert x.shape == at.shape
        assert x.shape[axis] == (128 if axis == x.ndim - 1 else 8), "more than a tile"
        return [np.take_along_axis(x, at, axis)]

    def tpu_pack_elementwise(self, operation, *parts):
        dtype = np.dtype(DTYPES[str(ir.TypeAttr(operation.attributes["target_type"]).value)])
        narrow = np.stack([part.astype(dtype) for part in parts], -1)
        return [np.ascontiguousarray(narrow).view(np.int32)[..., 0]]

    def tpu_dynamic_rotate(self, operation, x, amount):
        axis = number(operation, "dimension")
        assert amount >= 0
        if "stride" not in operation.attributes:
            return [np.roll(x, amount, axis)]
        along = number(operation, "stride_dimension")
        rows = np.moveaxis(x, along, 0)
        turned = [
            np.roll(row, amount + i * number(operation, "stride"), axis - (axis > along))
            for i, row in enumerate(rows)
        ]
        return [np.moveaxis(np.stack(turned), 0, along)]

    def tpu_matmul(self, operation, a, b, c):
        text = str(operation.attributes["dimension_numbers"]).split("<", 1)[1].rstrip(">")
        left, right, _, _, _, left_batch, right_batch = eval(f"[{text}]")
        letters = [[*"abcdef"[: a.ndim]], [*"ghijkl"[: b.ndim]]]
        for i, j in zip([*left, *left_batch], [*right, *right_batch], strict=True):
            letters[1][j] = letters[0][i]
        batch = [letters[0][i] for i in left_batch]
        free = [x for x in letters[0] + letters[1] if x not in batch and (letters[0] + letters[1]).count(x) == 1]  # fmt: skip
        spec = f"{''.join(letters[0])},{''.join(letters[1])}->{''.join(batch + free)}"
        return [c + np.einsum(spec, a.astype(c.dtype), b.astype(c.dtype))]


def number_of(attribute):
    return ir.IntegerAttr(attribute).value


# Windows ------------------------------------------------------------------------------------------------------


def poison(shape, dtype):
    """An array without a value."""
    dtype = np.dtype(dtype)
    if dtype == ml_dtypes.int4:
        return np.full(shape, -8, dtype)
    return np.full(shape, np.iinfo(dtype).min if dtype.kind == "i" else np.nan, dtype)


def in_memory(x: np.ndarray) -> np.ndarray:
    """An array as a kernel finds it: unsigned integers without their sign, booleans as int32, numbers as arrays of one."""
    x = np.array(x).reshape(np.shape(x) or (1,))
    if x.dtype == np.bool_:
        return x.astype(np.int32)
    if x.dtype == ml_dtypes.uint4:
        return x.view(ml_dtypes.int4)
    return x.view(f"i{x.dtype.itemsize}") if x.dtype.kind == "u" else x


class Window:
    """How blocks of one array are moved."""

    def __init__(self, attribute: Any, functions: dict[str, Any], array: np.ndarray) -> None:
        self.array, self.index, self.block = array, None, array
        self.is_moved = "window_bounds" in attribute
        if self.is_moved:
            self.sizes = [int(x) for x in attribute["window_bounds"]]
            self.function = functions[ir.FlatSymbolRefAttr(attribute["transform_indices"]).value]
            self.are_elements = "window_kind" in attribute
            self.block = poison(self.sizes, array.dtype)

    def _places(self):
        """(slices of the block, of the array) that lie in both."""
        steps = [1] * len(self.sizes) if self.are_elements else self.sizes
        starts = [i * step for i, step in zip(self.index, steps, strict=True)]
        ends = [min(a + n, m) for a, n, m in zip(starts, self.sizes, self.array.shape, strict=True)]
        inside = tuple(slice(a, b) for a, b in zip(starts, ends, strict=True))
        return tuple(slice(0, b - a) for a, b in zip(starts, ends, strict=True)), inside

    def move_in(self, ids: list[Any], scalars: list[Any], sizes: list[int], is_input: bool) -> None:
        """Move to the block of the program at `ids`, if it is another one."""
        if not self.is_moved:
            return
        index = Interpreter(sizes).call(self.function, [*ids, *scalars])
        if index == self.index:
            return
        self.move_out(is_input)
        self.index = index
        self.block[...] = poison(self.sizes, self.array.dtype)
        if is_input:
            own, places = self._places()
            self.block[own] = self.array[places]

    def move_out(self, is_input: bool) -> None:
        """Move what a block of a result holds to the array."""
        if self.is_moved and self.index is not None and not is_input:
            own, places = self._places()
            self.array[places] = self.block[own]


def run(
    module: Any, sizes: list[int], scalars: list[Any], inputs: list[Any], results: list[Any]
) -> list[np.ndarray]:
    """What `results` hold in the end, from what they and the inputs hold at first; `sizes` are those of the grid."""
    functions = {
        ir.StringAttr(f.attributes["sym_name"]).value: f.regions[0].blocks[0]
        for f in module.body.operations
    }
    main = module.body.operations[0]
    block = main.regions[0].blocks[0]
    arrays = [*map(in_memory, inputs), *map(in_memory, results)]
    scalars = [*map(in_memory, scalars)]
    windows = [
        Window(ir.DictAttr(a), functions, x)
        for a, x in zip(main.attributes["window_params"], arrays, strict=True)
    ]
    sizes = sizes or [1]
    n_front = len(sizes) + len(scalars) + len(windows)
    scratch, semaphores = [], []
    for argument in [*block.arguments][n_front:]:
        kind = MemRefType(argument.type)
        element = str(kind.element_type)
        is_semaphore = "semaphore" in element
        shape = tuple(kind.shape)
        if is_semaphore:
            scratch.append(np.zeros(shape, np.int32))
            semaphores.append(scratch[-1])
        else:
            scratch.append(poison(shape, DTYPES[element]))
    n_inputs = len(inputs)
    with np.errstate(all="ignore"):
        for ids in itertools.product(*map(range, sizes)):
            position = [np.int32(i) for i in ids]
            for i, window in enumerate(windows):
                window.move_in(position, scalars, sizes, i < n_inputs)
            blocks = [window.block for window in windows]
            Interpreter(sizes).call(block, [*position, *scalars, *blocks, *scratch])
        for i, window in enumerate(windows if math.prod(sizes) else []):
            window.move_out(i < n_inputs)
    assert not any(x.any() for x in semaphores), "semaphores have 0 at the end"
    ends = arrays[n_inputs:]
    return [
        (end != 0 if x.dtype == np.bool_ else end.view(x.dtype)).reshape(x.shape)
        for end, x in zip(ends, results, strict=True)
    ]
