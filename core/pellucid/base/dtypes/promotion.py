"""The dtype of what is made of operands of several dtypes.

Dtypes and the weak types of Python's numbers are the nodes of a lattice; operands get the
least upper bound of their nodes. The weak types lie below every dtype that can hold such a
number, so that `x + 1` has the dtype of `x`. Described in "Type promotion semantics" of JAX's
documentation; with 64 bits off, uint32 lies below int32.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from pellucid.base import config
from pellucid.base.caching import cached
from pellucid.base.errors import DtypeError

from .canonical import (
    canonicalize_dtype,
    default_float_dtype,
    dtype_and_weak_type,
    python_scalar_dtype,
)
from .catalog import (
    ALL,
    BOOL,
    COMPLEXES,
    FLOATS,
    KINDS,
    NARROW_FLOATS,
    NARROW_SIGNED,
    NARROW_UNSIGNED,
    SIGNED,
    UNSIGNED,
    DType,
    DTypeLike,
)
from .errors import TypePromotionError
from .extended import ExtendedDType
from .facts import canonicalize

Node: TypeAlias = Any
"""A dtype, or one of the weak types int, float and complex."""

OperandType: TypeAlias = tuple[DType | ExtendedDType, bool]
"""Dtype of an operand, and whether it is weakly typed."""

_mode = config.numpy_dtype_promotion.state
_x64 = config.enable_x64.state


def _standard_lattice(x64: bool) -> dict[Node, list[Node]]:
    """For each node, those right above it."""
    *_, i8, i16, i32, i64 = SIGNED
    *_, u8, u16, u32, u64 = UNSIGNED
    *_, bf16, f16, f32, f64 = FLOATS
    c64, c128 = COMPLEXES
    return {
        **{dtype: [] for dtype in (*NARROW_SIGNED, *NARROW_UNSIGNED, *NARROW_FLOATS)},
        BOOL: [int],
        int: [i8, u8, *NARROW_SIGNED, *NARROW_UNSIGNED],
        i8: [i16],
        i16: [i32],
        i32: [i64],
        i64: [float],
        u8: [i16, u16],
        u16: [i32, u32],
        u32: [i64 if x64 else i32, u64],
        u64: [float],
        float: [*NARROW_FLOATS, bf16, f16, complex],
        bf16: [f32],
        f16: [f32],
        f32: [f64, c64],
        f64: [c128],
        complex: [c64],
        c64: [c128],
        c128: [],
    }


def _strict_lattice() -> dict[Node, list[Node]]:
    return {
        **{dtype: [] for dtype in ALL},
        int: [*SIGNED, *UNSIGNED, float],
        float: [*FLOATS, complex],
        complex: [*COMPLEXES],
    }


def _upper_bounds(lattice: Mapping[Node, list[Node]]) -> dict[Node, frozenset[Node]]:
    """For each node, itself and all above it."""
    bounds = {}

    def visit(node: Node) -> frozenset[Node]:
        if node not in bounds:
            bounds[node] = frozenset({node}).union(*map(visit, lattice[node]))
        return bounds[node]

    for node in lattice:
        visit(node)
    return bounds


class _Promotion:
    """The lattice of dtypes for one setting of the options."""

    def __init__(self, lattice: Mapping[Node, list[Node]], *, is_strict: bool) -> None:
        self.bounds = _upper_bounds(lattice)
        self.is_strict = is_strict

    def least_upper_bound(self, nodes: Iterable[Node]) -> Node:
        """The lowest of the nodes above all of `nodes`."""
        nodes = list(dict.fromkeys(nodes))
        try:
            common = frozenset.intersection(*(self.bounds[node] for node in nodes))
        except KeyError as error:
            raise DtypeError(
                "This dtype can't be combined with another one.", got=str(error.args[0])
            ) from None
        for node in nodes:  # nearly always, it is one of them
            if node in common:
                return node
        for node in common:
            if common <= self.bounds[node]:
                return node
        raise _no_common_dtype(nodes, is_strict=self.is_strict)

    def promote(self, operands: tuple[OperandType, ...]) -> OperandType:
        """Dtype and weak type of what is made of `operands`."""
        first = operands[0]  # of equal types, also of 64 bits while these are off
        if all(operand == first for operand in operands[1:]) and not (
            self.is_strict and first[1] and len(operands) > 1
        ):
            return first[0], first[1] and first[0] != BOOL
        all_weak = all(weak for _, weak in operands)
        if all_weak and not self.is_strict:
            # Weak values keep their own width among themselves: the weak node would widen them.
            node = self.least_upper_bound(dtype for dtype, _ in operands)
        else:
            node = self.least_upper_bound(
                _weak_node(dtype) if weak else dtype for dtype, weak in operands
            )
        if node in _WEAK_NODES:
            return python_scalar_dtype(node), True
        return canonicalize(node), all_weak and node != BOOL


def _weak_node(dtype: DType | ExtendedDType) -> Node:
    for kind, node in (("integral", int), ("real floating", float), ("complex floating", complex)):
        if dtype in KINDS[kind]:
            return node
    return dtype


# A set, which compares hashes first: `np.dtype("int64") == int`.
_WEAK_NODES = frozenset((int, float, complex))
_STANDARD = tuple(_Promotion(_standard_lattice(x64), is_strict=False) for x64 in (False, True))
_STRICT = tuple(_Promotion(_strict_lattice(), is_strict=True) for _ in (False, True))


def _promotion() -> _Promotion:
    return (_STRICT if _mode.value == "strict" else _STANDARD)[_x64.value]


def promote(operands: tuple[OperandType, ...]) -> OperandType:
    """Dtype and weak type of what is made of operands with the given dtypes and weak types.

    The dtypes must be canonical. Each combination is worked out once.

    Raises: TypePromotionError if there is none.

    >>> promote(((np.dtype("int8"), False), (np.dtype("float32"), True)))
    (dtype('float32'), True)
    """
    return _promoted(_promotion(), operands)


@cached(8192)
def _promoted(promotion: _Promotion, operands: tuple[OperandType, ...]) -> OperandType:
    return promotion.promote(operands)


def promote_types(a: DTypeLike, b: DTypeLike) -> DType:
    """Dtype that holds the values of both dtypes, 64 bits included; int and float are weak.

    Raises: TypePromotionError if there is none.

    >>> promote_types("int8", "uint8"), promote_types("bfloat16", float)
    (dtype('int16'), dtype(bfloat16))
    """
    nodes = [dtype if dtype in _WEAK_NODES else np.dtype(dtype) for dtype in (a, b)]
    return np.dtype(_promotion().least_upper_bound(nodes))


def lattice_result_type(*args: Any) -> OperandType:
    """Dtype and weak type of what is made of the values, or dtypes, `args`.

    Raises: TypePromotionError if there is none.

    >>> lattice_result_type(np.int8(1), 2), lattice_result_type(1, 2.0)
    ((dtype('int8'), False), (dtype('float32'), True))
    """
    return promote(tuple(map(dtype_and_weak_type, args)))


def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """Dtype of what is made of the values, or dtypes, `args`; None is the default float.

    With `return_weak_type_flag`, gives the weak type, too.

    Raises: TypePromotionError if there is none; DtypeError without arguments.

    >>> result_type(np.int8(1), 2.0), result_type("uint8", "int8")
    (dtype('float32'), dtype('int16'))
    """
    if not args:
        raise ValueError("result_type: needs at least one value or dtype.")
    result = lattice_result_type(*(default_float_dtype() if arg is None else arg for arg in args))
    dtype = canonicalize_dtype(result[0], allow_extended_dtype=True)
    return (dtype, result[1]) if return_weak_type_flag else dtype


def safe_to_cast(source: Any, target: Any) -> bool:
    """Whether promotion would give the value or dtype `source` the dtype of `target`.

    >>> safe_to_cast("int8", "int16"), safe_to_cast("float32", "int32"), safe_to_cast(1, "int8")
    (True, False, True)
    """
    target_type = dtype_and_weak_type(target)
    return promote((dtype_and_weak_type(source), target_type))[0] == target_type[0]


def _no_common_dtype(nodes: list[Node], *, is_strict: bool) -> TypePromotionError:
    names = [f"{node.__name__} (weak)" if node in _WEAK_NODES else str(node) for node in nodes]
    if is_strict:
        why = "In strict promotion mode, dtypes must be equal"
    elif any(node in NARROW_FLOATS for node in nodes):
        why = "Floating dtypes of 8 bits and fewer aren't promoted"
    else:
        why = "Integer dtypes of fewer than 8 bits aren't promoted"
    return TypePromotionError(
        f"No implicit promotion between {', '.join(names[:-1])} and {names[-1]}.",
        do=f"{why}: convert explicitly, for example with `x.astype('float32')`.",
    )
