"""Products of arrays: dot, matmul and their relatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArrayLike,
    DTypeLike,
    Ints,
    ShapeError,
    UnsupportedError,
    dtypes,
    public_functions,
)
from pellucid._machine.ir import ShapedArray
from pellucid._machine.primitives import arithmetic, logical
from pellucid._machine.primitives.contraction import dot_general
from pellucid._machine.primitives.conversion import conj
from pellucid._machine.primitives.movement import (
    broadcast_shapes,
    canonical_axis,
    expand_dims,
    move_axis,
    reshape,
    squeeze,
    transpose,
)
from pellucid._machine.primitives.precision import PrecisionLike, preferred_dtype
from pellucid._machine.sharding import NamedSharding
from pellucid._machine.sharding.stated import stated_result
from pellucid._machine.tracing import operand_lines, type_of
from pellucid._machine.xla.arrays import Array

from .annotations import OutSharding
from .compiled import numpy_function
from .manipulation import canonical_axes
from .promotion import convert, known_int, note_rank_promotion, number_type, promote_dtypes

Axes = tuple[int, ...]


def _static(name: str, precision: PrecisionLike, preferred: DTypeLike | None) -> tuple[Any, Any]:
    """(precision, preferred dtype) in hashable form, as static arguments of compiled calls."""
    return tuple(precision) if isinstance(precision, list) else precision, preferred_dtype(
        preferred, name
    )


def _avals(name: str, a: ArrayLike, b: ArrayLike) -> tuple[Any, Any]:
    return number_type(name, a), number_type(name, b, 1)


def _checked_dot_general(
    name: str,
    a: ArrayLike,
    b: ArrayLike,
    dims: Any,
    precision: PrecisionLike,
    preferred: Any,
    sharding: OutSharding = None,
) -> Any:
    """`dot_general` with NumPy's result dtype; raises ShapeError if contracted sizes differ."""
    first, second = _avals(name, a, b)
    ((left, right), _) = dims
    for i, j in zip(left, right, strict=True):
        if first.shape[i] != second.shape[j]:
            raise ShapeError(
                f"jnp.{name} needs contracted dimensions of one size, got {first.shape[i]} and {second.shape[j]}.",
                got=[
                    f"{line}, dimension {dim}"
                    for line, dim in zip(operand_lines((a, b)), (i, j), strict=True)
                ],
                do="Transpose or reshape one of them.",
            )
    dtype, weak_type = preferred, False
    if preferred is None:
        pairs = ((first.dtype, first.weak_type), (second.dtype, second.weak_type))
        dtype, weak_type = dtypes.promote(pairs)
    result = dot_general(a, b, dims, precision, dtype, out_sharding=sharding)
    return convert(result, type_of(result), dtype, weak_type)


# dot and its relatives ----------------------------------------------------------------------------


@numpy_function(static=("precision", "preferred", "sharding"))
def _dot(
    a: ArrayLike,
    b: ArrayLike,
    precision: PrecisionLike,
    preferred: np.dtype | None,
    sharding: OutSharding,
) -> Any:
    first, second = _avals("dot", a, b)
    if first.ndim == 0 or second.ndim == 0:
        contract: Any = ((), ())
    else:
        contract = ((first.ndim - 1,), (max(second.ndim - 2, 0),))
    return _checked_dot_general("dot", a, b, (contract, ((), ())), precision, preferred, sharding)


def dot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Sum of products over the last axis of `a` and the second-to-last (or only) axis of `b`.

    Result: shape `(*a.shape[:-1], *b.shape without that axis)`; a scalar operand multiplies. dtype
    `preferred_element_type`, or what both promote to. `precision` is that of `lax.dot_general`; `out_sharding` lays the
    result out.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ShapeError for axes of different sizes,
    ArgumentValueError for an unknown `precision`, DtypeError for random keys.

    >>> dot(np.arange(3), np.arange(3))
    Array(5, dtype=int32)
    """
    return _dot(a, b, *_static("dot", precision, preferred_element_type), out_sharding)


@numpy_function(static=("precision", "preferred"))
def _vdot(a: ArrayLike, b: ArrayLike, precision: PrecisionLike, preferred: np.dtype | None) -> Any:
    first, second = _avals("vdot", a, b)
    a = conj(a) if first.dtype.kind == "c" else a
    a, b = reshape(a, (first.size,)), reshape(b, (second.size,))
    return _checked_dot_general("vdot", a, b, (((0,), (0,)), ((), ())), precision, preferred)


def vdot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Inner product of the raveled arrays, the first conjugated.

    Result: a scalar; dtype `preferred_element_type`, or what both promote to. `precision` is that of `lax.dot_general`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ShapeError for different numbers of
    elements, ArgumentValueError for an unknown `precision`, DtypeError for random keys.

    >>> vdot(np.array([1j, 2]), np.array([1j, 2]))
    Array(5.+0.j, dtype=complex64)
    """
    return _vdot(a, b, *_static("vdot", precision, preferred_element_type))


