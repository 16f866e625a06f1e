"""Kernels for Hopper GPUs: compiled, in the simulator of blocks, and in the reference's, they give one result; mistakes are named with their lines."""

import functools

import numpy as np
import pytest
from corpus import gpu_kernels as corpus

import pellucid as pl
from pellucid import lax, numpy as jnp
from pellucid.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    CheckError,
    EffectsError,
    UnsupportedError,
)
from pellucid.experimental import pallas
from pellucid.experimental.pallas import mosaic_gpu as gpu, tpu
from pellucid.kernels.simulator.call import recorded
from tests.core.kernels import hopper_threads

F32 = np.float32
SIMULATED = gpu.InterpretParams(detect_races=True)
SHUFFLED = gpu.InterpretParams(detect_races=True, random_seed=3)
EAGER = gpu.InterpretParams(detect_races=True, dma_execution_mode="eager")
WAYS = [None, SIMULATED, SHUFFLED, EAGER]


def numbers(*shape, seed=0, dtype=F32):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


# Results ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", [sample.__name__ for sample in corpus.SAMPLES])
def test_results_are_those_of_the_reference(oracle, which):
    [expected] = oracle.call_each(corpus.answers, [which])
    for interpret in WAYS:
        ours = corpus.answer(pl, which, interpret)
        assert [x.dtype for x in ours] == [x.dtype for x in expected]
        for x, y in zip(ours, expected, strict=True):
            np.testing.assert_array_equal(x, y)


def product(a_ref, b_ref, o_ref, held, acc):
    i, j = lax.axis_index("i"), lax.axis_index("j")

    def step(position, a_ref, b_ref):
        gpu.wgmma(acc, a_ref, gpu.transpose_ref(b_ref, (1, 0)))
        gpu.wgmma_wait(1)

    gpu.emit_pipeline(
        step,
        grid=(4,),
        in_specs=[
            gpu.BlockSpec((64, 32), lambda k: (i, k), delay_release=1),
            gpu.BlockSpec((64, 32), lambda k: (j, k), delay_release=1),
        ],
        max_concurrent_steps=3,
    )(a_ref, b_ref)
    held[...] = acc[...]
    gpu.commit_smem()
    gpu.copy_smem_to_gmem(held, o_ref.at[pallas.ds(i * 64, 64), pallas.ds(j * 64, 64)])
    gpu.wait_smem_to_gmem(0)


def product_kernel(interpret=None, body=product):
    return gpu.kernel(
        body,
        pl.ShapeDtypeStruct((128, 192), F32),
        grid=(2, 3),
        grid_names=("i", "j"),
        scratch_shapes=[gpu.SMEM((64, 64), F32), gpu.ACC((64, 64))],
        interpret=interpret,
    )


@pytest.mark.parametrize("interpret", WAYS)
def test_a_pipelined_product_begins_at_zero_in_each_block(interpret):
    a, b = numbers(128, 128), numbers(192, 128, seed=1)
    np.testing.assert_array_equal(product_kernel(interpret)(a, b), a @ b.T)


def test_a_kernel_has_derivatives_and_batches():
    a, b = numbers(128, 128), numbers(192, 128, seed=1)
    gradient = pl.grad(lambda a: (product_kernel()(a, b) ** 2).sum())(a)
    np.testing.assert_allclose(gradient, 2 * (a @ b.T) @ b, rtol=1e-5)
    both = np.stack([a, 2 * a])
    found = pl.vmap(lambda a: product_kernel()(a, b))(both)
    np.testing.assert_array_equal(found, both @ b.T)
    simulated = pl.grad(lambda a: (product_kernel(SIMULATED)(a, b) ** 2).sum())(a)
    np.testing.assert_allclose(simulated, gradient, rtol=1e-5)


def specialized(a_ref, b_ref, o_ref, held):
    i, j, w = lax.axis_index("i"), lax.axis_index("j"), lax.axis_index("wg")
    rows = pallas.ds(w * 64, 64)

    def context(pipeline):
        def run(acc):
            pipeline(acc)
            return acc[...]

        held[rows] = pallas.run_scoped(run, gpu.ACC((64, 64)))
        gpu.commit_smem()
        target = o_ref.at[pallas.ds(i * 128 + w * 64, 64), pallas.ds(j * 64, 64)]
        gpu.copy_smem_to_gmem(held.at[rows], target)
        gpu.wait_smem_to_gmem(0)

    def step(position, a_ref, b_ref, acc):
        gpu.wgmma(acc, a_ref.at[rows], gpu.transpose_ref(b_ref, (1, 0)))
        gpu.wgmma_wait(1)
        return acc

    gpu.emit_pipeline_warp_specialized(
        step,
        grid=(4,),
        memory_registers=40,
        wg_axis="wg",
        num_compute_wgs=2,
        compute_context=context,
        max_concurrent_steps=3,
        in_specs=[
            gpu.BlockSpec((128, 32), lambda k: (i, k), delay_release=1),
            gpu.BlockSpec((64, 32), lambda k: (j, k), delay_release=1),
        ],
    )(a_ref, b_ref)


