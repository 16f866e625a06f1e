"""Kernels over the cores of a device."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid.experimental import pallas
from pellucid.experimental.pallas import tpu

X = np.arange(8, dtype=np.float32)
F32 = np.float32
CORES = tpu.create_tensorcore_mesh("core", num_cores=2)


def scaled(x_ref, o_ref, scratch_ref):
    i = lax.axis_index("core")
    part = pallas.ds(i * 4, 4)
    scratch_ref[...] = jnp.full(4, i + 1, F32)

    @pallas.when(i == 1)
    def _():
        scratch_ref[0] = 10.0 * lax.axis_index("core")

    o_ref[part] = x_ref[part] * scratch_ref[...]


EXPECTED = X * [1, 1, 1, 1, 10, 2, 2, 2]
SCRATCH = [tpu.VMEM((4,), F32)]


def test_a_kernel_runs_on_each_core():
    call = pallas.kernel(scaled, X, mesh=CORES, scratch_types=SCRATCH)
    np.testing.assert_array_equal(call(X), EXPECTED)
    np.testing.assert_array_equal(pl.jit(call)(X), EXPECTED)
    np.testing.assert_array_equal(
        pl.grad(lambda x: call(x).sum())(X), EXPECTED / np.maximum(X, 1) + (X == 0)
    )


def test_results_are_a_tree_and_scratch_has_names():
    @pallas.kernel(out_type=[X, X], mesh=CORES, scratch_types={"scratch_ref": SCRATCH[0]})
    def both(x_ref, o_ref, copy_ref, scratch_ref):
        scaled(x_ref, o_ref, scratch_ref)
        copy_ref[...] = x_ref[...]

    y, z = both(X)
    np.testing.assert_array_equal(y, EXPECTED)
    np.testing.assert_array_equal(z, X)


def test_core_map_writes_references_from_outside():
    @pl.jit
    def run(x):
        y_ref = pl.new_ref(jnp.zeros(8, F32))

        @pallas.core_map(CORES)
        def _():
            part = pallas.ds(lax.axis_index("core") * 4, 4)
            tpu.sync_copy(pl.new_ref(x).at[part], y_ref.at[part])

        return pl.freeze(y_ref)

    np.testing.assert_array_equal(run(X), X)


def test_what_is_refused():
    total = pl.new_ref(F32(0))
    with pytest.raises(NotImplementedError, match="can't communicate"):
        pallas.core_map(CORES)(lambda: total.__setitem__(..., lax.psum(total[...], "core")))
    with pytest.raises(TypeError, match="must return None"):
        pallas.core_map(CORES)(lambda: total[...])
    with pytest.raises(TypeError, match="takes a mesh of cores"):
        pallas.core_map("core")
    with pytest.raises(NotImplementedError, match="several bodies"):
        pallas.kernel([scaled], X, mesh=CORES)
    with pytest.raises(NotImplementedError, match="never read from the machine"):
        tpu.create_tensorcore_mesh("core", devices=pl.devices())
    with pytest.raises(ValueError, match="has a core"):
        tpu.create_tensorcore_mesh("core", num_cores=0)


def exchanged(x_ref, o_ref):
    """Each core writes a part of its own, then reads that of the other."""
    core = lax.axis_index("core")

    def run(shared, own, sem):
        o_ref[core] = x_ref[core] * 2
        pallas.semaphore_signal(sem, core_index=1 - core)
        pallas.semaphore_wait(sem)
        own[...] = o_ref[1 - core]
        pallas.semaphore_signal(sem, core_index=1 - core)
        pallas.semaphore_wait(sem)
        o_ref[core] = own[...]

    pallas.run_scoped(run, tpu.VMEM((4,), F32), tpu.VMEM((4,), F32), tpu.SemaphoreType.REGULAR)


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_simulated_cores_wait_for_each_other(seed):
    x = np.arange(8, dtype=F32).reshape(2, 4)
    mesh = tpu.create_tensorcore_mesh("core", num_cores=2)
    params = tpu.InterpretParams(detect_races=True, random_seed=seed)
    y = pallas.kernel(exchanged, x, mesh=mesh, interpret=params)(x)
    np.testing.assert_array_equal(y, 2 * x[::-1])


def test_simulated_cores_race():
    def kernel(x_ref, o_ref):
        core = lax.axis_index("core")
        o_ref[core] = x_ref[core]
        o_ref[1 - core] = x_ref[core]

    x = np.zeros((2, 4), F32)
    mesh = tpu.create_tensorcore_mesh("core", num_cores=2)
    params = tpu.InterpretParams(detect_races=True)
    with pytest.raises(ValueError, match="a race") as caught:
        pallas.kernel(kernel, x, mesh=mesh, interpret=params)(x)
    assert "device 0, core 1 writes [1, 0:4]" in str(caught.value)
    assert "o_ref[1 - core] = x_ref[core]" in str(caught.value)
