"""Types that annotations of public functions name."""

from __future__ import annotations

from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from pellucid.xla.arrays import Array

ArrayLike: TypeAlias = Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex  # pyright: ignore[reportInvalidTypeForm]
"""Arguments of array functions: arrays, NumPy arrays and scalars, Python numbers. Not lists."""


@runtime_checkable
class SupportsDType(Protocol):
    """Something that has a dtype."""

    @property
    def dtype(self) -> np.dtype: ...


DTypeLike: TypeAlias = str | type | np.dtype | SupportsDType
"""Names of dtypes; None is none."""
