"""Elements chosen by index, mask or condition, and elements written there: take, compress, choose, select, put."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    DtypeError,
    Shape,
    StaticScalar,
    UnsupportedError,
    dtypes,
    expecting,
    is_static,
    public_functions,
    smaller,
)
from pellucid._machine.primitives.gather import fill_param, gather
from pellucid._machine.primitives.index_dims import GatherDimensionNumbers, GatherScatterMode
from pellucid._machine.primitives.movement import (
    broadcast_shapes,
    canonical_axis,
    expand_dims,
    squeeze,
)
from pellucid._machine.tracing import Tracer, type_of
from pellucid._machine.transforms.vmap import vmap
from pellucid._machine.xla.arrays import Array

from .compiled import numpy_function
from .creation import arange, asarray, zeros
from .cumulative import cumsum
from .elementwise import clip, remainder
from .index_entries import clip_to_index_dtype, index_dtype, is_wide
from .indexing import Lookup, check_not_empty, normalize_indices
from .joining import concatenate, stack
from .manipulation import (
    atleast_1d,
    broadcast_arrays,
    broadcast_to,
    moveaxis,
    nonzero,
    ravel,
    reshape,
    tile,
    where,
)
from .promotion import able_to_hold, aval_of, known_int, promote_dtypes, refuse_out
from .reductions import argmax

_MODES = ("fill", "wrap", "clip")


def _flat_or_along(name: str, a: ArrayLike, axis: int | None) -> tuple[Array, int]:
    """`a` with the axis to index: raveled and 0 where `axis` is None."""
    aval = aval_of(name, a)
    return (ravel(a), 0) if axis is None else (asarray(a), canonical_axis(axis, aval.ndim))


def _check_integers(name: str, indices: ArrayLike) -> None:
    dtype = aval_of(name, indices, 1).dtype
    if dtype not in dtypes.KINDS["integral"]:
        raise DtypeError(
            f"jnp.{name} needs indices of an integer dtype.",
            got=f"got {dtype.name}",
            do="Convert with `.astype(int)`, or select by a mask with `x[mask]`.",
        )


def take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: ArrayLike | StaticScalar | None = None,
) -> Array:
    """Elements of `a` at `indices` along `axis` (of `a` raveled, if it is None).

    Result: shape of `a` with `axis` replaced by the shape of `indices`. `mode`: "fill" (default) gives `fill_value`
    (NaN, or an extreme integer) out of bounds, "wrap" counts modulo the size, "clip" takes the nearest bound.
    Negative indices count from the end, but for "clip".
    Raises: ArgumentTypeError for indices that aren't integers.

    >>> take(jnp.array([10, 20, 30]), jnp.array([2, 0]))
    Array([30, 10], dtype=int32)
    """
    refuse_out("take", out)
    a, axis = _flat_or_along("take", a, axis)
    _check_integers("take", indices)
    if mode == "raise":
        raise UnsupportedError(
            "jnp.take can't raise for indices out of bounds: they are known when a program runs only.",
            do='Use mode "fill", "wrap" or "clip".',
        )
    if mode not in (None, *_MODES):
        raise ArgumentValueError(
            "jnp.take has no such mode.", got=f"got {mode!r}", do=f"Use one of {', '.join(_MODES)}."
        )
    indices = _fit_to_dtype(indices, type_of(a).shape, type_of(a).shape[axis], mode)
    return (_take if fill_value is None else _take_along_axis)(
        a, indices, axis, mode, bool(unique_indices), bool(indices_are_sorted), fill_value
    )


def _fit_to_dtype(indices: ArrayLike, shape: Shape, size: int, mode: str | None) -> Any:
    """`indices`; numbers of the host that the index dtype can't hold are replaced by some that mean the same."""
    if mode == "wrap" and is_static((size,)) and (type(indices) is int or is_wide(indices)):
        return indices % max(size, 1)  # type: ignore[operator]  # they are integers
    return clip_to_index_dtype(indices, shape)


