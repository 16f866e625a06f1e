"""Arrays as sets: distinct elements, membership, union, intersection and differences.

The number of distinct elements isn't known under a trace: there `size` fixes the size of a result, and `fill_value`
fills the rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    ConcretizationTypeError,
    StaticScalar,
    canonical_size,
    dtypes,
    larger,
    public_functions,
    smaller,
)
from pellucid._machine.primitives.conversion import size_scalar
from pellucid._machine.primitives.movement import canonical_axis
from pellucid._machine.tracing import Tracer, type_of
from pellucid._machine.xla.arrays import Array

from .compiled import numpy_function
from .creation import arange, asarray, full, zeros
from .cumulative import cumsum
from .elementwise import clip, minimum
from .joining import concatenate
from .manipulation import expand_dims, flip, moveaxis, ravel, reshape, where
from .number_kinds import isnan
from .promotion import aval_of, known_int, promote_dtypes
from .reductions import any, sum
from .searching import lexsort_rows, searchsorted
from .sorting import argsort, sized_nonzero

_SEARCHES = ("auto", "compare_all", "binary_search", "sort")


class UniqueAll(NamedTuple):
    """Distinct values, the index of each one's first occurrence, for each element the index of its value, and counts."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """Distinct values and how often each occurs."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """Distinct values, and for each element the index of its value."""

    values: Any
    inverse_indices: Any


@numpy_function(static="equal_nan")
def _runs(rows: Array, equal_nan: bool) -> tuple[Any, Any]:
    """Row numbers of `rows` [n, width] in stable sorted order, and a mask of the sorted rows that differ from the one
    before.
    """
    n, width = type_of(rows).shape
    if not width:
        return arange(n), arange(n) == 0
    # The first column is the primary key, which lexsort takes last.
    order = argsort(rows[:, 0]) if width == 1 else lexsort_rows.python(flip(rows.T, 0), 0)
    ordered = rows[order]
    differs = ordered[1:] != ordered[:-1]
    if equal_nan and dtypes.is_inexact(type_of(rows).dtype):
        differs = differs & ~(isnan(ordered[1:]) & isnan(ordered[:-1]))
    return order, concatenate([asarray([True]), any(differs, axis=1)])


@numpy_function(static="size")
def _sized_starts(is_first: ArrayLike, size: int) -> tuple[Any, Any]:
    """(starts of the first `size` runs, 0 for those that don't exist; number of runs)."""
    [starts] = sized_nonzero(is_first, size, 0)
    return starts, sum(is_first, dtype=np.int32)


@numpy_function
def _inverse(order: Any, is_first: ArrayLike) -> Any:
    """For each row the number of its run."""
    numbers = cumsum(is_first, dtype=dtypes.default_int_dtype()) - 1
    return asarray(numbers * 0).at[order].set(numbers, unique_indices=True)


def _static_size(name: str, x: ArrayLike, size: int | None) -> int | None:
    """`size` as an int or None; raises ConcretizationTypeError if it is None and `x` is traced."""
    if size is not None:
        return known_int(name, "size", size, canonical_size)
    if isinstance(x, Tracer):
        raise ConcretizationTypeError(
            f"jnp.{name} can't know the size of its result: the array is traced.",
            got=f"got {x.aval.text()}",
            do="Give `size=`, the number of elements to return.",
        )
    return None


