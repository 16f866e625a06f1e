"""Python numbers with a dtype and a shape: the form in which derivative rules receive numbers that they saved."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from pellucid._machine.base import dtypes
from pellucid._machine.ir import shaped_array
from pellucid._machine.tracing.operands import type_handlers


class _Typed:
    """Attributes of a number as a weakly typed array without dimensions."""

    shape = ()
    ndim = 0
    size = 1
    weak_type = True
    _dtype: np.dtype | None

    def __new__(cls, value: Any, dtype: Any = None) -> Self:
        number: Any = super().__new__(cls, value)  # pyright: ignore[reportCallIssue]  # int's, float's or complex's
        number._dtype = None if dtype is None else dtypes.canonicalize(np.dtype(dtype))
        return number

    @property
    def dtype(self) -> np.dtype:
        """The stated dtype, or the default dtype of numbers of its kind."""
        return self._dtype or dtypes.python_scalar_dtype(type(self).__mro__[2])

    def __reduce__(self) -> Any:
        return type(self), (type(self).__mro__[2](self), self._dtype)


class TypedInt(_Typed, int):
    """An integer with a dtype; otherwise an `int`.

    >>> TypedInt(3).dtype, TypedInt(3, np.int8).dtype, TypedInt(3) + 1
    (dtype('int32'), dtype('int8'), 4)
    """


class TypedFloat(_Typed, float):
    """A floating number with a dtype; otherwise a `float`.

    >>> TypedFloat(1.5).dtype, TypedFloat(1.5) * 2
    (dtype('float32'), 3.0)
    """


class TypedComplex(_Typed, complex):
    """A complex number with a dtype; otherwise a `complex`.

    >>> TypedComplex(1j).dtype
    dtype('complex64')
    """


_CLASSES: dict[type, type] = {int: TypedInt, float: TypedFloat, complex: TypedComplex}
for _class in _CLASSES.values():
    type_handlers[_class] = lambda x: shaped_array((), x.dtype, True)


def with_array_dtype(x: Any) -> Any:
    """`x` with the dtype that it has as an array: Python numbers get one, NumPy's arrays lose 64 bits where they are off.

    >>> with_array_dtype(2.0).dtype, with_array_dtype(np.ones(1)).dtype, with_array_dtype(True)
    (dtype('float32'), dtype('float32'), True)
    """
    number_class = _CLASSES.get(type(x))
    if number_class is not None:
        return number_class(x)
    if isinstance(x, (np.ndarray, np.generic)):
        return x.astype(dtypes.canonicalize(x.dtype), copy=False)
    return x


__all__ = ["TypedComplex", "TypedFloat", "TypedInt", "with_array_dtype"]
