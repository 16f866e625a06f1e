"""Kernels that can be lowered for TPUs, each as (function, arguments): small blocks, so that compilers finish."""

import ml_dtypes
import numpy as np

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid.experimental import pallas
from pellucid.experimental.pallas import (
    BlockSpec,
    CostEstimate,
    Element,
    ds,
    num_programs,
    pallas_call,
    program_id,
    run_scoped,
    tpu,
    when,
)
from pellucid.experimental.pallas.ops.tpu.flash_attention import flash_attention
from pellucid.experimental.pallas.ops.tpu.matmul import matmul as matmul_of_tiles
from pellucid.experimental.pallas.ops.tpu.megablox import gmm

F32, I32, BF16 = np.float32, np.int32, np.dtype(ml_dtypes.bfloat16)
X = np.ones((64, 256), F32)
ROWS = BlockSpec((8, 256), lambda i: (i, 0))
like = pl.ShapeDtypeStruct


def elementwise(function, *dtypes):
    """A kernel that writes `function` of whole arrays."""
    args = [np.ones((32, 128), dtype) for dtype in dtypes or (F32,)]

    def kernel(*refs):
        refs[-1][...] = function(*[ref[...] for ref in refs[:-1]])

    return pallas_call(kernel, pl.eval_shape(function, *args)), args


def by_rows(kernel, *args, out=X, **options):
    """A kernel over blocks of eight rows."""
    return pallas_call(
        kernel, out, grid=8, in_specs=[ROWS] * len(args), out_specs=ROWS, **options
    ), args


def add(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


def softmax(x_ref, o_ref):
    o_ref[...] = pl.nn.softmax(x_ref[...], axis=-1)


def matmul():
    def kernel(x_ref, y_ref, o_ref, acc):
        @when(program_id(2) == 0)
        def _():
            acc[...] = jnp.zeros_like(acc)

        acc[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=F32)

        @when(program_id(2) == num_programs(2) - 1)
        def _():
            o_ref[...] = acc[...].astype(o_ref.dtype)

    x = np.ones((256, 256), BF16)
    call = pallas_call(
        kernel,
        x,
        grid=(2, 2, 2),
        in_specs=[
            BlockSpec((128, 128), lambda i, j, k: (i, k)),
            BlockSpec((128, 128), lambda i, j, k: (k, j)),
        ],
        out_specs=BlockSpec((128, 128), lambda i, j, k: (i, j)),
        scratch_shapes=[tpu.VMEM((128, 128), F32)],
        compiler_params=tpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary"), vmem_limit_bytes=1 << 21
        ),
        cost_estimate=CostEstimate(flops=2 * 256**3, transcendentals=0, bytes_accessed=3 << 17),
    )
    return call, (x, x)


def attention():
    def kernel(q_ref, k_ref, v_ref, o_ref, top, total, acc):
        @when(program_id(1) == 0)
        def _():
            top[...] = jnp.full_like(top, -jnp.inf)
            total[...] = jnp.zeros_like(total)
            acc[...] = jnp.zeros_like(acc)

        s = lax.dot_general(q_ref[...], k_ref[...], (((1,), (1,)), ((), ())))
        new = jnp.maximum(top[...], jnp.max(s, axis=1, keepdims=True))
        p = jnp.exp(s - new[:, :1])
        scale = jnp.exp(top[...] - new)
        total[...] = scale * total[...] + jnp.sum(p, axis=1, keepdims=True)
        acc[...] = acc[...] * scale[:, :1] + jnp.dot(p, v_ref[...])
        top[...] = new

        @when(program_id(1) == num_programs(1) - 1)
        def _():
            o_ref[...] = acc[...] / total[...][:, :1]

    q = np.ones((256, 128), F32)
    queries, keys = [BlockSpec((128, 128), f) for f in (lambda i, j: (i, 0), lambda i, j: (j, 0))]
    scratch = [tpu.VMEM((128, 128), F32)] * 3
    call = pallas_call(
        kernel, q, grid=(2, 2), in_specs=[queries, keys, keys], out_specs=queries, scratch_shapes=scratch
    )  # fmt: skip
    return call, (q, q, q)


