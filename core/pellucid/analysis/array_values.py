"""Summaries of array values: counts, range, histogram and heat map, computed on the devices that hold the parts."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid import numpy
from pellucid._machine.base import ArgumentValueError, by_tool
from pellucid._machine.base.dtypes import ExtendedDType
from pellucid._machine.base.narrowing import is_ndarray
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.higher_order.scalar_functions import reduce
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import ARRAY_TYPES
from pellucid.introspect import schema
from pellucid.introspect.values import short_text

BINS = 40
MAX_CELLS = 64
"""Maximum number of cells of a heat map along each dimension."""
MAX_SAMPLES = 1 << 16
"""Maximum number of elements in a histogram; larger parts are sampled at equal distances."""
_MAX_READ = 512
"""Maximum number of rows, and of columns, that are read for a heat map."""
_MAX_FETCHED = 1 << 20
"""Maximum number of elements of arrays that are fetched whole, because that takes less time than compiling a program."""
_CHUNK_LENGTH = 256
"""Number of elements summed in the array's own precision; the sums of chunks are added in float64."""
_SCALE = 2.0**-64
"""Factor applied to sums, which could overflow without it."""


class _Part(NamedTuple):
    device: int
    starts: tuple[int, ...]
    data: Any
    """An array on one device, or its elements in float64."""

    def text(self) -> str:
        bounds = zip(self.starts, self.data.shape, strict=True)
        return ", ".join(f"{start}:{start + size}" for start, size in bounds)


class ArraySlice(NamedTuple):
    """A two-dimensional slice of an array at an index along the other dimensions, as read for a heat map."""

    index: list[int]  # pyright: ignore[reportIncompatibleMethodOverride]  # hides tuple.index
    """One index per dimension; entries along `dims` are ignored."""
    dims: list[int]
    """The dimension of the rows and that of the columns. A vector has one, a scalar none."""
    steps: list[int]
    """Strides along `dims`."""
    cells: list[list[float | None]]
    """Means of the finite elements of blocks, by row; None for blocks without any."""


class _Statistics(NamedTuple):
    nan: float = 0.0
    infinite: float = 0.0
    zero: float = 0.0
    total: float = 0.0
    """Sum of the finite elements, times `_SCALE`."""
    low: float = math.inf
    high: float = -math.inf


@by_tool
def array_values(x: Any, index: Sequence[int] = ()) -> schema.ArrayValuesRecord:
    """Counts, range, histogram and heat map of an array, and counts and range of each of its parts.

    The heat map shows the last two dimensions, at `index` along the others (by default 0). Complex numbers are
    represented by their absolute values. Subnormal numbers count as zeros on devices that flush them to zero.

    Raises: ArgumentValueError for an `index` out of range.

    >>> record = array_values(jnp.arange(6.0).reshape(2, 3))
    >>> record.low, record.high, record.mean, record.zero_count
    (0.0, 5.0, 2.5, 1)
    """
    x = x if type(x) in ARRAY_TYPES else numpy.asarray(x)
    aval = type_of(x)
    note = _reason_not_to_read(x, aval)
    shape = [int(size) for size in aval.shape]
    parts = [] if note else _distinct_parts(x)
    drawn = _slice_of(parts, shape, index, range(max(len(shape) - 2, 0), len(shape)))
    statistics = [_statistics(part.data) for part in parts]
    finite = [s for s in statistics if s.low <= s.high]
    low, high = (
        min((float(s.low) for s in finite), default=None),
        max((float(s.high) for s in finite), default=None),
    )
    count = math.prod(shape)
    n_finite = count - sum(s.nan + s.infinite for s in statistics)
    samples = np.concatenate([_sample(part.data) for part in parts] or [np.zeros(0)])
    is_whole = not note and np.dtype(aval.dtype).kind in "biu"
    bin_width = _bin_width(low, high) if is_whole else None
    return schema.ArrayValuesRecord(
        type=short_text(x) or aval.text(),
        dtype=str(aval.dtype),
        shape=shape,
        is_absolute=not note and np.dtype(aval.dtype).kind == "c",
        nan_count=int(sum(s.nan for s in statistics)),
        infinite_count=int(sum(s.infinite for s in statistics)),
        zero_count=int(sum(s.zero for s in statistics)),
        low=low,
        high=high,
        mean=_mean(statistics, n_finite),
        bins=_histogram(samples, low, high, bin_width),
        sample_count=len(samples),
        index=drawn.index[: max(len(shape) - 2, 0)],
        steps=drawn.steps,
        cells=drawn.cells,
        parts=schema.ArrayPartColumns(
            device=[part.device for part in parts],
            index=[part.text() for part in parts],
            low=[float(s.low) if s in finite else None for s in statistics],
            high=[float(s.high) if s in finite else None for s in statistics],
            nan_count=[int(s.nan) for s in statistics],
        ),
        numbers="" if note else repr(x),
        note=note,
        bin_width=bin_width,
    )


