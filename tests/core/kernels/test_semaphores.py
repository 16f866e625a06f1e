"""Semaphores and copies between references."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid.experimental import checkify, pallas
from pellucid.experimental.pallas import BlockSpec, pallas_call, tpu

X = np.arange(8, dtype=np.float32)
F32 = np.float32


def run(kernel, scratch, **options):
    return pallas_call(kernel, pl.ShapeDtypeStruct((8,), F32), scratch_shapes=scratch, **options)(X)


def test_copies_through_a_buffer():
    def kernel(x_ref, o_ref, buffer_ref, sems):
        part = pallas.ds(pallas.program_id(0) * 2, 2)
        copy = tpu.make_async_copy(x_ref.at[part], buffer_ref, sems.at[0])
        copy.start()
        copy.wait()
        buffer_ref[...] *= 2
        tpu.async_copy(buffer_ref, o_ref.at[part], sems.at[1]).wait()

    scratch = [tpu.VMEM((2,), F32), tpu.SemaphoreType.DMA((2,))]
    anywhere = BlockSpec(memory_space=pallas.ANY)
    y = run(kernel, scratch, grid=4, in_specs=[anywhere], out_specs=anywhere)
    np.testing.assert_array_equal(y, 2 * X)


def counting(x_ref, o_ref, sem):
    pallas.semaphore_signal(sem, 3)
    pallas.semaphore_wait(sem, 2)
    o_ref[...] = x_ref[...] + pallas.semaphore_read(sem)


def test_semaphores_count_from_zero_through_the_grid():
    block = BlockSpec((2,), lambda i: (i,))
    y = run(counting, [tpu.SemaphoreType.REGULAR], grid=4, in_specs=[block], out_specs=block)
    np.testing.assert_array_equal(y, X + 1 + np.arange(8) // 2)


def test_scoped_semaphores_begin_at_zero():
    def kernel(x_ref, o_ref):
        pallas.run_scoped(lambda sem: counting(x_ref, o_ref, sem), tpu.SemaphoreType.REGULAR)

    np.testing.assert_array_equal(run(kernel, []), X + 1)


def waits(x_ref, o_ref, sem):
    @pallas.when(pallas.program_id(0) == 2)
    def _():
        pallas.semaphore_wait(sem, 2)

    pallas.semaphore_signal(sem)
    o_ref[...] = x_ref[...]


def test_a_wait_without_end_raises():
    block = BlockSpec((2,), lambda i: (i,))

    def call(n_signals):
        def kernel(x_ref, o_ref, sem):
            for _ in range(n_signals):
                pallas.semaphore_signal(sem)
            pl.lax.fori_loop(0, 2, lambda i, _: pallas.semaphore_wait(sem), None)
            o_ref[...] = x_ref[...]

        return run(kernel, [tpu.SemaphoreType.REGULAR], grid=4, in_specs=[block], out_specs=block)

    np.testing.assert_array_equal(call(2), X)
    message = (
        r"semaphore_wait in program \(0,\) would wait forever: the semaphore has 0, and waits for 1"
    )
    with pytest.raises(ValueError, match=message) as caught:
        call(1)
    assert "pallas.semaphore_wait(sem)" in str(caught.value)  # its line
    with pytest.raises(ValueError, match=message):
        pl.jit(lambda: call(1))()
    error, y = checkify.checkify(call)(1)
    assert "wait forever" in error.get()
    np.testing.assert_array_equal(y, X)


def test_only_waits_that_happen_count():
    block = BlockSpec((2,), lambda i: (i,))
    options = {"grid": 4, "in_specs": [block], "out_specs": block}
    np.testing.assert_array_equal(run(waits, [tpu.SemaphoreType.REGULAR], **options), X)

    def scoped(x_ref, o_ref):
        pallas.run_scoped(lambda sem: waits(x_ref, o_ref, sem), tpu.SemaphoreType.REGULAR)

    with pytest.raises(ValueError, match=r"program \(2,\) would wait forever"):
        run(scoped, [], **options)


def test_waits_outside_of_kernels_and_in_pipelines():
    sem = pl.new_ref(np.int32(1))
    pallas.semaphore_wait(sem)
    with pytest.raises(ValueError, match="semaphore_wait would wait forever"):
        pallas.semaphore_wait(sem)

    def kernel(x_ref, o_ref, sem):
        def body(x_ref, o_ref):
            pallas.semaphore_wait(sem)
            o_ref[...] = x_ref[...]

        block = BlockSpec((4,), lambda i: (i,))
        pallas.semaphore_signal(sem)
        tpu.emit_pipeline(body, grid=(2,), in_specs=[block], out_specs=[block])(x_ref, o_ref)

    with pytest.raises(ValueError, match=r"semaphore_wait in program \(0,\) would wait forever"):
        run(kernel, [tpu.SemaphoreType.REGULAR], grid=1)


def test_copies_within_one_reference():
    def kernel(x_ref, o_ref, sem):
        o_ref[...] = x_ref[...]
        tpu.async_copy(o_ref.at[pallas.ds(2, 2)], o_ref.at[pallas.ds(0, 2)], sem).wait()
        copy = tpu.make_async_copy(o_ref.at[6], o_ref.at[7], sem)
        copy.start(add=True)
        copy.wait()

    y = run(kernel, [tpu.SemaphoreType.DMA])
    np.testing.assert_array_equal(y, [2, 3, 2, 3, 4, 5, 6, 13])
    ref = pl.new_ref(X)
    tpu.async_copy(ref.at[3], ref.at[0], None).wait()
    assert ref[0] == 3


def test_copies_of_a_selected_reference():
    def kernel(n_ref, x_ref, y_ref, o_ref, p_ref):
        o_ref[...] = x_ref[...]
        p_ref[...] = x_ref[...]
        source = pallas.select_ref(n_ref[0], x_ref.at[pallas.ds(0, 4)], y_ref.at[pallas.ds(4, 4)])
        target = pallas.select_ref(
            1 - n_ref[0], o_ref.at[pallas.ds(0, 4)], p_ref.at[pallas.ds(2, 4)]
        )
        tpu.sync_copy(source, target)

    call = pallas_call(kernel, [pl.ShapeDtypeStruct((8,), F32)] * 2)
    p, o = X.copy(), X.copy()
    p[2:6], o[:4] = X[:4], -X[4:]
    np.testing.assert_array_equal(call(np.array([0]), X, -X), [X, p])
    np.testing.assert_array_equal(call(np.array([1]), X, -X), [o, X])
    with pytest.raises(TypeError, match="arrays of one type"):
        pallas.select_ref(0, pl.new_ref(X), pl.new_ref(X[:3]))


def test_what_is_refused():
    def signals(x_ref, o_ref, sem, send_sem, recv_sem):
        pallas.semaphore_signal(sem, 1, device_id=1, device_id_type=pallas.DeviceIdType.LOGICAL)
        o_ref[...] = x_ref[...]

    def copies(x_ref, o_ref, sem, send_sem, recv_sem):
        tpu.async_remote_copy(x_ref, o_ref, send_sem, recv_sem, 0).wait()

    def waits(x_ref, o_ref, sem, send_sem, recv_sem):
        pallas.semaphore_wait(tpu.get_barrier_semaphore())
        o_ref[...] = x_ref[...]

    scratch = [tpu.SemaphoreType.REGULAR, tpu.SemaphoreType.DMA, tpu.SemaphoreType.DMA]
    for kernel, line in (
        (signals, "pallas.semaphore_signal(sem"),
        (copies, "tpu.async_remote_copy("),
        (waits, "tpu.get_barrier_semaphore()"),
    ):
        with pytest.raises(
            NotImplementedError, match=r"interpret=tpu.InterpretParams\(\)"
        ) as caught:
            run(kernel, scratch)
        assert line in str(caught.value)

    def reads(x_ref, o_ref, sem):
        o_ref[...] = x_ref[...] + pallas.semaphore_read(sem)

    with pytest.raises(TypeError, match="semaphore that counts"):
        run(reads, [tpu.SemaphoreType.DMA])


@pytest.mark.parametrize(
    ("device_id", "message"),
    [((0, 0), "one number for each axis"), ({"x": 0}, "doesn't have"), (0.5, "named by integers")],
)
def test_devices_that_are_none(device_id, message):
    def kernel(x_ref, o_ref, sem):
        pallas.semaphore_signal(sem, device_id=device_id)

    with pytest.raises((TypeError, ValueError), match=message):
        run(kernel, [tpu.SemaphoreType.REGULAR])


def test_costs():
    x = np.ones((8, 16), F32)
    assert pallas.estimate_cost(lambda x: x @ x.T, x).flops == 2 * 8 * 8 * 16
    scaled = lambda x, *, twice: x + x if twice else x
    assert pallas.estimate_cost(scaled, x, twice=True).flops == 8 * 16
    with pytest.raises(NotImplementedError, match="only when the function runs"):
        pallas.estimate_cost(lambda n: pl.lax.fori_loop(0, n, lambda i, x: x * 2, 1.0), np.int32(3))


@pytest.mark.parametrize("chosen", [0, 1])
def test_copies_add(chosen):
    def kernel(n_ref, x_ref, o_ref, p_ref, sem):
        o_ref[...], p_ref[...] = jnp.ones_like(o_ref), jnp.zeros_like(p_ref)
        tpu.async_copy(x_ref, o_ref, sem, add=True).wait()
        copy = tpu.make_async_copy(x_ref, pallas.select_ref(n_ref[0], o_ref, p_ref), sem)
        copy.start(add=True)
        copy.wait()

    call = pallas_call(kernel, [X, X], scratch_shapes=[tpu.SemaphoreType.DMA])
    o, p = call(np.array([chosen], np.int32), X)
    np.testing.assert_array_equal(o, 1 + X + X * (chosen == 0))
    np.testing.assert_array_equal(p, X * (chosen == 1))
