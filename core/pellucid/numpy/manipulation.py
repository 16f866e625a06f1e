"""The same elements in other shapes and orders: reshape, transpose, repeat, flip, roll, diagonals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ArrayLike,
    ConcretizationTypeError,
    Ints,
    ShapeError,
    StaticScalar,
    Symbol,
    canonical_size,
    dtypes,
    expecting,
    ints,
    is_static,
    known_at_least,
    larger,
    public_functions,
    smaller,
)
from pellucid._machine.base.dims import InconclusiveDimensionOperation
from pellucid._machine.primitives import (
    arithmetic,
    assembly,
    cumulative,
    logical,
    movement,
    slicing,
)
from pellucid._machine.primitives.conversion import size_scalar
from pellucid._machine.primitives.creation import iota
from pellucid._machine.primitives.families import constant_like, full_as, scalar
from pellucid._machine.primitives.movement import canonical_axis
from pellucid._machine.primitives.reshard import with_out_sharding
from pellucid._machine.tracing import Tracer, as_operand, refuse_masked_array, type_of
from pellucid._machine.xla.arrays import Array

from .annotations import Axis, OutSharding, ShapeLike
from .compiled import alias, numpy_function
from .creation import asarray, band, canonical_shape, diagonal_number
from .promotion import (
    able_to_hold,
    as_tuple,
    aval_of,
    broadcast_arrays as _broadcast_arrays,
    convert,
    known_int,
    number_type,
    promote_dtypes,
)
from .sorting import sized_nonzero


def canonical_axes(axis: Axis, ndim: int) -> tuple[int, ...]:
    """`axis` (None, an int or several) as a tuple of axes counted from the front."""
    if axis is None:
        return tuple(range(ndim))
    canonical = tuple(canonical_axis(a, ndim) for a in as_tuple(axis))
    if len(set(canonical)) != len(canonical):
        raise ArgumentValueError(f"an axis is repeated: {axis}.")
    return canonical


def _ndim(x: ArrayLike) -> int:
    return type_of(x).ndim


def _shape(x: ArrayLike) -> tuple[int, ...]:
    return type_of(x).shape


# Shapes -----------------------------------------------------------------------------------------------


def reshape(
    a: ArrayLike,
    shape: ShapeLike | None = None,
    order: str = "C",
    *,
    copy: bool | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """The elements of `a`, in row-major order ("C") or column-major order ("F"), with `shape`.

    One size may be -1: it follows from the others.
    Result: shape `shape`; dtype of `a`; NumPy arrays and scalars give NumPy arrays, also while functions are traced.
    `copy` has no effect: arrays don't change. `out_sharding` lays the result out.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for sizes that are no ints, ShapeError
    for another number of elements, ArgumentValueError for an unknown `order`.

    >>> reshape(np.arange(6), (2, -1)).shape
    (2, 3)
    """
    del copy  # a copy of an Array can't be told from a view
    aval = aval_of("reshape", a)
    sizes = movement.inferred_sizes("jnp.reshape", aval.shape, as_tuple(shape))
    if isinstance(a, (np.ndarray, np.generic)) and out_sharding is None:
        # `Any`, as NumPy's stubs want a literal of `order`, and an annotation of ours an array.
        numpy_array: Any = a
        return numpy_array.reshape(sizes, order=order)
    if order == "F":
        reversed_axes = tuple(range(aval.ndim))[::-1]
        turned = _reshape(transpose(a, reversed_axes), sizes[::-1], out_sharding)
        return transpose(turned, tuple(range(len(sizes)))[::-1])
    if order not in ("C", "A", "K"):
        raise ArgumentValueError(f"jnp.reshape: order is 'C' or 'F', got {order!r}.")
    return _reshape(a, sizes, out_sharding)


@numpy_function(static=("sizes", "out_sharding"))
def _reshape(a: ArrayLike, sizes: tuple[int, ...], out_sharding: OutSharding) -> Any:
    return movement.reshape(a, sizes, out_sharding=out_sharding)


@numpy_function(static=("order", "out_sharding"))
def ravel(a: ArrayLike, order: str = "C", *, out_sharding: OutSharding = None) -> Array:
    """The elements of `a` in one dimension.

    Result: shape [size of `a`]; dtype of `a`. `order` and `out_sharding` are those of `reshape`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ArgumentValueError for an unknown `order`.

    >>> ravel(np.array([[1, 2], [3, 4]]))
    Array([1, 2, 3, 4], dtype=int32)
    """
    return reshape(a, (aval_of("ravel", a).size,), order, out_sharding=out_sharding)


def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """`a` with its axes permuted; reversed by default.

    Result: dimension i has the size of dimension `axes[i]` of `a`; dtype of `a`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for `axes` that are no ints, AxisError
    for axes out of bounds, ShapeError for `axes` that are no permutation.

    >>> transpose(np.ones((2, 3, 5)), (2, 0, 1)).shape
    (5, 2, 3)
    """
    ndim = aval_of("transpose", a).ndim
    order = tuple(range(ndim))[::-1]
    if axes is not None:
        with expecting("axes must be ints", axes):
            order = tuple([canonical_axis(i, ndim) for i in axes])
    return _transpose(a, order)


permute_dims = alias(transpose, "permute_dims")


@numpy_function(static="order")
def _transpose(a: ArrayLike, order: tuple[int, ...]) -> Any:
    return movement.transpose(a, order)


def matrix_transpose(x: ArrayLike, /) -> Array:
    """`x` with its last two axes exchanged.

    Result: shape [..., m, n] of [..., n, m]; dtype of `x`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ShapeError for fewer than two dimensions.

    >>> jnp.matrix_transpose(np.ones((5, 2, 3))).shape
    (5, 3, 2)
    """
    if aval_of("matrix_transpose", x).ndim < 2:
        raise ShapeError(
            "jnp.matrix_transpose needs at least two dimensions.", got=f"got {type_of(x).text()}"
        )
    return swapaxes(x, -1, -2)


def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """`a` with two axes exchanged.

    Result: shape of `a` with two sizes exchanged; dtype of `a`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for axes that are no ints, AxisError for
    axes out of bounds.

    >>> swapaxes(np.ones((2, 3, 5)), 0, 2).shape
    (5, 3, 2)
    """
    ndim = aval_of("swapaxes", a).ndim
    order = list(range(ndim))
    i, j = canonical_axis(axis1, ndim), canonical_axis(axis2, ndim)
    order[i], order[j] = order[j], order[i]
    return _transpose(a, tuple(order))


def moveaxis(a: ArrayLike, source: int | Ints, destination: int | Ints) -> Array:
    """`a` with axes `source` moved to `destination`; the others keep their order.

    Result: sizes of `a` in the new order; dtype of `a`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for axes that are no ints, AxisError for
    axes out of bounds, ArgumentValueError for an axis named twice, and for other numbers of destinations than of
    sources.

    >>> moveaxis(np.ones((2, 3, 5)), 0, -1).shape
    (3, 5, 2)
    """
    ndim = aval_of("moveaxis", a).ndim
    sources, targets = canonical_axes(source, ndim), canonical_axes(destination, ndim)
    if len(sources) != len(targets):
        raise ArgumentValueError(
            "jnp.moveaxis needs as many destinations as sources.", got=f"{source} and {destination}"
        )
    order = [i for i in range(ndim) if i not in sources]
    for target, origin in sorted(zip(targets, sources, strict=True)):
        order.insert(target, origin)
    return _transpose(a, tuple(order))


def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """`a` with `axis` rolled backwards until it lies before `start`.

    Result: sizes of `a` in the new order; dtype of `a`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for axes that are no ints, AxisError for
    axes out of bounds.

    >>> rollaxis(np.ones((2, 3, 5)), 2).shape
    (5, 2, 3)
    """
    ndim = aval_of("rollaxis", a).ndim
    axis = canonical_axis(axis, ndim)
    start = canonical_axis(start, ndim + 1)
    return moveaxis(a, axis, start - 1 if axis < start else start)


def squeeze(a: ArrayLike, axis: Axis = None) -> Array:
    """`a` without its axes of size 1, or without those given, which must have size 1.

    Result: shape of `a` without these axes; dtype of `a`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for axes that are no ints, AxisError for
    axes out of bounds, ShapeError for an axis of another size, ArgumentValueError for an axis named twice.

    >>> squeeze(np.ones((1, 3, 1)), 0).shape
    (3, 1)
    """
    aval = aval_of("squeeze", a)
    if axis is None:
        if not all(is_static((size,)) or known_at_least(size, 2) for size in aval.shape):
            raise InconclusiveDimensionOperation(
                "jnp.squeeze needs `axis` where a size is symbolic: it may be 1 or not.",
                got=aval.text(),
                do="Name the axes that have size 1.",
            )
        axes = tuple(i for i, s in enumerate(aval.shape) if s == 1)
    else:
        axes = canonical_axes(axis, aval.ndim)
    return _squeeze(a, axes)


@numpy_function(static="axes")
def _squeeze(a: ArrayLike, axes: tuple[int, ...]) -> Any:
    return movement.squeeze(a, axes)


def expand_dims(a: ArrayLike, axis: Axis) -> Array:
    """`a` with new axes of size 1 at positions `axis` of the result.

    Result: shape of `a` with ones at `axis`; dtype of `a`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for axes that are no ints, AxisError for
    axes out of bounds, ArgumentValueError for an axis named twice.

    >>> expand_dims(np.ones((2, 3)), (0, -1)).shape
    (1, 2, 3, 1)
    """
    aval_of("expand_dims", a)
    with expecting("axis must be an int, or several ints", axis):
        axes = ints(as_tuple(axis))
    return _expand_dims(a, axes)


@numpy_function(static="axes")
def _expand_dims(a: ArrayLike, axes: tuple[int, ...]) -> Any:
    return movement.expand_dims(a, axes)


def broadcast_to(array: ArrayLike, shape: ShapeLike, *, out_sharding: OutSharding = None) -> Array:
    """`array` repeated to `shape`.

    Result: shape `shape`; dtype of `array`. `out_sharding` lays the result out.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for sizes that are no ints, ShapeError
    for a shape that `array` doesn't broadcast to.

    >>> broadcast_to(np.array([1, 2]), (2, 2))
    Array([[1, 2],
           [1, 2]], dtype=int32)
    """
    aval = aval_of("broadcast_to", array)
    sizes = canonical_shape(shape, "broadcast_to")
    if len(sizes) < aval.ndim or movement.broadcast_shapes(aval.shape, sizes) != sizes:
        raise ShapeError(
            "jnp.broadcast_to got a shape that doesn't fit.",
            got=[f"array: {aval.text()}", f"shape: {sizes}"],
        )
    return _broadcast_to(array, sizes, out_sharding)


@numpy_function(static=("shape", "out_sharding"))
def _broadcast_to(array: ArrayLike, shape: tuple[int, ...], out_sharding: OutSharding) -> Any:
    dims = tuple(range(len(shape) - _ndim(array), len(shape)))
    return movement.broadcast_in_dim(array, shape, dims, out_sharding=out_sharding)


def broadcast_arrays(*args: ArrayLike) -> list[Any]:
    """`args` repeated to their common shape.

    Result: a list of arrays of the common shape, each with its own dtype.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ShapeError for shapes that don't broadcast.

    >>> [x.shape for x in broadcast_arrays(np.ones((2, 1)), np.ones(3))]
    [(2, 3), (2, 3)]
    """
    return [asarray(x) for x in _broadcast_arrays("broadcast_arrays", *args)]


def atleast_1d(*arys: ArrayLike) -> Any:
    """`arys` with at least one dimension.

    Result: an array, or a list of them for several arguments; scalars get shape [1], other shapes and all dtypes stay.
    Raises: ArgumentTypeError for values that `jnp.asarray` doesn't take.

    >>> atleast_1d(3)
    Array([3], dtype=int32, weak_type=True)
    """
    return _each(arys, lambda x: x if _ndim(x) >= 1 else reshape(x, (1,)))


def atleast_2d(*arys: ArrayLike) -> Any:
    """`arys` with at least two dimensions; vectors become rows.

    Result: an array, or a list of them for several arguments; scalars get shape [1, 1], vectors [1, n]; dtypes stay.
    Raises: ArgumentTypeError for values that `jnp.asarray` doesn't take.

    >>> atleast_2d(np.array([1, 2]))
    Array([[1, 2]], dtype=int32)
    """
    return _each(arys, lambda x: x if _ndim(x) >= 2 else reshape(x, (1, -1)))


def atleast_3d(*arys: ArrayLike) -> Any:
    """`arys` with at least three dimensions; matrices get a last axis.

    Result: an array, or a list of them for several arguments; vectors get shape [1, n, 1], matrices [m, n, 1]; dtypes
    stay.
    Raises: ArgumentTypeError for values that `jnp.asarray` doesn't take.

    >>> atleast_3d(np.ones((2, 3))).shape
    (2, 3, 1)
    """

    def expand(x: ArrayLike) -> Any:
        ndim = _ndim(x)
        if ndim <= 1:
            return reshape(x, (1, -1, 1))
        return expand_dims(x, 2) if ndim == 2 else x

    return _each(arys, expand)


def _each(arys: Sequence[Any], function: Callable[..., Any]) -> Any:
    results = [function(asarray(x)) for x in arys]
    return results[0] if len(results) == 1 else results


# Repeating, turning, padding ------------------------------------------------------------------------------


def tile(A: ArrayLike, reps: ShapeLike) -> Array:
    """`A` repeated `reps` times along each axis.

    Result: sizes of `A` times `reps`, the shorter of the two extended by ones in front; dtype of `A`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for `reps` that are no ints, ShapeError
    for negative ones.

    >>> tile(np.array([1, 2]), (2, 2))
    Array([[1, 2, 1, 2],
           [1, 2, 1, 2]], dtype=int32)
    """
    aval = aval_of("tile", A)
    counts = canonical_shape(reps, "tile")
    return _tile(A, (1,) * (aval.ndim - len(counts)) + counts)


@numpy_function(static="counts")
def _tile(a: ArrayLike, counts: tuple[int, ...]) -> Any:
    shape = (1,) * (len(counts) - _ndim(a)) + _shape(a)
    interleaved = tuple(n for pair in zip(counts, shape, strict=True) for n in pair)
    a = movement.reshape(a, shape)
    repeated = movement.broadcast_in_dim(a, interleaved, range(1, len(interleaved), 2))
    return movement.reshape(repeated, [c * s for c, s in zip(counts, shape, strict=True)])


def flip(m: ArrayLike, axis: Axis = None) -> Array:
    """`m` with the order of elements reversed along `axis`, or along all axes.

    Result: shape and dtype of `m`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for axes that are no ints, AxisError for
    axes out of bounds.

    >>> flip(np.array([[1, 2], [3, 4]]))
    Array([[4, 3],
           [2, 1]], dtype=int32)
    """
    return _flip(m, canonical_axes(axis, aval_of("flip", m).ndim))


@numpy_function(static="axes")
def _flip(m: ArrayLike, axes: tuple[int, ...]) -> Any:
    return movement.rev(m, axes)


def fliplr(m: ArrayLike) -> Array:
    """`m` with its columns in reverse order.

    Result: shape and dtype of `m`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for fewer than two dimensions.

    >>> fliplr(np.array([[1, 2], [3, 4]]))
    Array([[2, 1],
           [4, 3]], dtype=int32)
    """
    return flip(m, 1)


def flipud(m: ArrayLike) -> Array:
    """`m` with its rows in reverse order.

    Result: shape and dtype of `m`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for a scalar.

    >>> flipud(np.array([[1, 2], [3, 4]]))
    Array([[3, 4],
           [1, 2]], dtype=int32)
    """
    return flip(m, 0)


def rot90(m: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """`m` turned by 90 degrees `k` times, from the first towards the second of `axes`.

    Result: shape of `m`, the sizes of `axes` being exchanged where `k` is odd; dtype of `m`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for one axis twice.

    >>> rot90(np.array([[1, 2], [3, 4]]))
    Array([[2, 4],
           [1, 3]], dtype=int32)
    """
    ndim = aval_of("rot90", m).ndim
    with expecting("axes must be two ints", axes):
        first, second = canonical_axes(axes, ndim)
    k = known_int("rot90", "k", k) % 4
    if k == 0:
        return asarray(m)
    return flip(m, (first, second)) if k == 2 else _rot90(m, k, first, second)


@numpy_function(static=("k", "first", "second"))
def _rot90(m: ArrayLike, k: int, first: int, second: int) -> Any:
    if k == 1:
        return flip(swapaxes(m, first, second), first)
    return swapaxes(flip(m, first), first, second)


def roll(a: ArrayLike, shift: ArrayLike | Ints, axis: Axis = None) -> Array:
    """`a` with its elements moved by `shift` along `axis`, those beyond the end coming in at the front.

    `shift` may be traced.
    Result: shape and dtype of `a`. If `axis` is None, `a` is raveled meanwhile; several shifts along one axis add up.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    DtypeError for shifts that aren't integers, ShapeError for other numbers of shifts than of axes.

    >>> roll(np.arange(5), 2)
    Array([3, 4, 0, 1, 2], dtype=int32)
    """
    aval = aval_of("roll", a)
    if axis is None:
        return reshape(roll(ravel(a), shift, 0), aval.shape)
    axes = canonical_axes(axis, aval.ndim)
    known = int, np.integer, Symbol
    if isinstance(shift, known) or (
        isinstance(shift, tuple) and all(isinstance(s, known) for s in shift)
    ):
        movement.broadcast_shapes(np.shape(shift), np.shape(axes))
        pairs = np.broadcast(shift, axes)
        shifts, axes = (
            zip(*((canonical_size(s), int(i)) for s, i in pairs), strict=True)
            if pairs.size
            else ((), ())
        )
        return _roll_static(a, shifts, axes)
    # Several shifts along one axis add up.
    shifts = asarray(shift)
    count = len(axes) if shifts.ndim == 0 else max(len(axes), shifts.size)
    axes = axes * count if len(axes) == 1 else axes
    return _roll_dynamically(a, broadcast_to(shifts, (count,)), axes)


@numpy_function(static=("shifts", "axes"))
def _roll_static(a: ArrayLike, shifts: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    for shift, axis in zip(shifts, axes, strict=True):
        size = _shape(a)[axis]
        offset = 0 if size == 0 else shift % size
        if not is_static((offset,)) or offset:
            tail = slicing.slice_in_dim(a, size - offset, size, 1, axis)
            a = assembly.concatenate(
                [tail, slicing.slice_in_dim(a, 0, size - offset, 1, axis)], axis
            )
    return a


@numpy_function(static="axes")
def _roll_dynamically(a: ArrayLike, shifts: ArrayLike, axes: tuple[int, ...]) -> Any:
    for i, axis in enumerate(axes):
        size = _shape(a)[axis]
        if size == 0:
            continue
        shift = movement.squeeze(slicing.slice_in_dim(shifts, i, i + 1, 1, 0), (0,))
        shift = able_to_hold(size, shift)
        length = size_scalar(size, type_of(shift).dtype)
        start = length - shift % length
        doubled = assembly.concatenate([a, a], axis)
        a = slicing.dynamic_slice_in_dim(doubled, start, size, axis)
    return a


def repeat(
    a: ArrayLike,
    repeats: ArrayLike | Ints,
    axis: int | None = None,
    *,
    total_repeat_length: int | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Each element (or slice along `axis`) of `a`, `repeats` times in a row.

    `repeats` must be known when tracing, unless `total_repeat_length` fixes the size of the result: what is
    beyond it is left out, and where there is less the last element is repeated.
    Result: shape of `a`, longer along `axis`, or a vector if it is None; dtype of `a`. `out_sharding` lays the result
    out.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for `repeats` that aren't integers,
    AxisError for axes out of bounds, ShapeError for other numbers of `repeats` than of elements,
    ConcretizationTypeError for traced `repeats` without `total_repeat_length`.

    >>> repeat(np.array([5, 6]), np.array([1, 2]), total_repeat_length=5)
    Array([5, 6, 6, 6, 6], dtype=int32)
    """
    if out_sharding is not None:

        def repeat_rows(a: ArrayLike, repeats: ArrayLike) -> Any:
            return repeat(a, repeats, axis, total_repeat_length=total_repeat_length)

        return with_out_sharding(out_sharding, repeat_rows, a, repeats)
    if axis is None:
        return repeat(ravel(a), repeats, 0, total_repeat_length=total_repeat_length)
    aval = aval_of("repeat", a)
    axis = canonical_axis(axis, aval.ndim)
    if total_repeat_length is None and isinstance(repeats, (int, np.integer)):
        return _repeat(a, int(repeats), axis)
    size = aval.shape[axis]
    from_axis = (slice(None),) * axis
    if total_repeat_length is not None:
        total_repeat_length = known_int(
            "repeat", "total_repeat_length", total_repeat_length, canonical_size
        )
        if size == 0 or total_repeat_length == 0:
            return asarray(a)[(*from_axis, slice(0))]
        order = _repeated_order(asarray(repeats), size, total_repeat_length)
        return asarray(a)[(*from_axis, order)]
    if isinstance(repeats, Tracer):
        raise ConcretizationTypeError(
            "jnp.repeat can't know the size of its result: `repeats` is traced.",
            got=f"repeats: {repeats.aval.text()}",
            do="Give `total_repeat_length`, or repeats that are known when tracing.",
        )
    if isinstance(repeats, np.ma.MaskedArray):
        refuse_masked_array(repeats)
    counts: Any = np.asarray(repeats)
    movement.broadcast_shapes(counts.shape, (size,))
    if counts.size and counts.dtype.kind not in "iub":
        raise ArgumentTypeError(
            "jnp.repeat needs whole numbers as `repeats`.", got=f"got {counts.dtype}"
        )
    order = np.repeat(np.arange(size), np.broadcast_to(counts.astype(int), (size,)))
    return asarray(a)[(*from_axis, order)]