@by_tool
def array_slice(x: Any, index: Sequence[int], dims: Sequence[int]) -> ArraySlice:
    """The slice of an array over the two dimensions `dims`, at `index` along the others.

    For an array on one device, only the slice is read.

    Raises: ArgumentValueError for an invalid `index` or `dims`, and for an array without values.

    >>> array_slice(jnp.arange(8.0).reshape(2, 2, 2), [0, 1, 0], [2, 0]).cells
    [[2.0, 6.0], [3.0, 7.0]]
    """
    aval = type_of(x)
    if note := _reason_not_to_read(x, aval):
        raise ArgumentValueError("there is no slice to draw.", got=note)
    return _slice_of(_distinct_parts(x), [int(size) for size in aval.shape], index, dims)


def _slice_of(
    parts: Sequence[_Part], shape: Sequence[int], index: Sequence[int], dims: Sequence[int]
) -> ArraySlice:
    ndim = len(shape)
    whole = [*index, *[0] * (ndim - len(index))]
    dims = [*dims]
    is_index = (len(index) == ndim or len(index) <= ndim - len(dims)) and all(
        0 <= i < max(n, 1)
        for d, (i, n) in enumerate(zip(whole, shape, strict=False))
        if d not in dims
    )
    if not is_index or len({*dims}) != min(ndim, 2) or not {*dims} <= {*range(ndim)}:
        raise ArgumentValueError(
            "there is no such slice of the array.",
            got=f"index {[*index]}, dimensions {dims} of shape {[*shape]}",
            do=f"Choose {min(ndim, 2)} dimensions, and for each other one an index from 0 to its size.",
        )
    steps = [max(1, math.ceil(shape[d] / _MAX_READ)) for d in dims]
    is_empty = not parts or not shape or 0 in shape
    cells = [] if is_empty else _heat_map(_plane(parts, shape, whole, dims, steps))
    return ArraySlice(whole, dims, steps, cells)


def _mean(statistics: Sequence[_Statistics], n_finite: float) -> float | None:
    if not statistics or not n_finite:
        return None
    mean = sum(s.total for s in statistics) / n_finite / _SCALE
    # The rounding of float32 sums may move the mean outside of the range.
    return float(np.clip(mean, min(s.low for s in statistics), max(s.high for s in statistics)))


def _reason_not_to_read(x: Any, aval: Any) -> str:
    if isinstance(aval.dtype, ExtendedDType):
        return "Its elements are no numbers."
    if x.is_deleted():
        return "The array was deleted or donated: it has no values any more."
    if not x.is_fully_addressable:
        return "Parts of the array lie in other processes."
    return ""


def _distinct_parts(x: Any) -> list[_Part]:
    """The distinct parts, one of each group of copies."""
    shards = {
        tuple(part.start or 0 for part in shard.index): shard for shard in x.addressable_shards
    }
    is_fetched = x.size <= _MAX_FETCHED
    return [
        _Part(shard.device.id, starts, _fetch_floats(shard.data) if is_fetched else shard.data)
        for starts, shard in shards.items()
    ]


