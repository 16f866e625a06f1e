"""Dtypes: the supported ones, the dtype of a value, and the common dtype of several values.

Dtypes and the weak types of Python's numbers are the nodes of a lattice; operands get the least upper bound of their
nodes. The weak types lie below every dtype that can hold such a number, so that `x + 1` has the dtype of `x`. Described
in "Type promotion semantics" of JAX's documentation; with 64 bits off, uint32 lies below int32.
"""

import builtins
import math
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import ml_dtypes
import numpy as np

from pellucid._machine.xla import flags

from . import config
from .caching import cached
from .errors import DtypeError, PellucidError
from .late import late
from .library_code import promotion
from .narrowing import is_tuple


class TypePromotionError(PellucidError, ValueError):
    """Operands have no common dtype to which they may be promoted implicitly.

    >>> with pl.numpy_dtype_promotion("strict"):
    ...     jnp.float32(1) + jnp.int32(1)
    Traceback (most recent call last):
        ...
    pellucid.dtypes.TypePromotionError: No implicit promotion between float32 and int32.
    ...
    """

    __module__ = "pellucid.dtypes"


class TruncatedDtypeWarning(UserWarning):
    """A 64-bit dtype was requested by name and replaced by its 32-bit counterpart."""


float0: np.dtype[Any] = np.dtype([("float0", np.void, 0)])
"""Dtype of the tangents of values that can't vary, such as integers. Its elements store nothing."""


class extended(np.generic):
    """Base scalar type of all extended dtypes, for `issubdtype`.

    >>> jnp.issubdtype(pl.random.key(0).dtype, pl.dtypes.extended)
    True
    """


class prng_key(extended):
    """Base scalar type of all dtypes of random keys, for `issubdtype`.

    >>> pl.dtypes.issubdtype(pl.random.key(0).dtype, pl.dtypes.prng_key)
    True
    """


class ExtendedDType:
    """A dtype whose elements are stored as arrays of `element_shape` and `base_dtype`.

    An array of this dtype and shape `s` is lowered as one of `base_dtype` and shape `s + element_shape`. `type` is its
    category for `issubdtype`.
    """

    __slots__ = ()

    name: str
    type: builtins.type[extended]
    base_dtype: np.dtype
    element_shape: tuple[int, ...]
    kind: ClassVar[str] = "V"
    """The kind of NumPy dtypes whose elements aren't numbers."""
    _rules: Any = None
    """Rules of a dtype that a library defines with `extend.dtypes`."""

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.base_dtype.itemsize * math.prod(self.element_shape)

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, repr=False)
class KeyDType(ExtendedDType):
    """The dtype of random keys from the generator `implementation`. Dtypes are equal if all fields are.

    >>> key = KeyDType("key<fry>", prng_key, np.dtype("uint32"), (2,))
    >>> key, key.itemsize
    (key<fry>, 8)
    """

    name: str
    type: builtins.type[extended]
    base_dtype: np.dtype
    element_shape: tuple[int, ...]
    implementation: Any = None

    def __hash__(self) -> int:
        return hash((self.name, self.implementation))  # the other fields rarely differ alone

    def __reduce__(self) -> Any:
        return late("how dtypes of keys are pickled")(self)


# Which there are ----------------------------------------------------------------------------------


DType: TypeAlias = np.dtype[Any]
DTypeLike: TypeAlias = Any
"""A dtype, its name, a scalar type, or one of bool, int, float and complex."""


def _dtypes(*names: str) -> tuple[DType, ...]:
    """The dtypes called `names`, without those that the installed ml_dtypes lacks."""
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
"""Dtypes by kind, as in the array API standard."""

SUPPORTED = frozenset((*ALL, float0))
"""Every dtype but the extended ones."""

finfo = ml_dtypes.finfo
"""Limits of a floating-point dtype; for a complex one, of its real dtype."""

iinfo = ml_dtypes.iinfo
"""Limits of an integer dtype."""


_SHORT_NAMES: dict[Any, str] = {
    **{dtype: re.sub("^(bf|[fuic])[a-z]*(?=[0-9])", r"\1", dtype.name) for dtype in ALL},
    float0: "float0",
}


def short_name(dtype: DType | ExtendedDType) -> str:
    """Name of a dtype in printed programs.

    >>> [short_name(np.dtype(name)) for name in ("float32", "bfloat16", "uint8", "bool")]
    ['f32', 'bf16', 'u8', 'bool']
    """
    return _SHORT_NAMES.get(dtype) or dtype.name