@numpy_function(static=("size", "total"))
def _repeated_order(repeats: ArrayLike, size: int, total: int) -> Any:
    """For each place of a result [total], which of `size` elements is repeated there, each as often as `repeats`
    says.
    """
    index = dtypes.default_int_dtype()
    counts = movement.broadcast_to(convert(repeats, type_of(repeats), index), (size,))
    starts = arithmetic.sub(cumulative.cumsum(counts, 0), counts)
    # The input's position moves on by one at each start; starts beyond the end are dropped.
    steps = movement.broadcast_in_dim(index.type(0), (total,), ())
    moves = steps.at[starts].add(index.type(1))
    return arithmetic.sub(cumulative.cumsum(moves, 0), index.type(1))


@numpy_function(static=("repeats", "axis"))
def _repeat(a: ArrayLike, repeats: int, axis: int) -> Any:
    shape = _shape(a)
    wide = (*shape[: axis + 1], repeats, *shape[axis + 1 :])
    dims = [i for i in range(len(wide)) if i != axis + 1]
    repeated = movement.broadcast_in_dim(a, wide, dims)
    return movement.reshape(repeated, (*shape[:axis], shape[axis] * repeats, *shape[axis + 1 :]))


# Choosing ---------------------------------------------------------------------------------------------------


def where(
    condition: ArrayLike,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: ArrayLike | StaticScalar | None = None,
) -> Any:
    """`x` where `condition`, else `y`. With `condition` alone, the indices of its nonzero elements.

    Result: shape that the arguments broadcast to; dtype that `x` and `y` promote to. The indices are those of
    `nonzero`, whose `size` and `fill_value` they take.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for two arguments, ShapeError for shapes
    that don't broadcast, ConcretizationTypeError for a traced `condition` alone without `size`.

    >>> where(np.array([True, False]), 1, np.array([10, 20]))
    Array([ 1, 20], dtype=int32)
    >>> where(np.array([0, 5, 7]))
    (Array([1, 2], dtype=int32),)
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise ArgumentTypeError("jnp.where takes either one argument or three.", got="two")
    return _where(condition, x, y)


@numpy_function
def _where(condition: ArrayLike, x: ArrayLike, y: ArrayLike) -> Any:
    aval = aval_of("where", condition)
    if aval.dtype != np.bool_:
        condition = logical.ne(condition, scalar(0, aval.dtype))
    x, y = promote_dtypes("where", x, y)
    if _ndim(condition) == 0:
        x, y = _broadcast_arrays("where", x, y)
    else:
        condition, x, y = _broadcast_arrays("where", condition, x, y)
    return logical.select_n(condition, y, x)


def nonzero(
    a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | StaticScalar | None = None
) -> tuple[Any, ...]:
    """For each axis, the indices of the nonzero elements of `a`.

    Their number is not known when tracing: then `size` must fix it, and `fill_value` (0) fills the rest.
    Result: a vector [count] of the default integer dtype for each axis.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ArgumentValueError for a scalar,
    ConcretizationTypeError for a traced array without `size`, DtypeError for random keys.

    >>> nonzero(np.array([0, 5, 7]), size=3, fill_value=-1)
    (Array([ 1,  2, -1], dtype=int32),)
    """
    aval = number_type("nonzero", a)
    if not aval.ndim:
        raise ArgumentValueError(
            "jnp.nonzero needs an array with axes.", do="Use `jnp.atleast_1d(a)`."
        )
    if size is None:
        if isinstance(a, Tracer):
            raise ConcretizationTypeError(
                "jnp.nonzero can't know the size of its result: the array is traced.",
                got=f"got {aval.text()}",
                do="Give `size=`, the number of indices to return.",
            )
        host = np.nonzero(np.asarray(as_operand(a)))
        return tuple(asarray(index.astype(dtypes.default_int_dtype())) for index in host)
    return sized_nonzero(a, known_int("nonzero", "size", size, canonical_size), fill_value)


def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonal number `offset` of the matrices of `a` over two axes, along a new last axis.

    Result: shape of `a` without both axes, then the length of the diagonal; dtype of `a`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds and for
    fewer than two dimensions, ArgumentValueError for one axis twice.

    >>> diagonal(np.array([[1, 2], [3, 4]]), 1)
    Array([2], dtype=int32)
    """
    aval = aval_of("diagonal", a)
    i, j = canonical_axis(axis1, aval.ndim), canonical_axis(axis2, aval.ndim)
    return _diagonal(a, known_int("diagonal", "offset", offset), i, j)


