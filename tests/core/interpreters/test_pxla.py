"""Placements as libraries ask for them."""

import numpy as np
import pytest
from message_checks import check_message

import pellucid as pl
from pellucid._machine.base.errors import ArgumentValueError
from pellucid._machine.xla.compile import compile_module
from pellucid.interpreters import pxla
from pellucid.sharding import NamedSharding, PartitionSpec as P

MESH = pl.make_mesh((2, 4), ("a", "b"))


def hlo(*spec):
    return NamedSharding(MESH, P(*spec))._to_xla_hlo_sharding(2)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [((), (None, None), True), (("a",), ("a", None), True), (("a",), (None, "a"), False)],
)
def test_equal_shardings(one, other, equal) -> None:
    assert pxla.are_hlo_shardings_equal(hlo(*one), hlo(*other)) is equal
    assert pxla.are_hlo_shardings_equal(hlo(*one).to_proto(), hlo(*other)) is equal


def test_replicated_shardings() -> None:
    assert pxla.is_hlo_sharding_replicated(hlo())
    assert not pxla.is_hlo_sharding_replicated(hlo("a"))


def test_the_current_mesh() -> None:
    assert pxla.thread_resources.env.physical_mesh.empty
    with pl.set_mesh(MESH):
        assert pxla.thread_resources.env.physical_mesh is MESH


@pytest.mark.parametrize("spec", [(), ("a",), (None, ("b", "a")), (("a", "b"), None)])
def test_indices_of_a_sharding_are_those_of_its_shards(spec) -> None:
    sharding = NamedSharding(MESH, P(*spec))
    x = pl.device_put(np.arange(64).reshape(8, 8), sharding)
    for op_sharding in (hlo(*spec), hlo(*spec).to_proto()):
        indices = pxla.op_sharding_to_indices(op_sharding, x.shape, 8)
        assert indices == tuple(shard.index for shard in x.addressable_shards)
    if spec:
        check_message(
            lambda: pxla.op_sharding_to_indices(hlo(*spec), (3, 3), 8),
            ArgumentValueError, "even parts", "shape (3, 3)",
        )  # fmt: skip


def test_results_are_assembled_from_their_parts() -> None:
    sharding = NamedSharding(MESH, P("b"))
    x = pl.device_put(np.arange(8.0, dtype=np.float32), sharding)
    y = pl.numpy.ones(3)
    handler = pxla.global_avals_to_results_handler(
        [pl.typeof(x), pl.typeof(y)], [sharding, y.sharding], False
    )
    again, ones = handler([[shard.data for shard in x.addressable_shards], [y]])
    assert again.sharding == sharding
    assert not again.committed
    np.testing.assert_array_equal(again, x)
    np.testing.assert_array_equal(ones, y)
    make = pxla.global_result_handlers[pl.core.ShapedArray]
    assert make(pl.typeof(y), y.sharding, True)([y]).committed
    with pytest.raises(ArgumentValueError, match="one array for each device"):
        make(pl.typeof(x), sharding, True)([x.addressable_shards[0].data])
    check_message(
        lambda: pxla.global_aval_to_result_handler(3, sharding, True),
        ArgumentValueError, "no handler of results", "got int",
    )  # fmt: skip


def test_specs_of_array_mappings() -> None:
    assert pxla.array_mapping_to_axis_resources({"a": 1, "b": 1}) == P(None, ("a", "b"))
    assert pxla.array_mapping_to_axis_resources({}) == P()


def test_options_of_a_partitioned_program_compile_and_run_it() -> None:
    sharding = NamedSharding(MESH, P("a"))
    lowered = pl.jit(lambda x: x * 2, in_shardings=sharding, out_shardings=sharding).lower(
        np.ones(8, np.float32)
    )
    devices = np.array(MESH.devices)
    options = pxla.create_compile_options(
        lowered.compiler_ir(), False, (False,), (False,), None, devices,
        {"xla_embed_ir_in_executable": True},
    )  # fmt: skip
    build = options.executable_build_options
    assert (build.num_replicas, build.num_partitions) == (1, devices.size)
    assert build.use_spmd_partitioning
    assert list(build.allow_spmd_sharding_propagation_to_output) == [False]
    assert options.env_option_overrides == [("xla_embed_ir_in_executable", True)]
    executable = compile_module(
        devices.flat[0].client, lowered.compiler_ir(), [*devices.flat], options, []
    )
    argument = pl.device_put(np.arange(8, dtype=np.float32), sharding)
    [shards] = executable.execute_sharded([argument]).consume_with_handlers([lambda parts: parts])
    np.testing.assert_array_equal(np.concatenate(shards)[:2], [0, 2])


@pytest.mark.parametrize(
    ("name", "advice"),
    [("MeshComputation", "lower"), ("MeshExecutable", "compile"), ("nothing", "no attribute")],
)
def test_classes_behind_the_stages_say_what_to_use(name, advice) -> None:
    with pytest.raises(AttributeError, match=advice):
        getattr(pxla, name)
    assert not hasattr(pxla, name)
