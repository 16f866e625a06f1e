from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import pellucid as pl
from pellucid._machine.sharding.errors import (
    AbstractPlacementError,
    IndivisibleError,
    MemoryKindError,
    PartitionSpecError,
    ShardingArgumentError,
    ShardingError,
)
from pellucid._machine.sharding.hlo_shardings import spec_of_hlo_sharding, tiles_of
from pellucid._machine.sharding.mesh import AbstractMesh, AxisType, Mesh
from pellucid._machine.sharding.named_sharding import NamedSharding, sharding_of_tiles
from pellucid._machine.sharding.partition_spec import PartitionSpec
from pellucid._machine.sharding.placement import (
    GSPMDSharding,
    Sharding,
    SingleDeviceSharding,
    make_single_device_sharding,
)
from pellucid._machine.xla.shardings import REPLICATED, UNREDUCED, DeviceList, HloSharding

from jaxlib import _jax  # isort: skip

P = PartitionSpec


class Aval:
    """The type of an array, as C++ requires it."""

    def __init__(self, value: np.ndarray[Any, Any]) -> None:
        self.shape, self.dtype, self.weak_type = value.shape, value.dtype, False


def put(value: np.ndarray[Any, Any], sharding: Any) -> Any:
    """`value` on the devices of `sharding`, part by part."""
    indices = sharding.devices_indices_map(value.shape)
    parts = [value[index] for index in indices.values()]
    return _jax.batched_device_put(Aval(value), sharding, parts, list(indices))


def test_equal_named_shardings_are_one_object(mesh: Mesh) -> None:
    sharding = NamedSharding(mesh, P("x"))
    assert NamedSharding(mesh, P("x")) is sharding
    assert NamedSharding(mesh, P("x"), "device") is sharding
    assert NamedSharding(mesh=mesh, spec=P("x"), memory_kind=None) is sharding
    assert sharding.update(spec=P("y")) is sharding.with_spec(P("y"))
    assert sharding.with_memory_kind("pinned_host").with_memory_kind("device") is sharding
    assert sharding != NamedSharding(mesh, P("x", None))
    assert sharding != GSPMDSharding.get_replicated(mesh._internal_device_list)
    assert copy.copy(sharding) is copy.deepcopy(sharding) is sharding
    abstract = NamedSharding(mesh.abstract_mesh, P("x"))
    assert pickle.loads(pickle.dumps(abstract)) is abstract


def test_a_named_sharding_that_nobody_uses_is_freed(mesh: Mesh) -> None:
    spec = P(*[None] * 9, "y")  # which no other test has, so that no program holds it
    alive = weakref.ref(NamedSharding(mesh, spec))
    gc.collect()
    assert alive() is None


def test_cpp_sees_parts_and_devices(mesh: Mesh) -> None:
    value = np.arange(24, dtype=np.float32).reshape(8, 3)
    sharding = NamedSharding(mesh, P("x"))
    array = put(value, sharding)
    assert array._sharding is sharding
    array.block_until_ready()
    ids = mesh.device_ids
    for part, (device, index) in zip(
        array._arrays, sharding.devices_indices_map(value.shape).items(), strict=True
    ):
        (row,) = np.argwhere(ids == device.id)
        assert index == (slice(2 * row[0], 2 * row[0] + 2), slice(None))
        shown = np.asarray(part._single_device_array_to_np_array_did_copy()[0])
        np.testing.assert_array_equal(shown, value[index])


