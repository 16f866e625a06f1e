"""Types of values that consist of arrays, under the names of `jax.experimental.hijax`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid._machine.base.errors import ArgumentTypeError, MissingRule, UnsupportedError
from pellucid._machine.base.typing import Function
from pellucid._machine.higher_order.custom_rules import SymbolicZero
from pellucid._machine.ir.avals import AbstractValue, ShapedArray
from pellucid._machine.ir.effects import Effect
from pellucid._machine.ir.rules import Zero
from pellucid._machine.primitives.creation import instantiate
from pellucid._machine.tracing.operands import is_array_like, type_of
from pellucid._machine.tracing.tracer import Tracer
from pellucid._machine.xla import pytree

_CARRIERS = "_pellucid_tangent_carriers"
"""Attribute of a traced value whose tangent consists of other arrays than the value: zeros with these tangents."""


class HiType(AbstractValue):
    """Base class of types of values that consist of arrays.

    Subclasses define `lo_ty()`, the types of the arrays, `lower_val(value)`, a list of the arrays, `raise_val(*arrays)`, the
    value, and `to_tangent_aval()`, the type of a tangent, which may be that of an array. Types are compared by `==`.

    >>> issubclass(MutableHiType, HiType)
    True
    """

    has_qdd = False
    is_high = True

    def lo_ty(self) -> list[ShapedArray]:
        """The types of the arrays that a value consists of; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__}.lo_ty")

    def lower_val(self, hi_val: Any) -> list[Any]:
        """The arrays that a value consists of; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__}.lower_val")

    def raise_val(self, *lo_vals: Any) -> Any:
        """The value that consists of `lo_vals`; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__}.raise_val")

    def to_tangent_aval(self) -> AbstractValue:
        """Type of a tangent of a value of this type; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__}.to_tangent_aval")

    def tangent(self):
        return self.to_tangent_aval()

    def to_ct_aval(self) -> AbstractValue:
        """Type of cotangents of values of this type; by default that of tangents."""
        return self.to_tangent_aval()

    def str_short(self, short_dtypes=False):
        return type(self).__name__


class MutableHiType(HiType):
    """Base class of types of values that change in place.

    What is known of the present state of a value, `cur_qdd(value)`, may change with it. Subclasses define
    `lo_ty_qdd(state)`, the types of the arrays of a value in that state, `read_loval(state, value)`, a list of them,
    `new_from_loval(state, *arrays)`, a new value, and `update_from_loval(state, value, *arrays)`, which changes one.

    >>> MutableHiType.has_qdd
    True
    """

    has_qdd = True

    def lo_ty_qdd(self, state: Any, /) -> list[ShapedArray]:
        """The types of the arrays of a value in `state`; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__}.lo_ty_qdd")

    def read_loval(self, state: Any, val: Any, /) -> list[Any]:
        """The arrays of `val`, which is in `state`; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__}.read_loval")

    def new_from_loval(self, state: Any, /, *vals: Any) -> Any:
        """A new value in `state` that consists of the arrays `vals`; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__}.new_from_loval")

    def update_from_loval(self, state: Any, val: Any, /, *lo_vals: Any) -> None:
        """Bring `val` into `state`, where it consists of the arrays `lo_vals`; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__}.update_from_loval")


class HiPspec:
    """Base class of placements of values whose type is a `HiType`.

    >>> HiPspec().to_lo()
    Traceback (most recent call last):
        ...
    NotImplementedError: HiPspec.to_lo
    """

    def to_lo(self) -> Any:
        """The placements of the arrays; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__}.to_lo")


@dataclass(frozen=True)
class AvalQDD:
    """A type together with the known state of a value.

    >>> AvalQDD(pl.typeof(1.0), None).qdd is None
    True
    """

    aval: AbstractValue
    qdd: Any


@dataclass(frozen=True)
class AvalMutableQDD:
    """A type together with a mutable cell for the known state of a value.

    >>> AvalMutableQDD(pl.typeof(1.0), None).mutable_qdd is None
    True
    """

    aval: AbstractValue
    mutable_qdd: Any


