"""The bodies of attention's kernels for TPUs: the programs of a block of queries, or of keys, follow each other along the last axis.

What they have found so far is in scratch: the first one clears it, the last one writes the result. The formulas are those of
`online_softmax`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.primitives.dslice import ds
from pellucid.experimental.pallas.ops.online_softmax import (
    Block,
    Logits,
    Progress,
    nothing_seen,
    wide,
)
from pellucid.kernels.inside import loop, when
from pellucid.kernels.tpu import MemorySpace


@dataclass(frozen=True)
class Visit:
    """What a program knows of the two blocks that it sees."""

    logits: Logits
    is_first: Any
    """Whether this program begins the sum over the last axis."""
    is_last: Any
    is_active: Any
    """Whether a key may be visible."""
    visible: Callable[[Any, int, Any, int], Any]
    """The mask of some queries and keys, given by (first, number) within the blocks; None where all are visible."""
    bias: Any = None
    """A reference [queries, keys] to what is added to the products; None for nothing."""

    def bias_of(self, rows: Any, columns: Any) -> Any:
        return None if self.bias is None else self.bias[rows, columns]


def _parts(size: int, part: int, function: Callable[[Any], None]) -> None:
    """Call `function` with the first element of each part of a block of `size` elements."""
    if size == part:
        function(0)
    else:
        loop(0, size // part)(lambda i: function(i * part))


def forward_scratch(queries: int, head_size: int, dtype: Any) -> list[Any]:
    """Scratch for `forward`."""
    kind = wide(dtype)
    return [MemorySpace.VMEM((queries, n), kind) for n in (1, 1, head_size)]


def forward(
    visit: Visit, refs: Sequence[Any], out_refs: Sequence[Any], scratch: Sequence[Any], part: int
) -> None:
    """The result and the logarithm of the sum; `refs` are queries, keys, values, whose keys are taken in parts."""
    q_ref, k_ref, v_ref = refs
    n, head_size = q_ref.shape[0], v_ref.shape[1]
    o_ref, lse_ref = out_refs

    @when(visit.is_first)
    def _() -> None:
        for ref, x in zip(scratch, nothing_seen(n, head_size, scratch[0].dtype), strict=True):
            ref[...] = x

    @when(visit.is_active)
    def _() -> None:
        def add(first: Any) -> None:
            columns = ds(first, part)
            logits = visit.logits.of(
                q_ref[...], k_ref[columns, :], visit.bias_of(slice(None), columns)
            )
            progress = Progress(*[ref[...] for ref in scratch])
            progress = progress.after(logits, visit.visible(0, n, first, part), v_ref[columns, :])
            for ref, x in zip(scratch, progress, strict=True):
                ref[...] = x

        _parts(k_ref.shape[0], part, add)

    @when(visit.is_last)
    def _() -> None:
        progress = Progress(*[ref[...] for ref in scratch])
        o_ref[...] = progress.result().astype(o_ref.dtype)
        lse_ref[...] = progress.logsumexp()[:, 0].astype(lse_ref.dtype)


def queries_scratch(queries: int, head_size: int, dtype: Any) -> list[Any]:
    """Scratch for `queries_back`."""
    return [MemorySpace.VMEM((queries, head_size), wide(dtype))]


def queries_back(
    visit: Visit, refs: Sequence[Any], dq_ref: Any, bias_ref: Any, scratch: Sequence[Any], part: int
) -> None:
    """The cotangent of the queries, and that of the bias where `bias_ref` isn't None.

    `refs` are queries, keys, values, cotangents of the result, logarithms of sums, and sums of cotangent times result.
    """
    q_ref, k_ref, v_ref, g_ref, lse_ref, delta_ref = refs
    n, (total_ref,) = q_ref.shape[0], scratch

    @when(visit.is_first)
    def _() -> None:
        total_ref[...] = jnp.zeros(total_ref.shape, total_ref.dtype)

    if bias_ref is not None:
        bias_ref[...] = jnp.zeros(bias_ref.shape, bias_ref.dtype)

    @when(visit.is_active)
    def _() -> None:
        def add(first: Any) -> None:
            columns = ds(first, part)
            statistics = [ref[...][:, None] for ref in (lse_ref, delta_ref)]
            block = Block(q_ref[...], k_ref[columns, :], v_ref[columns, :], g_ref[...], *statistics)
            bias = visit.bias_of(slice(None), columns)
            visible = visit.visible(0, n, first, part)
            _, products = block.derivatives(visit.logits, visible, bias)
            total_ref[...] += block.of_queries(products)
            if bias_ref is not None:
                bias_ref[:, columns] = products.astype(bias_ref.dtype)

        _parts(k_ref.shape[0], part, add)

    @when(visit.is_last)
    def _() -> None:
        dq_ref[...] = total_ref[...].astype(dq_ref.dtype)


def keys_scratch(keys: int, key_size: int, value_size: int, dtype: Any) -> list[Any]:
    """Scratch for `keys_back`."""
    return [MemorySpace.VMEM((keys, n), wide(dtype)) for n in (key_size, value_size)]


def keys_back(
    visit: Visit, refs: Sequence[Any], out_refs: Sequence[Any], scratch: Sequence[Any], part: int
) -> None:
    """The cotangents of keys and values; `refs` as in `queries_back`, whose queries are taken in parts."""
    q_ref, k_ref, v_ref, g_ref, lse_ref, delta_ref = refs
    n = k_ref.shape[0]

    @when(visit.is_first)
    def _() -> None:
        for ref in scratch:
            ref[...] = jnp.zeros(ref.shape, ref.dtype)

    @when(visit.is_active)
    def _() -> None:
        def add(first: Any) -> None:
            rows = ds(first, part)
            statistics = [ref[rows][:, None] for ref in (lse_ref, delta_ref)]
            block = Block(q_ref[rows, :], k_ref[...], v_ref[...], g_ref[rows, :], *statistics)
            bias, visible = visit.bias_of(rows, slice(None)), visit.visible(first, part, 0, n)
            weights, products = block.derivatives(visit.logits, visible, bias)
            scratch[0][...] += block.of_keys(products)
            scratch[1][...] += block.of_values(weights)

        _parts(q_ref.shape[0], part, add)

    @when(visit.is_last)
    def _() -> None:
        for ref, total in zip(out_refs, scratch, strict=True):
            ref[...] = total[...].astype(ref.dtype)


def places(block: Any, size: int, first: Any, n: int) -> Any:
    """Positions of `n` elements that begin at `first` within block number `block`, of `size`."""
    return block * size + first + jnp.arange(n, dtype=np.int32)
