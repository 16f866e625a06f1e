from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest

from pellucid._machine.sharding.errors import PartitionSpecError, ShardingError
from pellucid._machine.sharding.hlo_shardings import means_the_same
from pellucid._machine.sharding.mesh import AbstractMesh, AxisType, Mesh
from pellucid._machine.sharding.named_sharding import NamedSharding
from pellucid._machine.sharding.partition_spec import PartitionSpec
from pellucid._machine.sharding.placement import GSPMDSharding, make_single_device_sharding
from pellucid._machine.sharding.shardy import (
    MeshDescription,
    ShardingDescription,
    axis_texts,
    describe,
    describe_mesh,
    name_in,
)
from pellucid._machine.xla.shardings import DeviceList, HloSharding

from jaxlib import _jax  # isort: skip
from jaxlib.mlir import ir  # isort: skip
from jaxlib.mlir._mlir_libs import _jax_mlir_ext  # isort: skip
from jaxlib.mlir.dialects import sdy, stablehlo  # isort: skip

P = PartitionSpec
X, WHOLE, OPEN = '{"x"}', "{}", "{?}"


def attribute(description: ShardingDescription) -> str:
    return f"#sdy.sharding<@mesh, [{', '.join(description.dims)}]{description.axis_sets}>"


def mesh_attribute(mesh: MeshDescription) -> str:
    axes = ", ".join(f'"{name}"={size}' for name, size in mesh.axes)
    ids = "" if mesh.device_ids is None else f", device_ids={list(mesh.device_ids)}"
    return f"sdy.mesh @mesh = <[{axes}]{ids}>"


def compiled_parameter_sharding(
    description: ShardingDescription, shape: tuple[int, ...], assignment: list[Any]
) -> HloSharding:
    """The compiler's sharding of a program's only parameter with a description."""
    sharding = f"{{sdy.sharding = {attribute(description)}}}"
    kind = f"tensor<{'x'.join(map(str, shape))}xf32>"
    text = f"""module {{ {mesh_attribute(description.mesh)}
      func.func public @main(%a: {kind} {sharding}) -> ({kind} {sharding}) {{
        %0 = stablehlo.add %a, %a : {kind}
        return %0 : {kind} }} }}"""
    context, registry = ir.Context(), ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    stablehlo.register_dialect(context)
    sdy.register_dialect(context)
    context.load_all_available_dialects()
    options = _jax.CompileOptions()
    build = options.executable_build_options
    build.num_replicas, build.num_partitions = 1, len(assignment)
    build.use_spmd_partitioning = build.use_shardy_partitioner = True
    ids = np.array([[device.id for device in assignment]], np.int32)
    build.device_assignment = _jax.DeviceAssignment.create(ids)
    with context:
        module = ir.Module.parse(text)
        executable = assignment[0].client.compile_and_load(
            module, DeviceList(tuple(assignment)), options
        )
        (parameter,) = executable.get_parameter_shardings()
        return HloSharding.from_proto(parameter)


def test_dimensions_are_closed_unless_unconstrained(mesh: Mesh) -> None:
    description = describe(NamedSharding(mesh, P("x", P.UNCONSTRAINED)), 3)
    assert description == ShardingDescription(
        MeshDescription((("x", 4), ("y", 2))), [X, OPEN, WHOLE]
    )


def test_open_dimensions_may_not_take_explicit_axes() -> None:
    types = (AxisType.Explicit, AxisType.Auto, AxisType.Explicit)
    mesh = AbstractMesh((4, 2, 2), ("x", "y", "z"), types)
    closed = describe(NamedSharding(mesh, P("x")), 2)
    assert closed[1:] == ([X, WHOLE], "")
    as_type = describe(NamedSharding(mesh, P("x")), 2, leave_auto_open=True)
    assert as_type[1:] == (['{"x", ?}', OPEN], ', replicated={"z"}')
    unreduced = describe(NamedSharding(mesh, P("x", unreduced={"z"})), 1, leave_auto_open=True)
    assert unreduced.axis_sets == ', unreduced={"z"}'


def test_types_over_explicit_axes_alone_are_closed(explicit_mesh: Mesh) -> None:
    sharding = NamedSharding(explicit_mesh, P("x"))
    assert describe(sharding, 2, leave_auto_open=True) == describe(sharding, 2)


