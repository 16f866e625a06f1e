"""Attention of many heads with a bias, whose logits never lie in memory: kernels forward and for the derivative.

The last axis of the grid goes over blocks of keys, or on the way back to keys and values over blocks of queries.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pellucid.numpy as jnp
from pellucid._machine.base import ArgumentValueError, ShapeError, public_functions
from pellucid._machine.higher_order.custom_vjp import custom_vjp
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.ir import shaped_array
from pellucid._machine.primitives.dslice import ds
from pellucid._machine.tracing import type_of
from pellucid._machine.transforms.gradient import vjp
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
    fitted,
    padded_to,
    vary_alike,
)
from pellucid.kernels.grid import num_programs, program_id
from pellucid.kernels.kernel_call import pallas_call
from pellucid.kernels.specs import BlockSpec, CompilerParams

from .tiles import (
    Visit,
    forward,
    forward_scratch,
    keys_back,
    keys_scratch,
    places,
    queries_back,
    queries_scratch,
)

MIN_BLOCK_SIZE = 128
NUM_LANES = 128
NUM_SUBLANES = 8


class SegmentIds(NamedTuple):
    """Ids of queries [batch, queries] and keys [batch, keys], which attend to each other where they are equal."""

    q: Any
    kv: Any


@dataclass(frozen=True)
class BlockSizes:
    """Numbers of queries and keys in a block, forward and for the cotangents of keys and values (`dkv`) and of queries (`dq`).

    Keys come in blocks of `k_major`, whose logits are computed in parts of `k`; for `dkv` queries likewise. On the way back the forward sizes serve where none are
    given. `block_b` must divide the batch; a program has one element of it.

    Raises: ArgumentValueError for a part that doesn't divide its block.

    >>> BlockSizes(64, 128, 64, 1).has_backward_blocks
    False
    """

    block_q: int
    block_k_major: int
    block_k: int
    block_b: int
    block_q_major_dkv: int | None = None
    block_k_major_dkv: int | None = None
    block_k_dkv: int | None = None
    block_q_dkv: int | None = None
    block_k_major_dq: int | None = None
    block_k_dq: int | None = None
    block_q_dq: int | None = None

    def __post_init__(self) -> None:
        check_blocks(
            "BlockSizes",
            {
                f.name: n
                for f in dataclasses.fields(self)
                if (n := getattr(self, f.name)) is not None
            },
        )
        for part, block in (
            ("block_k", "block_k_major"),
            ("block_q_dkv", "block_q_major_dkv"),
            ("block_k_dkv", "block_k_major_dkv"),
            ("block_k_dq", "block_k_major_dq"),
        ):
            size, whole = getattr(self, part), getattr(self, block)
            if size is not None and whole is not None:
                check_divides("BlockSizes", part, size, block, whole)

    @property
    def has_backward_blocks(self) -> bool:
        """Whether block sizes for the backward pass are given."""
        return None not in dataclasses.astuple(self)

    @classmethod
    def get_default(
        cls, batch_size: int, num_heads: int, q_seq_len: int, kv_len: int, d_model: int
    ) -> BlockSizes:
        """128 everywhere, whatever the shapes.

        >>> BlockSizes.get_default(1, 1, 8, 8, 4).block_k_major
        128
        """
        return cls(128, 128, 128, 1, 128, 128, 128, 128, 128, 128, 128)


class _Setting(NamedTuple):
    """What the kernels know when they are traced."""

    logits: Logits
    is_causal: bool
    sizes: BlockSizes
    has_bias: bool
    is_segmented: bool


@functools.partial(jit, static_argnames=("causal", "sm_scale", "block_sizes", "debug"))
def flash_attention(
    q: Any,
    k: Any,
    v: Any,
    ab: Any = None,
    segment_ids: SegmentIds | None = None,
    *,
    causal: bool = False,
    sm_scale: float = 1.0,
    block_sizes: BlockSizes | None = None,
    debug: bool = False,
) -> Any:
    """`softmax(sm_scale (q k^T + ab)) v` for each head, without the [queries, keys] matrix in memory.

    `q`: [batch, heads, queries, head size]; `k`, `v`: [batch, heads, keys, head size]; result like `q`. `ab`: [batch, heads, queries, keys].
    `segment_ids`: places attend to those of their own segment. `causal`: query i attends to keys up to i. Logits and sums are in float32 or wider. A query
    that sees no key gives 0. Lengths that blocks don't divide are padded. The derivative is by kernels, too; that of `ab` is a matrix, as `ab` is.
    `debug` changes nothing.

    Raises: ShapeError for operands that don't fit; ArgumentValueError for a `block_b` that doesn't divide the batch.

    >>> x = jnp.ones((1, 2, 5, 4))
    >>> flash_attention(x, x, x, causal=True).shape
    (1, 2, 5, 4)
    >>> ids = SegmentIds(np.array([[0, 0, 1, 1, 1]]), np.array([[0, 0, 0, 0, 1]]))
    >>> flash_attention(x, x, x, segment_ids=ids)[0, 0, :, 0]
    Array([1., 1., 1., 1., 1.], dtype=float32)
    """
    q, k, v = map(jnp.asarray, (q, k, v))
    ab = None if ab is None else jnp.asarray(ab)
    _check(q, k, v, ab, segment_ids)
    (b, n, t, h), s = q.shape, k.shape[2]
    sizes = BlockSizes.get_default(b, n, t, s, h) if block_sizes is None else block_sizes
    if b % sizes.block_b:
        raise ArgumentValueError(
            "flash_attention: `block_b` must divide the batch.",
            got=f"block_b = {sizes.block_b}, batch of {b}",
        )
    setting = _Setting(Logits(sm_scale), causal, sizes, ab is not None, segment_ids is not None)
    ids = [] if segment_ids is None else [jnp.asarray(x) for x in segment_ids]
    return _flash(setting, *vary_alike(q, k, v, *([] if ab is None else [ab]), *ids))


def _check(q: Any, k: Any, v: Any, ab: Any, segment_ids: Any) -> None:
    named = {"q": q, "k": k, "v": v} | ({} if ab is None else {"ab": ab})
    texts = [f"{name}: {type_of(x).text()}" for name, x in named.items()]
    fits = q.ndim == k.ndim == 4 and k.shape == v.shape and 0 not in k.shape
    if not fits or q.shape[:2] != k.shape[:2] or q.shape[3] != k.shape[3]:
        raise ShapeError(
            "flash_attention needs [batch, heads, length, head size], all alike but for the length of the queries.",
            got=texts,
        )
    (b, n, t, _), s = q.shape, k.shape[2]
    if ab is not None and ab.shape != (b, n, t, s):
        raise ShapeError(
            "flash_attention needs an `ab` of [batch, heads, queries, keys].", got=texts
        )
    if segment_ids is not None:
        shapes = [jnp.shape(x) for x in segment_ids]
        if shapes != [(b, t), (b, s)]:
            raise ShapeError(
                "flash_attention needs segment ids [batch, queries] and [batch, keys].",
                got=[*texts, f"segment_ids: {shapes[0]}, {shapes[1]}"],
            )


class _Blocks(NamedTuple):
    """A grid `(batch, heads, m, n)`, whose last two axes go over blocks of queries and of keys, in this order or the other one."""

    queries: int
    keys: int
    query_axis: int

    @property
    def key_axis(self) -> int:
        return 5 - self.query_axis

    def spec(self, kind: str, head_size: int = 0) -> BlockSpec:
        """The block of an array of this kind for each program."""
        i, j = self.query_axis, self.key_axis
        shapes: dict[str, tuple[tuple[int | None, ...], Callable[..., Any]]] = {
            "queries": ((None, None, self.queries, head_size), lambda *p: (p[0], p[1], p[i], 0)),
            "keys": ((None, None, self.keys, head_size), lambda *p: (p[0], p[1], p[j], 0)),
            "statistics": ((None, None, self.queries), lambda *p: (p[0], p[1], p[i])),
            "bias": ((None, None, self.queries, self.keys), lambda *p: (p[0], p[1], p[i], p[j])),
            "query ids": ((None, self.queries), lambda *p: (p[0], p[i])),
            "key ids": ((None, self.keys), lambda *p: (p[0], p[j])),
        }
        return BlockSpec(*shapes[kind])

    def grid(self, q: Any, k: Any) -> tuple[int, ...]:
        sizes = {
            self.query_axis: q.shape[2] // self.queries,
            self.key_axis: k.shape[2] // self.keys,
        }
        return (*q.shape[:2], sizes[2], sizes[3])

    def visit(self, setting: _Setting, n_keys: int, extra: Sequence[Any]) -> Visit:
        """What a program knows; `extra` are references to the bias and to ids."""
        bias = extra[0] if setting.has_bias else None
        ids = extra[-2:] if setting.is_segmented else None
        block_q, block_k = program_id(self.query_axis), program_id(self.key_axis)

        def visible(first_query: Any, n: int, first_key: Any, m: int) -> Any:
            rows = places(block_q, self.queries, first_query, n)
            columns = places(block_k, self.keys, first_key, m)
            masks = []
            if n_keys % self.keys:
                masks.append(jnp.broadcast_to((columns < n_keys)[None, :], (n, m)))
            if setting.is_causal:
                masks.append(columns[None, :] <= rows[:, None])
            if ids is not None:
                masks.append(
                    ids[0][ds(first_query, n)][:, None] == ids[1][ds(first_key, m)][None, :]
                )
            return all_of(masks)

        step, last = program_id(3), num_programs(3) - 1
        is_active = not setting.is_causal or below_or_on_diag(
            block_q, self.queries, block_k, self.keys
        )
        return Visit(setting.logits, step == 0, step == last, is_active, visible, bias)

    def inputs(
        self, setting: _Setting, q: Any, k: Any, v: Any, extra: Sequence[Any]
    ) -> tuple[list[Any], list[BlockSpec]]:
        """(padded queries, keys, values, bias and ids, their specs)."""
        by_queries, by_keys = {2: self.queries}, {2: self.keys}
        arrays = [padded_to(q, by_queries), padded_to(k, by_keys), padded_to(v, by_keys)]
        specs = [self.spec("queries", q.shape[3]), *[self.spec("keys", x.shape[3]) for x in (k, v)]]
        if setting.has_bias:
            arrays.append(padded_to(extra[0], {2: self.queries, 3: self.keys}))
            specs.append(self.spec("bias"))
        if setting.is_segmented:
            sizes = (self.queries, self.keys)
            arrays += [padded_to(x, {1: n}) for x, n in zip(extra[-2:], sizes, strict=True)]
            specs += [self.spec("query ids"), self.spec("key ids")]
        return arrays, specs


_SEMANTICS = CompilerParams(dimension_semantics=("parallel", "parallel", "parallel", "arbitrary"))


def _forward(setting: _Setting, q: Any, k: Any, v: Any, *extra: Any) -> tuple[Any, Any]:
    """(result, logarithm of the sum of exponentials [batch, heads, queries])."""
    sizes, (_b, _n, t, h), s = setting.sizes, q.shape, k.shape[2]
    blocks = _Blocks(fitted(sizes.block_q, t), fitted(sizes.block_k_major, s), 2)
    part = _part_of(sizes.block_k, blocks.keys)
    arrays, specs = blocks.inputs(setting, q, k, v, extra)

    # References: queries, keys, values; bias and ids (`more`); result and logarithm; then scratch.
    def kernel(*refs: Any) -> None:
        inputs, more, outputs = refs[:3], refs[3 : len(arrays)], refs[len(arrays) :]
        forward(blocks.visit(setting, s, more), inputs, outputs[:2], outputs[2:], part)

    q = arrays[0]
    result, lse = pallas_call(
        kernel,
        [shaped_array(q.shape, q.dtype), shaped_array(q.shape[:3], wide(q.dtype))],
        grid=blocks.grid(q, arrays[1]),
        in_specs=specs,
        out_specs=[specs[0], blocks.spec("statistics")],
        scratch_shapes=forward_scratch(blocks.queries, h, q.dtype),
        compiler_params=_SEMANTICS,
        name="flash_attention",
    )(*arrays)
    return result[:, :, :t], lse[:, :, :t]


def _kept(setting: _Setting, q: Any, k: Any, v: Any, *extra: Any) -> Any:
    result, lse = _forward(setting, q, k, v, *extra)
    return result, (q, k, v, extra, result, lse)


def _backward(setting: _Setting, kept: Any, cotangent: Any) -> Any:
    q, k, v, extra, result, lse = kept
    statistics = cotangent, for_backward(lse), delta_of(result, cotangent)
    dq, dab = _queries_back(setting, q, k, v, extra, statistics)
    dk, dv = _keys_back(setting, q, k, v, extra, statistics)
    # The ids, two integer arrays, have no cotangent.
    return dq, dk, dv, *([dab] if setting.has_bias else []), *[None] * (2 * setting.is_segmented)


def _queries_back(setting: _Setting, q: Any, k: Any, v: Any, extra: Any, statistics: Any) -> Any:
    """(the cotangent of the queries, that of the bias or None)."""
    sizes, (_b, _n, t, h), s = setting.sizes, q.shape, k.shape[2]
    block_k = fitted(sizes.block_k_major_dq or sizes.block_k_major, s)
    blocks = _Blocks(fitted(sizes.block_q_dq or sizes.block_q, t), block_k, 2)
    part = _part_of(sizes.block_k_dq or sizes.block_k, block_k)
    arrays, specs = blocks.inputs(setting, q, k, v, extra)
    rows = [padded_to(x, {2: blocks.queries}) for x in statistics]
    inputs = [*arrays[:3], *rows, *arrays[3:]]
    row_specs = [specs[0], *[blocks.spec("statistics")] * 2]

    # References: queries, keys, values, statistics (6 in all); bias and ids; dq, that of the bias; then scratch.
    def kernel(*refs: Any) -> None:
        outputs = refs[len(inputs) :]
        bias_ref = outputs[1] if setting.has_bias else None
        visit = blocks.visit(setting, s, refs[6 : len(inputs)])
        queries_back(visit, refs[:6], outputs[0], bias_ref, outputs[-1:], part)

    padded = shaped_array(arrays[0].shape, q.dtype)
    bias = [shaped_array(arrays[3].shape, arrays[3].dtype)] if setting.has_bias else []
    dq, *dab = pallas_call(
        kernel,
        [padded, *bias],
        grid=blocks.grid(*arrays[:2]),
        in_specs=[*specs[:3], *row_specs, *specs[3:]],
        out_specs=[specs[0], *[blocks.spec("bias") for _ in bias]],
        scratch_shapes=queries_scratch(blocks.queries, h, q.dtype),
        compiler_params=_SEMANTICS,
        name="flash_attention_dq",
    )(*inputs)
    return dq[:, :, :t], dab[0][:, :, :t, :s] if dab else None


def _keys_back(setting: _Setting, q: Any, k: Any, v: Any, extra: Any, statistics: Any) -> Any:
    """The cotangents of keys and values."""
    sizes, (_b, _n, t, h), s = setting.sizes, q.shape, k.shape[2]
    if not t:  # no program would write the results
        return jnp.zeros_like(k), jnp.zeros_like(v)
    block_q = fitted(sizes.block_q_major_dkv or sizes.block_q, t)
    blocks = _Blocks(block_q, fitted(sizes.block_k_major_dkv or sizes.block_k_major, s), 3)
    part = _part_of(sizes.block_q_dkv or sizes.block_q, block_q)
    arrays, specs = blocks.inputs(setting, q, k, v, extra)
    rows = [padded_to(x, {2: blocks.queries}) for x in statistics]
    inputs = [*arrays[:3], *rows, *arrays[3:]]
    row_specs = [specs[0], *[blocks.spec("statistics")] * 2]

    # References: queries, keys, values, statistics (6 in all); bias and ids; dk and dv; then scratch.
    def kernel(*refs: Any) -> None:
        outputs = refs[len(inputs) :]
        visit = blocks.visit(setting, s, refs[6 : len(inputs)])
        keys_back(visit, refs[:6], outputs[:2], outputs[2:], part)

    dk, dv = pallas_call(
        kernel,
        [shaped_array(x.shape, x.dtype) for x in arrays[1:3]],
        grid=blocks.grid(*arrays[:2]),
        in_specs=[*specs[:3], *row_specs, *specs[3:]],
        out_specs=specs[1:3],
        scratch_shapes=keys_scratch(blocks.keys, h, h, q.dtype),
        compiler_params=_SEMANTICS,
        name="flash_attention_dkv",
    )(*inputs)
    return dk[:, :, :s], dv[:, :, :s]


def _part_of(part: int, block: int) -> int:
    """The size of the parts in which a block is computed; all of a block that was made smaller, if `part` doesn't divide it."""
    return part if block % part == 0 else block