@pytest.mark.parametrize("interpret", WAYS)
def test_threads_share_a_pipeline(interpret):
    a, b = numbers(256, 128), numbers(192, 128, seed=1)
    call = gpu.kernel(
        specialized,
        pl.ShapeDtypeStruct((256, 192), F32),
        grid=(2, 3),
        grid_names=("i", "j"),
        num_threads=3,
        thread_name="wg",
        scratch_shapes=[gpu.SMEM((128, 64), F32)],
        interpret=interpret,
    )
    np.testing.assert_array_equal(call(a, b), a @ b.T)


@pytest.mark.parametrize("interpret", WAYS)
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_results_of_pipelines_stay_while_their_block_does(interpret, steps):
    """Threads write parts of a block that several programs add to; the last block reaches beyond the edge."""
    x = numbers(18, 16)
    specs = {
        "grid": (5, 2),
        "in_specs": [gpu.BlockSpec((4, 8), lambda i, j: (i, j))],
        "out_specs": [gpu.BlockSpec((4, 8), lambda i, j: (i, 0))],
        "max_concurrent_steps": steps,
    }

    def add(position, x_ref, o_ref, rows):
        @pallas.when(position[1] == 0)
        def _():
            o_ref[rows] = jnp.zeros_like(o_ref[rows])

        o_ref[rows] += x_ref[rows]

    def alone(x_ref, o_ref):
        whole = slice(None)
        gpu.emit_pipeline(functools.partial(add, rows=whole), **specs)(x_ref, o_ref)

    def together(x_ref, o_ref):
        rows = pallas.ds(lax.axis_index("wg") * 2, 2)
        gpu.emit_pipeline_warp_specialized(
            functools.partial(add, rows=rows), memory_registers=40, wg_axis="wg", num_compute_wgs=2, **specs
        )(x_ref, o_ref)  # fmt: skip

    kind = pl.ShapeDtypeStruct((18, 8), F32)
    expected = x[:, :8] + x[:, 8:]
    np.testing.assert_array_equal(gpu.kernel(alone, kind, interpret=interpret)(x), expected)
    threads = {"num_threads": 3, "thread_name": "wg"}
    found = gpu.kernel(together, kind, interpret=interpret, **threads)(x)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("interpret", WAYS)