@numpy_function(static=("precision", "preferred"))
def _inner(a: ArrayLike, b: ArrayLike, precision: PrecisionLike, preferred: np.dtype | None) -> Any:
    first, second = _avals("inner", a, b)
    if first.ndim == 0 or second.ndim == 0:
        a, b = promote_dtypes("inner", a, b)
        product = (
            arithmetic.mul(a, b) if type_of(a).dtype != np.bool_ else logical.bitwise_and(a, b)
        )
        return product if preferred is None else convert(product, type_of(product), preferred)
    dims = (((first.ndim - 1,), (second.ndim - 1,)), ((), ()))
    return _checked_dot_general("inner", a, b, dims, precision, preferred)


def inner(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Sum of products over the last axes of `a` and `b`.

    Result: shape `(*a.shape[:-1], *b.shape[:-1])`; a scalar operand multiplies. dtype `preferred_element_type`, or what
    both promote to. `precision` is that of `lax.dot_general`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ShapeError for axes of different sizes,
    ArgumentValueError for an unknown `precision`, DtypeError for random keys.

    >>> inner(np.ones((2, 3)), np.ones((4, 3))).shape
    (2, 4)
    """
    return _inner(a, b, *_static("inner", precision, preferred_element_type))


@numpy_function(static=("left", "right", "precision", "preferred", "sharding"))
def _tensordot(
    a: ArrayLike,
    b: ArrayLike,
    left: Axes,
    right: Axes,
    precision: PrecisionLike,
    preferred: np.dtype | None,
    sharding: OutSharding,
) -> Any:
    return _checked_dot_general(
        "tensordot", a, b, ((left, right), ((), ())), precision, preferred, sharding
    )


def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: int | Sequence[int | Ints] = 2,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Sum of products over pairs of axes: the last and first `axes`, or the axes named for each operand.

    Result: shape of the other axes of `a`, then of `b`; dtype `preferred_element_type`, or what both promote to.
    `precision` is that of `lax.dot_general`; `out_sharding` lays the result out.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for `axes` that are no ints, AxisError
    for axes out of bounds, ShapeError for axes that don't fit, DtypeError for random keys.

    >>> tensordot(np.ones((2, 3)), np.ones((3, 4)), 1).shape
    (2, 4)
    """
    first, second = _avals("tensordot", a, b)

    def shape_error(what: str) -> ShapeError:
        return ShapeError(f"jnp.tensordot {what}", got=[*operand_lines((a, b)), f"axes: {axes}"])

    if not isinstance(axes, Sequence):
        n = known_int("tensordot", "axes", axes)
        most = min(first.ndim, second.ndim)
        if not 0 <= n <= most:
            raise shape_error(f"needs at least 0 and at most {most} axes to sum over.")
        left, right = tuple(range(first.ndim - n, first.ndim)), tuple(range(n))
    else:
        if len(axes) != 2:
            raise shape_error("needs axes of both operands.")
        left, right = (_listed_axes(x, v.ndim) for x, v in zip(axes, (first, second), strict=True))
        if len(left) != len(right):
            raise shape_error("needs as many axes of one operand as of the other.")
    static = _static("tensordot", precision, preferred_element_type)
    return _tensordot(a, b, left, right, *static, out_sharding)


def _listed_axes(axes: int | Sequence[int], ndim: int) -> Axes:
    return canonical_axes(tuple(axes) if isinstance(axes, Sequence) else axes, ndim)


# matmul and its relatives -------------------------------------------------------------------------


@numpy_function(static=("precision", "preferred", "sharding"))
def _matmul(
    a: ArrayLike,
    b: ArrayLike,
    precision: PrecisionLike = None,
    preferred: np.dtype | None = None,
    sharding: NamedSharding | None = None,
) -> Any:
    for i, x in enumerate((a, b)):
        if number_type("matmul", x, i).ndim < 1:
            raise ShapeError(
                "jnp.matmul needs operands with at least one dimension.",
                got=f"argument {i}: {type_of(x).text()}",
                do="Use `*` for scalars.",
            )
    has_row, has_column = (type_of(x).ndim > 1 for x in (a, b))
    return _multiply("matmul", a, b, has_row, has_column, precision, preferred, sharding=sharding)


def _multiply(
    name: str, a: ArrayLike, b: ArrayLike, has_row: bool, has_column: bool, precision: PrecisionLike = None, preferred: DTypeLike | None = None,
    conjugated: bool = False, sharding: NamedSharding | None = None,
) -> Any:  # fmt: skip
    """Sums of products over the last axis of `a` and the axis of `b` before its columns, if it has any.

    If `a` has rows, they are the axis before. The other axes are broadcast.
    """
    first, second = _avals(name, a, b)
    a_lead, b_lead = first.ndim - 1 - has_row, second.ndim - 1 - has_column
    if a_lead < 0 or b_lead < 0:
        raise ShapeError(
            f"jnp.{name} needs operands of rank {1 + has_row} and {1 + has_column} at least.",
            got=operand_lines((a, b)),
        )
    try:
        batch = broadcast_shapes(first.shape[:a_lead], second.shape[:b_lead])
    except ShapeError:
        raise ShapeError(
            f"jnp.{name} got leading dimensions that can't be broadcast together.",
            got=operand_lines((a, b)),
        ) from None
    if a_lead != b_lead and name in ("vecdot", "matvec", "vecmat"):
        note_rank_promotion(name, [first.shape, second.shape])
    # Axes of the result are named: numbers for leading ones, then "row" and "column". A leading axis along which only
    # one operand has more than one element is a free axis of that operand.
    # With `sharding`, axes of size 1 stay in the product: its layout is then the result's, but for the order of axes.
    dropped = [i for i, size in enumerate(batch) if size != 1 or sharding is None]
    a, a_names = _name_axes(a, first.shape[:a_lead], len(batch), dropped)
    b, b_names = _name_axes(b, second.shape[:b_lead], len(batch), dropped)
    a = conj(a) if conjugated and first.dtype.kind == "c" else a
    shared = [n for n in a_names if n in b_names]
    left = tuple([a_names.index(n) for n in shared])
    right = tuple([b_names.index(n) for n in shared])
    summed = (len(a_names) + has_row,), (len(b_names),)
    row, column = ["row"] * has_row, ["column"] * has_column
    rest = [[n for n in names if n not in shared] for names in (a_names, b_names)]
    present = [*shared, *rest[0], *row, *rest[1], *column]
    order = [*range(len(batch)), *row, *column]
    if sharding is not None:
        parts = sharding.spec.padded(len(order)).partitions
        ordered = tuple([parts[order.index(n)] for n in present])
        sharding = sharding.with_spec(sharding.spec.update(partitions=ordered))
    dims = summed, (left, right)
    result = _checked_dot_general(name, a, b, dims, precision, preferred, sharding)
    result = transpose(result, [present.index(n) for n in order if n in present])
    missing = [i for i, n in enumerate(order) if n not in present]
    return expand_dims(result, missing) if missing else result


def _name_axes(x: ArrayLike, leading: Axes, n_leading: int, dropped: Ints) -> tuple[Any, list[Any]]:
    """`x` without those leading axes of size 1 that are in `dropped`, and the result's numbers of the remaining ones."""
    first = n_leading - len(leading)
    ones = [i for i, size in enumerate(leading) if size == 1 and first + i in dropped]
    return squeeze(x, ones), [first + i for i in range(len(leading)) if i not in ones]


def matmul(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Matrix product; leading dimensions are batches and are broadcast, vectors are rows or columns.

    Raises ShapeError for scalars and for sizes that don't fit.

    >>> matmul(np.eye(2, dtype=np.float32), np.float32([1, 2]))
    Array([1., 2.], dtype=float32)
    """
    if precision is None and preferred_element_type is None and out_sharding is None:
        return _matmul(a, b)  # as `a @ b`: to look at options is 6 % of a small product
    how = _static("matmul", precision, preferred_element_type)
    return _matmul(a, b, *how, stated_result("matmul", out_sharding))


@numpy_function(static=("axis", "precision", "preferred"))
def _vecdot(
    x1: ArrayLike, x2: ArrayLike, axis: int, precision: PrecisionLike, preferred: np.dtype | None
) -> Any:
    first, second = _avals("vecdot", x1, x2)
    x1 = move_axis(x1, _core_axis("vecdot", first, axis), first.ndim - 1)
    x2 = move_axis(x2, _core_axis("vecdot", second, axis), second.ndim - 1)
    return _multiply("vecdot", x1, x2, False, False, precision, preferred, conjugated=True)


def _core_axis(name: str, aval: ShapedArray, axis: int) -> int:
    if aval.ndim == 0:
        raise ShapeError(f"jnp.{name} needs operands with at least one dimension.", got=aval.text())
    return canonical_axis(axis, aval.ndim)


def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: int = -1,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Inner products along `axis`, the first conjugated; the other axes are broadcast.

    Result: shape that the other axes broadcast to; dtype `preferred_element_type`, or what both promote to. `precision`
    is that of `lax.dot_general`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for an `axis` that is no int, AxisError
    for axes out of bounds, ShapeError for scalars and for sizes that don't fit, DtypeError for random keys.

    >>> vecdot(np.ones((4, 3)), np.ones(3))
    Array([3., 3., 3., 3.], dtype=float32)
    """
    static = _static("vecdot", precision, preferred_element_type)
    return _vecdot(x1, x2, known_int("vecdot", "axis", axis), *static)


@numpy_function
def _matvec(x1: ArrayLike, x2: ArrayLike) -> Any:
    return _multiply("matvec", x1, x2, True, False)


def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Products of the matrices in `x1` and the vectors in `x2`; the other axes are broadcast.

    Raises: ArgumentTypeError for lists and other values that aren't arrays, ShapeError for too few dimensions and for
    sizes that don't fit, DtypeError for random keys.

    >>> matvec(np.ones((5, 2, 3)), np.ones(3)).shape
    (5, 2)
    """
    return _matvec(x1, x2)


@numpy_function
def _vecmat(x1: ArrayLike, x2: ArrayLike) -> Any:
    return _multiply("vecmat", x1, x2, False, True, conjugated=True)


def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Products of the conjugated vectors in `x1` and the matrices in `x2`; the other axes are broadcast.

    Raises: ArgumentTypeError for lists and other values that aren't arrays, ShapeError for too few dimensions and for
    sizes that don't fit, DtypeError for random keys.

    >>> vecmat(np.ones(2), np.ones((5, 2, 3))).shape
    (5, 3)
    """
    return _vecmat(x1, x2)


# Products of all pairs ----------------------------------------------------------------------------


def _times(a: ArrayLike, b: ArrayLike) -> Any:
    """Elementwise product of operands of one dtype; logical and for bools."""
    is_bool = type_of(a).dtype == np.bool_
    return logical.bitwise_and(a, b) if is_bool else arithmetic.mul(a, b)


@numpy_function
def _outer(a: ArrayLike, b: ArrayLike) -> Any:
    a, b = promote_dtypes("outer", a, b)
    column, row = (
        expand_dims(reshape(x, (type_of(x).size,)), (new,)) for x, new in ((a, 1), (b, 0))
    )
    return _times(column, row)


def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    """Products of all pairs of elements of the raveled arrays.

    Result: shape [size of `a`, size of `b`]; dtype that both promote to.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, DtypeError for random keys,
    UnsupportedError for `out`.

    >>> outer(np.arange(2), np.arange(3)).shape
    (2, 3)
    """
    if out is not None:
        raise UnsupportedError(
            "jnp.outer can't write into `out`: arrays don't change.", do="Use the result."
        )
    return _outer(a, b)


@numpy_function
def _kron(a: ArrayLike, b: ArrayLike) -> Any:
    a, b = promote_dtypes("kron", a, b)
    first, second = _avals("kron", a, b)
    ndim = max(first.ndim, second.ndim)
    a = expand_dims(a, range(ndim - first.ndim))
    b = expand_dims(b, range(ndim - second.ndim))
    shape = [m * n for m, n in zip(type_of(a).shape, type_of(b).shape, strict=True)]
    return reshape(
        _times(expand_dims(a, range(1, 2 * ndim, 2)), expand_dims(b, range(0, 2 * ndim, 2))), shape
    )


def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """Kronecker product: every element of `a` times `b`, arranged in blocks.

    Result: sizes of `a` times those of `b`, the shorter shape extended by ones in front; dtype that both promote to.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, DtypeError for random keys.

    >>> kron(np.array([1, 10]), np.array([1, 2]))
    Array([ 1,  2, 10, 20], dtype=int32)
    """
    return _kron(a, b)


__all__ = [
    "dot", "inner", "kron", "matmul", "matvec", "outer", "tensordot", "vdot", "vecdot", "vecmat",
]  # fmt: skip

public_functions(__all__, globals())
