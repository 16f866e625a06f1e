"""The ring that gathers parts: equal to the collective, in the simulator too, and lowered for TPUs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pellucid as pl
from pellucid.errors import ShapeError
from pellucid.experimental.pallas import ANY, tpu
from pellucid.experimental.pallas.ops.tpu.all_gather import all_gather
from pellucid.sharding import Mesh, NamedSharding, PartitionSpec as P


def mesh_of(*shape: int) -> Mesh:
    devices = np.array(pl.devices()[: np.prod(shape)]).reshape(shape)
    return Mesh(devices, ("x", "y")[: len(shape)])


RINGS: list[Any] = [
    ((1,), "x"), ((2,), "x"), ((3,), "x"), ((8,), "x"), ((2, 3), "y"), ((2, 3), ("x", "y")), ((4, 2), ("y", "x")),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "names"), RINGS, ids=str)
def test_each_device_has_all_parts(shape: tuple[int, ...], names: Any) -> None:
    mesh = mesh_of(*shape)
    x = np.arange(24 * 6, dtype=np.float32).reshape(24, 6)
    cut = pl.device_put(x, NamedSharding(mesh, P(names)))
    expected = all_gather(cut, mesh=mesh, axis_name=names)
    simulated = tpu.InterpretParams(detect_races=True, random_seed=3)
    with tpu.force_tpu_interpret_mode(simulated):
        for space in (tpu.VMEM, ANY):
            got = all_gather(cut, mesh=mesh, axis_name=names, memory_space=space)
            for one in (*got.addressable_shards, *expected.addressable_shards):
                np.testing.assert_array_equal(one.data, x)


def test_derivative() -> None:
    mesh = mesh_of(4)
    weights = np.arange(8, dtype=np.float32)
    f = lambda x: (all_gather(x, mesh=mesh, axis_name="x") * weights).sum()
    np.testing.assert_array_equal(pl.jit(pl.grad(f))(np.ones(8, np.float32)), weights)


def test_programs() -> None:
    """On TPUs one kernel with a barrier; elsewhere the collective."""
    mesh = mesh_of(4)
    traced = all_gather.trace(np.ones((32, 128), np.float32), mesh=mesh, axis_name="x")
    on_tpu = traced.lower(lowering_platforms=("tpu",)).as_text()
    assert on_tpu.count("tpu_custom_call") == 1
    assert "stablehlo.all_gather" not in on_tpu
    on_cpu = traced.lower(lowering_platforms=("cpu",)).as_text()
    assert "stablehlo.all_gather" in on_cpu
    assert "tpu_custom_call" not in on_cpu


def test_errors() -> None:
    x = np.ones(6, np.float32)
    with pytest.raises(ValueError, match="axes of the mesh, each once"):
        all_gather(x, mesh=mesh_of(2), axis_name="z")
    with pytest.raises(ShapeError, match="equal parts"):
        all_gather(x, mesh=mesh_of(4), axis_name="x")
