"""An interpreter of MLIR's own dialects on NumPy, as slow as it is plain: what kernels for devices compute, without one."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from scipy import special

from pellucid._machine.xla.kernel_dialects import ir

DTYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "i1": np.bool_,
}
DTYPES["i4"] = ml_dtypes.int4
DTYPES |= {f"i{n}": np.dtype(f"int{n}").type for n in (8, 16, 32, 64)}


def unsigned(x):
    if x.dtype == ml_dtypes.int4:
        return x.view(ml_dtypes.uint4)
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


def shaped(kind):
    """The shape and the name of the element of a type; None for what is neither a block nor a number."""
    if isinstance(kind, (ir.RankedTensorType, ir.VectorType)):
        return tuple(kind.shape), str(kind.element_type)
    return (), str(kind)


class Interpreter:
    """One program of a kernel; subclasses have operations of a device."""

    ends = ("scf.yield", "scf.condition")

    def __init__(self) -> None:
        self.values: dict[Any, Any] = {}

    def run(self, block: Any) -> list[Any]:
        """Run the operations of a block; the operands of its last one."""
        for operation in block.operations:
            operands = [self.values[x] for x in operation.operands]
            name = operation.operation.name
            if name in self.ends:
                return operands
            results = self.results(name, operation.operation, operands)
            for result, value in zip(operation.results, results, strict=True):
                shape, element = shaped(result.type)
                if element in DTYPES:
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
            shape, _ = shaped(value.type)
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

    def converted(self, operation, x):
        _, element = shaped(operation.results[0].type)
        return [x.astype(DTYPES[element])]

    arith_extf = arith_truncf = arith_extsi = arith_trunci = arith_sitofp = arith_fptosi = converted

    def arith_extui(self, operation, x):
        return self.converted(operation, unsigned(x))

    arith_uitofp = arith_extui

    def arith_fptoui(self, operation, x):
        [y] = self.converted(operation, x.astype(np.int64))
        return [y]

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