def _fetch_floats(x: Any) -> np.ndarray[Any, Any]:
    """The elements as float64; absolute values for complex numbers."""
    elements = np.asarray(x)
    return (np.abs(elements) if elements.dtype.kind == "c" else elements).astype(np.float64)


def _statistics(data: Any) -> _Statistics:
    if data.size == 0:
        return _Statistics()
    if is_ndarray(data):
        finite = data[np.isfinite(data)]
        n_nan = np.isnan(data).sum()
        return _Statistics(
            n_nan, data.size - finite.size - n_nan, (data == 0).sum(), (finite * _SCALE).sum(),
            finite.min(initial=math.inf), finite.max(initial=-math.inf),
        )  # fmt: skip
    columns = [np.asarray(each).astype(np.float64) for each in _chunk_statistics(data)]
    nan, infinite, zero, total, low, high = columns
    return _Statistics(
        nan.sum(), infinite.sum(), zero.sum(), (total * (_CHUNK_LENGTH * _SCALE)).sum(),
        float(low.min()), float(high.max()),
    )  # fmt: skip


@jit
def _chunk_statistics(data: Any) -> Any:
    """Columns of `_Statistics`, with an entry per chunk and one for the rest, in one pass over the array; sums are
    scaled.
    """
    flat = data.reshape(-1)
    n_chunks = flat.size // _CHUNK_LENGTH
    parts = [flat[: n_chunks * _CHUNK_LENGTH].reshape(n_chunks, _CHUNK_LENGTH)]
    if flat.size % _CHUNK_LENGTH:
        parts.append(flat[n_chunks * _CHUNK_LENGTH :].reshape(1, -1))
    results = map(_row_statistics, parts)
    return [numpy.concatenate(columns) for columns in zip(*results, strict=True)]


def _row_statistics(rows: Any) -> Any:
    """Columns of `_Statistics`, with an entry per row; sums are divided by `_CHUNK_LENGTH`."""
    numbers = _as_numbers(rows)
    one, zero = (numbers.dtype.type(n) for n in (1, 0))
    is_finite, is_nan = numpy.isfinite(numbers), numpy.isnan(numbers)
    is_integer = np.issubdtype(rows.dtype, np.integer)
    exact = rows if is_integer else numbers  # float32 can't represent all integers
    info: Any = np.iinfo(exact.dtype) if is_integer else None
    lowest, highest = (info.min, info.max) if is_integer else (-np.inf, np.inf)
    lowest, highest = exact.dtype.type(lowest), exact.dtype.type(highest)
    operands = (
        numpy.where(is_nan, one, zero),
        numpy.where(is_finite | is_nan, zero, one),
        numpy.where(numbers == 0, one, zero),
        numpy.where(is_finite, numbers * numbers.dtype.type(1 / _CHUNK_LENGTH), zero),
        numpy.where(is_finite, exact, highest),
        numpy.where(is_finite, exact, lowest),
    )

    def combine(a: Any, b: Any) -> Any:
        sums = [x + y for x, y in zip(a[:4], b[:4], strict=True)]
        return (*sums, numpy.minimum(a[4], b[4]), numpy.maximum(a[5], b[5]))

    return reduce(operands, (zero, zero, zero, zero, highest, lowest), combine, (1,))


def _as_numbers(x: Any) -> Any:
    """The elements as float32 or float64; absolute values for complex numbers."""
    x = numpy.abs(x) if np.issubdtype(x.dtype, np.complexfloating) else x
    return x if x.dtype == np.float64 else x.astype(np.float32)


def _sample(data: Any) -> np.ndarray[Any, Any]:
    """At most `MAX_SAMPLES` elements, at equal distances."""
    step = max(1, math.ceil(data.size / MAX_SAMPLES))
    return _fetch_floats(
        data.reshape(-1)[::step] if isinstance(data, np.ndarray) else _sample_elements(data, step)
    )


@functools.partial(jit, static_argnums=1)
def _sample_elements(data: Any, step: int) -> Any:
    return data.reshape(-1)[::step]


