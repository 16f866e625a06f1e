"""Element types as `jax._src.dtypes`."""

from __future__ import annotations

import numpy as np

from pellucid.base.dtypes import TypePromotionError, extended, finfo, supports_inf
from pellucid.extend.dtypes import ExtendedDType

DType = np.dtype

__all__ = ["DType", "ExtendedDType", "TypePromotionError", "extended", "finfo", "supports_inf"]