def _result(setting: _Setting, *operands: Any) -> Any:
    q, k, v, *extra = operands
    return _forward(setting, q, k, v, *extra)[0]


_flash = custom_vjp(_result, nondiff_argnums=(0,))
_flash.defvjp(_kept, _backward)


# Plain forms --------------------------------------------------------------------------------------------------


def mha_reference(
    q: Any,
    k: Any,
    v: Any,
    ab: Any,
    segment_ids: SegmentIds | None = None,
    causal: bool = False,
    mask_value: float = DEFAULT_MASK_VALUE,
    sm_scale: float = 1.0,
) -> Any:
    """The plain form of `flash_attention`, with all logits at once. Raises: ArgumentValueError for a `mask_value` that is no large negative number.

    >>> x = jnp.ones((1, 1, 3, 2))
    >>> mha_reference(x, x, x, None)[0, 0, 0]
    Array([1., 1.], dtype=float32)
    """
    return mha_reference_no_custom_vjp(
        q, k, v, ab, segment_ids, causal=causal, mask_value=mask_value, sm_scale=sm_scale
    )


def mha_reference_no_custom_vjp(
    q: Any,
    k: Any,
    v: Any,
    ab: Any = None,
    segment_ids: SegmentIds | None = None,
    *,
    causal: bool = False,
    mask_value: float = DEFAULT_MASK_VALUE,
    sm_scale: float = 1.0,
    save_residuals: bool = False,
) -> Any:
    """The plain form; with `save_residuals` (result, sum of exp(logit - largest), largest), the last two [batch, heads, queries].

    >>> x = jnp.ones((1, 1, 3, 2))
    >>> mha_reference_no_custom_vjp(x, x, x, save_residuals=True)[1]
    Array([[[3., 3., 3.]]], dtype=float32)
    """
    check_mask_value("mha_reference", mask_value)
    q, k, v = map(jnp.asarray, (q, k, v))
    logits = jnp.einsum("bnth,bnsh->bnts", q, k, preferred_element_type=wide(q.dtype))
    logits = (logits if ab is None else logits + ab) * sm_scale
    masks = [jnp.tri(*logits.shape[2:], dtype=bool)] if causal else []
    if segment_ids is not None:
        q_ids, kv_ids = map(jnp.asarray, segment_ids)
        masks.append((q_ids[:, :, None] == kv_ids[:, None, :])[:, None])
    mask = all_of(masks)
    result, lse = attention(logits, mask, v)
    result = result.astype(q.dtype)
    if not save_residuals:
        return result
    largest = (logits if mask is None else jnp.where(mask, logits, -jnp.inf)).max(axis=-1)
    return result, jnp.exp(lse - largest), largest


