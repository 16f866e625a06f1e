"""A kernel's program on a device, equation by equation: what is known of its values, where operations go, and errors with the user's line.

A device gives `Lowering` its types of blocks and its own rules; `elements` and `control` have those that devices share.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, TypeAlias

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
from pellucid._machine.refs.primitives import swap_p
from pellucid._machine.xla.kernel_dialects import arith, ir
from pellucid._machine.xla.mlir import element_types, location_cache
from pellucid.kernels.mappings import BlockMapping

Rule: TypeAlias = Callable[[Any, Equation, list[Any]], list[Any]]
"""Values of the results of an equation, from the lowering, the equation, and the values of its operands: SSA values, and what
stands for references.
"""
Rules: TypeAlias = dict[Primitive, Rule]

COMMON: Rules = {}
"""By primitive how it is lowered on every device that has no rule of its own."""
_FRAME_LIMIT = 12


def registering(rules: Rules) -> Callable[..., Callable[[Rule], Rule]]:
    """A function of primitives that gives a decorator, which makes a function their rule in `rules`."""

    def rule(*primitives: Primitive) -> Callable[[Rule], Rule]:
        def register(function: Rule) -> Rule:
            rules.update(dict.fromkeys(primitives, function))
            return function

        return register

    return rule


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


class Lowering(ABC):
    """The state while one kernel is lowered: where operations go, and what is known of values."""

    device: ClassVar[str]
    """What kernels are lowered to, as messages name it."""
    rules: ClassVar[Rules]
    """The device's own rules, which come before the common ones."""

    def __init__(
        self, name: str, context: ir.Context, mappings: Sequence[BlockMapping] = ()
    ) -> None:
        self.name = name
        self.context = context
        self.line: str | None = None
        """The user's line that calls the kernel."""
        self.mappings = mappings
        """Of inputs and results, to name the user's spec of a block that the device can't have."""
        self.equation: Equation | None = None
        self.scope = Scope()
        self.writes = 0
        """How many writes there were so far."""
        self._locations = location_cache(_file_of_code, _FRAME_LIMIT, context)

    # Errors ---------------------------------------------------------------------------------------------

    def unsupported(
        self, what: str, got: str | Sequence[str] | None = None, do: str | None = None
    ) -> Exception:
        """The error for what the device can't do, at the equation at hand."""
        line = None if self.equation is None else describe(self.equation.source)
        return UnsupportedError(
            f"the kernel `{self.name}` can't be lowered to {self.device}: {what}",
            got=() if got is None else got,
            where=line or self.line,
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

    @abstractmethod
    def type(self, shape: Sequence[int], element: ir.Type) -> ir.Type:
        """The type of a block, or of a scalar for the shape ()."""

    @abstractmethod
    def shape(self, x: ir.Value) -> tuple[int, ...]:
        """The shape of a block, () of a scalar."""

    @abstractmethod
    def scalar_type(self, x: ir.Value) -> ir.Type:
        """The type of the elements of a value."""

    @abstractmethod
    def along(self, x: ir.Value, axes: Sequence[int], shape: Sequence[int]) -> ir.Value:
        """`x`, whose axes are those of a block of `shape` at `axes`, repeated along the others."""

    def type_of(self, aval: Any) -> ir.Type:
        """The type of a value in registers."""
        return self.type(aval.shape, self.element(aval.dtype))

    def constant(self, value: Any, dtype: Any, shape: Sequence[int] = ()) -> ir.Value:
        """A block that holds one number everywhere."""
        element = self.element(dtype)
        attribute: Any
        if not is_float(dtype):
            number = int(value)
            bits = 1 if np.dtype(dtype) == np.bool_ else dtypes.itemsize_bits(np.dtype(dtype))
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

    def uniform(self, x: Any) -> ir.Value:
        """The value of a constant array, which must have one number everywhere."""
        array = np.asarray(x)
        first = array.ravel()[:1]
        # Bits: -0 isn't 0.
        if not array.size or array.tobytes() != first.tobytes() * array.size:
            raise self.unsupported(
                "constants have one number everywhere.",
                f"an array of shape {array.shape}",
                "Pass it as an input.",
            )
        return self.constant(first[0], array.dtype, array.shape)

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

    def note(self, variable: Any, atom: Any) -> None:
        """Note that an input of a program is the operand `atom` of the equation at hand, of which something may be known."""
        return

    def inline(self, jaxpr: Jaxpr, operands: Sequence[Any], atoms: Sequence[Any] = ()) -> list[Any]:
        """Lower the equations of a program at the insertion point; the values of its results.

        `atoms` are those of the equation at hand that the operands come from, None for others.
        """
        for variable, atom in zip(jaxpr.invars, atoms, strict=False):
            if atom is not None:
                self.note(variable, atom)
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
        lower = self.rules.get(equation.primitive) or COMMON.get(equation.primitive)
        if lower is not None:
            return lower(self, equation, inputs)
        program = called_program(equation.primitive, equation.params) or _program_of(equation)
        if program is None:
            name = equation.primitive.name
            raise self.unsupported(f"there is no rule for `{name}`.")
        return self.inline(program, inputs, equation.operands)


def begins_by_writing(jaxpr: Jaxpr, ref: Any) -> bool:
    """Whether the first thing that a program does with a reference, one of its inputs, is to write all of it."""
    for equation in jaxpr.equations:
        if any(operand is ref for operand in equation.operands):
            is_swap = equation.primitive is swap_p and equation.operands[0] is ref
            is_unread = is_swap and equation.results[0] not in Scope(jaxpr).first_uses
            return is_unread and equation.params.index.is_full
    return True


def _program_of(equation: Equation) -> Jaxpr | None:
    """The one program that an equation runs, once, on its operands; as functions with derivatives of their own do."""
    slots = getattr(equation.primitive, "slots", None)
    found = None if slots is None else slots(equation.params)
    if found is None or len(found.programs) != 1 or found.carries or found.runs != 1:
        return None
    program: ClosedJaxpr = found.programs[0].program
    same = len(program.jaxpr.invars) == len(equation.operands)
    return program.jaxpr if same and not program.consts else None


def _file_of_code(code: Any) -> str | None:
    return code.co_filename if is_user_file(code.co_filename) else None


def identifier(name: str) -> str:
    """A kernel's name as a symbol of MLIR."""
    cleaned = "".join([c if c.isalnum() or c == "_" else "_" for c in name])
    return cleaned if cleaned and not cleaned[0].isdigit() else f"kernel_{cleaned}"


def is_unsigned(dtype: Any) -> bool:
    """Whether elements are compared, divided and widened without a sign."""
    return np.dtype(dtype).kind in "ub" or np.dtype(dtype) in dtypes.NARROW_UNSIGNED


def is_float(dtype: Any) -> bool:
    """Whether elements are floating numbers."""
    return dtypes.is_inexact(np.dtype(dtype))


def aval_of(atom: Any) -> ShapedArray:
    """The type of the array of an operand, or of what a reference holds."""
    aval = atom.aval
    return aval.inner_aval if type(aval) is AbstractRef else aval
