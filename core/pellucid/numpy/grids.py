"""Indices of diagonals, triangles and grids; arrays made by slices: `mgrid`, `r_`, `s_`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ArrayLike,
    DTypeLike,
    dtypes,
    library_code,
    public_functions,
)
from pellucid._machine.tracing import Tracer, type_of
from pellucid._machine.xla.arrays import Array

from .annotations import ShapeLike
from .compiled import numpy_function
from .creation import arange, array, asarray, linspace, meshgrid, ones
from .elementwise import clip, remainder
from .joining import concatenate, stack
from .manipulation import expand_dims, nonzero, ravel, reshape
from .promotion import able_to_hold, as_tuple, aval_of, known_int, promote_dtypes


def diag_indices(n: int, ndim: int = 2) -> tuple[Any, ...]:
    """Indices of the main diagonal of an array of `ndim` dimensions of size `n`: `ndim` vectors [n].

    Raises: ArgumentValueError for negative `n` or `ndim`.

    >>> diag_indices(3)
    (Array([0, 1, 2], dtype=int32), Array([0, 1, 2], dtype=int32))
    """
    n, ndim = known_int("diag_indices", "n", n), known_int("diag_indices", "ndim", ndim)
    if n < 0 or ndim < 0:
        raise ArgumentValueError(
            "jnp.diag_indices needs a size and a number of dimensions that aren't negative.",
            got=f"n={n}, ndim={ndim}",
        )
    return (arange(n),) * ndim


def diag_indices_from(arr: ArrayLike) -> tuple[Any, ...]:
    """Indices of the main diagonal of `arr`, whose dimensions have one size.

    Result: for each dimension a vector [n] of the default integer dtype.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ArgumentValueError for fewer than two
    dimensions, or different sizes.

    >>> diag_indices_from(jnp.zeros((2, 2)))
    (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    aval = aval_of("diag_indices_from", arr)
    if aval.ndim < 2 or len(set(aval.shape)) > 1:
        raise ArgumentValueError(
            "jnp.diag_indices_from needs at least two dimensions, all of one size.",
            got=f"got {aval.text()}",
        )
    return diag_indices(aval.shape[0], aval.ndim)


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """(rows, columns) of the elements on or below the diagonal number `k` of an `n` by `m` (or `n`) matrix.

    Result: two vectors of the default integer dtype.
    Raises: ArgumentTypeError for sizes and a `k` that are no ints.

    >>> tril_indices(2)
    (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    return _indices_of_known_mask(_lower_triangle("tril_indices", n, m, k))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """(rows, columns) of the elements on or above the diagonal number `k` of an `n` by `m` (or `n`) matrix.

    Result: two vectors of the default integer dtype.
    Raises: ArgumentTypeError for sizes and a `k` that are no ints.

    >>> triu_indices(2)
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    return _indices_of_known_mask(~_lower_triangle("triu_indices", n, m, k, below=1))


def _lower_triangle(name: str, n: int, m: int | None, k: int, *, below: int = 0) -> np.ndarray:
    """Mask [n, m] of the elements on and below the diagonal number `k` minus `below`."""
    rows = known_int(name, "n", n)
    columns = rows if m is None else known_int(name, "m", m)
    return np.tri(rows, columns, known_int(name, "k", k) - below, dtype=bool)


def _indices_of_known_mask(mask: np.ndarray) -> tuple[Any, Any]:
    rows, columns = np.nonzero(mask)
    index = dtypes.default_int_dtype()
    return asarray(rows.astype(index)), asarray(columns.astype(index))


def _matrix_shape(name: str, arr: ArrayLike) -> tuple[int, int]:
    aval = aval_of(name, arr)
    if aval.ndim != 2:
        raise ArgumentValueError(f"jnp.{name} needs a matrix.", got=f"got {aval.text()}")
    return aval.shape


def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Any, Any]:
    """`tril_indices` for the shape of the matrix `arr`.

    Result: two vectors of the default integer dtype.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for a `k` that is no int,
    ArgumentValueError unless `arr` is a matrix.

    >>> tril_indices_from(jnp.zeros((2, 2)))
    (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    rows, columns = _matrix_shape("tril_indices_from", arr)
    return tril_indices(rows, k, columns)


def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Any, Any]:
    """`triu_indices` for the shape of the matrix `arr`.

    Result: two vectors of the default integer dtype.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for a `k` that is no int,
    ArgumentValueError unless `arr` is a matrix.

    >>> triu_indices_from(jnp.zeros((2, 2)), 1)
    (Array([0], dtype=int32), Array([1], dtype=int32))
    """
    rows, columns = _matrix_shape("triu_indices_from", arr)
    return triu_indices(rows, k, columns)


def mask_indices(
    n: int, mask_func: Callable[..., Any], k: ArrayLike = 0, *, size: int | None = None
) -> tuple[Any, ...]:
    """(rows, columns) of the nonzero elements of `mask_func(ones((n, n)), k)`, for example of `jnp.triu`.

    Result: for each dimension of the mask a vector of the default integer dtype, of `size` elements if that is given.
    Raises: ArgumentTypeError for an `n` that is no int, ShapeError for a negative one, ConcretizationTypeError for a traced
    mask without `size`.

    >>> mask_indices(2, jnp.triu)
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    return nonzero(mask_func(ones((n, n)), k), size=size)