@numpy_function(static=("offset", "i", "j"))
def _diagonal(a: ArrayLike, offset: int, i: int, j: int) -> Any:
    a = moveaxis(a, (i, j), (-2, -1))
    rows, columns = _shape(a)[-2:]
    length = larger(smaller(rows + min(offset, 0), columns - max(offset, 0)), 0)
    along = np.arange(length) if is_static((length,)) else iota(np.int32, length)
    first, second = along - min(offset, 0), along + max(offset, 0)
    return asarray(a)[..., first, second]


def diag(v: ArrayLike, k: int = 0) -> Array:
    """The diagonal number `k` of a matrix, or a matrix with the vector `v` on that diagonal.

    Result: a vector, or a square matrix; dtype of `v`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for a `k` that is no int, ShapeError for
    another number of dimensions.

    >>> diag(np.array([1, 2]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    >>> diag(np.array([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int32)
    """
    aval = aval_of("diag", v)
    if aval.ndim == 2:
        return diagonal(v, k)
    if aval.ndim != 1:
        raise ShapeError("jnp.diag needs a vector or a matrix.", got=f"got {aval.text()}")
    return _diag(v, known_int("diag", "k", k))


def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """A matrix with the elements of `v`, of any shape, on its diagonal number `k`.

    Result: a square matrix; dtype of `v`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for a `k` that is no int.

    >>> diagflat(np.array([[1, 2]]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    return _diag(ravel(v), known_int("diagflat", "k", k))


@numpy_function(static="k")
def _diag(v: ArrayLike, k: int) -> Any:
    n, zero = _shape(v)[0] + abs(k), constant_like(v, 0)
    # The element at (i, i + k) is number i of `v`; below the main diagonal, number i + k, the column.
    padded = assembly.pad(v, zero, [(0, abs(k), 0)]) if k else v
    spread = movement.broadcast_in_dim(padded, (n, n), (0,) if k >= 0 else (1,))
    return logical.select_n(
        band(n, n, k, np.dtype(bool), "eq"), movement.broadcast_in_dim(zero, (n, n), ()), spread
    )


def triu(m: ArrayLike, k: ArrayLike = 0) -> Array:
    """`m` with zeros below its diagonal number `k`, which may be traced.

    Result: shape and dtype of `m`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ShapeError for fewer than two dimensions,
    ArgumentValueError for `k` that isn't an integer.

    >>> triu(np.ones((2, 2), np.int32))
    Array([[1, 1],
           [0, 1]], dtype=int32)
    """
    return _triangle("triu", m, k)


def tril(m: ArrayLike, k: ArrayLike = 0) -> Array:
    """`m` with zeros above its diagonal number `k`, which may be traced.

    Result: shape and dtype of `m`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ShapeError for fewer than two dimensions,
    ArgumentValueError for `k` that isn't an integer.

    >>> tril(np.ones((2, 2), np.int32))
    Array([[1, 0],
           [1, 1]], dtype=int32)
    """
    return _triangle("tril", m, k)


def _triangle(name: str, m: ArrayLike, k: ArrayLike) -> Any:
    aval: Any = aval_of(name, m)
    if aval.ndim < 2:
        raise ShapeError(f"jnp.{name} needs at least two dimensions.", got=f"got {aval.text()}")
    k = diagonal_number(name, k)
    return (_known_triangle if isinstance(k, int) else _computed_triangle)(m, k, name == "triu")


def _triangle_of(m: ArrayLike, k: ArrayLike, upper: bool) -> Any:
    shape = _shape(m)
    rows, columns = shape[-2:]
    k = arithmetic.sub(convert(k, type_of(k), np.dtype(np.int32)), np.int32(upper))
    at_or_below = band(rows, columns, k, np.dtype(bool), "ge")
    mask = movement.broadcast_in_dim(at_or_below, shape, (len(shape) - 2, len(shape) - 1))
    zeros = full_as(m, 0)
    return logical.select_n(mask, m, zeros) if upper else logical.select_n(mask, zeros, m)


# A known `k` is static, not an operand: nothing is transferred for it.
_known_triangle = numpy_function(_triangle_of, static=("k", "upper"))
_computed_triangle = numpy_function(_triangle_of, static="upper")


__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_to", "diag", "diagflat",
    "diagonal", "expand_dims", "flip", "fliplr", "flipud", "matrix_transpose", "moveaxis", "nonzero",
    "permute_dims", "ravel", "repeat", "reshape", "roll", "rollaxis", "rot90", "squeeze", "swapaxes", "tile",
    "transpose", "tril", "triu", "where",
]  # fmt: skip

public_functions(__all__, globals())
