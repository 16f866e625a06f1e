"""Attention on Hopper GPUs, as FlashAttention-3 (Shah et al., 2024) divides it: one thread of a block copies keys and values for two, each of which has its own queries."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ShapeError,
    public_functions,
)
from pellucid._machine.higher_order.cond import platform_dependent
from pellucid._machine.higher_order.custom_vjp import custom_vjp
from pellucid._machine.higher_order.custom_vmap import sequential_vmap
from pellucid._machine.higher_order.loops import fori_loop
from pellucid._machine.ir import shaped_array
from pellucid._machine.parallel.axes import axis_index
from pellucid._machine.primitives import broadcasted_iota
from pellucid._machine.primitives.dslice import ds
from pellucid._machine.transforms.gradient import vjp
from pellucid.experimental.pallas.ops.sizes import padded_to
from pellucid.kernels.gpu.barriers import barrier_arrive, barrier_wait
from pellucid.kernels.gpu.copies import copy_gmem_to_smem, copy_smem_to_gmem
from pellucid.kernels.gpu.fences import commit_smem, set_max_registers, wait_smem_to_gmem
from pellucid.kernels.gpu.memory import ACC, Barrier, MemorySpace
from pellucid.kernels.gpu.products import wgmma
from pellucid.kernels.gpu.transforms import SwizzleTransform, TilingTransform, transpose_ref
from pellucid.kernels.gpu_kernel import kernel as gpu_kernel
from pellucid.kernels.inside import run_scoped, when

from .hopper_matmul_mgpu import DTYPES, at_least

_LOG2_E = np.float32(1.4426950408889634)
_HIDDEN = np.float32(-1e30)
"""The logarithm of the weight of a key that a query doesn't see."""
_COLUMNS = 64
"""Sizes of heads are padded to a multiple: rows of 128 bytes."""


@dataclass(frozen=True)
class TuningConfig:
    """Sizes of attention on Hopper GPUs.

    Each of two threads has `block_q` queries; `block_kv` keys are seen at once, and copied `max_concurrent_steps` blocks ahead. With `causal` a query sees keys at its own
    place and before. The others change nothing: derivatives are those of the plain form.

    >>> TuningConfig(block_q=64, block_kv=128, max_concurrent_steps=2).has_backward_blocks
    False
    """

    block_q: int
    block_kv: int
    max_concurrent_steps: int
    use_schedule_barrier: bool = True
    causal: bool = False
    compute_wgs_bwd: int = 1
    block_q_dkv: int | None = None
    block_kv_dkv: int | None = None
    block_q_dq: int | None = None
    block_kv_dq: int | None = None

    def __post_init__(self) -> None:
        for name, step, least in (
            ("block_q", 64, 64),
            ("block_kv", 64, 64),
            ("max_concurrent_steps", 1, 2),
        ):
            n = getattr(self, name)
            if isinstance(n, bool) or not isinstance(n, int) or n < least or n % step:
                raise ArgumentValueError(
                    f"TuningConfig: `{name}` is a multiple of {step}, from {least} on.",
                    got=f"got {n!r:.40}",
                )
        given = [n is not None for n in self._backward_blocks]
        if any(given) and not all(given):
            raise ArgumentValueError(
                "TuningConfig: sizes of blocks for the backward pass are given all, or none.",
                got=f"{self._backward_blocks}",
            )

    @property
    def _backward_blocks(self) -> tuple[int | None, ...]:
        return self.block_q_dkv, self.block_kv_dkv, self.block_q_dq, self.block_kv_dq

    @property
    def has_backward_blocks(self) -> bool:
        """Whether sizes of blocks for the backward pass are given."""
        return None not in self._backward_blocks


def attention(q: Any, k: Any, v: Any, config: TuningConfig, save_residuals: bool = False) -> Any:
    """Softmax of `q @ k.T`, not scaled, times `v`, for each head; like `q`. With `save_residuals` also, in a tuple of one, the logarithms to base 2 of the sums of the softmax.

    `q` is (batch, queries, heads, size), `k` and `v` are (batch, keys, their heads, size), of which each serves several heads in succession; all of bfloat16 or float16.
    The logarithms are (batch, heads, queries), in float32. On NVIDIA's GPUs it is a kernel for Hopper; sizes are padded to its blocks. Elsewhere it is the plain form, and so are derivatives,
    which the logarithms don't have. Raises: ArgumentTypeError for other dtypes, ShapeError for shapes that don't fit.

    >>> q = jnp.ones((1, 2, 1, 8), jnp.bfloat16)
    >>> attention(q, q, q, TuningConfig(64, 64, 2, causal=True)).shape
    (1, 2, 1, 8)
    """
    q, k, v = map(jnp.asarray, (q, k, v))
    _check(q, k, v)
    if not isinstance(config, TuningConfig):
        raise ArgumentTypeError("attention takes a `TuningConfig`.", got=f"got {config!r:.60}")
    if not save_residuals:
        return _attention(config, q, k, v)
    result, sums = _both(config, q, k, v)
    return result, (sums,)


