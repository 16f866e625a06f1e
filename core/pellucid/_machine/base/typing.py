"""Types that annotations name in many modules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from pellucid._machine.xla import Array

ArrayLike: TypeAlias = Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex
"""Arguments of array functions: arrays, NumPy arrays and scalars, Python numbers. Not lists."""


@runtime_checkable
class SupportsDType(Protocol):
    """Something that has a dtype."""

    @property
    def dtype(self) -> np.dtype: ...


DTypeLike: TypeAlias = str | type | np.dtype | SupportsDType
"""Names of dtypes; None is none."""

StaticScalar: TypeAlias = bool | int | float | complex | np.bool_ | np.number
"""A number that is known when tracing."""
Keywords: TypeAlias = dict[str, Any]
"""Arguments of a call that are given by name."""
Names: TypeAlias = tuple[str, ...]
"""Names of arguments, of parameters or of dimensions."""
Shape: TypeAlias = tuple[int, ...]
"""The sizes of an array's dimensions, or one integer for each of them."""
Axes: TypeAlias = tuple[int, ...]
"""Some dimensions of an array, counted from the front."""
Ints: TypeAlias = Sequence[int]
"""Sizes, axes or indices, as users pass them."""
Function: TypeAlias = Callable[..., Any]
"""A function of any arguments."""
Unary: TypeAlias = Callable[[Any], Any]
"""A function of one argument."""
Binary: TypeAlias = Callable[[Any, Any], Any]
"""A function of two arguments."""
