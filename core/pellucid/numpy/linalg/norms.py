"""Norms of vectors and matrices, and condition numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    ShapeError,
    dtypes,
    library_code,
    public_functions,
)
from pellucid._machine.higher_order.cond import cond as cond_of
from pellucid._machine.higher_order.custom_jvp import custom_jvp
from pellucid._machine.linalg.matrices import eye_like
from pellucid._machine.linalg.solve import solve
from pellucid._machine.linalg.svd import svd
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.annotations import Axis
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.elementwise import abs as absolute, sqrt
from pellucid.numpy.manipulation import canonical_axes, expand_dims, moveaxis, where
from pellucid.numpy.number_kinds import conj, isnan, real
from pellucid.numpy.reductions import max as greatest, min as least, static_axis, sum as total

from .arguments import inexact, matrices, square_matrices

_MATRIX_ORDERS = ("fro", "nuc", np.inf, -np.inf, 1, -1, 2, -2)


@numpy_function(static=("ord", "axis", "keepdims"))
def _norm(x: ArrayLike, ord: int | float | str | None, axis: Axis, keepdims: bool) -> Any:
    [x] = inexact("norm", x)
    ndim = type_of(x).ndim
    if axis is None:
        if ord is None:
            return _euclidean(x, tuple(range(ndim)), keepdims)
        axis = tuple(range(ndim))
    axes = canonical_axes(axis, ndim)
    if len(axes) == 1:
        return _vector_norms(x, 2 if ord is None else ord, axes, keepdims)
    if len(axes) == 2:
        return _matrix_norms(x, "fro" if ord is None else ord, axes, keepdims)
    raise ArgumentValueError(
        "jnp.linalg.norm needs one axis (of vectors) or two (of matrices).",
        got=[f"operand: {type_of(x).text()}", f"ord: {ord!r}, axis: {axis}"],
    )


def _squares(x: ArrayLike) -> Any:
    return real(x * conj(x)) if type_of(x).dtype.kind == "c" else x * x


def _euclidean(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    aval = type_of(x)
    if len(axes) < aval.ndim or not aval.size:
        return sqrt(total(_squares(x), axis=axes, keepdims=keepdims))
    # Squares of half-precision numbers are in the range of single precision, where they keep their digits.
    wide = x if dtypes.finfo(aval.dtype).bits >= 32 else x.astype(np.float32)
    length = _length(wide).astype(real(x).dtype)
    return expand_dims(length, axes) if keepdims else length


def _length_of(x: Any) -> Any:
    """The Euclidean norm of all of `x`, which is scaled by a power of two where its sum of squares leaves the range."""
    squares = total(_squares(x))
    info = np.finfo(type_of(squares).dtype)
    # Within these bounds no significant square is subnormal, and derivatives of the root are finite.
    is_small, is_large = squares < math.sqrt(info.tiny), squares > math.sqrt(info.max)
    # 2^80 in single precision, which brings every sum of squares into the range.
    power = 2.0 ** (5 * info.maxexp // 8)

    def scaled_norm() -> Any:
        scale = where(is_small, power, 1 / power).astype(info.dtype)
        return sqrt(total(_squares(x * scale))) * where(is_small, 1 / power, power)

    return cond_of(is_small | is_large, scaled_norm, lambda: sqrt(squares))


_length = custom_jvp(library_code(_length_of))


@library_code
def _length_jvp(primals: Any, tangents: Any) -> Any:
    # `x / length` doesn't depend on the scale of `x`; at 0 it is NaN: there is no direction.
    [x], [x_dot] = primals, tangents
    length = _length(x)
    info = np.finfo(type_of(length).dtype)
    # XLA divides by the reciprocal, which is subnormal for the greatest lengths: 0 on CPUs.
    scale = where(length > math.sqrt(info.max), 1 / 16, 1).astype(info.dtype)
    direction = x * scale / (length * scale)
    products = (conj(direction) if type_of(x).dtype.kind == "c" else direction) * x_dot
    return length, total(real(products))


_length.defjvp(_length_jvp)


def _vector_norms(x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """Norms of the vectors along `axes`, joined."""
    if isinstance(ord, str):
        raise ArgumentValueError(f"jnp.linalg.norm: there is no norm {ord!r} of vectors.")
    options = {"axis": axes, "keepdims": keepdims}
    if ord == np.inf:
        is_empty = not math.prod(x.shape[axis] for axis in axes)
        return greatest(absolute(x), **options, initial=0 if is_empty else None)
    if ord == -np.inf:
        return least(absolute(x), **options)
    if ord == 0:
        return total((x != 0).astype(real(x).dtype), **options)
    if ord == 1:
        return total(absolute(x), **options)
    if ord == 2:
        return _euclidean(x, axes, keepdims)
    powers = total(absolute(x) ** ord, **options)
    return powers ** (1 / ord)


def _matrix_norms(
    x: ArrayLike, ord: int | float | str | None, axes: tuple[int, ...], keepdims: bool
) -> Any:
    row, column = axes
    if row == column:
        raise ArgumentValueError("jnp.linalg.norm got an axis twice.", got=f"axis: {axes}")
    if ord == "fro":
        return _euclidean(x, axes, keepdims)
    if ord not in _MATRIX_ORDERS:
        raise ArgumentValueError(
            f"jnp.linalg.norm: there is no norm {ord!r} of matrices.",
            do=f"Orders are {', '.join(map(repr, _MATRIX_ORDERS))}.",
        )
    if ord in (1, -1, np.inf, -np.inf):
        summed, other = (row, column) if ord in (1, -1) else (column, row)
        sums = total(absolute(x), axis=summed, keepdims=True)
        norms = (greatest if ord > 0 else least)(sums, axis=other, keepdims=True)
    else:
        s = svd(moveaxis(x, axes, (-2, -1)), full_matrices=False, compute_uv=False)
        if ord == "nuc":
            norms = total(s, axis=-1)
        else:
            norms = greatest(s, axis=-1, initial=0) if ord == 2 else least(s, axis=-1)
        return expand_dims(norms, axes) if keepdims else norms
    return norms if keepdims else norms.squeeze(axes)


def _static_order(ord: Any) -> Any:
    return ord if ord is None or isinstance(ord, (str, int, float)) else float(ord)


def norm(
    x: ArrayLike, ord: int | float | str | None = None, axis: Axis = None, keepdims: bool = False
) -> Array:
    """Norm of vectors along one `axis`, or of matrices over two; by default of all elements.

    `ord` of vectors: a number p, for the p-th root of the sum of p-th powers of absolute values, 2 by default; 0 (number of
    nonzero elements), inf and -inf (greatest and least absolute value). Of matrices: "fro" (default), "nuc" (sum
    of singular values), 2 and -2 (greatest and least one), 1 and -1 (greatest and least sum of a column), inf and -inf
    (of a row). Raises: ArgumentValueError for another one, and for more than two axes.

    >>> norm(np.array([3.0, 4.0]))
    Array(5., dtype=float32)
    """
    return _norm(x, _static_order(ord), static_axis(axis), bool(keepdims))


def matrix_norm(
    x: ArrayLike, /, *, keepdims: bool = False, ord: int | float | str = "fro"
) -> Array:
    """Norms of the matrices in the last two axes of `x`; see `norm`.

    Result: shape of `x` without these axes, or with size 1 there if `keepdims`; the real dtype of the elements.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for fewer than two dimensions,
    ArgumentValueError for an unknown `ord`.

    >>> matrix_norm(np.ones((5, 2, 2)), ord=1)
    Array([2., 2., 2., 2., 2.], dtype=float32)
    """
    return _norm(x, _static_order(ord), (-2, -1), bool(keepdims))


@numpy_function(static=("axis", "keepdims", "ord"))
def _vector_norm(x: ArrayLike, axis: Axis, keepdims: bool, ord: int | float | str) -> Any:
    [x] = inexact("vector_norm", x)
    ndim = type_of(x).ndim
    return _vector_norms(x, ord, canonical_axes(axis, ndim), keepdims)


def vector_norm(
    x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False, ord: int | float | str = 2
) -> Array:
    """Norms of the vectors along `axis`; several axes, or all, hold one vector together. See `norm`.

    Result: shape of `x` without `axis`, or with size 1 there if `keepdims`; the real dtype of the elements.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for an `ord` that is a text.

    >>> vector_norm(np.ones((4, 4)))
    Array(4., dtype=float32)
    """
    return _vector_norm(x, static_axis(axis), bool(keepdims), _static_order(ord))


@numpy_function(static="p")
def _cond(x: Any, p: int | float | str | None) -> Any:
    x = matrices("cond", x)
    if type_of(x).size == 0:
        raise ShapeError("jnp.linalg.cond needs matrices with elements.", got=type_of(x).text())
    if p in (None, 2, -2):
        s = svd(x, full_matrices=False, compute_uv=False)
        first, last = s[..., 0], s[..., -1]
        ratio = last / first if p == -2 else first / last
    else:
        x = square_matrices("cond", x)
        inverse = solve(x, eye_like(x))
        last_two = (type_of(x).ndim - 2, type_of(x).ndim - 1)
        ratio = _matrix_norms(x, p, last_two, False) * _matrix_norms(inverse, p, last_two, False)
    had_nan = isnan(x).any(axis=(-2, -1))
    return where(isnan(ratio) & ~had_nan, np.inf, ratio)


def cond(x: ArrayLike, p: int | float | str | None = None) -> Array:
    """Condition numbers of matrices of shape [..., m, n]: norm `p` of each times that of its inverse.

    By default the ratio of the greatest and the least singular value, for which matrices need not be square; infinite
    for singular ones. Raises: ShapeError for arrays without elements.

    >>> cond(np.array([[2.0, 0.0], [0.0, 4.0]]))
    Array(2., dtype=float32)
    """
    return _cond(x, _static_order(p))


__all__ = ["cond", "matrix_norm", "norm", "vector_norm"]

public_functions(__all__, globals())