def ix_(*args: ArrayLike) -> tuple[Any, ...]:
    """Vectors as an index of the grid that they span: each shaped to vary along its own axis. Masks become indices.

    Raises: ArgumentValueError for an argument that is no vector.

    >>> [x.shape for x in ix_(jnp.array([0, 1]), jnp.array([2, 4, 6]))]
    [(2, 1), (1, 3)]
    """
    entries = []
    for i, x in enumerate(args):
        aval = aval_of("ix_", x, i)
        if aval.ndim != 1:
            raise ArgumentValueError(
                "jnp.ix_ needs vectors.", got=f"argument {i}: {aval.text()}", do="Ravel it first."
            )
        if aval.dtype == np.bool_:
            [x] = nonzero(x)
        elif not aval.size:
            x = asarray(x, dtype=dtypes.default_int_dtype())
        entries.append(reshape(asarray(x), tuple(-1 if j == i else 1 for j in range(len(args)))))
    return tuple(entries)


def unravel_index(indices: ArrayLike, shape: ShapeLike) -> tuple[Any, ...]:
    """Positions along each axis of an array of `shape` for flat `indices`; negative ones count from the end.

    Indices out of bounds are moved to the nearest bound.
    Result: for each size of `shape` an array with the shape of `indices`, and their dtype if it can count all elements,
    else the default integer dtype.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, and for `indices` and sizes that are no
    integers.

    >>> unravel_index(jnp.array([3, 5]), (2, 3))
    (Array([1, 1], dtype=int32), Array([0, 2], dtype=int32))
    """
    aval = aval_of("unravel_index", indices)
    if aval.dtype not in dtypes.KINDS["integral"]:
        raise ArgumentTypeError(
            "jnp.unravel_index needs indices of an integer dtype.", got=f"got {aval.text()}"
        )
    sizes = tuple([known_int("unravel_index", "shape", n) for n in as_tuple(shape)])
    return tuple(_unravel_index(indices, sizes))


@numpy_function(static="shape")
def _unravel_index(indices: Any, shape: tuple[int, ...]) -> list[Any]:
    total = math.prod(shape)
    indices = able_to_hold(total, indices)
    if type_of(indices).dtype.kind == "i":
        indices = indices + total * (indices < 0)
    left = clip(indices, 0, max(total - 1, 0))
    positions = []
    for size in reversed(shape):
        if size == 0:
            positions.append(left * 0)
        else:
            positions.append(remainder(left, size))
            left = left // size
    return positions[::-1]


