"""From a value or a name to the dtype that an array of it has, with 64 bits on or off."""

import warnings
from typing import Any

import numpy as np

from pellucid.base import config
from pellucid.base.errors import DtypeError, PellucidError

from .catalog import BOOL, SUPPORTED, DType, DTypeLike
from .errors import TruncatedDtypeWarning
from .extended import ExtendedDType
from .facts import canonicalize
from .hierarchy import CATEGORIES, issubdtype

# Python's scalars by their dtype with 64 bits on. An int is weakly typed, a bool isn't.
_PYTHON_DTYPES: dict[type, DType] = {
    bool: BOOL,
    int: np.dtype("int64"),
    float: np.dtype("float64"),
    complex: np.dtype("complex128"),
}
_WEAK_SCALARS = {int, float, complex}


def register_weak_scalar(cls: type, like: type) -> None:
    """Give instances of `cls` the dtype and the weak type of the Python scalar type `like`."""
    _PYTHON_DTYPES[cls] = _PYTHON_DTYPES[like]
    _WEAK_SCALARS.add(cls)


def python_scalar_dtype(cls: type) -> DType:
    """Dtype of the instances of bool, int, float or complex.

    >>> python_scalar_dtype(float)
    dtype('float32')
    """
    return canonicalize(_PYTHON_DTYPES[cls])


def default_int_dtype() -> DType:
    """Default dtype of integers: int32, or int64 with 64 bits on."""
    return python_scalar_dtype(int)


def default_uint_dtype() -> DType:
    """Default dtype of unsigned integers: uint32, or uint64 with 64 bits on."""
    return canonicalize(np.dtype("uint64"))


def default_float_dtype() -> DType:
    """Default dtype of floating-point numbers: float32, or float64 with 64 bits on."""
    return python_scalar_dtype(float)


def default_complex_dtype() -> DType:
    """Default dtype of complex numbers: complex64, or complex128 with 64 bits on."""
    return python_scalar_dtype(complex)


def as_dtype(dtype: DTypeLike) -> DType | ExtendedDType:
    """The dtype object for something like a dtype; the default one for a Python type or None.

    A dtype given by name keeps its 64 bits.

    >>> as_dtype(float), as_dtype("float64")
    (dtype('float32'), dtype('float64'))
    """
    if dtype is None:
        return default_float_dtype()
    if isinstance(dtype, type) and dtype in _PYTHON_DTYPES:
        return python_scalar_dtype(dtype)
    return dtype if isinstance(dtype, ExtendedDType) else np.dtype(dtype)


def canonicalize_dtype(
    dtype: DTypeLike, allow_extended_dtype: bool = False
) -> DType | ExtendedDType:
    """The dtype that an array has if it is asked for `dtype`: with 64 bits off, one of 32.

    Raises: DtypeError for an extended dtype unless `allow_extended_dtype`.

    >>> canonicalize_dtype("float64"), canonicalize_dtype(int)
    (dtype('float32'), dtype('int32'))
    """
    if isinstance(dtype, ExtendedDType):
        if allow_extended_dtype:
            return dtype
        raise DtypeError("An extended dtype has no canonical form.", got=str(dtype))
    return canonicalize(np.dtype(dtype))


def check_user_dtype(dtype: DTypeLike, caller: str) -> DType | ExtendedDType:
    """The canonical dtype for one that a user gave to the function `caller`.

    Warns with TruncatedDtypeWarning for a 64-bit dtype while they are off.

    Raises: DtypeError for what is no dtype, or one that arrays can't have.

    >>> check_user_dtype("int8", "zeros"), check_user_dtype(float, "zeros")
    (dtype('int8'), dtype('float32'))
    """
    if isinstance(dtype, type) and dtype in _PYTHON_DTYPES:
        return python_scalar_dtype(dtype)
    if isinstance(dtype, ExtendedDType):
        return dtype
    requested = _supported(dtype, caller)
    canonical = canonicalize(requested)
    if canonical != requested:
        error = PellucidError(
            f"{caller}: {requested} isn't available while 64-bit dtypes are off; the result is {canonical}.",
            do="Switch them on with the option `jax_enable_x64`, or ask for a 32-bit dtype.",
        )
        if config.explicit_x64_dtypes.value == "error":
            raise DtypeError(
                f"{caller}: {requested} isn't available while 64-bit dtypes are off.", do=error.do
            )
        warnings.warn(str(error), TruncatedDtypeWarning, stacklevel=3)
    return canonical


