"""Type aliases for annotations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from pellucid._machine.xla import Array

ArrayLike: TypeAlias = Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex
"""Arguments of array functions: arrays, NumPy arrays and scalars, Python numbers; no lists."""


@runtime_checkable
class SupportsDType(Protocol):
    """Something that has a dtype."""

    @property
    def dtype(self) -> np.dtype: ...


DTypeLike: TypeAlias = str | type | np.dtype | SupportsDType
"""Everything that specifies a dtype; None doesn't."""

StaticScalar: TypeAlias = bool | int | float | complex | np.bool_ | np.number
"""A number that is known at trace time."""
Keywords: TypeAlias = dict[str, Any]
"""Keyword arguments of a call."""
Names: TypeAlias = tuple[str, ...]
"""Names of arguments, of parameters or of dimensions."""
Shape: TypeAlias = tuple[int, ...]
"""Sizes of an array's dimensions, or another integer per dimension."""
Axes: TypeAlias = tuple[int, ...]
"""Dimensions of an array, counted from 0."""
Ints: TypeAlias = Sequence[int]
"""Sizes, axes or indices, as users pass them."""
Function: TypeAlias = Callable[..., Any]
"""A function with any arguments."""
Unary: TypeAlias = Callable[[Any], Any]
"""A function of one argument."""
Binary: TypeAlias = Callable[[Any, Any], Any]
"""A function of two arguments."""
