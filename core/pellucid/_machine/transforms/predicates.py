"""What a program shows of a predicate by which it selects: its parts, and its value if the program fixes that."""

# Tracers and their traces share attributes with private names.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pellucid._machine.base import is_static
from pellucid._machine.ir import Equation, Literal, Var, programs_of
from pellucid._machine.primitives import squeeze
from pellucid._machine.tracing import StagingTrace, StagingTracer, context, type_of

from .liveness import KNOWN_SIZE, Elements, Liveness, Part, both, elements
from .regrouping import groups_of, regroup

EQUATIONS = 64
"""Maximum number of equations behind a predicate that are searched."""


def choice_liveness(which: Any) -> Liveness:
    """Liveness of what a `select` takes where the boolean array `which` is True."""
    aval: Any = type_of(which)
    trace: Any = context.trace
    if type(which) is StagingTracer and which._trace is trace and aval.shown_sharding is None:
        return _StagedEquations(trace).choice_liveness(which.variable)
    return elements([Part(lambda: which, range(aval.ndim), _number(which))])


def _number(x: Any) -> NDArray[Any] | None:
    is_number = isinstance(x, (bool, int, float, np.generic)) or type(x) is np.ndarray
    return np.asarray(x) if is_number else None


class _StagedEquations:
    """The equations of a program that is being traced, looked up by the values that they made."""

    def __init__(self, trace: StagingTrace) -> None:
        self.trace = trace
        self.left = EQUATIONS
        self.values: dict[Any, NDArray[Any] | None] = {}

    def maker(self, atom: Any) -> Equation | None:
        """The equation that made `atom`; None for arguments and constants, and after `EQUATIONS` of them."""
        if type(atom) is not Var or self.left <= 0:
            return None
        self.left -= 1
        return self.trace.maker(atom)

    def choice_liveness(self, atom: Any) -> Liveness:
        """Liveness of what a `select` takes where `atom`, a boolean variable, is True."""
        known = self.value(atom)
        equation = self.maker(atom)
        if known is None and equation is not None:
            if equation.primitive.name == "and":
                a, b = map(self.choice_liveness, equation.operands)
                return both(a, b)
            if equation.primitive.name in _MOVEMENT:
                return self._regroup(equation)
        aval: Any = atom.aval
        value: Any = StagingTracer(self.trace, atom, equation) if type(atom) is Var else atom.val
        is_by_value = known is None and self._is_of_maximum(equation)
        # Elements don't differ along dimensions of size 1.
        single = tuple([d for d, size in enumerate(aval.shape) if size == 1])
        dims = [d for d in range(aval.ndim) if d not in single]
        array = lambda: squeeze(value, single) if single else value
        fixed = None if known is None else known.squeeze(single)
        return elements([Part(array, dims, fixed, is_by_value=is_by_value)])

    def _regroup(self, equation: Equation) -> Liveness:
        primitive, params, [operand] = equation.primitive, equation.params, equation.operands
        result: Any = equation.results[0].aval
        live = self.choice_liveness(operand)
        groups = groups_of(primitive, operand.aval, result, params)
        if groups is None or not isinstance(live, Elements):
            array = StagingTracer(self.trace, equation.results[0], equation)
            is_one = not isinstance(live, Elements)
            return live if is_one else elements([Part(lambda: array, range(result.ndim))])
        shape = result.shape
        return elements(
            [regroup(p, groups, primitive, operand.aval, shape, params) for p in live.parts]
        )

    def value(self, atom: Any) -> NDArray[Any] | None:
        """The value of `atom` if it follows from the program alone: booleans and whole numbers, which are exact."""
        if type(atom) is Literal:
            aval: Any = atom.aval
            return None if _number(atom.val) is None else np.asarray(atom.val, aval.dtype)
        if atom not in self.values:
            self.values[atom] = self._value(atom)
        return self.values[atom]

    def _value(self, atom: Any) -> NDArray[Any] | None:
        equation = self.maker(atom)
        fold = None if equation is None else _fold_of(equation.primitive.name)
        if equation is None or fold is None or not _is_small(atom.aval):
            return None
        operands: list[NDArray[Any]] = []
        for x in equation.operands:
            value = self.value(x)
            if value is None:
                return None
            operands.append(value)
        if equation.primitive.name == "rem" and not np.all(operands[1]):
            # NumPy's remainder of a division by 0 isn't XLA's.
            return None
        with np.errstate(all="ignore"):
            computed = fold(operands, equation.params)
            found = np.asarray(computed, atom.aval.dtype)
            if found.dtype.kind == "f" and not np.all(np.abs(found) < 1 << 24):
                return None
            # Results that rounding, or a conversion, may have changed aren't exact.
            is_exact = np.all(found == np.rint(computed)) if found.dtype.kind == "f" else True
            is_converted = equation.primitive.name == "convert_element_type"
            is_kept = not is_converted or np.all(found == operands[0])
            return found if is_exact and is_kept else None

    def _is_of_maximum(self, equation: Equation | None) -> bool:
        """Whether an equation compares values, by order, that were computed by matrix products or convolutions, and of
        which the program takes a maximum or minimum as well, as `relu` does: that keeps their NaN.
        """
        if equation is None or equation.primitive.name not in ("gt", "ge", "lt", "le"):
            return False
        users = [user for x in equation.operands if type(x) is Var for user in self.trace.users(x)]
        if not any(map(_clamps, users)):
            return False
        seen: set[Any] = set()
        rest = [*equation.operands]
        while rest:
            atom = rest.pop()
            maker = None if atom in seen else self.maker(atom)
            if maker is None:
                continue
            seen.add(atom)
            kind = maker.primitive.traits.kind
            if kind == "contraction":
                return True
            if kind in ("elementwise", "reduction", "movement"):
                rest += maker.operands
        return False