def itemsize_bits(dtype: DTypeLike) -> int:
    """Bits per element, fewer than 8 for sub-byte dtypes.

    >>> itemsize_bits("int4"), itemsize_bits("complex64")
    (4, 64)
    """
    if isinstance(dtype, ExtendedDType):
        return 8 * dtype.itemsize
    dtype = np.dtype(dtype)
    if dtype in KINDS["integral"]:
        return int(iinfo(dtype).bits)
    if dtype in KINDS["real floating"]:
        return int(finfo(dtype).bits)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]  # of two libraries
    return 8 * dtype.itemsize


def supports_inf(dtype: DTypeLike) -> bool:
    """Whether the dtype can represent infinity.

    >>> supports_inf("bfloat16"), supports_inf("float8_e4m3fn"), supports_inf("int8")
    (True, False, False)
    """
    dtype = np.dtype(dtype)
    with np.errstate(all="ignore"):
        return dtype in INEXACT and bool(np.isinf(dtype.type(np.inf)))


INEXACT = frozenset((*FLOATS, *COMPLEXES))
NARROWED = {
    np.dtype(wide): np.dtype(narrow)
    for wide, narrow in (
        ("int64", "int32"), ("uint64", "uint32"), ("float64", "float32"), ("complex128", "complex64"),
    )
}  # fmt: skip
"""Maps each 64-bit dtype to its 32-bit counterpart."""
_x64 = flags.enable_x64
_explicit_x64 = config.explicit_x64_dtypes.state


def is_inexact(dtype: Any) -> bool:
    """Whether `dtype` is floating or complex, so that values have derivatives."""
    return dtype in INEXACT


def tangent_dtype(dtype: Any) -> np.dtype:
    """Dtype of tangents: `dtype` itself if it is floating or complex, else float0.

    >>> tangent_dtype(np.dtype(np.int32)), tangent_dtype(np.dtype(np.float32))
    (dtype([('float0', 'V')]), dtype('float32'))
    """
    if rules := getattr(dtype, "_rules", None):
        return rules.tangent_dtype(dtype)
    return dtype if dtype in INEXACT else float0


def canonicalize(dtype: Any) -> Any:
    """`dtype`, or its 32-bit counterpart if 64-bit dtypes are disabled."""
    return dtype if _x64.value else NARROWED.get(dtype, dtype)


def _keeps_64_bits() -> bool:
    """Whether arrays, and dtypes requested by name, keep 64 bits; Python numbers and NumPy arrays may be narrowed
    nevertheless.
    """
    return _x64.value or _explicit_x64.value == "allow"


def canonicalize_explicit(dtype: Any) -> Any:
    """`dtype` of an array, or requested by name; its 32-bit counterpart unless 64 bits are enabled, or allowed if
    explicit.
    """
    return dtype if _keeps_64_bits() else NARROWED.get(dtype, dtype)


def item_bytes(dtype: Any) -> int:
    """Bytes per element in host memory."""
    return (dtype if isinstance(dtype, ExtendedDType) else np.dtype(dtype)).itemsize


# Kinds --------------------------------------------------------------------------------------------


# NumPy assigns no category (floating, signed integer, …) to the scalar types of ml_dtypes.
_CATEGORY: dict[type, type] = {
    dtype.type: category
    for category, belonging in (
        (np.signedinteger, SIGNED), (np.unsignedinteger, UNSIGNED), (np.floating, FLOATS),
        (np.complexfloating, COMPLEXES),
    )
    for dtype in belonging
}  # fmt: skip

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
"""Abstract scalar types, each the category of several dtypes; no array has one."""


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
    except TypeError:  # unhashable, or not a dtype; the error is raised below
        return _issubdtype.__wrapped__(a, b)  # pyright: ignore[reportFunctionMemberAccess]  # of `cached`


@cached(4096)
def _issubdtype(a: Any, b: Any) -> bool:
    if isinstance(b, ExtendedDType):
        return b == a
    a_type, b_type = _scalar_type(a), _scalar_type(b)
    return issubclass(a_type, b_type) or issubclass(_CATEGORY.get(a_type, a_type), b_type)


def _scalar_type(dtype: Any) -> type:
    if isinstance(dtype, ExtendedDType):
        return dtype.type
    if isinstance(dtype, type) and issubclass(dtype, np.generic):
        return dtype  # pyright: ignore[reportUnknownVariableType]  # of any parameters
    return np.dtype(dtype).type  # pyright: ignore[reportUnknownArgumentType]  # of any parameters


