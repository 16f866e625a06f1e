"""The dtypes that arrays may have, by kind, with their short names."""

from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from .extended import ExtendedDType, float0

DType: TypeAlias = np.dtype[Any]
DTypeLike: TypeAlias = Any
"""A dtype, its name, a scalar type, or one of bool, int, float and complex."""


def _dtypes(*names: str) -> tuple[DType, ...]:
    """The dtypes called `names`, without those that the installed ml_dtypes doesn't know."""
    classes = [getattr(np, name, None) or getattr(ml_dtypes, name, None) for name in names]
    return tuple(np.dtype(scalar_class) for scalar_class in classes if scalar_class is not None)


NARROW_SIGNED = _dtypes("int1", "int2", "int4")
NARROW_UNSIGNED = _dtypes("uint1", "uint2", "uint4")
SIGNED = (*NARROW_SIGNED, *_dtypes("int8", "int16", "int32", "int64"))
UNSIGNED = (*NARROW_UNSIGNED, *_dtypes("uint8", "uint16", "uint32", "uint64"))
NARROW_FLOATS = _dtypes(
    "float4_e2m1fn",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e8m0fnu",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
)
FLOATS = (*NARROW_FLOATS, *_dtypes("bfloat16", "float16", "float32", "float64"))
COMPLEXES = _dtypes("complex64", "complex128")
BOOL: DType = np.dtype(np.bool_)

NUMERIC = (*SIGNED, *UNSIGNED, *FLOATS, *COMPLEXES)
ALL = (BOOL, *NUMERIC)

KINDS: dict[str, frozenset[DType]] = {
    "bool": frozenset({BOOL}),
    "signed integer": frozenset(SIGNED),
    "unsigned integer": frozenset(UNSIGNED),
    "integral": frozenset(SIGNED + UNSIGNED),
    "real floating": frozenset(FLOATS),
    "complex floating": frozenset(COMPLEXES),
    "numeric": frozenset(NUMERIC),
}
"""Dtypes by the kinds of the array API standard."""

SUPPORTED = frozenset((*ALL, float0))
"""Every dtype but the extended ones."""

finfo = ml_dtypes.finfo
"""Limits of a floating dtype, of the parts for a complex one."""

iinfo = ml_dtypes.iinfo
"""Limits of an integer dtype."""


def _short_name(dtype: DType) -> str:
    for word in ("bfloat", "float", "uint", "int", "complex"):
        if dtype.name.startswith(word):
            letters = "bf" if word == "bfloat" else word[0]
            return letters + dtype.name.removeprefix(word)
    return dtype.name


_SHORT_NAMES: dict[Any, str] = {**{dtype: _short_name(dtype) for dtype in ALL}, float0: "float0"}


def short_name(dtype: DType | ExtendedDType) -> str:
    """Name of a dtype as programs are printed.

    >>> [short_name(np.dtype(name)) for name in ("float32", "bfloat16", "uint8", "bool")]
    ['f32', 'bf16', 'u8', 'bool']
    """
    name = _SHORT_NAMES.get(dtype)
    return dtype.name if name is None else name


def itemsize_bits(dtype: DTypeLike) -> int:
    """Bits of one element, which are fewer than 8 for the narrow dtypes.

    >>> itemsize_bits("int4"), itemsize_bits("complex64")
    (4, 64)
    """
    if isinstance(dtype, ExtendedDType):
        return 8 * dtype.itemsize
    dtype = np.dtype(dtype)
    if dtype in KINDS["integral"]:
        return int(iinfo(dtype).bits)
    if dtype in KINDS["real floating"]:
        return int(finfo(dtype).bits)
    return 8 * dtype.itemsize


def supports_inf(dtype: DTypeLike) -> bool:
    """Whether the dtype has a value for infinity.

    >>> supports_inf("bfloat16"), supports_inf("float8_e4m3fn"), supports_inf("int8")
    (True, False, False)
    """
    dtype = np.dtype(dtype)
    return dtype in _WITH_INFINITY


def _has_infinity(dtype: DType) -> bool:
    with np.errstate(all="ignore"):
        return bool(np.isinf(dtype.type(np.inf)))


_WITH_INFINITY = frozenset(dtype for dtype in FLOATS + COMPLEXES if _has_infinity(dtype))
