"""Kernels that reach other devices, in the simulator: equal to collectives, and deadlocks and races with their lines."""

from typing import Any

import numpy as np
import pytest

import pellucid as pl
from pellucid import lax
from pellucid.experimental import pallas
from pellucid.experimental.pallas import BlockSpec, pallas_call, tpu
from pellucid.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

N = 8
F32 = np.float32
DMA, REGULAR = tpu.SemaphoreType.DMA, tpu.SemaphoreType.REGULAR
ANYWHERE = BlockSpec(memory_space=pallas.ANY)
MODES: list[dict[str, Any]] = [
    {},
    {"dma_execution_mode": "eager"},
    {"random_seed": 0},
    {"random_seed": 1, "dma_execution_mode": "eager"},
]


def mesh_of(shape, names):
    types = (AxisType.Auto,) * len(names)
    return Mesh(np.array(pl.devices()[: np.prod(shape)]).reshape(shape), names, axis_types=types)


def on_ring(kernel, out, scratch, x, *, space=ANYWHERE, n=N, **options):
    """The results of all devices, for `x` cut along axis 0."""
    mesh = mesh_of((n,), ("d",))
    chosen: dict[str, Any] = {"detect_races": True} | options
    call = pallas_call(
        kernel,
        out,
        in_specs=[space],
        out_specs=space,
        scratch_shapes=scratch,
        interpret=tpu.InterpretParams(**chosen),
    )
    x = pl.device_put(x, NamedSharding(mesh, P("d")))
    run = pl.shard_map(call, mesh=mesh, in_specs=P("d"), out_specs=P("d"))
    return np.asarray(pl.jit(run)(x))


def neighbours(n=N):
    me = lax.axis_index("d")
    return lax.rem(me + n - 1, n), me, lax.rem(me + 1, n)


def meet(left, right):
    """Wait for both neighbours to have begun."""
    barrier = tpu.get_barrier_semaphore()
    for other in (left, right):
        pallas.semaphore_signal(barrier, device_id=other)
    pallas.semaphore_wait(barrier, 2)


def ring_all_gather(x_ref, o_ref, local_sem, send_sem, recv_sems):
    left, me, right = neighbours()
    meet(left, right)
    tpu.async_copy(x_ref, o_ref.at[me], local_sem).wait()

    @pallas.loop(0, N - 1)
    def _(i):
        slot = o_ref.at[lax.rem(me + N - i, N)]
        copy = tpu.make_async_remote_copy(slot, slot, send_sem, recv_sems.at[i], right)
        copy.start()
        copy.wait()


@pytest.mark.parametrize("options", MODES)
def test_ring_all_gather(options):
    x = np.arange(N * 2 * 4, dtype=F32).reshape(N * 2, 4)
    out = pl.ShapeDtypeStruct((N, 2, 4), F32)
    y = on_ring(ring_all_gather, out, [DMA, DMA, DMA((N - 1,))], x, **options)
    for own in y.reshape(N, N * 2, 4):
        np.testing.assert_array_equal(own, x)


def ring_reduce_scatter(x_ref, o_ref, sums, received, local_sem, send_sem, recv_sems, free_sem):
    """Each step passes a partial sum on to the right; a buffer is sent into again when its receiver has said so."""
    left, me, right = neighbours()
    meet(left, right)
    tpu.async_copy(x_ref.at[lax.rem(me + N - 1, N)], sums, local_sem).wait()

    @pallas.loop(0, N - 1)
    def _(i):
        slot = lax.rem(i, 2)

        @pallas.when(i >= 2)
        def _():
            pallas.semaphore_wait(free_sem)

        copy = tpu.make_async_remote_copy(
            sums, received.at[slot], send_sem, recv_sems.at[slot], right
        )
        copy.start()
        copy.wait()
        block = lax.rem(me + 2 * N - 2 - i, N)
        sums[...] = received[slot] + x_ref[block]

        @pallas.when(i < N - 3)
        def _():
            pallas.semaphore_signal(free_sem, device_id=left)

    o_ref[...] = sums[...]


