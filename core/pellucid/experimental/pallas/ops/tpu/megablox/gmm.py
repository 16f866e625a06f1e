"""Grouped products of matrices as kernels: the groups of blocks of rows are prefetched, and choose the matrix of each program.

Rows lie in groups, one after another. A block of rows that several groups share is visited once for each of them, in
consecutive programs, and each writes its own rows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import (
    ArgumentValueError,
    DtypeError,
    ShapeError,
    dtypes,
    public_functions,
)
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.ir import shaped_array
from pellucid._machine.tracing import type_of
from pellucid.experimental.pallas.ops.sizes import check_blocks, padded_to
from pellucid.kernels.grid import num_programs, program_id
from pellucid.kernels.inside import cdiv, when
from pellucid.kernels.kernel_call import pallas_call
from pellucid.kernels.specs import BlockSpec, CompilerParams, PrefetchScalarGridSpec
from pellucid.kernels.tpu import MemorySpace

LutFn: TypeAlias = Callable[[int, int, int], tuple[int, int, int] | None]
"""Sizes of blocks for a product [m, k] by [k, n]."""
_INT32 = np.dtype(np.int32)


class GroupMetadata(NamedTuple):
    """Which rows each group has, and which group and block of rows each program visits."""

    group_offsets: Any
    """[groups + 1]: the first row of each group, then the end of the last one."""
    group_ids: Any
    """[visits]: the group of each visit."""
    m_tile_ids: Any
    """[visits]: the block of rows of each visit."""


def make_group_metadata(
    *,
    group_sizes: Any,
    m: int,
    tm: int,
    start_group: Any,
    num_nonzero_groups: int,
    visit_empty_groups: bool = True,
) -> tuple[GroupMetadata, Any]:
    """(metadata, number of visits) of `num_nonzero_groups` groups from `start_group` on, for `m` rows in blocks of `tm`.

    Groups end at row `m`, whatever their sizes sum to; a negative size counts as 0. There is room for as many visits as there may be;
    those behind the last one repeat it. Groups without rows are visited once with `visit_empty_groups`, else never.

    >>> data, n = make_group_metadata(group_sizes=jnp.array([3, 0, 5]), m=8, tm=4, start_group=0, num_nonzero_groups=3)
    >>> data.group_ids, data.m_tile_ids, n
    (Array([0, 1, 2, 2], dtype=int32), Array([0, 0, 0, 1], dtype=int32), Array(4, dtype=int32))
    """
    given = jnp.asarray(group_sizes)
    n_groups = given.shape[0]
    # The dtype of the sizes may be too narrow for `m`, or wider than int32.
    most = np.asarray(min(m, np.iinfo(given.dtype).max), given.dtype)
    sizes = jnp.maximum(jnp.minimum(given, most).astype(_INT32), 0)
    ends = jnp.minimum(jnp.cumsum(sizes, dtype=_INT32), m)
    offsets = jnp.concatenate([jnp.zeros(1, _INT32), ends])
    sizes, first = ends - offsets[:-1], offsets[:-1] // tm
    counts = jnp.where(sizes == 0, int(visit_empty_groups), cdiv(ends, tm) - first)
    groups = jnp.arange(n_groups, dtype=_INT32)
    is_local = (groups >= start_group) & (groups < start_group + num_nonzero_groups)
    counts = jnp.where(is_local, counts, 0)
    total = counts.sum(dtype=_INT32)
    # The block of visit t is the first one of its group, plus the number of visits of the group before t.
    visits = jnp.arange(cdiv(m, tm) + n_groups - 1, dtype=_INT32)
    last = jnp.cumsum(counts, dtype=_INT32)
    visits = jnp.minimum(visits, jnp.maximum(total - 1, 0))
    ids = jnp.searchsorted(last, visits, side="right").astype(_INT32)
    ids = jnp.minimum(ids, n_groups - 1)
    tiles = first[ids] + visits - (last - counts)[ids]
    tiles = jnp.clip(tiles, 0, cdiv(m, tm) - 1)
    return GroupMetadata(offsets, ids, tiles), total


def _tiling(caller: str, tiling: Any, m: int, k: int, n: int) -> tuple[int, int, int]:
    """The sizes of blocks, none larger than its dimension."""
    found: Any = (
        tiling(m, k, n) if callable(tiling) else (128, 128, 128) if tiling is None else tiling
    )
    if found is None:
        raise ArgumentValueError(
            f"{caller}: `tiling` has no sizes for this product.", got=f"m, k, n: {m, k, n}"
        )
    tm, tk, tn = found
    check_blocks(caller, {"tiling[0]": tm, "tiling[1]": tk, "tiling[2]": tn})
    return min(tm, max(m, 1)), min(tk, max(k, 1)), min(tn, max(n, 1))


def _check(
    caller: str, rows: Any, matrices: Any, group_sizes: Any, *, fits: bool, needs: str
) -> None:
    texts = [
        f"{name}: {type_of(x).text()}"
        for name, x in (("lhs", rows), ("rhs", matrices), ("group_sizes", group_sizes))
    ]
    if not fits or group_sizes.ndim != 1:
        raise ShapeError(f"{caller} needs {needs}, and a vector of group sizes.", got=texts)
    if group_sizes.dtype.kind not in "iu" or rows.dtype != matrices.dtype:
        raise DtypeError(
            f"{caller} needs matrices of one dtype, and integers as group sizes.", got=texts
        )


def _offset(caller: str, group_offset: Any) -> Any:
    """The first group as int32."""
    start = jnp.asarray(0 if group_offset is None else group_offset)
    if start.shape or start.dtype.kind not in "iu":
        raise ShapeError(
            f"{caller}: `group_offset` must be one integer.", got=type_of(start).text()
        )
    return start.astype(_INT32)


def _rows(tile: Any, tm: int) -> Any:
    return tile * tm + jnp.arange(tm, dtype=_INT32)


def _sum_dtype(*given: Any) -> np.dtype:
    """The dtype in which products are summed: that of operands and result, of 32 bits at least."""
    wide = [
        x if x.itemsize >= 4 else np.dtype(np.float32 if dtypes.is_inexact(x) else np.int32)
        for x in given
    ]
    return dtypes.promote_types(*wide)


@functools.partial(
    jit, static_argnames=("preferred_element_type", "tiling", "transpose_rhs", "interpret")
)
def gmm(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    preferred_element_type: Any = np.float32,
    tiling: tuple[int, int, int] | LutFn | None = (128, 128, 128),
    group_offset: Any = None,
    existing_out: Any = None,
    transpose_rhs: bool = False,
    interpret: bool = False,
) -> Any:
    """Row i of `lhs` [m, k] times the matrix `rhs[g]` of its group: [m, n].

    `rhs`: [groups, k, n], or [groups, n, k] with `transpose_rhs`. The first `group_sizes[0]` rows are group 0, the next ones group 1, and so on; `rhs` has
    the groups from `group_offset` on. Rows of other groups, and behind the last one, are those of `existing_out`, or 0. Sums are in the dtype of operands
    and result, of 32 bits at least. `tiling`: sizes of blocks of m, k and n, or a function that gives them; sizes that they don't divide are padded. `interpret` changes nothing.

    Raises: ShapeError, DtypeError for operands that don't fit.

    >>> lhs, rhs = jnp.ones((5, 2)), jnp.stack([jnp.full((2, 1), 1.0), jnp.full((2, 1), 10.0)])
    >>> gmm(lhs, rhs, jnp.array([2, 2]))[:, 0]
    Array([ 2.,  2., 20., 20.,  0.], dtype=float32)
    """
    lhs, rhs, group_sizes = map(jnp.asarray, (lhs, rhs, group_sizes))
    fits = lhs.ndim == 2 and rhs.ndim == 3 and rhs.shape[2 if transpose_rhs else 1] == lhs.shape[-1]
    fits = fits and rhs.shape[0] <= group_sizes.size
    _check("gmm", lhs, rhs, group_sizes, fits=fits, needs="rows [m, k] and matrices [groups, k, n]")
    start = _offset("gmm", group_offset)
    (m, k), n_groups, n = lhs.shape, rhs.shape[0], rhs.shape[1 if transpose_rhs else 2]
    dtype: Any = dtypes.check_user_dtype(preferred_element_type, "gmm")
    if existing_out is not None:
        existing_out = jnp.asarray(existing_out)
        if existing_out.shape != (m, n) or existing_out.dtype != dtype:
            raise ShapeError(
                "gmm needs an `existing_out` of the type of the result.",
                got=f"existing_out: {type_of(existing_out).text()}, result: {shaped_array((m, n), dtype).text()}",
            )
    rest = jnp.zeros((m, n), dtype) if existing_out is None else existing_out
    if not m * k * n * n_groups:
        return rest
    tm, tk, tn = _tiling("gmm", tiling, m, k, n)
    lhs = padded_to(lhs, {0: tm, 1: tk})
    rhs = padded_to(rhs, {1: tn, 2: tk} if transpose_rhs else {1: tk, 2: tn})
    data, _ = make_group_metadata(
        group_sizes=group_sizes, m=m, tm=tm, start_group=start, num_nonzero_groups=n_groups, visit_empty_groups=False
    )  # fmt: skip

    def kernel(
        offsets: Any,
        ids: Any,
        tiles: Any,
        start_ref: Any,
        x_ref: Any,
        y_ref: Any,
        o_ref: Any,
        sum_ref: Any,
    ) -> None:
        visit, step = program_id(1), program_id(2)

        @when(step == 0)
        def _() -> None:
            sum_ref[...] = jnp.zeros(sum_ref.shape, sum_ref.dtype)

        y = y_ref[...].T if transpose_rhs else y_ref[...]
        sum_ref[...] += jnp.dot(x_ref[...], y, preferred_element_type=sum_ref.dtype)

        @when(step == num_programs(2) - 1)
        def _() -> None:
            group, rows = ids[visit], _rows(tiles[visit], tm)
            is_own = (rows >= offsets[group]) & (rows < offsets[group + 1])
            o_ref[...] = jnp.where(is_own[:, None], sum_ref[...].astype(o_ref.dtype), o_ref[...])

    def matrix(j: Any, t: Any, l: Any, offsets: Any, ids: Any, tiles: Any, start: Any) -> Any:
        # If no local group has rows, `ids` may be of any group.
        group = jnp.clip(ids[t] - start[0], 0, n_groups - 1)
        return (group, j, l) if transpose_rhs else (group, l, j)

    result = pallas_call(
        kernel,
        shaped_array((lhs.shape[0], n + -n % tn), dtype),
        grid_spec=PrefetchScalarGridSpec(
            num_scalar_prefetch=4,
            grid=((n + -n % tn) // tn, data.group_ids.shape[0], lhs.shape[1] // tk),
            in_specs=[
                BlockSpec((tm, tk), lambda j, t, l, offsets, ids, tiles, start: (tiles[t], l)),
                BlockSpec((None, tn, tk) if transpose_rhs else (None, tk, tn), matrix),
            ],
            out_specs=BlockSpec(
                (tm, tn), lambda j, t, l, offsets, ids, tiles, start: (tiles[t], j)
            ),
            scratch_shapes=[MemorySpace.VMEM((tm, tn), _sum_dtype(lhs.dtype, dtype))],
        ),
        compiler_params=CompilerParams(
            dimension_semantics=("parallel", "arbitrary", "arbitrary"), disable_bounds_checks=True
        ),
        name="gmm",
    )(*data, start[None], lhs, rhs)
    # Rows of blocks that no group visits were never written: `rest` takes their place.
    rows = jnp.arange(m, dtype=_INT32)[:, None]
    end = jnp.minimum(start + n_groups, group_sizes.size)
    is_local = (rows >= data.group_offsets[start]) & (rows < data.group_offsets[end])
    return jnp.where(is_local, result[:m, :n], rest)


@functools.partial(
    jit, static_argnames=("preferred_element_type", "tiling", "num_actual_groups", "interpret")
)
def tgmm(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    preferred_element_type: Any = np.float32,
    tiling: tuple[int, int, int] | LutFn | None = (128, 128, 128),
    group_offset: Any = None,
    num_actual_groups: int | None = None,
    existing_out: Any = None,
    interpret: bool = False,
) -> Any:
    """For each group the columns of `lhs` [k, m] times the rows of `rhs` [m, n] that are of the group: [groups, k, n].

    Groups are those of `gmm`; the result has `num_actual_groups` of them, all by default, from `group_offset` on, and 0 for those without rows. With an `existing_out` it is
    added to that. Sums, `tiling` and errors are those of `gmm`.

    >>> tgmm(jnp.ones((1, 5)), jnp.arange(5.0)[:, None], jnp.array([2, 0, 3]))[:, 0, 0]
    Array([1., 0., 9.], dtype=float32)
    """
    lhs, rhs, group_sizes = map(jnp.asarray, (lhs, rhs, group_sizes))
    fits = lhs.ndim == rhs.ndim == 2 and lhs.shape[1] == rhs.shape[0]
    _check("tgmm", lhs, rhs, group_sizes, fits=fits, needs="matrices [k, m] and [m, n]")
    start = _offset("tgmm", group_offset)
    (k, m), n = lhs.shape, rhs.shape[1]
    n_groups = group_sizes.size if num_actual_groups is None else num_actual_groups
    dtype: Any = dtypes.check_user_dtype(preferred_element_type, "tgmm")
    shape = (n_groups, k, n)
    if existing_out is not None and (
        jnp.shape(existing_out) != shape or jnp.asarray(existing_out).dtype != dtype
    ):
        raise ShapeError(
            "tgmm needs an `existing_out` of the type of the result.",
            got=f"existing_out: {type_of(existing_out).text()}, result: {shaped_array(shape, dtype).text()}",
        )
    if not m * k * n * n_groups:
        return jnp.zeros(shape, dtype) if existing_out is None else jnp.asarray(existing_out)
    tm, tk, tn = _tiling("tgmm", tiling, m, k, n)
    lhs, rhs = padded_to(lhs, {0: tk, 1: tm}), padded_to(rhs, {0: tm, 1: tn})
    data, total = make_group_metadata(
        group_sizes=group_sizes, m=m, tm=tm, start_group=start, num_nonzero_groups=n_groups
    )

    def kernel(
        offsets: Any,
        ids: Any,
        tiles: Any,
        scalars: Any,
        x_ref: Any,
        y_ref: Any,
        o_ref: Any,
        sum_ref: Any,
    ) -> None:
        visit = program_id(2)
        group = ids[visit]

        @when((visit == 0) | (ids[jnp.maximum(visit - 1, 0)] != group))
        def _() -> None:
            sum_ref[...] = jnp.zeros(sum_ref.shape, sum_ref.dtype)

        # The grid has more visits than there are: those behind the last one repeat it, and must add nothing.
        @when(visit < scalars[1])
        def _() -> None:
            rows = _rows(tiles[visit], tm)
            is_own = (rows >= offsets[group]) & (rows < offsets[group + 1])
            # A block may have rows of other groups: zeros, even where they hold NaN.
            nothing = jnp.zeros((), x_ref.dtype)
            x = jnp.where(is_own[None, :], x_ref[...], nothing)
            y = jnp.where(is_own[:, None], y_ref[...], nothing)
            sum_ref[...] += jnp.dot(x, y, preferred_element_type=sum_ref.dtype)

        o_ref[...] = sum_ref[...].astype(o_ref.dtype)

    def group_of(t: Any, ids: Any, scalars: Any) -> Any:
        return jnp.clip(ids[t] - scalars[0], 0, n_groups - 1)

    padded = (n_groups, lhs.shape[0], rhs.shape[1])
    result = pallas_call(
        kernel,
        shaped_array(padded, dtype),
        grid_spec=PrefetchScalarGridSpec(
            num_scalar_prefetch=4,
            grid=(padded[1] // tk, padded[2] // tn, data.group_ids.shape[0]),
            in_specs=[
                BlockSpec((tk, tm), lambda i, j, t, offsets, ids, tiles, scalars: (i, tiles[t])),
                BlockSpec((tm, tn), lambda i, j, t, offsets, ids, tiles, scalars: (tiles[t], j)),
            ],
            out_specs=BlockSpec(
                (None, tk, tn),
                lambda i, j, t, offsets, ids, tiles, scalars: (group_of(t, ids, scalars), i, j),
            ),
            scratch_shapes=[MemorySpace.VMEM((tk, tn), _sum_dtype(lhs.dtype, dtype))],
        ),
        compiler_params=CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary"), disable_bounds_checks=True
        ),
        name="tgmm",
    )(*data, jnp.stack([start, total]), lhs, rhs)
    # `n_groups` counts from `start`, so the last ones may not exist: zeros.
    groups = start + jnp.arange(n_groups, dtype=_INT32)
    is_there = (groups < group_sizes.size)[:, None, None]
    result = jnp.where(is_there, result[:, :k, :n], jnp.zeros((), dtype))
    return result if existing_out is None else existing_out + result


__all__ = ["GroupMetadata", "LutFn", "gmm", "make_group_metadata", "tgmm"]

public_functions(__all__, globals())
