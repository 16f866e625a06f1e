"""Search and order: searchsorted, digitize, partition, and lexsort by several keys."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ArrayLike,
    UnsupportedError,
    dtypes,
    fits,
    is_static,
    larger,
    public_functions,
)
from pellucid._machine.higher_order.loops import fori_loop, scan
from pellucid._machine.primitives import creation, logical, sorting
from pellucid._machine.primitives.conversion import size_scalar
from pellucid._machine.primitives.movement import canonical_axis
from pellucid._machine.tracing import Tracer, bind1, type_of
from pellucid._machine.xla.arrays import Array

from .compiled import numpy_function
from .creation import asarray, zeros
from .joining import stack
from .manipulation import expand_dims, flip, where
from .number_kinds import isnan
from .promotion import aval_of, convert, known_int, number_type, promote_dtypes, promote_shapes
from .reductions import sum
from .selection import take_along_axis
from .sorting import argsort, sort

_METHODS = ("scan", "scan_unrolled", "sort", "compare_all", "default")


def searchsorted(
    a: ArrayLike,
    v: ArrayLike,
    side: str = "left",
    sorter: ArrayLike | None = None,
    *,
    method: str = "scan",
) -> Array:
    """Indices at which the elements of `v` go into the sorted vector `a` so that it stays sorted.

    `side`: "left" is before equal elements, "right" after. `sorter` are indices that sort `a`. NaN is the largest.
    Result: shape of `v`, int32 (int64 for more than 2^31 elements). `method` chooses how: "scan" bisects
    in a loop, "scan_unrolled" without one, "compare_all" compares with every element; all give the same.
    Raises: ArgumentValueError for an array `a` that is no vector, and for an unknown side or method.

    >>> searchsorted(jnp.array([1, 2, 2, 3]), jnp.array([2, 4]))
    Array([1, 4], dtype=int32)
    """
    a_aval = aval_of("searchsorted", a)
    aval_of("searchsorted", v, 1)
    if a_aval.ndim != 1:
        raise ArgumentValueError(
            "jnp.searchsorted needs a sorted vector.", got=f"a: {a_aval.text()}"
        )
    if side not in ("left", "right"):
        raise ArgumentValueError(
            'jnp.searchsorted has the sides "left" and "right".', got=f"got {side!r}"
        )
    if method not in _METHODS:
        raise ArgumentValueError(
            "jnp.searchsorted has no such method.",
            got=f"got {method!r}",
            do=f"Use one of {', '.join(_METHODS)}.",
        )
    if sorter is not None:
        a = asarray(a)[sorter]
    return _searchsorted(a, v, side == "left", method)


@numpy_function(static=("left", "method"))
def _searchsorted(a: Any, v: ArrayLike, left: bool, method: str) -> Any:
    a, v = promote_dtypes("searchsorted", a, v)
    a, v = asarray(a), _unify_zeros_and_nans(v)
    size = type_of(a).shape[0]
    index = np.dtype(np.int32 if fits(size, 2**31 - 1) else np.int64)
    before = _is_before if left else _is_not_after
    halvings = size.bit_length() if is_static((size,)) else 31
    if method == "compare_all" or not halvings:
        each = _unify_zeros_and_nans(expand_dims(a, range(type_of(v).ndim)))
        return sum(before(each, expand_dims(v, -1)), axis=-1, dtype=index)
    zero = creation.full(type_of(v).shape, 0, index)
    last = size_scalar(larger(size - 1, 0), index)

    def halve(_: Any, bounds: tuple[Any, Any]) -> tuple[Any, Any]:
        low, high = bounds
        middle = low + (high - low) // 2
        element = _unify_zeros_and_nans(a[where(middle < last, middle, last)])
        is_open = low < high
        goes_right = before(element, v) & is_open
        return where(goes_right, middle + 1, low), where(goes_right | ~is_open, high, middle)

    bounds = zero, zero + size_scalar(size, index)
    return fori_loop(0, halvings, halve, bounds, unroll=method == "scan_unrolled")[0]


def _unify_zeros_and_nans(x: ArrayLike) -> Any:
    """`x` with one kind of zero and of NaN: the total order of floating numbers distinguishes several."""
    dtype = type_of(x).dtype
    if dtype not in dtypes.KINDS["real floating"]:
        return x
    nan = where(isnan(x), np.asarray(np.nan, dtype)[()], x)
    return where(x == 0, np.asarray(0, dtype)[()], nan)


def _is_before(x: Any, y: Any) -> Any:
    """Whether x < y in the order of sorted arrays: NaN last, complex numbers by real part first."""
    dtype = type_of(x).dtype
    if dtype.kind == "c":
        re, im = (
            (_unify_zeros_and_nans(x.real), _unify_zeros_and_nans(y.real)),
            (_unify_zeros_and_nans(x.imag), _unify_zeros_and_nans(y.imag)),
        )
        return _is_before(*re) | (~_is_before(*re[::-1]) & _is_before(*im))
    if dtype in dtypes.KINDS["real floating"]:
        return bind1(logical.lt_to_p, *promote_shapes("searchsorted", x, y))
    return x < y


def _is_not_after(x: ArrayLike, y: ArrayLike) -> Any:
    return ~_is_before(y, x)


def digitize(
    x: ArrayLike, bins: ArrayLike, right: bool = False, *, method: str | None = None
) -> Array:
    """Numbers of the bins that the elements of `x` are in; `bins` rise or fall. 0 is before the first.

    A bin has its left edge, or, with `right`, its right one. Result: shape of `x`, int32.
    Raises: ArgumentValueError for bins that are no vector.

    >>> digitize(jnp.array([0.2, 6.4]), jnp.array([0.0, 1.0, 2.5]))
    Array([1, 3], dtype=int32)
    """
    bins_aval = aval_of("digitize", bins, 1)
    aval = aval_of("digitize", x)
    if bins_aval.ndim != 1:
        raise ArgumentValueError("jnp.digitize needs bins of one dimension.", got=bins_aval.text())
    promote_dtypes("digitize", x, bins)
    bins = asarray(bins)
    count = bins_aval.shape[0]
    if not count:
        return zeros(aval.shape, np.int32)
    side, how = ("left" if right else "right"), method or "scan"
    rising = searchsorted(bins, x, side=side, method=how)
    falling = count - searchsorted(flip(bins), x, side=side, method=how)
    return where(bins[-1] >= bins[0], rising, falling)


def _kth(name: str, a: ArrayLike, kth: int, axis: int) -> None:
    """Raises for complex elements, which have no order, and for `kth` that is no single position along `axis`."""
    aval = aval_of(name, a)
    if aval.dtype.kind == "c":
        raise UnsupportedError(f"jnp.{name} has no order for complex elements.", got=aval.text())
    size = aval.shape[canonical_axis(axis, aval.ndim)]
    if np.ndim(kth) or not -size <= known_int(name, "kth", kth) < size:
        raise ArgumentValueError(
            f"jnp.{name} needs one position along the axis.", got=f"kth={kth}, {size} elements"
        )


def partition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """`a` reordered along `axis` so that element number `kth` is where sorting puts it.

    No smaller elements come after it, no larger ones before; here both sides are sorted. NaN is the largest.
    Result: shape and dtype of `a`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for `kth` that is no int, AxisError for
    axes out of bounds, UnsupportedError for complex elements, ArgumentValueError for `kth` out of bounds.

    >>> partition(jnp.array([3, 1, 2]), 1)
    Array([1, 2, 3], dtype=int32)
    """
    _kth("partition", a, kth, axis)
    return sort(a, axis)


def argpartition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """Indices that partition `a` along `axis`, as `partition` does.

    Result: shape of `a`; dtype int32.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for `kth` that is no int, AxisError for
    axes out of bounds, UnsupportedError for complex elements, ArgumentValueError for `kth` out of bounds.

    >>> argpartition(jnp.array([3, 1, 2]), 1)
    Array([1, 2, 0], dtype=int32)
    """
    _kth("argpartition", a, kth, axis)
    return argsort(a, axis).astype(np.int32)


def lexsort(keys: Array | Sequence[ArrayLike], axis: int = -1) -> Array:
    """Indices that sort by several keys along `axis`: by the last, then among equals by the one before it, and so on.

    Raises: ArgumentTypeError without keys, ArgumentValueError for keys of different shapes.

    >>> lexsort((jnp.array([2, 1, 1]), jnp.array([0, 1, 0])))
    Array([2, 0, 1], dtype=int32)
    """
    if isinstance(keys, (Array, Tracer, np.ndarray)) and keys.ndim > 1:
        return lexsort_rows(keys, canonical_axis(axis, keys.ndim - 1))
    listed = list(keys)
    if not listed:
        raise ArgumentTypeError("jnp.lexsort needs at least one key.")
    shapes = {aval_of("lexsort", key, i).shape for i, key in enumerate(listed)}
    if len(shapes) > 1:
        raise ArgumentValueError(
            "jnp.lexsort needs keys of one shape.",
            got=[f"key {i}: {type_of(key).text()}" for i, key in enumerate(listed)],
        )
    [shape] = shapes
    if not shape:
        return asarray(0, dtype=dtypes.default_int_dtype())
    return _lexsort(listed, canonical_axis(axis, len(shape)))


@numpy_function(static="axis")
def lexsort_rows(keys: Any, axis: int) -> Any:
    """`lexsort` of the keys in an array [number, ...], along `axis` of each."""
    n_keys, *shape = type_of(keys).shape
    if not n_keys:
        raise ArgumentTypeError("jnp.lexsort needs at least one key.")
    if n_keys <= _MAX_KEYS:
        return _lexsort.python([keys[i] for i in range(n_keys)], axis)
    positions = creation.broadcasted_iota(dtypes.default_int_dtype(), shape, axis)
    return _sort_by_each(positions, keys, axis)


@numpy_function(static="axis")
def _lexsort(keys: list[Any], axis: int) -> Any:
    positions = creation.broadcasted_iota(dtypes.default_int_dtype(), type_of(keys[0]).shape, axis)
    if len(keys) <= _MAX_KEYS:
        operands = (*reversed(keys), positions)
        return sorting.sort(operands, dimension=axis, num_keys=len(keys))[-1]
    for _, of_one_dtype in itertools.groupby(keys, lambda key: type_of(key).dtype):
        positions = _sort_by_each(positions, stack([*of_one_dtype]), axis)
    return positions


_MAX_KEYS = 8
"""Maximum number of keys of one sort: one of 100 operands takes seconds to compile, and moves them all."""


def _sort_by_each(positions: Any, keys: Any, axis: int) -> Any:
    """`positions` sorted by each of `keys` in turn, by a stable sort: the last key counts most."""

    def sort_by(order: Any, key: Any) -> tuple[Any, None]:
        operands = take_along_axis(key, order, axis), order
        return sorting.sort(operands, dimension=axis, num_keys=1)[-1], None

    # The first sort is outside of the loop: it gives `positions` the layout of the keys.
    first, _ = sort_by(positions, keys[0])
    return scan(sort_by, first, keys[1:])[0]


@numpy_function
def sort_complex(a: ArrayLike) -> Array:
    """`a` as complex numbers, sorted along its last axis by real, then by imaginary part.

    Result: shape of `a`; dtype complex64, or complex128 for elements of 64-bit dtypes.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for a scalar, DtypeError for
    random keys.

    >>> sort_complex(jnp.array([2, 1]))
    Array([1.+0.j, 2.+0.j], dtype=complex64)
    """
    aval = number_type("sort_complex", a)
    return sort(convert(a, aval, dtypes.to_complex_dtype(aval.dtype)))


__all__ = ["argpartition", "digitize", "lexsort", "partition", "searchsorted", "sort_complex"]

public_functions(__all__, globals())