@pytest.mark.filterwarnings("error")
def test_an_abstract_sharding_knows_everything_but_devices() -> None:
    sharding = NamedSharding(AbstractMesh((4, 2), ("x", "y")), P("x"))
    assert isinstance(sharding, Sharding)
    assert sharding.is_abstract
    assert sharding.shard_shape((8, 3)) == (2, 3)
    assert sharding.num_devices == 8
    assert str(sharding._to_xla_hlo_sharding(1)) == "{devices=[4,2]<=[8] last_tile_dim_replicate}"
    assert sharding.memory_kind is None
    assert sharding.with_memory_kind("pinned_host").memory_kind == "pinned_host"
    other = NamedSharding(AbstractMesh((2, 2, 2), ("a", "b", "c")), P(("a", "b")))
    assert sharding.is_equivalent_to(other, 1)
    assert not sharding.is_equivalent_to(other.with_spec(P("a")), 1)
    for name in ("device_set", "addressable_devices", "has_addressable_devices", "is_fully_addressable",
                 "_device_assignment"):  # fmt: skip
        with pytest.raises(AbstractPlacementError, match=name):
            getattr(sharding, name)
    with pytest.raises(AbstractPlacementError):
        sharding.devices_indices_map((8,))
    with pytest.raises(AbstractPlacementError):
        sharding.addressable_devices_indices_map((8,))


def test_abstract_and_concrete_are_not_equivalent(mesh: Mesh) -> None:
    concrete = NamedSharding(mesh, P("x"))
    abstract = NamedSharding(mesh.abstract_mesh, P("x"))
    assert not concrete.is_equivalent_to(abstract, 1)
    assert not abstract.is_equivalent_to(concrete, 1)
    assert not concrete.is_equivalent_to("x", 1)


def test_equivalence_needs_the_same_memory_and_order(mesh: Mesh) -> None:
    sharding = NamedSharding(mesh, P("x"))
    assert sharding.is_equivalent_to(NamedSharding(mesh, P(("x",), None)), 2)
    assert not sharding.is_equivalent_to(sharding.with_memory_kind("pinned_host"), 2)
    turned = Mesh(mesh.devices[::-1], mesh.axis_names)
    assert not NamedSharding(turned, P()).is_equivalent_to(NamedSharding(mesh, P()), 2)
    tiles = GSPMDSharding(mesh._internal_device_list, sharding._to_xla_hlo_sharding(2))
    assert tiles.is_equivalent_to(sharding, 2)
    assert sharding.is_equivalent_to(tiles, 2)


def test_memory_kinds_are_those_of_the_devices(mesh: Mesh, devices: list[Any]) -> None:
    for kind in ("device", "pinned_host", "unpinned_host"):
        assert NamedSharding(mesh, P(), kind).memory_kind == kind
        assert make_single_device_sharding(devices[0], memory_kind=kind).memory_kind == kind
    for make in (
        lambda: NamedSharding(mesh, P(), "cellar"),
        lambda: make_single_device_sharding(devices[0], memory_kind="cellar"),
        lambda: NamedSharding(mesh, P()).with_memory_kind("cellar"),
        lambda: GSPMDSharding.get_replicated(devices).with_memory_kind("cellar"),
    ):
        with pytest.raises(MemoryKindError, match="'cellar'"):
            make()


def test_a_device_has_one_sharding_for_each_memory(devices: list[Any]) -> None:
    sharding = make_single_device_sharding(devices[1])
    assert make_single_device_sharding(devices[1], memory_kind="device") is sharding
    assert type(sharding) is SingleDeviceSharding
    by_hand = SingleDeviceSharding(devices[1])
    assert by_hand == sharding
    assert hash(by_hand) == hash(sharding)
    assert sharding != make_single_device_sharding(devices[0])
    assert sharding != sharding.with_memory_kind("pinned_host")
    assert sharding != "x"
    assert repr(sharding) == "SingleDeviceSharding(device=CpuDevice(id=1), memory_kind=device)"


def test_a_single_device_holds_everything(devices: list[Any]) -> None:
    sharding = make_single_device_sharding(devices[1])
    assert sharding.device_set == sharding.addressable_devices == {devices[1]}
    assert sharding.num_devices == 1
    assert sharding.is_fully_replicated
    assert sharding.is_fully_addressable
    assert sharding.has_addressable_devices
    assert sharding.shard_shape((3, 5)) == (3, 5)
    assert sharding.devices_indices_map((3, 5)) == {devices[1]: (slice(None), slice(None))}
    assert sharding.addressable_devices_indices_map(()) == {devices[1]: ()}
    assert sharding._to_xla_hlo_sharding(2).is_replicated()
    sharding.check_compatible_aval((3,))
    one = NamedSharding(Mesh(devices[1:2], "x"), P("x"))
    assert sharding.is_equivalent_to(one, 2)
    assert one.is_equivalent_to(sharding, 2)
    assert not sharding.is_equivalent_to(make_single_device_sharding(devices[0]), 2)