def _take_along_axis(
    a: Array,
    indices: ArrayLike,
    axis: int,
    mode: str | None,
    unique_indices: bool,
    indices_are_sorted: bool,
    fill_value: ArrayLike | StaticScalar | None,
) -> Any:
    if mode == "wrap":
        size = max(a.shape[axis], 1)
        indices = remainder(able_to_hold(size, indices), size)
    at = a.at[(slice(None),) * axis + (indices,)]
    return at.get(
        mode="fill" if mode is None else "promise_in_bounds" if mode == "wrap" else mode,
        unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted,
        fill_value=fill_value,
        wrap_negative_indices=mode != "clip",
    )


_take = numpy_function(
    _take_along_axis, static=("axis", "mode", "unique_indices", "indices_are_sorted", "fill_value")
)


def _indices_along(
    name: str, arr: ArrayLike, indices: ArrayLike, axis: int | None
) -> tuple[Array, tuple[Any, ...], tuple[int, ...]]:
    """(`arr`, raveled if `axis` is None; the index of all its axes; the shape of the result) of `indices` along
    `axis`.
    """
    _check_integers(name, indices)
    if axis is None:
        _axis_and_shape(name, ravel(arr), indices, 0)
        return ravel(arr), (indices,), type_of(indices).shape
    axis, result = _axis_and_shape(name, arr, indices, axis)
    shape = type_of(arr).shape
    entries = []
    for i, n in enumerate(shape):
        along = tuple(-1 if j == i else 1 for j in range(len(shape)))
        entries.append(
            broadcast_to(indices, result)
            if i == axis
            else reshape(arange(result[i]) if n == result[i] else arange(n), along)
        )
    return asarray(arr), tuple(entries), result


def _axis_and_shape(
    name: str, arr: ArrayLike, indices: ArrayLike, axis: int
) -> tuple[int, tuple[int, ...]]:
    """`axis`, counted from the front, and the shape of the elements at `indices` along it."""
    shape, index_shape = aval_of(name, arr).shape, type_of(indices).shape
    if len(shape) != len(index_shape):
        raise ArgumentValueError(
            f"jnp.{name} needs indices with as many dimensions as the array.",
            got=[f"array: {type_of(arr).text()}", f"indices: {type_of(indices).text()}"],
        )
    axis = canonical_axis(axis, len(shape))
    others = tuple(1 if i == axis else n for i, n in enumerate(shape))
    return axis, broadcast_shapes(others, index_shape)


def take_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    axis: int | None = -1,
    mode: str | None = None,
    fill_value: StaticScalar | None = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> Array:
    """Elements of `arr` at `indices`, which has an index along `axis` for each element of the result.

    `indices` has as many dimensions as `arr`, and broadcasts with it but for `axis`. `mode` is that of
    `x.at[...].get`, by default "fill".
    Raises: ArgumentTypeError for indices that aren't integers, ArgumentValueError for other numbers of dimensions.

    >>> x = jnp.array([[3, 1, 2]])
    >>> take_along_axis(x, jnp.argsort(x), axis=1)
    Array([[1, 2, 3]], dtype=int32)
    """
    kind = GatherScatterMode.from_any("fill" if mode is None else mode)
    filled = kind is GatherScatterMode.FILL_OR_DROP
    fill = fill_param(aval_of("take_along_axis", arr).dtype, fill_value) if filled else None
    lookup = Lookup(False, False, kind, fill, wrap_negative_indices is not False)
    _check_integers("take_along_axis", indices)
    if axis is None:
        arr, axis = ravel(arr), 0
    axis, _ = _axis_and_shape("take_along_axis", arr, indices, axis)
    indices = clip_to_index_dtype(indices, type_of(arr).shape)
    return _take_along(arr, indices, axis, lookup)


