"""Order and position: sort, argsort, the places of nonzero elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ArrayLike,
    DTypeLike,
    dtypes,
    known_at_least,
    larger,
    public_functions,
    smaller,
)
from pellucid._machine.primitives import arithmetic, creation, logical, movement, slicing, sorting
from pellucid._machine.primitives.assembly import concatenate
from pellucid._machine.primitives.conversion import convert_element_type, size_scalar
from pellucid._machine.primitives.movement import canonical_axis
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array

from .compiled import numpy_function
from .elementwise import not_equal
from .promotion import aval_of, convert


def sort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """`a` sorted along `axis` (raveled first if it is None); NaN comes last.

    Result: shape and dtype of `a`. Complex numbers compare by their real parts, then by their imaginary parts. A sort
    that isn't `stable` may exchange equal elements.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for `kind` and `order`, DtypeError for random keys.

    >>> sort(np.array([3, 1, 2]))
    Array([1, 2, 3], dtype=int32)
    """
    a, axis = _along(a, axis, "sort", kind, order)
    return _sort(a, axis, stable, descending)


def argsort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: DTypeLike | None = None,
) -> Array:
    """The indices that sort `a` along `axis` (raveled first if it is None), of `dtype` or of the default integer dtype.

    Raises: ArgumentValueError for a `dtype` that isn't one of integers, or is too narrow for the axis.

    >>> argsort(np.array([3, 1, 2]), dtype="int8")
    Array([1, 2, 0], dtype=int8)
    """
    a, axis = _along(a, axis, "argsort", kind, order)
    indices = _argsort(a, axis, stable, descending)
    if dtype is None:
        return indices
    chosen = dtypes.check_user_dtype(dtype, "jnp.argsort")
    size = type_of(a).shape[axis]
    if chosen.kind not in "iu" or size - 1 > dtypes.iinfo(chosen).max:
        raise ArgumentValueError(
            "jnp.argsort needs an integer dtype that holds the last index.",
            got=f"dtype: {chosen}, size of the axis: {size}",
        )
    return convert_element_type(indices, chosen)


def _along(a: ArrayLike, axis: int | None, name: str, kind: Any, order: Any) -> tuple[Any, int]:
    if kind is not None or order is not None:
        raise ArgumentTypeError(f"jnp.{name} takes no kind and no order.", do="Use `stable`.")
    aval = aval_of(name, a)
    if axis is None:
        return movement.reshape(a, (aval.size,)), 0
    return a, canonical_axis(axis, aval.ndim)


@numpy_function(static=("axis", "stable", "descending"))
def _sort(a: ArrayLike, axis: int, stable: bool, descending: bool) -> Any:
    result = sorting.sort(a, dimension=axis, is_stable=stable)
    return movement.rev(result, (axis,)) if descending else result


@numpy_function(static=("axis", "stable", "descending"))
def _argsort(a: ArrayLike, axis: int, stable: bool, descending: bool) -> Any:
    # Reversed before and after the sort, so that equal elements keep their order also when descending.
    if descending:
        a = movement.rev(a, (axis,))
    aval = type_of(a)
    index = dtypes.default_int_dtype()
    positions = creation.broadcasted_iota(index, aval.shape, axis, out_sharding=aval.shown_sharding)
    _, order = sorting.sort_key_val(a, positions, axis, stable)
    if descending:
        order = movement.rev(order, (axis,))
        order = arithmetic.sub(size_scalar(aval.shape[axis] - 1, index), order)
    return order


@numpy_function(static="size")
def sized_nonzero(a: ArrayLike, size: int, fill_value: ArrayLike | None) -> tuple[Any, ...]:
    """For each axis, the indices of the first `size` nonzero elements; `fill_value` (0) where there are fewer."""
    aval, index = aval_of("nonzero", a), dtypes.default_int_dtype()
    mask = movement.reshape(a if aval.dtype == np.bool_ else not_equal(a, 0), (aval.size,))
    # A stable sort by "is zero" brings the positions of nonzero elements to the front, in order.
    is_zero = logical.bitwise_not(mask)
    positions = creation.broadcasted_iota(index, (aval.size,), 0)
    _, order = sorting.sort_key_val(is_zero, positions, 0, True)
    n_sorted = smaller(size, aval.size)
    order = slicing.slice_in_dim(order, 0, n_sorted, 1, 0)
    is_nonzero = logical.bitwise_not(
        slicing.slice_in_dim(sorting.sort(is_zero, dimension=0), 0, n_sorted, 1, 0)
    )
    fills = fill_value if isinstance(fill_value, (tuple, list)) else [fill_value] * aval.ndim
    if len(fills) != aval.ndim:
        raise ArgumentValueError(
            "jnp.nonzero needs one fill value, or one for each dimension.",
            got=f"{len(fills)} fill values, a: {aval.text()}",
        )
    results = []
    stride = aval.size
    for length, fill in zip(aval.shape, fills, strict=True):
        stride = 0 if length == 0 else stride // length
        unit, count = (size_scalar(larger(n, 1), index) for n in (stride, length))
        along = arithmetic.rem(arithmetic.div(order, unit), count)
        filler = (
            convert(0, type_of(0), index) if fill is None else convert(fill, type_of(fill), index)
        )
        chosen = logical.select(
            is_nonzero, along, movement.broadcast_in_dim(filler, (n_sorted,), ())
        )
        if not known_at_least(n_sorted, size):
            rest = movement.broadcast_in_dim(filler, (size - n_sorted,), ())
            chosen = concatenate([chosen, rest], 0)
        results.append(chosen)
    return tuple(results)


__all__ = ["argsort", "sort"]

public_functions(__all__, globals())
