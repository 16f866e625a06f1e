"""Kernels for Hopper GPUs that tests lower, interpret and compile: each a function without arguments that gives (function, arguments)."""

from __future__ import annotations

import numpy as np

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid.experimental import pallas
from pellucid.experimental.pallas import BlockSpec, mosaic_gpu, pallas_call, program_id

F32 = np.float32
PARAMS = mosaic_gpu.CompilerParams()


def numbers(shape, dtype=F32, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def blocks(kernel, out, grid, specs, out_specs, params=PARAMS):
    return pallas_call(
        kernel, out, grid=grid, in_specs=specs, out_specs=out_specs, compiler_params=params
    )


def add():
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    x, y = numbers(1000), numbers(1000, seed=1)
    block = BlockSpec((256,), lambda i: (i,))
    return blocks(kernel, x, 4, [block, block], block), (x, y)


def gelu():
    def kernel(x_ref, o_ref):
        x = x_ref[...].astype(F32)
        inner = 0.7978845608 * (x + 0.044715 * x * x * x)
        o_ref[...] = (0.5 * x * (1 + jnp.tanh(inner))).astype(jnp.bfloat16)

    x = numbers((64, 40), jnp.bfloat16)
    block = BlockSpec((16, 40), lambda i: (i, 0))
    return blocks(kernel, x, 4, [block], block), (x,)


def axpy():
    def kernel(a_ref, x_ref, y_ref, o_ref):
        o_ref[...] = a_ref[0] * x_ref[...] + y_ref[...]

    a, x, y = numbers(1), numbers((512, 16)), numbers((512, 16), seed=1)
    block = BlockSpec((128, 16), lambda i: (i, 0))
    whole = BlockSpec((1,), lambda i: (0,))
    return blocks(kernel, x, 4, [whole, block, block], block), (a, x, y)


def softmax():
    def kernel(x_ref, o_ref):
        x = x_ref[...]
        e = jnp.exp(x - x.max(axis=-1, keepdims=True))
        o_ref[...] = e / e.sum(axis=-1, keepdims=True)

    x = numbers((8, 512))
    block = BlockSpec((2, 512), lambda i: (i, 0))
    return blocks(kernel, x, 4, [block], block), (x,)


def narrow_softmax():
    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.exp(x_ref[...] - x_ref[...].max(axis=1)[:, None])
        o_ref[...] = o_ref[...] / o_ref[...].sum(axis=1, keepdims=True)

    x = numbers((10, 33))
    block = BlockSpec((5, 33), lambda i: (i, 0))
    return blocks(kernel, x, 2, [block], block), (x,)


def loops():
    """A sum of rows by a loop, a while loop and a branch, and a select by a position."""

    def kernel(x_ref, o_ref):
        def step(i, total):
            return total + x_ref[i] * i.astype(F32)

        total = lax.fori_loop(0, 6, step, jnp.zeros((160,), F32))
        total = lax.cond(program_id(0) == 0, lambda t: t * 2, lambda t: t - 1, total)
        n, total = lax.while_loop(
            lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] + 0.5), (jnp.int32(0), total)
        )
        place = lax.iota(np.int32, 160)
        o_ref[...] = jnp.where(place % 2 == 0, total, n.astype(F32))

    x = numbers((2, 6, 160))
    specs = [BlockSpec((None, 6, 160), lambda i: (i, 0, 0))]
    out = BlockSpec((None, 160), lambda i: (i, 0))
    return blocks(kernel, pl.ShapeDtypeStruct((2, 160), F32), 2, specs, out), (x,)