def isdtype(dtype: DTypeLike, kind: Any) -> bool:
    """Whether `dtype` is of a kind, or of any in a tuple of kinds.

    A kind is a dtype or one of the array API's "bool", "signed integer", "unsigned integer",
    "integral", "real floating", "complex floating" and "numeric".
    Raises: DtypeError for an unknown kind.

    >>> isdtype("bfloat16", "real floating"), isdtype("int8", ("bool", "float32"))
    (True, False)
    """
    kinds = kind if is_tuple(kind) else (kind,)
    if isinstance(dtype, ExtendedDType):
        return dtype in kinds
    the_dtype = np.dtype(dtype)
    return any(_is_of_kind(the_dtype, one) for one in kinds)


def _is_of_kind(dtype: np.dtype[Any], kind: Any) -> bool:
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


# Of a value ---------------------------------------------------------------------------------------


# Dtypes of Python scalars with 64 bits enabled. An int is weakly typed, a bool isn't.
_PYTHON_DTYPES: dict[type, DType] = {kind: np.dtype(kind) for kind in (bool, int, float, complex)}
_PYTHON_TYPES: dict[Any, type] = {
    dtype: python_type
    for python_type, kind in (
        (bool, "bool"), (int, "integral"), (float, "real floating"), (complex, "complex floating"),
    )
    for dtype in KINDS[kind]
}  # fmt: skip
# A set compares hashes first, which matters because `np.dtype("int64") == int`.
_WEAK_TYPES = frozenset((int, float, complex))


def python_scalar_dtype(cls: type) -> DType:
    """Dtype of instances of bool, int, float or complex.

    >>> python_scalar_dtype(float)
    dtype('float32')
    """
    return canonicalize(_PYTHON_DTYPES[cls])


def default_int_dtype() -> DType:
    """Default dtype of integers: int32, or int64 if 64 bits are enabled."""
    return python_scalar_dtype(int)


def default_uint_dtype() -> DType:
    """Default dtype of unsigned integers: uint32, or uint64 if 64 bits are enabled."""
    return canonicalize(np.dtype("uint64"))


def default_float_dtype() -> DType:
    """Default dtype of floating-point numbers: float32, or float64 if 64 bits are enabled."""
    return python_scalar_dtype(float)


def default_complex_dtype() -> DType:
    """Default dtype of complex numbers: complex64, or complex128 if 64 bits are enabled."""
    return python_scalar_dtype(complex)


def as_dtype(dtype: DTypeLike) -> DType | ExtendedDType:
    """The dtype object for a dtype, name or scalar type; the default dtype for a Python type or None.

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
    """The dtype of an array that is created with `dtype`: its 32-bit counterpart if 64 bits are disabled.

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
    """The canonical dtype for the one that a user passed to the function `caller`.

    Warns with TruncatedDtypeWarning for a 64-bit dtype if 64 bits are disabled.

    Raises: DtypeError if it isn't a dtype, or not one that arrays can have.

    >>> check_user_dtype("int8", "zeros"), check_user_dtype(float, "zeros")
    (dtype('int8'), dtype('float32'))
    """
    if isinstance(dtype, type) and dtype in _PYTHON_DTYPES:
        return python_scalar_dtype(dtype)
    if isinstance(dtype, ExtendedDType):
        return dtype
    requested = _check_supported(dtype, caller)
    canonical = canonicalize_explicit(requested)
    if canonical != requested:
        what = f"Explicitly requested dtype {requested} requested in {caller} is not available"
        do = "Switch 64-bit dtypes on with the option `jax_enable_x64`, or ask for a 32-bit one."
        if config.explicit_x64_dtypes.value == "error":
            raise DtypeError(f"{what}.", do=do)
        warning = PellucidError(f"{what}, and will be truncated to dtype {canonical}.", do=do)
        warnings.warn(str(warning), TruncatedDtypeWarning, stacklevel=3)
    return canonical


