from __future__ import annotations

import copy
import pickle
import threading
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

from pellucid._machine.base import late
from pellucid._machine.sharding import PartitionSpec as P, mesh_context
from pellucid._machine.sharding.current_mesh import (
    get_abstract_mesh,
    get_mesh,
    set_mesh,
    use_abstract_mesh,
    use_mesh,
)
from pellucid._machine.sharding.errors import (
    AbstractPlacementError,
    MeshError,
    MissingMeshError,
    ShardingArgumentError,
)
from pellucid._machine.sharding.mesh import AbstractMesh, AxisType, Mesh, empty_mesh
from pellucid._machine.sharding.stated import mesh_in_force
from pellucid._machine.sharding.topology import create_device_mesh, make_mesh
from pellucid._machine.xla import flags


def test_equal_meshes_are_one_object(devices: list[Any], mesh: Mesh) -> None:
    assert Mesh(np.reshape(devices, (4, 2)), ("x", "y")) is mesh
    assert Mesh([devices[i : i + 2] for i in range(0, 8, 2)], ["x", "y"]) is mesh
    assert mesh.update(axis_names=("a", "b")) is not mesh
    assert mesh.update() is mesh
    assert copy.deepcopy(mesh) is mesh
    assert {mesh: 1}[mesh.update(devices=mesh.devices)] == 1


def test_a_mesh_describes_its_axes(mesh: Mesh) -> None:
    assert mesh.shape == OrderedDict(x=4, y=2)
    assert (mesh.axis_sizes, mesh.axis_names, mesh.size) == ((4, 2), ("x", "y"), 8)
    assert mesh.device_ids.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert [d.id for d in mesh._internal_device_list] == list(range(8))
    assert not mesh.devices.flags.writeable
    assert not mesh.empty
    assert not mesh.is_scalar
    assert not mesh.is_multi_process
    assert mesh.local_mesh is mesh
    assert len(mesh.local_devices) == 8
    assert mesh.are_all_axes_auto
    assert not mesh.are_all_axes_explicit
    typed = mesh.update(axis_types=(AxisType.Explicit, AxisType.Manual))
    assert (typed.auto_axes, typed.explicit_axes, typed.manual_axes) == ((), ("x",), ("y",))


def test_one_device_is_a_mesh_without_axes(devices: list[Any]) -> None:
    scalar = Mesh(devices[0], ())
    assert scalar.is_scalar
    assert scalar.size == 1
    assert not scalar.empty
    assert scalar.shape == {}


@pytest.mark.parametrize(
    "make", [lambda: Mesh(np.empty((), object), ()), lambda: Mesh(np.zeros((2, 0)), ("x", "y"))]
)
def test_a_mesh_without_devices_is_the_empty_mesh(make: Any) -> None:
    mesh = make()
    assert mesh is empty_mesh
    assert mesh.empty
    assert str(mesh) == "Mesh()"
    assert repr(mesh) == "Mesh(axis_sizes=(), axis_names=())"
    assert mesh.abstract_mesh.empty
    assert mesh.local_devices == []


def test_an_abstract_mesh_survives_pickling_as_itself(mesh: Mesh) -> None:
    for abstract in (mesh.abstract_mesh, AbstractMesh((2,), ("x",), AxisType.Manual)):
        assert pickle.loads(pickle.dumps(abstract)) is abstract
        assert copy.deepcopy(abstract) is abstract


def test_an_abstract_mesh_has_no_devices() -> None:
    abstract = AbstractMesh((4, 2), ("x", "y"))
    for name in ("devices", "device_ids", "local_devices", "local_mesh", "is_multi_process"):
        with pytest.raises(AbstractPlacementError, match=name):
            getattr(abstract, name)
    with pytest.raises(MeshError, match="entered"), abstract:  # type: ignore[attr-defined]
        pass


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda d: Mesh(d, ("x", "y")), "one dimension for each axis name"),
        (lambda d: Mesh(np.reshape(d, (4, 2)), ("x", "x")), "two axes are called 'x'"),
        (lambda d: Mesh(d, (None,)), "None can't name an axis"),
        (lambda d: Mesh([d[0], d[0]], "x"), "only one place"),
        (lambda d: Mesh(d, 3), "sequence of names"),
        (lambda d: Mesh(d, "x", "Auto"), "members of AxisType"),
        (lambda d: Mesh(d, "x", (AxisType.Auto,) * 2), "each axis must have one type"),
        (lambda d: AbstractMesh((4,), ("x", "y")), "one size and one name"),
        (lambda d: AbstractMesh((0,), ("x",)), "at least 1"),
        (lambda d: AbstractMesh((2,), "x").update_axis_types({"y": AxisType.Auto}), "axis 'y'"),
        (lambda d: AbstractMesh((2,), "x").update(sizes=3), "no argument 'sizes'"),
        (lambda d: make_mesh((16,), ("x",), devices=d), "needs 16 devices"),
        (lambda d: make_mesh((-1, 2), ("x", "y"), devices=d), "at least 1"),
        (lambda d: make_mesh(8, "x", devices=d), "sequence of sizes"),
        (lambda d: make_mesh((4, 2), ("x",), devices=d), "one dimension for each axis name"),
        (lambda d: create_device_mesh((4,), d), "has 4 places"),
        (lambda d: set_mesh(AbstractMesh((2,), "x")), "needs a Mesh"),
        (lambda d: use_abstract_mesh(Mesh(d, "x")), "needs an AbstractMesh"),
    ],
)
def test_what_does_not_fit_together_is_refused(make: Any, text: str, devices: list[Any]) -> None:
    with pytest.raises((MeshError, ShardingArgumentError), match=text):
        make(devices)


