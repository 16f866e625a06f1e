"""Properties of values: dtype, shape, size, kind; copies, casts and texts of arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pellucid._machine.base import ArgumentTypeError, ArrayLike, DTypeLike, dtypes, public_functions
from pellucid._machine.tracing import is_array_like, type_of
from pellucid._machine.xla import flatten
from pellucid._machine.xla.arrays import Array

from . import operators
from .annotations import DeviceLike
from .compiled import numpy_function
from .creation import array, asarray
from .manipulation import canonical_axes
from .number_kinds import imag
from .promotion import aval_of


@numpy_function
def iscomplex(x: ArrayLike) -> Array:
    """Whether the imaginary part of an element isn't 0.

    Result: bools of the shape of `x`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, DtypeError for random keys.

    >>> iscomplex(jnp.array([1, 1j]))
    Array([False,  True], dtype=bool)
    """
    return imag(x) != 0


@numpy_function
def isreal(x: ArrayLike) -> Array:
    """Whether the imaginary part of an element is 0.

    Result: bools of the shape of `x`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, DtypeError for random keys.

    >>> isreal(jnp.array([1, 1j]))
    Array([ True, False], dtype=bool)
    """
    return imag(x) == 0


def iscomplexobj(x: ArrayLike) -> bool:
    """Whether the elements of `x`, which may be keys, have a complex dtype, whatever their values.

    A list counts as the array that NumPy makes of it, None as real.
    Raises: ValueError of NumPy for a ragged list.

    >>> iscomplexobj(jnp.array([1.0])), iscomplexobj(pl.random.key(0))
    (False, False)
    """
    if x is None:
        return False
    if isinstance(x, (list, tuple)) and any(map(is_array_like, leaves := flatten(x)[0])):
        return any(map(iscomplexobj, leaves))
    dtype = getattr(x, "dtype", None)
    if dtype is None:
        dtype = np.asarray(x).dtype
        if dtype.kind not in "biufc":
            raise ArgumentTypeError(
                "jnp.iscomplexobj needs an array or a number.", got=f"got {type(x).__name__}"
            )
    return dtypes.issubdtype(dtype, np.complexfloating)


def isrealobj(x: ArrayLike) -> bool:
    """Whether the elements of `x` have no complex dtype.

    A list counts as the array that NumPy makes of it, None as real.
    Raises: ValueError of NumPy for a ragged list.

    >>> isrealobj(jnp.array([1.0]))
    True
    """
    return not iscomplexobj(x)


def isscalar(element: Any) -> bool:
    """Whether `element` is a number, a text, or an array without dimensions.

    Result: a Python bool, also for traced arrays: it follows from the shape.
    Raises: nothing: other values are no scalars.

    >>> isscalar(jnp.array(3)), isscalar(jnp.array([3]))
    (True, False)
    """
    if np.isscalar(element):
        return True
    if hasattr(element, "__jax_array__"):
        element = asarray(element)
    return is_array_like(element) and np.ndim(element) == 0


def iterable(y: Any) -> bool:
    """Whether `y` has elements to iterate over.

    Result: a Python bool; arrays have elements unless their shape is empty.
    Raises: nothing.

    >>> iterable(jnp.array([3])), iterable(3)
    (True, False)
    """
    try:
        iter(y)
    except TypeError:
        return False
    return True


def _shape_of(a: ArrayLike) -> tuple[int, ...]:
    if isinstance(a, (np.ndarray, np.generic)):  # covers dtypes that arrays on devices can't have
        return a.shape
    return type_of(a).shape if is_array_like(a) else np.shape(a)


def ndim(a: ArrayLike) -> int:
    """Number of dimensions of `a`.

    Result: a Python int: the length of the shape. A list counts as the array that NumPy makes of it.
    Raises: ValueError of NumPy for a ragged list.

    >>> ndim(jnp.ones((2, 3)))
    2
    """
    return len(_shape_of(a))


def shape(a: ArrayLike) -> tuple[int, ...]:
    """Shape of `a`.

    Result: a tuple of ints, () for scalars. A list has the shape of the array that NumPy makes of it.
    Raises: ValueError of NumPy for a ragged list.

    >>> shape(jnp.ones((2, 3)))
    (2, 3)
    """
    return _shape_of(a)


def size(a: ArrayLike, axis: int | tuple[int, ...] | None = None) -> int:
    """Number of elements of `a`, or its size along `axis` (or several).

    Result: a Python int: the product of sizes of the shape. A list counts as the array that NumPy makes of it.
    Raises: AxisError for axes out of bounds, ArgumentTypeError for axes that are no ints, ArgumentValueError for one
    axis twice, ValueError of NumPy for a ragged list.

    >>> size(jnp.ones((2, 3)), 1)
    3
    """
    sizes = _shape_of(a)
    return math.prod(sizes[i] for i in canonical_axes(axis, len(sizes)))


def can_cast(from_: ArrayLike | DTypeLike, to: DTypeLike, casting: str = "safe") -> bool:
    """Whether NumPy casts values of one dtype to another; see `numpy.can_cast`.

    `from_` is a dtype, its name, or an array, which counts as its dtype.
    Raises: ValueError of NumPy for an unknown `casting`.

    >>> can_cast("int32", "float64")
    True
    """
    source = from_ if isinstance(from_, type) else getattr(from_, "dtype", from_)
    return bool(np.can_cast(source, to, casting=casting))  # type: ignore[arg-type]


def copy(a: ArrayLike, order: str | None = None) -> Array:
    """A copy of the array or number `a`.

    Result: shape and dtype of `a`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ArgumentValueError for an `order` other
    than "K" and "C".

    >>> copy(jnp.array([1]))
    Array([1], dtype=int32)
    """
    aval_of("copy", a)
    return array(a, copy=True, order="K" if order is None else order)


def astype(
    x: ArrayLike, dtype: DTypeLike | None, /, *, copy: bool = False, device: DeviceLike = None
) -> Array:
    """`x` with elements of another dtype: floating ones are cut to integers, complex ones to their real parts.

    Raises: ArgumentTypeError for lists.

    >>> astype(jnp.array([1.5]), "int32")
    Array([1], dtype=int32)
    """
    aval_of("astype", x)
    # Not the method: a NumPy array of dtype float0 has its own.
    return operators.astype(asarray(x), dtype, copy=copy, device=device)


def array_repr(
    arr: ArrayLike,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """Text of an array with its type, as `repr` gives it; see `numpy.array_repr`.

    Result: a str; lists are converted first, as NumPy does, and keep its dtype.
    Raises: TracerArrayConversionError for a traced array, ArrayConversionError for random keys.

    >>> array_repr(jnp.array([1.0]))
    'Array([1.], dtype=float32)'
    """
    text = np.array_repr(np.asarray(arr), max_line_width, precision, suppress_small)
    dtype = np.asarray(arr).dtype
    body = text.removeprefix("array")
    return f"Array{body}" if "dtype=" in body else f"Array{body[:-1]}, dtype={dtype.name})"


def array_str(
    a: ArrayLike,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """Text of the elements of an array; see `numpy.array_str`.

    Result: a str; dtypes aren't shown.
    Raises: TracerArrayConversionError for a traced array, ArrayConversionError for random keys.

    >>> array_str(jnp.array([1.0]))
    '[1.]'
    """
    return np.array_str(np.asarray(a), max_line_width, precision, suppress_small)


__all__ = [
    "array_repr", "array_str", "astype", "can_cast", "copy", "iscomplex", "iscomplexobj", "isreal", "isrealobj",
    "isscalar", "iterable", "ndim", "shape", "size",
]  # fmt: skip

public_functions(__all__, globals())
