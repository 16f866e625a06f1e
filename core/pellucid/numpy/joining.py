"""Joining and splitting of arrays: concatenate, stack, split."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ArrayLike,
    DTypeLike,
    Ints,
    ShapeError,
    public_functions,
    replace_axis_size,
)
from pellucid._machine.primitives import assembly
from pellucid._machine.primitives.movement import canonical_axis
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array

from .compiled import numpy_function
from .creation import asarray
from .manipulation import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    moveaxis,
    ravel,
    reshape,
    squeeze,
)
from .promotion import aval_of, check_arrays, known_int, promote_dtypes, refuse_out


def concatenate(
    arrays: Array | Sequence[ArrayLike], axis: int | None = 0, dtype: DTypeLike | None = None
) -> Array:
    """`arrays` joined along an existing `axis`; raveled first if it is None.

    Result: shape of the arrays, which differs along `axis` only, where their sizes add up; dtype `dtype`, or what they
    promote to.
    Raises: ArgumentTypeError for lists and other values that aren't arrays in the sequence, ArgumentValueError for an
    empty one, AxisError for axes out of bounds, ShapeError for scalars and for shapes that differ elsewhere.

    >>> concatenate([np.array([1, 2]), np.array([3.0])])
    Array([1., 2., 3.], dtype=float32)
    """
    whole: Any = arrays
    if (
        not isinstance(arrays, (list, tuple))
        and getattr(whole, "ndim", 0) > 1
        and whole.shape[0] != 0
    ):
        return _concatenate_rows(whole, axis, dtype)
    parts = _sequence("concatenate", arrays)
    if not parts:
        raise ArgumentValueError("jnp.concatenate needs at least one array.")
    if axis is None:
        return _concatenate([ravel(p) for p in parts], 0, dtype)
    first = aval_of("concatenate", parts[0])
    if first.ndim == 0:
        raise ShapeError(
            "jnp.concatenate can't join arrays without dimensions.", do="Use `jnp.stack`."
        )
    return _concatenate(parts, canonical_axis(axis, first.ndim), dtype)


@numpy_function(static=("axis", "dtype"))
def _concatenate_rows(arrays: ArrayLike, axis: int | None, dtype: DTypeLike | None) -> Any:
    """`arrays` [n, ...] as one array, in which the n slices are joined along `axis` (raveled if it is None)."""
    if axis is None:
        joined = ravel(arrays)
    else:
        first, *shape = type_of(arrays).shape
        axis = canonical_axis(axis, len(shape))
        joined = reshape(
            moveaxis(arrays, 0, axis), replace_axis_size(shape, axis, first * shape[axis])
        )
    return joined if dtype is None else joined.astype(dtype)


def _sequence(name: str, arrays: Array | Sequence[ArrayLike]) -> list[Any]:
    if not isinstance(arrays, (list, tuple)):
        if hasattr(arrays, "shape") and getattr(arrays, "ndim", 0):
            return list(arrays)
        raise ArgumentTypeError(
            f"jnp.{name} needs a sequence of arrays.", got=f"got {type(arrays).__name__}"
        )
    check_arrays(name, *arrays)
    return list(arrays)


@numpy_function(static=("axis", "dtype"))
def _concatenate(arrays: list[Any], axis: int, dtype: DTypeLike | None) -> Any:
    parts = promote_dtypes("concatenate", *arrays)
    joined = assembly.concatenate(parts, axis) if len(parts) > 1 else asarray(parts[0])
    return joined if dtype is None else joined.astype(dtype)


def concat(arrays: Array | Sequence[ArrayLike], /, *, axis: int | None = 0) -> Array:
    """`arrays` joined along an existing `axis`; raveled first if it is None.

    Result: shape of the arrays, which differs along `axis` only, where their sizes add up; dtype that they promote to.
    Raises: ArgumentTypeError for lists and other values that aren't arrays in the sequence, ArgumentValueError for an
    empty one, AxisError for axes out of bounds, ShapeError for scalars and for shapes that differ elsewhere.

    >>> concat([np.ones((2, 1)), np.ones((2, 3))], axis=1).shape
    (2, 4)
    """
    return concatenate(arrays, axis)


def stack(
    arrays: Array | Sequence[ArrayLike],
    axis: int = 0,
    out: None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """`arrays`, all of one shape, joined along a new `axis`.

    Result: shape of one of them with their number at `axis`; dtype `dtype`, or what they promote to.
    Raises: ArgumentTypeError for lists and other values that aren't arrays in the sequence, ArgumentValueError for an
    empty one, AxisError for axes out of bounds, ShapeError for different shapes, UnsupportedError for `out`.

    >>> stack([np.array([1, 2]), np.array([3, 4])], axis=1)
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    refuse_out("stack", out)
    parts = _sequence("stack", arrays)
    if not parts:
        raise ArgumentValueError("jnp.stack needs at least one array.")
    shapes = {aval_of("stack", p, i).shape for i, p in enumerate(parts)}
    if len(shapes) > 1:
        raise ShapeError(
            "jnp.stack needs arrays of one shape.",
            got=[f"array {i}: {type_of(p).text()}" for i, p in enumerate(parts)],
        )
    return _stack(parts, canonical_axis(axis, type_of(parts[0]).ndim + 1), dtype)


