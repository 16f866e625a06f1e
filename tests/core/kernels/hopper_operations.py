"""Kernels for Hopper GPUs of operations on blocks, references and barriers, which tests lower, interpret and compile."""

from __future__ import annotations

import functools

import numpy as np

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid.experimental import pallas
from pellucid.experimental.pallas import mosaic_gpu, pallas_call
from pellucid.experimental.pallas.ops.gpu import attention_mgpu, hopper_matmul_mgpu
from tests.core.kernels.hopper_threads import numbers

F32 = np.float32
BF16 = jnp.bfloat16
PARAMS = mosaic_gpu.CompilerParams()


def kind(shape, dtype=F32):
    return pl.ShapeDtypeStruct(shape, dtype)


def integers(shape, dtype, seed=0):
    return np.random.default_rng(seed).integers(-5, 5, shape).astype(dtype)


def of_values(expression, out, *args):
    """A kernel that writes what an expression makes of the values of its inputs."""

    def body(*refs):
        *inputs, o_ref = refs
        o_ref[...] = expression(*[ref[...] for ref in inputs]).astype(o_ref.dtype)

    return pallas_call(body, out, compiler_params=PARAMS), args


def product(spec, a, b, out):
    """A product of blocks by `einsum`."""
    sums = np.int32 if a.dtype == np.int8 else F32
    return of_values(lambda x, y: jnp.einsum(spec, x, y, preferred_element_type=sums), out, a, b)


TF32 = lax.DotAlgorithmPreset.TF32_TF32_F32


def rounded_product():
    """A product of float32 whose user asks for mantissas of 10 bits."""
    a, b = numbers((64, 32)), numbers((32, 16), seed=1)
    return of_values(lambda x, y: jnp.dot(x, y, precision=TF32), kind((64, 16)), a, b)


def softmax_product():
    """A product whose left matrix is one of another product, in registers."""
    q, k, v = [numbers((64, 64), BF16, i) for i in range(3)]

    def expression(q, k, v):
        s = jnp.dot(q, k.T, preferred_element_type=F32) * F32(0.125)
        p = jnp.exp(s - s.max(axis=1, keepdims=True))
        return jnp.dot(p.astype(BF16), v, preferred_element_type=F32) / p.sum(axis=1)[:, None]

    return of_values(expression, kind((64, 64)), q, k, v)


def product_without_swizzle():
    """A product of scratch of which the user states no swizzle."""

    def body(a_ref, b_ref, o_ref, a_smem, b_smem, barrier):
        mosaic_gpu.copy_gmem_to_smem(a_ref, a_smem, barrier)
        mosaic_gpu.copy_gmem_to_smem(b_ref, b_smem, barrier)
        mosaic_gpu.barrier_wait(barrier)

        def run(acc):
            mosaic_gpu.wgmma(acc, a_smem, b_smem)
            return acc[...]

        o_ref[...] = pallas.run_scoped(run, mosaic_gpu.ACC((64, 64)))

    scratch = [mosaic_gpu.SMEM((64, 128), BF16), mosaic_gpu.SMEM((128, 64), BF16)]
    scratch.append(mosaic_gpu.Barrier(num_arrivals=2))
    run = mosaic_gpu.kernel(body, out_type=kind((64, 64)), scratch_types=scratch)
    return run, (numbers((64, 128), BF16), numbers((128, 64), BF16, 1))


def pipeline_without_swizzle():
    """A product by a pipeline whose blocks state no swizzle."""

    def body(a_ref, b_ref, o_ref, acc):
        def step(ids, a, b):
            mosaic_gpu.wgmma(acc, a, b)
            mosaic_gpu.wgmma_wait(0)

        blocks = [
            mosaic_gpu.BlockSpec((64, 64), lambda t: (0, t)),
            mosaic_gpu.BlockSpec((64, 32), lambda t: (t, 0)),
        ]
        mosaic_gpu.emit_pipeline(step, grid=(2,), in_specs=blocks, max_concurrent_steps=2)(
            a_ref, b_ref
        )
        o_ref[...] = acc[...]

    run = mosaic_gpu.kernel(body, out_type=kind((64, 32)), scratch_types=[mosaic_gpu.ACC((64, 32))])
    return run, (numbers((64, 128), BF16), numbers((128, 32), BF16, 1))


def blocks_without_swizzle():
    """A product of blocks of `pallas_call` that state no swizzle: they come to shared memory, as the product needs it."""

    def body(a_ref, b_ref, o_ref, acc):
        mosaic_gpu.wgmma(acc, a_ref, b_ref)

        @pallas.when(pallas.program_id(2) == 1)
        def _():
            o_ref[...] = acc[...]

    semantics = ("parallel", "parallel", "sequential")
    blocks = [
        mosaic_gpu.BlockSpec((64, 64), lambda i, j, t: (i, t)),
        mosaic_gpu.BlockSpec((64, 64), lambda i, j, t: (t, j)),
    ]
    run = pallas_call(
        body, kind((128, 64)), grid=(2, 1, 2), in_specs=blocks,
        out_specs=mosaic_gpu.BlockSpec((64, 64), lambda i, j, t: (i, j)), scratch_shapes=[mosaic_gpu.ACC((64, 64))],
        compiler_params=mosaic_gpu.CompilerParams(dimension_semantics=semantics),
    )  # fmt: skip
    return run, (numbers((128, 128), BF16), numbers((128, 64), BF16, 1))


def stacked():
    """Loops that take rows and leave rows, in both directions."""

    def body(x_ref, o_ref, s_ref):
        def step(carry, row):
            carry = carry * F32(0.5) + row
            return carry, carry + lax.iota(np.int32, 130).astype(F32)

        s_ref[...], rows = lax.scan(step, jnp.zeros(130, F32), x_ref[...])
        o_ref[...] = rows
        o_ref[...] += lax.scan(step, s_ref[...], x_ref[...], reverse=True)[1]

    x = numbers((6, 130))
    return pallas_call(body, [kind((6, 130)), kind((130,))], compiler_params=PARAMS), (x,)