def attention_reference(
    q: Any, k: Any, v: Any, causal: bool = False, save_residuals: bool = False
) -> Any:
    """The plain form of `attention`, in float32.

    >>> q = jnp.ones((1, 2, 1, 8))
    >>> attention_reference(q, q, q).dtype
    dtype('float32')
    """
    q, k, v = [jnp.asarray(x).astype(np.float32) for x in (q, k, v)]
    group = q.shape[2] // k.shape[2]
    k, v = [jnp.repeat(x, group, axis=2) for x in (k, v)]
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k)
    if causal:
        s = jnp.where(jnp.tri(*s.shape[2:], dtype=bool), s, _HIDDEN)
    top = s.max(axis=-1, keepdims=True)
    p = jnp.exp(s - top)
    total = p.sum(axis=-1, keepdims=True)
    result = jnp.einsum("bhqk,bkhd->bqhd", p / total, v)
    if not save_residuals:
        return result
    return result, (((top + jnp.log(total)) * _LOG2_E)[..., 0],)


def _check(q: Any, k: Any, v: Any) -> None:
    fits = q.ndim == k.ndim == 4 and k.shape == v.shape
    if (
        not fits
        or q.shape[0] != k.shape[0]
        or q.shape[3] != k.shape[3]
        or not k.shape[2]
        or q.shape[2] % k.shape[2]
        or not k.shape[1]
    ):
        raise ShapeError(
            "attention takes queries (batch, queries, heads, size), and keys and values (batch, keys, a divisor of heads, size).",
            got=f"{q.shape}, {k.shape}, {v.shape}",
        )
    if not q.dtype == k.dtype == v.dtype or q.dtype.name not in DTYPES:
        raise ArgumentTypeError(
            "attention takes arrays of one dtype, bfloat16 or float16.",
            got=f"{q.dtype}, {k.dtype}, {v.dtype}",
        )


def _plain(config: TuningConfig, q: Any, k: Any, v: Any) -> Any:
    result, (sums,) = attention_reference(q, k, v, config.causal, True)
    return result.astype(q.dtype), sums


def _both(config: TuningConfig, q: Any, k: Any, v: Any) -> Any:
    if 0 in q.shape:
        return _plain(config, q, k, v)
    by_kernel = sequential_vmap(functools.partial(attention_by_kernel, config))
    return platform_dependent(q, k, v, cuda=by_kernel, default=functools.partial(_plain, config))


@functools.partial(custom_vjp, nondiff_argnums=(0,))
def _attention(config: TuningConfig, q: Any, k: Any, v: Any) -> Any:
    return _both(config, q, k, v)[0]


def _forward(config: TuningConfig, q: Any, k: Any, v: Any) -> Any:
    return _attention(config, q, k, v), (q, k, v)


def _backward(config: TuningConfig, saved: Any, cotangent: Any) -> Any:
    _, pull = vjp(lambda *x: _plain(config, *x)[0], *saved)
    return pull(cotangent)


_attention.defvjp(_forward, _backward)


