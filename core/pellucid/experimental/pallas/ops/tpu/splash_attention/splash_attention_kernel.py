"""Attention with a mask that is known beforehand: blocks of keys that no query of a block sees are neither fetched nor computed.

A program visits the block of keys that `MaskInfo.data_next` names, which is prefetched. The bodies are those of `tiles`.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ShapeError,
    public_functions,
)
from pellucid._machine.higher_order.custom_vjp import custom_vjp
from pellucid._machine.higher_order.remat_policies import checkpoint_name
from pellucid._machine.ir import shaped_array
from pellucid._machine.primitives.dslice import ds
from pellucid._machine.tracing import type_of
from pellucid.experimental.pallas.ops.online_softmax import (
    DEFAULT_MASK_VALUE as DEFAULT_MASK_VALUE,
    Logits,
    all_of,
    attention,
    check_mask_value,
    delta_of,
    for_backward,
    wide,
)
from pellucid.experimental.pallas.ops.sizes import (
    check_blocks,
    check_divides,
    padded_to,
    vary_alike,
)
from pellucid.experimental.pallas.ops.tpu.tiles import (
    Visit,
    forward,
    forward_scratch,
    keys_back,
    keys_scratch,
    places,
    queries_back,
    queries_scratch,
)
from pellucid.kernels.grid import num_programs, program_id
from pellucid.kernels.kernel_call import pallas_call
from pellucid.kernels.specs import BlockSpec, CompilerParams, PrefetchScalarGridSpec
from pellucid.sharding import NamedSharding, PartitionSpec
from pellucid.tree_util import register_pytree_node_class

from .splash_attention_mask import FormulaMask, Mask, MultiHeadMask, NumpyMask
from .splash_attention_mask_info import (
    FULL,
    MaskInfo,
    process_dynamic_mask,
    process_dynamic_mask_dkv,
    process_mask,
    process_mask_dkv,
)

NUM_LANES, NUM_SUBLANES = 128, 8
NN_DIM_NUMBERS = (((1,), (0,)), ((), ()))
"""Dimensions of a product of matrices, for `lax.dot_general`."""
NT_DIM_NUMBERS = (((1,), (1,)), ((), ()))
"""Those of a product with a transposed matrix."""
MaskFunctionType: TypeAlias = Callable[..., Any]
SplashResidualsType: TypeAlias = tuple[Any, ...]
SplashCustomReturnType: TypeAlias = Any


class SegmentIds(NamedTuple):
    """Ids of queries [queries] and keys [keys], which see each other only where they are equal."""

    q: Any
    kv: Any


class QKVLayout(enum.IntEnum):
    """Which dimension of a matrix is consecutive in memory of a TPU; results don't depend on it."""

    HEAD_DIM_MINOR = enum.auto()
    SEQ_MINOR = enum.auto()


def from_head_minor(vals: tuple[Any, ...], layout: QKVLayout) -> tuple[Any, ...]:
    """`vals`, of which the last two change places for `SEQ_MINOR`.

    >>> from_head_minor((1, 2, 3), QKVLayout.SEQ_MINOR)
    (1, 3, 2)
    """
    return vals if layout == QKVLayout.HEAD_DIM_MINOR else (*vals[:-2], vals[-1], vals[-2])