def test_buffers_of_a_pipeline_serve_again(interpret):
    block = gpu.BlockSpec((2, 8), lambda i: (i, 0))
    pipeline = gpu.emit_pipeline_warp_specialized(
        lambda position, x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] + 1),
        grid=(3,), memory_registers=40, in_specs=[block], out_specs=[block], wg_axis="wg", num_compute_wgs=1,
    )  # fmt: skip

    def body(x_ref, y_ref, o_ref, p_ref):
        def run(*held):
            pipeline(x_ref, o_ref, allocations=held)
            pipeline(y_ref, p_ref, allocations=held)

        types = pipeline.get_allocations(x_ref, o_ref)
        pallas.run_scoped(run, *types, collective_axes="wg")

    x, y = numbers(6, 8), numbers(6, 8, seed=1)
    kind = pl.ShapeDtypeStruct((6, 8), F32)
    call = gpu.kernel(body, (kind, kind), num_threads=2, thread_name="wg", interpret=interpret)
    for found, expected in zip(call(x, y), (x + 1, y + 1), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("interpret", WAYS)
def test_blocks_of_a_grid_lie_in_shared_memory(interpret):
    a, b = numbers(128, 128), numbers(128, 192, seed=1)
    np.testing.assert_array_equal(summed_blocks(interpret, waits=True)(a, b), a @ b)


def summed_blocks(interpret, *, waits):
    def body(a_ref, b_ref, o_ref, acc):
        gpu.wgmma(acc, a_ref, b_ref)
        if waits:
            gpu.wgmma_wait(0)

        @pallas.when(pallas.program_id(2) == 3)
        def _():
            o_ref[...] = acc[...]

    return pallas.pallas_call(
        body,
        pl.ShapeDtypeStruct((128, 192), F32),
        grid=(2, 3, 4),
        in_specs=[
            gpu.BlockSpec((64, 32), lambda i, j, k: (i, k), transforms=[gpu.SwizzleTransform(128)]),
            gpu.BlockSpec((32, 64), lambda i, j, k: (k, j)),
        ],
        out_specs=gpu.BlockSpec((64, 64), lambda i, j, k: (i, j)),
        scratch_shapes=[gpu.ACC((64, 64))],
        compiler_params=gpu.CompilerParams(dimension_semantics=["parallel", "parallel", "sequential"]),
        interpret=interpret or False,
    )  # fmt: skip


@pytest.mark.parametrize("interpret", WAYS)
def test_copies_beyond_the_edge_are_zero_and_dropped(interpret):
    def body(x_ref, o_ref, s_ref, held, barrier):
        rows = pallas.ds(lax.axis_index("i") * 3, 3)
        gpu.copy_gmem_to_smem(x_ref.at[rows], held, barrier)
        gpu.barrier_wait(barrier)
        s_ref[lax.axis_index("i")] = held[...].sum()
        gpu.copy_smem_to_gmem(held, o_ref.at[rows])
        gpu.wait_smem_to_gmem(0)

    x = numbers(8, 16)
    kinds = (pl.ShapeDtypeStruct(x.shape, F32), pl.ShapeDtypeStruct((3,), F32))
    scratch = [gpu.SMEM((3, 16), F32), gpu.Barrier()]
    call = gpu.kernel(body, kinds, grid=(3,), grid_names=("i",), scratch_shapes=scratch, interpret=interpret)  # fmt: skip
    found, sums = call(x)
    np.testing.assert_array_equal(found, x)
    np.testing.assert_array_equal(sums, [x[:3].sum(), x[3:6].sum(), x[6:].sum()])


@pytest.mark.parametrize("interpret", WAYS)
def test_a_part_of_a_part_beyond_the_edge_is_zero(interpret):
    """Positions count in the whole array, as on GPUs; elements of its next row are there."""

    def body(x_ref, o_ref, held, barrier):
        i = lax.axis_index("i")
        part = x_ref.at[:, pallas.ds(4 * i, 4)].at[pallas.ds(2 * i, 2), pallas.ds(2 * i, 2)]
        gpu.copy_gmem_to_smem(part, held, barrier)
        gpu.barrier_wait(barrier)
        o_ref[i] = held[...]

    x = numbers(3, 7)
    padded = np.pad(x, [(0, 3), (0, 9)])
    expected = [padded[2 * i : 2 * i + 2, 6 * i : 6 * i + 2] for i in range(2)]
    call = gpu.kernel(
        body, pl.ShapeDtypeStruct((2, 2, 2), F32), grid=(2,), grid_names=("i",),
        scratch_shapes=[gpu.SMEM((2, 2), F32), gpu.Barrier()], interpret=interpret,
    )  # fmt: skip
    np.testing.assert_array_equal(call(x), expected)


@pytest.mark.parametrize("interpret", WAYS)
def test_copies_may_combine_and_have_a_condition(interpret):
    def body(x_ref, o_ref, p_ref, held):
        @pallas.when(lax.axis_index("i") == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref[...])
            p_ref[...] = jnp.zeros_like(p_ref[...])

        held[...] = x_ref[...]
        gpu.commit_smem()
        gpu.copy_smem_to_gmem(held, p_ref, lax.axis_index("i") < 0, commit_group=False)
        gpu.copy_smem_to_gmem(held, o_ref, reduction_op="add", commit_group=False)
        gpu.commit_smem_to_gmem_group()
        gpu.wait_smem_to_gmem(0)

    x = numbers(4, 8)
    races = interpret is not None  # nothing orders blocks
    call = gpu.kernel(
        body, (x, x), grid=(3,), grid_names=("i",), scratch_shapes=[gpu.SMEM(x.shape, F32)],
        interpret=gpu.InterpretParams() if races else None,
    )  # fmt: skip
    total, nothing = call(x)
    np.testing.assert_array_equal(total, 3 * x)
    np.testing.assert_array_equal(nothing, 0 * x)


def test_layouts_change_no_values():
    def body(x_ref, o_ref):
        x = gpu.load(x_ref, (), layout=gpu.Layout.WG_STRIDED((64, 64), vec_size=2))
        i = gpu.broadcasted_iota(F32, (64, 64), 1, layout=gpu.Layout.WGMMA)
        o_ref[...] = gpu.layout_cast(x, gpu.Layout.WGMMA) + i

    x = numbers(64, 64)
    expected = x + np.arange(64, dtype=F32)
    np.testing.assert_array_equal(gpu.kernel(body, x)(x), expected)
    np.testing.assert_array_equal(gpu.kernel(body, x, interpret=SIMULATED)(x), expected)


def test_the_position_of_a_block_is_its_own_in_compiled_functions():
    """A function that is compiled once gets the position of the kernel that calls it."""

    @pl.jit
    def position():
        return lax.axis_index("i") + 10 * lax.axis_size("i")

    def body(o_ref):
        o_ref[lax.axis_index("i")] = position()

    for n in (2, 3, 2):
        call = gpu.kernel(body, pl.ShapeDtypeStruct((n,), np.int32), grid=(n,), grid_names=("i",))
        np.testing.assert_array_equal(call(), np.arange(n) + 10 * n)


@pytest.mark.parametrize("interpret", WAYS)
def test_threads_write_parts_of_a_part_alone(interpret):
    """A part of a part is one index: no thread writes back what others write meanwhile."""

    def body(x_ref, o_ref, held):
        slot = held.at[lax.axis_index("i") * 0 + 1]
        i = lax.axis_index("wg")
        slot.at[pallas.ds(2 * i, 2)][:, pallas.ds(0, 4)] = x_ref[i]
        o_ref[i] = slot[pallas.ds(2 * i, 2)]

    x = numbers(3, 2, 4)
    call = gpu.kernel(
        body, x, grid=(1,), grid_names=("i",), num_threads=3, thread_name="wg",
        scratch_shapes=[gpu.SMEM((2, 6, 4), F32)], interpret=interpret,
    )  # fmt: skip
    np.testing.assert_array_equal(call(x), x)


@pytest.mark.parametrize("interpret", WAYS)
def test_each_thread_has_an_accumulator_of_its_own(interpret):
    """Scratch of one thread: it begins at 0 in each, in each block."""

    def body(x_ref, o_ref, held, acc):
        i, j = lax.axis_index("i"), lax.axis_index("wg")
        rows = pallas.ds(64 * j, 64)
        held[rows] = x_ref[...] * (i + j)
        gpu.commit_smem()
        gpu.wgmma(acc, held.at[rows], held.at[rows])
        o_ref[i, j] = acc[...]

    x = numbers(64, 64)
    call = gpu.kernel(
        body, pl.ShapeDtypeStruct((2, 2, 64, 64), F32), grid=(2,), grid_names=("i",), num_threads=2, thread_name="wg",
        scratch_shapes=[gpu.SMEM((128, 64), F32), gpu.ACC((64, 64))], interpret=interpret,
    )  # fmt: skip
    expected = [[(i + j) ** 2 * (x @ x) for j in range(2)] for i in range(2)]
    np.testing.assert_array_equal(call(x), expected)


def test_a_timeline_has_copies_beside_threads():
    with recorded() as machines:
        product_kernel(SIMULATED)(numbers(128, 128), numbers(192, 128, seed=1))
    kinds = {event.kind for event in machines[0].trace}
    assert {"copy", "compute", "wait", "read", "write"} <= kinds
    assert len([e for e in machines[0].trace if e.kind == "copy"]) == 6 * (2 * 4 + 1)


# Mistakes ---------------------------------------------------------------------------------------------------------


def message(call, *args):
    with pytest.raises(CheckError) as info:
        call(*args)
    return str(info.value)


def handed_over(x_ref, o_ref, held, full, empty, *, arrives=True, waits=True):
    thread = lax.axis_index("wg")

    @pallas.when(thread == 0)
    def _():
        @pallas.loop(0, 8)
        def _(k):
            slot = k % 2
            if waits:

                @pallas.when(k >= 2)
                def _():
                    gpu.barrier_wait(empty.at[slot])

            gpu.copy_gmem_to_smem(x_ref.at[k], held.at[slot], full.at[slot])

    @pallas.when(thread == 1)
    def _():
        @pallas.loop(0, 8)
        def _(k):
            slot = k % 2
            gpu.barrier_wait(full.at[slot])
            o_ref[k] = held[slot]
            if arrives:
                gpu.barrier_arrive(empty.at[slot])


def handing(interpret=None, **options):
    return gpu.kernel(
        functools.partial(handed_over, **options), pl.ShapeDtypeStruct((8, 16), F32), num_threads=2, thread_name="wg",
        scratch_shapes=[gpu.SMEM((2, 16), F32), gpu.Barrier(num_barriers=2), gpu.Barrier(num_barriers=2)],
        interpret=interpret,
    )  # fmt: skip


def test_threads_that_wait_for_each_other_are_simulated_unasked():
    x = numbers(8, 16)
    np.testing.assert_array_equal(handing()(x), x)


def test_threads_that_wait_are_a_kernel_on_gpus_and_simulated_on_cpus_only():
    function, args = hopper_threads.handed_over()
    lowered = lambda platform: pl.jit(function).trace(*args).lower(lowering_platforms=(platform,))
    text = lowered("cuda").as_text()
    assert "mosaic_gpu_v2" in text
    assert "callback" not in text
    with pytest.raises(UnsupportedError, match="not lowered for tpu"):
        lowered("tpu")


@pytest.mark.parametrize("interpret", WAYS)
def test_semaphores_begin_at_zero(interpret):
    def body(x_ref, o_ref, one, several):
        gpu.semaphore_signal(one, 2)
        signals = [gpu.SemaphoreSignal(several.at[i], device_id=None) for i in range(2)]
        gpu.semaphore_signal_parallel(*signals)
        gpu.semaphore_wait(one, 2)
        gpu.semaphore_wait(several.at[1])
        gpu.semaphore_wait(several.at[0])
        o_ref[lax.axis_index("i")] = x_ref[0] + pallas.semaphore_read(one)

    scratch = [gpu.SemaphoreType.REGULAR, gpu.SemaphoreType.REGULAR((2,))]
    x = numbers(2, 4)
    call = gpu.kernel(body, x, grid=(2,), grid_names=("i",), scratch_shapes=scratch, interpret=interpret)  # fmt: skip
    np.testing.assert_array_equal(call(x), [x[0], x[0]])


def test_a_missing_arrival_is_a_deadlock():
    text = message(handing(arrives=False), numbers(8, 16))
    assert "a deadlock in the kernel `handed_over`: no thread can go on" in text
    assert "thread 0 waits for phase 0 of barrier `empty[0]`, which has 0 of 1 arrivals" in text
    assert "gpu.barrier_wait(empty.at[slot])" in text
    assert "thread 1 waits for phase 1 of barrier `full[0]`" in text


def test_a_copy_to_memory_that_another_thread_reads_is_found():
    text = message(handing(waits=False, arrives=False), numbers(8, 16))
    assert "gpu.copy_gmem_to_smem(x_ref.at[k], held.at[slot], full.at[slot])" in text


KIND = pl.ShapeDtypeStruct((8, 16), F32)


def alone(body, *scratch, interpret=SIMULATED, kind=KIND, **options):
    return gpu.kernel(body, kind, scratch_shapes=[*scratch], interpret=interpret, **options)


HELD = gpu.SMEM((8, 16), F32)


def test_reading_before_the_wait_is_a_race():
    def body(x_ref, o_ref, held, barrier):
        gpu.copy_gmem_to_smem(x_ref, held, barrier)
        o_ref[...] = held[...]  # read
        gpu.barrier_wait(barrier)

    text = message(alone(body, HELD, gpu.Barrier()), numbers(8, 16))
    assert "a race: nothing orders two accesses to `held`" in text
    assert "the block reads [0:8, 0:16]" in text
    assert "o_ref[...] = held[...]  # read" in text
    assert "gpu.copy_gmem_to_smem(x_ref, held, barrier)" in text


def test_writing_what_a_copy_still_reads_is_a_race():
    def body(x_ref, o_ref, held):
        held[...] = x_ref[...]
        gpu.commit_smem()
        gpu.copy_smem_to_gmem(held, o_ref)
        held[...] = x_ref[...] * 2  # written
        gpu.wait_smem_to_gmem(0)

    text = message(alone(body, HELD), numbers(8, 16))
    assert "the block writes [0:8, 0:16]" in text
    assert "# written" in text
    assert "a copy started by the block reads [0:8, 0:16]" in text


def test_a_wait_for_reading_allows_writing():
    def body(x_ref, o_ref, p_ref, held):
        held[...] = x_ref[...]
        gpu.commit_smem()
        gpu.copy_smem_to_gmem(held, o_ref)
        gpu.wait_smem_to_gmem(0, wait_read_only=True)
        held[...] = x_ref[...] * 2
        gpu.commit_smem()
        gpu.copy_smem_to_gmem(held, p_ref)
        gpu.wait_smem_to_gmem(0)

    x = numbers(8, 16)
    kind = pl.ShapeDtypeStruct(x.shape, F32)
    for interpret in WAYS:
        once, twice = alone(body, HELD, interpret=interpret, kind=(kind, kind))(x)
        np.testing.assert_array_equal(once, x)
        np.testing.assert_array_equal(twice, 2 * x)


def test_writing_what_a_product_still_reads_is_a_race():
    def body(x_ref, o_ref, held, acc, barrier):
        gpu.copy_gmem_to_smem(x_ref, held, barrier)
        gpu.barrier_wait(barrier)
        gpu.wgmma(acc, held, held)
        held[...] = x_ref[...]  # written
        o_ref[...] = acc[...]

    x = numbers(64, 64)
    scratch = gpu.SMEM((64, 64), F32), gpu.ACC((64, 64)), gpu.Barrier()
    text = message(alone(body, *scratch, kind=x), x)
    assert "a product started by the block reads [0:64, 0:64]" in text
    assert "# written" in text


def test_a_block_that_a_product_reads_is_not_replaced():
    text = message(summed_blocks(gpu.InterpretParams(), waits=False), numbers(128, 128), numbers(128, 192))  # fmt: skip
    assert "a block is replaced that a product in flight reads" in text
    assert "gpu.wgmma(acc, a_ref, b_ref)" in text


def test_products_see_what_is_committed_only():
    def body(x_ref, o_ref, held, acc):
        held[...] = x_ref[...]  # written
        gpu.wgmma(acc, held, held)
        o_ref[...] = acc[...]

    x = numbers(64, 64)
    text = message(alone(body, gpu.SMEM((64, 64), F32), gpu.ACC((64, 64)), kind=x), x)
    assert "a product reads a part of shared memory that isn't committed" in text
    assert "# written" in text


def test_copies_see_what_is_committed_only():
    def body(x_ref, o_ref, held):
        held[...] = x_ref[...]
        gpu.copy_smem_to_gmem(held, o_ref)
        gpu.wait_smem_to_gmem(0)

    text = message(alone(body, HELD), numbers(8, 16))
    assert "a copy to the device reads a part of shared memory that isn't committed" in text


def test_an_accumulator_that_is_in_flight_is_not_read():
    def body(x_ref, o_ref, held, acc, barrier):
        gpu.copy_gmem_to_smem(x_ref, held, barrier)
        gpu.barrier_wait(barrier)
        gpu.wgmma(acc, held, held)
        o_ref[...] = gpu.wgmma_accumulator_load(acc, wait_n=1)

    x = numbers(64, 64)
    scratch = gpu.SMEM((64, 64), F32), gpu.ACC((64, 64)), gpu.Barrier()
    text = message(alone(body, *scratch, kind=x), x)
    assert "reads an accumulator that products in flight change" in text


def test_what_is_in_flight_at_the_end_is_named():
    def copies(x_ref, o_ref, held):
        held[...] = x_ref[...]
        gpu.commit_smem()
        gpu.copy_smem_to_gmem(held, o_ref)

    def arrives(x_ref, o_ref, held, barrier):
        gpu.copy_gmem_to_smem(x_ref, held, barrier)
        o_ref[...] = x_ref[...]

    x = numbers(8, 16)
    assert "ends before it has waited for a copy" in message(alone(copies, HELD), x)
    text = message(alone(arrives, HELD, gpu.Barrier()), x)
    assert "leaves a copy to shared memory in flight" in text


def test_barriers_count_their_arrivals():
    def twice(x_ref, o_ref, held, barrier):
        gpu.copy_gmem_to_smem(x_ref, held, barrier)
        gpu.copy_gmem_to_smem(x_ref, held, barrier)
        gpu.barrier_wait(barrier)
        o_ref[...] = held[...]

    def missed(x_ref, o_ref, barrier):
        gpu.barrier_arrive(barrier)
        gpu.barrier_arrive(barrier)
        gpu.barrier_wait(barrier)
        o_ref[...] = x_ref[...]

    x = numbers(8, 16)
    text = message(alone(twice, HELD, gpu.Barrier()), x)
    assert "whose phase has all of its arrivals and isn't complete" in text
    text = message(alone(missed, gpu.Barrier()), x)
    assert "waits for phase 0 of barrier `barrier`, which has completed 2 of them" in text


def test_a_wait_without_end_is_found_in_compiled_programs():
    def body(x_ref, o_ref, held, barrier):
        gpu.copy_gmem_to_smem(x_ref, held, barrier)
        gpu.barrier_wait(barrier)
        gpu.barrier_wait(barrier)
        o_ref[...] = held[...]

    text = message(alone(body, HELD, gpu.Barrier(), interpret=None), numbers(8, 16))
    assert "barrier_wait would wait forever: the barrier has 0 arrivals, and waits for 1" in text
    assert "gpu.barrier_wait(barrier)" in text


def test_a_test_without_end_is_found():
    def body(x_ref, o_ref, barrier):
        lax.while_loop(lambda done: ~done, lambda _: gpu.barrier_test(barrier), np.bool_(False))
        o_ref[...] = x_ref[...]

    assert "has tested barrier `barrier`" in message(alone(body, gpu.Barrier()), numbers(8, 16))


def test_a_test_ends_when_the_copy_is_made():
    def body(x_ref, o_ref, held, barrier):
        gpu.copy_gmem_to_smem(x_ref, held, barrier)
        lax.while_loop(lambda done: ~done, lambda _: gpu.barrier_test(barrier), np.bool_(False))
        gpu.barrier_wait(barrier)
        o_ref[...] = held[...]

    x = numbers(8, 16)
    for interpret in WAYS:
        np.testing.assert_array_equal(alone(body, HELD, gpu.Barrier(), interpret=interpret)(x), x)


def test_blocks_and_threads_that_write_one_place_race():
    def blocks(x_ref, o_ref):
        o_ref[...] = x_ref[...] * lax.axis_index("i")

    def threads(x_ref, o_ref, held):
        held[...] = x_ref[...]
        o_ref[lax.axis_index("wg")] = held[0]

    x = numbers(8, 16)
    text = message(alone(blocks, grid=(2,), grid_names=("i",)), x)
    assert "block (0,) writes" in text
    assert "block (1,) writes" in text
    text = message(alone(threads, HELD, num_threads=2, thread_name="wg"), x)
    assert "thread 0 writes" in text
    assert "thread 1 writes" in text


# Refusals ---------------------------------------------------------------------------------------------------------


def test_operands_are_checked_where_they_are_used():
    def wrong(kind, operation):
        def body(x_ref, o_ref, held, acc, barrier):
            operation(x_ref, held, acc, barrier)

        with pytest.raises(kind) as info:
            alone(body, HELD, gpu.ACC((64, 64)), gpu.Barrier(num_barriers=2))(numbers(8, 16))
        return str(info.value)

    text = wrong(ArgumentTypeError, lambda x, s, a, b: gpu.copy_gmem_to_smem(x, s, b))
    assert "takes one barrier" in text
    text = wrong(ArgumentTypeError, lambda x, s, a, b: gpu.copy_gmem_to_smem(s, s, b.at[0]))
    assert "one end of the copy lies in the memory of the device" in text
    text = wrong(ArgumentTypeError, lambda x, s, a, b: gpu.copy_smem_to_gmem(x, x))
    assert "a reference to shared memory, SMEM" in text
    text = wrong(ArgumentTypeError, lambda x, s, a, b: gpu.copy_smem_to_gmem(s.at[0], x))
    assert "one shape and dtype" in text
    text = wrong(ArgumentTypeError, lambda x, s, a, b: gpu.wgmma(a, s, x))
    assert "matrices in shared memory" in text
    text = wrong(ArgumentTypeError, lambda x, s, a, b: gpu.wgmma(a, s, s))
    assert "has the shape of the accumulator" in text
    text = wrong(ArgumentTypeError, lambda x, s, a, b: gpu.wgmma(s, s, s))
    assert "an accumulator" in text
    text = wrong(ArgumentTypeError, lambda x, s, a, b: gpu.barrier_wait(s))
    assert "a barrier, scratch of the type" in text


BARRIER = [gpu.SMEM((4, 6), F32), gpu.Barrier()]


def call_with(use, scratch=BARRIER, interpret=None):
    """Call a kernel that uses its input, its result and its scratch."""

    def body(x_ref, o_ref, *held):
        use(x_ref, o_ref, *held)
        o_ref[...] = x_ref[...]

    x = numbers(4, 6)
    return gpu.kernel(body, x, scratch_shapes=scratch, interpret=interpret)(x)


COUNTING = {
    "read": lambda x, o, s, b: b[0],
    "written": lambda x, o, s, b: b.__setitem__(0, 1),
    "added": lambda x, o, s, b: gpu.atomic_add(b, 1),
    "looped": lambda x, o, s, b: lax.fori_loop(0, 2, lambda i, c: c + b[0], 0),
    "signaled": lambda x, o, s, b: gpu.semaphore_signal(b.at[0]),
    "waited": lambda x, o, s, b: gpu.semaphore_wait(b.at[0]),
}


@pytest.mark.parametrize("interpret", [None, SIMULATED])
@pytest.mark.parametrize("which", COUNTING)
def test_barriers_are_no_memory_and_no_semaphores(which, interpret):
    with pytest.raises(
        ArgumentTypeError, match=r"in barrier\n  in test_gpu.py[^\n]*\n  Use `barrier_arr"
    ):
        call_with(COUNTING[which], interpret=interpret)


def test_memory_is_no_semaphore():
    scratch = [gpu.SMEM((), np.int32)]
    with pytest.raises(ArgumentTypeError, match="only semaphores take signals"):
        call_with(lambda x, o, s: gpu.semaphore_signal(s), scratch)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (
            lambda x, o, s, b: gpu.copy_gmem_to_smem(x[...], s, b),
            r"a reference.*\n  got f32\[4,6\]\n",
        ),
        (lambda x, o, s, b: gpu.copy_smem_to_gmem(s, x[...]), r"a reference.*\n  got f32\[4,6\]\n"),
        (lambda x, o, s, b: gpu.copy_gmem_to_smem(np.ones((4, 6), F32), s, b), "ndarray of shape"),
        (lambda x, o, s, b: gpu.copy_gmem_to_smem(x, o, b), r"got Ref\{f32\[4,6\]\}$"),
        (lambda x, o, s, b: gpu.copy_gmem_to_smem(x, s, b, oob_mode=2), "OOBFillMode.ZEROS"),
        (lambda x, o, s, b: gpu.barrier_wait(s.at[0]), r"part of shape \[6\] of Ref.* in smem"),
        (lambda x, o, s, b: gpu.transpose_ref(s[...], (1, 0)), r"a reference.*\n  got f32"),
    ],
)
def test_values_and_other_memories_are_named_by_their_types(use, message):
    with pytest.raises((ArgumentTypeError, ArgumentValueError), match=message):
        call_with(use)


