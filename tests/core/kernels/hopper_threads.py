"""Kernels for Hopper GPUs whose blocks have several threads, warpgroups, which tests lower, interpret and compile."""

from __future__ import annotations

import functools

import numpy as np

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid.experimental import pallas
from pellucid.experimental.pallas import mosaic_gpu

F32 = np.float32


def numbers(shape, dtype=F32, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def tiles(dtype, span=128):
    """How matrices of `dtype` lie in shared memory for products."""
    columns = span // np.dtype(dtype).itemsize
    return mosaic_gpu.TilingTransform((8, columns)), mosaic_gpu.SwizzleTransform(span)


def halves():
    """Two threads that each double a half of a vector."""

    def kernel(x_ref, o_ref):
        rows = pallas.ds(lax.axis_index("wg") * 150, 150)
        o_ref[rows] = x_ref[rows] * 2

    x = numbers(300)
    return mosaic_gpu.kernel(kernel, out_type=x, num_threads=2, thread_name="wg"), (x,)


def handed_over():
    """One thread writes rows that another one sums, in turns: barriers in both directions."""

    def kernel(x_ref, o_ref, held, full, empty):
        i = lax.axis_index("wg")

        @pallas.when(i == 0)
        def _():
            def write(t, c):
                pallas.when(t > 0)(lambda: mosaic_gpu.barrier_wait(empty))
                held[...] = x_ref[t] * 2
                mosaic_gpu.barrier_arrive(full)
                return c

            lax.fori_loop(0, 4, write, 0)

        @pallas.when(i == 1)
        def _():
            def read(t, total):
                mosaic_gpu.barrier_wait(full)
                total = total + held[...].sum(axis=0)
                pallas.when(t < 3)(lambda: mosaic_gpu.barrier_arrive(empty))
                return total

            o_ref[...] = lax.fori_loop(0, 4, read, jnp.zeros(130, F32))

    x = numbers((4, 6, 130))
    scratch = [mosaic_gpu.SMEM((6, 130), F32), mosaic_gpu.Barrier(), mosaic_gpu.Barrier()]
    run = mosaic_gpu.kernel(
        kernel, out_type=pl.ShapeDtypeStruct((130,), F32), scratch_types=scratch, num_threads=2, thread_name="wg"
    )  # fmt: skip
    return run, (x,)


def own_scratch():
    """Scratch and barriers that each of three threads has of its own, and reductions in all of them."""

    def kernel(x_ref, o_ref, s_ref):
        i = lax.axis_index("wg")

        def run(buffer, barrier):
            mosaic_gpu.copy_gmem_to_smem(x_ref.at[i], buffer, barrier)
            mosaic_gpu.barrier_wait(barrier)
            x = buffer[...]
            o_ref[i] = x.T
            s_ref[i] = x.max(axis=0)

        pallas.run_scoped(run, mosaic_gpu.SMEM((8, 32), F32), mosaic_gpu.Barrier())

    x = numbers((3, 8, 32))
    out = [pl.ShapeDtypeStruct((3, 32, 8), F32), pl.ShapeDtypeStruct((3, 32), F32)]
    return mosaic_gpu.kernel(kernel, out_type=out, num_threads=3, thread_name="wg"), (x,)


def pipeline_of_threads():
    """Blocks that one thread copies, in and out, and of which two others compute halves."""

    def body(x_ref, o_ref):
        rows = pallas.ds(lax.axis_index("wg") * 8, 8)

        def step(ids, x_block, o_block):
            o_block[rows] = x_block[rows] * 2 + 1

        block = mosaic_gpu.BlockSpec((16, 64), lambda i: (i, 0))
        mosaic_gpu.emit_pipeline_warp_specialized(
            step, grid=(5,), memory_registers=40, in_specs=[block], out_specs=[block], wg_axis="wg",
            num_compute_wgs=2, max_concurrent_steps=2,
        )(x_ref, o_ref)  # fmt: skip

    x = numbers((80, 64))
    return mosaic_gpu.kernel(body, out_type=x, num_threads=3, thread_name="wg"), (x,)


def specialized_matmul(m=256, n=256, k=320, tile=(64, 128, 64), steps=4, dtype=jnp.bfloat16):
    """A matrix product whose tiles one thread copies for two that multiply, each its own rows; results leave by copies."""
    bm, bn, bk = tile

    def kernel(a_ref, b_ref, o_ref, held):
        i, j, w = lax.axis_index("m"), lax.axis_index("n"), lax.axis_index("wg")
        rows = pallas.ds(w * bm, bm)

        def context(pipeline):
            def run(acc):
                pipeline(acc)
                return acc[...]

            held[rows] = pallas.run_scoped(run, mosaic_gpu.ACC((bm, bn), F32)).astype(dtype)
            mosaic_gpu.commit_smem()
            target = o_ref.at[pallas.ds(i * 2 * bm + w * bm, bm), pallas.ds(j * bn, bn)]
            mosaic_gpu.copy_smem_to_gmem(held.at[rows], target)
            mosaic_gpu.wait_smem_to_gmem(0)

        def step(ids, a, b, acc):
            mosaic_gpu.wgmma(acc, a.at[rows], b)
            mosaic_gpu.wgmma_wait(1)
            return acc

        block = functools.partial(mosaic_gpu.BlockSpec, delay_release=1, transforms=tiles(dtype))
        mosaic_gpu.emit_pipeline_warp_specialized(
            step, grid=(k // bk,), memory_registers=40, wg_axis="wg", num_compute_wgs=2, compute_context=context,
            max_concurrent_steps=steps, in_specs=[block((2 * bm, bk), lambda t: (i, t)), block((bk, bn), lambda t: (t, j))],
        )(a_ref, b_ref)  # fmt: skip

    a, b = numbers((m, k), dtype), numbers((k, n), dtype, 1)
    run = mosaic_gpu.kernel(
        kernel, out_type=pl.ShapeDtypeStruct((m, n), dtype), grid=(m // (2 * bm), n // bn), grid_names=("m", "n"),
        num_threads=3, thread_name="wg", scratch_types=[mosaic_gpu.SMEM((2 * bm, bn), dtype, transforms=tiles(dtype))],
    )  # fmt: skip
    return run, (a, b)


def specialized_attention(length=128, keys=256, d=64, block=64, slots=2, heads=1, causal=False):
    """Attention as FlashAttention-3 has it: one thread copies keys and values for two that have 64 queries each."""
    dtype = jnp.bfloat16
    steps = keys // block

    def kernel(
        q_ref, k_ref, v_ref, o_ref, q_smem, k_smem, v_smem, q_full, k_full, v_full, k_free, v_free
    ):
        h, i, w = lax.axis_index("heads"), lax.axis_index("q"), lax.axis_index("wg")
        first = i * 128 + w * 64

        @pallas.when(w == 2)
        def _():
            mosaic_gpu.set_max_registers(40, action="decrease")

            def fetch(t, c):
                slot = t % slots
                part = pallas.ds(t * block, block)
                for ref, smem, full, free in (
                    (k_ref, k_smem, k_full, k_free),
                    (v_ref, v_smem, v_full, v_free),
                ):
                    pallas.when(t >= slots)(
                        lambda free=free: mosaic_gpu.barrier_wait(free.at[slot])
                    )
                    mosaic_gpu.copy_gmem_to_smem(ref.at[h, part], smem.at[slot], full.at[slot])
                return c

            lax.fori_loop(0, steps, fetch, 0)

        @pallas.when(w < 2)
        def _():
            mosaic_gpu.set_max_registers(232, action="increase")
            rows = pallas.ds(w * 64, 64)
            q = q_smem.at[rows]
            mosaic_gpu.copy_gmem_to_smem(q_ref.at[h, pallas.ds(first, 64)], q, q_full.at[w])
            mosaic_gpu.barrier_wait(q_full.at[w])

            def step(t, carry):
                o, top, total = carry
                slot = t % slots
                mosaic_gpu.barrier_wait(k_full.at[slot])

                def scores(acc):
                    mosaic_gpu.wgmma(acc, q, mosaic_gpu.transpose_ref(k_smem.at[slot], (1, 0)))
                    return acc[...]

                s = pallas.run_scoped(scores, mosaic_gpu.ACC((64, block), F32)) * F32(d**-0.5)
                mosaic_gpu.barrier_arrive(k_free.at[slot])
                if causal:
                    of_query = first + lax.broadcasted_iota(np.int32, (64, block), 0)
                    of_key = t * block + lax.broadcasted_iota(np.int32, (64, block), 1)
                    s = jnp.where(of_query >= of_key, s, -1e30)
                new_top = jnp.maximum(top, s.max(axis=1))
                p = jnp.exp(s - new_top[:, None])
                decay = jnp.exp(top - new_top)
                total = total * decay + p.sum(axis=1)
                mosaic_gpu.barrier_wait(v_full.at[slot])

                def values(acc):
                    mosaic_gpu.wgmma(acc, p.astype(dtype), v_smem.at[slot])
                    return acc[...]

                o = pallas.run_scoped(values, mosaic_gpu.ACC.init(o * decay[:, None]))
                mosaic_gpu.barrier_arrive(v_free.at[slot])
                return o, new_top, total

            begin = jnp.zeros((64, d), F32), jnp.full(64, -jnp.inf, F32), jnp.zeros(64, F32)
            o, _, total = lax.fori_loop(0, steps, step, begin)
            q_smem[rows] = (o / total[:, None]).astype(dtype)
            mosaic_gpu.commit_smem()
            mosaic_gpu.copy_smem_to_gmem(q, o_ref.at[h, pallas.ds(first, 64)])
            mosaic_gpu.wait_smem_to_gmem(0)

    q, k, v = [numbers((heads, n, d), dtype, i) for i, n in enumerate((length, keys, keys))]
    smem = functools.partial(mosaic_gpu.SMEM, dtype=dtype, transforms=tiles(dtype))
    one, both = functools.partial(mosaic_gpu.Barrier, num_barriers=slots), 2
    scratch = [
        smem((128, d)), smem((slots, block, d)), smem((slots, block, d)), mosaic_gpu.Barrier(num_barriers=2), one(), one(),
        one(num_arrivals=both), one(num_arrivals=both),
    ]  # fmt: skip
    run = mosaic_gpu.kernel(
        kernel, out_type=q, scratch_types=scratch, grid=(heads, length // 128), grid_names=("heads", "q"), num_threads=3,
        thread_name="wg",
    )  # fmt: skip
    return run, (q, k, v)


def pipeline_of_five_threads():
    """Blocks beyond the edge, of which four threads compute a part each; all have as many registers together as they begin with."""

    def body(x_ref, o_ref):
        rows = pallas.ds(lax.axis_index("wg") * 4, 4)

        def step(ids, x_block, o_block):
            o_block[rows] = x_block[rows] * 2

        block = mosaic_gpu.BlockSpec((16, 64), lambda i: (i, 0))
        mosaic_gpu.emit_pipeline_warp_specialized(
            step, grid=(4,), memory_registers=24, in_specs=[block], out_specs=[block], wg_axis="wg", num_compute_wgs=4,
        )(x_ref, o_ref)  # fmt: skip

    x = numbers((61, 64))
    return mosaic_gpu.kernel(body, out_type=x, num_threads=5, thread_name="wg"), (x,)


def buffers_used_again(dtype=jnp.bfloat16):
    """Two pipelines of products that have the same buffers: the second one copies when the last products of the first one are made."""

    def body(x_ref, y_ref, o_ref):
        w = lax.axis_index("wg")
        rows = pallas.ds(w * 64, 64)

        def step(ids, a, b, acc):
            mosaic_gpu.wgmma(acc, a.at[rows], b)
            mosaic_gpu.wgmma_wait(1)
            return acc

        def pipeline(half):
            def context(run):
                def total(acc):
                    run(acc)
                    return acc[...]

                o_ref[half, rows] = pallas.run_scoped(total, mosaic_gpu.ACC((64, 64)))

            block = functools.partial(mosaic_gpu.BlockSpec, delay_release=1)
            return mosaic_gpu.emit_pipeline_warp_specialized(
                step, grid=(3,), memory_registers=40, wg_axis="wg", num_compute_wgs=2, compute_context=context, max_concurrent_steps=2,
                in_specs=[block((128, 64), lambda t: (half, t)), block((64, 64), lambda t: (t, 0))],
            )  # fmt: skip

        pipelines = [pipeline(0), pipeline(1)]

        def run(*held):
            for each in pipelines:
                each(x_ref, y_ref, allocations=held)

        types = pipelines[0].get_allocations(x_ref, y_ref)
        pallas.run_scoped(run, *types, collective_axes="wg")

    x, y = numbers((256, 192), dtype), numbers((192, 64), dtype, 1)
    out = pl.ShapeDtypeStruct((2, 128, 64), F32)
    return mosaic_gpu.kernel(body, out_type=out, num_threads=3, thread_name="wg"), (x, y)


def plain_attention(q, k, v, causal=False):
    """What `specialized_attention` computes, in float32."""
    q, k, v = [jnp.asarray(x, F32) for x in (q, k, v)]
    s = jnp.einsum("hqd,hkd->hqk", q, k) * q.shape[-1] ** -0.5
    if causal:
        s = jnp.where(jnp.tri(*s.shape[1:], dtype=bool), s, -jnp.inf)
    return jnp.einsum("hqk,hkd->hqd", pl.nn.softmax(s), v)


THREADS = {
    f.__name__: f
    for f in (
        halves,
        handed_over,
        own_scratch,
        pipeline_of_threads,
        pipeline_of_five_threads,
        specialized_matmul,
        specialized_attention,
        buffers_used_again,
    )
}
THREADS |= {
    "wide_matmul": lambda: specialized_matmul(tile=(64, 256, 64), k=192, steps=3),
    "causal_attention": lambda: specialized_attention(d=128, block=128, causal=True),
}
