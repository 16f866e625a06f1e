"""Reductions over segments: elements with the same number are combined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    ConcretizationTypeError,
    ShapeError,
    public_functions,
)
from pellucid._machine.primitives.index_dims import GatherScatterMode
from pellucid._machine.primitives.monoids import highest, lowest
from pellucid._machine.primitives.reshard import with_out_sharding
from pellucid._machine.tracing import Tracer, type_of
from pellucid._machine.xla.arrays import Array

from .annotations import OutSharding
from .creation import asarray, full
from .joining import stack
from .promotion import known_int
from .reductions import max as max_of, min as min_of, prod as prod_of, sum as sum_of


def segment_sum(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: str | GatherScatterMode | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Sums of the rows of `data` with the same number in `segment_ids`; 0 if there are none.

    Result: shape `(num_segments, *data.shape[1:])`, by default one more than the largest number. Rows with a
    number outside are left out, negative ones too, but with `mode="clip"`. With `bucket_size`, buckets of that many
    rows are summed first and the sums then added, which is more exact. `out_sharding` lays it out over Explicit axes.
    Raises: ConcretizationTypeError where `num_segments` must be given because `segment_ids` is traced.

    >>> segment_sum(jnp.array([1, 2, 3]), jnp.array([0, 0, 2]))
    Array([3, 0, 3], dtype=int32)
    """
    options = (num_segments, indices_are_sorted, unique_indices, bucket_size, mode, out_sharding)
    return _segments("segment_sum", data, segment_ids, options, "add", 0, sum_of)


def segment_prod(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: str | GatherScatterMode | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Products of the rows of `data` with the same number in `segment_ids`; 1 where there are none.

    Result: shape `(num_segments, *data.shape[1:])` and dtype of `data`; the options are those of `segment_sum`.
    Raises: ConcretizationTypeError for a traced `segment_ids` without `num_segments`, ArgumentValueError for a negative
    one, IndexingError for `segment_ids` that aren't integers, ShapeError for other numbers of them than of rows.

    >>> segment_prod(jnp.array([1, 2, 3]), jnp.array([1, 1, 0]))
    Array([3, 2], dtype=int32)
    """
    options = (num_segments, indices_are_sorted, unique_indices, bucket_size, mode, out_sharding)
    return _segments("segment_prod", data, segment_ids, options, "mul", 1, prod_of)


def segment_max(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: str | GatherScatterMode | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Largest of the rows of `data` with the same number; the dtype's lowest value where there are none.

    Result: shape `(num_segments, *data.shape[1:])` and dtype of `data`; the options are those of `segment_sum`.
    Raises: ConcretizationTypeError for a traced `segment_ids` without `num_segments`, ArgumentValueError for a negative
    one, IndexingError for `segment_ids` that aren't integers, ShapeError for other numbers of them than of rows.

    >>> segment_max(jnp.array([1.0, 5.0, 3.0]), jnp.array([0, 0, 1]))
    Array([5., 3.], dtype=float32)
    """
    options = (num_segments, indices_are_sorted, unique_indices, bucket_size, mode, out_sharding)
    return _segments("segment_max", data, segment_ids, options, "max", lowest, max_of)


def segment_min(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: str | GatherScatterMode | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Smallest of the rows of `data` with the same number; the dtype's highest value where there are none.

    Result: shape `(num_segments, *data.shape[1:])` and dtype of `data`; the options are those of `segment_sum`.
    Raises: ConcretizationTypeError for a traced `segment_ids` without `num_segments`, ArgumentValueError for a negative
    one, IndexingError for `segment_ids` that aren't integers, ShapeError for other numbers of them than of rows.

    >>> segment_min(jnp.array([1.0, 5.0, 3.0]), jnp.array([0, 0, 1]))
    Array([1., 3.], dtype=float32)
    """
    options = (num_segments, indices_are_sorted, unique_indices, bucket_size, mode, out_sharding)
    return _segments("segment_min", data, segment_ids, options, "min", highest, min_of)


def _segments(
    caller: str,
    data: ArrayLike,
    segment_ids: ArrayLike,
    options: Any,
    update: str,
    initial: Any,
    reduce: Callable[..., Any],
) -> Any:
    count, indices_are_sorted, unique_indices, bucket_size, mode, out_sharding = options
    data, segment_ids = asarray(data), asarray(segment_ids)
    count = (
        _count(caller, segment_ids) if count is None else known_int(caller, "num_segments", count)
    )
    if count < 0:
        raise ArgumentValueError(f"{caller}: num_segments can't be negative.", got=f"got {count}")
    # A vector that doesn't fit is rejected when it is used as an index.
    rows = data.shape[: segment_ids.ndim or 1]
    if segment_ids.ndim != 1 and data.ndim >= segment_ids.ndim and rows != segment_ids.shape:
        raise ShapeError(
            f"{caller} needs one number for each row of `data`.",
            got=f"data: {type_of(data).text()}, segment_ids: {type_of(segment_ids).text()}",
            do="Give as many numbers as `data` has rows.",
        )
    start: Any = initial(data.dtype) if callable(initial) else initial

    def combine(rows: Array, numbers: Array) -> Any:
        zeros = full((count, *data.shape[numbers.ndim :]), start, data.dtype)
        place = zeros.at[numbers]
        return getattr(place, update)(
            rows, indices_are_sorted=indices_are_sorted, unique_indices=unique_indices, mode=mode,
            wrap_negative_indices=False,
        )  # fmt: skip

    def combine_in_buckets(data: Array, segment_ids: Array) -> Any:
        if bucket_size is None:
            return combine(data, segment_ids)
        n_buckets = max(1, -(-segment_ids.size // bucket_size))
        buckets = [
            combine(
                data[i * bucket_size : (i + 1) * bucket_size],
                segment_ids[i * bucket_size : (i + 1) * bucket_size],
            )
            for i in range(n_buckets)
        ]
        return reduce(stack(buckets), axis=0)

    return with_out_sharding(out_sharding, combine_in_buckets, data, segment_ids)


def _count(caller: str, segment_ids: Array) -> int:
    if isinstance(segment_ids, Tracer):
        raise ConcretizationTypeError(
            f"{caller} needs num_segments: the result's shape depends on it, and `segment_ids` is traced.",
            got=f"segment_ids: {segment_ids.aval.text()}",
            do="Pass num_segments, a number that is large enough.",
        )
    return int(np.asarray(max_of(segment_ids))) + 1 if segment_ids.size else 1


__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]

public_functions(__all__, globals())
