"""Values that primitives accept as operands, and their types."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    Shape,
    Symbol,
    cached,
    dtypes,
    users_function,
)
from pellucid._machine.base.narrowing import is_host_array, is_numpy_scalar
from pellucid._machine.ir import (
    AbstractValue,
    Literal,
    Operands,
    shaped_array,
)
from pellucid._machine.xla import ARRAY_TYPES, ArrayImpl, flags

from .current import bottom, context

DTYPES_OF_NUMBERS = {
    bool: (np.bool_, np.bool_), int: (np.int32, np.int64), float: (np.float32, np.float64),
    complex: (np.complex64, np.complex128),
}  # fmt: skip
"""Dtypes of Python numbers: (64-bit types disabled, enabled)."""

_x64 = flags.enable_x64


def type_of_numpy(x: Any) -> AbstractValue:
    """The aval of a NumPy array or scalar; raises ArgumentTypeError for dtypes that arrays can't have."""
    return _type_of_shape(x.shape, x.dtype, _x64.value)


@cached(4096)
def _type_of_shape(shape: Shape, dtype: np.dtype, _is_x64: bool) -> AbstractValue:
    if dtype not in dtypes.SUPPORTED:
        raise ArgumentTypeError(
            f"arrays can't have NumPy's dtype {dtype}.",
            got=f"a NumPy array of dtype {dtype} and shape {shape}",
            do="Use a boolean, integer, floating or complex dtype in the machine's byte order.",
        )
    return shaped_array(shape, dtypes.canonicalize(dtype), False)


def refuse_masked_array(x: np.ma.MaskedArray) -> NoReturn:
    """Raises ArgumentValueError for a NumPy masked array, whose mask would be lost."""
    raise ArgumentValueError(
        "numpy masked arrays are not supported: the mask would be lost.",
        got=f"got {type(x).__name__} of dtype {x.dtype} and shape {x.shape}",
        do="Pass an array without a mask, `x.filled(value)`, or `x.data` and `~x.mask` as `where`.",
    )


def without_mask(x: np.ma.MaskedArray) -> np.ndarray:
    """The data of a NumPy masked array; raises ArgumentValueError if an element is masked."""
    if np.ma.is_masked(x):
        refuse_masked_array(x)
    return x.data


value_types: set[type] = {*ARRAY_TYPES}
"""Types of arrays and tracers. Tracer classes add themselves."""


def _number_handler(kind: type) -> Callable[[Any], AbstractValue]:
    """Handler for Python numbers of type `kind` and its subclasses, such as enumerations."""
    narrow, wide = (
        shaped_array((), np.dtype(dtype), kind is not bool) for dtype in DTYPES_OF_NUMBERS[kind]
    )
    return lambda x: wide if _x64.value else narrow


type_handlers: dict[type, Callable[[Any], AbstractValue]] = {
    ArrayImpl: lambda x: x.aval,
    **{kind: _number_handler(kind) for kind in DTYPES_OF_NUMBERS},
    np.ndarray: type_of_numpy,
    np.ma.MaskedArray: refuse_masked_array,
    Symbol: _number_handler(int),
}
"""Functions that compute the aval of an operand, by operand type. Other layers add entries at import."""


def type_of(x: Any) -> Any:
    """The aval of `x`, a `ShapedArray` for arrays; raises ArgumentTypeError for values that are not arrays.

    >>> type_of(np.ones(3, np.float32))
    ShapedArray(float32[3])
    """
    try:
        return x.aval
    except AttributeError:
        pass
    handler = type_handlers.get(type(x))  # pyright: ignore[reportUnknownArgumentType]  # of any value
    if handler is None:
        handler = _handler_for(x)
    return handler(x)


def as_type(value: Any, aval: AbstractValue) -> Any:
    """`value` with type `aval`: a host number whose dtype has changed since `aval` was computed becomes an array.

    Dtypes of host numbers depend on `enable_x64`, which may have been changed.
    """
    if hasattr(value, "aval") or getattr(type_of(value), "dtype", None) == aval.dtype:  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # None differs from it
        return value
    return bottom().number(value, aval)


def value_of_literal(literal: Literal) -> Any:
    """The value of a literal, with its type in the program."""
    return as_type(literal.val, literal.aval)


def at_full_width(operands: Operands) -> Operands:
    """Converts NumPy operands to 64-bit arrays if another operand is an array with that 64-bit dtype.

    With 64-bit types disabled, NumPy values count as 32 bits wide; next to 64-bit arrays they keep their full
    precision.
    """
    if _x64.value:
        return operands
    wide = {x.aval.dtype for x in operands if hasattr(x, "aval")} & dtypes.NARROWED.keys()
    are_wide = [is_host_array(x) and x.dtype in wide for x in operands]
    if not any(are_wide):
        return operands
    return tuple(
        bottom().number(x, shaped_array(np.shape(x), x.dtype)) if is_wide else x
        for x, is_wide in zip(operands, are_wide, strict=True)
    )


def types_of(values: Iterable[Any]) -> list[Any]:
    """The avals of `values`."""
    return [type_of(x) for x in values]


def _handler_for(x: object) -> Callable[[Any], AbstractValue]:
    if is_numpy_scalar(x):  # first, because np.float64 is also a Python float
        type_handlers[type(x)] = type_of_numpy
        return type_of_numpy
    for base in type(x).__mro__:
        if base in type_handlers:
            if base is np.ndarray:
                type_handlers[type(x)] = type_of_numpy
            return type_handlers[base]
    if hasattr(x, "__jax_array__"):
        return lambda value: type_of(as_operand(value))
    raise ArgumentTypeError(
        f"a value of type {type(x).__name__} is not an array.",
        got=f"got {x!r:.80}",
        do="Arrays, NumPy arrays and Python numbers are accepted; convert lists with `jnp.array`.",
    )


def as_operand(x: Any) -> Any:
    """`x`, or the result of its `__jax_array__()`. A symbolic size is accepted like an integer."""
    # Checks the class: wrappers of arrays may forward the attribute `aval`.
    if type(x) in type_handlers or hasattr(type(x), "aval") or isinstance(x, Symbol):  # pyright: ignore[reportUnknownArgumentType]  # of any value
        return x
    method = getattr(x, "__jax_array__", None)
    return x if method is None else as_operand(users_function(method)())


def as_array(x: Any) -> Any:
    """`x` as an array where operations run at once; used by operations that return their operand, which may be a
    number or a NumPy array.

    Within a trace these stay what they are: literals and constants of the program.
    """
    x = as_operand(x)
    if hasattr(x, "aval") or not context.trace.is_eager:
        return x
    return bottom().from_host(x, weak_type=type_of(x).weak_type)


def is_array_like(x: object) -> bool:
    """Whether `type_of(x)` returns an aval.

    >>> is_array_like(1.0), is_array_like("a")
    (True, False)
    """
    # Checks the class: wrappers that forward all attributes to an array aren't arrays.
    if type(x) in type_handlers or hasattr(type(x), "aval") or isinstance(x, np.generic):
        return True
    return any(base in type_handlers for base in type(x).__mro__) or hasattr(x, "__jax_array__")