def cumulative():
    """Cumulative sums, products and extremes."""

    def body(x_ref, a_ref, b_ref, c_ref, d_ref):
        x = x_ref[...]
        a_ref[...] = jnp.cumsum(x, axis=1)
        b_ref[...] = lax.cummax(x, axis=0, reverse=True)
        c_ref[...] = jnp.cumprod(x, axis=0)
        d_ref[...] = lax.cummin(x.astype(BF16), axis=1)

    out = [*[kind((5, 37))] * 3, kind((5, 37), BF16)]
    return pallas_call(body, out, compiler_params=PARAMS), (numbers((5, 37)),)


def tested():
    """A test of a barrier whose next phase nobody has begun."""

    def body(x_ref, o_ref, held, barrier):
        mosaic_gpu.copy_gmem_to_smem(x_ref, held, barrier)
        mosaic_gpu.barrier_wait(barrier)
        o_ref[...] = held[...]
        o_ref[0, 0] = mosaic_gpu.barrier_test(barrier).astype(F32)

    scratch = [mosaic_gpu.SMEM((8, 32), F32), mosaic_gpu.Barrier()]
    return mosaic_gpu.kernel(body, out_type=kind((8, 32)), scratch_types=scratch), (numbers((8, 32)),)  # fmt: skip


def at_positions():
    """Parts of a reference at arrays of positions, some of them outside."""

    def body(x_ref, i_ref, o_ref, p_ref, q_ref):
        i = i_ref[...]
        o_ref[...] = x_ref[i]
        p_ref[...] = x_ref[2, i[:, None], (i % 3)[None, :]]
        q_ref[...] = x_ref[i, :, 1]

    out = [kind((7, 6, 40)), kind((7, 7)), kind((7, 6))]
    places = np.array([0, 3, -1, 8, 20, 2, 5], np.int32)
    return pallas_call(body, out, compiler_params=PARAMS), (numbers((9, 6, 40)), places)


def added_at_once():
    """Programs that run at once, and add to parts of one block that overlap."""

    def body(x_ref, z_ref, o_ref):
        mosaic_gpu.atomic_add(o_ref.at[pallas.ds(3, 16)], x_ref[...])
        mosaic_gpu.atomic_max(o_ref.at[0], 7)
        mosaic_gpu.atomic_xor(o_ref.at[1], 5)

    block, whole = (
        pallas.BlockSpec((16,), lambda i: (i,)),
        pallas.BlockSpec((32,), lambda i: (0,)),
    )
    run = pallas_call(
        body, kind((32,), np.int32), input_output_aliases={1: 0}, grid=(3,), compiler_params=PARAMS,
        in_specs=[block, whole], out_specs=whole,
    )  # fmt: skip
    return run, (np.arange(48, dtype=np.int32), np.zeros(32, np.int32))


def attention_of_library():
    """`ops.gpu.attention_mgpu`, causal, with groups of heads."""
    config = attention_mgpu.TuningConfig(64, 128, 2, causal=True)
    q, k, v = [numbers((1, 128, h, 128), BF16, i) for i, h in enumerate((2, 1, 1))]
    return functools.partial(attention_mgpu.attention_by_kernel, config), (q, k, v)


def product_of_library(dimension=hopper_matmul_mgpu.MatmulDimension.N):
    """`ops.gpu.hopper_matmul_mgpu`."""
    config = hopper_matmul_mgpu.TuningConfig(64, 128, 64, 4, wg_dimension=dimension)
    a, b = numbers((128, 256), BF16), numbers((256, 256), BF16, 1)
    return functools.partial(hopper_matmul_mgpu.product_by_kernel, config), (a, b)


def product_of_groups():
    """Products of tiles of rows with matrices that a table names, as `ops.gpu.ragged_dot_mgpu` has them."""
    config = hopper_matmul_mgpu.TuningConfig(64, 64, 64, 3)
    a, b = numbers((192, 128), BF16), numbers((2, 128, 128), BF16, 1)
    groups = np.array([1, 0, 1], np.int32)
    return functools.partial(hopper_matmul_mgpu.product_by_kernel, config), (a, b, groups)


OPERATIONS = {
    f.__name__: f
    for f in (
        softmax_product, product_without_swizzle, pipeline_without_swizzle, blocks_without_swizzle, stacked, cumulative,
        tested, at_positions, added_at_once, attention_of_library, product_of_library, product_of_groups,
    )
}  # fmt: skip
OPERATIONS |= {
    "product_of_library_by_rows": lambda: product_of_library(hopper_matmul_mgpu.MatmulDimension.M),
    "product_of_values": lambda: product("ij,jk->ik", numbers((64, 64), BF16), numbers((64, 32), BF16, 1), kind((64, 32))),
    "product_of_transposed": lambda: product("ki,nk->in", numbers((32, 128), np.float16), numbers((24, 32), np.float16, 1), kind((128, 24), np.float16)),
    "product_of_integers": lambda: product("ij,jk->ik", integers((64, 32), np.int8), integers((32, 16), np.int8, 1), kind((64, 16))),
    "small_product": lambda: product("ij,jk->ik", numbers((5, 7)), numbers((7, 9), seed=1), kind((5, 9))),
    "batched_product": lambda: product("bij,bjk->bik", numbers((3, 5, 7)), numbers((3, 7, 2), seed=1), kind((3, 5, 2))),
    "inner_product": lambda: product("i,i->", numbers((64,)), numbers((64,), seed=1), kind((1,))),
}  # fmt: skip
