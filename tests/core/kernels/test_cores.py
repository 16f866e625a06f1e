"""What the cores of a device do together."""

import numpy as np
import pytest

import pellucid as pl
from pellucid import lax
from pellucid._machine.base.errors import UnsupportedError
from pellucid.experimental import pallas
from pellucid.experimental.pallas import tpu

X = np.arange(8, dtype=np.float32)


def exchanged(x_ref, o_ref, all_ref, barrier):
    """Each core writes its part, and adds up all parts when all are there."""
    core, n = lax.axis_index("core"), lax.axis_size("core")
    all_ref[core] = x_ref[core] * 2
    tpu.core_barrier(barrier, core_axis_name="core")
    o_ref[core] = sum(all_ref[i] for i in range(n))


def call(n, **options):
    return pallas.kernel(
        lambda x, o, total, sem: exchanged(x, o, total, sem),
        (pl.ShapeDtypeStruct((n,), np.float32), pl.ShapeDtypeStruct((n,), np.float32)),
        mesh=tpu.create_tensorcore_mesh("core", num_cores=n),
        scratch_types=[tpu.SemaphoreType.REGULAR],
        **options,
    )


def test_one_core_waits_for_nobody():
    np.testing.assert_array_equal(call(1)(X[:1])[0], 2 * X[:1])


def test_cores_of_the_simulator_wait_for_each_other():
    results = call(2, interpret=tpu.InterpretParams())(X[:2])
    np.testing.assert_array_equal(results[0], [2, 2])


def test_cores_that_run_one_after_another_can_not_wait():
    with pytest.raises(UnsupportedError):
        call(2)(X[:2])


def test_the_first_core():
    def kernel(x_ref, o_ref):
        @tpu.run_on_first_core("core")
        def _():
            o_ref[...] = x_ref[...] + 1

    mesh = tpu.create_tensorcore_mesh("core", num_cores=2)
    np.testing.assert_array_equal(pallas.kernel(kernel, X, mesh=mesh)(X), X + 1)