def _distinct(
    name: str,
    ar: ArrayLike,
    axis: int | None,
    equal_nan: bool,
    size: int | None,
    fill_value: ArrayLike | StaticScalar | None,
) -> tuple[Any, Any, Any, Any]:
    """(values, indices, inverse, counts) of the distinct slices of `ar` along `axis`."""
    aval = aval_of(name, ar)
    size = _static_size(name, ar, size)
    x = asarray(ar)
    if axis is None:
        flat, axis, inverse_shape = ravel(x), 0, aval.shape
    else:
        axis = canonical_axis(axis, aval.ndim)
        flat, inverse_shape = moveaxis(x, axis, 0), (aval.shape[axis],)
    n, rest = type_of(flat).shape[0], type_of(flat).shape[1:]
    index = dtypes.default_int_dtype()
    if n == 0:
        if size and fill_value is None:
            raise ArgumentValueError(
                f"jnp.{name} has nothing to fill its result with: the array is empty.",
                got=f"size={size}, {aval.text()}",
                do="Give `fill_value=`.",
            )
        values = full((size or 0, *rest), 0 if fill_value is None else fill_value, aval.dtype)
        zeros = full((size or 0,), 0, index)
        return moveaxis(values, 0, axis), zeros, full(inverse_shape, 0, index), zeros
    rows = reshape(flat, (n, math.prod(rest)))
    order, is_first = _runs(rows, bool(equal_nan))
    count = int(np.asarray(is_first).sum()) if size is None else size
    # One start more than results: each run ends where the next one begins.
    starts, total = _sized_starts(is_first, smaller(count + 1, n))
    starts = _extend(starts, count + 1, 0)
    starts, following = starts[:count], starts[1 : count + 1]
    exists = arange(count) < total
    end = size_scalar(n, index)
    ends = where(arange(count) + 1 < total, following, end)
    indices = where(exists, order[starts], order[0])
    values = flat[indices]
    if fill_value is not None:
        mask = reshape(exists, (count,) + (1,) * len(rest))
        values = where(mask, values, asarray(fill_value, dtype=aval.dtype))
    counts = where(exists, ends - starts, 0)
    inverse = reshape(_inverse(order, is_first), inverse_shape)
    return moveaxis(values, 0, axis), indices, inverse, counts


def _extend(x: Array, size: int, fill: Any) -> Any:
    missing = larger(size - type_of(x).shape[0], 0)
    return x if missing == 0 else concatenate([x, full((missing,), fill, x.dtype)])


def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: ArrayLike | StaticScalar | None = None,
    sorted: bool = True,
) -> Any:
    """Distinct elements of `ar`, sorted; along `axis`, distinct slices.

    As asked, a tuple with: indices of their first occurrences, `inverse` (which of them each element is, in the shape
    of `ar`), and how often they occur. `fill_value`: the least element by default.
    Raises: ConcretizationTypeError under a trace without `size`, ArgumentValueError for an empty array and no `fill_value`.

    >>> unique(jnp.array([3, 1, 3]))
    Array([1, 3], dtype=int32)
    """
    results = _distinct("unique", ar, axis, equal_nan, size, fill_value)
    is_wanted = (True, return_index, return_inverse, return_counts)
    chosen = tuple(x for x, is_chosen in zip(results, is_wanted, strict=True) if is_chosen)
    return chosen if len(chosen) > 1 else results[0]


def unique_all(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | StaticScalar | None = None
) -> UniqueAll:
    """Distinct elements with indices, inverse and counts; NaN differs from NaN. See `unique`.

    Result: vectors [count] of values in the dtype of `x`, indices and counts; the inverse has the shape of `x`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ConcretizationTypeError for a traced array
    without `size`, ArgumentValueError for an empty array with `size` and without `fill_value`, DtypeError for random
    keys.

    >>> unique_all(jnp.array([3, 1, 3])).counts
    Array([1, 2], dtype=int32)
    """
    return UniqueAll(*_distinct("unique_all", x, None, False, size, fill_value))


def unique_counts(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | StaticScalar | None = None
) -> UniqueCounts:
    """Distinct elements and how often they occur; NaN differs from NaN. See `unique`.

    Result: vectors [count] of values in the dtype of `x` and of counts, integers.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ConcretizationTypeError for a traced array
    without `size`, ArgumentValueError for an empty array with `size` and without `fill_value`, DtypeError for random
    keys.

    >>> unique_counts(jnp.array([3, 1, 3])).counts
    Array([1, 2], dtype=int32)
    """
    values, _, _, counts = _distinct("unique_counts", x, None, False, size, fill_value)
    return UniqueCounts(values, counts)


def unique_inverse(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | StaticScalar | None = None
) -> UniqueInverse:
    """Distinct elements and which of them each element is; NaN differs from NaN. See `unique`.

    Result: a vector [count] of values in the dtype of `x`, and indices into it in the shape of `x`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ConcretizationTypeError for a traced array
    without `size`, ArgumentValueError for an empty array with `size` and without `fill_value`, DtypeError for random
    keys.

    >>> unique_inverse(jnp.array([3, 1, 3])).inverse_indices
    Array([1, 0, 1], dtype=int32)
    """
    values, _, inverse, _ = _distinct("unique_inverse", x, None, False, size, fill_value)
    return UniqueInverse(values, inverse)