def test_make_mesh_takes_the_first_devices_and_explicit_axes(devices: list[Any]) -> None:
    mesh = make_mesh((2, 2), ("x", "y"), devices=devices[2:])
    assert mesh.device_ids.tolist() == [[2, 3], [4, 5]]
    assert mesh.are_all_axes_explicit
    assert make_mesh((8,), "x", AxisType.Auto, devices=devices).are_all_axes_auto
    assert make_mesh((), (), devices=devices).is_scalar


def test_make_mesh_finds_default_devices(
    devices: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(late._loaded, "devices", lambda: devices)
    assert make_mesh((8,), ("x",)).size == 8


class FakeClient:
    def __init__(self, process_index: int) -> None:
        self.index = process_index

    def process_index(self) -> int:
        return self.index


class RemoteDevice:
    platform = device_kind = "cpu"

    def __init__(self, id: int, process_index: int, client: FakeClient) -> None:
        self.id, self.process_index, self.client = id, process_index, client


def test_the_local_mesh_is_the_box_of_this_process() -> None:
    client = FakeClient(1)
    devices = [RemoteDevice(i, i // 4, client) for i in range(8)]
    mesh = Mesh(np.reshape(devices, (4, 2)), ("x", "y"))
    assert mesh.is_multi_process
    assert [[d.id for d in row] for row in mesh.local_mesh.devices] == [[4, 5], [6, 7]]
    scattered = np.reshape([devices[i] for i in (0, 4, 5, 1, 2, 3, 6, 7)], (4, 2))
    with pytest.raises(MeshError, match="do not fill a box"):
        _ = Mesh(scattered, ("x", "y")).local_mesh


def test_no_mesh_is_current_at_first() -> None:
    assert get_mesh() is empty_mesh
    assert get_abstract_mesh().empty
    with pytest.raises(MissingMeshError):
        mesh_in_force("f", P())


def test_set_mesh_is_undone_at_the_end_of_the_block(mesh: Mesh, explicit_mesh: Mesh) -> None:
    with set_mesh(mesh):
        assert get_mesh() is mesh
        assert get_abstract_mesh() is mesh.abstract_mesh
        assert mesh_in_force("f", P()) is mesh
        with use_mesh(explicit_mesh):
            assert get_mesh() is explicit_mesh
        assert get_mesh() is mesh
        manual = mesh.abstract_mesh.update_axis_types({"x": AxisType.Manual})
        with use_abstract_mesh(manual):
            assert get_abstract_mesh() is manual
            assert get_mesh() is mesh
        assert get_abstract_mesh() is mesh.abstract_mesh
    assert get_mesh() is empty_mesh


def test_set_mesh_holds_without_a_block(mesh: Mesh) -> None:
    setting = set_mesh(mesh)
    try:
        assert get_mesh() is mesh
    finally:
        setting.__exit__(None, None, None)
    assert get_mesh() is empty_mesh


def test_the_current_mesh_belongs_to_a_thread(mesh: Mesh) -> None:
    seen: list[Mesh] = []
    with set_mesh(mesh):
        thread = threading.Thread(target=lambda: seen.append(get_mesh()))
        thread.start()
        thread.join()
    assert seen == [empty_mesh]


def test_a_mesh_is_a_context_manager_and_a_decorator(mesh: Mesh, explicit_mesh: Mesh) -> None:
    @mesh
    def inner() -> Any:
        return mesh_in_force("f", P()), get_abstract_mesh()

    with explicit_mesh, mesh:
        assert mesh_in_force("f", P()) is mesh
    assert inner() == (mesh, AbstractMesh((), ()))
    with pytest.raises(MissingMeshError):
        mesh_in_force("f", P())


def test_use_abstract_mesh_keeps_the_number_of_devices(mesh: Mesh) -> None:
    with set_mesh(mesh):
        with pytest.raises(MeshError, match="number of devices"):
            use_abstract_mesh(AbstractMesh((2,), "x")).__enter__()
        assert get_abstract_mesh() is mesh.abstract_mesh


def test_every_way_to_set_a_mesh_changes_the_keys_of_caches(mesh: Mesh) -> None:
    for setting in (
        lambda: set_mesh(mesh),
        lambda: use_abstract_mesh(mesh.abstract_mesh),
        lambda: mesh,
    ):
        before = flags.trace_context()
        with setting():
            during = flags.trace_context()
            assert hash(during) != hash(before)
        assert before != during
        assert flags.trace_context() == before


def test_the_mesh_of_devices_is_hidden_from_traced_functions(mesh: Mesh) -> None:
    with set_mesh(mesh):
        previous = flags.tracing_now.swap_local("a trace")
        try:
            with pytest.raises(MeshError, match="being traced"):
                get_mesh()
            with pytest.raises(MeshError, match="being traced"):
                set_mesh(mesh)
            assert mesh_context.concrete.value is mesh
        finally:
            flags.tracing_now.set_local(previous)