# The kernel ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sizes:
    """Sizes that the kernel's threads go by."""

    block_q: int
    block_kv: int
    slots: int
    keys: int
    """Keys that there are; those behind are padding."""
    group: int
    """Heads of queries for each head of keys."""
    causal: bool

    def steps(self, i: Any) -> Any:
        """How many blocks of keys the queries of block `i` see."""
        count = -(-self.keys // self.block_kv)
        if not self.causal:
            return np.int32(count)
        last = (i + 1) * (2 * self.block_q)
        return jnp.minimum((last + self.block_kv - 1) // self.block_kv, count).astype(np.int32)


def attention_by_kernel(config: TuningConfig, q: Any, k: Any, v: Any) -> Any:
    """(the result of `attention`, the logarithms of its sums) by a kernel for Hopper GPUs."""
    batch, queries, heads, size = q.shape
    both = 2 * config.block_q
    sizes = _Sizes(
        config.block_q,
        config.block_kv,
        config.max_concurrent_steps,
        k.shape[1],
        heads // k.shape[2],
        config.causal,
    )
    q = padded_to(q, {1: at_least(queries, both), 3: _COLUMNS})
    k, v = [padded_to(x, {1: at_least(k.shape[1], config.block_kv), 3: _COLUMNS}) for x in (k, v)]
    width = q.shape[3]
    lie = TilingTransform((8, 64)), SwizzleTransform(128)
    held = functools.partial(MemorySpace.SMEM, dtype=q.dtype, transforms=lie)
    one = functools.partial(Barrier, num_barriers=sizes.slots)
    blocks = -(-q.shape[1] // both)
    call = gpu_kernel(
        functools.partial(_body, sizes),
        (q, shaped_array((batch, heads, blocks * both), np.dtype(np.float32))),
        grid=(batch, heads, blocks),
        grid_names=("batch", "heads", "q"),
        num_threads=3,
        thread_name="wg",
        scratch_types=[
            held((2, config.block_q, width)),
            *[held((sizes.slots, config.block_kv, width))] * 2,
            Barrier(num_barriers=2),
            *[one(), one(), one(num_arrivals=2), one(num_arrivals=2)],
        ],
        kernel_name="attention",
    )
    result, sums = call(q, k, v)
    return result[:, :queries, :, :size], sums[:, :, :queries]


def _body(
    sizes: _Sizes, q_ref: Any, k_ref: Any, v_ref: Any, o_ref: Any, s_ref: Any, q_smem: Any, k_smem: Any, v_smem: Any,
    q_full: Any, k_full: Any, v_full: Any, k_free: Any, v_free: Any,
) -> None:  # fmt: skip
    batch, head, i = axis_index("batch"), axis_index("heads"), axis_index("q")
    own, steps = axis_index("wg"), sizes.steps(i)
    streams = ((k_ref, k_smem, k_full, k_free), (v_ref, v_smem, v_full, v_free))

    @when(own == 2)
    def copy() -> None:
        set_max_registers(40, action="decrease")

        def fetch(t: Any, carry: Any) -> Any:
            slot = t % np.int32(sizes.slots)
            part = batch, ds(t * sizes.block_kv, sizes.block_kv), head // sizes.group
            for ref, held, full, free in streams:
                when(t >= sizes.slots)(lambda free=free: barrier_wait(free.at[slot]))
                copy_gmem_to_smem(ref.at[part], held.at[slot], full.at[slot])
            return carry

        fori_loop(np.int32(0), steps, fetch, np.int32(0))

    @when(own != 2)
    def compute() -> None:
        set_max_registers(232, action="increase")
        first = i * (2 * sizes.block_q) + own * sizes.block_q
        part = batch, ds(first, sizes.block_q), head
        q = q_smem.at[own]
        copy_gmem_to_smem(q_ref.at[part], q, q_full.at[own])
        barrier_wait(q_full.at[own])

        def step(t: Any, carry: Any) -> Any:
            o, top, total = carry
            slot = t % np.int32(sizes.slots)
            barrier_wait(k_full.at[slot])

            def scores(acc: Any) -> Any:
                wgmma(acc, q, transpose_ref(k_smem.at[slot], (1, 0)))
                return acc[...]

            s = run_scoped(scores, ACC((sizes.block_q, sizes.block_kv))) * _LOG2_E
            barrier_arrive(k_free.at[slot])
            s = _hidden(sizes, s, first, t * sizes.block_kv)
            new_top = jnp.maximum(top, s.max(axis=1))
            p = jnp.exp2(s - new_top[:, None])
            decay = jnp.exp2(top - new_top)
            total = total * decay + p.sum(axis=1)
            barrier_wait(v_full.at[slot])

            def values(acc: Any) -> Any:
                wgmma(acc, p.astype(v_ref.dtype), v_smem.at[slot])
                return acc[...]

            o = run_scoped(values, ACC.init(o * decay[:, None]))
            barrier_arrive(v_free.at[slot])
            return o, new_top, total

        n, width = q.shape
        begin = jnp.zeros((n, width)), jnp.full(n, -jnp.inf), jnp.zeros(n)
        begin = tuple([x.astype(np.float32) for x in begin])
        o, top, total = fori_loop(np.int32(0), steps, step, begin)
        q[...] = (o / total[:, None]).astype(q.dtype)
        s_ref[batch, head, ds(first, n)] = top + jnp.log2(total)
        commit_smem()
        copy_smem_to_gmem(q, o_ref.at[part])
        wait_smem_to_gmem(0)


def _hidden(sizes: _Sizes, s: Any, first_query: Any, first_key: Any) -> Any:
    """Logits without those of keys that aren't there, or that a query doesn't see."""
    key = first_key + broadcasted_iota(np.int32, s.shape, 1)
    if sizes.keys % sizes.block_kv:
        s = jnp.where(key < sizes.keys, s, _HIDDEN)
    if sizes.causal:
        query = first_query + broadcasted_iota(np.int32, s.shape, 0)
        s = jnp.where(query >= key, s, _HIDDEN)
    return s


__all__ = [
    "TuningConfig",
    "attention",
    "attention_reference",
]  # of the reference's names, those that pellucid has

public_functions(__all__, globals())
