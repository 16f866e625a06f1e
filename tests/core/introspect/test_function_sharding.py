"""Records of where a function's intermediates lie, why, and what is moved between devices."""

import json
from typing import NamedTuple

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import introspect
from pellucid.base.errors import CompilationError
from pellucid.introspect import propagation
from pellucid.introspect.errors import ArgumentTypeError
from pellucid.sharding import AbstractMesh, Mesh
from pellucid.sharding.single_device import GSPMDSharding
from pellucid.xla import plugins

MESH = AbstractMesh((2, 4), ("data", "model"))


def placed(mesh, *spec):
    return pl.NamedSharding(mesh, pl.P(*spec))


def argument(shape, *spec, mesh=MESH):
    return pl.ShapeDtypeStruct(shape, np.float32, sharding=placed(mesh, *spec))


@pytest.fixture
def devices() -> Mesh:
    return Mesh(np.array(pl.devices()).reshape(2, 4), ("data", "model"))


def name_of(record, value):
    values, strings = record.program.values, record.program.strings
    return strings[values.user_name[value]] or strings[values.name[value]]


def layouts(record):
    """The layout of each value that has a name of the user's; of those of one name, the last."""
    values, strings = record.program.values, record.program.strings
    return {
        strings[name]: record.shardings[sharding].text
        for name, sharding in zip(values.user_name, record.value_shardings, strict=True)
        if name and sharding >= 0
    }


class Hop(NamedTuple):
    value: int
    dimension: int
    equation: int
    origin: int


def hops(record, value):
    """How each axis came to a value."""
    why, start = record.why, sum(record.why.counts[:value])
    rows = range(start, start + why.counts[value])
    return {
        record.axes[why.axis[i]]: Hop(
            why.value[i], why.dimension[i], why.equation[i], why.origin[i]
        )
        for i in rows
    }


def chain(record, value, axis):
    """Names of the values by which an axis came to a value, and what the user said in the end."""
    names = []
    while value >= 0:
        names.append(name_of(record, value))
        hop = hops(record, value)[axis]
        value = hop.value
    return names, record.origins[hop.origin].text


def exchanges(record, which="collectives"):
    return [(each.operation, each.axes, each.reason) for each in getattr(record, which)]


def primitive(record, equation):
    return record.program.strings[record.program.equations.primitive[equation]]


def result(record):
    return record.program.bodies[0].outputs[0]


def mlp(x, w, v):
    h = x @ w
    a = jnp.tanh(h)
    return a @ v


MLP = (argument((16, 8), "data"), argument((8, 32), None, "model"), argument((32, 8), "model"))


# Layouts and why -----------------------------------------------------------------------------------


def test_every_intermediate_has_its_layout_and_bytes():
    record = introspect.sharding(mlp, *MLP)
    expected = {
        "x": "P('data',)", "w": "P(None, 'model')", "v": "P('model',)",
        "h": "P('data', 'model')", "a": "P('data', 'model')",
    }  # fmt: skip
    assert layouts(record).items() >= expected.items()
    assert record.shardings[record.value_shardings[result(record)]].text == "P('data',)"
    assert -1 not in record.value_shardings
    assert record.value_device_bytes == [256] * 6
    assert record.mesh.axis_sizes == [2, 4]
    assert record.mesh.device_ids == []


def test_why_leads_back_to_the_arguments():
    record = introspect.sharding(pl.jit(mlp), *MLP)
    a = record.program.values.user_name.index(record.program.strings.index("a"))
    assert chain(record, a, "data") == (["a", "h", "x"], "argument `x`")
    assert chain(record, a, "model") == (["a", "h", "w"], "argument `w`")
    hop = hops(record, a)["model"]
    assert (name_of(record, hop.value), hop.dimension) == ("h", 1)
    assert primitive(record, hop.equation) == "tanh"