def test_a_tile_assignment_is_a_placement(mesh: Mesh, devices: list[Any]) -> None:
    tiles = GSPMDSharding(devices, NamedSharding(mesh, P("x", "y"))._to_xla_hlo_sharding(2))
    assert tiles == GSPMDSharding(tuple(devices), tiles._hlo_sharding)
    assert hash(tiles) == hash(GSPMDSharding(tuple(devices), tiles._hlo_sharding))
    assert tiles != tiles.with_memory_kind("pinned_host")
    assert tiles != 3
    assert tiles.shard_shape((8, 4)) == (2, 2)
    assert tiles.num_devices == 8
    assert not tiles.is_fully_replicated
    assert repr(tiles) == "GSPMDSharding({devices=[4,2]<=[8]}, memory_kind=device)"
    whole = GSPMDSharding.get_replicated(devices)
    assert whole.is_fully_replicated
    assert whole.shard_shape((3,)) == (3,)
    with pytest.raises(ShardingError, match="2 dimensions, but the value has 1"):
        tiles.check_compatible_aval((8,))


class RoundRobin(Sharding):
    """A sharding of a user: the first dimension over devices in reverse order."""

    def __init__(self, devices: list[Any]) -> None:
        self._devices = DeviceList(tuple(reversed(devices)))

    @property
    def _internal_device_list(self) -> DeviceList:
        return self._devices

    @property
    def memory_kind(self) -> None:
        return None

    def _to_xla_hlo_sharding(self, ndim: int) -> HloSharding:
        count = len(self._devices)
        return HloSharding.iota_tile([count] + [1] * (ndim - 1), [count], [0], [])


def test_users_may_define_placements(devices: list[Any]) -> None:
    sharding = RoundRobin(devices)
    assert sharding.shard_shape((16, 2)) == (2, 2)
    assert sharding.devices_indices_map((8,))[devices[7]] == (slice(0, 1),)
    assert sharding.device_set == set(devices)
    with pytest.raises(NotImplementedError, match="RoundRobin does not define with_memory_kind"):
        sharding.with_memory_kind("device")


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda m: NamedSharding(m, P("z")), ShardingError, "names axis 'z'"),
        (lambda m: NamedSharding(m, P(unreduced={"z"})), ShardingError, "names axis 'z'"),
        (lambda m: NamedSharding(m, P(("x", None))), ShardingError, "names axis None"),
        (lambda m: NamedSharding(m, P("x", "x")), PartitionSpecError, "more than once"),
        (lambda m: NamedSharding(m, P(unreduced={"x"})), PartitionSpecError, "only an Explicit"),
        (lambda m: NamedSharding(m, ("x",)), ShardingArgumentError, "must be a PartitionSpec"),
        (lambda m: NamedSharding(m, ["x"]), ShardingArgumentError, "must be a PartitionSpec"),
        (lambda m: NamedSharding(m, None), ShardingArgumentError, "must be a PartitionSpec"),
        (lambda m: NamedSharding(m, "x"), ShardingArgumentError, "must be a PartitionSpec"),
        (lambda m: NamedSharding(None, P()), ShardingArgumentError, "must be a Mesh"),
        (lambda m: NamedSharding(m, P()).update(foo=1), ShardingArgumentError, "'foo'"),
        (
            lambda m: NamedSharding(m, P("x", None)).shard_shape((8,)),
            PartitionSpecError,
            "rank 2 or more",
        ),
        (
            lambda m: NamedSharding(m, P("x")).check_compatible_aval(()),
            PartitionSpecError,
            "scalar",
        ),
        (lambda m: NamedSharding(m, P("x")).shard_shape((6,)), IndivisibleError, "size 6"),
        (lambda m: NamedSharding(m, P("x")).devices_indices_map((6,)), IndivisibleError, "size 6"),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, error: type, text: str, mesh: Mesh) -> None:
    with pytest.raises(error, match=text):
        make(mesh)