def _supported(dtype: DTypeLike, caller: str) -> DType:
    do = "Use a boolean, integer, floating or complex dtype in the machine's byte order."
    if dtype is None:
        raise DtypeError(f"{caller}: needs a dtype.", got="None", do=do)
    if isinstance(dtype, type) and dtype in CATEGORIES:
        do = "Name one of its dtypes, such as float32."
        raise DtypeError(
            f"{caller}: a category of dtypes isn't a dtype.", got=dtype.__name__, do=do
        )
    try:
        supported = np.dtype(dtype)
    except TypeError as error:
        got = repr(dtype) if isinstance(dtype, str) else type(dtype).__qualname__
        raise DtypeError(f"{caller}: no dtype has this name.", got=got, do=do) from error
    if supported not in SUPPORTED or not supported.isnative:
        raise DtypeError(f"{caller}: no array can have this dtype.", got=str(supported), do=do)
    return supported


def dtype_of(x: Any) -> DType | ExtendedDType:
    """Dtype that `x` has as an array, or as an operand.

    `x` is an array, anything with a `dtype`, a Python scalar, or a dtype by any of its names.

    Raises: DtypeError if it is none of these.

    >>> dtype_of(3), dtype_of(np.ones(2)), dtype_of("bfloat16")
    (dtype('int32'), dtype('float32'), dtype(bfloat16))
    """
    cls = type(x)
    if cls in _PYTHON_DTYPES:
        return canonicalize(_PYTHON_DTYPES[cls])
    if isinstance(x, (type, str, np.dtype, ExtendedDType)):
        return check_user_dtype(x, "dtype")
    dtype = getattr(x, "dtype", None)
    if dtype in SUPPORTED:
        return canonicalize(dtype)
    if isinstance(dtype, ExtendedDType):
        return dtype
    for scalar_class in (bool, int, float, complex):
        if isinstance(x, scalar_class):
            return python_scalar_dtype(scalar_class)
    raise DtypeError(
        "This value has no dtype that an array can have.",
        got=cls.__qualname__ if dtype is None else f"{cls.__qualname__} of {dtype}",
        do="Make it an array of numbers first, for example with `jax.numpy.asarray`.",
    )


def is_weakly_typed(x: Any) -> bool:
    """Whether `x` takes the dtype of what it is combined with, as Python's numbers do.

    >>> is_weakly_typed(3), is_weakly_typed(True), is_weakly_typed(np.float32(3))
    (True, False, False)
    """
    return type(x) in _WEAK_SCALARS or getattr(x, "weak_type", False) is True


def dtype_and_weak_type(x: Any) -> tuple[DType | ExtendedDType, bool]:
    """Dtype and weak type of `x` as an operand; the types int, float, complex are weak, too.

    >>> dtype_and_weak_type(3), dtype_and_weak_type(float), dtype_and_weak_type(np.int8(3))
    ((dtype('int32'), True), (dtype('float32'), True), (dtype('int8'), False))
    """
    if isinstance(x, type):
        return dtype_of(x), x in _WEAK_SCALARS
    return dtype_of(x), is_weakly_typed(x)


def scalar_type_of(x: Any) -> type:
    """The Python type, bool, int, float or complex, of the elements of `x`.

    >>> scalar_type_of(np.float32(1)), scalar_type_of("int8")
    (<class 'float'>, <class 'int'>)
    """
    dtype = dtype_of(x)
    for category, python_type in _PYTHON_TYPES.items():
        if issubdtype(dtype, category):
            return python_type
    raise DtypeError("No Python number is like this dtype.", got=str(dtype))


_PYTHON_TYPES: dict[type, type] = {
    np.bool_: bool,
    np.integer: int,
    np.floating: float,
    np.complexfloating: complex,
}