@numpy_function(static=("axis", "dtype"))
def _stack(arrays: list[Any], axis: int, dtype: DTypeLike | None) -> Any:
    joined = assembly.stack(promote_dtypes("stack", *arrays), axis)
    return joined if dtype is None else joined.astype(dtype)


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The slices of `x` along `axis`, without that axis.

    Result: a tuple of arrays with the shape of `x` without `axis`, and its dtype.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ShapeError for a scalar.

    >>> unstack(np.array([[1, 2], [3, 4]]))
    (Array([1, 2], dtype=int32), Array([3, 4], dtype=int32))
    """
    aval = aval_of("unstack", x)
    if aval.ndim == 0:
        raise ShapeError("jnp.unstack needs at least one dimension.", got=f"got {aval.text()}")
    return _unstack(x, canonical_axis(axis, aval.ndim))


@numpy_function(static="axis")
def _unstack(x: ArrayLike, axis: int) -> tuple[Any, ...]:
    n = type_of(x).shape[axis]
    return tuple([squeeze(part, axis) for part in split(x, n, axis)] if n else ())


def hstack(tup: Array | Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Array:
    """Arrays joined along their second axis, vectors along their first.

    Result: dtype `dtype`, or what the arrays promote to. Scalars count as vectors.
    Raises: ArgumentTypeError for lists and other values that aren't arrays in the sequence, ArgumentValueError for an
    empty one, ShapeError for shapes that differ along another axis.

    >>> hstack([np.ones((2, 1)), np.ones((2, 3))]).shape
    (2, 4)
    """
    parts = [atleast_1d(x) for x in _sequence("hstack", tup)]
    return concatenate(parts, 0 if parts and parts[0].ndim == 1 else 1, dtype)


def vstack(tup: Array | Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Array:
    """Arrays joined along their first axis; vectors become rows.

    Result: at least two dimensions; dtype `dtype`, or what the arrays promote to.
    Raises: ArgumentTypeError for lists and other values that aren't arrays in the sequence, ArgumentValueError for an
    empty one, ShapeError for shapes that differ along another axis.

    >>> vstack([np.array([1, 2]), np.array([3, 4])])
    Array([[1, 2],
           [3, 4]], dtype=int32)
    """
    return concatenate([atleast_2d(x) for x in _sequence("vstack", tup)], 0, dtype)


def dstack(tup: Array | Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Array:
    """Arrays joined along their third axis.

    Result: shape [m, n, ...]; dtype `dtype`, or what the arrays promote to. Vectors [n] count as [1, n, 1], matrices
    [m, n] as [m, n, 1].
    Raises: ArgumentTypeError for lists and other values that aren't arrays in the sequence, ArgumentValueError for an
    empty one, ShapeError for shapes that differ along another axis.

    >>> dstack([np.ones((2, 3)), np.ones((2, 3))]).shape
    (2, 3, 2)
    """
    return concatenate([atleast_3d(x) for x in _sequence("dstack", tup)], 2, dtype)


def column_stack(tup: Array | Sequence[ArrayLike]) -> Array:
    """Vectors as the columns of a matrix; matrices are joined along their second axis.

    Result: shape [m, n]; dtype that the arrays promote to.
    Raises: ArgumentTypeError for lists and other values that aren't arrays in the sequence, ArgumentValueError for an
    empty one, ShapeError for columns of different lengths.

    >>> column_stack([np.array([1, 2]), np.array([3, 4])])
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    parts = [asarray(x) for x in _sequence("column_stack", tup)]
    return concatenate([x if x.ndim > 1 else reshape(x, (-1, 1)) for x in parts], 1)


