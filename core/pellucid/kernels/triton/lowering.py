"""A kernel as a program of Triton: values are blocks in registers, references are pointers, and each program of the grid runs once.

Rules of operations are in `rules`, access through references in `memory`.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from pellucid._machine.base import (
    UnsupportedError,
    describe,
    dtypes,
    is_user_file,
    strict_zip,
)
from pellucid._machine.ir import (
    AbstractRef,
    ClosedJaxpr,
    Equation,
    Jaxpr,
    Literal,
    Primitive,
    ShapedArray,
    called_program,
)
from pellucid._machine.xla.mlir import element_types, location_cache
from pellucid._machine.xla.triton import arith, ir, triton
from pellucid.kernels.mappings import BlockMapping
from pellucid.kernels.specs import Squeezed

Rule: TypeAlias = Callable[["Lowering", Equation, list[Any]], list[Any]]
"""Values of the results of an equation, from those of its operands: SSA values, and pointers for references."""

RULES: dict[Primitive, Rule] = {}
"""By primitive how it is lowered; `rules` and `memory` fill it."""
MAX_ELEMENTS = 1 << 20
"""Maximum number of elements of a block, which is Triton's own."""
_FRAME_LIMIT = 12


def rule(*primitives: Primitive) -> Callable[[Rule], Rule]:
    """A decorator that makes a function the rule of some primitives."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(primitives, function))
        return function

    return register


class Scope:
    """The program that is being lowered, innermost of those within each other."""

    def __init__(self, jaxpr: Jaxpr | None = None) -> None:
        equations = () if jaxpr is None else jaxpr.equations
        self.jaxpr = jaxpr
        self.values: dict[Any, Any] = {}
        self.reads: dict[Any, tuple[Any, ...]] = {}
        """By variable that was read what identifies the part of the reference, and what that holds."""
        self.definitions = {v: e for e in equations for v in e.results}
        """Maps each variable to the equation that computes it."""
        self.first_uses: dict[Any, int] = {}
        """By variable the position of the first equation that uses it."""
        self.position = 0
        for i, equation in enumerate(equations):
            for atom in equation.operands:
                if type(atom) is not Literal:
                    self.first_uses.setdefault(atom, i)
        for atom in () if jaxpr is None else jaxpr.outvars:
            if type(atom) is not Literal:
                self.first_uses.setdefault(atom, len(equations))


class Lowering:
    """The state while one kernel is lowered: where operations go, and what is known of values."""

    def __init__(
        self, name: str, context: ir.Context, mappings: Sequence[BlockMapping] = ()
    ) -> None:
        self.name = name
        self.context = context
        self.mappings = mappings
        """Of inputs and results, to name the user's spec of a block that Triton can't have."""
        self.equation: Equation | None = None
        self.scope = Scope()
        self.writes = 0
        """How many writes there were so far."""
        self._locations = location_cache(_file_of_code, _FRAME_LIMIT, context)

    # Errors ---------------------------------------------------------------------------------------------

    def unsupported(
        self, what: str, got: str | Sequence[str] | None = None, do: str | None = None
    ) -> Exception:
        """The error for what Triton can't do, at the equation at hand."""
        line = None if self.equation is None else describe(self.equation.source)
        return UnsupportedError(
            f"the kernel `{self.name}` can't be lowered to Triton: {what}",
            got=() if got is None else got,
            where=line,
            do=do,
        )

    # Types and constants ----------------------------------------------------------------------------------

    def element(self, dtype: Any) -> ir.Type:
        """The type of an element in registers; integers have no sign there."""
        dtype = np.dtype(dtype)
        if dtype == np.bool_:
            return ir.IntegerType.get_signless(1)
        if dtype.kind in "iu" and dtype.itemsize in (1, 2, 4, 8):
            return ir.IntegerType.get_signless(8 * dtype.itemsize)
        if dtype not in element_types or not dtypes.is_inexact(dtype) or dtype.kind == "c":
            raise self.unsupported(f"it has no {dtypes.short_name(dtype)}.")
        return element_types[dtype]()

    def in_memory(self, dtype: Any) -> ir.Type:
        """The type of an element in memory, where booleans are bytes."""
        is_bool = np.dtype(dtype) == np.bool_
        return ir.IntegerType.get_signless(8) if is_bool else self.element(dtype)

    def type(self, shape: Sequence[int], element: ir.Type) -> ir.Type:
        """The type of a block, or of a scalar for the shape ()."""
        if not shape:
            return element
        for n in shape:
            if n < 1 or n & (n - 1):
                mapping = self._mapping_of(shape)
                raise self.unsupported(
                    "sizes of its blocks must be powers of two.",
                    _described(shape, mapping),
                    f"Make it {_power_of_two(n)}, and mask what is beyond: `triton.load(ref, mask=…)`."
                    if mapping is None
                    else f"A block of {_fitting_shape(mapping)} fits, with a grid for it; what it has beyond the edge of the array is masked.",
                )
        if math.prod(shape) > MAX_ELEMENTS:
            raise self.unsupported(
                f"its blocks have at most {MAX_ELEMENTS:,} elements.",
                _described(shape, self._mapping_of(shape)),
            )
        return ir.RankedTensorType.get(list(shape), element)

    def _mapping_of(self, shape: Sequence[int]) -> BlockMapping | None:
        """The first mapping of the user's with blocks of this shape."""
        for mapping in self.mappings:
            if mapping.block_aval.shape == tuple(shape) and mapping.spec.line is not None:
                return mapping
        return None

    def type_of(self, aval: Any) -> ir.Type:
        """The type of a value in registers."""
        return self.type(aval.shape, self.element(aval.dtype))

    def constant(self, value: Any, dtype: Any, shape: Sequence[int] = ()) -> ir.Value:
        """A block that holds one number everywhere."""
        element = self.element(dtype)
        attribute: Any
        if np.dtype(dtype) == np.bool_ or np.dtype(dtype).kind in "iu":
            number = int(value)
            bits = 1 if np.dtype(dtype) == np.bool_ else 8 * np.dtype(dtype).itemsize
            if number >= 1 << (bits - 1) and bits > 1:  # attributes have signs
                number -= 1 << bits
            attribute = ir.IntegerAttr.get(element, number)
        else:
            attribute = ir.FloatAttr.get(element, float(value))
        kind = self.type(shape, element)
        if shape:
            attribute = ir.DenseElementsAttr.get_splat(kind, attribute)
        return arith.ConstantOp(kind, attribute).result

    def int32(self, value: int, shape: Sequence[int] = ()) -> ir.Value:
        """A 32-bit integer, or a block of it."""
        return self.constant(value, np.int32, shape)

    # Shapes -----------------------------------------------------------------------------------------------

    def shape(self, x: ir.Value) -> tuple[int, ...]:
        """The shape of a block, () of a scalar."""
        return tuple(ir.RankedTensorType(x.type).shape) if _is_tensor(x) else ()

    def scalar_type(self, x: ir.Value) -> ir.Type:
        """The type of the elements of a value."""
        return ir.RankedTensorType(x.type).element_type if _is_tensor(x) else x.type

    def along(self, x: ir.Value, axes: Sequence[int], shape: Sequence[int]) -> ir.Value:
        """`x`, whose axes are those of a block of `shape` at `axes`, repeated along the others."""
        if not shape:
            return x
        kind = self.type(shape, self.scalar_type(x))
        if not _is_tensor(x):
            return triton.splat(kind, x)
        for axis in range(len(shape)):
            if axis not in axes:
                x = triton.expand_dims(x, axis)
        return x if self.shape(x) == tuple(shape) else triton.broadcast(kind, x)

    def spread(self, x: ir.Value, shape: Sequence[int]) -> ir.Value:
        """A value as a block of `shape`, broadcast along axes that it lacks or that have one element."""
        if self.shape(x) == tuple(shape):
            return x
        rank = len(self.shape(x))
        return self.along(x, tuple(range(len(shape) - rank, len(shape))), shape)

    # Programs ---------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def inside(self, block: ir.Block) -> Iterator[None]:
        """Put operations at the end of a block meanwhile."""
        with ir.InsertionPoint(block):
            yield

    def value(self, atom: Any) -> Any:
        """The value of an operand."""
        if type(atom) is not Literal:
            return self.scope.values[atom]
        aval = aval_of(atom)
        return self.constant(atom.val, aval.dtype, aval.shape)

    def inline(self, jaxpr: Jaxpr, operands: Sequence[Any]) -> list[Any]:
        """Lower the equations of a program at the insertion point; the values of its results."""
        outer, outer_equation = self.scope, self.equation
        self.scope = scope = Scope(jaxpr)
        scope.values.update(strict_zip(jaxpr.invars, operands))
        for i, equation in enumerate(jaxpr.equations):
            scope.position, self.equation = i, equation
            # The id ties the operation to the equation, as in StableHLO.
            where = ir.Location.name(f"e{equation.id}:", childLoc=self._location(equation))
            with ir.Location.name(equation.primitive.name, childLoc=where):
                results = self._results(equation, [*map(self.value, equation.operands)])
            scope.values.update(strict_zip(equation.results, results))
        results = [*map(self.value, jaxpr.outvars)]
        self.scope, self.equation = outer, outer_equation
        return results

    def _location(self, equation: Equation) -> ir.Location:
        where = None if equation.source is None else self._locations.get(equation.source)
        return where or ir.Location.unknown()

    def _results(self, equation: Equation, inputs: list[Any]) -> list[Any]:
        lower = RULES.get(equation.primitive)
        if lower is not None:
            return lower(self, equation, inputs)
        program = called_program(equation.primitive, equation.params) or _program_of(equation)
        if program is None:
            name = equation.primitive.name
            raise self.unsupported(f"there is no rule for `{name}`.")
        return self.inline(program, inputs)