@pytest.mark.parametrize("use", [gpu.semaphore_signal, gpu.semaphore_wait])
@pytest.mark.parametrize("n", [1, 2])
def test_one_semaphore_takes_a_signal(use, n):
    scratch = [gpu.SemaphoreType.REGULAR((n,))]
    with pytest.raises(ArgumentTypeError, match=r"takes one semaphore.*\n  \[\d\] semaphores"):
        call_with(lambda x, o, s: use(s), scratch)


@pytest.mark.parametrize(
    "statement",
    [
        lambda: gpu.Mesh(grid=4, grid_names=("x",)),
        lambda: gpu.Mesh(grid=(4,), grid_names="x"),
        lambda: gpu.Mesh(grid=(4,), grid_names=(["x"],)),
        lambda: gpu.Mesh(num_threads="2", thread_name="t"),
        lambda: gpu.Mesh(num_threads=1.5, thread_name="t"),
        lambda: gpu.SMEM((4, -6), F32),
        lambda: gpu.SMEM(4, F32),
        lambda: tpu.VMEM((-1,), F32),
        lambda: gpu.SemaphoreType.REGULAR(3),
        lambda: gpu.ACC(64),
        lambda: gpu.TilingTransform(3),
        lambda: gpu.nd_loop((-2,), collective_axes=()),
        lambda: gpu.nd_loop(2, collective_axes=()),
        lambda: gpu.nd_loop((2,), tiling=(0,), collective_axes=()),
        lambda: gpu.emit_pipeline(lambda ids: None, grid=4),
        lambda: gpu.emit_pipeline(lambda ids: None, grid=(1.5,)),
    ],
)
def test_sizes_and_names_are_checked_where_they_are_stated(statement):
    with pytest.raises((ArgumentTypeError, ArgumentValueError)):
        statement()


