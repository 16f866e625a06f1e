"""Counts of elements: by value, and by bins along one or several axes."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ArrayLike,
    ConcretizationTypeError,
    Ints,
    ShapeError,
    UnsupportedError,
    dtypes,
    expecting,
    public_functions,
)
from pellucid._machine.tracing import Tracer, type_of
from pellucid._machine.xla.arrays import Array

from .annotations import OutSharding
from .creation import asarray, linspace, ones_like, zeros
from .elementwise import clip
from .grids import ravel_multi_index
from .joining import stack
from .manipulation import ravel, reshape, where
from .promotion import aval_of, convert, known_int, promote_dtypes_inexact
from .reductions import max, min, sum
from .searching import searchsorted


def bincount(
    x: ArrayLike,
    weights: ArrayLike | None = None,
    minlength: int = 0,
    *,
    length: int | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """How often each integer from 0 on occurs in the vector `x`, or the sums of its `weights`.

    Result: `length` counts (numbers beyond are left out), by default one more than the largest number, and at least
    `minlength`; under a trace `length` must be given. Negative numbers count as 0.
    Raises: ArgumentTypeError for elements that aren't integers or bools, ConcretizationTypeError without `length`
    under a trace.

    >>> bincount(jnp.array([1, 2, 2]))
    Array([0, 1, 2], dtype=int32)
    """
    aval = aval_of("bincount", x)
    if aval.dtype == np.bool_:
        x = convert(x, aval, dtypes.default_int_dtype())
        aval = type_of(x)
    if aval.dtype not in dtypes.KINDS["integral"]:
        raise ArgumentTypeError("jnp.bincount needs integers.", got=f"got {aval.text()}")
    if aval.ndim != 1:
        raise ArgumentValueError("jnp.bincount needs a vector.", got=f"got {aval.text()}")
    if length is None:
        if isinstance(x, Tracer):
            raise ConcretizationTypeError(
                "jnp.bincount can't know the size of its result: the array is traced.",
                got=f"got {aval.text()}",
                do="Give `length=`, the number of counts.",
            )
        largest = int(np.asarray(x).max()) + 1 if aval.size else 0
        length = builtins.max(largest, known_int("bincount", "minlength", minlength))
    else:
        length = known_int("bincount", "length", length)
    if weights is None:
        weights = np.asarray(1, dtypes.default_int_dtype())[()]
    elif aval_of("bincount", weights, 1).shape != aval.shape:
        raise ShapeError(
            "jnp.bincount needs a weight for each element.",
            got=[f"x: {aval.text()}", f"weights: {type_of(weights).text()}"],
        )
    counts = zeros((length,), type_of(weights).dtype, out_sharding=out_sharding)
    return counts.at[clip(x, 0)].add(weights, mode="drop")


def histogram_bin_edges(
    a: ArrayLike,
    bins: Any | Ints = 10,
    range: Sequence[ArrayLike] | Ints | None = None,
    weights: ArrayLike | None = None,
) -> Array:
    """Edges [bins + 1] of equal bins over `range`, by default from the least to the largest element of `a`.

    `bins` that are a vector are the edges. Without different elements the bins cover one unit around them.
    Raises: UnsupportedError for names of rules, ArgumentValueError for an empty array without `range`.

    >>> histogram_bin_edges(jnp.array([1.0, 3.0]), bins=2)
    Array([1., 2., 3.], dtype=float32)
    """
    if isinstance(bins, str):
        raise UnsupportedError(
            "jnp.histogram_bin_edges has no rules by name.",
            got=f"bins: {bins!r}",
            do="Give their number.",
        )
    aval = aval_of("histogram_bin_edges", a)
    dtype = dtypes.to_inexact_dtype(aval.dtype)
    if np.ndim(bins) == 1:
        return promote_dtypes_inexact("histogram", a, asarray(bins))[1]
    a = ravel(asarray(a))
    if range is not None:
        if np.shape(cast(Any, range)) != (2,):
            raise ShapeError(
                "jnp.histogram_bin_edges needs `range` to be a pair of numbers.",
                got=f"got {range!r:.60}",
            )
        low, high = (asarray(x, dtype=dtype) for x in range)
    elif not aval.size:
        raise ArgumentValueError(
            "jnp.histogram_bin_edges can't find the range of an empty array.", do="Give `range=`."
        )
    else:
        low, high = (x.astype(dtype) for x in (min(a), max(a)))
    is_point = low == high
    half = np.asarray(0.5, dtype)[()]
    low, high = where(is_point, low - half, low), where(is_point, high + half, high)
    return linspace(low, high, known_int("histogram_bin_edges", "bins", bins) + 1, dtype=dtype)


def _bin_numbers(x: ArrayLike, edges: Array) -> Any:
    """The bin numbers of `x`, and the number of bins for elements outside; the last bin includes both its edges."""
    count = type_of(edges).size - 1
    place = searchsorted(edges, x, side="right") - 1
    place = where(x == edges[-1], count - 1, place)
    return where((place < 0) | (place >= count), count, place)


def histogram(
    a: ArrayLike,
    bins: ArrayLike | Ints = 10,
    range: Sequence[ArrayLike] | Ints | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Any, Any]:
    """(counts, edges) of the elements of `a` in `bins`, a number of equal bins or their edges.

    `weights` of the shape of `a` are summed in place of counts; with `density` the integral over the bins is 1. The
    counts are floating. Raises: ArgumentValueError for weights of another shape.

    >>> histogram(jnp.array([1.0, 2.0, 2.0]), bins=2)[0]
    Array([1., 2.], dtype=float32)
    """
    aval = aval_of("histogram", a)
    if weights is not None and aval_of("histogram", weights, 1).shape != aval.shape:
        raise ArgumentValueError(
            "jnp.histogram needs a weight for each element.",
            got=[f"a: {aval.text()}", f"weights: {type_of(weights).text()}"],
        )
    operands = (a,) if weights is None else (a, weights)
    x, *more = (ravel(each) for each in promote_dtypes_inexact("histogram", *operands))
    [weights] = more or [ones_like(x)]
    edges = histogram_bin_edges(a, bins, range, weights)
    x, edges = promote_dtypes_inexact("histogram", x, edges)
    count = type_of(edges).size - 1
    counts = zeros((count,), weights.dtype).at[_bin_numbers(x, edges)].add(weights, mode="drop")
    if density:
        widths = (edges[1:] - edges[:-1]).astype(counts.dtype)
        counts = counts / widths / sum(counts)
    return counts, edges


def histogramdd(
    sample: Any,
    bins: Any | Ints = 10,
    range: Sequence[Sequence[ArrayLike]] | Sequence[Ints] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Any, list[Any]]:
    """(counts, list of edges) of the rows of `sample` [count, dims] in bins along each dimension.

    `bins`: a number of equal bins, or for each dimension a number or edges; `range`: for each a pair or None.
    Counts are integers; weighted ones and those with `density` are floating.
    Raises: ArgumentValueError for another number of bins or ranges than of dimensions.

    >>> histogramdd(jnp.array([[1.0, 2.0], [3.0, 4.0]]), bins=2)[0]
    Array([[1, 0],
           [0, 1]], dtype=int32)
    """
    aval = aval_of("histogramdd", sample)
    if aval.ndim != 2:
        raise ArgumentValueError("jnp.histogramdd needs rows of numbers.", got=f"got {aval.text()}")
    [sample] = promote_dtypes_inexact("histogramdd", sample)
    n, dims = aval.shape
    if weights is not None and aval_of("histogramdd", weights, 1).shape != (n,):
        raise ArgumentValueError(
            "jnp.histogramdd needs a weight for each row.",
            got=f"weights: {type_of(weights).text()}",
        )
    listed = [bins] * dims if np.ndim(bins) == 0 and not isinstance(bins, Sequence) else list(bins)
    with expecting("jnp.histogramdd needs `range` to be a sequence of pairs", range):
        ranges = [None] * dims if range is None else list(range)
    if len(listed) != dims or len(ranges) != dims:
        raise ArgumentValueError(
            "jnp.histogramdd needs bins and a range for each dimension.",
            got=f"{dims} dimensions, bins for {len(listed)}, ranges for {len(ranges)}",
        )
    columns = [sample[:, i] for i in builtins.range(dims)]
    edges = [
        histogram_bin_edges(column, each, extent)
        for column, each, extent in zip(columns, listed, ranges, strict=True)
    ]
    sizes = tuple(type_of(each).size for each in edges)  # one more than bins, for elements outside
    numbers = [_bin_numbers(x, each) for x, each in zip(columns, edges, strict=True)]
    if weights is not None:
        [weights] = promote_dtypes_inexact("histogramdd", weights)
    flat = ravel_multi_index(numbers, sizes, mode="clip")
    total = int(np.prod(sizes))
    counts = reshape(bincount(flat, weights, length=total), sizes)[(slice(-1),) * dims]
    if density:
        counts = counts.astype(sample.dtype) / sum(counts)
        for i, each in enumerate(edges):
            shape = tuple(-1 if j == i else 1 for j in builtins.range(dims))
            counts = counts / reshape(each[1:] - each[:-1], shape)
    return counts, edges


def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: Any | Ints = 10,
    range: Sequence[Sequence[ArrayLike]] | Sequence[Ints] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Any, Any, Any]:
    """(counts, edges along x, edges along y) of the points of the vectors `x` and `y`; see `histogramdd`.

    `bins`: a number, a vector of edges for both, or a pair of these.
    Result: counts of shape [bins along x, bins along y] and the default integer dtype, floating with `density` or
    `weights`; edges, one more than bins.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ShapeError for vectors of different
    lengths, ArgumentValueError for arrays of several dimensions and for other numbers of `weights`, UnsupportedError
    for `bins` by name.

    >>> histogram2d(jnp.array([1.0, 2.0]), jnp.array([3.0, 5.0]), bins=2)[0]
    Array([[1, 0],
           [0, 1]], dtype=int32)
    """
    both = [bins, bins] if np.ndim(bins) == 0 or len(bins) != 2 else list(bins)
    points = stack(promote_dtypes_inexact("histogram2d", x, y), axis=1)
    counts, edges = histogramdd(points, both, range, weights, density)
    return counts, *edges


__all__ = ["bincount", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]

public_functions(__all__, globals())