def test_manual_axes_can_not_cut(mesh: Mesh) -> None:
    manual = mesh.abstract_mesh.update_axis_types({"x": AxisType.Manual})
    with pytest.raises(PartitionSpecError, match="'x', which is Manual"):
        NamedSharding(manual, P("x")).shard_shape((8,))
    assert NamedSharding(manual, P("y")).shard_shape((8,)) == (4,)


def test_unconstrained_needs_an_auto_axis(mesh: Mesh, explicit_mesh: Mesh) -> None:
    assert NamedSharding(mesh, P(P.UNCONSTRAINED)).shard_shape((3,)) == (3,)
    with pytest.raises(PartitionSpecError, match="no Auto axis"):
        NamedSharding(explicit_mesh, P(P.UNCONSTRAINED))


mesh_sizes = st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=4).map(tuple)


@st.composite
def abstract_placements(draw: Any) -> NamedSharding:
    sizes = draw(mesh_sizes)
    names = tuple("abcd"[: len(sizes)])
    types = tuple(draw(st.sampled_from([AxisType.Explicit, AxisType.Auto])) for _ in names)
    order = draw(st.permutations(names))
    ndim = draw(st.integers(0, 3))
    entries: list[Any] = []
    for _ in range(ndim):
        selected = draw(st.integers(0, min(2, len(order))))
        entries.append(tuple(order[:selected]))
        order = order[selected:]
    free = [a for a in order if types[names.index(a)] is AxisType.Explicit]
    unreduced = frozenset(free[: draw(st.integers(0, len(free)))])
    return NamedSharding(AbstractMesh(sizes, names, types), P(*entries, unreduced=unreduced))


@settings(deadline=None, max_examples=300)
@given(abstract_placements())
def test_a_spec_comes_back_from_its_tiles(sharding: NamedSharding) -> None:
    ndim = len(sharding.spec)
    tiles = sharding._to_xla_hlo_sharding(ndim)
    actual = spec_of_hlo_sharding(tiles, sharding.mesh, ndim)
    assert actual is not None
    assert NamedSharding(sharding.mesh, actual)._to_xla_hlo_sharding(ndim) == tiles
    if all(size > 1 for size in sharding.mesh.axis_sizes):
        # Axes that together cut into as many parts may be named in another way only by their order.
        assert actual.axes_per_dim == sharding.spec.axes_per_dim
        assert actual.unreduced == sharding.spec.unreduced


