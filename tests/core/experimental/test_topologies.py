"""Topologies, and other names of experiments whose platform isn't here."""

import numpy as np
import pytest

import pellucid as pl
from pellucid._machine.base.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    DeviceError,
)
from pellucid._machine.xla import plugins
from pellucid.experimental import EArray, control_deps, profiler, scheduling_groups, topologies
from pellucid.experimental.array_serialization import pytree_serialization_utils


@pytest.mark.parametrize("platform", [None, "tpu", "cuda", "gpu", "cpu"])
def test_topologies_of_plug_ins_that_are_not_installed(platform, monkeypatch) -> None:
    monkeypatch.setattr(plugins, "tpu_library", lambda: None)
    monkeypatch.setattr(plugins, "cuda_plugin", lambda: None)
    with pytest.raises(DeviceError, match=r"there is no topology '2x2' of \w+ here") as caught:
        topologies.get_topology_desc("2x2", platform=platform)
    assert "no plug-in of" in str(caught.value)


def test_a_gpu_by_its_name(monkeypatch) -> None:
    def devices(platform, name, options):
        requests.append((platform, name, options["topology"], "H100" in options["target_config"]))
        return pl.devices()

    requests: list[object] = []
    monkeypatch.setattr(topologies, "topology_devices", devices)
    topology = topologies.get_topology_desc("H100", platform="cuda", topology="1x1x8")
    assert requests == [("cuda", "", "1x1x8", True)]
    assert topology.devices == pl.devices()


def test_metadata_is_text() -> None:
    with pytest.raises(ArgumentTypeError, match="metadata of a call must be strings"):
        scheduling_groups.scheduling_group(3)


def test_programs_with_orders_of_operations_run() -> None:
    f = pl.jit(lambda x, y: (control_deps.control_dep(x + 1, y + 1), x * y)[1])
    assert "@control_dep" in f.lower(2.0, 3.0).as_text()
    assert f(2.0, 3.0) == 6


def test_what_is_no_structure() -> None:
    for bad in ({}, {"__jax_pytreedef_repr": "no base64!"}, {"__jax_pytreedef_repr": "AAAA"}):
        with pytest.raises(ArgumentValueError, match="no serialized structure"):
            pytree_serialization_utils.deserialize_pytreedef(bad)


def test_costs_of_a_profile_of_a_cpu(tmp_path) -> None:
    (tmp_path / "host.xplane.pb").write_bytes(b"")
    assert profiler.get_profiled_instructions_proto(str(tmp_path)) == b""


def test_arrays_of_keys() -> None:
    assert isinstance(pl.random.key(0), EArray)
    assert not isinstance(pl.numpy.zeros(2), EArray)


@pytest.mark.skipif(
    plugins.cuda_plugin() is None, reason="the CUDA plugin is not installed: the extra `gpu-aot`"
)
def test_functions_are_compiled_for_devices_that_are_not_there():
    topology = topologies.get_topology_desc("H100", platform="cuda", topology="1x1x2")
    mesh = topologies.make_mesh(topology, (2,), ("x",))
    placements = [
        pl.sharding.SingleDeviceSharding(topology.devices[0]),
        pl.NamedSharding(mesh, pl.P("x")),
    ]
    for placed in placements:
        x = pl.ShapeDtypeStruct((8, 8), np.float32, sharding=placed)
        compiled = pl.jit(lambda x: x @ x).lower(x).compile()
        assert "HloModule" in compiled.as_text()
        assert compiled.memory_analysis().argument_size_in_bytes == 256 // len(placed.device_set)
        with pytest.raises(
            pl.errors.DeviceError, match="can't run: it was compiled for devices of a topology"
        ):
            compiled(np.ones((8, 8), np.float32))