def mha_reference_bwd(
    q: Any,
    k: Any,
    v: Any,
    ab: Any,
    segment_ids: SegmentIds | None,
    o: Any,
    l: Any,
    m: Any,
    do: Any,
    causal: bool = False,
    mask_value: float = DEFAULT_MASK_VALUE,
    sm_scale: float = 1.0,
) -> tuple[Any, Any, Any, Any]:
    """Cotangents of q, k, v and `ab` (None without one), from that of the result, `do`; `o`, `l` and `m` are computed anew.

    >>> x = jnp.ones((1, 1, 3, 2))
    >>> dq, dk, dv, dab = mha_reference_bwd(x, x, x, None, None, None, None, None, x)
    >>> dv[0, 0, 0].round(3)
    Array([1., 1.], dtype=float32)
    """
    given = [jnp.asarray(x) for x in (q, k, v)] + ([] if ab is None else [jnp.asarray(ab)])
    plain = lambda q, k, v, ab=None: mha_reference(
        q, k, v, ab, segment_ids, causal, mask_value, sm_scale
    )
    found = vjp(plain, *given)[1](do)
    return found[0], found[1], found[2], found[3] if len(found) > 3 else None


def below_or_on_diag(r: Any, r_blk_size: int, c: Any, c_blk_size: int) -> Any:
    """Whether block (r, c) of a matrix has an element that is below or on the diagonal.

    >>> below_or_on_diag(0, 4, 1, 4), below_or_on_diag(1, 4, 1, 4)
    (False, True)
    """
    return (r + 1) * r_blk_size > c * c_blk_size


__all__ = [
    "DEFAULT_MASK_VALUE", "MIN_BLOCK_SIZE", "NUM_LANES", "NUM_SUBLANES", "BlockSizes", "SegmentIds", "below_or_on_diag",
    "flash_attention", "mha_reference", "mha_reference_bwd", "mha_reference_no_custom_vjp",
]  # fmt: skip

public_functions(__all__, globals())
