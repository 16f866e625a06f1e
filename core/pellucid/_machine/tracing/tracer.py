"""Tracers, which represent values of a program that is being traced."""

# Tracers and their traces share attributes with private names.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ConcretizationTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    call_site_of,
    is_loaded,
)
from pellucid._machine.ir import (
    Described,
)
from pellucid._machine.xla import ArrayImpl, set_tracer_class

from .array_methods import add_late_methods, late_attribute
from .operands import value_types


class Tracer(Described):
    """A value of type `aval` under `trace`. Its operators and methods are those of the NumPy API.

    >>> def f(x):
    ...     print(isinstance(x, pl.core.Tracer), x)
    ...     return x * 2
    >>> pl.jit(f)(1.5)
    True StagingTracer(~float32[])
    Array(3., dtype=float32, weak_type=True)
    """

    __slots__ = ("_trace", "aval", "__weakref__")
    __array_priority__ = 1000
    __hash__ = None  # type: ignore[assignment]

    _trace: Any

    def __init__(self, trace: Any, aval: Any) -> None:
        self._trace = trace
        self.aval = aval

    def __init_subclass__(cls) -> None:
        value_types.add(cls)

    def _is_traced_array(self) -> bool:
        """Called by C++ for `isinstance(tracer, Array)`."""
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
        """The concrete value; None if the trace has none."""
        return None

    def ask_for(self, use: str, kind: type[ConcretizationTypeError], do: str) -> Any:
        """The value, if it can be computed for Python, which needs it as `use`; else None.

        Raises: `kind` if it has no single value, because it differs between devices.
        """
        return None

    def transformed(self) -> Any:
        """The value of the enclosing trace that this one transforms, for example a whole batch; None if there is none."""
        return None

    def origin(self) -> str | None:
        """Place where the value was made, for error messages."""
        value = self.transformed()
        return value.origin() if isinstance(value, Tracer) else None

    def argument_name(self) -> str | None:
        """Name of the value as an argument of a traced or transformed function; None if it isn't one."""
        name, value = self._trace.name_of_argument(self), self.transformed()
        return value.argument_name() if name is None and isinstance(value, Tracer) else name

    def only_argument(self) -> str | None:
        """Name of the only argument of a traced function that the value was computed from; None if there are several."""
        value = self.transformed()
        return value.only_argument() if isinstance(value, Tracer) else None

    def batches(self) -> tuple[int, ...]:
        """Sizes of the batches of which the value is one element, innermost first."""
        value = self.transformed()
        return value.batches() if isinstance(value, Tracer) else ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.aval}{self.details()})"

    def details(self) -> str:
        """Additional text of a tracer's `repr`, after the type."""
        return ""

    # Conversions to concrete values ---------------------------------------------------------------

    def _concrete_value(self, use: str, kind: type[ConcretizationTypeError], do: str) -> Any:
        """The concrete value, needed as `use`; raises an error of class `kind` if the trace has none."""
        value = self.concrete()
        if value is None:
            value = self.ask_for(use, kind, do)
        if value is None:
            got = traced_lines(self)
            call = call_site_of(self)
            if call is not None:
                function, parameter, line = call
                raise kind(
                    f"`{function}` needs to know `{parameter}` when the program is traced, and was given a traced array.",
                    got=got,
                    where=line,
                    do="Pass a value that is known, or mark the argument that it comes from as static.",
                )
            raise kind(
                f"a traced array was used as {use}, but its value is known only when the program runs.",
                got=got,
                do=do,
            )
        return value

    def _scalar(self, use: str, kind: type[ConcretizationTypeError], do: str) -> Any:
        if self.aval.shape != () and self.aval.size != 1:
            raise TypeError(
                f"only arrays with one element can be used as {use}, got {self.aval.text()}."
            )
        return self._concrete_value(use, kind, do)

    def __bool__(self) -> bool:
        if self.aval.shape != () and self.aval.size != 1:
            raise ValueError(
                f"the truth value of an array with more than one element is ambiguous: "
                f"{self.aval.text()}. Use `.any()` or `.all()`."
            )
        do = "Use `lax.cond` or `jnp.where` instead of `if`, or mark the argument static."
        return bool(self._scalar("a Python bool", TracerBoolConversionError, do))

    def __int__(self) -> int:
        do = "Use `.astype(int)`, or mark the argument static."
        return int(self._scalar("a Python int", TracerIntegerConversionError, do))

    def __index__(self) -> int:
        do = "Use `lax.dynamic_slice` or `x[i]` with a traced `i`, or mark the argument static."
        return self._scalar("a Python index", TracerIntegerConversionError, do).__index__()

    def __float__(self) -> float:
        do = "Use `.astype(float)`, or mark the argument static."
        return float(self._scalar("a Python float", ConcretizationTypeError, do))

    def __complex__(self) -> complex:
        do = "Use `.astype(complex)`, or mark the argument static."
        return complex(self._scalar("a Python complex", ConcretizationTypeError, do))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        do = "Use the functions of `jnp` instead of NumPy's."
        return np.asarray(
            self._concrete_value("a NumPy array", TracerArrayConversionError, do), dtype=dtype
        )

    def tolist(self) -> Any:
        return self.__array__().tolist()

    def item(self, *index: int) -> Any:
        return self.__array__().item(*index)

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    def __reduce__(self) -> Any:
        raise ConcretizationTypeError(
            "a traced array can't be pickled: it belongs to its trace.",
            got=traced_lines(self),
            do="Pickle values outside of the traced function.",
        )


def origin_lines(x: Any) -> list[str]:
    """Line of an error message with the place where the traced value `x` was made; empty if unknown."""
    origin = x.origin() if isinstance(x, Tracer) else None
    return [f"made at {origin}"] if origin else []


def traced_lines(x: Tracer) -> list[str]:
    """Lines of an error message about a traced value: type, and place where it was made."""
    return [f"got {x.aval.text()}", *origin_lines(x)]


def is_concrete(x: Any) -> bool:
    """Whether the value of `x` is known now; for traced values only under eager transformations.

    >>> is_concrete(3.0)
    True
    """
    return not isinstance(x, Tracer) or x.concrete() is not None


def concrete_or_error(force: Any, val: Any, context: str = "") -> Any:
    """`force(val)`, or `val` if `force` is None. `context` is put into the error message: what needs the value.

    Raises: ConcretizationTypeError for a value that is known only when the program runs.

    >>> concrete_or_error(int, np.float32(3))
    3
    """
    if isinstance(val, Tracer):
        do = context or "Mark the argument static."
        val = val._concrete_value("a known value", ConcretizationTypeError, do)
    return val if force is None else force(val)


set_tracer_class(Tracer)
add_late_methods(Tracer)