def test_the_order_of_devices_is_given_where_it_differs(mesh: Mesh, devices: list[Any]) -> None:
    assert describe_mesh(mesh, DeviceList(tuple(devices))).device_ids is None
    turned = DeviceList(tuple(reversed(devices)))
    assert describe_mesh(mesh, turned).device_ids == (7, 6, 5, 4, 3, 2, 1, 0)
    assert describe_mesh(mesh.abstract_mesh, turned).device_ids is None
    with pytest.raises(ShardingError, match="not those that the program runs on"):
        describe_mesh(mesh, DeviceList(tuple(devices[:4])))


def test_axis_texts_differ() -> None:
    assert axis_texts(AbstractMesh((1, 1, 1), (1, "1", "1_"))) == {1: "1__", "1": "1", "1_": "1_"}


@pytest.mark.parametrize("name", ['a"b', "a\\b", "ä", "x\n", "{", "],?", "x:(2)4", "%41", "A", 3])
def test_axis_texts_need_no_escapes_and_are_read_back(name: Any) -> None:
    [text] = axis_texts(AbstractMesh((1,), (name,))).values()
    assert re.fullmatch(r"[\w%-]+", text, re.ASCII)
    assert name_in(text) == str(name)


def test_a_spec_longer_than_the_rank_is_refused(mesh: Mesh) -> None:
    with pytest.raises(PartitionSpecError, match="rank 2 or more, but this one has rank 1"):
        describe(NamedSharding(mesh, P("x", "y")), 1)


def test_a_manual_sharding_is_refused(devices: list[Any]) -> None:
    with pytest.raises(ShardingError, match="manual"):
        describe(GSPMDSharding(devices, HloSharding.manual()), 1)


def test_a_single_device_needs_no_axes(devices: list[Any]) -> None:
    description = describe(make_single_device_sharding(devices[3]), 2)
    assert description == ShardingDescription(MeshDescription(()), [WHOLE, WHOLE])


def test_tiles_get_a_mesh_of_their_own(mesh: Mesh, devices: list[Any]) -> None:
    tiles = GSPMDSharding(devices, NamedSharding(mesh, P("y"))._to_xla_hlo_sharding(2))
    description = describe(tiles, 2)
    assert description.mesh.axes == (("dim0", 2), ("copies", 4))
    assert description.mesh.device_ids == (0, 2, 4, 6, 1, 3, 5, 7)
    whole = describe(GSPMDSharding.get_replicated(devices), 1)
    assert whole == ShardingDescription(MeshDescription((("copies", 8),)), [WHOLE])


def test_addends_get_an_axis(explicit_mesh: Mesh, devices: list[Any]) -> None:
    sharding = NamedSharding(explicit_mesh, P("y", unreduced={"x"}))
    tiles = describe(GSPMDSharding(devices, sharding._to_xla_hlo_sharding(1)), 1)
    assert tiles.mesh.axes == (("dim0", 2), ("addends", 4))
    assert tiles.axis_sets == ', unreduced={"addends"}'
    assert describe(sharding, 1).axis_sets == ', unreduced={"x"}'


def test_the_compiler_understands_descriptions_as_we_do(
    make_mesh_of: Any, devices: list[Any]
) -> None:
    rng = random.Random(3)
    assignment = DeviceList(tuple(devices))
    for _ in range(12):
        sizes = rng.choice([(4, 2), (2, 4), (2, 2, 2), (8,)])
        order = rng.sample(range(8), 8) if rng.random() < 0.5 else None
        mesh = make_mesh_of(sizes, "A" * len(sizes), order)
        axes = rng.sample(mesh.axis_names, len(sizes))
        cut = rng.randint(0, len(axes))
        placement = NamedSharding(mesh, P(tuple(axes[:cut]), *axes[cut : cut + 1]))
        tiles = GSPMDSharding(mesh._internal_device_list, placement._to_xla_hlo_sharding(2))
        for sharding in (placement, tiles):
            actual = compiled_parameter_sharding(
                describe(sharding, 2, assignment), (16, 16), devices
            )
            # Tiles by device number: the compiler numbers devices by the program's assignment.
            expected = GSPMDSharding(assignment, actual).devices_indices_map((16, 16))
            assert sharding.devices_indices_map((16, 16)) == expected
            if order is None:
                assert means_the_same(actual, placement._to_xla_hlo_sharding(2), 2, 8)
