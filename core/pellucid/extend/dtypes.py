"""Dtypes of libraries, which have rules of their own."""

from __future__ import annotations

import abc
from typing import Any

from pellucid._machine.base import dtypes


class ExtendedDType(dtypes.ExtendedDType, abc.ABC):
    """Base class of dtypes of libraries, which are hashable and have a `name`, a `type` and an object `_rules`.

    `type` is a subclass of `dtypes.extended`, the category for `issubdtype`. `_rules` has functions:
    `physical_element_aval(dtype)` gives the type of the array that stores an element; `convert_from(dtype, other)` and
    `convert_to(other, dtype)` say whether `convert_element_type` takes values to and from other dtypes that are stored
    alike; `tangent_dtype(dtype)` gives the dtype of tangents. Where that is an extended one, its rules also have
    `zero(dtype)`, a scalar, and `add(dtype, x, y)`, the sum of two tangents. `full(shape, fill_value, dtype)` serves
    `lax.full`.

    >>> import dataclasses, types
    >>> class angle(pl.dtypes.extended):
    ...     pass
    >>> @dataclasses.dataclass(frozen=True)
    ... class AngleDType(ExtendedDType):
    ...     name = "angle"
    ...     type = angle
    ...     _rules = types.SimpleNamespace(
    ...         physical_element_aval=lambda dtype: pl.core.ShapedArray((), np.float32),
    ...         convert_from=lambda dtype, other: other == np.float32,
    ...         convert_to=lambda other, dtype: other == np.float32,
    ...         tangent_dtype=lambda dtype: np.dtype(np.float32),
    ...     )
    >>> angles = pl.lax.convert_element_type(np.ones(2, np.float32), AngleDType())
    >>> pl.typeof(angles.reshape(2, 1))
    ShapedArray(angle[2,1])
    """

    @property
    def base_dtype(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]  # follows from a rule
        """Dtype of the array that stores an element."""
        return self._rules.physical_element_aval(self).dtype

    @property
    def element_shape(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Shape of the array that stores an element."""
        return self._rules.physical_element_aval(self).shape


ExtendedDType.register(dtypes.KeyDType)

__all__ = ["ExtendedDType"]
