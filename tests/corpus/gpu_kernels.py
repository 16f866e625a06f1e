"""Kernels for Hopper GPUs, written for the reference's `mosaic_gpu` and for ours: samples by name."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

F32 = np.float32


def modules(jax: Any) -> tuple[Any, Any, Any]:
    """`pallas` and `pallas.mosaic_gpu` of a library, and what asks for its simulator."""
    name = f"{jax.__name__}.experimental.pallas"
    pallas, gpu = importlib.import_module(name), importlib.import_module(f"{name}.mosaic_gpu")
    if jax.__name__ == "pellucid":
        return pallas, gpu, None
    params: Any = importlib.import_module("jax._src.pallas.mosaic_gpu.interpret.params")
    return pallas, gpu, params.InterpretGPUParams(detect_races=False)


def array(*shape: int, seed: int = 0, dtype: Any = F32) -> np.ndarray:
    """Small integers, which sums and products keep exact."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def copied(jax: Any, interpret: Any = None) -> Any:
    """A copy to shared memory, waited for, and one back."""
    _, gpu, simulator = modules(jax)

    def body(x_ref, o_ref, held, barrier):
        i = jax.lax.axis_index("i")
        gpu.copy_gmem_to_smem(x_ref.at[i], held, barrier)
        gpu.barrier_wait(barrier)
        held[...] = held[...] * 2 + 1
        gpu.commit_smem()
        gpu.copy_smem_to_gmem(held, o_ref.at[i])
        gpu.wait_smem_to_gmem(0)

    x = array(3, 128)
    return gpu.kernel(
        body, jax.ShapeDtypeStruct(x.shape, F32), grid=(3,), grid_names=("i",),
        scratch_shapes=[gpu.SMEM((128,), F32), gpu.Barrier()], interpret=interpret or simulator,
    )(x)  # fmt: skip


def in_turns(jax: Any, interpret: Any = None) -> Any:
    """Two buffers, of which one is filled while the other one is read."""
    pl, gpu, simulator = modules(jax)
    n = 6

    def body(x_ref, o_ref, held, barrier):
        for k in range(2):
            gpu.copy_gmem_to_smem(x_ref.at[k], held.at[k], barrier.at[k])

        def step(k, total):
            slot = k % 2
            gpu.barrier_wait(barrier.at[slot])
            total = total + held[slot]

            @pl.when(k + 2 < n)
            def _():
                gpu.copy_gmem_to_smem(x_ref.at[k + 2], held.at[slot], barrier.at[slot])

            return total

        o_ref[...] = jax.lax.fori_loop(0, n, step, jax.numpy.zeros((128,), F32))

    x = array(n, 128)
    return gpu.kernel(
        body, jax.ShapeDtypeStruct((128,), F32),
        scratch_shapes=[gpu.SMEM((2, 128), F32), gpu.Barrier(num_barriers=2)], interpret=interpret or simulator,
    )(x)  # fmt: skip


def handed_over(jax: Any, interpret: Any = None) -> Any:
    """A thread that copies for another one, with barriers both ways."""
    pl, gpu, simulator = modules(jax)
    n = 5

    def body(x_ref, o_ref, held, full, empty):
        thread = jax.lax.axis_index("wg")

        @pl.when(thread == 0)
        def _():
            def step(k, _):
                slot = k % 2

                @pl.when(k >= 2)
                def _():
                    gpu.barrier_wait(empty.at[slot])

                gpu.copy_gmem_to_smem(x_ref.at[k], held.at[slot], full.at[slot])
                return ()

            jax.lax.fori_loop(0, n, step, ())

        @pl.when(thread == 1)
        def _():
            def step(k, _):
                slot = k % 2
                gpu.barrier_wait(full.at[slot])
                o_ref[k] = held[slot] * 3

                @pl.when(k + 2 < n)
                def _():
                    gpu.barrier_arrive(empty.at[slot])

                return ()

            jax.lax.fori_loop(0, n, step, ())

    x = array(n, 128)
    return gpu.kernel(
        body, jax.ShapeDtypeStruct(x.shape, F32), num_threads=2, thread_name="wg",
        scratch_shapes=[gpu.SMEM((2, 128), F32), gpu.Barrier(num_barriers=2), gpu.Barrier(num_barriers=2)],
        interpret=interpret or simulator,
    )(x)  # fmt: skip


