"""Attention of many heads whose logits never lie in memory, with kernels for its derivative.

A program has a block of queries and goes over the keys of its head in a loop; on the way back one kernel has blocks of
queries for their cotangents, another one blocks of keys. The formulas are those of `online_softmax`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import ArgumentValueError, ShapeError, public_functions
from pellucid._machine.higher_order.cond import cond
from pellucid._machine.higher_order.custom_vjp import custom_vjp
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.higher_order.loops import fori_loop
from pellucid._machine.ir import shaped_array
from pellucid._machine.primitives.dslice import ds
from pellucid._machine.tracing import type_of
from pellucid._machine.transforms.gradient import vjp
from pellucid.experimental.pallas.ops.online_softmax import (
    DEFAULT_MASK_VALUE as DEFAULT_MASK_VALUE,
    Block,
    Logits,
    all_of,
    attention,
    delta_of,
    for_backward,
    nothing_seen,
    wide,
)
from pellucid.experimental.pallas.ops.sizes import check_blocks, fitted, padded_to, vary_alike
from pellucid.kernels.grid import program_id
from pellucid.kernels.kernel_call import pallas_call
from pellucid.kernels.specs import BlockSpec
from pellucid.kernels.triton.language import CompilerParams


@dataclass(frozen=True)
class BlockSizes:
    """Numbers of queries and keys in a block: forward, for the cotangents of keys and values (`dkv`), and of queries (`dq`).

    On the way back the forward sizes serve where none are given. Sizes are powers of two on GPUs.

    >>> BlockSizes(block_q=64, block_k=32).has_backward_blocks
    False
    """

    block_q: int
    block_k: int
    block_q_dkv: int | None = None
    block_kv_dkv: int | None = None
    block_q_dq: int | None = None
    block_kv_dq: int | None = None

    @classmethod
    def get_default(cls) -> BlockSizes:
        """128 forward and 32 backward.

        >>> BlockSizes.get_default().block_q_dq
        32
        """
        return cls(128, 128, 32, 32, 32, 32)

    @property
    def has_backward_blocks(self) -> bool:
        """Whether block sizes for the backward pass are given."""
        return None not in dataclasses.astuple(self)


_DEFAULT = BlockSizes.get_default()


class _Setting(NamedTuple):
    """What the kernels know when they are traced."""

    logits: Logits
    is_causal: bool
    queries: int
    keys: int
    is_segmented: bool
    num_warps: int | None
    num_stages: int

    def visible(self, first_query: Any, n: int, first_key: Any, m: int, segments: Any) -> Any:
        """The mask of `n` queries and `m` keys, the first ones at these places; `segments` are the ids of both."""
        rows = first_query + jnp.arange(n, dtype=np.int32)
        columns = first_key + jnp.arange(m, dtype=np.int32)
        masks = []
        if self.keys % m:
            masks.append(jnp.broadcast_to((columns < self.keys)[None, :], (n, m)))
        if self.is_causal:
            masks.append(columns[None, :] <= rows[:, None])
        if segments is not None:
            masks.append(segments[0][:, None] == segments[1][None, :])
        return all_of(masks)

    def compiler_params(self) -> CompilerParams:
        return CompilerParams(self.num_warps, self.num_stages)


@functools.partial(
    jit,
    static_argnames=(
        "sm_scale", "causal", "block_sizes", "backward_pass_impl", "num_warps", "num_stages", "grid", "interpret",
        "debug", "return_residuals",
    ),
)  # fmt: skip
def mha(
    q: Any,
    k: Any,
    v: Any,
    segment_ids: Any,
    sm_scale: float = 1.0,
    causal: bool = False,
    block_sizes: BlockSizes = _DEFAULT,
    backward_pass_impl: str = "triton",
    num_warps: int | None = None,
    num_stages: int = 2,
    grid: tuple[int, ...] | None = None,
    interpret: bool = False,
    debug: bool = False,
    return_residuals: bool = False,
) -> Any:
    """`softmax(sm_scale q k^T) v` for each head, without the [queries, keys] matrix in memory.

    `q`: [batch, queries, heads, head size]; `k`, `v`: [batch, keys, heads, head size]; result like `q`. `segment_ids` [batch, queries],
    or None: places attend to those of their own segment. `causal`: query i attends to keys up to i. Logits and sums are in
    float32 or wider. A query that sees no key gives 0. `return_residuals`: also the logarithm [batch, heads, queries] of the sum of exponentials, without a
    derivative. Lengths and head sizes that blocks don't divide are padded.

    `backward_pass_impl`: "triton", kernels, or "xla", the derivative of `mha_reference`, which has the matrix in memory. `num_warps` and
    `num_stages` are for GPUs; `interpret` and `debug` change nothing.

    Raises: ShapeError for operands that don't fit; ArgumentValueError for sizes of blocks that are none, and a `grid` other than the one that follows from them.

    >>> x = jnp.ones((1, 5, 2, 4))
    >>> mha(x, x, x, None, causal=True).shape
    (1, 5, 2, 4)
    """
    q, k, v = map(jnp.asarray, (q, k, v))
    _check(q, k, v, segment_ids)
    check_blocks("mha", {f: s for f, s in vars(block_sizes).items() if s is not None})
    if backward_pass_impl not in ("triton", "xla"):
        raise ArgumentValueError(
            'mha: `backward_pass_impl` must be "triton" or "xla".',
            got=f"got {backward_pass_impl!r}",
        )
    own_grid = (-(-q.shape[1] // block_sizes.block_q), q.shape[0], q.shape[2])
    if grid is not None and tuple(grid) != own_grid:
        raise ArgumentValueError(
            "mha: `grid` must be the one that follows from `block_q`.",
            got=f"got {grid}, and it is {own_grid}",
        )
    setting = _Setting(
        Logits(sm_scale), causal, q.shape[1], k.shape[1], segment_ids is not None, num_warps, num_stages
    )  # fmt: skip
    ids = () if segment_ids is None else (jnp.asarray(segment_ids),)
    if return_residuals:
        return _forward(setting, block_sizes, q, k, v, *ids)
    return _mha(setting, block_sizes, backward_pass_impl, *vary_alike(q, k, v, *ids))


def _check(q: Any, k: Any, v: Any, segment_ids: Any) -> None:
    texts = [f"{name}: {type_of(x).text()}" for name, x in (("q", q), ("k", k), ("v", v))]
    fits = q.ndim == k.ndim == 4 and k.shape == v.shape
    if not fits or q.shape[:1] + q.shape[2:] != k.shape[:1] + k.shape[2:] or 0 in k.shape:
        raise ShapeError(
            "mha needs [batch, length, heads, head size], all alike but for the length of the queries.",
            got=texts,
        )
    if segment_ids is not None and (
        jnp.shape(segment_ids) != q.shape[:2] or q.shape[1] != k.shape[1]
    ):
        raise ShapeError(
            "mha needs one segment id for each query, which is that of the key at its place, too.",
            got=[*texts, f"segment_ids: {type_of(segment_ids).text()}"],
        )


def _head_size(q: Any) -> int:
    return fitted(1 << 30, q.shape[3])


def _blocked(size: int, head_size: int, *, whole: bool = False) -> BlockSpec:
    """The spec of blocks of queries or keys: for a program `(i, batch, head)` block `i`, or all of them if `whole`."""
    place: Callable[..., Any] = (
        (lambda i, b, n: (b, 0, n, 0)) if whole else (lambda i, b, n: (b, i, n, 0))
    )
    return BlockSpec((None, size, None, head_size), place)


def _ids(size: int, *, whole: bool = False) -> BlockSpec:
    place: Callable[..., Any] = (lambda i, b, n: (b, 0)) if whole else (lambda i, b, n: (b, i))
    return BlockSpec((None, size), place)


def _statistics(size: int, *, whole: bool = False) -> BlockSpec:
    """The spec of blocks with one number for each query of a head."""
    place: Callable[..., Any] = (
        (lambda i, b, n: (b, n, 0)) if whole else (lambda i, b, n: (b, n, i))
    )
    return BlockSpec((None, None, size), place)


def _any_visible(
    is_causal: bool, last_query: Any, first_key: Any, then: Callable[..., Any], carry: Any
) -> Any:
    """`then(carry)` unless positions alone show that no key of a block is visible; else `carry`."""
    return cond(last_query >= first_key, then, lambda x: x, carry) if is_causal else then(carry)


def _forward(
    setting: _Setting, sizes: BlockSizes, q: Any, k: Any, v: Any, *ids: Any
) -> tuple[Any, Any]:
    """(result, logarithm of the sum of exponentials [batch, heads, queries])."""
    b, t, n, h = q.shape
    dtype, head_size = wide(q.dtype), _head_size(q)
    block_q, block_k = fitted(sizes.block_q, t), fitted(sizes.block_k, k.shape[1])
    q_ids, k_ids = [[padded_to(x, {1: block}) for x in ids] for block in (block_q, block_k)]
    q = padded_to(q, {1: block_q, 3: head_size})
    k, v = [padded_to(x, {1: block_k, 3: head_size}) for x in (k, v)]
    keys = k.shape[1]

    def kernel(q_ref: Any, k_ref: Any, v_ref: Any, *refs: Any) -> None:
        *id_refs, o_ref, lse_ref = refs
        first_query = program_id(0) * block_q
        queries, own = q_ref[...], [ref[...] for ref in id_refs[:1]]

        def step(j: Any, progress: Any) -> Any:
            first_key = j * block_k
            part = ds(first_key, block_k)

            def add(progress: Any) -> Any:
                segments = (own[0], id_refs[1][part]) if own else None
                visible = setting.visible(first_query, block_q, first_key, block_k, segments)
                return progress.after(
                    setting.logits.of(queries, k_ref[part, :]), visible, v_ref[part, :]
                )

            last_query = first_query + block_q - 1
            return _any_visible(setting.is_causal, last_query, first_key, add, progress)

        start = nothing_seen(block_q, head_size, dtype)
        progress = fori_loop(0, keys // block_k, step, start)
        o_ref[...] = progress.result().astype(o_ref.dtype)
        lse_ref[...] = progress.logsumexp()[:, 0]

    whole = _blocked(keys, head_size, whole=True)
    result, lse = pallas_call(
        kernel,
        [shaped_array(q.shape, q.dtype), shaped_array((b, n, q.shape[1]), dtype)],
        grid=(q.shape[1] // block_q, b, n),
        in_specs=[_blocked(block_q, head_size), whole, whole]
        + ([_ids(block_q), _ids(keys, whole=True)] if ids else []),
        out_specs=[_blocked(block_q, head_size), _statistics(block_q)],
        compiler_params=setting.compiler_params(),
        name="mha_forward",
    )(q, k, v, *q_ids, *k_ids)
    return result[:, :t, :, :h], lse[:, :, :t]


def _kept(
    setting: _Setting, sizes: BlockSizes, backward: str, q: Any, k: Any, v: Any, *ids: Any
) -> Any:
    result, lse = _forward(setting, sizes, q, k, v, *ids)
    return result, (q, k, v, ids, result, lse)


def _backward(
    setting: _Setting, sizes: BlockSizes, backward: str, kept: Any, cotangent: Any
) -> Any:
    q, k, v, ids, result, lse = kept
    nothing = [None] * len(ids)
    if backward == "xla":
        plain = lambda q, k, v: mha_reference(
            q, k, v, *(ids or (None,)), sm_scale=setting.logits.scale, causal=setting.is_causal
        )
        return (*vjp(plain, q, k, v)[1](cotangent), *nothing)
    delta = jnp.swapaxes(delta_of(result, cotangent), 1, 2)
    operands = q, k, v, cotangent, for_backward(lse), delta
    dq = _queries_back(setting, sizes, ids, *operands)
    dk, dv = _keys_back(setting, sizes, ids, *operands)
    return dq, dk, dv, *nothing


def _queries_back(setting: _Setting, sizes: BlockSizes, ids: Any, q: Any, k: Any, v: Any, g: Any, lse: Any, delta: Any) -> Any:  # fmt: skip
    """The cotangent of the queries: a loop over keys for each block of queries."""
    b, t, n, h = q.shape
    head_size = _head_size(q)
    block_q = fitted(sizes.block_q_dq or sizes.block_q, t)
    block_k = fitted(sizes.block_kv_dq or sizes.block_k, k.shape[1])
    q_ids, k_ids = [[padded_to(x, {1: block}) for x in ids] for block in (block_q, block_k)]
    q, g = [padded_to(x, {1: block_q, 3: head_size}) for x in (q, g)]
    k, v = [padded_to(x, {1: block_k, 3: head_size}) for x in (k, v)]
    lse, delta = [padded_to(x, {2: block_q}) for x in (lse, delta)]
    keys = k.shape[1]

    def kernel(
        q_ref: Any, k_ref: Any, v_ref: Any, g_ref: Any, lse_ref: Any, delta_ref: Any, *refs: Any
    ) -> None:
        *id_refs, dq_ref = refs
        first_query = program_id(0) * block_q
        queries, cotangents = q_ref[...], g_ref[...]
        lse, delta = lse_ref[...][:, None], delta_ref[...][:, None]
        own = [ref[...] for ref in id_refs[:1]]

        def step(j: Any, total: Any) -> Any:
            first_key = j * block_k
            part = ds(first_key, block_k)

            def add(total: Any) -> Any:
                segments = (own[0], id_refs[1][part]) if own else None
                visible = setting.visible(first_query, block_q, first_key, block_k, segments)
                block = Block(queries, k_ref[part, :], v_ref[part, :], cotangents, lse, delta)
                _, products = block.derivatives(setting.logits, visible)
                return total + block.of_queries(products)

            last_query = first_query + block_q - 1
            return _any_visible(setting.is_causal, last_query, first_key, add, total)

        start = jnp.zeros((block_q, head_size), wide(q.dtype))
        dq_ref[...] = fori_loop(0, keys // block_k, step, start).astype(dq_ref.dtype)

    mine, whole = _blocked(block_q, head_size), _blocked(keys, head_size, whole=True)
    statistics = _statistics(block_q)
    dq = pallas_call(
        kernel,
        shaped_array(q.shape, q.dtype),
        grid=(q.shape[1] // block_q, b, n),
        in_specs=[mine, whole, whole, mine, statistics, statistics]
        + ([_ids(block_q), _ids(keys, whole=True)] if ids else []),
        out_specs=mine,
        compiler_params=setting.compiler_params(),
        name="mha_backward_dq",
    )(q, k, v, g, lse, delta, *q_ids, *k_ids)
    return dq[:, :t, :, :h]


def _keys_back(setting: _Setting, sizes: BlockSizes, ids: Any, q: Any, k: Any, v: Any, g: Any, lse: Any, delta: Any) -> Any:  # fmt: skip
    """The cotangents of keys and values: a loop over queries for each block of keys."""
    b, s, n, h = k.shape
    if not q.shape[1]:  # no program would write the results
        return jnp.zeros_like(k), jnp.zeros_like(v)
    head_size = _head_size(q)
    block_q = fitted(sizes.block_q_dkv or sizes.block_q, q.shape[1])
    block_k = fitted(sizes.block_kv_dkv or sizes.block_k, s)
    q_ids, k_ids = [[padded_to(x, {1: block}) for x in ids] for block in (block_q, block_k)]
    q, g = [padded_to(x, {1: block_q, 3: head_size}) for x in (q, g)]
    k, v = [padded_to(x, {1: block_k, 3: head_size}) for x in (k, v)]
    lse, delta = [padded_to(x, {2: block_q}) for x in (lse, delta)]
    queries = q.shape[1]

    def kernel(
        q_ref: Any, k_ref: Any, v_ref: Any, g_ref: Any, lse_ref: Any, delta_ref: Any, *refs: Any
    ) -> None:
        *id_refs, dk_ref, dv_ref = refs
        first_key = program_id(0) * block_k
        keys, values = k_ref[...], v_ref[...]
        own = [ref[...] for ref in id_refs[1:]]

        def step(i: Any, totals: Any) -> Any:
            first_query = i * block_q
            part = ds(first_query, block_q)

            def add(totals: Any) -> Any:
                segments = (id_refs[0][part], own[0]) if own else None
                visible = setting.visible(first_query, block_q, first_key, block_k, segments)
                statistics = [ref[part][:, None] for ref in (lse_ref, delta_ref)]
                block = Block(q_ref[part, :], keys, values, g_ref[part, :], *statistics)
                weights, products = block.derivatives(setting.logits, visible)
                return totals[0] + block.of_keys(products), totals[1] + block.of_values(weights)

            last_query = first_query + block_q - 1
            return _any_visible(setting.is_causal, last_query, first_key, add, totals)

        start = jnp.zeros((block_k, head_size), wide(q.dtype))
        dk, dv = fori_loop(0, queries // block_q, step, (start, start))
        dk_ref[...], dv_ref[...] = dk.astype(dk_ref.dtype), dv.astype(dv_ref.dtype)

    mine, whole = _blocked(block_k, head_size), _blocked(queries, head_size, whole=True)
    statistics = _statistics(queries, whole=True)
    dk, dv = pallas_call(
        kernel,
        [shaped_array(x.shape, x.dtype) for x in (k, v)],
        grid=(k.shape[1] // block_k, b, n),
        in_specs=[whole, mine, mine, whole, statistics, statistics]
        + ([_ids(queries, whole=True), _ids(block_k)] if ids else []),
        out_specs=[mine, mine],
        compiler_params=setting.compiler_params(),
        name="mha_backward_dkv",
    )(q, k, v, g, lse, delta, *q_ids, *k_ids)
    return dk[:, :s, :, :h], dv[:, :s, :, :h]


def _result(
    setting: _Setting, sizes: BlockSizes, backward: str, q: Any, k: Any, v: Any, *ids: Any
) -> Any:
    return _forward(setting, sizes, q, k, v, *ids)[0]


_mha = custom_vjp(_result, nondiff_argnums=(0, 1, 2))
_mha.defvjp(_kept, _backward)


def segment_mask(q_segment_ids: Any, kv_segment_ids: Any) -> Any:
    """[..., queries, keys]: whether a query and a key are of one segment.

    >>> segment_mask(np.array([0, 1]), np.array([0, 0, 1]))
    Array([[ True,  True, False],
           [False, False,  True]], dtype=bool)
    """
    return jnp.equal(jnp.expand_dims(q_segment_ids, -1), jnp.expand_dims(kv_segment_ids, -2))


def mha_reference(
    q: Any, k: Any, v: Any, segment_ids: Any, sm_scale: float = 1.0, causal: bool = False
) -> Any:
    """The plain form of `mha`, with all logits at once.

    >>> x = jnp.ones((1, 3, 1, 2))
    >>> mha_reference(x, x, x, None)[0, :, 0, 0]
    Array([1., 1., 1.], dtype=float32)
    """
    q, k, v = map(jnp.asarray, (q, k, v))
    logits = jnp.einsum("btnh,bsnh->bnts", q, k, preferred_element_type=wide(q.dtype)) * sm_scale
    masks = []
    if causal:
        masks.append(jnp.tri(q.shape[1], k.shape[1], dtype=np.bool_))
    if segment_ids is not None:
        masks.append(segment_mask(segment_ids, segment_ids)[:, None])
    result, _ = attention(logits, all_of(masks), jnp.swapaxes(v, 1, 2))
    return jnp.swapaxes(result, 1, 2).astype(q.dtype)


__all__ = ["DEFAULT_MASK_VALUE", "BlockSizes", "mha", "mha_reference", "segment_mask"]

public_functions(__all__, globals())