def prefetch():
    def kernel(s_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] * s_ref[program_id(0)].astype(F32)

    block = BlockSpec((8, 256), lambda i, s: (s[i], 0))
    spec = tpu.PrefetchScalarGridSpec(1, grid=8, in_specs=[block], out_specs=BlockSpec((8, 256), lambda i, s: (i, 0)))  # fmt: skip
    return pallas_call(kernel, X, grid_spec=spec), (np.arange(8, dtype=I32), X)


def rank_0():
    def kernel(s_ref, x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] * s_ref[()] + y_ref[()]

    spec = tpu.PrefetchScalarGridSpec(1)
    return pallas_call(kernel, X, grid_spec=spec), (F32(3), X, F32(2))


def dynamic_grid():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * num_programs(0).astype(F32)

    def call(n, x):
        return pallas_call(kernel, X, grid=(n,), in_specs=[ROWS], out_specs=ROWS)(x)

    return call, (I32(8), X)


def squeezed():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    block, x = BlockSpec((None, 8, 256), lambda i, j: (i, j, 0)), np.ones((2, 64, 256), F32)
    return pallas_call(kernel, x, grid=(2, 8), in_specs=[block], out_specs=block), (x,)


def single_rows():
    """Blocks of one row of several, which is no tile of its array."""

    def kernel(x_ref, y_ref, o_ref, p_ref):
        o_ref[...] = x_ref[...] + y_ref[0, :] * 2
        p_ref[0, :] = x_ref[1, :]

    x, y = np.ones((32, 3, 256), F32), np.ones((12, 256), F32)
    block = BlockSpec((8, None, 256), lambda i, j: (i, j, 0))
    row = BlockSpec((1, 256), lambda i, j: (i * 3 + j, 0))
    return pallas_call(
        kernel, (x, y), grid=(4, 3), in_specs=[block, row], out_specs=[block, row]
    ), (x, y)


def edges():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    block, x = BlockSpec((8, 128), lambda i, j: (i, j)), np.ones((60, 200), F32)
    return pallas_call(kernel, x, grid=(8, 2), in_specs=[block], out_specs=block), (x,)


def elements():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    block = BlockSpec((Element(16), Element(256)), lambda i: (i * 8, 0))
    out = BlockSpec((16, 256), lambda i: (i, 0))
    return pallas_call(kernel, like((96, 256), F32), grid=6, in_specs=[block], out_specs=out), (X,)


def one_dimension():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    block, x = BlockSpec((1024,), lambda i: (i,)), np.ones(4096, F32)
    return pallas_call(kernel, x, grid=4, in_specs=[block], out_specs=block), (x,)


def scalars():
    def kernel(a_ref, x_ref, o_ref, total_ref, counts):
        counts[0] = 3
        counts[1] = counts[0] + 1
        o_ref[...] = x_ref[...] * a_ref[0] * counts[1].astype(F32)
        total_ref[0] = jnp.sum(x_ref[...])

    specs = [BlockSpec(memory_space=tpu.SMEM), tpu.VMEM]
    call = pallas_call(
        kernel,
        (X, like((1,), F32)),
        in_specs=specs,
        out_specs=specs[::-1],
        scratch_shapes=[tpu.SMEM((4,), I32)],
    )
    return call, (np.ones(4, F32), X)


def booleans():
    def kernel(m_ref, x_ref, o_ref, n_ref):
        o_ref[...] = jnp.where(m_ref[...], x_ref[...], 0)
        n_ref[...] = ~m_ref[...] & (x_ref[...] > 2)

    return pallas_call(kernel, (X, X > 0)), (X > 0, X)


def loops():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

        def row(i, total):
            o_ref[i, :] = x_ref[i, :] * 2
            return total + x_ref[ds(i * 8, 8), :]

        total = lax.fori_loop(0, 8, row, jnp.zeros((8, 256), F32))
        grown = lax.while_loop(lambda x: jnp.sum(x) < 500, lambda x: x * 2, total + 1)
        o_ref[8:16, :] = lax.switch(
            program_id(0) % 3, [lambda: grown, lambda: -grown, lambda: grown * 3]
        )

    return pallas_call(kernel, X, grid=1, in_specs=[BlockSpec()], out_specs=BlockSpec()), (X,)


