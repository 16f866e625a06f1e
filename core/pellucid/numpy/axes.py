"""Functions applied along axes; arrays of blocks; elements put in, taken out and trimmed along axes."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ArrayLike,
    AxisError,
    ConcretizationTypeError,
    DtypeError,
    Ints,
    Shape,
    dtypes,
    is_static,
    public_functions,
)
from pellucid._machine.primitives.movement import canonical_axis
from pellucid._machine.tracing import Tracer, is_array_like, refuse_masked_array, type_of
from pellucid._machine.transforms.vmap import vmap
from pellucid._machine.xla.arrays import Array

from .annotations import ShapeLike
from .compiled import numpy_function
from .creation import arange, asarray, canonical_shape, zeros
from .joining import concatenate
from .manipulation import (
    broadcast_to,
    expand_dims,
    moveaxis,
    ravel,
    reshape,
    tile,
    where,
)
from .promotion import able_to_hold, as_tuple, aval_of, convert, known_int
from .reductions import any, sum
from .selection import take
from .sorting import argsort


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any
) -> Any:
    """`func1d(vector, *args, **kwargs)` of every vector of `arr` along `axis`; its results stand in their place.

    Result: shape of `arr` with `axis` replaced by the shape of a result of `func1d`; the dtype of that result.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds.

    >>> apply_along_axis(lambda v: v[::-1], 1, jnp.array([[1, 2], [3, 4]]))
    Array([[2, 1],
           [4, 3]], dtype=int32)
    """
    ndim = aval_of("apply_along_axis", arr).ndim
    axis = canonical_axis(axis, ndim)
    mapped: Callable[..., Any] = lambda vector: func1d(vector, *args, **kwargs)
    for _ in range(ndim - axis - 1):
        mapped = vmap(mapped, in_axes=1, out_axes=-1)
    for _ in range(axis):
        mapped = vmap(mapped, in_axes=0, out_axes=0)
    return mapped(asarray(arr))


def apply_over_axes(func: Callable[[Any, int], Any], a: ArrayLike, axes: Ints) -> Array:
    """`func(a, axis)` for one of `axes` after another; an axis that it removes comes back with size 1.

    Result: the number of dimensions of `a`; the dtype that `func` gives.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for a result with another number of dimensions.

    >>> apply_over_axes(jnp.sum, jnp.array([[1, 2], [3, 4]]), [0, 1])
    Array([[10]], dtype=int32)
    """
    result = asarray(a)
    for axis in axes:
        axis = canonical_axis(axis, aval_of("apply_over_axes", a).ndim)
        each = func(result, axis)
        if each.ndim == result.ndim - 1:
            each = expand_dims(each, axis)
        elif each.ndim != result.ndim:
            raise ArgumentValueError(
                "jnp.apply_over_axes needs a function that keeps the dimensions, or removes one.",
                got=f"{result.ndim} dimensions became {each.ndim}",
            )
        result = each
    return result


def block(arrays: ArrayLike | Sequence[Any]) -> Array:
    """Nested lists of arrays as one: the innermost joined along the last axis, the next along the one before it.

    Result: as many dimensions as the lists are deep, or as the array with most has; dtype that the arrays promote to.
    Raises: ArgumentValueError for empty lists and for lists of different depths, ArgumentTypeError for tuples,
    ShapeError for sizes that don't fit.

    >>> block([[jnp.ones((1, 2)), jnp.zeros((1, 1))]])
    Array([[1., 1., 0.]], dtype=float32)
    """
    joined, depth = _block(arrays)
    del depth
    return joined


def _block(arrays: ArrayLike | Sequence[Any]) -> tuple[Any, int]:
    """Joins nested lists of arrays; returns (the array, the depth of nesting)."""
    if isinstance(arrays, tuple):
        raise ArgumentTypeError("jnp.block needs lists, and got a tuple.", do="Use a list.")
    if not isinstance(arrays, list):
        return asarray(arrays), 0
    if not arrays:
        raise ArgumentValueError("jnp.block needs lists with elements.")
    parts = [_block(each) for each in arrays]
    depths = {depth for _, depth in parts}
    if len(depths) > 1:
        raise ArgumentValueError(
            "jnp.block needs lists of one depth.", got=f"depths {sorted(depths)}"
        )
    [depth] = depths
    depth += 1
    ndim = max(depth, *(x.ndim for x, _ in parts))
    return concatenate([_with_rank(x, ndim) for x, _ in parts], axis=-depth), depth


def _with_rank(x: Array, ndim: int) -> Any:
    return reshape(x, (1,) * (ndim - x.ndim) + x.shape)


def _along(name: str, arr: ArrayLike, axis: int | None) -> tuple[Array, int]:
    aval = aval_of(name, arr)
    if axis is None:
        return ravel(arr), 0
    return asarray(arr), canonical_axis(axis, aval.ndim)


def insert(
    arr: ArrayLike, obj: ArrayLike | Ints | slice, values: ArrayLike, axis: int | None = None
) -> Array:
    """`arr` with `values` put in before the positions `obj` along `axis` (of `arr` raveled, if it is None).

    `obj`: a number, numbers or a slice; positions count in `arr`, and are moved to its ends. The result has the dtype
    of `arr`. Raises: ArgumentValueError for a mask.

    >>> insert(jnp.array([1, 2, 3]), 1, 9)
    Array([1, 9, 2, 3], dtype=int32)
    """
    x, axis = _along("insert", arr, axis)
    aval_of("insert", values, 2)
    n = x.shape[axis]
    positions = np.arange(n)[obj] if isinstance(obj, slice) else obj
    position_aval = aval_of("insert", asarray(positions), 1)
    if position_aval.dtype not in dtypes.KINDS["integral"] and position_aval.size:
        raise ArgumentValueError(
            "jnp.insert needs positions of an integer dtype.", got=position_aval.text()
        )
    if position_aval.ndim > 1:
        raise ArgumentValueError(
            "jnp.insert needs one or a vector of positions.", got=position_aval.text()
        )
    if position_aval.ndim == 0:
        # A single position: all of `values` are inserted there, and their first dimension lies along the axis.
        new = asarray(values)
        new = moveaxis(new, 0, axis) if new.ndim == x.ndim else new
        count = new.shape[axis] if new.ndim == x.ndim else 1
    else:
        new, count = asarray(values), position_aval.shape[0]
    new = broadcast_to(new, (*x.shape[:axis], count, *x.shape[axis + 1 :]))
    return _insert(x, broadcast_to(asarray(positions), (count,)), new, axis)


@numpy_function(static="axis")
def _insert(x: Array, places: Array, new: Array, axis: int) -> Any:
    n, count = x.shape[axis], new.shape[axis]
    if not n:
        return convert(new, type_of(new), x.dtype)
    places = able_to_hold(n + count, places)
    places = where(places < 0, places + n, places).clip(0, n)
    order = argsort(places)
    at = places[order] + arange(count, dtype=places.dtype)
    total = n + count
    is_new = zeros((total,), bool).at[at].set(True)
    source = arange(total) - sum(arange(total)[:, None] >= at, axis=1)
    number = zeros((total,), np.int32).at[at].set(order.astype(np.int32))
    old = take(x, source, axis, mode="clip")
    added = take(convert(new, type_of(new), x.dtype), number, axis, mode="clip")
    along = tuple(-1 if i == axis else 1 for i in range(x.ndim))
    return where(is_new.reshape(along), added, old)


def delete(
    arr: ArrayLike,
    obj: ArrayLike | Ints | slice,
    axis: int | None = None,
    *,
    assume_unique_indices: bool = False,
) -> Array:
    """`arr` without the slices at the positions `obj` along `axis` (of `arr` raveled, if it is None).

    `obj`: a number, numbers, a slice or a mask; numbers must be known when tracing, unless they are assumed unique.
    Result: shape of `arr`, shorter along `axis`; dtype of `arr`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for an axis or a number out of
    bounds, ArgumentValueError for a mask of another size, ConcretizationTypeError for traced positions that aren't assumed
    unique.

    >>> delete(jnp.array([1, 2, 3]), 1)
    Array([1, 3], dtype=int32)
    """
    x, axis = _along("delete", arr, axis)
    n = x.shape[axis]
    lead = (slice(None),) * axis
    if isinstance(obj, slice):
        remaining = np.delete(np.arange(n), obj)
    elif isinstance(obj, Tracer):
        if obj.ndim and not (assume_unique_indices and obj.aval.dtype != np.bool_):
            raise ConcretizationTypeError(
                "jnp.delete can't know the size of its result: the positions are traced.",
                got=f"obj: {obj.aval.text()}",
                do="Pass known positions, or assume_unique_indices=True if none occurs twice.",
            )
        return _drop_slices(x, ravel(asarray(obj)), axis)
    else:
        if isinstance(obj, np.ma.MaskedArray):
            refuse_masked_array(obj)
        numbers = np.asarray(obj)
        if (numbers.size or is_array_like(obj)) and numbers.dtype.kind not in "iub":
            raise DtypeError(
                "jnp.delete needs positions of an integer dtype, or a mask.", got=f"got {obj!r:.60}"
            )
        is_outside = (numbers < -n) | (numbers >= n)
        if numbers.dtype.kind in "iu" and is_outside.any():
            outside = numbers[is_outside]
            raise AxisError(
                "jnp.delete got a position out of bounds.", got=f"{int(outside[0])}, {n} elements"
            )
        if numbers.dtype == np.bool_:
            if numbers.shape != (n,):
                raise ArgumentValueError(
                    "jnp.delete needs a mask of the axis' size.",
                    got=f"{numbers.shape}, {n} elements",
                )
            remaining = np.flatnonzero(~numbers)
        else:
            mask = np.ones(n, bool)
            mask[numbers.ravel().astype(int)] = False
            remaining = np.flatnonzero(mask)
    return x[(*lead, remaining)]


@numpy_function(static="axis")
def _drop_slices(x: Array, positions: Array, axis: int) -> Any:
    """`x` without the slices at distinct `positions`, which may be traced."""
    n = x.shape[axis]
    positions = able_to_hold(n, positions)
    positions = where(positions < 0, positions + n, positions).clip(0, n - 1)
    is_gone = any(arange(n)[:, None] == positions, axis=1)
    remaining = argsort(is_gone)[: n - positions.shape[0]]
    return take(x, remaining, axis, mode="clip")


def resize(a: ArrayLike, new_shape: ShapeLike) -> Array:
    """The elements of `a`, raveled and repeated as needed, in `new_shape`; zeros, if there are none.

    Raises: ArgumentValueError for negative sizes.

    >>> resize(jnp.array([1, 2, 3]), (2, 2))
    Array([[1, 2],
           [3, 1]], dtype=int32)
    """
    aval_of("resize", a)
    sizes = as_tuple(new_shape)
    if builtins.any(known_int("resize", "new_shape", size) < 0 for size in sizes):
        raise ArgumentValueError("jnp.resize needs sizes that aren't negative.", got=f"got {sizes}")
    return _resize(a, canonical_shape(sizes, "resize"))


@numpy_function(static=("shape",))
def _resize(a: ArrayLike, shape: Shape) -> Any:
    aval = type_of(a)
    total = math.prod(shape)
    if not aval.size:
        return zeros(shape, aval.dtype)
    if not is_static((aval.size,)):
        return reshape(take(ravel(a), arange(total) % aval.size), shape)
    return reshape(tile(ravel(a), -(-total // aval.size))[:total], shape)


def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: int | Sequence[int] | None = None) -> Array:
    """`filt` without the zeros at its front ("f") and back ("b") along each axis; not under a trace.

    Result: dtype of `filt`, smaller sizes along the axes.
    Raises: ConcretizationTypeError under a trace: the shape of the result is known when programs run only; AxisError for
    axes out of bounds; ArgumentValueError for other letters in `trim`.

    >>> trim_zeros(jnp.array([0, 0, 1, 2, 0]))
    Array([1, 2], dtype=int32)
    """
    x = asarray(filt)
    if isinstance(x, Tracer):
        raise ConcretizationTypeError(
            "jnp.trim_zeros can't know the size of its result: the array is traced.",
            got=f"got {x.aval.text()}",
        )
    if not isinstance(trim, str) or not {*trim.lower()} <= {"f", "b"}:
        raise ArgumentValueError(
            'jnp.trim_zeros needs "f", "b" or "fb" as `trim`.', got=f"trim: {trim!r:.60}"
        )
    is_nonzero = np.asarray(x) != 0
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    index: list[Any] = [slice(None)] * x.ndim
    for each in axes:
        each = canonical_axis(each, x.ndim)
        places = np.flatnonzero(is_nonzero.any(axis=tuple(i for i in range(x.ndim) if i != each)))
        if not places.size:
            index[each] = slice(0, 0)
            continue
        first = int(places[0]) if "f" in trim.lower() else 0
        last = int(places[-1]) + 1 if "b" in trim.lower() else x.shape[each]
        index[each] = slice(first, last)
    return x[tuple(index)]


__all__ = [
    "apply_along_axis",
    "apply_over_axes",
    "block",
    "delete",
    "insert",
    "resize",
    "trim_zeros",
]

public_functions(__all__, globals())