@pytest.mark.parametrize("index_map", [lambda i: (i, i), lambda i, j, k: (i, j)])
@pytest.mark.parametrize("rooms", [gpu, tpu])
def test_index_maps_of_pipelines_take_the_position(rooms, index_map):
    spec = (gpu if rooms is gpu else pallas).BlockSpec((2, 3), index_map)
    run = rooms.emit_pipeline(lambda *refs: None, grid=(2, 2), in_specs=[spec])
    with pytest.raises(
        ArgumentTypeError, match=r"one argument for each.*\n.*2 axes\n  in test_gpu"
    ):
        call_with(lambda x, o: run(x), []) if rooms is gpu else pallas.pallas_call(
            lambda x, o: run(x), numbers(4, 6)
        )(numbers(4, 6))


@pytest.mark.parametrize("interpret", [None, SIMULATED])
@pytest.mark.parametrize("grid", [(0, 6), (4, 0), (), (2, 3)])
def test_a_loop_over_a_grid_without_points_does_nothing(grid, interpret):
    def body(o_ref):
        o_ref[...] = jnp.zeros((1,), np.int32)

        @gpu.nd_loop(grid, collective_axes=())
        def turn(info):
            o_ref[...] += 1

    found = gpu.kernel(body, pl.ShapeDtypeStruct((1,), np.int32), interpret=interpret)()
    assert found[0] == np.prod(grid, dtype=int)


