"""Which dtype is a kind of which: `issubdtype` and `isdtype`."""

from typing import Any

import numpy as np

from pellucid.base.caching import cached
from pellucid.base.errors import DtypeError

from .catalog import COMPLEXES, FLOATS, KINDS, SIGNED, UNSIGNED, DTypeLike
from .extended import ExtendedDType, extended, prng_key

# NumPy takes the scalar types of ml_dtypes for kinds of their own.
_CATEGORY: dict[type, type] = {
    **{dtype.type: np.signedinteger for dtype in SIGNED},
    **{dtype.type: np.unsignedinteger for dtype in UNSIGNED},
    **{dtype.type: np.floating for dtype in FLOATS},
    **{dtype.type: np.complexfloating for dtype in COMPLEXES},
}

CATEGORIES = frozenset(
    (
        np.generic,
        np.number,
        np.integer,
        np.signedinteger,
        np.unsignedinteger,
        np.inexact,
        np.floating,
        np.complexfloating,
        extended,
        prng_key,
    )
)
"""Scalar types that no array has, each above those of several dtypes."""


def issubdtype(a: DTypeLike, b: DTypeLike) -> bool:
    """Whether the dtype or category `a` is `b` or belongs to it.

    Categories are the abstract scalar types of NumPy (`np.floating`, …), `extended` and
    `prng_key`.

    >>> issubdtype("bfloat16", np.floating), issubdtype("int4", np.signedinteger)
    (True, True)
    >>> issubdtype(prng_key, extended), issubdtype("float32", "float64")
    (True, False)
    """
    try:
        return _issubdtype(a, b)
    except TypeError:  # unhashable, or no dtype: the reason is found below
        return _issubdtype.__wrapped__(a, b)


@cached(4096)
def _issubdtype(a, b) -> bool:
    if isinstance(b, ExtendedDType):
        return b == a
    a_type, b_type = _scalar_type(a), _scalar_type(b)
    return issubclass(a_type, b_type) or issubclass(_CATEGORY.get(a_type, a_type), b_type)


def _scalar_type(dtype) -> type:
    if isinstance(dtype, ExtendedDType):
        return dtype.type
    if isinstance(dtype, type) and issubclass(dtype, np.generic):
        return dtype
    return np.dtype(dtype).type


def isdtype(dtype: DTypeLike, kind: Any) -> bool:
    """Whether `dtype` is of the given kind, or of one of a tuple of kinds.

    A kind is a dtype or one of the array API's "bool", "signed integer", "unsigned integer",
    "integral", "real floating", "complex floating" and "numeric".

    >>> isdtype("bfloat16", "real floating"), isdtype("int8", ("bool", "float32"))
    (True, False)
    """
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if isinstance(dtype, ExtendedDType):
        return dtype in kinds
    the_dtype = np.dtype(dtype)
    return any(_is_of_kind(the_dtype, one) for one in kinds)


def _is_of_kind(dtype: np.dtype[Any], kind) -> bool:
    if isinstance(kind, str) and kind in KINDS:
        return dtype in KINDS[kind]
    try:
        return dtype == np.dtype(kind)
    except TypeError as error:
        raise DtypeError(
            "isdtype: the kind is neither a dtype nor one of the array API's kinds.",
            got=repr(kind) if isinstance(kind, str) else type(kind).__name__,
            do=f"Use a dtype or one of {', '.join(map(repr, KINDS))}.",
        ) from error