def scoped():
    def kernel(x_ref, o_ref):
        def block(i, _):
            def copy(held):
                held[...] = x_ref[ds(i * 8, 8), :] * 2
                o_ref[ds(i * 8, 8), :] = held[...] + 1

            run_scoped(copy, tpu.VMEM((8, 256), F32))

        lax.fori_loop(0, 8, block, None)

    return pallas_call(kernel, X), (X,)


def parts():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[ds(0, 32, 2), :] + x_ref[3:35, :] * x_ref[3, 5]
        o_ref[ds(1, 8, 4), :] = x_ref[ds(program_id(0) + 1, 8), :]

    x = np.ones((64, 128), F32)
    whole = BlockSpec((32, 128), lambda i: (0, 0))
    return pallas_call(kernel, like((32, 128), F32), grid=2, in_specs=[BlockSpec()], out_specs=whole), (x,)  # fmt: skip


def shapes():
    def function(x):
        y = x.reshape(4, 8, 128).sum(0)
        z = jnp.concatenate([y, x[:8].T[:8, :8].repeat(16, 1)], 0)
        first, second = jnp.split(z, 2)
        index = jnp.argmax(x, axis=1)[:8, None] + lax.broadcasted_iota(I32, (8, 128), 1)
        padded = jnp.pad(first * second, ((0, 24), (0, 0)))
        return padded + x + jnp.arange(128) + index.astype(F32).max()

    return elementwise(function)


def numbers():
    def function(x, n, m):
        y = jnp.exp(x) + jnp.tanh(x) + jnp.log1p(x) + jnp.expm1(x) + lax.erf(x) + x**3
        y = jnp.where(jnp.isnan(y), 0, y) + lax.rsqrt(x) + pl.nn.gelu(x)
        k = jnp.maximum(n, m.astype(I32)) // 3 + (n << 2)
        u = jnp.minimum(k.astype(np.uint32), np.uint32(7))
        return (y + k.astype(F32) + u.astype(F32)).astype(BF16), (m + m).astype(np.int8)

    args = [np.ones((32, 128), dtype) for dtype in (F32, I32, np.int8)]

    def kernel(x_ref, n_ref, m_ref, o_ref, p_ref):
        o_ref[...], p_ref[...] = function(x_ref[...], n_ref[...], m_ref[...])

    return pallas_call(kernel, pl.eval_shape(function, *args)), args


def aliased():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    return by_rows(kernel, X, input_output_aliases={0: 0})


def products():
    def function(x, y):
        a = jnp.dot(x, y, precision="highest") + lax.dot_general(x, y, (((1,), (1,)), ((), ())))
        b = lax.dot_general(x, y, (((0,), (0,)), ((), ()))) + (x @ y[0])[:, None]
        return a + b + jnp.einsum("bij,bjk->bik", jnp.stack([x, y]), jnp.stack([y, x]))[1]

    x = np.ones((128, 128), F32)

    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = function(x_ref[...], y_ref[...])

    return pallas_call(kernel, x), (x, x)


def rotations_and_bits():
    def kernel(x_ref, o_ref, p_ref, q_ref):
        x = x_ref[...]
        o_ref[...] = tpu.roll(x, 3, 1) + tpu.roll(x, -3, 0) + tpu.roll(x, program_id(0) - 5, 1)
        p_ref[...] = tpu.bitcast(x, np.int16)
        q_ref[...] = tpu.bitcast(tpu.roll(p_ref[...], 1, 0), I32)

    whole = BlockSpec((16, 256), lambda i: (0, 0))
    halves = BlockSpec((32, 256), lambda i: (0, 0))
    x = np.ones((16, 256), F32)
    shapes = [x, like((32, 256), np.int16), like((16, 256), I32)]
    return pallas_call(
        kernel, shapes, grid=1, in_specs=[whole], out_specs=[whole, halves, whole]
    ), (x,)


def strided_rotation():
    def kernel(x_ref, o_ref):
        o_ref[...] = tpu.roll(x_ref[...], 1, 1, stride=2, stride_axis=0)

    return pallas_call(kernel, X), (X,)


def stated_starts():
    def kernel(i_ref, x_ref, o_ref):
        o_ref[...] = x_ref[ds(pallas.multiple_of(i_ref[0], 8), 8), :]

    spec = tpu.PrefetchScalarGridSpec(1)
    return pallas_call(kernel, like((8, 256), F32), grid_spec=spec), (np.array([16], I32), X)