def test_a_part_of_an_accumulator_takes_no_product():
    scratch = [gpu.ACC((64, 8)), gpu.SMEM((64, 16), jnp.bfloat16), gpu.SMEM((16, 8), jnp.bfloat16)]
    with pytest.raises(ArgumentTypeError, match=r"accumulator of shape \[8\]"):
        call_with(lambda x, o, acc, a, b: gpu.wgmma(acc.at[0], a, b), scratch)


@pytest.mark.parametrize(
    "name",
    ["TMEMLayout", "tcgen05_mma", "commit_tmem", "multimem_store", "cluster_ref", "inline_mgpu", "remote_ref"],
)  # fmt: skip
def test_names_without_a_meaning_refuse_use(name):
    with pytest.raises(UnsupportedError, match=name):
        getattr(gpu, name)(1)


def test_other_generations_and_clusters_are_refused():
    with pytest.raises(UnsupportedError, match="Blackwell"):
        gpu.TMEM((128, 128), F32)
    with pytest.raises(UnsupportedError, match="Blackwell"):
        gpu.layout_cast(np.zeros((64, 64), F32), gpu.Layout.TCGEN05)
    with pytest.raises(UnsupportedError, match="cluster"):
        gpu.ClusterBarrier(collective_axes=("x",))
    with pytest.raises(UnsupportedError, match="cluster"):
        gpu.BlockSpec((8,), lambda i: (i,), collective_axes=("x",))