def _check_supported(dtype: DTypeLike, caller: str) -> DType:
    do = "Use a boolean, integer, floating or complex dtype in the machine's byte order."
    if dtype is None or hasattr(dtype, "aval"):
        raise DtypeError(f"{caller}: needs a dtype.", got=type(dtype).__qualname__, do=do)
    if isinstance(dtype, type) and dtype in CATEGORIES:
        do = "Name one of its dtypes, such as float32."
        raise DtypeError(
            f"{caller}: a category of dtypes isn't a dtype.", got=dtype.__name__, do=do
        )
    try:
        supported = np.dtype(dtype)
    except (TypeError, ValueError):
        is_size = isinstance(dtype, int)
        raise DtypeError(
            f"{caller}: no dtype has this name.",
            got=repr(dtype) if isinstance(dtype, str) or is_size else type(dtype).__qualname__,
            do=f"A shape is one argument: `{caller}((2, 3))`, not `{caller}(2, 3)`."
            if is_size
            else do,
        ) from None
    if supported not in SUPPORTED or not supported.isnative:
        raise DtypeError(f"{caller}: no array can have this dtype.", got=str(supported), do=do)
    return supported


def dtype_of(x: Any) -> DType | ExtendedDType:
    """Dtype of `x` as an array or operand.

    `x` is an array, anything with a `dtype`, a Python scalar, or a dtype by any of its names.

    Raises: DtypeError if it is none of these.

    >>> dtype_of(3), dtype_of(np.ones(2)), dtype_of("bfloat16")
    (dtype('int32'), dtype('float32'), dtype(bfloat16))
    """
    cls = type(x)  # pyright: ignore[reportUnknownVariableType]  # of any value
    if cls in _PYTHON_DTYPES:
        return canonicalize(_PYTHON_DTYPES[cls])
    if isinstance(x, (type, str, np.dtype, ExtendedDType)):
        return check_user_dtype(x, "dtype")
    dtype = getattr(x, "dtype", None)
    if dtype in SUPPORTED:
        return canonicalize_explicit(dtype) if hasattr(x, "aval") else canonicalize(dtype)
    if isinstance(dtype, ExtendedDType):
        return dtype
    for scalar_class in _PYTHON_DTYPES:
        if isinstance(x, scalar_class):
            return python_scalar_dtype(scalar_class)
    raise DtypeError(
        "This value has no dtype that an array can have.",
        got=cls.__qualname__ if dtype is None else f"{cls.__qualname__} of {dtype}",
        do="Make it an array of numbers first, for example with `jax.numpy.asarray`.",
    )


def is_weakly_typed(x: Any) -> bool:
    """Whether `x` adopts the dtype of other operands, as Python numbers do.

    >>> is_weakly_typed(3), is_weakly_typed(True), is_weakly_typed(np.float32(3))
    (True, False, False)
    """
    return type(x) in _WEAK_TYPES or getattr(x, "weak_type", False) is True


def dtype_and_weak_type(x: Any) -> tuple[DType | ExtendedDType, bool]:
    """Dtype and weak type of `x` as an operand; the types int, float and complex are weak too.

    >>> dtype_and_weak_type(3), dtype_and_weak_type(float), dtype_and_weak_type(np.int8(3))
    ((dtype('int32'), True), (dtype('float32'), True), (dtype('int8'), False))
    """
    if isinstance(x, type):
        return dtype_of(x), x in _WEAK_TYPES
    return dtype_of(x), is_weakly_typed(x)


def scalar_type_of(x: Any) -> type:
    """The Python type, bool, int, float or complex, of the elements of `x`.

    >>> scalar_type_of(np.float32(1)), scalar_type_of("int8")
    (<class 'float'>, <class 'int'>)
    """
    dtype = dtype_of(x)
    if dtype not in _PYTHON_TYPES:
        raise DtypeError("No Python number is like this dtype.", got=str(dtype))
    return _PYTHON_TYPES[dtype]


# Of a kind ----------------------------------------------------------------------------------------


_F32, _F64, _C64, _C128 = map(np.dtype, ("float32", "float64", "complex64", "complex128"))


def to_inexact_dtype(dtype: DTypeLike) -> DType:
    """`dtype` if it is floating or complex, else the floating dtype of its width; DtypeError for dtypes of keys.

    >>> to_inexact_dtype("int8"), to_inexact_dtype("int64"), to_inexact_dtype("complex64")
    (dtype('float32'), dtype('float64'), dtype('complex64'))
    """
    dtype = _check_supported(dtype, "arithmetic")
    return dtype if dtype in INEXACT else _floating(dtype)


def to_floating_dtype(dtype: DTypeLike) -> DType:
    """Like `to_inexact_dtype`, but for a complex dtype its real dtype.

    >>> to_floating_dtype("complex128"), to_floating_dtype("bool")
    (dtype('float64'), dtype('float32'))
    """
    dtype = to_inexact_dtype(dtype)
    return _floating(dtype) if dtype in KINDS["complex floating"] else dtype


