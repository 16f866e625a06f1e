"""Facts about dtypes that tracing and lowering ask for constantly; each is one dict lookup."""

from typing import Any

import numpy as np

from pellucid.xla import flags

from .catalog import COMPLEXES, FLOATS
from .extended import ExtendedDType, float0

INEXACT = frozenset((*FLOATS, *COMPLEXES))
NARROWED = {
    np.dtype(wide): np.dtype(narrow)
    for wide, narrow in (
        ("int64", "int32"), ("uint64", "uint32"), ("float64", "float32"), ("complex128", "complex64"),
    )
}  # fmt: skip
"""The 32-bit dtype of each 64-bit one."""
_x64 = flags.enable_x64


def is_inexact(dtype: Any) -> bool:
    """Whether values of `dtype` are floating or complex, so that they have derivatives."""
    return dtype in INEXACT


def tangent_dtype(dtype: Any) -> np.dtype:
    """Dtype of tangents of values of `dtype`: its own where it is floating or complex, else float0.

    >>> tangent_dtype(np.dtype(np.int32)), tangent_dtype(np.dtype(np.float32))
    (dtype([('float0', 'V')]), dtype('float32'))
    """
    return dtype if dtype in INEXACT else float0


def canonicalize(dtype: Any) -> Any:
    """`dtype`, narrowed to 32 bits where 64-bit types are off."""
    return dtype if _x64.value else NARROWED.get(dtype, dtype)


def item_bytes(dtype: Any) -> int:
    """Bytes of one element on a device's host side."""
    return (dtype if isinstance(dtype, ExtendedDType) else np.dtype(dtype)).itemsize