def _strided_slice(
    data: Any,
    index: Sequence[Any],
    dims: tuple[int, ...],
    firsts: tuple[int, ...],
    steps: tuple[int, ...],
) -> Any:
    """The elements at strides `steps` along `dims`, from `firsts` on, at an index along the other dimensions."""
    places = [*index]
    for dim, first, step in zip(dims, firsts, steps, strict=True):
        places[dim] = slice(first, None, step)
    return data[tuple(places)]


_slice_on_device = jit(_strided_slice, static_argnums=(2, 3, 4))


def _bin_width(low: float | None, high: float | None) -> int | None:
    """The smallest integer width with which `BINS` bins cover the range; None if floats can't distinguish consecutive
    integers.
    """
    if low is None or high is None or max(abs(low), abs(high)) > 2**53:
        return None
    return math.ceil((high - low + 1) / BINS)


def _histogram(
    samples: Any, low: float | None, high: float | None, bin_width: int | None
) -> list[int]:
    """Counts of finite elements in bins of `bin_width` integers, or in `BINS` equal intervals; empty if there are none."""
    if low is None or high is None:
        return []
    if bin_width is not None:
        bins = (samples - low).astype(np.int64) // bin_width
        return np.bincount(bins, minlength=math.ceil((high - low + 1) / bin_width)).tolist()
    finite = samples[np.isfinite(samples)]
    if math.isinf(high - low):  # large float64 numbers
        finite, low, high = finite / 2, low / 2, high / 2
    # There are no representable numbers between the bins' bounds.
    if high - low < (BINS + 1) * np.spacing(max(abs(low), abs(high))):
        middle = (
            np.where(finite == low, 0, BINS - 1) if low < high else np.full(len(finite), BINS // 2)
        )
        return np.bincount(middle, minlength=BINS).tolist()
    return np.histogram(finite, BINS, (low, high))[0].tolist()


def _heat_map(read: np.ndarray[Any, Any]) -> list[list[float | None]]:
    """Means of the finite elements of each block; None for blocks without any."""
    rows = read.reshape(1, -1) if read.ndim == 1 else read
    is_finite = np.isfinite(rows)
    sums, counts = np.where(is_finite, rows, 0.0), is_finite.astype(np.float64)
    for axis, n in enumerate(rows.shape):
        edges = np.linspace(0, n, min(n, MAX_CELLS), endpoint=False).astype(int)
        sums, counts = (np.add.reduceat(each, edges, axis=axis) for each in (sums, counts))
    return [
        [float(s / n) if n else None for s, n in zip(*row, strict=True)]
        for row in zip(sums, counts, strict=True)
    ]


def _plane(
    parts: Sequence[_Part],
    shape: Sequence[int],
    index: Sequence[int],
    dims: Sequence[int],
    steps: Sequence[int],
) -> np.ndarray[Any, Any]:
    """The elements that the heat map reads, in the order of `dims`."""
    ordered = sorted(zip(dims, steps, strict=True))
    plane = np.zeros([math.ceil(shape[dim] / step) for dim, step in ordered])
    for part in parts:
        local = [i - start for i, start in zip(index, part.starts, strict=True)]
        if any(
            not 0 <= i < size
            for dim, (i, size) in enumerate(zip(local, part.data.shape, strict=True))
            if dim not in dims
        ):
            continue
        firsts = tuple(-part.starts[dim] % step for dim, step in ordered)
        static = tuple(dim for dim, _ in ordered), firsts, tuple(step for _, step in ordered)
        if is_ndarray(part.data):
            piece = _strided_slice(part.data, local, *static)
        else:
            piece = _fetch_floats(_slice_on_device(part.data, local, *static))
        begins = [-(-part.starts[dim] // step) for dim, step in ordered]
        where = zip(begins, piece.shape, strict=True)
        plane[tuple(slice(begin, begin + size) for begin, size in where)] = piece
    return plane.T if [*dims] != sorted(dims) else plane