def random_bits():
    def kernel(o_ref):
        tpu.prng_seed(3, program_id(0))
        o_ref[...] = tpu.prng_random_bits((8, 128))

    out = BlockSpec((8, 128), lambda i: (i, 0))
    return pallas_call(kernel, like((16, 128), I32), grid=2, out_specs=out), ()


def random_numbers():
    def kernel(o_ref, p_ref, n_ref, b_ref):
        tpu.prng_seed(3)
        o_ref[...] = tpu.stateful_normal((8, 128))
        p_ref[...] = tpu.stateful_uniform((16, 128), BF16, minval=-1.0)
        n_ref[...] = tpu.stateful_bits((32, 128), np.uint8)
        b_ref[...] = tpu.stateful_bernoulli(0.3, (8, 128))

    shapes = [((8, 128), F32), ((16, 128), BF16), ((32, 128), np.uint8), ((8, 128), np.bool_)]
    return pallas_call(kernel, [like(*shape) for shape in shapes]), ()


def packed():
    def kernel(x_ref, o_ref, p_ref, q_ref):
        x = x_ref[...]
        words = tpu.pack_elementwise([x, -x], packed_dtype=BF16)
        o_ref[...] = words
        p_ref[...] = tpu.unpack_elementwise(
            words, index=1, packed_dtype=BF16, unpacked_dtype=np.float32
        )
        numbers = [x.astype(I32) * n for n in (1, -1, 2, 3)]
        words = tpu.pack_elementwise(numbers, packed_dtype=np.int8)
        parts = [
            tpu.unpack_elementwise(words, index=i, packed_dtype=np.int8, unpacked_dtype=I32)
            for i in range(4)
        ]
        q_ref[...] = parts[0] - parts[1] + words + parts[2] * parts[3]

    x = np.ones((16, 128), F32)
    return pallas_call(kernel, [like(x.shape, I32), x, like(x.shape, I32)]), (x,)


def gathers():
    def kernel(x_ref, i_ref, n_ref, lanes_ref, rows_ref, filled_ref, narrow_ref, row_ref):
        x, i = x_ref[...], i_ref[...] % 300 - 20
        lanes_ref[...] = jnp.take_along_axis(x, i, axis=1, mode="clip")
        rows_ref[...] = jnp.take_along_axis(x, abs(i) % 16, axis=0)
        filled_ref[...] = jnp.nan_to_num(jnp.take_along_axis(x, i, axis=1), nan=-3.0)
        narrow_ref[...] = jnp.take_along_axis(n_ref[...], i[:, :128], axis=0)
        row_ref[...] = jnp.take_along_axis(x[3, :128], i[3, :128], axis=0, mode="clip")

    x, i, n = np.ones((16, 256), F32), SOME, np.arange(512).astype(np.int8).reshape(4, 128)
    return pallas_call(kernel, [x, x, x, like((16, 128), np.int8), like((128,), F32)]), (x, i, n)


SOME = (np.arange(16 * 256, dtype=I32).reshape(16, 256) * 7919) % 1009
"""Numbers in some order, several of them often."""


def cumulative():
    def kernel(x_ref, i_ref, o_ref, p_ref, q_ref, r_ref, s_ref):
        x, i = x_ref[...], i_ref[...]
        o_ref[...] = jnp.cumsum(x, axis=1) + lax.cumsum(x, axis=0, reverse=True)
        p_ref[...] = lax.cummax(x, axis=1, reverse=True) - lax.cummin(x, axis=0)
        q_ref[...] = lax.cumprod(i, axis=1) + lax.cummax(i, axis=0)
        r_ref[...] = jnp.cumsum(x[:12, :128].astype(BF16), axis=0)
        s_ref[...] = lax.cummin(i[3].astype(np.uint8), axis=0).astype(I32)

    x = np.ones((16, 256), F32)
    results = [x, x, SOME, like((12, 128), BF16), like((256,), I32)]
    return pallas_call(kernel, results), (x, SOME)


def reversals():
    def kernel(x_ref, i_ref, o_ref, p_ref, q_ref):
        o_ref[...] = x_ref[...][::-1, ::-1]
        p_ref[...] = i_ref[:12, :128][::-1].astype(np.int8)
        q_ref[...] = (i_ref[...] > 500)[3, ::-1]

    x = np.ones((16, 256), F32)
    return pallas_call(kernel, [x, like((12, 128), np.int8), like((256,), np.bool_)]), (x, SOME)


