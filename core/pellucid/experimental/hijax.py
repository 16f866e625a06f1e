"""Types and primitives of values that are no arrays, under the names of `jax.experimental.hijax`.

Libraries define them when they are imported, and use them on request only. Here their primitives run outside of traces,
by `impl`; programs hold arrays alone, so that values of such types are refused where a trace would begin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from pellucid.base.errors import UnsupportedError
from pellucid.base.typing import Function
from pellucid.ir.avals import AbstractRef, AbstractValue, ShapedArray
from pellucid.ir.rules import Effect, Zero, is_linear as is_undefined_primal
from pellucid.refs.access import RefView as TransformedRef
from pellucid.tracing.current import context
from pellucid.tracing.trace import Tracer, is_array_like, type_of
from pellucid.transforms.zeros import instantiate as instantiate_zeros


def _refused(what: str) -> UnsupportedError:
    return UnsupportedError(
        f"{what}: programs hold arrays, and no values of other types.",
        do="Give the program the arrays that the value consists of, as a pytree.",
    )


class HiType(AbstractValue):
    """Base class of types of values that consist of arrays.

    >>> issubclass(MutableHiType, HiType)
    True
    """

    has_qdd = False

    def lo_ty(self) -> list[ShapedArray]:
        """The types of the arrays that a value consists of; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__}.lo_ty")


class MutableHiType(HiType):
    """Base class of types of values that change in place.

    >>> MutableHiType.has_qdd
    True
    """

    has_qdd = True


class HiPspec:
    """Base class of placements of such values.

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
    """A type together with what is known of a value's present state.

    >>> AvalQDD(pl.typeof(1.0), None).qdd is None
    True
    """

    aval: AbstractValue
    qdd: Any


@dataclass(frozen=True)
class AvalMutableQDD:
    """A type together with a cell for what is known of a value's present state.

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


class HiPrimitive:
    """A primitive of values that are no arrays; `impl(*operands, **params)` runs it outside of traces.

    Raises: UnsupportedError, by `bind`, under a trace.

    >>> class Pair(HiPrimitive):
    ...     def impl(self, x, y):
    ...         return x, y
    >>> Pair("pair").bind(1, 2)
    (1, 2)
    """

    multiple_results = False

    def __init__(self, name: str) -> None:
        self.name = name

    def impl(self, *operands: Any, **params: Any) -> Any:
        """The result outside of traces; subclasses define it."""
        raise NotImplementedError(f"{self.name}.impl")

    def bind(self, *operands: Any, **params: Any) -> Any:
        """The result of `impl`."""
        if not context.trace.is_eager:
            raise _refused(f"`{self.name}` can't be part of a program")
        return self.impl(*operands, **params)

    def __repr__(self) -> str:
        return self.name


class VJPHiPrimitive:
    """Base class of operations on pytrees with derivatives of their own.

    Raises: UnsupportedError when it is called.

    >>> VJPHiPrimitive()(1.0)
    Traceback (most recent call last):
        ...
    pellucid.base.errors.UnsupportedError: `VJPHiPrimitive` isn't supported.
      Write the function with `custom_vjp`, which takes pytrees, too.
    """

    def __call__(self, *args: Any) -> NoReturn:
        raise UnsupportedError(
            f"`{type(self).__name__}` isn't supported.",
            do="Write the function with `custom_vjp`, which takes pytrees, too.",
        )


class _AllowedEffects:
    """Kinds of effects that may stand in loops and branches."""

    def add_type(self, effect_type: type[Effect]) -> None:
        """Allow effects of this class."""
        effect_type.control_flow_allowed = True

    def contains(self, effect: Effect) -> bool:
        """Whether `effect` is allowed."""
        return effect.control_flow_allowed


control_flow_allowed_effects = _AllowedEffects()
_types: dict[type, Callable[[Any], AbstractValue]] = {}


def register_hitype(val_cls: type, typeof_fn: Callable[[Any], AbstractValue]) -> None:
    """Note that values of class `val_cls` have the type `typeof_fn(value)`.

    They are refused as operands all the same.

    >>> register_hitype(type("Pair", (), {}), lambda pair: HiType())
    """
    _types[val_cls] = typeof_fn


def cur_qdd(x: Any) -> Any:
    """State of a value of a mutable type, which its method `cur_qdd` returns.

    Raises: UnsupportedError for other values.

    >>> class Cell:
    ...     def cur_qdd(self):
    ...         return "empty"
    >>> cur_qdd(Cell())
    'empty'
    """
    state = None if isinstance(x, Tracer) else getattr(x, "cur_qdd", None)
    if state is None:
        raise UnsupportedError(
            "cur_qdd takes a value of a mutable type, outside of programs.",
            got=type_of(x).text() if is_array_like(x) else type(x).__name__,
        )
    return state()


__all__ = [
    "AbstractValue", "AvalMutableQDD", "AvalQDD", "HiPrimitive", "HiPspec", "HiType", "MutableHiType",
    "VJPHiPrimitive", "Zero", "aval_method", "aval_property",
    "control_flow_allowed_effects", "instantiate_zeros", "is_undefined_primal", "register_hitype",
]  # fmt: skip