@settings(deadline=None, max_examples=200)
@given(abstract_placements(), st.lists(st.integers(0, 40), min_size=3, max_size=3))
def test_parts_cover_the_value_once_for_each_copy(
    sharding: NamedSharding, sizes: list[int]
) -> None:
    shape, num_devices = tuple(sizes[: len(sharding.spec)]), sharding.mesh.size
    tiles = tiles_of(sharding._to_xla_hlo_sharding(len(shape)), len(shape), num_devices)
    count = np.zeros(shape, int)
    for position in tiles.positions:
        block = tuple(
            slice(i * -(-n // k), min((i + 1) * -(-n // k), n))
            for i, n, k in zip(position, shape, tiles.counts, strict=True)
        )
        count[block] += 1
    copies = num_devices // int(np.prod(tiles.counts))
    assert (count == copies).all()


def test_tiles_that_no_axis_makes_have_no_spec() -> None:
    mesh = AbstractMesh((4, 2), ("x", "y"))
    part_of_an_axis = HloSharding.iota_tile([2, 4], [8], [0], [])
    assert spec_of_hlo_sharding(part_of_an_axis, mesh, 2) is None
    other_order = HloSharding.iota_tile([4, 2], [2, 4], [1, 0], [])
    assert spec_of_hlo_sharding(other_order, mesh, 2) is None
    other_number = HloSharding.iota_tile([4], [4], [0], [])
    assert spec_of_hlo_sharding(other_number, mesh, 1) is None
    assert spec_of_hlo_sharding(HloSharding.replicate(), mesh, 2) == P(None, None)


def test_what_the_compiler_chose_is_named_where_possible(mesh: Mesh) -> None:
    sharding = NamedSharding(mesh, P(None, ("y", "x")))
    assert sharding_of_tiles(sharding._to_xla_hlo_sharding(2), mesh, 2) is sharding
    pinned = sharding_of_tiles(HloSharding.replicate(), mesh, 1, "pinned_host")
    assert pinned is NamedSharding(mesh, P(None), "pinned_host")
    other = HloSharding.iota_tile([2, 4], [8], [0], [])
    tiles = sharding_of_tiles(other, mesh, 2)
    assert type(tiles) is GSPMDSharding
    assert (tiles._hlo_sharding, tiles.memory_kind) == (other, "device")
    assert type(sharding_of_tiles(HloSharding.unreduced(), mesh, 1)) is GSPMDSharding
    with pytest.raises(ShardingArgumentError, match="no devices"):
        sharding_of_tiles(other, mesh.abstract_mesh, 2)  # type: ignore[arg-type]


def test_groups_of_one_kind_count_together() -> None:
    kinds = [UNREDUCED, REPLICATED, UNREDUCED]
    tiles = tiles_of(HloSharding.iota_tile([1, 2, 2, 2], [8], [0], kinds), 1, 8)
    assert tiles.addends.tolist() == [0, 1, 0, 1, 2, 3, 2, 3]
    mesh = AbstractMesh((2, 2, 2), ("x", "y", "z"), (AxisType.Explicit,) * 3)
    spec = spec_of_hlo_sharding(HloSharding.iota_tile([1, 2, 2, 2], [8], [0], kinds), mesh, 1)
    assert spec == P(None, unreduced={"x", "z"})


def test_a_value_on_one_of_several_devices_has_no_parts(devices: list[Any]) -> None:
    one = HloSharding.from_string("{maximal device=3}")
    with pytest.raises(ShardingError, match="one of 8 devices"):
        GSPMDSharding(devices, one).shard_shape((8,))


def test_copies_may_be_in_any_order() -> None:
    mesh = AbstractMesh((4, 2), ("x", "y"))
    copies_first = HloSharding.iota_tile([2, 4], [4, 2], [1, 0], [REPLICATED])
    assert spec_of_hlo_sharding(copies_first, mesh, 1) == P("y")


def test_hundreds_of_devices_take_milliseconds(many_devices: list[Any]) -> None:
    mesh = Mesh(np.reshape(many_devices, (8, 8, 8)), ("x", "y", "z"))
    sharding = NamedSharding(mesh, P(("x", "z"), "y"))
    indices = sharding.devices_indices_map((512, 64))
    assert len(indices) == 512
    assert indices[many_devices[9]] == (slice(8, 16), slice(8, 16))
    actual = spec_of_hlo_sharding(sharding._to_xla_hlo_sharding(2), mesh, 2)
    assert actual == P(("x", "z"), "y")
    value = np.arange(512 * 64, dtype=np.float32).reshape(512, 64)
    assert put(value, sharding)._sharding is sharding


def test_devices_that_a_user_made_have_no_memories():
    class Made:
        platform, process_index, client = "cpu", 0, None

        def __init__(self, number):
            self.id = number

    mesh = Mesh(np.array([Made(i) for i in range(4)]).reshape(2, 2), ("x", "y"))
    sharding = NamedSharding(mesh, PartitionSpec("x", "y"))
    assert sharding.memory_kind is None
    assert sharding.shard_shape((4, 4)) == (2, 2)
    assert len(sharding.devices_indices_map((4, 4))) == 4


def test_auto_axes_without_a_mesh_changes_nothing():
    f = pl.sharding.auto_axes(lambda x: 2 * x, out_sharding=PartitionSpec())
    assert pl.jit(f)(3) == f(3) == 6