def unique_values(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | StaticScalar | None = None
) -> Array:
    """Distinct elements, sorted; NaN differs from NaN. See `unique`.

    Result: a vector [count] in the dtype of `x`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ConcretizationTypeError for a traced array
    without `size`, ArgumentValueError for an empty array with `size` and without `fill_value`, DtypeError for random
    keys.

    >>> unique_values(jnp.array([3, 1, 3]))
    Array([1, 3], dtype=int32)
    """
    return _distinct("unique_values", x, None, False, size, fill_value)[0]


def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Array:
    """For each element of `element` whether it is among `test_elements`; with `invert`, whether it isn't.

    `method`: "compare_all" takes time and memory of both sizes multiplied, "binary_search" and "sort" sort first;
    "auto" chooses by size. NaN is among nothing.
    Result: bools of the shape of `element`. `assume_unique` has no effect.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ArgumentValueError for an unknown `method`.

    >>> isin(jnp.array([1, 2, 3]), jnp.array([2]))
    Array([False,  True, False], dtype=bool)
    """
    if method not in _SEARCHES:
        raise ArgumentValueError(
            "jnp.isin has no such method.",
            got=f"got {method!r}",
            do=f"Use one of {', '.join(_SEARCHES)}.",
        )
    sizes = [aval_of("isin", x, i).size for i, x in enumerate((element, test_elements))]
    small = sizes[1] <= 32 or sizes[0] * sizes[1] <= 1 << 16
    return _isin(
        element,
        test_elements,
        bool(invert),
        method == "compare_all" or (method == "auto" and small),
    )


@numpy_function(static=("invert", "compares_all"))
def _isin(element: ArrayLike, test_elements: ArrayLike, invert: bool, compares_all: bool) -> Any:
    x, tested = promote_dtypes("isin", element, test_elements)
    shape, tested = type_of(x).shape, ravel(tested)
    if not type_of(tested).size:
        return full(shape, invert, bool)
    if compares_all:
        is_member = any(expand_dims(x, -1) == tested, axis=-1)
    else:
        order = argsort(tested)
        place = clip(searchsorted(tested[order], ravel(x)), 0, type_of(tested).size - 1)
        is_member = reshape(tested[order][place] == ravel(x), shape)
    return ~is_member if invert else is_member


@numpy_function(static="equal_nan")
def _merge(ar1: ArrayLike, ar2: ArrayLike, equal_nan: bool) -> tuple[Any, ...]:
    """Distinct elements of two vectors, sorted, in vectors as long as both together.

    Gives the values, whether they exist, whether each is in `ar1` and in `ar2`, and where it stands first there.
    """
    n, total = type_of(ar1).size, type_of(ar1).size + type_of(ar2).size
    joined = concatenate([ar1, ar2])
    if not total:
        nothing, nowhere = zeros((0,), bool), zeros((0,), np.int32)
        return joined, nothing, nothing, nothing, nowhere, nowhere
    order, is_first = _runs(expand_dims(joined, 1), equal_nan)
    run = cumsum(is_first, dtype=np.int32) - 1
    is_left = order < n
    empty, never = full((total,), fill_value=False, dtype=bool), full((total,), total, order.dtype)
    first_left = never.at[run].min(where(is_left, order, total))
    first_right = never.at[run].min(where(is_left, total, order))
    values = joined[clip(minimum(first_left, first_right), 0, max(total - 1, 0))]
    return (
        values, empty.at[run].set(True), first_left < total, first_right < total, first_left, first_right - n,
    )  # fmt: skip


def _merge_arrays(
    name: str, ar1: ArrayLike, ar2: ArrayLike, size: int | None, equal_nan: bool = False
) -> tuple[Any, ...]:
    """`_merge` of two arrays; raises where the size of the result can't be known."""
    _static_size(name, ar1, size)
    _static_size(name, ar2, size)
    for i, x in enumerate((ar1, ar2)):
        aval_of(name, x, i)
    first, second = promote_dtypes(name, ar1, ar2)
    return _merge(ravel(first), ravel(second), equal_nan)