@dataclass(frozen=True)
class BlockSizes:
    """Numbers of queries and keys in a block, forward, for the cotangents of keys and values (`dkv`), and of queries (`dq`).

    Logits of a block are computed in parts: forward of `block_kv_compute` keys. Where sizes for the way back are missing the forward ones serve.
    `use_fused_bwd_kernel`, `block_kv_dkv_compute` and the layouts change no result, and nothing on devices that run kernels as programs.

    Raises: ArgumentValueError for a part that doesn't divide its block.

    >>> BlockSizes(128, 256).block_kv_compute
    256
    """

    block_q: int
    block_kv: int
    block_kv_compute: int | None = None
    block_q_dkv: int | None = None
    block_kv_dkv: int | None = None
    block_kv_dkv_compute: int | None = None
    block_q_dq: int | None = None
    block_kv_dq: int | None = None
    use_fused_bwd_kernel: bool = False
    q_layout: QKVLayout = QKVLayout.HEAD_DIM_MINOR
    k_layout: QKVLayout = QKVLayout.HEAD_DIM_MINOR
    v_layout: QKVLayout = QKVLayout.HEAD_DIM_MINOR

    def __post_init__(self) -> None:
        if self.block_kv_compute is None:
            object.__setattr__(self, "block_kv_compute", self.block_kv)
        if self.block_kv_dkv_compute is None:
            object.__setattr__(self, "block_kv_dkv_compute", self.block_kv_dkv)
        sizes = {f: n for f, n in vars(self).items() if f.startswith("block") and n is not None}
        check_blocks("BlockSizes", sizes)
        for part, block in (
            ("block_kv_compute", "block_kv"),
            ("block_kv_dkv_compute", "block_kv_dkv"),
        ):
            if part in sizes and block in sizes:
                check_divides("BlockSizes", part, sizes[part], block, sizes[block])

    @property
    def has_backward_blocks(self) -> bool:
        """Whether sizes for the way back are given."""
        return None not in (self.block_q_dkv, self.block_kv_dkv, self.block_q_dq, self.block_kv_dq)

    @classmethod
    def get_default(cls) -> BlockSizes:
        """128 everywhere.

        >>> BlockSizes.get_default().block_q_dq
        128
        """
        return cls(128, 128, 128, 128, 128, 128, 128, 128)

    def dkv(self) -> tuple[int, int]:
        return self.block_q_dkv or self.block_q, self.block_kv_dkv or self.block_kv

    def dq(self) -> tuple[int, int]:
        return self.block_q_dq or self.block_q, self.block_kv_dq or self.block_kv


def get_kernel_name(is_mqa: bool, save_residuals: bool, is_segmented: bool, phase: str) -> str:
    """The name of a kernel in a program: `phase` is "fwd", "dq" or "dkv".

    >>> get_kernel_name(True, False, True, "fwd")
    'splash_mqa_fwd_segmented_no_residuals'
    """
    heads, segments = "mqa" if is_mqa else "mha", "_segmented" if is_segmented else ""
    residuals = ("_residuals" if save_residuals else "_no_residuals") if phase == "fwd" else ""
    return f"splash_{heads}_{phase}{segments}{residuals}"


class _Setting(NamedTuple):
    """What the kernels know when they are traced."""

    sizes: BlockSizes
    is_mqa: bool
    soft_cap: float | None
    formula: FormulaMask | None
    save_residuals: bool
    checkpoint_name: str | None
    is_segmented: bool
    has_sinks: bool
    is_dynamic: bool

    def info(self, arrays: tuple[Any, ...]) -> MaskInfo:
        """What is known of the mask, from its arrays."""
        data_next, mask_next, block_mask, blocks, positions = arrays
        return MaskInfo(data_next, mask_next, block_mask, blocks, positions, self.is_dynamic)


# The grid -----------------------------------------------------------------------------------------------------


