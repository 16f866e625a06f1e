"""An interpreter of Triton's dialect on NumPy, as slow as it is plain: what kernels compute on GPUs, without one.

Programs run one after another, from the last to the first. Loads and stores outside of an array are errors.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from pellucid._machine.xla.triton import ir
from tests.core.kernels import mlir_interpreter
from tests.core.kernels.mlir_interpreter import number, shaped, unsigned


class Pointers(NamedTuple):
    """Addresses of elements: an array and positions in it."""

    array: np.ndarray
    offsets: Any


def leading_zeros(x, bits):
    return bits - np.vectorize(lambda n: int(n).bit_length(), otypes=[np.int32])(unsigned(x))


ATOMIC = {
    1: np.bitwise_and, 2: np.bitwise_or, 3: np.bitwise_xor, 4: np.add, 5: np.add, 6: np.maximum, 7: np.minimum,
    8: lambda x, y: np.maximum(unsigned(x), unsigned(y)), 9: lambda x, y: np.minimum(unsigned(x), unsigned(y)), 10: lambda x, y: y,
}  # fmt: skip
"""By number of an atomic operation what it makes of an element and a new value."""
EXTERN = {
    "tanh": np.tanh, "log1p": np.log1p, "expm1": np.expm1, "pow": np.power, "tan": np.tan, "rint": np.rint, "cbrt": np.cbrt, "erfc": special.erfc, "erfinv": special.erfinv,
    "atan2": np.arctan2, "round": lambda x: np.trunc(x + np.copysign(0.5, x)),
    "popc": lambda x: np.bitwise_count(unsigned(x)), "popcll": lambda x: np.bitwise_count(unsigned(x)),
    "clz": lambda x: leading_zeros(x, 32), "clzll": lambda x: leading_zeros(x, 64),
}  # fmt: skip


class Interpreter(mlir_interpreter.Interpreter):
    """One program of a kernel."""

    ends = (*mlir_interpreter.Interpreter.ends, "tt.return", "tt.reduce.return", "tt.scan.return")

    def __init__(self, position: tuple[int, int, int]) -> None:
        super().__init__()
        self.position = position

    # tt -------------------------------------------------------------------------------------------------

    tt_fp_to_fp = mlir_interpreter.Interpreter.converted

    def tt_get_program_id(self, operation):
        return [np.int32(self.position[number(operation, "axis")])]

    def tt_make_range(self, operation):
        return [np.arange(number(operation, "start"), number(operation, "end"), dtype=np.int32)]

    def _moved(self, x, function):
        return [x._replace(offsets=function(x.offsets)) if isinstance(x, Pointers) else function(x)]

    def _shape(self, operation):
        return shaped(operation.results[0].type)[0]

    def tt_splat(self, operation, x):
        return self._moved(x, lambda x: np.full(self._shape(operation), x))

    def tt_unsplat(self, operation, x):
        return [x.ravel()[0]]

    def tt_expand_dims(self, operation, x):
        return self._moved(x, lambda x: np.expand_dims(x, number(operation, "axis")))

    def tt_broadcast(self, operation, x):
        return self._moved(x, lambda x: np.broadcast_to(x, self._shape(operation)))

    def tt_reshape(self, operation, x):
        return self._moved(x, lambda x: np.reshape(x, self._shape(operation)))

    def tt_trans(self, operation, x):
        order = [*ir.DenseI32ArrayAttr(operation.attributes["order"])]
        return self._moved(x, lambda x: np.transpose(x, order))

    def tt_bitcast(self, operation, x):
        _, element = shaped(operation.results[0].type)
        return [x.view(mlir_interpreter.DTYPES[element])]

    def tt_addptr(self, operation, x, n):
        return [x._replace(offsets=x.offsets + n.astype(np.int64))]

    def tt_load(self, operation, x, mask=None, other=None):
        places = np.where(True if mask is None else mask, x.offsets, 0)
        assert ((places >= 0) & (places < max(x.array.size, 1))).all(), (
            "a load outside of the array"
        )
        value = x.array[places]
        return [value if mask is None else np.where(mask, value, other)]

    def tt_store(self, operation, x, value, mask=None):
        places, values = np.broadcast_arrays(x.offsets, value)
        chosen = np.broadcast_to(True if mask is None else mask, places.shape)
        places = places[chosen]
        assert ((places >= 0) & (places < x.array.size)).all(), "a store outside of the array"
        x.array[places] = values[chosen]
        return []

    def tt_atomic_rmw(self, operation, x, value, mask=None):
        combine = ATOMIC[number(operation, "atomic_rmw_op")]
        places, values = np.broadcast_arrays(x.offsets, value)
        chosen = np.broadcast_to(True if mask is None else mask, places.shape)
        old = x.array[np.where(chosen, places, 0)]
        for place, new in zip(places[chosen], values[chosen], strict=True):
            x.array[place] = combine(x.array[place], new)
        return [old]

    def tt_atomic_cas(self, operation, x, compared, value):
        old = x.array[x.offsets]
        if old == compared:
            x.array[x.offsets] = value
        return [old]

    def tt_reduce(self, operation, *operands):
        axis, block = number(operation, "axis"), operation.regions[0].blocks[0]
        parts = [np.moveaxis(x, axis, 0) for x in operands]
        total = [x[0] for x in parts]
        for i in range(1, len(parts[0])):
            rows = itertools.product(*map(range, total[0].shape))
            new = [np.array(x) for x in total]
            for row in rows:
                found = self.call(block, [*[x[row] for x in total], *[x[i][row] for x in parts]])
                for x, value in zip(new, found, strict=True):
                    x[row] = value
            total = new
        return total

    def tt_scan(self, operation, x):
        axis, block = number(operation, "axis"), operation.regions[0].blocks[0]
        is_reversed = ir.BoolAttr(operation.attributes["reverse"]).value
        rows = np.moveaxis(x.copy(), axis, 0)
        order = [*range(len(rows))][:: -1 if is_reversed else 1]
        for before, i in itertools.pairwise(order):
            for place in itertools.product(*map(range, rows[0].shape)):
                [rows[i, *place]] = self.call(block, [rows[before, *place], rows[i, *place]])
        return [np.moveaxis(rows, 0, axis)]

    def tt_join(self, operation, x, y):
        return [np.stack([x, y], -1)]

    def tt_split(self, operation, x):
        return [x[..., 0], x[..., 1]]

    def tt_print(self, operation, *operands):
        print(ir.StringAttr(operation.attributes["prefix"]).value, *operands)
        return []

    def tt_dot(self, operation, a, b, c):
        return [c + a.astype(c.dtype) @ b.astype(c.dtype)]

    def tt_extern_elementwise(self, operation, *operands):
        symbol = ir.StringAttr(operation.attributes["symbol"]).value.removeprefix("__nv_")
        return [EXTERN.get(symbol, EXTERN.get(symbol.removesuffix("f")))(*operands)]

    def gpu_barrier(self, operation):
        return []


def in_memory(x: np.ndarray) -> np.ndarray:
    """The elements of an array as a kernel finds them: unsigned integers without their sign, booleans as bytes."""
    flat = np.ravel(x).copy()
    if flat.dtype == np.bool_:
        return flat.view(np.int8)
    return flat.view(f"i{flat.dtype.itemsize}") if flat.dtype.kind == "u" else flat


def run(made: Any, inputs: list[np.ndarray], results: list[np.ndarray]) -> list[np.ndarray]:
    """What `results` hold in the end, from what they and `inputs` hold at first."""
    arrays = [*map(in_memory, inputs), *map(in_memory, results)]
    [function] = made.module.body.operations
    block = function.regions[0].blocks[0]
    with np.errstate(all="ignore"):
        for z, y, x in itertools.product(*[reversed(range(n)) for n in reversed(made.grid)]):
            Interpreter((x, y, z)).call(block, [Pointers(array, np.int64(0)) for array in arrays])
    ends = arrays[len(inputs) :]
    return [end.view(x.dtype).reshape(x.shape) for end, x in zip(ends, results, strict=True)]