def _elements_where(
    mask: Array, size: int | None, fills: Sequence[Any], *columns: Array
) -> list[Any]:
    """For each of `columns`, its elements where `mask` is true; with `size`, exactly that many, filled up with the
    column's fill.

    A fill of None is the column's first element, or 0 without one.
    """
    if size is None:
        return [x[mask] for x in columns]
    count, length = size, type_of(mask).size
    [places] = sized_nonzero(mask, count, length)
    results = []
    for x, fill in zip(columns, fills, strict=True):
        values = x.at[places].get(mode="fill", fill_value=0 if fill is None else fill)
        if fill is None and count:
            values = where(places < length, values, values[0])
        results.append(values)
    return results


def union1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    *,
    size: int | None = None,
    fill_value: ArrayLike | StaticScalar | None = None,
) -> Array:
    """Distinct elements of both arrays, sorted. `size` and `fill_value` as of `unique`.

    Result: a vector [count] of the dtype that both promote to.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ConcretizationTypeError for a traced array
    without `size`, DtypeError for random keys.

    >>> union1d(jnp.array([3, 1]), jnp.array([1, 2]))
    Array([1, 2, 3], dtype=int32)
    """
    values, exists, *_ = _merge_arrays("union1d", ar1, ar2, size, equal_nan=True)
    return _elements_where(exists, size, [fill_value], values)[0]


def setdiff1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | StaticScalar | None = None,
) -> Array:
    """Distinct elements of `ar1` that aren't in `ar2`, sorted; as they stand, where they are assumed unique.

    `size` as of `unique`; `fill_value`: 0 by default.
    Result: a vector [count] of the dtype of `ar1`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ConcretizationTypeError for a traced array
    without `size`.

    >>> setdiff1d(jnp.array([3, 1, 2]), jnp.array([2]))
    Array([1, 3], dtype=int32)
    """
    fill = 0 if fill_value is None else fill_value
    dtype = aval_of("setdiff1d", ar1).dtype
    if assume_unique:
        _static_size("setdiff1d", ar1, size)
        _static_size("setdiff1d", ar2, size)
        return _elements_where(ravel(isin(ar1, ar2, invert=True)), size, [fill], ravel(ar1))[0]
    values, _, is_left, is_right, *_ = _merge_arrays("setdiff1d", ar1, ar2, size)
    return _elements_where(is_left & ~is_right, size, [fill], values)[0].astype(dtype)


def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | StaticScalar | None = None,
) -> Any:
    """Distinct elements that are in both arrays, sorted; with `return_indices`, also where they stand first in each.

    `size` as of `unique`. `fill_value`: the least element of the result by default; indices are filled with the
    sizes of the arrays.
    Result: a vector [count] of the dtype that both promote to, or a triple with two vectors of indices. `assume_unique`
    has no effect.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ConcretizationTypeError for a traced array
    without `size`, DtypeError for random keys.

    >>> intersect1d(jnp.array([3, 1, 2]), jnp.array([2, 3]))
    Array([2, 3], dtype=int32)
    """
    values, _, is_left, is_right, *firsts = _merge_arrays("intersect1d", ar1, ar2, size)
    sizes = (type_of(ar1).size, type_of(ar2).size)
    results = _elements_where(is_left & is_right, size, [fill_value, *sizes], values, *firsts)
    return tuple(results) if return_indices else results[0]


def setxor1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | StaticScalar | None = None,
) -> Array:
    """Distinct elements that are in one of the arrays only, sorted. `size` and `fill_value` as of `unique`.

    Result: a vector [count] of the dtype that both promote to. `assume_unique` has no effect.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ConcretizationTypeError for a traced array
    without `size`, DtypeError for random keys.

    >>> setxor1d(jnp.array([3, 1, 2]), jnp.array([2, 4]))
    Array([1, 3, 4], dtype=int32)
    """
    values, _, is_left, is_right, *_ = _merge_arrays("setxor1d", ar1, ar2, size)
    return _elements_where(is_left ^ is_right, size, [fill_value], values)[0]


__all__ = [
    "intersect1d", "isin", "setdiff1d", "setxor1d", "union1d", "unique", "unique_all", "unique_counts",
    "unique_inverse", "unique_values",
]  # fmt: skip

public_functions(__all__, globals())