def looped(jax: Any, interpret: Any = None) -> Any:
    """The points of a grid that blocks share."""
    _, gpu, simulator = modules(jax)

    def body(o_ref):
        @gpu.nd_loop((2, 3), collective_axes="i")
        def _(info):
            i, j = info.index
            o_ref[i, j] = 10 * i + j

    return gpu.kernel(
        body, jax.ShapeDtypeStruct((2, 3), np.int32), grid=(4,), grid_names=("i",), interpret=interpret or simulator,
    )()  # fmt: skip


def snaked(jax: Any, interpret: Any = None) -> Any:
    """Orders that go up and down."""
    _, gpu, _ = modules(jax)
    found = []
    for shape, minor, width in (((4, 6), 0, 2), ((4, 6), 1, 3), ((8, 8), 0, 2), ((5, 4), 0, 2)):
        points = [gpu.planar_snake(np.int32(i), shape, minor, width) for i in range(shape[0] * shape[1])]  # fmt: skip
        found.append(np.array([[int(i), int(j)] for i, j in points]))
    return found


def multiplied(jax: Any, interpret: Any = None) -> Any:
    """A product of matrices by `wgmma`, over two buffers of each."""
    pl, gpu, simulator = modules(jax)
    m, n, k, cut = 128, 128, 128, 64

    def body(a_ref, b_ref, o_ref, a_held, b_held, o_held, barrier):
        i, j = jax.lax.axis_index("i"), jax.lax.axis_index("j")

        def fetch(t):
            slot = t % 2
            rows, columns = pl.ds(i * 64, 64), pl.ds(j * 64, 64)
            inner = pl.ds(t * cut, cut)
            gpu.copy_gmem_to_smem(a_ref.at[rows, inner], a_held.at[slot], barrier.at[slot])
            gpu.copy_gmem_to_smem(b_ref.at[inner, columns], b_held.at[slot], barrier.at[slot])

        for t in range(k // cut):
            fetch(t)

        def sums(acc):
            for t in range(k // cut):
                gpu.barrier_wait(barrier.at[t])
                gpu.wgmma(acc, a_held.at[t], b_held.at[t])
            gpu.wgmma_wait(0)
            return acc[...]

        o_held[...] = pl.run_scoped(sums, gpu.ACC((64, 64), F32))
        gpu.commit_smem()
        gpu.copy_smem_to_gmem(o_held, o_ref.at[pl.ds(i * 64, 64), pl.ds(j * 64, 64)])
        gpu.wait_smem_to_gmem(0)

    a, b = array(m, k, dtype=np.float16), array(k, n, seed=1, dtype=np.float16)
    return gpu.kernel(
        body, jax.ShapeDtypeStruct((m, n), F32), grid=(m // 64, n // 64), grid_names=("i", "j"),
        scratch_shapes=[
            gpu.SMEM((2, 64, cut), np.float16), gpu.SMEM((2, cut, 64), np.float16), gpu.SMEM((64, 64), F32),
            gpu.Barrier(num_arrivals=2, num_barriers=2),
        ],
        interpret=interpret or simulator,
    )(a, b)  # fmt: skip


def shared(jax: Any, interpret: Any = None) -> Any:
    """A pipeline whose copies one thread makes for two others."""
    _, gpu, simulator = modules(jax)
    block = gpu.BlockSpec((2, 128), lambda i: (i, 0))

    def body(x_ref, o_ref):
        def step(position, held):
            i = jax.lax.axis_index("wg")
            o_ref[position[0] * 2 + i] = held[i] * 2

        gpu.emit_pipeline_warp_specialized(
            step, grid=(4,), memory_registers=40, in_specs=[block], wg_axis="wg", num_compute_wgs=2,
        )(x_ref)  # fmt: skip

    x = array(8, 128)
    return gpu.kernel(
        body, jax.ShapeDtypeStruct(x.shape, F32), num_threads=3, thread_name="wg", interpret=interpret or simulator,
    )(x)  # fmt: skip


SAMPLES = [copied, in_turns, handed_over, looped, snaked, multiplied, shared]


def answer(jax: Any, which: str, interpret: Any = None) -> list[np.ndarray]:
    """The leaves of a sample's results as NumPy arrays."""
    return [np.asarray(x) for x in jax.tree.leaves(globals()[which](jax, interpret))]


def answers(jax: Any, which: list[str]) -> list[Any]:
    """`answer` of each, for the oracle."""
    return [answer(jax, x) for x in which]
