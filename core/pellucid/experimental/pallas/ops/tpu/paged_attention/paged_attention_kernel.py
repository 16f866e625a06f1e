"""Attention of one query for each sequence over keys in pages, whose numbers are prefetched and choose the blocks that a program sees."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import ArgumentValueError
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.ir import shaped_array
from pellucid.experimental.pallas.ops.gpu.paged_attention import check_pages
from pellucid.experimental.pallas.ops.online_softmax import (
    DEFAULT_MASK_VALUE as DEFAULT_MASK_VALUE,
    Logits,
    Progress,
    check_mask_value,
    nothing_seen,
    wide,
)
from pellucid.experimental.pallas.ops.sizes import check_blocks, padded_to
from pellucid.kernels.grid import num_programs, program_id
from pellucid.kernels.inside import when
from pellucid.kernels.kernel_call import pallas_call
from pellucid.kernels.specs import BlockSpec, CompilerParams, PrefetchScalarGridSpec
from pellucid.kernels.tpu import MemorySpace

from .quantization_utils import MAX_INT8, QuantizedTensor


@functools.partial(
    jit,
    static_argnames=(
        "mask_value", "attn_logits_soft_cap", "pages_per_compute_block", "megacore_mode", "inline_seq_dim",
    ),
)  # fmt: skip
def paged_attention(
    q: Any,
    k_pages: Any,
    v_pages: Any,
    lengths: Any,
    page_indices: Any,
    *,
    mask_value: float = DEFAULT_MASK_VALUE,
    attn_logits_soft_cap: float | None = None,
    pages_per_compute_block: int,
    megacore_mode: str | None = None,
    inline_seq_dim: bool = True,
) -> Any:
    """`softmax(q k^T) v` of one query for each head, over the first `lengths` [batch] keys in the pages of its sequence.

    `q`: [batch, heads, head size]; `k_pages`, `v_pages`: [heads of keys, pages, page size, head size], or a `QuantizedTensor` of this shape; `page_indices`: [batch, pages of a
    sequence], of which those behind the length aren't looked at. Logits aren't scaled; with `attn_logits_soft_cap` c they are `c tanh(logit / c)`. A sequence without keys gives 0.
    A program has `pages_per_compute_block` pages. `megacore_mode`: None, "batch" or "kv_head", and like `inline_seq_dim` without effect on results.

    Raises: ShapeError, DtypeError, ArgumentValueError for operands that don't fit; CheckError for a page that isn't in the pool, when it runs.

    >>> pages = jnp.ones((1, 3, 4, 8))
    >>> table = np.array([[2, 0], [1, 9]])
    >>> paged_attention(jnp.ones((2, 2, 8)), pages, pages, np.array([7, 3]), table, pages_per_compute_block=1).shape
    (2, 2, 8)
    """
    scales = [x.scales if isinstance(x, QuantizedTensor) else None for x in (k_pages, v_pages)]
    k, v = [
        jnp.asarray(x.weight if isinstance(x, QuantizedTensor) else x) for x in (k_pages, v_pages)
    ]
    q, tables, lengths = jnp.asarray(q), jnp.asarray(page_indices), jnp.asarray(lengths)
    check_pages("paged_attention", q, k, v, tables, lengths)
    check_mask_value("paged_attention", mask_value)
    check_blocks("paged_attention", {"pages_per_compute_block": pages_per_compute_block})
    if megacore_mode not in (None, "batch", "kv_head"):
        raise ArgumentValueError(
            'paged_attention: `megacore_mode` must be None, "batch" or "kv_head".',
            got=f"got {megacore_mode!r}",
        )
    (b, n, h), (n_groups, _, page_size) = q.shape, k.shape[:3]
    group, dtype, at_once = (
        n // n_groups,
        wide(q.dtype),
        min(pages_per_compute_block, tables.shape[1]),
    )
    lengths = jnp.minimum(lengths.astype(np.int32), tables.shape[1] * page_size)
    is_used = jnp.arange(tables.shape[1], dtype=np.int32) * page_size < lengths[:, None]
    tables = padded_to(jnp.where(is_used, tables.astype(np.int32), 0), {1: at_once})
    grouped = q.reshape((b, n_groups, group, h))
    given = [x for x in scales if x is not None]

    def kernel(lengths_ref: Any, tables_ref: Any, q_ref: Any, *refs: Any) -> None:
        k_refs, v_refs, rest = refs[:at_once], refs[at_once : 2 * at_once], refs[2 * at_once :]
        scale_refs, (o_ref, *scratch) = rest[: len(given) * at_once], rest[len(given) * at_once :]
        length, step = lengths_ref[program_id(0)], program_id(2)

        def pages(page_refs: Any, scaled: Any, factors: Any) -> Any:
            """The pages of this program, one after another."""
            values = [ref[...] for ref in page_refs]
            if scaled is not None:
                values = [
                    x.astype(dtype) * (f[...].astype(dtype) / MAX_INT8)
                    for x, f in zip(values, factors, strict=True)
                ]
            return jnp.concatenate(values).astype(q_ref.dtype)

        @when(step == 0)
        def _() -> None:
            for ref, x in zip(scratch, nothing_seen(group, h, dtype), strict=True):
                ref[...] = x

        first = step * (at_once * page_size)

        @when(first < length)
        def _() -> None:
            places = first + jnp.arange(at_once * page_size, dtype=np.int32)
            keys = pages(k_refs, scales[0], scale_refs[:at_once])
            values = pages(v_refs, scales[1], scale_refs[-at_once:])
            logits = Logits(1.0, attn_logits_soft_cap).of(q_ref[...], keys)
            is_seen = jnp.broadcast_to((places < length)[None, :], logits.shape)
            progress = Progress(*[ref[...] for ref in scratch]).after(logits, is_seen, values)
            for ref, x in zip(scratch, progress, strict=True):
                ref[...] = x

        @when(step == num_programs(2) - 1)
        def _() -> None:
            o_ref[...] = Progress(*[ref[...] for ref in scratch]).result().astype(o_ref.dtype)

    def page(i: int, width: int) -> BlockSpec:
        """The block of page number `i` of a program."""
        place = lambda b, g, j, lengths, tables: (g, tables[b, j * at_once + i], 0, 0)
        return BlockSpec((None, None, page_size, width), place)

    heads = BlockSpec((None, None, group, h), lambda b, g, j, lengths, tables: (b, g, 0, 0))
    result = pallas_call(
        kernel,
        shaped_array(grouped.shape, q.dtype),
        grid_spec=PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(b, n_groups, tables.shape[1] // at_once),
            in_specs=[
                heads,
                *[page(i, h) for _ in (k, v) for i in range(at_once)],
                *[page(i, x.shape[3]) for x in given for i in range(at_once)],
            ],
            out_specs=heads,
            scratch_shapes=[MemorySpace.VMEM((group, m), dtype) for m in (1, 1, h)],
        ),
        compiler_params=CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
        name="paged_attention",
    )(
        lengths,
        tables,
        grouped,
        *[k] * at_once,
        *[v] * at_once,
        *[x for x in given for _ in range(at_once)],
    )
    return result.reshape((b, n, h))


__all__ = ["DEFAULT_MASK_VALUE", "paged_attention"]
