"""Tracers: stand-ins for values while a function is traced."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from pellucid.base.errors import (
    ConcretizationError,
    TracerArrayError,
    TracerBoolError,
    TracerIntegerError,
)
from pellucid.base.late import is_loaded
from pellucid.ir.avals import Described
from pellucid.tracing.array_methods import add_late_methods, late_attribute
from pellucid.xla.arrays import ArrayImpl, set_tracer_class


class Tracer(Described):
    """Stands for a value of type `aval` under `trace`. Its operators and methods are the NumPy API's."""

    __slots__ = ("_trace", "aval", "__weakref__")
    __array_priority__ = 1000
    __hash__ = None  # type: ignore[assignment]

    _trace: Any

    def _is_traced_array(self) -> bool:
        """Asked by the C++ side for `isinstance(tracer, Array)`."""
        return hasattr(self.aval, "shape")

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.aval, "methods", {}).get(name) if name != "aval" else None
        if method is None:
            if not is_loaded("array methods"):
                return late_attribute(self, name)
            raise AttributeError(
                f"a traced array has no {name!r}: it has data and a place when the program runs. "
                "`typeof(x)` says what its type shows of them."
                if hasattr(ArrayImpl, name)
                else f"{type(self).__name__!r} object has no attribute {name!r}"
            )
        return functools.partial(method, self)

    def __len__(self) -> int:
        if not self.aval.shape:
            raise TypeError("len() of a 0-dimensional array")
        return self.aval.shape[0]

    def concrete(self) -> Any:
        """The value, where the trace knows it; None otherwise."""
        return None

    def origin(self) -> str | None:
        """Where the value was made, for error messages."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.aval}{self.details()})"

    def details(self) -> str:
        """Text of a tracer of its kind behind the type."""
        return ""

    # Python asks for concrete values --------------------------------------------------------------

    def _refuse(self, kind: type[ConcretizationError], use: str, do: str):
        raise kind(
            f"a traced array was used as {use}, but its value is known only when the program runs.",
            got=[
                f"got {self.aval.text()}",
                *([f"made at {self.origin()}"] if self.origin() else []),
            ],
            do=do,
        )

    def _scalar(self, use: str, convert, kind: type[ConcretizationError], do: str):
        if self.aval.shape != () and self.aval.size != 1:
            raise TypeError(
                f"only arrays with one element can be used as {use}, got {self.aval.text()}."
            )
        value = self.concrete()
        if value is None:
            return self._refuse(kind, use, do)
        return convert(value)

    def __bool__(self) -> bool:
        if self.aval.shape != () and self.aval.size != 1:
            raise ValueError(
                f"the truth value of an array with more than one element is ambiguous: "
                f"{self.aval.text()}. Use `.any()` or `.all()`."
            )
        return self._scalar(
            "a Python bool", bool, TracerBoolError,
            "Use `lax.cond` or `jnp.where` instead of `if`, or mark the argument static.",
        )  # fmt: skip

    def __int__(self) -> int:
        return self._scalar(
            "a Python int", int, TracerIntegerError,
            "Use `.astype(int)`, or mark the argument static.",
        )  # fmt: skip

    def __index__(self) -> int:
        return self._scalar(
            "a Python index", lambda value: value.__index__(), TracerIntegerError,
            "Use `lax.dynamic_slice` or `x[i]` with a traced `i`, or mark the argument static.",
        )  # fmt: skip

    def __float__(self) -> float:
        return self._scalar(
            "a Python float", float, ConcretizationError,
            "Use `.astype(float)`, or mark the argument static.",
        )  # fmt: skip

    def __complex__(self) -> complex:
        return self._scalar(
            "a Python complex", complex, ConcretizationError,
            "Use `.astype(complex)`, or mark the argument static.",
        )  # fmt: skip

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        value = self.concrete()
        if value is None:
            return self._refuse(
                TracerArrayError, "a NumPy array",
                "Use the functions of `pellucid.numpy` instead of NumPy's.",
            )  # fmt: skip
        return np.asarray(value, dtype=dtype)

    def tolist(self) -> Any:
        return self.__array__().tolist()

    def item(self, *index: int) -> Any:
        return self.__array__().item(*index)

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()


def is_concrete(x: Any) -> bool:
    """Whether the value of `x` is known now; of traced values it is only in eager transformations.

    >>> is_concrete(3.0)
    True
    """
    return not isinstance(x, Tracer) or x.concrete() is not None


def concrete_or_error(force: Any, val: Any, context: str = "") -> Any:
    """`force(val)`, or `val` itself where `force` is None; `context` says in the error who needs the value.

    Raises: ConcretizationError for a value that is known only when the program runs.

    >>> concrete_or_error(int, np.float32(3))
    3
    """
    if isinstance(val, Tracer):
        value = val.concrete()
        if value is None:
            val._refuse(
                ConcretizationError, "a known value", context or "Mark the argument static."
            )
        val = value
    return val if force is None else force(val)


set_tracer_class(Tracer)
add_late_methods(Tracer)