def test_axes_come_from_constraints_and_from_what_is_asked_of_results():
    def f(x, y):
        z = jnp.sin(x)
        z = pl.lax.with_sharding_constraint(z, placed(MESH, "model"))
        return z.T, y + 1

    jitted = pl.jit(
        f, in_shardings=(placed(MESH), None), out_shardings=(None, placed(MESH, "data"))
    )
    record = introspect.sharding(jitted, jnp.ones((8, 4)), jnp.ones(8))
    first, second = record.program.bodies[0].outputs
    assert chain(record, first, "model")[1] == "with_sharding_constraint"
    assert chain(record, second, "data")[1] == "out_shardings of result 1"
    constraint = record.origins[hops(record, first)["model"].origin].equation
    assert primitive(record, constraint) == "sharding_constraint"


def test_in_shardings_are_named():
    jitted = pl.jit(jnp.sin, in_shardings=placed(MESH, "data"))
    record = introspect.sharding(jitted, pl.ShapeDtypeStruct((8,), np.float32))
    assert chain(record, result(record), "data")[1].startswith("in_shardings of")


def test_explicit_axes_are_said_by_the_types(devices):
    mesh = pl.make_mesh((2, 4), ("data", "model"), axis_types=(pl.sharding.AxisType.Explicit,) * 2)
    with pl.set_mesh(mesh):
        x = pl.device_put(jnp.ones((8, 4)), placed(mesh, "data"))
        record = introspect.sharding(lambda x: jnp.sin(x) * 2, x)
    assert record.shardings[record.value_shardings[result(record)]].text == "P('data',)"
    assert "Explicit" in record.origins[hops(record, result(record))["data"].origin].text


def test_arguments_that_are_not_used_are_left_out():
    record = introspect.sharding(lambda x, y: y * 2, argument((8,)), argument((8,), "data"))
    assert [name_of(record, value) for value in record.program.bodies[0].inputs] == ["y"]


def test_one_program_called_with_two_layouts_says_so():
    inner = pl.jit(jnp.tanh)
    record = introspect.sharding(
        lambda x, y: inner(x) @ inner(y), argument((8, 8), "data"), argument((8, 8), None, "model")
    )
    assert 2 in record.value_layout_counts
    record = introspect.sharding(lambda x: inner(inner(x)), argument((8, 8), "data"))
    assert set(record.value_layout_counts) == {1}


def test_specs_over_the_current_mesh_are_understood(devices):
    x = pl.device_put(jnp.ones((16, 8)), placed(devices, "data", "model"))
    with pl.set_mesh(devices):
        record = introspect.sharding(lambda x: pl.lax.with_sharding_constraint(x, pl.P("data")), x)
    assert exchanges(record, "planned") == [("all-gather", ["model"], "written")]
    assert record.basis == "compiler"


def test_a_second_mesh_is_not_named_by_the_first(devices):
    line = Mesh(devices.devices.reshape(8), ("line",))
    x = pl.device_put(jnp.ones((16, 8)), placed(devices, "data", "model"))
    y = pl.device_put(jnp.ones((16, 8)), placed(line, "line"))
    record = introspect.sharding(lambda x, y: (jnp.sin(x), jnp.cos(y)), x, y)
    assert layouts(record) == {"x": "P('data', 'model')"}
    cos = record.program.bodies[0].outputs[1]
    assert (record.value_shardings[cos], record.value_device_bytes[cos]) == (-1, None)


def test_placements_without_a_mesh_get_axes_of_their_own(devices):
    named = placed(devices, "data", "model")
    tiles = named._to_xla_hlo_sharding(2)
    x = pl.device_put(jnp.ones((16, 8)), GSPMDSharding(named._internal_device_list, tiles))
    record = introspect.sharding(lambda x: x.sum(axis=0), x)
    assert (record.mesh.axis_names, record.mesh.axis_sizes) == (["dim0", "dim1"], [2, 4])
    assert exchanges(record) == [("all-reduce", ["dim0"], "contraction")]


def test_a_program_on_one_device_is_whole():
    record = introspect.sharding(lambda x: x @ x, np.ones((4, 4), np.float32))
    assert [each.text for each in record.shardings] == ["P()"]
    assert (record.collectives, record.planned, record.mesh.axis_names) == ([], [], [])
    assert record.basis == "compiler"


# Exchanges -----------------------------------------------------------------------------------------