@pytest.mark.parametrize("options", MODES)
def test_ring_reduce_scatter(options):
    x = np.random.default_rng(0).integers(0, 9, (N, N, 2, 4)).astype(F32)
    scratch = [tpu.VMEM((2, 4), F32), tpu.VMEM((2, 2, 4), F32), DMA, DMA, DMA((2,)), REGULAR]
    out = pl.ShapeDtypeStruct((2, 4), F32)
    y = on_ring(ring_reduce_scatter, out, scratch, x.reshape(N * N, 2, 4), **options)
    np.testing.assert_array_equal(y.reshape(N, 2, 4), x.sum(0))


def all_to_all(x_ref, o_ref, send_sem, recv_sem):
    me = lax.axis_index("d")
    copies = []
    for step in range(N):
        other = lax.rem(me + step, N)
        copies.append(
            tpu.make_async_remote_copy(
                x_ref.at[other], o_ref.at[me], send_sem, recv_sem, {"d": other}
            )
        )
    for copy in copies:
        copy.start()
    for copy in copies:
        copy.wait()


@pytest.mark.parametrize("options", MODES)
def test_all_to_all(options):
    x = np.arange(N * N * 4, dtype=F32).reshape(N, N, 4)
    out = pl.ShapeDtypeStruct((N, 4), F32)
    y = on_ring(all_to_all, out, [DMA, DMA], x.reshape(N * N, 4), **options)
    np.testing.assert_array_equal(y.reshape(N, N, 4), x.swapaxes(0, 1))


def test_devices_by_their_positions_in_a_mesh():
    def swapped(x_ref, o_ref, sems):
        i, j = lax.axis_index("a"), lax.axis_index("b")
        copy = tpu.async_remote_copy(x_ref, o_ref, sems.at[0], sems.at[1], (1 - i, j))
        copy.wait()

    mesh = mesh_of((2, 3), ("a", "b"))
    x = np.arange(6, dtype=F32).reshape(2, 3)
    call = pallas_call(
        swapped,
        pl.ShapeDtypeStruct((1, 1), F32),
        scratch_shapes=[DMA((2,))],
        interpret=tpu.InterpretParams(),
    )
    run = pl.shard_map(call, mesh=mesh, in_specs=P("a", "b"), out_specs=P("a", "b"))
    np.testing.assert_array_equal(pl.jit(run)(x), x[::-1])


# What goes wrong ------------------------------------------------------------------------------------------------

X = np.zeros((N * 2, 4), F32)
OUT = pl.ShapeDtypeStruct((2, 4), F32)


def waits_first(x_ref, o_ref, sem):
    right = neighbours()[2]
    o_ref[...] = x_ref[...]
    pallas.semaphore_wait(sem)
    pallas.semaphore_signal(sem, device_id=right)


def test_a_deadlock_names_who_waits_for_what():
    with pytest.raises(ValueError, match="no device can go on") as caught:
        on_ring(waits_first, OUT, [REGULAR], X)
    text = str(caught.value)
    for device in range(N):
        assert f"device {device} waits for 1 of semaphore `sem` of device {device}" in text
    assert "pallas.semaphore_wait(sem)" in text


def writes_before_the_copy_ends(x_ref, o_ref, send_sem, recv_sem):
    _, _, right = neighbours()
    copy = tpu.make_async_remote_copy(x_ref, o_ref, send_sem, recv_sem, right)
    copy.start()
    o_ref[0] = x_ref[0]
    copy.wait()


def sends_what_it_overwrites(x_ref, o_ref, send_sem, recv_sem):
    _, _, right = neighbours()
    copy = tpu.make_async_remote_copy(x_ref, o_ref, send_sem, recv_sem, right)
    copy.start()
    copy.wait_recv()
    x_ref[1] = x_ref[0]
    copy.wait_send()


