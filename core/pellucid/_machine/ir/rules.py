"""Types that rules of primitives use: zeros, linear operands, batch axes, and names for lists of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias


class _OfType:
    """Base class of placeholders for values: rules see only their type `aval`."""

    __slots__ = ("aval",)

    def __init__(self, aval: Any) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.aval})"


class Zero(_OfType):
    """A tangent or cotangent known to be zero; `aval` is its own type (not the primal's).

    >>> Zero(pl.typeof(np.float32(1)))
    Zero(float32[])
    """

    __slots__ = ()


class LinearOperand(_OfType):
    """In a transpose rule, the placeholder of an operand whose cotangent is requested.

    >>> LinearOperand(pl.typeof(np.float32(1)))
    LinearOperand(float32[])
    """

    __slots__ = ()


def is_linear(operand: Any) -> bool:
    """Whether a transpose rule must return this operand's cotangent.

    >>> is_linear(pl.interpreters.ad.UndefinedPrimal(pl.typeof(1.0))), is_linear(1.0)
    (True, False)
    """
    return type(operand) is LinearOperand


class BatchAxis(NamedTuple):
    """The axis that `vmap` adds: its size, its name for collectives, its mesh axes."""

    size: int
    name: Any = None
    spmd_name: Any = None
    explicit: Any = None
    """The sharding of the batch dimension that the types of all batched arguments contain; None if they don't."""

    def add_to(self, aval: Any, dim: int) -> Any:
        """Type of a batch, along `dim`, of values of type `aval`."""
        return aval.with_dim(dim, self.size, self.spmd_name, self.explicit)


BatchDim: TypeAlias = int | None
"""Position of the batch axis in a value; None if it has none."""
Operands: TypeAlias = Sequence[Any]
"""Operands of an equation, or its primals, tangents or cotangents: arrays, tracers, numbers; `Zero` where a rule allows
it.
"""
Results: TypeAlias = Sequence[Any]
"""Results of an equation, in order."""
Values: TypeAlias = list[Any]
"""Operands or results in a list that the receiver may modify."""
Mask: TypeAlias = Sequence[bool]
"""A flag per operand or result: whether it has a tangent, is batched or is used."""
Avals: TypeAlias = Sequence[Any]
"""Types of operands or results."""
Dims: TypeAlias = Sequence[BatchDim]
"""Positions of the batch axis, one for each operand or result."""