class _Visits(NamedTuple):
    """A grid (heads, own blocks, visits), and what is prefetched of the mask: the block of each visit, its kind, its place among the partial blocks."""

    block_q: int
    block_kv: int
    is_dkv: bool
    group: int
    """Heads of queries for each of keys."""
    n_masks: int
    sizes: tuple[int, int, int]

    def at(self, ref: Any, p: Any) -> Any:
        """The entry of prefetched numbers for program `p`."""
        head = p[0] if self.n_masks > 1 else 0
        return ref[head, p[2], p[1]] if self.is_dkv else ref[head, p[1], p[2]]

    def query_block(self, p: Any, data: Any) -> Any:
        return self.at(data, p) if self.is_dkv else p[1]

    def key_block(self, p: Any, data: Any) -> Any:
        return p[1] if self.is_dkv else self.at(data, p)

    def queries(self, size: int) -> BlockSpec:
        return BlockSpec(
            (None, self.block_q, size), lambda *p: (p[0], self.query_block(p, p[3]), 0)
        )

    def keys(self, size: int) -> BlockSpec:
        place = lambda *p: (p[0] // self.group, self.key_block(p, p[3]), 0)
        return BlockSpec((None, self.block_kv, size), place)

    def own_keys(self, size: int) -> BlockSpec:
        """Blocks of cotangents of keys, one for each head of queries."""
        return BlockSpec((None, self.block_kv, size), lambda *p: (p[0], p[1], 0))

    def statistics(self) -> BlockSpec:
        return BlockSpec((None, self.block_q), lambda *p: (p[0], self.query_block(p, p[3])))

    def of_queries(self) -> BlockSpec:
        return BlockSpec((self.block_q,), lambda *p: (self.query_block(p, p[3]),))

    def of_keys(self) -> BlockSpec:
        return BlockSpec((self.block_kv,), lambda *p: (self.key_block(p, p[3]),))

    def mask(self) -> BlockSpec:
        return BlockSpec((None, self.block_q, self.block_kv), lambda *p: (self.at(p[5], p), 0, 0))


def _visits(
    info: MaskInfo, block: tuple[int, int], q: Any, k: Any, *, is_dkv: bool
) -> tuple[_Visits, list[Any]]:
    """(the grid, its prefetched scalars)."""
    kinds = jnp.asarray(info.block_mask).astype(np.int32)
    blocks = (-(-q.shape[1] // block[0]), -(-k.shape[1] // block[1]))
    own, found = (blocks[1], kinds.shape[2]) if is_dkv else (blocks[0], kinds.shape[1])
    if own != found or kinds.shape[0] not in (1, q.shape[0]):
        raise ShapeError(
            "splash attention needs a mask of the heads, queries and keys that it is given.",
            got=f"{q.shape[0]} heads, {q.shape[1]} queries, {k.shape[1]} keys; a mask of {kinds.shape[0]} heads, blocks {kinds.shape[1:]} of {block}",
        )
    width = kinds.shape[1] if is_dkv else kinds.shape[2]
    if info.is_dynamic_mask:
        places = jnp.arange(kinds.size, dtype=np.int32).reshape(kinds.shape)
    else:
        places = jnp.zeros_like(kinds) if info.mask_next is None else jnp.asarray(info.mask_next)
    visits = _Visits(
        *block, is_dkv, q.shape[0] // k.shape[0], kinds.shape[0], (q.shape[0], own, width)
    )
    return visits, [jnp.asarray(info.data_next).astype(np.int32), kinds, places.astype(np.int32)]


class _Call:
    """One kernel over the blocks of a mask: what it is given besides queries, keys and values."""

    def __init__(self, setting: _Setting, info: MaskInfo, block: tuple[int, int], q: Any, k: Any, segment_ids: Any, *, is_dkv: bool) -> None:  # fmt: skip
        self.setting, self.n_keys = setting, k.shape[1]
        self.visits, self.scalars = _visits(info, block, q, k, is_dkv=is_dkv)
        self.padding = ({1: block[0]}, {1: block[1]})
        extra: list[tuple[str, Any, BlockSpec]] = []
        if info.partial_mask_blocks is not None:
            # A dynamic mask has its blocks by head, row and column, a static one by number: here both are one list.
            blocks = jnp.asarray(info.partial_mask_blocks)
            extra.append(("mask", blocks.reshape((-1, *blocks.shape[-2:])), self.visits.mask()))
        if setting.formula is not None:
            positions = padded_to(jnp.asarray(info.q_sequence), {0: block[0]})
            extra.append(("positions", positions, self.visits.of_queries()))
        if segment_ids is not None:
            ids = [jnp.asarray(x) for x in segment_ids]
            extra.append(("query ids", padded_to(ids[0], {0: block[0]}), self.visits.of_queries()))
            extra.append(("key ids", padded_to(ids[1], {0: block[1]}), self.visits.of_keys()))
        self.names = [name for name, _, _ in extra]
        self.arrays, self.specs = [x for _, x, _ in extra], [spec for _, _, spec in extra]

    def visit(self, scalars: Any, refs: Any) -> Visit:
        """What a program knows, given the references to the prefetched scalars and to `arrays`."""
        data, kinds, _ = scalars
        by_name, visits = dict(zip(self.names, refs, strict=True)), self.visits
        p = [program_id(axis) for axis in range(3)]
        kind, key_block = visits.at(kinds, p), visits.key_block(p, data)

        def visible(first_query: Any, n: int, first_key: Any, m: int) -> Any:
            rows, columns = ds(first_query, n), ds(first_key, m)
            keys = places(key_block, visits.block_kv, first_key, m)
            masks = []
            if self.n_keys % visits.block_kv:
                masks.append(jnp.broadcast_to((keys < self.n_keys)[None, :], (n, m)))
            if "mask" in by_name:
                masks.append(by_name["mask"][rows, columns] | (kind == FULL))
            if self.setting.formula is not None:
                queries = by_name["positions"][rows]
                masks.append(self.setting.formula.visible(queries[:, None], keys[None, :]))
            if self.setting.is_segmented:
                ids = by_name["query ids"][rows], by_name["key ids"][columns]
                masks.append(ids[0][:, None] == ids[1][None, :])
            return all_of(masks)

        step, last = p[2], num_programs(2) - 1
        return Visit(Logits(1.0, self.setting.soft_cap), step == 0, step == last, kind > 0, visible)

    def run(self, name: str, body: Callable[..., None], operands: Any, specs: Any, results: Any, result_specs: Any, scratch: Any) -> Any:  # fmt: skip
        """The results of `body(visit, references to operands, those to results, scratch)`."""
        n, m = len(operands), len(operands) + len(self.arrays)

        def kernel(*refs: Any) -> None:
            scalars, refs = refs[:3], refs[3:]
            outputs = refs[m:]
            body(
                self.visit(scalars, refs[n:m]),
                refs[:n],
                outputs[: len(results)],
                outputs[len(results) :],
            )

        return pallas_call(
            kernel,
            results,
            grid_spec=PrefetchScalarGridSpec(
                num_scalar_prefetch=3,
                grid=self.visits.sizes,
                in_specs=[*specs, *self.specs],
                out_specs=result_specs,
                scratch_shapes=scratch,
            ),
            compiler_params=CompilerParams(
                dimension_semantics=("parallel", "parallel", "arbitrary"),
                disable_bounds_checks=True,
            ),
            name=name,
        )(*self.scalars, *operands, *self.arrays)


# Forward and back -----------------------------------------------------------------------------------------------


def _forward(
    setting: _Setting, info: tuple[Any, ...], q: Any, k: Any, v: Any, ids: Any, sinks: Any
) -> tuple[Any, Any]:
    """(result, logarithm of the sum of exponentials [heads, queries])."""
    sizes = setting.sizes
    call = _Call(
        setting, setting.info(info), (sizes.block_q, sizes.block_kv), q, k, ids, is_dkv=False
    )
    by_queries, by_keys = call.padding
    q_padded, k_padded, v_padded = (
        padded_to(q, by_queries),
        padded_to(k, by_keys),
        padded_to(v, by_keys),
    )
    part, visits, (n, t, h), value_size = (
        sizes.block_kv_compute or 0,
        call.visits,
        q.shape,
        v.shape[2],
    )
    result, lse = call.run(
        get_kernel_name(setting.is_mqa, setting.save_residuals, setting.is_segmented, "fwd"),
        lambda visit, refs, outputs, scratch: forward(visit, refs, outputs, scratch, part),
        [q_padded, k_padded, v_padded],
        [visits.queries(h), visits.keys(h), visits.keys(value_size)],
        [
            shaped_array((n, q_padded.shape[1], value_size), q.dtype),
            shaped_array((n, q_padded.shape[1]), wide(q.dtype)),
        ],
        [visits.queries(value_size), visits.statistics()],
        forward_scratch(sizes.block_q, value_size, q.dtype),
    )
    result, lse = result[:, :t], lse[:, :t]
    if sinks is None:
        return result, lse
    # A sink is a logit without a value: it adds to the sum alone.
    with_sink = jnp.logaddexp(lse, sinks.astype(lse.dtype)[:, None])
    result = result * jnp.exp(lse - with_sink)[:, :, None].astype(result.dtype)
    return result, with_sink


def _kept(setting: _Setting, infos: Any, q: Any, k: Any, v: Any, ids: Any, sinks: Any) -> Any:
    result, lse = _forward(setting, infos[0], q, k, v, ids, sinks)
    if setting.checkpoint_name is not None:
        result, lse = [checkpoint_name(x, setting.checkpoint_name) for x in (result, lse)]
    return result, (infos, q, k, v, ids, sinks, result, lse)


def _backward(setting: _Setting, kept: Any, cotangent: Any) -> Any:
    infos, q, k, v, ids, sinks, result, lse = kept
    delta = delta_of(result, cotangent)
    statistics = for_backward(lse), delta
    sizes, (n, t, h), (m, s, value_size) = setting.sizes, q.shape, v.shape
    names = [get_kernel_name(setting.is_mqa, False, setting.is_segmented, x) for x in ("dq", "dkv")]

    def operands(call: _Call) -> tuple[list[Any], list[BlockSpec]]:
        by_queries, by_keys = call.padding
        arrays = [
            padded_to(x, by)
            for x, by in ((q, by_queries), (k, by_keys), (v, by_keys), (cotangent, by_queries))
        ]
        arrays += [padded_to(x, by_queries) for x in statistics]
        visits = call.visits
        specs = [
            visits.queries(h),
            visits.keys(h),
            visits.keys(value_size),
            visits.queries(value_size),
        ]
        return arrays, [*specs, visits.statistics(), visits.statistics()]

    call = _Call(setting, setting.info(infos[1]), sizes.dq(), q, k, ids, is_dkv=False)
    arrays, specs = operands(call)
    [dq] = call.run(
        names[0],
        lambda visit, refs, outputs, scratch: queries_back(
            visit, refs, outputs[0], None, scratch, sizes.dq()[1]
        ),
        arrays,
        specs,
        [shaped_array(arrays[0].shape, q.dtype)],
        specs[:1],
        queries_scratch(sizes.dq()[0], h, q.dtype),
    )
    call = _Call(setting, setting.info(infos[2]), sizes.dkv(), q, k, ids, is_dkv=True)
    arrays, specs = operands(call)
    shapes = [(n, *arrays[i].shape[1:]) for i in (1, 2)]
    dk, dv = call.run(
        names[1],
        lambda visit, refs, outputs, scratch: keys_back(
            visit, refs, outputs, scratch, sizes.dkv()[0]
        ),
        arrays,
        specs,
        # Cotangents of keys are summed over the heads of queries that they serve.
        [shaped_array(shape, wide(q.dtype) if n > m else k.dtype) for shape in shapes],
        [call.visits.own_keys(h), call.visits.own_keys(value_size)],
        keys_scratch(sizes.dkv()[1], h, value_size, q.dtype),
    )
    dk, dv = [x[:, :s].reshape((m, n // m, s, x.shape[2])).sum(1) for x in (dk, dv)]
    dsinks = None
    if setting.has_sinks:
        weights = jnp.exp(sinks.astype(lse.dtype)[:, None] - lse)
        dsinks = -(weights * delta).sum(axis=1).astype(sinks.dtype)
    nothing = (None, None, None)
    return nothing, dq[:, :t], dk.astype(k.dtype), dv.astype(v.dtype), None, dsinks


def _result(setting: _Setting, infos: Any, q: Any, k: Any, v: Any, ids: Any, sinks: Any) -> Any:
    return _forward(setting, infos[0], q, k, v, ids, sinks)[0]


_splash = custom_vjp(_result, nondiff_argnums=(0,))
_splash.defvjp(_kept, _backward)


# The kernel as users have it --------------------------------------------------------------------------------------


@register_pytree_node_class
class SplashAttentionKernel:
    """Attention with the mask that it was made for: a function of q, k, v, `segment_ids` and `sinks`, without a batch; `vmap` gives one.

    `q`: [heads, queries, head size]; `k`, `v`: [heads of keys, keys, head size], for one head of keys without the first dimension;
    result: [heads, queries, head size of v]. `sinks` [heads]: logits without a value. It is a tree of the arrays that describe the mask, so it goes through `jit` and `shard_map`.
    """

    def __init__(
        self,
        fwd_mask_info: Any,
        dq_mask_info: MaskInfo | None,
        dkv_mask_info: MaskInfo | None,
        **kwargs: Any,
    ) -> None:
        self.fwd_mask_info, self.dq_mask_info, self.dkv_mask_info = (
            fwd_mask_info,
            dq_mask_info,
            dkv_mask_info,
        )
        self.kwargs = kwargs

    def __call__(
        self, q: Any, k: Any, v: Any, segment_ids: SegmentIds | None = None, sinks: Any = None
    ) -> Any:
        """`softmax(q k^T) v` over the visible keys; with `save_residuals` also the logarithm of the sum of exponentials, as `(result, (logsumexp,))`.

        Raises: ShapeError for operands that don't fit the mask.
        """
        kwargs = self.kwargs
        q, k, v = map(jnp.asarray, (q, k, v))
        is_mqa = kwargs["is_mqa"]
        _check(q, k, v, segment_ids, sinks, is_mqa=is_mqa)
        k, v = (k[None], v[None]) if is_mqa else (k, v)
        setting = _Setting(
            kwargs["block_sizes"] or BlockSizes.get_default(),
            is_mqa,
            kwargs["attn_logits_soft_cap"],
            kwargs["mask_function"],
            kwargs["save_residuals"],
            kwargs["residual_checkpoint_name"],
            segment_ids is not None,
            sinks is not None,
            bool(self.fwd_mask_info.is_dynamic_mask),
        )
        ids = None if segment_ids is None else tuple(map(jnp.asarray, segment_ids))
        sinks = None if sinks is None else jnp.asarray(sinks)
        if setting.save_residuals:
            result, lse = _forward(setting, self.fwd_mask_info[:5], q, k, v, ids, sinks)
            return result, (lse,)
        given = (self.fwd_mask_info, self.dq_mask_info, self.dkv_mask_info)
        infos = tuple([None if x is None else x[:5] for x in given])
        q, k, v, sinks = vary_alike(q, k, v, sinks)
        return _splash(setting, infos, q, k, v, ids, sinks)

    def manual_sharding_spec(self, sharding: NamedSharding) -> SplashAttentionKernel:
        """The tree of PartitionSpecs for `shard_map`, where `sharding` is how heads and queries are divided.

        Raises: ArgumentTypeError for a sharding that isn't of heads and queries.
        """
        if not isinstance(sharding, NamedSharding) or len(sharding.spec) > 2:
            raise ArgumentTypeError(
                "manual_sharding_spec needs a NamedSharding of heads and queries.",
                got=f"got {sharding!r:.80}",
            )
        heads, queries = (*sharding.spec, None, None)[:2]

        def specs(info: MaskInfo | None) -> MaskInfo | None:
            if info is None:
                return None
            whole, lines = PartitionSpec(), PartitionSpec(heads, queries)
            blocks = PartitionSpec(heads, queries) if info.is_dynamic_mask else whole
            given = MaskInfo(lines, lines, lines, blocks, PartitionSpec(queries))
            parts = {
                name: spec if getattr(info, name) is not None else None
                for name, spec in given._asdict().items()
            }
            return MaskInfo(**parts)._replace(is_dynamic_mask=info.is_dynamic_mask)

        return SplashAttentionKernel(
            specs(self.fwd_mask_info),
            specs(self.dq_mask_info),
            specs(self.dkv_mask_info),
            **self.kwargs,
        )

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        """(arrays that describe the mask, static data)."""
        infos = (self.fwd_mask_info, self.dq_mask_info, self.dkv_mask_info)
        # `is_dynamic_mask` is a Python bool, no array.
        is_dynamic = bool(self.fwd_mask_info.is_dynamic_mask)
        children = tuple([None if x is None else x[:5] for x in infos])
        return children, (is_dynamic, tuple(self.kwargs.items()))

    @classmethod
    def tree_unflatten(cls, kwargs: Any, values: Any) -> SplashAttentionKernel:
        """The inverse of `tree_flatten`."""
        is_dynamic, items = kwargs
        names = MaskInfo._fields[:5]
        infos: list[Any] = [
            None
            if x is None
            else MaskInfo(**dict(zip(names, x, strict=True)), is_dynamic_mask=is_dynamic or None)
            for x in values
        ]
        return cls(*infos, **dict(items))


def _check(q: Any, k: Any, v: Any, segment_ids: Any, sinks: Any, *, is_mqa: bool) -> None:
    texts = [f"{name}: {type_of(x).text()}" for name, x in (("q", q), ("k", k), ("v", v))]
    rank = 2 if is_mqa else 3
    fits = (
        q.ndim == 3
        and k.ndim == v.ndim == rank
        and k.shape[:-1] == v.shape[:-1]
        and q.shape[-1] == k.shape[-1]
    )
    if not fits or (not is_mqa and (not k.shape[0] or q.shape[0] % k.shape[0])):
        keys = (
            "[keys, head size]"
            if is_mqa
            else "[heads, keys, head size], of a number of heads that divides that of q"
        )
        raise ShapeError(
            f"splash attention needs q [heads, queries, head size], k and v {keys}.", got=texts
        )
    if segment_ids is not None:
        shapes = [jnp.shape(x) for x in segment_ids]
        if shapes != [(q.shape[1],), (k.shape[-2],)]:
            raise ShapeError("splash attention needs a segment id for each query, and for each key.", got=[*texts, f"segment_ids: {shapes[0]}, {shapes[1]}"])  # fmt: skip
    if sinks is not None and jnp.shape(sinks) != q.shape[:1]:
        raise ShapeError(
            "splash attention needs one sink for each head.",
            got=[*texts, f"sinks: {jnp.shape(sinks)}"],
        )


def _make(
    mask: Any,
    *,
    block_sizes: BlockSizes | None = None,
    is_mqa: bool,
    save_residuals: bool = False,
    mask_value: float = DEFAULT_MASK_VALUE,
    attn_logits_soft_cap: float | None = None,
    downcast_smem_data: bool = True,
    head_shards: int,
    q_seq_shards: int,
    residual_checkpoint_name: str | None = None,
    interpret: bool = False,
) -> SplashAttentionKernel:
    check_mask_value("make_splash_attention", mask_value)
    sizes = BlockSizes.get_default() if block_sizes is None else block_sizes
    is_dynamic = not isinstance(mask, (Mask, np.ndarray))
    if isinstance(mask, np.ndarray):
        mask = MultiHeadMask([NumpyMask(x) for x in (mask[None] if mask.ndim == 2 else mask)])
    if is_dynamic and not hasattr(mask, "shape"):
        raise ArgumentTypeError(
            "a mask of splash attention is a Mask or an array of booleans.",
            got=f"got {type(mask).__name__}",
        )
    process, process_dkv = (
        (process_dynamic_mask, process_dynamic_mask_dkv)
        if is_dynamic
        else (process_mask, process_mask_dkv)
    )
    options = {
        "downcast_smem_data": downcast_smem_data,
        "head_shards": head_shards,
        "q_seq_shards": q_seq_shards,
    }
    forward_info, formula = process(mask, (sizes.block_q, sizes.block_kv), **options)
    infos = [process(mask, sizes.dq(), **options)[0], process_dkv(mask, sizes.dkv(), **options)[0]]
    return SplashAttentionKernel(
        forward_info,
        *([None, None] if save_residuals else infos),
        block_sizes=sizes,
        is_mqa=is_mqa,
        save_residuals=save_residuals,
        mask_value=mask_value,
        attn_logits_soft_cap=attn_logits_soft_cap,
        residual_checkpoint_name=residual_checkpoint_name,
        mask_function=formula,
        interpret=interpret,
    )


make_splash_mha = functools.partial(_make, is_mqa=False)
make_splash_mqa = functools.partial(_make, is_mqa=True)
make_splash_mha_single_device = functools.partial(make_splash_mha, head_shards=1, q_seq_shards=1)
make_splash_mqa_single_device = functools.partial(make_splash_mqa, head_shards=1, q_seq_shards=1)


# Plain forms --------------------------------------------------------------------------------------------------


def attention_reference(
    mask: Any,
    q: Any,
    k: Any,
    v: Any,
    segment_ids: SegmentIds | None,
    sinks: Any = None,
    *,
    mask_value: float = DEFAULT_MASK_VALUE,
    save_residuals: bool = False,
    custom_type: str = "flash",
    attn_logits_soft_cap: float | None = None,
) -> Any:
    """The plain form for one head: `q` [queries, head size], `mask` booleans [queries, keys], `sinks` a number. `custom_type` changes nothing.

    >>> x = jnp.ones((2, 3))
    >>> attention_reference(np.tri(2, dtype=bool), x, x, x, None)[0]
    Array([1., 1., 1.], dtype=float32)
    """
    check_mask_value("attention_reference", mask_value)
    q, k, v, mask = map(jnp.asarray, (q, k, v, mask))
    if segment_ids is not None:
        mask = mask & (jnp.asarray(segment_ids.q)[:, None] == jnp.asarray(segment_ids.kv)[None, :])
    logits = Logits(1.0, attn_logits_soft_cap).of(q, k)
    result, lse = attention(logits, mask, v)
    if sinks is not None:
        total = jnp.logaddexp(lse, jnp.asarray(sinks).astype(lse.dtype))
        result, lse = result * jnp.exp(lse - total)[:, None], total
    result = result.astype(q.dtype)
    return (result, (lse,)) if save_residuals else result


def attention_reference_custom(
    mask: Any,
    q: Any,
    k: Any,
    v: Any,
    segment_ids: SegmentIds | None,
    sinks: Any = None,
    *,
    mask_value: float = DEFAULT_MASK_VALUE,
    save_residuals: bool = False,
    custom_type: str = "flash",
    attn_logits_soft_cap: float | None = None,
) -> Any:
    """`attention_reference`, whose derivative is that of its formula.

    >>> x = jnp.ones((2, 3))
    >>> attention_reference_custom(np.tri(2, dtype=bool), x, x, x, None).shape
    (2, 3)
    """
    return attention_reference(
        mask, q, k, v, segment_ids, sinks, mask_value=mask_value, save_residuals=save_residuals,
        custom_type=custom_type, attn_logits_soft_cap=attn_logits_soft_cap,
    )  # fmt: skip


def make_attention_reference(
    mask: Mask | Any, is_mqa: bool, backward_impl: str = "vanilla", **params: Any
) -> Callable[..., Any]:
    """The plain form for all heads, as a function of q, k, v, `segment_ids` and `sinks`. `backward_impl` changes nothing.

    >>> from .splash_attention_mask import CausalMask
    >>> x = jnp.ones((2, 4, 3))
    >>> make_attention_reference(MultiHeadMask([CausalMask((4, 4))] * 2), False)(x, x, x, None).shape
    (2, 4, 3)
    """
    if backward_impl not in ("vanilla", "flash"):
        raise ArgumentValueError(
            '`backward_impl` must be "vanilla" or "flash".', got=f"got {backward_impl!r}"
        )
    array = (
        mask[:, :, :]
        if isinstance(mask, MultiHeadMask)
        else mask[:, :]
        if isinstance(mask, Mask)
        else mask
    )

    def reference(q: Any, k: Any, v: Any, segment_ids: Any = None, sinks: Any = None) -> Any:
        heads = q.shape[0]
        group = heads if is_mqa else heads // k.shape[0]
        found = []
        for i in range(heads):
            keys, values = (k, v) if is_mqa else (k[i // group], v[i // group])
            own = array[i] if array.ndim == 3 else array
            sink = None if sinks is None else sinks[i]
            found.append(attention_reference(own, q[i], keys, values, segment_ids, sink, **params))
        if params.get("save_residuals"):
            return jnp.stack([x for x, _ in found]), (jnp.stack([x for _, (x,) in found]),)
        return jnp.stack(found)

    return reference


make_masked_mha_reference = functools.partial(make_attention_reference, is_mqa=False)
make_masked_mqa_reference = functools.partial(make_attention_reference, is_mqa=True)

__all__ = [
    "DEFAULT_MASK_VALUE", "NN_DIM_NUMBERS", "NT_DIM_NUMBERS", "NUM_LANES", "NUM_SUBLANES", "BlockSizes", "MaskFunctionType", "QKVLayout",
    "SegmentIds", "SplashAttentionKernel", "SplashCustomReturnType", "SplashResidualsType", "attention_reference",
    "attention_reference_custom", "from_head_minor", "get_kernel_name", "make_attention_reference", "make_masked_mha_reference",
    "make_masked_mqa_reference", "make_splash_mha", "make_splash_mha_single_device", "make_splash_mqa", "make_splash_mqa_single_device",
]  # fmt: skip

public_functions(__all__, globals())