def to_complex_dtype(dtype: DTypeLike) -> DType:
    """`dtype` if it is complex, else the complex dtype that can represent its numbers.

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


# Of several values --------------------------------------------------------------------------------


Node: TypeAlias = Any
"""A dtype, or one of the weak types int, float and complex."""

OperandType: TypeAlias = tuple[DType | ExtendedDType, bool]
"""(dtype, whether it is weakly typed) of an operand."""


def _standard_lattice(x64: bool) -> dict[Node, list[Node]]:
    """For each node, the nodes directly above it, which come later in the dictionary."""
    *_, i8, i16, i32, i64 = SIGNED
    *_, u8, u16, u32, u64 = UNSIGNED
    *_, bf16, f16, f32, f64 = FLOATS
    c64, c128 = COMPLEXES
    return {
        BOOL: [int],
        int: [i8, u8, *NARROW_SIGNED, *NARROW_UNSIGNED],
        u8: [i16, u16],
        u16: [i32, u32],
        u32: [i64 if x64 else i32, u64],
        u64: [float],
        i8: [i16],
        i16: [i32],
        i32: [i64],
        i64: [float],
        float: [*NARROW_FLOATS, bf16, f16, complex],
        bf16: [f32],
        f16: [f32],
        f32: [f64, c64],
        f64: [c128],
        complex: [c64],
        c64: [c128],
        c128: [],
        **{dtype: [] for dtype in (*NARROW_SIGNED, *NARROW_UNSIGNED, *NARROW_FLOATS)},
    }


_STRICT_LATTICE: dict[Node, list[Node]] = {
    int: [*SIGNED, *UNSIGNED, float],
    float: [*FLOATS, complex],
    complex: [*COMPLEXES],
    **{dtype: [] for dtype in ALL},
}


@cached(4)
def _upper_bounds(is_strict: bool, x64: bool) -> dict[Node, frozenset[Node]]:
    """For each node, itself and all nodes above it."""
    lattice = _STRICT_LATTICE if is_strict else _standard_lattice(x64)
    bounds: dict[Node, frozenset[Node]] = {}
    for node, above in reversed(lattice.items()):
        bounds[node] = frozenset({node}).union(*(bounds[n] for n in above))
    return bounds


def _least_upper_bound(nodes: Iterable[Node], is_strict: bool, x64: bool) -> Node:
    """The lowest node that is above all of `nodes`."""
    nodes, bounds = list(dict.fromkeys(nodes)), _upper_bounds(is_strict, x64)
    try:
        common = frozenset[Node].intersection(*(bounds[node] for node in nodes))
    except KeyError as error:
        raise DtypeError(
            "This dtype can't be combined with another one.", got=str(error.args[0])
        ) from None
    for node in (*nodes, *common):  # nearly always, it is one of the nodes themselves
        if node in common and common <= bounds[node]:
            return node
    raise _no_common_dtype(nodes, is_strict=is_strict)


def _lattice_options() -> tuple[bool, bool]:
    """(whether promotion is strict, whether there are 64-bit dtypes)."""
    return promotion()[1] == "strict", _x64.value


def promote(operands: tuple[OperandType, ...]) -> OperandType:
    """Dtype and weak type of the result of an operation on operands with the given dtypes and weak types.

    The dtypes must be canonical. Results are cached.

    Raises: TypePromotionError if there is no common dtype.

    >>> promote(((np.dtype("int8"), False), (np.dtype("float32"), True)))
    (dtype('float32'), True)
    """
    return _promoted_dtype(operands, *_lattice_options(), _keeps_64_bits())


@cached(8192)
def _promoted_dtype(
    operands: tuple[OperandType, ...], is_strict: bool, x64: bool, keeps_64: bool
) -> OperandType:
    first = operands[0]  # operands of equal type keep it, also 64 bits while these are disabled
    if all(operand == first for operand in operands[1:]) and not (
        is_strict and first[1] and len(operands) > 1
    ):
        return first[0], first[1] and first[0] != BOOL
    all_weak = all(weak for _, weak in operands)
    # Several weak values keep their own width, whereas the weak node would widen them.
    keeps_width = all_weak and not is_strict
    nodes = [
        _PYTHON_TYPES.get(dtype, dtype) if weak and not keeps_width and dtype != BOOL else dtype
        for dtype, weak in operands
    ]
    node = _least_upper_bound(nodes, is_strict, x64)
    if node in _WEAK_TYPES:
        return python_scalar_dtype(node), True
    dtype: Any = node if keeps_64 else NARROWED.get(node, node)
    return dtype, all_weak and dtype != BOOL


def promote_types(a: DTypeLike, b: DTypeLike) -> DType:
    """Dtype that can represent the values of both dtypes, 64 bits included; int and float are weak.

    Raises: TypePromotionError if there is no common dtype.

    >>> promote_types("int8", "uint8"), promote_types("bfloat16", float)
    (dtype('int16'), dtype(bfloat16))
    """
    nodes = [dtype if dtype in _WEAK_TYPES else np.dtype(dtype) for dtype in (a, b)]
    return np.dtype(_least_upper_bound(nodes, *_lattice_options()))


def lattice_result_type(*args: Any) -> OperandType:
    """Dtype and weak type of the result of an operation on the values, or dtypes, `args`.

    Raises: TypePromotionError if there is no common dtype.

    >>> lattice_result_type(np.int8(1), 2), lattice_result_type(1, 2.0)
    ((dtype('int8'), False), (dtype('float32'), True))
    """
    return promote(tuple(map(dtype_and_weak_type, args)))


def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """Dtype of the result of an operation on the values, or dtypes, `args`; None means the default float.

    With `return_weak_type_flag`, also returns whether it is weakly typed.

    Raises: TypePromotionError if there is no common dtype; ValueError without arguments.

    >>> result_type(np.int8(1), 2.0), result_type("uint8", "int8")
    (dtype('float32'), dtype('int16'))
    """
    if not args:
        raise ValueError("result_type: needs at least one value or dtype.")
    result = lattice_result_type(*(default_float_dtype() if arg is None else arg for arg in args))
    dtype = canonicalize_explicit(result[0])
    return (dtype, result[1]) if return_weak_type_flag else dtype


def safe_to_cast(source: Any, target: Any) -> bool:
    """Whether the value or dtype `source` promotes to the dtype of `target`.

    >>> safe_to_cast("int8", "int16"), safe_to_cast("float32", "int32"), safe_to_cast(1, "int8")
    (True, False, True)
    """
    target_type = dtype_and_weak_type(target)
    return promote((dtype_and_weak_type(source), target_type))[0] == target_type[0]


def _no_common_dtype(nodes: list[Node], *, is_strict: bool) -> TypePromotionError:
    names = [f"{node.__name__} (weak)" if node in _WEAK_TYPES else str(node) for node in nodes]
    if is_strict:
        why = "In strict promotion mode, dtypes must be equal"
    elif any(node in NARROW_FLOATS for node in nodes):
        why = "Floating dtypes of 8 bits and fewer aren't promoted"
    else:
        why = "Integer dtypes of fewer than 8 bits aren't promoted"
    return TypePromotionError(
        f"No implicit promotion between {', '.join(names[:-1])} and {names[-1]}.",
        do=f"{why}: convert explicitly, for example with `x.astype('float32')`.",
    )


# Scalar types -------------------------------------------------------------------------------------


class ScalarType(type):
    """Metaclass of the scalar types. Each equals, and hashes as, NumPy's scalar type of the same dtype.

    >>> float32 = SCALAR_TYPES["float32"]
    >>> float32 == np.float32, np.dtype(float32), isinstance(np.float32(1), float32)
    (True, dtype('float32'), True)
    """

    dtype: DType

    def __call__(cls, x: Any) -> Any:
        """`x` as an array of this dtype."""
        return late("asarray")(x, cls.dtype)

    def __hash__(cls) -> int:
        return hash(cls.dtype.type)

    def __eq__(cls, other: object) -> bool:
        return cls is other or cls.dtype.type == other  # pyright: ignore[reportUnnecessaryComparison]  # a type of NumPy may be the other

    def __ne__(cls, other: object) -> bool:
        return not cls == other

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.dtype.type)


SCALAR_TYPES: dict[str, ScalarType] = {
    dtype.name: ScalarType(
        dtype.name,
        (),
        {
            "dtype": dtype,
            "__doc__": f"Scalar type of the dtype {dtype.name}; called, it makes an array of it.\n\n"
            f">>> np.dtype(jnp.{dtype.name})\n{dtype!r}",
            "__module__": "pellucid.numpy",
        },
    )
    for dtype in ALL
}
"""All scalar types by name of the dtype."""