def edges():
    """Blocks beyond the edges of arrays, booleans, integers, masks."""

    def kernel(x_ref, m_ref, o_ref, p_ref):
        x, i = x_ref[...], program_id(1)
        o_ref[...] = jnp.where(m_ref[...], x, -x) >> 1
        p_ref[...] = (x > i) & ~m_ref[...]

    x = np.arange(30 * 21, dtype=np.int32).reshape(30, 21) * 37 % 101 - 50
    mask = x % 3 == 0
    block = BlockSpec((8, 16), lambda i, j: (i, j))
    out = [pl.ShapeDtypeStruct(x.shape, np.int32), pl.ShapeDtypeStruct(x.shape, np.bool_)]
    return blocks(kernel, out, (4, 2), [block, block], [block, block]), (x, mask)


def movement():
    """A transposition, a slice, a reversal, a concatenation, sums along the first axis, positions of extremes."""

    def kernel(x_ref, o_ref, s_ref, i_ref, t_ref):
        x = x_ref[...]
        o_ref[...] = jnp.concatenate([x.T[:, ::2], x[:3, :].T * 2], axis=1)
        s_ref[...] = x.sum(axis=0)
        i_ref[...] = jnp.argmax(x, axis=1).astype(np.int32)
        t_ref[0] = x.min()
        t_ref[1] = x[::-1].sum()

    x = np.asarray(np.random.default_rng(0).integers(-9, 9, (8, 11)), F32)
    out = [
        pl.ShapeDtypeStruct((11, 7), F32), pl.ShapeDtypeStruct((11,), F32), pl.ShapeDtypeStruct((8,), np.int32),
        pl.ShapeDtypeStruct((2,), F32),
    ]  # fmt: skip

    def kernel_of_rows(x_ref, o_ref, s_ref, i_ref, t_ref):
        kernel(x_ref, o_ref, s_ref, i_ref, t_ref)

    return pallas_call(kernel_of_rows, out, compiler_params=PARAMS), (x,)


def wide():
    """64-bit integers and float64 reduced, float16 and unsigned numbers."""

    def kernel(h_ref, u_ref, o_ref, q_ref):
        h = h_ref[...]
        o_ref[...] = jnp.sqrt(jnp.abs(h)) + h.max()
        q_ref[...] = u_ref[...] // jnp.uint32(7) + u_ref[...].max()

    h = numbers((3, 100), np.float16)
    u = np.random.default_rng(0).integers(0, 2**32, (300,)).astype(np.uint32)
    out = [pl.ShapeDtypeStruct(h.shape, h.dtype), pl.ShapeDtypeStruct(u.shape, u.dtype)]
    return pallas_call(kernel, out, compiler_params=PARAMS), (h, u)


KERNELS = {
    f.__name__: f for f in (add, gelu, axpy, softmax, narrow_softmax, loops, edges, movement, wide)
}


FUNCTIONS = (
    "exp", "log", "sqrt", "tanh", "sin", "cos", "expm1", "log1p", "arctan", "sinh", "cosh", "cbrt", "floor", "ceil",
    "round", "sign", "abs", "square", "exp2", "arcsinh", "isfinite", "negative", "tan", "arctanh",
)  # fmt: skip


def functions():
    """Functions of elements, a row for each."""

    def kernel(x_ref, o_ref):
        x = x_ref[...]
        for i, name in enumerate(FUNCTIONS):
            o_ref[i] = getattr(jnp, name)(x).astype(F32)

    x = np.linspace(0.125, 0.875, 130).astype(F32)
    out = pl.ShapeDtypeStruct((len(FUNCTIONS), 130), F32)
    return pallas_call(kernel, out, compiler_params=PARAMS), (x,)


KERNELS["functions"] = functions


# Shared memory, copies, products ------------------------------------------------------------------------------


def tiles(dtype, span=128):
    """How matrices of `dtype` lie in shared memory for products."""
    columns = span // np.dtype(dtype).itemsize
    return mosaic_gpu.TilingTransform((8, columns)), mosaic_gpu.SwizzleTransform(span)