@dataclass
class aval_property:
    """An attribute of tracers that `fget(tracer)` computes.

    >>> aval_property(fget=len).fget("ab")
    2
    """

    fget: Function


@dataclass
class aval_method:
    """A method of tracers, which is `fun(tracer, ...)`.

    >>> aval_method(len).fun("ab")
    2
    """

    fun: Function


class _AllowedEffects:
    """Kinds of effects that may stand in loops and branches."""

    def add_type(self, effect_type: type[Effect]) -> None:
        """Allow effects of this class."""
        effect_type.control_flow_allowed = True

    def contains(self, effect: Effect) -> bool:
        """Whether `effect` is allowed."""
        return effect.control_flow_allowed


control_flow_allowed_effects = _AllowedEffects()


def register_hitype(val_cls: type, typeof_fn: Callable[[Any], AbstractValue]) -> None:
    """Note that values of class `val_cls` have the type `typeof_fn(value)`.

    Traced functions, loops and branches take such values as arguments and give them as results, by the arrays that they
    consist of; functions of trees take them for leaves. Their tangents and cotangents, which `jvp` takes and `grad` gives,
    are of the type that `to_tangent_aval()` states. A class with a method `cur_qdd` or `type_state` is one of values
    that change in place: they may be arguments of jitted functions, and be captured by any.

    Raises: ArgumentTypeError for a class that is registered already, here or as a pytree node.

    >>> class Pair:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    >>> class PairType(HiType):
    ...     def lo_ty(self):
    ...         return [pl.typeof(0.0)] * 2
    ...     def lower_val(self, pair):
    ...         return [pair.x, pair.y]
    ...     def raise_val(self, x, y):
    ...         return Pair(x, y)
    ...     def __eq__(self, other):
    ...         return type(other) is PairType
    ...     def __hash__(self):
    ...         return 0
    >>> register_hitype(Pair, lambda pair: PairType())
    >>> pair = pl.jit(lambda p: Pair(p.y, p.x + 1))(Pair(1.0, 2.0))
    >>> float(pair.x), float(pair.y)
    (2.0, 2.0)
    """
    if val_cls in pytree.library_types or pytree.is_registered(val_cls):
        raise ArgumentTypeError(
            "register_hitype: the class is registered already.", got=f"got {val_cls.__name__}"
        )
    pytree.library_types[val_cls] = typeof_fn
    if hasattr(val_cls, "cur_qdd") or hasattr(val_cls, "type_state"):
        return
    pytree.opaque_types[val_cls] = pytree.TangentForm(tangent_of, tangent_arrays)
    pytree.register_node(val_cls, _children, _raise_children)


def _children(value: Any) -> tuple[list[Any], AbstractValue]:
    hi_type = pytree.library_types[type(value)](value)
    return [*hi_type.lower_val(value), *carriers(value, hi_type)], hi_type


def _raise_children(hi_type: Any, children: Sequence[Any]) -> Any:
    return raise_value(hi_type, children)


def hi_type_of(x: Any) -> Any:
    """The type of `x`, an array or a value of a registered class."""
    handler = pytree.library_types.get(type(x))
    return type_of(x) if handler is None else handler(x)


def is_value(x: Any) -> bool:
    """Whether `x` is an array or a value of a registered class."""
    return type(x) in pytree.library_types or is_array_like(x)


# Arrays of a value, and of its tangent --------------------------------------------------------------------


def own_types(hi_type: Any) -> list[Any]:
    """Types of the arrays in a value of `hi_type`; an array type is its own."""
    return hi_type.lo_ty() if isinstance(hi_type, HiType) else [hi_type]


def tangent_type(hi_type: Any) -> Any:
    """Type of tangents of values of `hi_type`; None where it has none."""
    try:
        return hi_type.to_tangent_aval()
    except NotImplementedError:
        return None


def carrier_types(hi_type: Any) -> list[Any]:
    """Types of the arrays of a tangent, where they aren't the tangents of the value's arrays; [] where they are."""
    tangent = tangent_type(hi_type) if isinstance(hi_type, HiType) else None
    if tangent is None or own_types(tangent) == [aval.tangent() for aval in own_types(hi_type)]:
        return []
    return own_types(tangent)


