"""An interpreter of Triton's dialect on NumPy, as slow as it is plain: what kernels compute on GPUs, without one.

Programs run one after another, from the last to the first. Loads and stores outside of an array are errors.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from scipy import special

from pellucid._machine.xla.triton import ir


class Pointers(NamedTuple):
    """Addresses of elements: an array and positions in it."""

    array: np.ndarray
    offsets: Any


DTYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "i1": np.bool_,
}
DTYPES |= {f"i{n}": np.dtype(f"int{n}").type for n in (8, 16, 32, 64)}


def unsigned(x):
    return x.view(f"u{x.dtype}") if x.dtype.kind == "i" else x


def truncated_quotient(x, y):
    return (np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y))).astype(x.dtype)


BINARY = {
    "arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply, "arith.divf": np.divide,
    "arith.addi": np.add, "arith.subi": np.subtract, "arith.muli": np.multiply, "arith.remf": np.fmod,
    "arith.divsi": truncated_quotient, "arith.remsi": lambda x, y: (x - truncated_quotient(x, y) * y).astype(x.dtype),
    "arith.divui": lambda x, y: (unsigned(x) // unsigned(y)).view(x.dtype),
    "arith.remui": lambda x, y: (unsigned(x) % unsigned(y)).view(x.dtype),
    "arith.maximumf": np.maximum, "arith.minimumf": np.minimum, "arith.maxsi": np.maximum, "arith.minsi": np.minimum,
    "arith.maxui": lambda x, y: np.maximum(unsigned(x), unsigned(y)).view(x.dtype),
    "arith.minui": lambda x, y: np.minimum(unsigned(x), unsigned(y)).view(x.dtype),
    "arith.andi": np.bitwise_and, "arith.ori": np.bitwise_or, "arith.xori": np.bitwise_xor,
    "arith.shli": np.left_shift, "arith.shrsi": np.right_shift,
    "arith.shrui": lambda x, y: (unsigned(x) >> unsigned(y)).view(x.dtype),
}  # fmt: skip
UNARY = {
    "arith.negf": np.negative, "math.absf": np.abs, "math.absi": np.abs, "math.exp": np.exp, "math.exp2": np.exp2,
    "math.log": np.log, "math.sin": np.sin, "math.cos": np.cos, "math.sqrt": np.sqrt, "math.floor": np.floor,
    "math.ceil": np.ceil, "math.rsqrt": lambda x: 1 / np.sqrt(x), "math.erf": special.erf,
}  # fmt: skip
ATOMIC = {
    1: np.bitwise_and, 2: np.bitwise_or, 3: np.bitwise_xor, 4: np.add, 5: np.add, 6: np.maximum, 7: np.minimum,
    8: lambda x, y: np.maximum(unsigned(x), unsigned(y)), 9: lambda x, y: np.minimum(unsigned(x), unsigned(y)), 10: lambda x, y: y,
}  # fmt: skip
"""By number of an atomic operation what it makes of an element and a new value."""
EXTERN = {
    "tanh": np.tanh, "log1p": np.log1p, "expm1": np.expm1, "pow": np.power, "tan": np.tan, "rint": np.rint, "cbrt": np.cbrt, "erfc": special.erfc,
    "atan2": np.arctan2, "round": lambda x: np.trunc(x + np.copysign(0.5, x)),
}  # fmt: skip
INTEGER_PREDICATES = [
    np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
    *[lambda x, y, f=f: f(unsigned(x), unsigned(y)) for f in (np.less, np.less_equal, np.greater, np.greater_equal)],
]  # fmt: skip
FLOAT_PREDICATES = {
    1: np.equal, 2: np.greater, 3: np.greater_equal, 4: np.less, 5: np.less_equal,
    14: lambda x, y: np.isnan(x) | np.isnan(y), 13: np.not_equal,
}  # fmt: skip


def number(operation, name):
    return ir.IntegerAttr(operation.attributes[name]).value


class Interpreter:
    """One program of a kernel."""

    def __init__(self, position: tuple[int, int, int]) -> None:
        self.position = position
        self.values: dict[Any, Any] = {}

    def run(self, block: Any) -> list[Any]:
        """Run the operations of a block; the operands of its last one."""
        for operation in block.operations:
            operands = [self.values[x] for x in operation.operands]
            name = operation.operation.name
            if name in ("tt.return", "scf.yield", "tt.reduce.return", "scf.condition"):
                return operands
            results = self.results(name, operation.operation, operands)
            for result, value in zip(operation.results, results, strict=True):
                kind = (
                    ir.RankedTensorType(result.type)
                    if isinstance(result.type, ir.RankedTensorType)
                    else None
                )
                shape = () if kind is None else tuple(kind.shape)
                element = str(result.type if kind is None else kind.element_type)
                if not isinstance(value, Pointers):
                    value = np.broadcast_to(
                        np.asarray(value).astype(DTYPES[element], copy=False), np.shape(value)
                    )
                    assert value.shape == shape, (name, value.shape, shape)
                self.values[result] = value
        raise AssertionError("a block without an end")

    def call(self, block: Any, arguments: list[Any]) -> list[Any]:
        self.values.update(zip(block.arguments, arguments, strict=True))
        return self.run(block)

    def results(self, name: str, operation: Any, operands: list[Any]) -> list[Any]:
        if name in BINARY:
            return [BINARY[name](*operands)]
        if name in UNARY:
            return [UNARY[name](*operands)]
        rule = getattr(self, name.replace(".", "_"))
        return rule(operation, *operands)

    # arith ----------------------------------------------------------------------------------------------

    def arith_constant(self, operation):
        value = operation.attributes["value"]
        if isinstance(value, ir.DenseElementsAttr):
            shape = tuple(ir.RankedTensorType(value.type).shape)
            element = value.get_splat_value()
            scalar = self.scalar(element)
            return [np.full(shape, scalar)]
        return [self.scalar(value)]

    def scalar(self, attribute):
        dtype = DTYPES[str(attribute.type)]
        kind = (
            ir.IntegerAttr if isinstance(attribute, (ir.IntegerAttr, ir.BoolAttr)) else ir.FloatAttr
        )
        return np.asarray(kind(attribute).value).astype(dtype)[()]

    def arith_cmpi(self, operation, x, y):
        return [INTEGER_PREDICATES[number(operation, "predicate")](x, y)]

    def arith_cmpf(self, operation, x, y):
        return [FLOAT_PREDICATES[number(operation, "predicate")](x, y)]

    def arith_select(self, operation, which, x, y):
        return [np.where(which, x, y)]

    def _converted(self, operation, x):
        kind = operation.results[0].type
        element = (
            ir.RankedTensorType(kind).element_type
            if isinstance(kind, ir.RankedTensorType)
            else kind
        )
        return [x.astype(DTYPES[str(element)])]

    arith_extf = arith_truncf = arith_extsi = arith_trunci = arith_sitofp = arith_fptosi = (
        _converted
    )
    tt_fp_to_fp = _converted

    def arith_extui(self, operation, x):
        return self._converted(operation, unsigned(x))

    arith_uitofp = arith_extui

    def arith_fptoui(self, operation, x):
        [y] = self._converted(operation, x.astype(np.int64))
        return [y]

    # tt -------------------------------------------------------------------------------------------------

    def tt_get_program_id(self, operation):
        return [np.int32(self.position[number(operation, "axis")])]

    def tt_make_range(self, operation):
        return [np.arange(number(operation, "start"), number(operation, "end"), dtype=np.int32)]

    def _moved(self, x, function):
        return [x._replace(offsets=function(x.offsets)) if isinstance(x, Pointers) else function(x)]

    def _shape(self, operation):
        return tuple(ir.RankedTensorType(operation.results[0].type).shape)

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
        kind = operation.results[0].type
        element = (
            ir.RankedTensorType(kind).element_type
            if isinstance(kind, ir.RankedTensorType)
            else kind
        )
        return [x.view(DTYPES[str(element)])]

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

    def tt_dot(self, operation, a, b, c):
        return [c + a.astype(c.dtype) @ b.astype(c.dtype)]

    def tt_extern_elementwise(self, operation, *operands):
        symbol = ir.StringAttr(operation.attributes["symbol"]).value.removeprefix("__nv_")
        return [EXTERN.get(symbol, EXTERN.get(symbol.removesuffix("f")))(*operands)]

    def gpu_barrier(self, operation):
        return []

    # scf ------------------------------------------------------------------------------------------------

    def scf_if(self, operation, condition):
        region = operation.regions[0 if condition else 1]
        return self.run(region.blocks[0]) if len(region.blocks) else []

    def scf_for(self, operation, lower, upper, step, *carry):
        for i in range(int(lower), int(upper), int(step)):
            carry = self.call(operation.regions[0].blocks[0], [np.int32(i), *carry])
        return list(carry)

    def scf_while(self, operation, *carry):
        before, after = [region.blocks[0] for region in operation.regions]
        while True:
            goes_on, *carry = self.call(before, list(carry))
            if not goes_on:
                return carry
            carry = self.call(after, carry)


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
