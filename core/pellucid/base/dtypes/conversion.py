"""From a dtype to the nearest one of a kind: numeric, floating, inexact or complex."""

import numpy as np

from .catalog import BOOL, KINDS, DType, DTypeLike
from .facts import INEXACT, NARROWED

_F32, _F64, _C64, _C128 = map(np.dtype, ("float32", "float64", "complex64", "complex128"))


def to_inexact_dtype(dtype: DTypeLike) -> DType:
    """`dtype` if it is floating or complex, else the floating dtype of its width.

    >>> to_inexact_dtype("int8"), to_inexact_dtype("int64"), to_inexact_dtype("complex64")
    (dtype('float32'), dtype('float64'), dtype('complex64'))
    """
    dtype = np.dtype(dtype)
    return dtype if dtype in INEXACT else _floating(dtype)


def to_floating_dtype(dtype: DTypeLike) -> DType:
    """`to_inexact_dtype`, and for a complex dtype that of its parts.

    >>> to_floating_dtype("complex128"), to_floating_dtype("bool")
    (dtype('float64'), dtype('float32'))
    """
    dtype = to_inexact_dtype(dtype)
    return _floating(dtype) if dtype in KINDS["complex floating"] else dtype


def to_complex_dtype(dtype: DTypeLike) -> DType:
    """`dtype` if it is complex, else the complex dtype that holds its numbers.

    >>> to_complex_dtype("bfloat16"), to_complex_dtype("float64")
    (dtype('complex64'), dtype('complex128'))
    """
    return _C128 if np.dtype(dtype) in NARROWED else _C64


def to_numeric_dtype(dtype: DTypeLike) -> DType:
    """`dtype`, or int32 for bool.

    >>> to_numeric_dtype("bool"), to_numeric_dtype("int8")
    (dtype('int32'), dtype('int8'))
    """
    dtype = np.dtype(dtype)
    return np.dtype("int32") if dtype == BOOL else dtype


def _floating(dtype: DType) -> DType:
    return _F64 if dtype in NARROWED else _F32