def ravel_multi_index(
    multi_index: Sequence[Any],
    dims: Sequence[int],
    mode: str = "raise",
    order: str = "C",
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """Flat indices of positions along each axis of an array of shape `dims`.

    `mode` for positions out of bounds: "raise" (not under a trace), "clip", "wrap". `order`: "C" or "F".
    Raises: ArgumentValueError for another number of axes.

    >>> ravel_multi_index((jnp.array([1, 1]), jnp.array([0, 2])), (2, 3))
    Array([3, 5], dtype=int32)
    """
    positions, sizes = (
        list(multi_index),
        tuple([known_int("ravel_multi_index", "dims", n) for n in dims]),
    )
    if len(positions) != len(sizes):
        raise ArgumentValueError(
            "jnp.ravel_multi_index needs a position for each dimension.",
            got=f"{len(positions)} positions, {len(sizes)} dimensions",
        )
    for i, position in enumerate(positions):
        aval = aval_of("ravel_multi_index", position, i)
        if aval.dtype not in dtypes.KINDS["integral"]:
            raise ArgumentTypeError(
                "jnp.ravel_multi_index needs positions of an integer dtype.",
                got=f"position {i}: {aval.text()}",
            )
        if mode == "raise":
            if isinstance(position, Tracer):
                raise ArgumentTypeError(
                    "jnp.ravel_multi_index can't raise for positions out of bounds: they are traced.",
                    do='Use mode "clip" or "wrap".',
                )
            values = np.asarray(position)
            if values.size and not (values.min() >= 0 and values.max() < sizes[i]):
                raise ArgumentValueError(
                    "jnp.ravel_multi_index got a position out of bounds.",
                    got=f"dimension {i} of size {sizes[i]}: from {values.min()} to {values.max()}",
                )
    if mode == "clip":
        positions = [clip(p, 0, n - 1) for p, n in zip(positions, sizes, strict=True)]
    elif mode == "wrap":
        positions = [remainder(p, n) for p, n in zip(positions, sizes, strict=True)]
    elif mode != "raise":
        raise ArgumentValueError(
            "jnp.ravel_multi_index has no such mode.",
            got=f"got {mode!r}",
            do="Use one of raise, clip, wrap.",
        )
    if order not in ("C", "F"):
        raise ArgumentValueError(
            'jnp.ravel_multi_index has orders "C" and "F".', got=f"got {order!r}"
        )
    strides = [1]
    for size in (reversed(sizes[1:]) if order == "C" else sizes[:-1]) if sizes else ():
        strides.append(strides[-1] * size)
    if order == "C":
        strides.reverse()
    chosen = dtypes.default_int_dtype() if dtype is None else dtypes.canonicalize(np.dtype(dtype))
    result = asarray(0, dtype=chosen)
    for position, stride in zip(positions, strides, strict=False):
        result = result + asarray(position, dtype=chosen) * stride
    return result


# Arrays by slices ---------------------------------------------------------------------------------


def _values_of(part: slice) -> Any:
    """The numbers of a grid's slice: an imaginary step is their count, and `stop` is then included."""
    start, stop = 0 if part.start is None else part.start, part.stop
    step = 1 if part.step is None else part.step
    if isinstance(step, complex):
        return linspace(start, stop, int(abs(step)))
    return arange(start, stop, step)


class _Grid:
    """Grids from one slice per dimension: `grid[0:2, 0:1:3j]`."""

    def __init__(self, *, sparse: bool) -> None:
        self.sparse = sparse

    @library_code
    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return _values_of(key)
        axes = _promoted_axes(*map(_values_of, key))
        if self.sparse:
            return list(meshgrid(*axes, indexing="ij", sparse=True))
        return stack(meshgrid(*axes, indexing="ij")) if axes else array([])


@library_code
def _promoted_axes(*axes: Any) -> list[Any]:
    return promote_dtypes("mgrid", *axes)


class _Concatenator:
    """Joins slices, arrays and numbers along an axis; a string `axis,ndim,position` in front sets how.

    `axis`: along which axis; `ndim`: with how many dimensions at least; `position`: where a piece's own axes stand
    among these.
    """

    def __init__(self, axis: int, ndim: int, position: int) -> None:
        self.axis, self.ndim, self.position = axis, ndim, position

    def __getitem__(self, key: Any) -> Any:
        parts = list(key) if isinstance(key, tuple) else [key]
        axis, ndim, position, is_matrix = self.axis, self.ndim, self.position, None
        if parts and isinstance(parts[0], str):
            text = parts.pop(0)
            if text in ("r", "c"):
                is_matrix, axis, ndim, position = text, -1, 1, -1
            else:
                axis, ndim, position = self._numbers_of(text)
        pieces = []
        for part in parts:
            if isinstance(part, str):
                raise ArgumentValueError(
                    "a string must come first in r_ and c_.", got=f"got {part!r}"
                )
            piece = _values_of(part) if isinstance(part, slice) else asarray(part)
            pieces.append(self._with_axes(piece, ndim, position))
        joined = concatenate([*map(_with_dimension, pieces)], axis)
        if is_matrix is None:
            return joined
        return reshape(joined, (1, -1) if is_matrix == "r" else (-1, 1))

    def _numbers_of(self, text: str) -> tuple[int, int, int]:
        """`axis`, `ndim` and `position` by the string in front; those that it leaves out are the object's own."""
        own = self.axis, self.ndim, self.position
        numbers = text.split(",")
        try:
            given = [int(number) for number in numbers]
        except ValueError:
            given = None
        if given is None or len(given) > len(own):
            raise ArgumentValueError(
                "a string in r_ and c_ must have up to three whole numbers.",
                got=f"got {text!r}",
                do='For example "0,2": along axis 0, with two dimensions.',
            )
        axis, ndim, position = (*given, *own[len(given) :])
        return axis, ndim, position

    def _with_axes(self, piece: Array, ndim: int, position: int) -> Any:
        missing = ndim - piece.ndim
        if missing <= 0:
            return piece
        if not piece.ndim:
            return reshape(piece, (1,) * ndim)
        first = position if position >= 0 else missing + position + 1
        axes = [i for i in range(ndim) if not first <= i < first + piece.ndim]
        return expand_dims(piece, tuple(axes))


def _with_dimension(x: Array) -> Any:
    """`x` with at least one dimension."""
    return x if x.ndim else ravel(x)


class _Indexer:
    """Returns its index: slices as values, `s_[1:3]`."""

    def __init__(self, *, as_tuple: bool) -> None:
        self.as_tuple = as_tuple

    def __getitem__(self, key: Any) -> Any:
        return (key,) if self.as_tuple and not isinstance(key, tuple) else key


mgrid = _Grid(sparse=False)
ogrid = _Grid(sparse=True)
r_ = _Concatenator(0, 1, -1)
c_ = _Concatenator(-1, 2, 0)
s_ = _Indexer(as_tuple=False)
index_exp = _Indexer(as_tuple=True)


__all__ = [
    "c_", "diag_indices", "diag_indices_from", "index_exp", "ix_", "mask_indices", "mgrid", "ogrid", "r_",
    "ravel_multi_index", "s_", "tril_indices", "tril_indices_from", "triu_indices", "triu_indices_from",
    "unravel_index",
]  # fmt: skip

public_functions(__all__, globals())