def test_statements_are_checked():
    for wrong in (
        lambda: gpu.ACC((10, 8)),
        lambda: gpu.Barrier(num_arrivals=0),
        lambda: gpu.SwizzleTransform(48),
        lambda: gpu.TilingTransform((0,)),
        lambda: gpu.CompilerParams(dimension_semantics=["arbitrary"]),
        lambda: gpu.set_max_registers(41, action="decrease"),
        lambda: gpu.find_swizzle(8),
        lambda: gpu.Mesh(grid=(2,), grid_names=()),
        lambda: gpu.Mesh(num_threads=2),
        lambda: gpu.emit_pipeline(print, grid=(2,), in_specs=[gpu.BlockSpec((8,), lambda i: (i,), delay_release=1)]),
    ):  # fmt: skip
        with pytest.raises(ArgumentValueError):
            wrong()
    with pytest.raises(ArgumentTypeError, match="no such parameter"):
        gpu.CompilerParams(warps=2)
    double = lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] * 2)
    with pytest.raises(ArgumentTypeError, match="simulator of GPUs"):
        pallas.pallas_call(double, numbers(2), interpret=SIMULATED)(numbers(2))


def test_what_waits_for_threads_has_no_derivative():
    with pytest.raises((UnsupportedError, EffectsError), match="no derivative"):
        pl.grad(lambda x: handing()(x).sum())(numbers(8, 16))
