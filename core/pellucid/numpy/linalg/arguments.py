"""Arguments of linear algebra, checked and brought to dtypes that libraries compute with."""

from __future__ import annotations

from typing import Any

from pellucid._machine.base import ArrayLike, ShapeError
from pellucid._machine.primitives.movement import broadcast_in_dim, broadcast_shapes
from pellucid._machine.tracing import operand_lines, type_of
from pellucid.numpy.creation import asarray
from pellucid.numpy.promotion import full_name, promote_dtypes_inexact

Shape = tuple[int, ...]


def _public(name: str) -> str:
    """The name of a function of linear algebra in errors: scipy's have their module's name, others are numpy's."""
    return name if name.startswith("scipy.") else f"linalg.{name}"


def inexact(name: str, *operands: ArrayLike) -> list[Any]:
    """`operands` as arrays of the floating or complex dtype that they promote to."""
    return [asarray(x) for x in promote_dtypes_inexact(_public(name), *operands)]


def matrices(name: str, x: ArrayLike) -> Any:
    """`x` as an array of floating or complex matrices.

    Raises: ShapeError below rank 2.
    """
    [x] = inexact(name, x)
    if type_of(x).ndim < 2:
        raise ShapeError(
            f"{full_name(_public(name))} needs matrices: an array with at least two dimensions.",
            got=f"argument 0: {type_of(x).text()}",
        )
    return x


def square_matrices(name: str, x: ArrayLike) -> Any:
    """`x` as an array of floating or complex square matrices.

    Raises: ShapeError for other matrices.
    """
    x = matrices(name, x)
    *_, m, n = type_of(x).shape
    if m != n:
        raise ShapeError(
            f"{full_name(_public(name))} needs square matrices.",
            got=f"argument 0: {type_of(x).text()}",
        )
    return x


def common_batch(name: str, first: ArrayLike, second: ArrayLike) -> Shape:
    """The leading axes to which those of two arrays of matrices are broadcast.

    Raises: ShapeError where they don't fit.
    """
    avals = [type_of(x) for x in (first, second)]
    try:
        return broadcast_shapes(*(a.shape[:-2] for a in avals))
    except ShapeError:
        raise ShapeError(
            f"{full_name(_public(name))} got leading dimensions that can't be broadcast together.",
            got=operand_lines((first, second)),
        ) from None


def repeat_matrices(x: ArrayLike, batch: Shape) -> Any:
    """The matrices in `x` repeated to leading axes `batch`."""
    aval = type_of(x)
    shape = (*batch, *aval.shape[-2:])
    return broadcast_in_dim(x, shape, tuple(range(len(shape) - aval.ndim, len(shape))))
