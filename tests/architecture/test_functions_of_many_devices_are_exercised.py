"""Every public function about devices, meshes, arrays over them, collectives and processes is used by some test."""

import pathlib
from typing import Any

import pytest
from architecture import usage

import pellucid

DEVICES = """
devices local_devices device_count local_device_count host_count host_id host_ids process_count process_index
process_indices default_backend device_put device_put_sharded device_put_replicated device_get copy_to_host_async
block_until_ready live_arrays clear_caches default_device transfer_guard transfer_guard_host_to_device
transfer_guard_device_to_device transfer_guard_device_to_host memory.Space experimental.layout.Layout
experimental.layout.Format experimental.layout.with_layout_constraint
"""
MESHES = """
make_mesh set_mesh reshard jit NamedSharding P ShapeDtypeStruct lax.with_sharding_constraint
sharding.Mesh sharding.AbstractMesh sharding.AbstractDevice sharding.AxisType sharding.ManualAxisType
sharding.PartitionSpec sharding.Sharding sharding.SingleDeviceSharding sharding.make_single_device_sharding
sharding.set_mesh sharding.use_mesh sharding.use_abstract_mesh sharding.get_mesh sharding.get_abstract_mesh
sharding.auto_axes sharding.explicit_axes experimental.mesh_utils.create_device_mesh
experimental.mesh_utils.create_hybrid_device_mesh
"""
ASSEMBLY = """
make_array_from_callback make_array_from_single_device_arrays make_array_from_process_local_data
"""
MANUAL = """
shard_map smap pmap experimental.pjit.pjit lax.psum lax.pmean lax.pmax lax.pmin lax.psum_scatter lax.all_gather
lax.all_to_all lax.ppermute lax.pshuffle lax.pbroadcast lax.pswapaxes lax.axis_index lax.axis_size lax.pcast
lax.ragged_all_to_all lax.psend lax.precv
"""
PARTITIONING = """
experimental.custom_partitioning.custom_partitioning experimental.custom_partitioning.SdyShardingRule introspect.sharding
"""
PROCESSES = """
distributed.initialize distributed.shutdown distributed.is_initialized distributed.barrier distributed.key_value_store
experimental.multihost_utils.broadcast_one_to_all experimental.multihost_utils.process_allgather
experimental.multihost_utils.sync_global_devices experimental.multihost_utils.assert_equal
experimental.multihost_utils.host_local_array_to_global_array
experimental.multihost_utils.global_array_to_host_local_array
experimental.multihost_utils.reached_preemption_sync_point
"""
FUNCTIONS = (DEVICES + MESHES + ASSEMBLY + MANUAL + PARTITIONING + PROCESSES).split()

ATTRIBUTES = {
    "array": """
        sharding devices device addressable_shards global_shards is_fully_replicated is_fully_addressable
        addressable_data committed copy_to_host_async block_until_ready is_ready on_device_size_in_bytes
        unsafe_buffer_pointer to_device format delete is_deleted""",
    "mesh": """
        devices device_ids local_devices local_mesh abstract_mesh shape axis_names axis_sizes axis_types size empty
        is_multi_process update""",
    "abstract_mesh": "update update_axis_types abstract_device",
    "spec": "partitions unreduced reduced UNCONSTRAINED update index count to_tangent_spec to_ct_spec to_lo",
    "sharding": """
        mesh spec memory_kind num_devices device_set addressable_devices is_fully_replicated is_fully_addressable
        has_addressable_devices devices_indices_map addressable_devices_indices_map shard_shape is_equivalent_to
        with_memory_kind update check_compatible_aval replicated_axes""",
}  # fmt: skip


@pytest.fixture(scope="module")
def used() -> usage.Usage:
    return usage.of_tests(but=pathlib.Path(__file__))


def test_tests_name_every_function(used: usage.Usage) -> None:
    members = {path: usage.member(pellucid, path) for path in FUNCTIONS}
    assert [path for path, member in members.items() if member is None] == []
    assert [path for path, member in members.items() if not used.objects.get(id(member))] == []


def test_tests_ask_for_every_attribute(used: usage.Usage) -> None:
    values = samples()
    names = [(kind, name) for kind, names in ATTRIBUTES.items() for name in names.split()]
    assert [(kind, name) for kind, name in names if not hasattr(values[kind], name)] == []
    assert [name for _, name in names if not used.attributes.get(name)] == []


def samples() -> dict[str, Any]:
    mesh = pellucid.make_mesh((1,), ("x",))
    sharding = pellucid.NamedSharding(mesh, pellucid.P("x"))
    return {
        "array": pellucid.device_put(1.0), "mesh": mesh, "abstract_mesh": mesh.abstract_mesh, "spec": sharding.spec,
        "sharding": sharding,
    }  # fmt: skip


def test_names_are_resolved_as_python_does() -> None:
    code = """
import pellucid as pl
from pellucid.lax import pmin, psum as total
def program(jax, x):
    lax, unknown = jax.lax, x
    sharding = submodule(jax, "sharding")
    return total(lax.pmax(x)), sharding.Mesh, x.global_shards, unknown.ppermute
"""
    uses = usage.Usage()
    uses.note("a.py", code, {"jax": pellucid})
    names = ("lax.psum", "lax.pmax", "sharding.Mesh")
    assert all(id(usage.member(pellucid, name)) in uses.objects for name in names)
    assert set(uses.attributes) == {"global_shards", "ppermute"}
    assert not {id(pellucid.lax.ppermute), id(pellucid.lax.pmin)} & uses.objects.keys()


def test_strings_count_where_they_are_evaluated_calls() -> None:
    code = "ROWS = {'ragged': ('lax.psum(x)', 'lax.pmax', 'no code')}"
    assert usage.calls_in_strings(code) == ["lax.psum(x)"]