@numpy_function(static=("axis", "lookup"))
def _take_along(arr: ArrayLike, indices: ArrayLike, axis: int, lookup: Lookup) -> Any:
    """One gather; the dimensions that `arr` and `indices` share are its batch dimensions, which may be sharded."""
    shape, index_shape = type_of(arr).shape, type_of(indices).shape
    # Dimensions of size 1 in one of both: `windows` are whole axes of `arr`, `alone` axes of the indices only.
    others = [i for i in range(len(shape)) if i != axis]
    windows = [i for i in others if shape[i] != index_shape[i] and index_shape[i] == 1]
    alone = [i for i in others if shape[i] != index_shape[i] and i not in windows]
    result = tuple([shape[i] if i in windows else n for i, n in enumerate(index_shape)])
    if 0 in result:
        return zeros(result, type_of(arr).dtype)
    check_not_empty(shape[axis], axis, shape)
    of_arr = [i for i in range(len(shape)) if i not in alone]
    of_indices = [i for i in range(len(shape)) if i not in windows]
    shared = [i for i in others if i not in windows and i not in alone]
    where_to = of_arr.index(axis)
    numbers = GatherDimensionNumbers(
        tuple(windows),
        (where_to,),
        (where_to,),
        tuple([of_arr.index(i) for i in shared]),
        tuple([of_indices.index(i) for i in shared]),
    )
    places = normalize_indices(
        indices, shape[axis], index_dtype(shape), lookup.wrap_negative_indices
    )
    return gather(
        squeeze(arr, alone), expand_dims(squeeze(places, windows), (len(of_indices),)), numbers,
        [shape[i] if i in windows else 1 for i in of_arr], mode=lookup.mode, fill_value=lookup.fill_value,
    )  # fmt: skip


def _refuse_inplace(name: str, inplace: bool) -> None:
    if inplace:
        raise ArgumentValueError(
            f"jnp.{name} can't change its argument: arrays are immutable.",
            do="Pass inplace=False, and use the result.",
        )


def put_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    values: ArrayLike,
    axis: int | None,
    inplace: bool = True,
    *,
    mode: str | None = None,
) -> Array:
    """`arr` with `values` at `indices` along `axis`, as `take_along_axis` reads them; pass `inplace=False`.

    `mode` is that of `x.at[...].set`, by default "drop": indices out of bounds are left out.
    Result: shape and dtype of `arr`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for indices that aren't integers,
    AxisError for axes out of bounds, ArgumentValueError for inplace=True, an unknown `mode` and other numbers of
    dimensions, ShapeError for `values` that don't broadcast.

    >>> put_along_axis(jnp.zeros((2, 2)), jnp.array([[0], [1]]), 5.0, axis=1, inplace=False)
    Array([[5., 0.],
           [0., 5.]], dtype=float32)
    """
    _refuse_inplace("put_along_axis", inplace)
    axis = None if axis is None else known_int("put_along_axis", "axis", axis)
    indices = clip_to_index_dtype(indices, aval_of("put_along_axis", arr).shape)
    return _put_along_axis(arr, indices, values, axis, mode or "drop")


@numpy_function(static=("axis", "mode"))
def _put_along_axis(
    arr: ArrayLike, indices: ArrayLike, values: ArrayLike, axis: int | None, mode: str
) -> Any:
    shape = aval_of("put_along_axis", arr).shape
    flat, entries, result = _indices_along("put_along_axis", arr, indices, axis)
    updated = flat.at[entries].set(broadcast_to(asarray(values), result), mode=mode)
    return reshape(updated, shape)


def _wrap_or_clip(ind: Array, size: int, mode: str | None, name: str) -> tuple[Array, str]:
    if mode == "wrap":
        return remainder(able_to_hold(size, ind), size), "promise_in_bounds"
    if mode == "clip":
        return clip(able_to_hold(size, ind), 0, size - 1), "promise_in_bounds"
    if mode is None:
        return ind, "clip"
    if mode == "raise":
        raise UnsupportedError(
            f"jnp.{name} can't raise for indices out of bounds: they are known when a program runs only.",
            do='Use mode "wrap" or "clip", or None.',
        )
    raise ArgumentValueError(f"jnp.{name} has no such mode.", got=f"got {mode!r}")


def put(
    a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str | None = None, *, inplace: bool = True
) -> Array:
    """`a` with the values `v`, repeated as needed, at the flat indices `ind`; pass `inplace=False`.

    Negative indices count from the end, but for `mode="clip"`. Out of bounds, None and "clip" take the nearest element,
    "wrap" counts modulo the size.
    Result: shape and dtype of `a`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, IndexingError for indices that aren't
    integers, ArgumentValueError for inplace=True and an unknown `mode`, UnsupportedError for mode "raise".

    >>> put(jnp.zeros(4), jnp.array([1, 3]), jnp.array([7.0, 8.0]), inplace=False)
    Array([0., 7., 0., 8.], dtype=float32)
    """
    _refuse_inplace("put", inplace)
    aval = aval_of("put", a)
    ind, v = ravel(_fit_to_dtype(ind, (aval.size,), aval.size, mode)), ravel(v)
    if not (aval.size and ind.size and v.size):
        return asarray(a)
    ind, kind = _wrap_or_clip(ind, aval.size, mode, "put")
    updated = ravel(a).at[ind].set(_repeat_to_size(v, ind.size), mode=kind)
    return reshape(updated, aval.shape)


