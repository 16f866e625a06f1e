"""A kernel as a program of Mosaic: values are vectors or scalars in registers, references are memrefs in a memory of the chip.

Rules of operations are in `rules`, `reductions` and `exchange`, access through references in `access`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import dtypes
from pellucid._machine.ir import Equation, called_program
from pellucid._machine.primitives.conversion import convert_element_type_p
from pellucid._machine.primitives.staging import optimization_barrier_p
from pellucid._machine.refs.primitives import get_p, swap_p
from pellucid._machine.xla.mosaic_tpu import VectorType, arith, ir, vector
from pellucid.kernels.lowering import control, elements, programs
from pellucid.kernels.lowering.programs import Rules, aval_of, registering
from pellucid.kernels.mappings import BlockMapping

from .bounds import Known, known
from .memory import MemoryPart
from .tiles import has_four_bits

RULES: Rules = {}
"""By primitive how it is lowered; `rules`, `reductions`, `exchange` and `access` fill it."""
SHARED = (control, elements)
"""The modules of rules that it shares with other devices."""
rule = registering(RULES)
_INT32 = np.dtype(np.int32)
_OF_FOUR_BITS = (get_p, swap_p, convert_element_type_p, optimization_barrier_p)


class MemRef(NamedTuple):
    """A reference in the memory `space`: `kept` are the dimensions of the memref that the kernel sees; it has one element along others."""

    value: ir.Value
    shape: tuple[int, ...]
    """Of the memref."""
    kept: tuple[int, ...]
    dtype: np.dtype
    space: str
    mapping: BlockMapping | None = None
    """Of a block of an array; None for scratch and scalars."""

    @property
    def in_vector_memory(self) -> bool:
        """Whether vectors are loaded from it."""
        return self.space == "vmem"


class Lowering(programs.Lowering):
    """The state while one kernel is lowered to Mosaic."""

    device = "TPUs"
    rules = RULES

    def __init__(
        self, name: str, context: ir.Context, mappings: Sequence[BlockMapping] = ()
    ) -> None:
        super().__init__(name, context, mappings)
        self.entry: Any = None
        """The block of the kernel's function, whose arguments references are."""
        self.made: dict[Any, MemRef] = {}
        """Scratch by the variable of the reference that the body makes; it is there as long as the kernel."""
        self.memory_made: list[MemoryPart] = []
        """What of that is in VMEM and SMEM."""
        self.mesh: Any = None
        """The mesh of the devices that run the kernel beside each other."""
        self.facts: dict[Any, Known] = {}
        """What is known of integers, by variable."""

    def note(self, variable: Any, atom: Any) -> None:
        """Note what is known of an integer that an input of a program is."""
        aval = variable.aval
        if getattr(aval, "shape", None) == () and aval.dtype == _INT32:
            self.facts[variable] = known(self, atom)

    # Types --------------------------------------------------------------------------------------------------

    def element(self, dtype: Any) -> ir.Type:
        """The type of an element in registers: of at most 32 bits."""
        dtype = np.dtype(dtype)
        if dtype.kind != "b" and dtypes.itemsize_bits(dtype) > 32:
            raise self.unsupported(
                f"it has no {dtypes.short_name(dtype)}.",
                do="Cast to 32 bits or fewer; without `jax_enable_x64` numbers have them.",
            )
        if has_four_bits(dtype):
            return ir.IntegerType.get_signless(4)
        if dtype == np.float16:
            raise self.unsupported("it has no f16.", do="Use bfloat16 or float32.")
        return super().element(dtype)

    def _results(self, equation: Equation, inputs: list[Any]) -> list[Any]:
        if equation.primitive not in _OF_FOUR_BITS and called_program(equation.primitive, equation.params) is None:  # fmt: skip
            for atom in (*equation.operands, *equation.results):
                aval = aval_of(atom)
                if getattr(aval, "dtype", None) is not None and has_four_bits(aval.dtype):
                    raise self.unsupported(
                        "elements of 4 bits are read, written and converted only.",
                        f"`{equation.primitive.name}` of {aval.text()}",
                        do="Compute with int8 or int32.",
                    )
        return super()._results(equation, inputs)

    def in_memory(self, dtype: Any) -> ir.Type:
        """The type of an element in memory, where booleans are 32-bit integers."""
        return self.element(_INT32 if np.dtype(dtype) == np.bool_ else dtype)

    def type(self, shape: Sequence[int], element: ir.Type) -> ir.Type:
        """The type of a vector, or of a scalar for the shape ()."""
        if not shape:
            return element
        if 0 in shape:
            raise self.unsupported("it has no empty arrays.", f"a value of shape {list(shape)}")
        return VectorType.get(list(shape), element)

    # Shapes -----------------------------------------------------------------------------------------------

    def shape(self, x: ir.Value) -> tuple[int, ...]:
        """The shape of a vector, () of a scalar."""
        return tuple(VectorType(x.type).shape) if is_vector(x) else ()

    def scalar_type(self, x: ir.Value) -> ir.Type:
        """The type of the elements of a value."""
        return VectorType(x.type).element_type if is_vector(x) else x.type

    def along(self, x: ir.Value, axes: Sequence[int], shape: Sequence[int]) -> ir.Value:
        """`x`, whose axes are those of a vector of `shape` at `axes`, repeated along the others."""
        if not shape:
            return x
        is_mask = self.scalar_type(x) == self.element(np.bool_)
        if is_mask and self.shape(x) != tuple(shape):
            # Masks have no layout that could be repeated.
            wide = self.type(self.shape(x), self.element(_INT32))
            spread = self.along(arith.extui(wide, x), axes, shape)
            zero = self.int32(0, shape)
            return arith.cmpi(arith.CmpIPredicate.ne, spread, zero)
        kind = self.type(shape, self.scalar_type(x))
        if not is_vector(x):
            return vector.broadcast(kind, x)
        places = dict(zip(axes, self.shape(x), strict=True))
        full = tuple([places.get(i, 1) for i in range(len(shape))])
        x = self.reshaped(x, full)
        return x if full == tuple(shape) else vector.broadcast(kind, x)

    def reshaped(self, x: ir.Value, shape: Sequence[int]) -> ir.Value:
        """The elements of a value, in row-major order, with another shape."""
        before = self.shape(x)
        if before == tuple(shape):
            return x
        if not before:
            return self.along(x, (), shape)
        if not shape:
            if len(before) < 2:  # elements are taken from rows and columns
                x = self.reshaped(x, (1,) * (2 - len(before)) + before)
            return self.first(x)
        if self.scalar_type(x) == self.element(np.bool_):
            wide = arith.extui(self.type(before, self.element(_INT32)), x)
            zero = self.int32(0, shape)
            return arith.cmpi(arith.CmpIPredicate.ne, self.reshaped(wide, shape), zero)
        return vector.shape_cast(self.type(shape, self.scalar_type(x)), x)

    def first(self, x: ir.Value) -> ir.Value:
        """The first element of a vector."""
        n = len(self.shape(x))
        return vector.extract(x, dynamic_position=[], static_position=[0] * n)

    # Numbers ------------------------------------------------------------------------------------------------

    def index(self, x: int | ir.Value) -> ir.Value:
        """A position in memory."""
        kind = ir.IndexType.get()
        if isinstance(x, int):
            return arith.ConstantOp(kind, ir.IntegerAttr.get(kind, x)).result
        return arith.index_cast(kind, x)

    def signed32(self, x: ir.Value) -> ir.Value:
        """An integer scalar with 32 bits."""
        kind = self.element(_INT32)
        return x if x.type == kind else arith.extsi(kind, x)


def is_vector(x: ir.Value) -> bool:
    """Whether a value is a vector."""
    return isinstance(x.type, VectorType)