def sorts():
    def kernel(x_ref, i_ref, o_ref, p_ref, q_ref, r_ref):
        x = jnp.where(
            i_ref[:8, :128] % 7 == 0, jnp.nan, x_ref[:8, :128] * (i_ref[:8, :128] % 5 - 2)
        )
        o_ref[...] = jnp.nan_to_num(jnp.sort(x, axis=1), nan=77.0)
        p_ref[...] = jnp.argsort(x, axis=0)
        _, q_ref[...], r_ref[...] = lax.sort(
            (i_ref[...] % 3, i_ref[...] % 4, i_ref[...].astype(np.uint8)), dimension=0, num_keys=2
        )

    x = np.ones((16, 256), F32)
    results = [like((8, 128), F32), like((8, 128), I32), SOME, like(SOME.shape, np.uint8)]
    return pallas_call(kernel, results), (x, SOME)


def printing():
    def kernel(x_ref, o_ref):
        i, x = program_id(0), x_ref[...]
        pallas.debug_print("a program")
        pallas.debug_print("program {} of {}", i, num_programs(0))
        pallas.debug_print("the first one is", x[0, 0])
        pallas.debug_print("{} {} is a number", "three:", 3)
        o_ref[...] = x

    return by_rows(kernel, X)


def four_bits():
    def kernel(x_ref, n_ref, u_ref, o_ref, p_ref, q_ref, r_ref):
        n = n_ref[...].astype(I32) % 16 - 8
        o_ref[...] = n.astype("int4")
        p_ref[...] = x_ref[...].astype(F32) * 0.5
        q_ref[...] = u_ref[...].astype(I32) + x_ref[...].astype(np.int8)
        r_ref[...] = (u_ref[...].astype(F32) * 0.9).astype("uint4")

    x, n = np.arange(64 * 128).reshape(64, 128), np.ones((64, 128), I32)
    small = x.astype(ml_dtypes.int4), n * 1021, x.astype(ml_dtypes.uint4)
    shapes = [small[0], like(x.shape, F32), n, small[2]]
    return pallas_call(kernel, shapes), small


def rounded_by_chance():
    def kernel(x_ref, n_ref, o_ref):
        o_ref[...] = tpu.stochastic_round(x_ref[...], n_ref[...], target_dtype=BF16)

    x = np.ones((16, 128), F32)
    return pallas_call(kernel, like(x.shape, BF16)), (x, np.ones(x.shape, I32))


def parts_by_names():
    def kernel(x_ref, o_ref):
        o_ref[...] = tpu.einshape("a(bc)->bac", x_ref[...], True, c=128)

    return pallas_call(kernel, like((2, 8, 128), F32)), (np.ones((8, 256), F32),)


# Copies ---------------------------------------------------------------------------------------------------------

ANY = BlockSpec(memory_space=pallas.ANY)
HBM = BlockSpec(memory_space=tpu.HBM)
DMA = tpu.SemaphoreType.DMA


def whole_copies():
    def kernel(x_ref, o_ref, p_ref, held, sem):
        copy = tpu.make_async_copy(x_ref, o_ref, sem)
        copy.start()
        tpu.sync_copy(x_ref, held)
        copy.wait()
        p_ref[...] = held[...] * 2

    scratch = [tpu.VMEM((64, 256), F32), DMA]
    return pallas_call(
        kernel, (X, X), in_specs=[ANY], out_specs=[HBM, BlockSpec()], scratch_shapes=scratch
    ), (X,)


def copied_parts():
    def kernel(i_ref, x_ref, rows_ref, o_ref, held, sems):
        copies = [
            tpu.make_async_copy(x_ref.at[i_ref[0]], held.at[1], sems.at[0]),
            tpu.make_async_copy(rows_ref.at[i_ref[1]], held.at[0, 3], sems.at[1]),
        ]
        held[0] = jnp.zeros((8, 256), F32)
        for copy in copies:
            copy.start()
        for copy in copies:
            copy.wait()
        o_ref[...] = held[0] + held[1]

    x = np.ones((4, 8, 256), F32)
    spec = tpu.PrefetchScalarGridSpec(
        1,
        in_specs=[ANY, HBM],
        out_specs=BlockSpec(),
        scratch_shapes=[tpu.VMEM((2, 8, 256), F32), DMA((2,))],
    )
    return pallas_call(kernel, like((8, 256), F32), grid_spec=spec), (np.array([3, 5], I32), x, X)