def _repeat_to_size(values: Array, size: int) -> Any:
    """The first `size` elements of the vector `values`, repeated as often as needed."""
    return tile(values, -(-size // values.size))[:size]


def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True) -> Array:
    """`arr` with the values `vals`, repeated as needed, where `mask` is true; pass `inplace=False`.

    Result: shape and dtype of `arr`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ArgumentValueError for inplace=True, a mask
    of another size, and for no values.

    >>> place(jnp.arange(4), jnp.array([True, False, True, False]), jnp.array([9]), inplace=False)
    Array([9, 1, 9, 3], dtype=int32)
    """
    _refuse_inplace("place", inplace)
    aval, mask_aval, vals_aval = (aval_of("place", x, i) for i, x in enumerate((arr, mask, vals)))
    if aval.size != mask_aval.size:
        raise ArgumentValueError(
            "jnp.place needs a mask of the array's size.",
            got=[f"array: {aval.text()}", f"mask: {mask_aval.text()}"],
        )
    if not vals_aval.size:
        if aval.size:
            raise ArgumentValueError("jnp.place can't insert from an empty array.")
        return asarray(arr)
    positions = nonzero(ravel(mask), size=aval.size, fill_value=aval.size)[0]
    updated = ravel(arr).at[positions].set(_repeat_to_size(ravel(vals), aval.size), mode="drop")
    return reshape(updated, aval.shape)


def fill_diagonal(
    a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True
) -> Array:
    """`a` with `val`, a scalar or values to repeat, on its main diagonal; pass `inplace=False`.

    Raises: ArgumentValueError for fewer than two dimensions, or more that aren't equal.

    >>> fill_diagonal(jnp.zeros((2, 2)), 1.0, inplace=False)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    if inplace:
        raise UnsupportedError(
            "jnp.fill_diagonal can't change its argument: arrays are immutable.",
            do="Pass inplace=False, and use the result.",
        )
    if wrap:
        raise UnsupportedError("jnp.fill_diagonal doesn't wrap around tall matrices.")
    aval = aval_of("fill_diagonal", a)
    if aval.ndim < 2:
        raise ArgumentValueError(
            "jnp.fill_diagonal needs at least two dimensions.", got=f"got {aval.text()}"
        )
    if aval.ndim > 2 and len(set(aval.shape)) > 1:
        raise ArgumentValueError(
            "jnp.fill_diagonal needs dimensions of one size.", got=f"got {aval.text()}"
        )
    n = functools.reduce(smaller, aval.shape)
    positions = (arange(n),) * aval.ndim
    values = val if not aval_of("fill_diagonal", val, 1).ndim else _repeat_to_size(ravel(val), n)
    return asarray(a).at[positions].set(values)


def argwhere(
    a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | StaticScalar | None = None
) -> Array:
    """Indices [count, ndim] of the nonzero elements of `a`; under a trace, of `size` of them.

    Result: the default integer dtype.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ConcretizationTypeError for a traced array
    without `size`, DtypeError for random keys.

    >>> argwhere(jnp.array([[0, 1], [2, 0]]))
    Array([[0, 1],
           [1, 0]], dtype=int32)
    """
    indices = stack(nonzero(atleast_1d(a), size=size, fill_value=fill_value), axis=1)
    return indices[:, :0] if not aval_of("argwhere", a).ndim else indices


def flatnonzero(
    a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | StaticScalar | None = None
) -> Array:
    """Indices of the nonzero elements of `a`, raveled; under a trace, of `size` of them.

    Result: a vector [count] of the default integer dtype.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ConcretizationTypeError for a traced array
    without `size`, DtypeError for random keys.

    >>> flatnonzero(jnp.array([[0, 1], [2, 0]]))
    Array([1, 2], dtype=int32)
    """
    return nonzero(ravel(a), size=size, fill_value=fill_value)[0]


def compress(
    condition: ArrayLike,
    a: ArrayLike,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: ArrayLike | StaticScalar = 0,
    out: None = None,
) -> Array:
    """Slices of `a` along `axis` (elements of `a` raveled, if it is None) where the vector `condition` is true.

    Their number isn't known under a trace: there `size` fixes it, and `fill_value` fills the rest.
    Raises: ArgumentValueError for a condition that is no vector.

    >>> compress(jnp.array([True, False, True]), jnp.array([1, 2, 3]))
    Array([1, 3], dtype=int32)
    """
    refuse_out("compress", out)
    aval_of("compress", condition)
    mask = asarray(condition).astype(bool)
    if mask.ndim != 1:
        raise ArgumentValueError(
            "jnp.compress needs a condition of one dimension.",
            got=f"got {type_of(mask).text()}",
        )
    a, axis = _flat_or_along("compress", a, axis)
    a = moveaxis(a, axis, 0)
    length = a.shape[0]
    mask, beyond = mask[:length], mask[length:]
    if beyond.shape[0] and not isinstance(beyond, Tracer) and np.any(np.asarray(beyond)):
        raise ArgumentValueError(
            "jnp.compress has a condition that selects beyond the end of the array.",
            got=[f"array: {type_of(a).text()}", f"condition: {length + beyond.shape[0]} elements"],
        )
    [positions] = nonzero(mask, size=size, fill_value=length)
    if size is None:
        return moveaxis(a[positions], 0, axis)
    result = a.at[positions].get(mode="fill", fill_value=fill_value)
    return moveaxis(result, 0, axis)


def extract(
    condition: ArrayLike,
    arr: ArrayLike,
    *,
    size: int | None = None,
    fill_value: ArrayLike | StaticScalar = 0,
) -> Array:
    """Elements of `arr`, raveled, where `condition` is true; `size` and `fill_value` as of `compress`.

    Result: a vector [count] of the dtype of `arr`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ArgumentValueError for a condition that
    selects beyond the end, ConcretizationTypeError for a traced `condition` without `size`.

    >>> extract(jnp.array([[1, 0], [0, 1]]), jnp.array([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int32)
    """
    return compress(ravel(condition), ravel(arr), size=size, fill_value=fill_value)


def choose(
    a: ArrayLike, choices: Array | Sequence[ArrayLike], out: None = None, mode: str = "raise"
) -> Array:
    """For each element of `a`, the element of the array `choices[a]` at its place; all broadcast.

    `mode` for numbers out of range: "raise" (not under a trace), "wrap" or "clip".
    Result: shape that `a` and the choices broadcast to; dtype that the choices promote to.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for an `a` that isn't of integers,
    ShapeError for shapes that don't broadcast, ArgumentValueError for an unknown `mode`, and with "raise" for numbers
    out of range and a traced `a`, UnsupportedError for `out`.

    >>> choose(jnp.array([0, 1, 0]), [jnp.array([1, 2, 3]), jnp.array([10, 20, 30])])
    Array([ 1, 20,  3], dtype=int32)
    """
    refuse_out("choose", out)
    _check_integers("choose", a)
    with expecting("jnp.choose: `choices` must be a sequence of arrays", choices):
        listed = list(choices)
    if not (count := len(listed)):
        raise ArgumentValueError("jnp.choose needs at least one array to choose from.")
    if mode == "raise":
        if isinstance(a, Tracer):
            raise ArgumentValueError(
                "jnp.choose can't raise for numbers out of range: `a` is traced.",
                do='Use mode "wrap" or "clip".',
            )
        numbers = np.asarray(a)
        if numbers.size and not (numbers.min() >= 0 and numbers.max() < count):
            raise ArgumentValueError(
                "jnp.choose has numbers that name none of the choices.",
                got=f"numbers from {numbers.min()} to {numbers.max()}, {count} choices",
            )
    elif mode == "wrap":
        a = remainder(a, np.int32(count))
    elif mode == "clip":
        a = clip(a, 0, count - 1)
    else:
        raise ArgumentValueError(
            "jnp.choose has no such mode.",
            got=f"got {mode!r}",
            do="Use one of raise, wrap, clip.",
        )
    chosen, *values = broadcast_arrays(a, *promote_dtypes("choose", *listed))
    return take_along_axis(stack(values), chosen[None], axis=0)[0]


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: ArrayLike = 0) -> Array:
    """For each element that of the first of `choicelist` whose condition is true, `default` if none is.

    Result: shape that all broadcast to; dtype that the choices and `default` promote to.
    Raises: ArgumentTypeError for lists and other values that aren't arrays in the lists, ArgumentValueError for lists
    of different lengths or empty ones, and for conditions that aren't bools, ShapeError for shapes that don't
    broadcast.

    >>> x = jnp.arange(4)
    >>> select([x < 1, x > 2], [x, 10 * x], -1)
    Array([ 0, -1, -1, 30], dtype=int32)
    """
    for name, arrays in (("condlist", condlist), ("choicelist", choicelist)):
        with expecting(f"jnp.select needs `{name}` to be a sequence of arrays", arrays):
            len(arrays)
    if len(condlist) != len(choicelist):
        raise ArgumentValueError(
            "jnp.select needs as many choices as conditions.",
            got=f"{len(condlist)} conditions, {len(choicelist)} choices",
        )
    if not len(condlist):
        raise ArgumentValueError("jnp.select needs at least one condition.")
    return _select([*condlist], [*choicelist], default)


@numpy_function
def _select(condlist: list[Any], choicelist: list[Any], default: ArrayLike) -> Any:
    for condition in condlist:
        if aval_of("select", condition).dtype != np.bool_:
            raise ArgumentValueError(
                "jnp.select needs conditions of dtype bool.",
                got=f"got {type_of(condition).text()}",
                do="Compare: `x != 0`.",
            )
    *choices, result = promote_dtypes("select", *choicelist, default)
    for condition, choice in zip(reversed(condlist), reversed(choices), strict=True):
        result = where(condition, choice, result)
    return result


def piecewise(
    x: ArrayLike,
    condlist: Array | Sequence[ArrayLike],
    funclist: Sequence[Callable[..., Any] | Any],
    *args: Any,
    **kw: Any,
) -> Array:
    """For each element of `x`, what the function of its last true condition gives of it, else the default's.

    `condlist`: conditions of the shape of `x`. `funclist`: functions of a scalar (and `args`, `kw`) or constants,
    one for each condition and, if one more, a default (0 otherwise). Result: shape and dtype of `x`.
    Raises: ArgumentValueError for another number of functions.

    >>> piecewise(jnp.array([-1.0, 2.0]), [jnp.array([True, False])], [lambda v: -v, 0.5])
    Array([1. , 0.5], dtype=float32)
    """
    aval = aval_of("piecewise", x)
    x = asarray(x)
    conditions = asarray(condlist, dtype=bool)
    if conditions.ndim == x.ndim:
        conditions = conditions[None]
    n_conditions, n_functions = conditions.shape[0], len(funclist)
    if n_functions == n_conditions + 1:
        functions = [funclist[-1], *funclist[:-1]]
    elif n_functions == n_conditions:
        functions = [0, *funclist]
    else:
        raise ArgumentValueError(
            "jnp.piecewise needs as many functions as conditions, or one more for the rest.",
            got=f"{n_conditions} conditions, {n_functions} functions",
        )

    def values(function: Callable[..., Any]) -> Any:
        if not callable(function):
            return broadcast_to(asarray(function, dtype=aval.dtype), x.shape)
        each: Callable[..., Any] = lambda element: asarray(function(element, *args, **kw))
        return reshape(vmap(each)(ravel(x)), x.shape).astype(aval.dtype)

    none = broadcast_to(asarray(False), (1, *x.shape))
    masks = concatenate([none, broadcast_to(conditions, (n_conditions, *x.shape))])
    last = argmax(cumsum(masks, axis=0), axis=0)
    return take_along_axis(stack([*map(values, functions)]), last[None], axis=0)[0]


__all__ = [
    "argwhere", "choose", "compress", "extract", "fill_diagonal", "flatnonzero", "piecewise", "place", "put",
    "put_along_axis", "select", "take", "take_along_axis",
]  # fmt: skip

public_functions(__all__, globals())
