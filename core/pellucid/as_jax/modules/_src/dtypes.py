"""Element types as `jax._src.dtypes`."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np

from pellucid.base import dtypes
from pellucid.base.dtypes import TypePromotionError, extended, finfo

DType = np.dtype


class ExtendedDType(abc.ABC):
    """Base of element types that libraries define. Pellucid has its own, and refuses arrays of others."""

    @property
    @abc.abstractmethod
    def type(self) -> Any:
        """The kind of element type, a subclass of `extended`."""


ExtendedDType.register(dtypes.ExtendedDType)

__all__ = ["DType", "ExtendedDType", "TypePromotionError", "extended", "finfo"]