def double_buffering():
    def kernel(x_ref, o_ref, held, sems):
        def fetch(i, slot):
            return tpu.make_async_copy(x_ref.at[ds(i * 8, 8), :], held.at[slot], sems.at[slot])

        fetch(0, 0).start()

        def add_block(i, total):
            @when(i + 1 < 8)
            def _():
                fetch(i + 1, (i + 1) % 2).start()

            fetch(i, i % 2).wait()
            return total + held[i % 2]

        o_ref[...] = lax.fori_loop(0, 8, add_block, jnp.zeros((8, 256), F32))

    scratch = [tpu.VMEM((2, 8, 256), F32), DMA((2,))]
    return pallas_call(kernel, like((8, 256), F32), in_specs=[ANY], scratch_shapes=scratch), (X,)


def written_parts():
    def kernel(x_ref, o_ref, held, sem):
        held[...] = x_ref[...] * 2
        copy = tpu.make_async_copy(held, o_ref.at[ds(8 * program_id(0), 8)], sem)
        copy.start()
        copy.wait()

    scratch = [tpu.VMEM((8, 256), F32), DMA]
    return pallas_call(kernel, X, grid=8, in_specs=[ROWS], out_specs=ANY, scratch_shapes=scratch), (
        X,
    )


def semaphores():
    def kernel(x_ref, o_ref, sem):
        pallas.semaphore_signal(sem, 2)
        pallas.semaphore_wait(sem, 1)
        o_ref[...] = x_ref[...] * pallas.semaphore_read(sem).astype(F32)
        pallas.semaphore_wait(sem, 1)

    return pallas_call(kernel, X, scratch_shapes=[tpu.SemaphoreType.REGULAR]), (X,)


