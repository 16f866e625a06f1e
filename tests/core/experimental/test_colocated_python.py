"""Functions beside their devices: run here for arrays of this process's CPUs."""

import numpy as np
import pytest

import pellucid as pl
from pellucid._machine.base.errors import UnsupportedError
from pellucid.experimental.colocated_python import colocated_cpu_devices, colocated_python


def test_a_function_gets_the_arrays_themselves() -> None:
    seen = []
    f = colocated_python(lambda x: seen.append(x) or x * 2)
    x = pl.device_put(np.ones(4), pl.devices()[3])
    result = f.specialize(devices=pl.devices()[3:4])(x)
    assert seen[0] is x
    assert result.sharding == x.sharding


def test_devices_and_meshes_of_cpus_are_their_own() -> None:
    mesh = pl.make_mesh((2, 4), ("a", "b"))
    assert colocated_cpu_devices(mesh) == mesh
    assert colocated_cpu_devices(pl.devices()[2:4]) == tuple(pl.devices()[2:4])


def test_other_devices_are_refused() -> None:
    class Elsewhere:
        platform = "tpu"
        process_index = 5

    with pytest.raises(UnsupportedError, match="one CPU device of this process"):
        colocated_cpu_devices([Elsewhere()] * 9)