def carriers(value: Any, hi_type: Any) -> list[Any]:
    """Zeros of `carrier_types(hi_type)`, whose tangents are those of `value`."""
    carried = getattr(value, _CARRIERS, None)
    if carried is None:
        return [zeros_of(aval) for aval in carrier_types(hi_type)]
    return carried


def zeros_of(aval: Any) -> np.ndarray:
    """Zeros of a type, also of float0, in the memory of one element."""
    return np.broadcast_to(np.zeros((), aval.dtype), aval.shape)


def lower_value(value: Any, hi_type: Any) -> list[Any]:
    """The arrays of `value`, and its carriers."""
    if not isinstance(hi_type, HiType):
        return [value]
    return [*hi_type.lower_val(value), *carriers(value, hi_type)]


def raise_value(hi_type: Any, arrays: Sequence[Any]) -> Any:
    """The value of `hi_type` that `lower_value` gives `arrays` of.

    Raises: UnsupportedError where derivatives need an attribute that the value's class has no room for.
    """
    if not isinstance(hi_type, HiType):
        return arrays[0]
    n = len(hi_type.lo_ty())
    value = hi_type.raise_val(*arrays[:n])
    carried = list(arrays[n:])
    if any(isinstance(x, Tracer) for x in carried):
        try:
            object.__setattr__(value, _CARRIERS, carried)
        except AttributeError:
            raise UnsupportedError(
                f"a traced value of class {type(value).__name__} has no room for its tangent.",
                do="Give the class a `__dict__`: its `__slots__` leave no room for another attribute.",
            ) from None
    return value


def tangent_of(hi_type: Any, tangents: Sequence[Any]) -> Any:
    """The tangent of a value, of tangents of its arrays and carriers.

    Raises: MissingRule where values of `hi_type` have no tangents.
    """
    if not isinstance(hi_type, HiType):
        return tangents[0]
    kind, n = _known_tangent_type(hi_type), len(carrier_types(hi_type))
    return raise_value(kind, tangents[len(tangents) - n :] if n else tangents)


def tangent_arrays(hi_type: Any, tangent: Any) -> list[Any]:
    """The arrays in the tangent of a value of `hi_type`, one for each of its arrays and carriers; zeros for a symbolic zero.

    Raises: MissingRule where values of `hi_type` have no tangents; ArgumentTypeError for a tangent of another type.
    """
    if not isinstance(hi_type, HiType):
        return [instantiate(tangent)]
    kind = _known_tangent_type(hi_type)
    if type(tangent) in (Zero, SymbolicZero):
        arrays = [zeros_of(aval) for aval in own_types(kind)]
    elif isinstance(kind, HiType) and is_value(tangent) and hi_type_of(tangent) == kind:
        arrays = kind.lower_val(tangent)
    elif not isinstance(kind, HiType) and is_array_like(tangent):
        arrays = [tangent]
    else:
        raise ArgumentTypeError(
            f"a tangent or cotangent doesn't have the type that {type(hi_type).__name__}.to_tangent_aval() states.",
            got=f"got {type(tangent).__name__}, expected {kind if isinstance(kind, HiType) else kind.text()}",
        )
    if not carrier_types(hi_type):
        return arrays
    return [*(zeros_of(aval.tangent()) for aval in own_types(hi_type)), *arrays]


def zero_tangent(hi_type: Any) -> Any:
    """The zero tangent of values of `hi_type`, which may be an array type."""
    if not isinstance(hi_type, HiType):
        return zeros_of(hi_type.tangent())
    kind = _known_tangent_type(hi_type)
    return raise_value(kind, [zeros_of(aval) for aval in own_types(kind)])


def _known_tangent_type(hi_type: Any) -> Any:
    kind = tangent_type(hi_type)
    if kind is None:
        raise MissingRule(
            f"values of type {hi_type} have no tangents.",
            do=f"Define `{type(hi_type).__name__}.to_tangent_aval()`.",
        )
    return kind