def pipelined_matmul():
    def product(x_ref, y_ref, o_ref):
        @when(program_id(2) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += jnp.dot(x_ref[...], y_ref[...])

    def kernel(x_ref, y_ref, o_ref):
        tpu.emit_pipeline(
            product,
            grid=(2, 2, 2),
            in_specs=[
                BlockSpec((128, 128), lambda i, j, k: (i, k)),
                BlockSpec((128, 128), lambda i, j, k: (k, j)),
            ],
            out_specs=[BlockSpec((128, 128), lambda i, j, k: (i, j))],
        )(x_ref, y_ref, o_ref)

    x = np.ones((256, 256), F32)
    return pallas_call(kernel, x, in_specs=[ANY, ANY], out_specs=ANY), (x, x)


def pipeline():
    def double(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2 + program_id(1).astype(F32)

    def kernel(x_ref, o_ref):
        block = BlockSpec((8, 128), lambda i, j: (i, j))
        run = tpu.emit_pipeline(double, grid=(4, 2), in_specs=[block], out_specs=[block])
        run(x_ref.at[ds(program_id(0) * 32, 32)], o_ref.at[ds(program_id(0) * 32, 32)])

    return pallas_call(kernel, X, grid=2, in_specs=[HBM], out_specs=HBM), (X,)


def edges_of_a_pipeline(rows=100, columns=384, dtype=F32):
    """Blocks that divide neither rows nor columns; sums of rows add to a block that several programs see."""

    def kernel(x_ref, o_ref, sums_ref):
        def double(x_ref, o_ref, sums_ref):
            o_ref[...] = x_ref[...] * 2

            @when(program_id(1) == 0)
            def _():
                sums_ref[...] = jnp.zeros_like(sums_ref)

            sums_ref[...] += x_ref[:, :128]

        blocks = [
            BlockSpec((16, 256), lambda i, j: (i, j)),
            BlockSpec((16, 256), lambda i, j: (i, j)),
            BlockSpec((16, 128), lambda i, j: (i, 0)),
        ]
        grid = (-(-rows // 16), -(-columns // 256))
        run = tpu.emit_pipeline(double, grid=grid, in_specs=blocks[:1], out_specs=blocks[1:])
        run(x_ref, o_ref, sums_ref)

    x = np.arange(rows * columns).reshape(rows, columns).astype(dtype)
    out = [like(x.shape, dtype), like((rows, 128), dtype)]
    return pallas_call(kernel, out, in_specs=[HBM], out_specs=[HBM, HBM]), (x,)


def narrow_edges_of_a_pipeline():
    """The last block has ten rows, which are copied as eight and two."""
    return edges_of_a_pipeline(90, 384, BF16)


def pipeline_that_repeats_blocks():
    def kernel(x_ref, o_ref):
        def copy(x_ref, o_ref):
            o_ref[...] = x_ref[...]

        rows, first = (
            BlockSpec((8, 256), lambda i: (i, 0)),
            BlockSpec((8, 256), lambda i: (i // 3, 0)),
        )
        tpu.emit_pipeline(copy, grid=(7,), in_specs=[rows], out_specs=[first])(x_ref, o_ref)

    return pallas_call(kernel, like((24, 256), F32), in_specs=[HBM], out_specs=HBM), (X,)


def pipeline_in_vmem():
    def kernel(x_ref, o_ref):
        def double(x_ref, o_ref):
            o_ref[...] = x_ref[...] * 2

        rows = BlockSpec((8, 256), lambda i: (i, 0))
        tpu.emit_pipeline(double, grid=(8,), in_specs=[rows], out_specs=[rows])(x_ref, o_ref)

    return pallas_call(kernel, X), (X,)


def ring_kernel(x_ref, o_ref, send, receive):
    """Hands parts on to the next device, until each has all."""
    n, me = o_ref.shape[0], lax.axis_index("x")
    right = (me + 1) % n
    barrier = tpu.get_barrier_semaphore()
    pallas.semaphore_signal(barrier, 1, device_id=(right,))
    pallas.semaphore_wait(barrier, 1)
    tpu.sync_copy(x_ref, o_ref.at[me])

    def hand_on(i, _):
        part = o_ref.at[(me - i) % n]
        copy = tpu.make_async_remote_copy(part, part, send, receive, device_id=(right,))
        copy.start()
        copy.wait()

    lax.fori_loop(0, n - 1, hand_on, None)


def ring(mesh):
    """An all-gather over the axis `x` of a mesh, as a function of the whole array."""
    call = pallas_call(
        ring_kernel, like((mesh.size, 8, 128), F32), in_specs=[HBM], out_specs=HBM, scratch_shapes=[DMA] * 2,
        compiler_params=tpu.CompilerParams(collective_id=0),
    )  # fmt: skip
    spec = pl.P("x")
    return pl.shard_map(call, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)


KERNELS = {
    "add": lambda: by_rows(add, X, X),
    "softmax": lambda: by_rows(softmax, X),
    **{
        f.__name__: f
        for f in (
            matmul, attention, prefetch, rank_0, dynamic_grid, squeezed, single_rows, edges, elements, one_dimension, scalars, booleans,
            loops, scoped, parts, shapes, numbers, aliased, products, rotations_and_bits, packed, rounded_by_chance, parts_by_names, gathers, cumulative, reversals, sorts, printing, four_bits, strided_rotation, stated_starts, whole_copies, copied_parts, double_buffering,
            written_parts, semaphores, pipelined_matmul, pipeline, edges_of_a_pipeline, narrow_edges_of_a_pipeline, pipeline_that_repeats_blocks, pipeline_in_vmem,
        )
    },
}  # fmt: skip
"""By name what makes the function and its arguments."""


# The library's kernels ------------------------------------------------------------------------------------------


def flash_attention_back():
    def total(q, k, v):
        return flash_attention(q, k, v, causal=True).astype(F32).sum()

    q = np.ones((1, 2, 256, 128), BF16)
    return pl.grad(total, argnums=(0, 1, 2)), (q, q, q)


def tiled_matmul():
    x = np.ones((256, 256), F32)
    return lambda x, y: matmul_of_tiles(x, y, block_shape=(128, 128), block_k=128), (x, x)


def grouped_matmul():
    args = np.ones((256, 128), F32), np.ones((3, 128, 256), F32), np.array([100, 56, 100], I32)
    return gmm, args


OPERATIONS = {f.__name__: f for f in (flash_attention_back, tiled_matmul, grouped_matmul)}
"""Functions that call kernels of the library."""