def _program_of(equation: Equation) -> Jaxpr | None:
    """The one program that an equation runs, once, on its operands; as functions with derivatives of their own do."""
    slots = getattr(equation.primitive, "slots", None)
    found = None if slots is None else slots(equation.params)
    if found is None or len(found.programs) != 1 or found.carries or found.runs != 1:
        return None
    program: ClosedJaxpr = found.programs[0].program
    same = len(program.jaxpr.invars) == len(equation.operands)
    return program.jaxpr if same and not program.consts else None


def _power_of_two(n: int) -> int:
    """The least power of two that is no less than `n`."""
    return 1 << max(n - 1, 0).bit_length()


def _described(shape: Sequence[int], mapping: BlockMapping | None) -> list[str]:
    """What a message says of a value of this shape, and of the spec whose block it is."""
    lines = [f"a value of shape {list(shape)}"]
    if mapping is not None:
        lines.append(f"blocks of {mapping.name} have this shape: {mapping.spec.line}")
    return lines


def _fitting_shape(mapping: BlockMapping) -> tuple[int | None, ...]:
    """The shape of the least block with sizes that Triton has that is no smaller than that of `mapping`."""
    return tuple(
        [
            None if type(dim) is Squeezed else _power_of_two(n)
            for dim, n in strict_zip(mapping.dims, mapping.sizes)
        ]
    )


def _is_tensor(x: ir.Value) -> bool:
    return isinstance(x.type, ir.RankedTensorType)


def _file_of_code(code: Any) -> str | None:
    return code.co_filename if is_user_file(code.co_filename) else None


def is_unsigned(dtype: Any) -> bool:
    """Whether elements are compared, divided and widened without a sign."""
    return np.dtype(dtype).kind in "ub"


def is_float(dtype: Any) -> bool:
    """Whether elements are floating numbers."""
    return dtypes.is_inexact(np.dtype(dtype))


def aval_of(atom: Any) -> ShapedArray:
    """The type of the array of an operand, or of what a reference holds."""
    aval = atom.aval
    return aval.inner_aval if type(aval) is AbstractRef else aval
