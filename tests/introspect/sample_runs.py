"""Sample runs of kernels in the simulator: one device and eight, pipelines, and runs that fail."""

from __future__ import annotations

import numpy as np

import pellucid as pl
from pellucid import lax
from pellucid.analysis import kernel_timelines
from pellucid.analysis.kernel_timelines import machine_timelines
from pellucid.experimental import pallas
from pellucid.experimental.pallas import BlockSpec, pallas_call, tpu
from pellucid.introspect.schema import KernelTimelinesRecord
from pellucid.sharding import PartitionSpec as P

ANYWHERE = BlockSpec(memory_space=pallas.ANY)
DMA = tpu.SemaphoreType.DMA


def double(x_ref, o_ref):
    """Twice a block."""
    o_ref[...] = x_ref[...] * 2


def blocks() -> KernelTimelinesRecord:
    """Eight blocks, fetched while the one before is computed."""
    x = np.ones((64, 128), np.float32)
    row = BlockSpec((8, 128), lambda i: (i, 0))
    return kernel_timelines(pallas_call(double, x, grid=8, in_specs=[row], out_specs=row), x)


def matmul(n: int, size: int):
    """A product of `n` × `n` matrices that stay in slow memory, by a pipeline over blocks of `size`."""

    def multiply(x_ref, y_ref, o_ref):
        @pallas.when(pallas.program_id(2) == 0)
        def _():
            o_ref[...] = np.zeros((size, size), np.float32)

        o_ref[...] += x_ref[...] @ y_ref[...]

    def kernel(x_ref, y_ref, o_ref):
        tpu.emit_pipeline(
            multiply,
            grid=(n // size,) * 3,
            in_specs=[
                BlockSpec((size, size), lambda i, j, k: (i, k)),
                BlockSpec((size, size), lambda i, j, k: (k, j)),
            ],
            out_specs=[BlockSpec((size, size), lambda i, j, k: (i, j))],
        )(x_ref, y_ref, o_ref)

    like = pl.ShapeDtypeStruct((n, n), np.float32)
    return pallas_call(kernel, like, in_specs=[ANYWHERE] * 2, out_specs=ANYWHERE)


def pipeline() -> KernelTimelinesRecord:
    """A product by a pipeline of eight steps."""
    x = np.ones((256, 256), np.float32)
    return kernel_timelines(matmul(256, 128), x, x)


def ring(kernel, x: np.ndarray, n_steps: int = 7, *, params: tpu.InterpretParams):
    """The function that gathers `x` over eight devices by a kernel, and its argument."""
    mesh = pl.make_mesh((8,), ("ring",), axis_types=(pl.sharding.AxisType.Auto,))
    call = pallas_call(
        kernel,
        pl.ShapeDtypeStruct(x.shape, x.dtype),
        in_specs=[ANYWHERE],
        out_specs=ANYWHERE,
        scratch_shapes=[DMA, DMA, DMA((n_steps,))],
        compiler_params=tpu.CompilerParams(collective_id=0),
        interpret=params,
    )
    return pl.jit(pl.shard_map(call, mesh=mesh, in_specs=P("ring"), out_specs=P("ring")))


def all_gather(x_ref, o_ref, local_sem, send_sem, recv_sems):
    """Each device sends to its right neighbour what it got last."""
    me = lax.axis_index("ring")
    left, right = lax.rem(me + 7, 8), lax.rem(me + 1, 8)
    barrier = tpu.get_barrier_semaphore()
    for other in (left, right):
        pallas.semaphore_signal(barrier, device_id=other)
    pallas.semaphore_wait(barrier, 2)
    tpu.async_copy(x_ref, o_ref.at[pallas.ds(me, 1)], local_sem).wait()
    for step in range(7):
        block = o_ref.at[lax.rem(me + 8 - step, 8)]
        copy = tpu.make_async_remote_copy(block, block, send_sem, recv_sems.at[step], right)
        copy.start()
        copy.wait()


def gather() -> KernelTimelinesRecord:
    """An all-gather around a ring of eight devices."""
    x = np.ones((8, 256), np.float32)
    return kernel_timelines(ring(all_gather, x, params=tpu.InterpretParams()), x)


def long_ring() -> KernelTimelinesRecord:
    """256 steps on each of eight devices: a send around the ring, and a computation on what came."""

    def kernel(x_ref, o_ref, local_sem, send_sem, recv_sems):
        right = lax.rem(lax.axis_index("ring") + 1, 8)
        tpu.async_copy(x_ref, o_ref.at[pallas.ds(0, 1)], local_sem).wait()

        def step(i, _):
            here, there = o_ref.at[lax.rem(i, 2)], o_ref.at[lax.rem(i + 1, 2)]
            copy = tpu.make_async_remote_copy(here, there, send_sem, recv_sems.at[i], right)
            copy.start()
            copy.wait()
            there[...] = there[...] * 0.5 + 1.0

        lax.fori_loop(0, 256, step, None)

    x = np.ones((8, 512), np.float32)
    return kernel_timelines(ring(kernel, x, 256, params=tpu.InterpretParams()), x)


def deadlock() -> KernelTimelinesRecord:
    """A ring in which each device waits before it signals."""

    def waits_first(x_ref, o_ref, local_sem, send_sem, recv_sems):
        o_ref[0] = x_ref[0] * 2
        tpu.make_async_copy(x_ref, o_ref.at[pallas.ds(1, 1)], local_sem).start()
        barrier = tpu.get_barrier_semaphore()
        pallas.semaphore_wait(barrier)
        pallas.semaphore_signal(barrier, device_id=lax.rem(lax.axis_index("ring") + 1, 8))

    x = np.ones((8, 4096), np.float32)
    return kernel_timelines(ring(waits_first, x, params=tpu.InterpretParams()), x)


def race() -> KernelTimelinesRecord:
    """Neighbours write to what a device writes."""

    def overwrites(x_ref, o_ref, local_sem, send_sem, recv_sems):
        o_ref[0] = x_ref[0] + 1
        to = lax.rem(lax.axis_index("ring") + 1, 8)
        copy = tpu.async_remote_copy(x_ref, o_ref.at[pallas.ds(0, 1)], send_sem, local_sem, to)
        copy.wait()

    x = np.ones((8, 1024), np.float32)
    return kernel_timelines(ring(overwrites, x, params=tpu.InterpretParams(detect_races=True)), x)


def empty() -> KernelTimelinesRecord:
    """No run."""
    return machine_timelines([], "nothing")