def test_a_contraction_of_a_divided_dimension_is_summed():
    record = introspect.sharding(mlp, *MLP)
    [each] = record.collectives
    assert (each.operation, each.axes, each.reason) == ("all-reduce", ["model"], "contraction")
    # On a ring, each of 4 devices sends 3/4 of its 8x8 summands twice.
    assert (each.group_count, each.group_size, each.bytes_per_device) == (2, 4, 8 * 8 * 4 * 3 // 2)
    program = record.program
    span = program.equations.span[each.equation]
    source = program.sources[program.spans.source[span]]
    assert "return a @ v" in source.lines[program.spans.line[span] - source.first_line]


def test_exchanges_in_loops_say_how_often_they_run():
    def f(x, w):
        def body(c, _):
            return jnp.tanh(c @ w), None

        return pl.lax.scan(body, x, None, length=5)[0]

    record = introspect.sharding(f, argument((8, 8), None, "model"), argument((8, 8), "model"))
    assert {each.runs for each in record.collectives} == {5}
    record = introspect.sharding(
        lambda x: pl.lax.while_loop(lambda c: c.sum() < 9, lambda c: c * 2, x),
        argument((8,), "data"),
    )
    assert [(each.operation, each.runs) for each in record.collectives] == [("all-reduce", None)]


def test_branches_are_looked_into():
    def f(x, w):
        return pl.lax.cond(x[0, 0] > 0, lambda: x @ w, lambda: x * 2)

    record = introspect.sharding(f, argument((8, 8), None, "model"), argument((8, 8), "model"))
    by_contraction = [each for each in record.collectives if each.reason == "contraction"]
    assert "dot_general" in {primitive(record, each.equation) for each in by_contraction}


def test_what_the_user_writes_is_told_apart():
    def local(x, w):
        return pl.lax.psum(jnp.sin(x @ w), "model")

    mapped = pl.shard_map(
        local, mesh=MESH, in_specs=(pl.P("data", "model"), pl.P("model")), out_specs=pl.P("data")
    )
    record = introspect.sharding(
        mapped, argument((8, 8), "data", "model"), argument((8, 8), "model")
    )
    assert exchanges(record) == [("all-reduce", ["model"], "written")]
    assert primitive(record, record.collectives[0].equation).startswith("psum")
    assert chain(record, result(record), "data")[1] == "out_specs of shard_map"


def test_resharding_and_full_replication_are_told_apart():
    record = introspect.sharding(lambda x: jnp.fft.fft(x), argument((16,), "data"))
    assert exchanges(record) == [("all-gather", ["data"], "full_replication")]
    assert "fft takes it whole" in record.collectives[0].note
    record = introspect.sharding(lambda x: jnp.sort(x), argument((16, 4), "data", "model"))
    assert {each.reason for each in record.collectives} == {"reshard"}
    record = introspect.sharding(
        lambda x: pl.lax.with_sharding_constraint(x, placed(MESH)), argument((16, 4), "data")
    )
    assert exchanges(record) == [("all-gather", ["data"], "written")]


def test_what_runs_is_read_off_the_compiled_program(devices):
    x = pl.device_put(jnp.ones((16, 8)), placed(devices, "data", "model"))
    w = pl.device_put(jnp.ones((8, 32)), placed(devices, "model"))
    jitted = pl.jit(lambda x, w: jnp.sin(x @ w).sum())
    record = introspect.sharding(jitted, x, w)
    compiled = jitted.lower(x, w).compile()
    text = compiled.as_text()
    for operation in ("all-reduce", "all-gather", "collective-permute"):
        count = sum(each.operation == operation for each in record.collectives)
        assert text.count(f" {operation}(") + text.count(f" {operation}-start(") == count
    assert record.basis == "compiler"
    stats = compiled.memory_analysis()
    needed = stats.argument_size_in_bytes + stats.output_size_in_bytes + stats.temp_size_in_bytes
    assert record.device_peak_bytes == [needed] * 8
    assert all(each.axes and each.equation >= 0 for each in record.collectives)
    counts = [
        sum(each.operation == "all-reduce" and each.axes == ["model"] for each in part)
        for part in (record.planned, record.collectives)
    ]
    told = any(each.startswith("all-reduce over model:") for each in record.differences)
    assert told == (counts[0] != counts[1])


def test_a_pass_that_fails_is_named(monkeypatch):
    monkeypatch.setattr(propagation, "_EXCHANGES", "sdy-no-such-pass")
    with pytest.raises(CompilationError, match="insert exchanges"):
        introspect.sharding(mlp, *MLP)


def test_nothing_runs():
    ran = []
    jitted = pl.jit(lambda x: pl.pure_callback(lambda v: ran.append(1) or v, x, x))
    introspect.sharding(jitted, jnp.ones(3))
    assert ran == []


# Abstract meshes, memory, form -----------------------------------------------------------------------


def test_4096_abstract_devices_take_no_devices():
    mesh = AbstractMesh((64, 64), ("data", "model"))
    record = introspect.sharding(
        mlp,
        argument((1 << 14, 1024), "data", mesh=mesh),
        argument((1024, 4096), None, "model", mesh=mesh),
        argument((4096, 1024), "model", mesh=mesh),
    )
    assert (record.basis, len(record.device_peak_bytes)) == ("estimate", 4096)
    assert record.not_compiled
    assert exchanges(record) == [("all-reduce", ["model"], "contraction")]
    assert record.collectives[0].group_count == 64


def on_gpus(kind):
    device = pl.sharding.AbstractDevice(kind, None, "gpu")
    mesh = AbstractMesh((2, 4), ("data", "model"), abstract_device=device)
    return introspect.sharding(
        mlp,
        argument((256, 64), "data", mesh=mesh),
        argument((64, 512), None, "model", mesh=mesh),
        argument((512, 64), "model", mesh=mesh),
    )


def test_abstract_gpus_need_the_plugin_and_a_known_kind(monkeypatch):
    monkeypatch.setattr(plugins, "cuda_plugin", lambda: None)
    record = on_gpus("NVIDIA H100 80GB HBM3")
    assert record.basis == "estimate"
    assert "no CUDA plugin is installed (pip install jax-cuda13-pjrt)" in record.not_compiled
    assert record.mesh.device_kind == "NVIDIA H100 80GB HBM3"
    assert "'NVIDIA Z1' can't be compiled for" in on_gpus("NVIDIA Z1").not_compiled


@pytest.mark.skipif(plugins.cuda_plugin() is None, reason="the CUDA plugin is not installed")
@pytest.mark.parametrize("kind", ["NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA H200"])
def test_abstract_gpus_are_compiled_for(kind):
    record = on_gpus(kind)
    assert (record.basis, record.not_compiled) == ("compiler", "")
    assert ["model"] in [each.axes for each in record.collectives]
    assert record.device_peak_bytes[0] > 0


def test_the_estimated_peak_counts_what_is_alive():
    def f(x):
        a = jnp.sin(x)
        b = jnp.cos(a)
        return b.sum()

    record = introspect.sharding(f, argument((16, 4), "data"))
    # x, a and b are alive at once, 16 * 4 / 2 float32 on each device.
    assert set(record.device_peak_bytes) == {3 * 16 * 4 * 4 // 2}


def test_a_loop_needs_its_body_once():
    def f(x):
        return pl.lax.scan(lambda c, _: (jnp.sin(jnp.cos(c)), None), x, None, length=100)[0]

    record = introspect.sharding(f, argument((16, 4), "data"))
    assert max(record.device_peak_bytes) <= 4 * 16 * 4 * 4 // 2


def test_the_record_is_json(devices):
    x = pl.device_put(jnp.ones((16, 8)), placed(devices, "data"))
    record = introspect.sharding(pl.grad(lambda x: (x @ x.T).sum()), x)
    parsed = json.loads(json.dumps(record.to_dict(), allow_nan=False))
    assert parsed["kind"] == "function_sharding"
    count = len(record.program.values.name)
    for column in ("value_shardings", "value_device_bytes", "value_layout_counts"):
        assert len(parsed[column]) == count
    assert len(parsed["why"]["counts"]) == count
    assert sum(parsed["why"]["counts"]) == len(parsed["why"]["axis"])


def test_arguments_of_what_is_no_function_are_refused():
    with pytest.raises(ArgumentTypeError, match="takes no arguments"):
        introspect.sharding(placed(MESH, "data"), 3)