@pytest.mark.parametrize("mode", ["on_wait", "eager"])
@pytest.mark.parametrize(
    ("kernel", "buffer", "line"),
    [
        (writes_before_the_copy_ends, "o_ref", "o_ref[0] = x_ref[0]"),
        (sends_what_it_overwrites, "x_ref", "x_ref[1] = x_ref[0]"),
    ],
)
def test_a_race_names_both_lines(kernel, buffer, line, mode):
    with pytest.raises(ValueError, match="a race") as caught:
        on_ring(kernel, OUT, [DMA, DMA], X, dma_execution_mode=mode)
    text = str(caught.value)
    assert f"`{buffer}`" in text
    assert line in text
    assert "copy.start()" in text
    assert "writes [" in text


def test_races_are_looked_for_only_if_asked_for():
    on_ring(writes_before_the_copy_ends, OUT, [DMA, DMA], X, detect_races=False)


def test_nothing_is_left_of_a_failure():
    with pytest.raises(ValueError, match="deadlock"):
        on_ring(waits_first, OUT, [REGULAR], X)
    test_all_to_all({})


def test_copies_that_are_not_waited_for():
    def ahead(x_ref, o_ref, send_sem, recv_sem):
        copies = [
            tpu.async_remote_copy(x_ref.at[i], o_ref.at[i], send_sem, recv_sem, neighbours()[2])
            for i in range(2)
        ]
        for copy in copies:
            copy.wait_recv()

    with pytest.raises(ValueError, match="leaves a semaphore that isn't 0"):
        on_ring(ahead, OUT, [DMA, DMA], X)

    def never(x_ref, o_ref, send_sem, recv_sem):
        tpu.async_remote_copy(x_ref, o_ref, send_sem, recv_sem, neighbours()[2])

    with pytest.raises(ValueError, match="nobody has waited for"):
        on_ring(never, OUT, [DMA, DMA], X)

    def first_of_four(x_ref, o_ref):
        @pallas.loop(0, 4)
        def _(i):
            def copy(sem):
                found = tpu.async_copy(x_ref, o_ref, sem)
                pallas.when(i > 0)(found.wait)

            pallas.run_scoped(copy, DMA)

    with pytest.raises(ValueError, match="nobody has waited for"):
        on_ring(first_of_four, OUT, [], X)


def test_a_semaphore_of_several_copies_orders_those_that_must_have_ended():
    def kernel(x_ref, o_ref, sem):
        copies = [tpu.async_copy(x_ref.at[i], o_ref.at[i], sem) for i in range(2)]
        copies[0].wait()
        o_ref[0] = o_ref[0] + 1
        copies[1].wait()

    call = lambda kernel: pallas_call(
        kernel,
        OUT,
        in_specs=[ANYWHERE],
        out_specs=ANYWHERE,
        scratch_shapes=[DMA],
        interpret=tpu.InterpretParams(detect_races=True),
    )(X[:2])
    with pytest.raises(ValueError, match="a race"):  # the second copy may have ended first
        call(kernel)

    def waits_for_both(x_ref, o_ref, sem):
        for copy in [tpu.async_copy(x_ref.at[i], o_ref.at[i], sem) for i in range(2)]:
            copy.wait()
        o_ref[0] = o_ref[0] + 1

    np.testing.assert_array_equal(call(waits_for_both), [[1] * 4, [0] * 4])


def test_devices_that_there_are_not():
    def kernel(x_ref, o_ref, send_sem, recv_sem):
        tpu.async_remote_copy(x_ref, o_ref, send_sem, recv_sem, N).wait()

    with pytest.raises(ValueError, match=r"device 8 of 8"):
        on_ring(kernel, OUT, [DMA, DMA], X)


def test_derivatives_are_refused():
    mesh = mesh_of((N,), ("d",))
    call = pallas_call(
        all_to_all,
        pl.ShapeDtypeStruct((N, 4), F32),
        scratch_shapes=[DMA, DMA],
        interpret=tpu.InterpretParams(),
    )
    run = pl.shard_map(call, mesh=mesh, in_specs=P("d"), out_specs=P("d"))
    x = np.zeros((N * N, 4), F32)
    with pytest.raises(NotImplementedError, match="reaches other devices"):
        pl.jvp(run, (x,), (x,))