def _clamps(equation: Equation) -> bool:
    if equation.primitive.name in ("max", "min"):
        return True
    return any(
        e.primitive.name in ("max", "min") for p in programs_of(equation) for e in p.equations
    )


def _is_small(aval: Any) -> bool:
    return is_static(aval.shape) and math.prod(aval.shape) <= KNOWN_SIZE and aval.dtype in _EXACT


_MOVEMENT = "broadcast_in_dim", "reshape", "squeeze", "transpose", "rev", "slice"
_EXACT: Sequence[Any] = (
    np.bool_, np.float32, np.float64,
    np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
)  # fmt: skip


def _iota(params: Any) -> Any:
    shape: tuple[int, ...] = params.shape
    along: int = params.dimension
    others = [i for i in range(len(shape)) if i != along]
    return np.broadcast_to(np.expand_dims(np.arange(int(shape[along])), others), shape)


def _broadcast(x: NDArray[Any], params: Any) -> Any:
    shape: tuple[int, ...] = params.shape
    dims: tuple[int, ...] = params.broadcast_dimensions
    new = [j for j in range(len(shape)) if j not in dims]
    return np.broadcast_to(np.expand_dims(x, new), shape)


_Fold: TypeAlias = Callable[[list[NDArray[Any]], Any], Any]
_ELEMENTWISE: Mapping[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum, "rem": np.fmod,
    "gt": np.greater, "ge": np.greater_equal, "lt": np.less, "le": np.less_equal, "eq": np.equal,
    "ne": np.not_equal, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert,
}  # fmt: skip
_MOVING: Mapping[str, _Fold] = {
    "iota": lambda xs, params: _iota(params),
    "broadcast_in_dim": lambda xs, params: _broadcast(xs[0], params),
    "reshape": lambda xs, params: xs[0].reshape(params.new_sizes),
    "squeeze": lambda xs, params: xs[0].squeeze(params.dimensions),
    "transpose": lambda xs, params: xs[0].transpose(params.permutation),
    "convert_element_type": lambda xs, params: xs[0],
    "select_n": lambda xs, params: np.choose(xs[0], np.broadcast_arrays(*xs[1:]), mode="clip"),
}


def _fold_of(name: str) -> _Fold | None:
    """How the results of a primitive are computed from NumPy operands and params; None if they aren't."""
    function = _ELEMENTWISE.get(name)
    return _MOVING.get(name) if function is None else lambda xs, params: function(*xs)
