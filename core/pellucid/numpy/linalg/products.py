"""Products and traces of matrices, as the Array API standard places them in `linalg`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    DTypeLike,
    ShapeError,
    public_functions,
)
from pellucid._machine.linalg.matrices import eye_like
from pellucid._machine.primitives.movement import canonical_axis
from pellucid._machine.primitives.precision import Precision, PrecisionLike
from pellucid._machine.tracing import operand_lines, type_of
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.creation import asarray
from pellucid.numpy.einsum import einsum
from pellucid.numpy.joining import stack
from pellucid.numpy.manipulation import (
    diagonal as numpy_diagonal,
    matrix_transpose as matrix_transpose,  # noqa: PLC0414  (public here, too)
    moveaxis,
)
from pellucid.numpy.products import (
    matmul as numpy_matmul,
    outer as numpy_outer,
    tensordot as tensordot,  # noqa: PLC0414
    vecdot as vecdot,  # noqa: PLC0414
)
from pellucid.numpy.promotion import aval_of, known_int, promote_dtypes_numeric
from pellucid.numpy.reductions import trace as numpy_trace

from .equations import inv


def matmul(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Matrix product; see `jnp.matmul`.

    Result: shape [..., m, n] of [..., m, k] and [..., k, n]; dtype `preferred_element_type`, or what both promote to.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ShapeError for scalars and for sizes that
    don't fit.

    >>> matmul(np.eye(2), np.array([1.0, 2.0]))
    Array([1., 2.], dtype=float32)
    """
    return numpy_matmul(x1, x2, precision=precision, preferred_element_type=preferred_element_type)


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Products of all pairs of elements of two vectors.

    Raises: ShapeError for other arrays.

    >>> outer(np.arange(2), np.arange(3)).shape
    (2, 3)
    """
    avals = [aval_of("linalg.outer", x, i) for i, x in enumerate((x1, x2))]
    if any(a.ndim != 1 for a in avals):
        raise ShapeError(
            "jnp.linalg.outer needs two vectors.",
            got=operand_lines((x1, x2)),
        )
    return numpy_outer(x1, x2)


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """The diagonals, number `offset`, of the matrices in the last two axes of `x`.

    Result: shape [..., length of the diagonal]; dtype of `x`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for fewer than two dimensions.

    >>> diagonal(np.eye(3))
    Array([1., 1., 1.], dtype=float32)
    """
    return numpy_diagonal(x, offset, -2, -1)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """Sums of the diagonals, number `offset`, of the matrices in the last two axes of `x`.

    Result: shape [...]; dtype `dtype`, or that of `x`, small integers widened as by `jnp.sum`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for fewer than two dimensions.

    >>> trace(np.eye(3))
    Array(3., dtype=float32)
    """
    return numpy_trace(x, offset, -2, -1, dtype)


@numpy_function(static="axis")
def _cross(x1: ArrayLike, x2: ArrayLike, axis: int) -> Any:
    x1, x2 = map(asarray, promote_dtypes_numeric("linalg.cross", x1, x2))
    for i, x in enumerate((x1, x2)):
        aval = type_of(x)
        if aval.ndim == 0 or aval.shape[canonical_axis(axis, aval.ndim)] != 3:
            raise ShapeError(
                "jnp.linalg.cross needs vectors of three elements.",
                got=[f"argument {i}: {aval.text()}", f"axis: {axis}"],
            )
    a, b = (moveaxis(x, axis, -1) for x in (x1, x2))
    (a0, a1, a2), (b0, b1, b2) = ([x[..., i] for i in range(3)] for x in (a, b))
    return stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], axis=axis)


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """Cross products of the vectors of three elements along `axis`; the other axes are broadcast.

    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ShapeError for vectors that haven't three elements, DtypeError for random keys.

    >>> cross(np.array([1, 0, 0]), np.array([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    """
    return _cross(x1, x2, known_int("linalg.cross", "axis", axis))


def multi_dot(arrays: Sequence[Any], *, precision: PrecisionLike = None) -> Array:
    """Product of two or more matrices, in the order that takes the fewest operations.

    The first may be a row and the last a column. Raises: ArgumentValueError for fewer than two arrays; ShapeError for other ranks.

    >>> multi_dot([np.ones((2, 9)), np.ones((9, 9)), np.ones(9)])
    Array([81., 81.], dtype=float32)
    """
    arrays = list(arrays)
    if len(arrays) < 2:
        raise ArgumentValueError("jnp.linalg.multi_dot needs at least two arrays.")
    ndims = [aval_of("linalg.multi_dot", x, i).ndim for i, x in enumerate(arrays)]
    if any(n != 2 for n in ndims[1:-1]) or any(n not in (1, 2) for n in ndims):
        raise ShapeError(
            "jnp.linalg.multi_dot needs matrices; the first and the last may be vectors.",
            got=operand_lines(arrays),
        )
    letters = [chr(ord("a") + i) for i in range(26)] + [chr(ord("A") + i) for i in range(26)]
    if len(arrays) >= len(letters):
        raise ArgumentValueError(f"jnp.linalg.multi_dot takes {len(letters) - 1} arrays at most.")
    terms = [letters[i : i + 2] for i in range(len(arrays))]
    if ndims[0] == 1:
        terms[0] = terms[0][1:]
    if ndims[-1] == 1:
        terms[-1] = terms[-1][:1]
    result_letters = terms[0][: ndims[0] - 1] + terms[-1][1:]
    text = f"{','.join(map(''.join, terms))}->{''.join(result_letters)}"
    return einsum(text, *arrays, optimize="optimal", precision=precision)


@numpy_function(static="n")
def _matrix_power(a: ArrayLike, n: int) -> Any:
    aval = aval_of("linalg.matrix_power", a)
    if aval.ndim < 2 or aval.shape[-1] != aval.shape[-2]:
        raise ShapeError("jnp.linalg.matrix_power needs square matrices.", got=aval.text())
    a = asarray(a)
    if n == 0:
        return eye_like(a)
    result: Any = None
    while n:  # Repeated squaring: the squares whose bit of `n` is set are multiplied.
        if n & 1:
            result = a if result is None else numpy_matmul(result, a, precision=Precision.HIGHEST)
        n >>= 1
        a = numpy_matmul(a, a, precision=Precision.HIGHEST) if n else a
    return result


def matrix_power(a: ArrayLike, n: int) -> Array:
    """The `n`-th powers of matrices of shape [..., m, m]; of their inverses for negative `n`.

    Raises: ArgumentTypeError unless `n` is an integer known when tracing; ShapeError unless matrices are square.

    >>> matrix_power(np.array([[1, 1], [0, 1]]), 3)
    Array([[1, 3],
           [0, 1]], dtype=int32)
    """
    n = known_int("linalg.matrix_power", "n", n)
    return _matrix_power(inv(a), -n) if n < 0 else _matrix_power(a, n)


__all__ = [
    "cross", "diagonal", "matmul", "matrix_power", "matrix_transpose", "multi_dot", "outer", "tensordot", "trace", "vecdot",
]  # fmt: skip

public_functions(__all__, globals())