def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """`arr` with `values` joined at the end of `axis`; both raveled if it is None.

    Result: shape of `arr`, longer along `axis`, or a vector; dtype that both promote to.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ShapeError for shapes that differ elsewhere.

    >>> append(np.array([1, 2]), np.array([[3, 4]]))
    Array([1, 2, 3, 4], dtype=int32)
    """
    return concatenate([arr, values], axis)


def split(ary: ArrayLike, indices_or_sections: ArrayLike | Ints, axis: int = 0) -> list[Any]:
    """`ary` cut along `axis`: into that many equal parts, or before each of the given indices.

    Result: a list of arrays with the shape of `ary` but for `axis`, and its dtype. Negative indices count from the end.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for indices that are no ints, AxisError
    for axes out of bounds, ArgumentValueError for a number of parts that doesn't divide the axis.

    >>> split(np.arange(4), 2)
    [Array([0, 1], dtype=int32), Array([2, 3], dtype=int32)]
    >>> [part.size for part in split(np.arange(6), [1, 3])]
    [1, 2, 3]
    """
    aval = aval_of("split", ary)
    axis = canonical_axis(axis, aval.ndim)
    return list(
        _split(ary, _sizes("split", aval.shape[axis], indices_or_sections, uneven=False), axis)
    )


def array_split(ary: ArrayLike, indices_or_sections: ArrayLike | Ints, axis: int = 0) -> list[Any]:
    """Like `split`; the number of parts need not divide the axis.

    Result: a list of arrays with the shape of `ary` but for `axis`, and its dtype; the first parts are longer by one.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for indices that are no ints, AxisError
    for axes out of bounds, ArgumentValueError for a number of parts that isn't positive.

    >>> [part.size for part in array_split(np.arange(7), 3)]
    [3, 2, 2]
    """
    aval = aval_of("array_split", ary)
    axis = canonical_axis(axis, aval.ndim)
    return list(
        _split(ary, _sizes("array_split", aval.shape[axis], indices_or_sections, uneven=True), axis)
    )


def _sizes(name: str, size: int, sections: Any, *, uneven: bool) -> tuple[int, ...]:
    if np.ndim(sections) == 0:
        n = known_int(name, "indices_or_sections", sections)
        if n <= 0 or (size % n and not uneven):
            raise ArgumentValueError(
                f"jnp.{name} can't cut an axis of size {size} into {n} equal parts.",
                do="Use `jnp.array_split`.",
            )
        return tuple(size // n + (i < size % n) for i in range(n))
    edges = [
        0,
        *(
            int(np.clip(i + size if i < 0 else i, 0, size))
            for i in [known_int(name, "indices_or_sections", i) for i in sections]
        ),
        size,
    ]
    return tuple(max(0, b - a) for a, b in itertools.pairwise(edges))


@numpy_function(static=("sizes", "axis"))
def _split(ary: ArrayLike, sizes: tuple[int, ...], axis: int) -> tuple[Any, ...]:
    return tuple(assembly.split(ary, sizes, axis))


def hsplit(ary: ArrayLike, indices_or_sections: ArrayLike | Ints) -> list[Any]:
    """`ary` cut along its second axis, a vector along its first.

    Result: a list of arrays with the shape of `ary` but for the axis that is cut, and its dtype.
    Raises: the errors of `split`.

    >>> [part.shape for part in hsplit(np.ones((2, 4)), 2)]
    [(2, 2), (2, 2)]
    """
    return split(ary, indices_or_sections, 0 if aval_of("hsplit", ary).ndim == 1 else 1)


def vsplit(ary: ArrayLike, indices_or_sections: ArrayLike | Ints) -> list[Any]:
    """`ary` cut along its first axis.

    Result: a list of arrays with the shape of `ary` but for its first axis, and its dtype.
    Raises: the errors of `split`.

    >>> [part.shape for part in vsplit(np.ones((2, 4)), 2)]
    [(1, 4), (1, 4)]
    """
    return split(ary, indices_or_sections, 0)


def dsplit(ary: ArrayLike, indices_or_sections: ArrayLike | Ints) -> list[Any]:
    """`ary` cut along its third axis.

    Result: a list of arrays with the shape of `ary` but for its third axis, and its dtype.
    Raises: the errors of `split`.

    >>> [part.shape for part in dsplit(np.ones((2, 3, 4)), 2)]
    [(2, 3, 2), (2, 3, 2)]
    """
    return split(ary, indices_or_sections, 2)


__all__ = [
    "append", "array_split", "column_stack", "concat", "concatenate", "dsplit", "dstack", "hsplit", "hstack",
    "split", "stack", "unstack", "vsplit", "vstack",
]  # fmt: skip

public_functions(__all__, globals())
