"""Attention of sequences of several lengths over keys in pages: some decode one token, others begin with many.

Queries of all sequences lie one after another. A program has a block of them and one sequence: blocks that several sequences share are visited once for each, as rows of
groups are in `megablox`. Pages of keys and values are those that the table of the sequence names.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import ArgumentValueError, DtypeError, ShapeError, dtypes
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.ir import shaped_array
from pellucid._machine.tracing import type_of
from pellucid._machine.transforms.jvp import concrete_value
from pellucid.experimental.pallas.ops.online_softmax import (
    DEFAULT_MASK_VALUE as DEFAULT_MASK_VALUE,
    Logits,
    Progress,
    attention,
    check_mask_value,
    nothing_seen,
    wide,
)
from pellucid.experimental.pallas.ops.sizes import check_blocks, fitted, padded_to
from pellucid.kernels.grid import num_programs, program_id
from pellucid.kernels.inside import cdiv, when
from pellucid.kernels.kernel_call import pallas_call
from pellucid.kernels.specs import BlockSpec, CompilerParams, PrefetchScalarGridSpec
from pellucid.kernels.tpu import MemorySpace

_groups = importlib.import_module("pellucid.experimental.pallas.ops.tpu.megablox.gmm")
_KEYS_AT_ONCE, _QUERIES_AT_ONCE = 128, 32
_INT32 = np.dtype(np.int32)


def static_validate_inputs(
    q: Any,
    kv_pages: Any,
    kv_lens: Any,
    page_indices: Any,
    cu_q_lens: Any,
    num_seqs: Any,
    *,
    sm_scale: float | None = None,
    sliding_window: int | None = None,
    soft_cap: float | None = None,
    mask_value: float | None = None,
    k_scale: float | None = None,
    v_scale: float | None = None,
    num_kv_pages_per_block: int | None = None,
    num_queries_per_block: int | None = None,
    vmem_limit_bytes: int | None = None,
) -> None:
    """Raise ShapeError, DtypeError or ArgumentValueError for operands of `ragged_paged_attention` whose types and settings don't fit.

    >>> pages, table = jnp.ones((3, 4, 2, 8)), np.zeros((2, 3), np.int32)
    >>> static_validate_inputs(jnp.ones((5, 2, 8)), pages, np.array([4, 2]), table, np.array([0, 4, 5]), np.array([2]))
    """
    named = {
        "q": q, "kv_pages": kv_pages, "kv_lens": kv_lens, "page_indices": page_indices, "cu_q_lens": cu_q_lens,
        "num_seqs": num_seqs,
    }  # fmt: skip
    texts = [f"{name}: {type_of(x).text()}" for name, x in named.items()]
    shapes = [jnp.shape(x) for x in named.values()]
    q_shape, kv_shape, lens, table, starts, count = shapes
    is_pages = (
        len(q_shape) == 3 and len(kv_shape) == 4 and 0 not in kv_shape and kv_shape[2] % 2 == 0
    )
    if not is_pages or q_shape[2] != kv_shape[3] or q_shape[1] % (kv_shape[2] // 2):
        raise ShapeError(
            "ragged_paged_attention needs queries [tokens, heads, head size] and pages [pages, page size, 2 * heads of keys, head size].",
            got=texts[:2],
        )
    if (
        len(lens) != 1
        or len(table) != 2
        or table[0] != lens[0]
        or not table[1]
        or starts != (lens[0] + 1,)
        or count != (1,)
    ):
        raise ShapeError(
            "ragged_paged_attention needs for each sequence a length, a row of pages, and the end of its queries, and one number of sequences.",
            got=texts[2:],
        )
    if any(type_of(x).dtype.kind not in "iu" for x in (kv_lens, page_indices, cu_q_lens, num_seqs)):
        raise DtypeError(
            "ragged_paged_attention needs lengths and pages as integers.", got=texts[2:]
        )
    for name, value in (("sliding_window", sliding_window), ("soft_cap", soft_cap)):
        if value is not None and value <= 0:
            raise ArgumentValueError(
                f"ragged_paged_attention: `{name}` must be positive.", got=f"got {value}"
            )
    sizes = {
        "num_kv_pages_per_block": num_kv_pages_per_block,
        "num_queries_per_block": num_queries_per_block,
    }
    check_blocks("ragged_paged_attention", {k: n for k, n in sizes.items() if n is not None})
    if mask_value is not None:
        check_mask_value("ragged_paged_attention", mask_value)


def dynamic_validate_inputs(
    q: Any,
    kv_pages: Any,
    kv_lens: Any,
    page_indices: Any,
    cu_q_lens: Any,
    num_seqs: Any,
    *,
    sm_scale: float | None = None,
    sliding_window: int | None = None,
    soft_cap: float | None = None,
    mask_value: float | None = None,
    k_scale: float | None = None,
    v_scale: float | None = None,
    num_kv_pages_per_block: int | None = None,
    num_queries_per_block: int | None = None,
    vmem_limit_bytes: int | None = None,
) -> None:
    """`static_validate_inputs`, and what the numbers must be: raises ArgumentValueError for sequences that don't lie within tokens and pages.

    Numbers that are traced can't be looked at.

    >>> pages, table = jnp.ones((3, 4, 2, 8)), np.zeros((1, 3), np.int32)
    >>> dynamic_validate_inputs(jnp.ones((5, 2, 8)), pages, np.array([4]), table, np.array([0, 5]), np.array([1]))
    Traceback (most recent call last):
        ...
    pellucid.errors.ArgumentValueError: ragged_paged_attention: a sequence has more queries than keys.
    ...
    """
    static_validate_inputs(
        q, kv_pages, kv_lens, page_indices, cu_q_lens, num_seqs, sm_scale=sm_scale, sliding_window=sliding_window,
        soft_cap=soft_cap, mask_value=mask_value, k_scale=k_scale, v_scale=v_scale,
        num_kv_pages_per_block=num_kv_pages_per_block, num_queries_per_block=num_queries_per_block,
        vmem_limit_bytes=vmem_limit_bytes,
    )  # fmt: skip
    known = [concrete_value(x) for x in (kv_lens, page_indices, cu_q_lens, num_seqs)]
    if any(x is None for x in known):
        raise ArgumentValueError(
            "dynamic_validate_inputs needs numbers that are known.", do="Call it outside of jit."
        )
    lens, tables, starts, count = [np.asarray(x) for x in known]
    n = int(count[0])

    def refuse(what: str, got: Any) -> None:
        raise ArgumentValueError(f"ragged_paged_attention: {what}", got=str(got))

    if not 0 <= n <= len(lens):
        refuse("there are more sequences than lengths.", f"{n} sequences, {len(lens)} lengths")
    queries, page_size = np.diff(starts[: n + 1]), jnp.shape(kv_pages)[1]
    if starts[0] != 0 or (queries < 0).any() or starts[n] > jnp.shape(q)[0]:
        refuse("ends of queries must grow from 0 to at most the tokens.", starts[: n + 1])
    if (queries > lens[:n]).any():
        refuse("a sequence has more queries than keys.", f"{queries} queries, {lens[:n]} keys")
    if (lens[:n] > tables.shape[1] * page_size).any():
        refuse(
            "a sequence has more keys than its pages hold.",
            f"{lens[:n]} keys, {tables.shape[1]} pages of {page_size}",
        )
    used = np.arange(tables.shape[1]) * page_size < lens[:n, None]
    if ((tables[:n] < 0) | (tables[:n] >= jnp.shape(kv_pages)[0]))[used].any():
        refuse("a page isn't in the pool.", f"pages {tables[:n][used]} of {jnp.shape(kv_pages)[0]}")


@functools.partial(
    jit,
    static_argnames=(
        "sm_scale", "sliding_window", "soft_cap", "mask_value", "k_scale", "v_scale", "num_kv_pages_per_block",
        "num_queries_per_block", "vmem_limit_bytes",
    ),
)  # fmt: skip
def ragged_paged_attention(
    q: Any,
    kv_pages: Any,
    kv_lens: Any,
    page_indices: Any,
    cu_q_lens: Any,
    num_seqs: Any,
    *,
    sm_scale: float = 1.0,
    sliding_window: int | None = None,
    soft_cap: float | None = None,
    mask_value: float | None = DEFAULT_MASK_VALUE,
    k_scale: float | None = None,
    v_scale: float | None = None,
    num_kv_pages_per_block: int | None = None,
    num_queries_per_block: int | None = None,
    vmem_limit_bytes: int | None = None,
) -> Any:
    """`softmax(sm_scale q k^T) v` for the tokens of several sequences, each with those of its sequence up to itself: result like `q`.

    `q`: [tokens, heads, head size], those of sequence i from `cu_q_lens[i]` to below `cu_q_lens[i + 1]`, its last ones; `kv_lens[i]` keys of it are kept, these tokens' included.
    `kv_pages`: [pages, page size, 2 * heads of keys, head size], keys at even and values at odd places; `page_indices[i]`: the pages of sequence i, of which those behind its
    length aren't looked at. Only the first `num_seqs` [1] sequences count. Tokens of no sequence give 0. `sliding_window`: a token sees so many, itself included. `soft_cap` c:
    logits are `c tanh(logit / c)`. `k_scale`, `v_scale`: factors of keys and values.

    A program has `num_queries_per_block` tokens and `num_kv_pages_per_block` pages; `vmem_limit_bytes` changes nothing. Raises: ShapeError, DtypeError,
    ArgumentValueError for operands that don't fit; CheckError for a page that isn't in the pool, when it runs.

    >>> q, pages = jnp.ones((5, 2, 8)), jnp.ones((3, 4, 2, 8))
    >>> table = np.array([[2, 0], [1, 0]])
    >>> ragged_paged_attention(q, pages, np.array([7, 3]), table, np.array([0, 4, 4]), np.array([1]))[:, 0, 0]
    Array([1., 1., 1., 1., 0.], dtype=float32)
    """
    q, kv_pages, kv_lens, tables, starts, count = map(
        jnp.asarray, (q, kv_pages, kv_lens, page_indices, cu_q_lens, num_seqs)
    )
    static_validate_inputs(
        q, kv_pages, kv_lens, tables, starts, count, sliding_window=sliding_window, soft_cap=soft_cap,
        mask_value=mask_value, num_kv_pages_per_block=num_kv_pages_per_block, num_queries_per_block=num_queries_per_block,
    )  # fmt: skip
    (t, n, h), (_, page_size, n_groups, _) = q.shape, kv_pages.shape
    n_groups, n_seqs = n_groups // 2, kv_lens.shape[0]
    if not t * n:
        return q
    group, dtype = n // n_groups, wide(q.dtype)
    at_once = min(num_kv_pages_per_block or cdiv(_KEYS_AT_ONCE, page_size), tables.shape[1])
    block = min(num_queries_per_block or _QUERIES_AT_ONCE, fitted(1 << 30, t, 1))
    is_there = jnp.arange(n_seqs, dtype=_INT32) < count[0].astype(_INT32)
    sizes = jnp.where(is_there, jnp.diff(starts).astype(_INT32), 0)
    lens = jnp.where(sizes > 0, jnp.minimum(kv_lens.astype(_INT32), tables.shape[1] * page_size), 0)
    is_used = jnp.arange(tables.shape[1], dtype=_INT32) * page_size < lens[:, None]
    tables = padded_to(jnp.where(is_used, tables.astype(_INT32), 0), {1: at_once})
    padded = padded_to(q, {0: block})
    visits, _ = _groups.make_group_metadata(
        group_sizes=sizes, m=padded.shape[0], tm=block, start_group=0, num_nonzero_groups=n_seqs, visit_empty_groups=False
    )  # fmt: skip
    keys_at_once, logits = at_once * page_size, Logits(sm_scale * (k_scale or 1.0), soft_cap)

    def kernel(
        offsets: Any, ids: Any, tiles: Any, lens_ref: Any, tables_ref: Any, q_ref: Any, *refs: Any
    ) -> None:
        kv_refs, (o_ref, *scratch) = refs[:at_once], refs[at_once:]
        visit, step = program_id(1), program_id(2)
        sequence = ids[visit]
        length, start, end = lens_ref[sequence], offsets[sequence], offsets[sequence + 1]
        tokens = tiles[visit] * block + jnp.arange(block, dtype=_INT32)
        is_own = (tokens >= start) & (tokens < end)
        first = step * keys_at_once

        @when(step == 0)
        def _() -> None:
            for ref, x in zip(scratch, nothing_seen(block * group, h, dtype), strict=True):
                ref[...] = x

        @when(first < length)
        def _() -> None:
            # The last token of a sequence is at the place of its last key.
            rows = jnp.repeat(tokens - end + length, group, total_repeat_length=block * group)
            columns = first + jnp.arange(keys_at_once, dtype=_INT32)
            is_seen = (columns[None, :] <= rows[:, None]) & (columns < length)[None, :]
            if sliding_window is not None:
                is_seen = is_seen & (columns[None, :] > rows[:, None] - sliding_window)
            keys, values = [
                jnp.concatenate([ref[:, i, :] for ref in kv_refs]).astype(q_ref.dtype)
                for i in (0, 1)
            ]
            found = logits.of(q_ref[...].reshape((block * group, h)), keys)
            progress = Progress(*[ref[...] for ref in scratch]).after(found, is_seen, values)
            for ref, x in zip(scratch, progress, strict=True):
                ref[...] = x

        @when(step == num_programs(2) - 1)
        def _() -> None:
            result = Progress(*[ref[...] for ref in scratch]).result() * (v_scale or 1.0)
            result = result.reshape((block, group, h)).astype(o_ref.dtype)
            o_ref[...] = jnp.where(is_own[:, None, None], result, o_ref[...])

    def page(i: int) -> BlockSpec:
        """The block of keys and values of one head, of page number `i` of a program."""

        def place(
            g: Any, t: Any, j: Any, offsets: Any, ids: Any, tiles: Any, lens: Any, tables: Any
        ) -> Any:
            return tables[ids[t], j * at_once + i], 0, g, 0

        return BlockSpec((None, page_size, 2, h), place)

    heads = BlockSpec((block, group, h), lambda g, t, j, offsets, ids, tiles, *_: (tiles[t], g, 0))
    result = pallas_call(
        kernel,
        shaped_array(padded.shape, q.dtype),
        grid_spec=PrefetchScalarGridSpec(
            num_scalar_prefetch=5,
            grid=(n_groups, visits.group_ids.shape[0], tables.shape[1] // at_once),
            in_specs=[heads, *[page(i) for i in range(at_once)]],
            out_specs=heads,
            scratch_shapes=[MemorySpace.VMEM((block * group, m), dtype) for m in (1, 1, h)],
        ),
        compiler_params=CompilerParams(dimension_semantics=("parallel", "arbitrary", "arbitrary")),
        name="ragged_paged_attention",
    )(*visits, lens, tables, padded, *[kv_pages] * at_once)
    # Tokens behind the last sequence were never written.
    is_token = jnp.arange(t, dtype=_INT32) < sizes.sum()
    return jnp.where(is_token[:, None, None], result[:t], 0)


def ref_ragged_paged_attention(
    queries: Any,
    kv_pages: Any,
    kv_lens: Any,
    page_indices: Any,
    cu_q_lens: Any,
    num_seqs: Any,
    *,
    sm_scale: float = 1.0,
    sliding_window: int | None = None,
    soft_cap: float | None = None,
    mask_value: float | None = DEFAULT_MASK_VALUE,
    k_scale: float | None = None,
    v_scale: float | None = None,
) -> Any:
    """The plain form, one sequence after another; lengths must be known. Result: [tokens of the sequences, heads, head size].

    >>> q, pages = jnp.ones((4, 2, 8)), jnp.ones((3, 4, 2, 8))
    >>> ref_ragged_paged_attention(q, pages, np.array([7]), np.array([[2, 0]]), np.array([0, 4]), np.array([1])).shape
    (4, 2, 8)
    """
    static_validate_inputs(
        queries, kv_pages, kv_lens, page_indices, cu_q_lens, num_seqs, sliding_window=sliding_window, soft_cap=soft_cap,
        mask_value=mask_value,
    )  # fmt: skip
    queries, kv_pages = jnp.asarray(queries), jnp.asarray(kv_pages)
    lens, tables, starts, count = [
        np.asarray(x) for x in (kv_lens, page_indices, cu_q_lens, num_seqs)
    ]
    logits_of = Logits(sm_scale * (k_scale or 1.0), soft_cap)
    found = [queries[:0]]
    group = queries.shape[1] // (kv_pages.shape[2] // 2)
    for i in range(int(count[0])):
        q, length = queries[starts[i] : starts[i + 1]], int(lens[i])
        kv = kv_pages[tables[i]].reshape((-1, *kv_pages.shape[2:]))[:length]
        rows = length - q.shape[0] + np.arange(q.shape[0])[:, None]
        columns = np.arange(length)[None, :]
        mask = columns <= rows
        if sliding_window is not None:
            mask &= columns > rows - sliding_window
        heads = []
        for head in range(q.shape[1]):
            k, v = [kv[:, 2 * (head // group) + j].astype(queries.dtype) for j in (0, 1)]
            heads.append(
                attention(logits_of.of(q[:, head], k), jnp.asarray(mask), v)[0] * (v_scale or 1.0)
            )
        found.append(jnp.stack(heads, 1).astype(queries.dtype))
    return jnp.concatenate(found)


def get_dtype_packing(dtype: Any) -> int:
    """How many numbers of a dtype 32 bits hold.

    >>> get_dtype_packing(jnp.bfloat16)
    2
    """
    return 32 // dtypes.itemsize_bits(np.dtype(dtype))


__all__ = [
    "DEFAULT_MASK_VALUE", "dynamic_validate_inputs", "get_dtype_packing", "ragged_paged_attention", "ref_ragged_paged_attention",
    "static_validate_inputs",
]  # fmt: skip