def copies():
    """Rows that come to shared memory by a copy, are doubled there, and go."""

    def kernel(x_ref, o_ref, buffer, barrier):
        i = lax.axis_index("x")
        mosaic_gpu.copy_gmem_to_smem(x_ref.at[pallas.ds(i * 16, 16)], buffer, barrier)
        mosaic_gpu.barrier_wait(barrier)
        buffer[...] = buffer[...] * 2
        mosaic_gpu.commit_smem()
        mosaic_gpu.copy_smem_to_gmem(buffer, o_ref.at[pallas.ds(i * 16, 16)])
        mosaic_gpu.wait_smem_to_gmem(0)

    x = numbers((40, 64))
    scratch = [mosaic_gpu.SMEM((16, 64), F32, transforms=tiles(F32)), mosaic_gpu.Barrier()]
    run = mosaic_gpu.kernel(kernel, out_type=x, scratch_types=scratch, grid=(3,), grid_names=("x",))
    return run, (x,)


def matmul(dtype=jnp.bfloat16, m=128, n=128, k=192, tile=(64, 128, 64), transposed=(False, False), span=128):  # fmt: skip
    """A matrix product in tiles, of which the copies of the next step run while one is multiplied."""
    bm, bn, bk = tile
    of_left, of_right = transposed
    steps = k // bk

    def kernel(a_ref, b_ref, o_ref, a_smem, b_smem, barriers):
        i, j = lax.axis_index("m"), lax.axis_index("n")

        def fetch(t, slot):
            rows, columns, depth = (
                pallas.ds(i * bm, bm),
                pallas.ds(j * bn, bn),
                pallas.ds(t * bk, bk),
            )
            a = a_ref.at[depth, rows] if of_left else a_ref.at[rows, depth]
            b = b_ref.at[columns, depth] if of_right else b_ref.at[depth, columns]
            mosaic_gpu.copy_gmem_to_smem(a, a_smem.at[slot], barriers.at[slot])
            mosaic_gpu.copy_gmem_to_smem(b, b_smem.at[slot], barriers.at[slot])

        def run(acc):
            fetch(0, 0)
            if steps > 1:
                fetch(1, 1)

            def step(t, _):
                slot = t % 2
                mosaic_gpu.barrier_wait(barriers.at[slot])
                a, b = a_smem.at[slot], b_smem.at[slot]
                a = mosaic_gpu.transpose_ref(a, (1, 0)) if of_left else a
                b = mosaic_gpu.transpose_ref(b, (1, 0)) if of_right else b
                mosaic_gpu.wgmma(acc, a, b)
                mosaic_gpu.wgmma_wait(0)
                pallas.when(t + 2 < steps)(lambda: fetch(t + 2, slot))
                return _

            lax.fori_loop(0, steps, step, 0)
            return acc[...]

        total = pallas.run_scoped(run, mosaic_gpu.ACC((bm, bn), F32))
        o_ref[pallas.ds(i * bm, bm), pallas.ds(j * bn, bn)] = total.astype(dtype)

    a = numbers((k, m) if of_left else (m, k), dtype)
    b = numbers((n, k) if of_right else (k, n), dtype, 1)
    scratch = [
        mosaic_gpu.SMEM((2, bk, bm) if of_left else (2, bm, bk), dtype, transforms=tiles(dtype, span)),
        mosaic_gpu.SMEM((2, bn, bk) if of_right else (2, bk, bn), dtype, transforms=tiles(dtype, span)),
        mosaic_gpu.Barrier(num_arrivals=2, num_barriers=2),
    ]  # fmt: skip
    run = mosaic_gpu.kernel(
        kernel, out_type=pl.ShapeDtypeStruct((m, n), dtype), scratch_types=scratch, grid=(m // bm, n // bn),
        grid_names=("m", "n"),
    )  # fmt: skip
    return run, (a, b)


def product(dtype, sums=F32, m=64, n=32, k=64, in_registers=False):
    """One product of matrices of `dtype`, the right one stored as (columns, products)."""
    span = min(128, k * np.dtype(dtype).itemsize)

    def kernel(a_ref, b_ref, o_ref, a_smem, b_smem, barrier):
        mosaic_gpu.copy_gmem_to_smem(a_ref, a_smem, barrier)
        mosaic_gpu.copy_gmem_to_smem(b_ref, b_smem, barrier)
        mosaic_gpu.barrier_wait(barrier)

        def run(acc):
            a = a_smem[...] if in_registers else a_smem
            mosaic_gpu.wgmma(acc, a, mosaic_gpu.transpose_ref(b_smem, (1, 0)))
            return acc[...]

        o_ref[...] = pallas.run_scoped(run, mosaic_gpu.ACC((m, n), sums))

    rng = np.random.default_rng(0)
    a, b = [rng.integers(-4, 5, shape).astype(dtype) for shape in ((m, k), (n, k))]
    transforms = tiles(dtype, span)
    scratch = [
        mosaic_gpu.SMEM((m, k), dtype, transforms=transforms),
        mosaic_gpu.SMEM((n, k), dtype, transforms=transforms),
        mosaic_gpu.Barrier(num_arrivals=2),
    ]
    out = pl.ShapeDtypeStruct((m, n), sums)
    return mosaic_gpu.kernel(kernel, out_type=out, scratch_types=scratch), (a, b)


def attention(m=64, n=64, d=64):
    """Softmax of a product, times a matrix: rows of an accumulator are reduced, and multiplied from registers."""

    def kernel(q_ref, k_ref, v_ref, o_ref, q_smem, k_smem, v_smem, barrier):
        for ref, smem in ((q_ref, q_smem), (k_ref, k_smem), (v_ref, v_smem)):
            mosaic_gpu.copy_gmem_to_smem(ref, smem, barrier)
        mosaic_gpu.barrier_wait(barrier)

        def scores(acc):
            mosaic_gpu.wgmma(acc, q_smem, mosaic_gpu.transpose_ref(k_smem, (1, 0)))
            return acc[...] * F32(d**-0.5)

        s = pallas.run_scoped(scores, mosaic_gpu.ACC((m, n), F32))
        p = jnp.exp(s - s.max(axis=1)[:, None])
        total = p.sum(axis=1)

        def values(acc):
            mosaic_gpu.wgmma(acc, p.astype(jnp.bfloat16), v_smem)
            return acc[...]

        o = pallas.run_scoped(values, mosaic_gpu.ACC((m, d), F32))
        o_ref[...] = o / total[:, None] + p.sum(axis=0)[None, :] * 0

    q, k, v = [numbers(shape, jnp.bfloat16, i) for i, shape in enumerate([(m, d), (n, d), (n, d)])]
    scratch = [mosaic_gpu.SMEM(x.shape, x.dtype, transforms=tiles(x.dtype)) for x in (q, k, v)]
    scratch.append(mosaic_gpu.Barrier(num_arrivals=3))
    out = pl.ShapeDtypeStruct((m, d), F32)
    return mosaic_gpu.kernel(kernel, out_type=out, scratch_types=scratch), (q, k, v)


def pipeline():
    """Blocks that come and go by `emit_pipeline`, a sum of rows carried."""

    def body(x_ref, o_ref, s_ref):
        def step(ids, x_block, o_block, total):
            x = x_block[...]
            o_block[...] = x * 2 + 1
            return total + x.sum(axis=0)

        block = mosaic_gpu.BlockSpec((16, 64), lambda i: (i, 0))
        run = mosaic_gpu.emit_pipeline(
            step, grid=(4,), in_specs=[block], out_specs=[block], max_concurrent_steps=2,
            init_carry=jnp.zeros(64, F32),
        )  # fmt: skip
        s_ref[...] = run(x_ref, o_ref)

    x = numbers((64, 64))
    out = [x, pl.ShapeDtypeStruct((64,), F32)]
    return mosaic_gpu.kernel(body, out_type=out), (x,)


def sequence():
    """Programs of a block that follow each other, and add to one block of the result."""

    def kernel(x_ref, o_ref):
        @pallas.when(program_id(1) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...] * 2

    x = numbers((3, 4, 40))
    specs = [BlockSpec((None, None, 40), lambda i, j: (i, j, 0))]
    out = BlockSpec((None, 40), lambda i, j: (i, 0))
    semantics = mosaic_gpu.CompilerParams(dimension_semantics=("parallel", "sequential"))
    return blocks(kernel, pl.ShapeDtypeStruct((3, 40), F32), (3, 4), specs, out, semantics), (x,)


def matmul_of_blocks(m=128, n=64, k=192):
    """A matrix product of blocks that come to shared memory, of which the programs along the last axis follow each other."""

    def kernel(a_ref, b_ref, o_ref, acc):
        mosaic_gpu.wgmma(acc, a_ref, b_ref)

        @pallas.when(program_id(2) == 2)
        def _():
            o_ref[...] = acc[...]

    a, b = numbers((m, k), np.float16), numbers((k, n), np.float16, 1)
    blocks = [
        mosaic_gpu.BlockSpec((64, 64), lambda i, j, t: (i, t), transforms=tiles(np.float16)),
        mosaic_gpu.BlockSpec((64, 64), lambda i, j, t: (t, j), transforms=tiles(np.float16)),
    ]
    run = pallas_call(
        kernel, pl.ShapeDtypeStruct((m, n), F32), grid=(m // 64, n // 64, k // 64), in_specs=blocks,
        out_specs=mosaic_gpu.BlockSpec((64, 64), lambda i, j, t: (i, j)), scratch_shapes=[mosaic_gpu.ACC((64, 64))],
        compiler_params=mosaic_gpu.CompilerParams(dimension_semantics=("parallel", "parallel", "sequential")),
    )  # fmt: skip
    return run, (a, b)


def products_in_flight(m=64, n=64, k=256):
    """A matrix product by `emit_pipeline`, of which one product runs while the next one is asked for."""

    def kernel(a_ref, b_ref, o_ref, acc):
        def step(ids, a_block, b_block):
            mosaic_gpu.wgmma(acc, a_block, b_block)
            mosaic_gpu.wgmma_wait(1)

        blocks = [
            mosaic_gpu.BlockSpec(
                (m, 64), lambda t: (0, t), delay_release=1, transforms=tiles(np.float16)
            ),
            mosaic_gpu.BlockSpec(
                (64, n), lambda t: (t, 0), delay_release=1, transforms=tiles(np.float16)
            ),
        ]
        run = mosaic_gpu.emit_pipeline(
            step, grid=(k // 64,), in_specs=blocks, max_concurrent_steps=3
        )
        run(a_ref, b_ref)
        o_ref[...] = acc[...]

    a, b = numbers((m, k), np.float16), numbers((k, n), np.float16, 1)
    out = pl.ShapeDtypeStruct((m, n), F32)
    return mosaic_gpu.kernel(kernel, out_type=out, scratch_types=[mosaic_gpu.ACC((m, n))]), (a, b)


PRODUCTS = {
    "in_flight": products_in_flight,
    "of_blocks": matmul_of_blocks,
    "float16": lambda: product(np.float16),
    "registers": lambda: product(jnp.bfloat16, in_registers=True),
    "float8_e4m3fn": lambda: product(jnp.float8_e4m3fn, k=128),
    "float8_e5m2": lambda: product(jnp.float8_e5m2, k=32),
    "int8": lambda: product(np.int8, np.int32),
    "uint8": lambda: product(np.uint8, np.int32),
    "left_transposed": lambda: matmul(transposed=(True, False)),
    "both_transposed": lambda: matmul(transposed=(True, True), span=64),
    "two_tiles_of_rows": lambda: matmul(tile=(128, 64, 32), span=32),
    "many_columns": lambda: matmul(tile=(64, 256, 64), n=256),
}
KERNELS |= {f.__name__: f for f in (copies, matmul, attention, pipeline, sequence)}
