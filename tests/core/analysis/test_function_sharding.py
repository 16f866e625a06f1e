"""Records of where a function's intermediates lie, why, and what is moved between devices."""

import json
from typing import NamedTuple

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import analysis
from pellucid._machine.base.errors import CompilationError
from pellucid._machine.sharding.placement import GSPMDSharding
from pellucid._machine.xla import plugins
from pellucid.analysis import propagation
from pellucid.introspect.errors import ArgumentTypeError
from pellucid.sharding import AbstractMesh, Mesh

MESH = AbstractMesh((2, 4), ("data", "model"))


def placed(mesh, *spec):
    return pl.NamedSharding(mesh, pl.P(*spec))


def argument(shape, *spec, mesh=MESH):
    return pl.ShapeDtypeStruct(shape, np.float32, sharding=placed(mesh, *spec))


@pytest.fixture
def devices() -> Mesh:
    return Mesh(np.array(pl.devices()).reshape(2, 4), ("data", "model"))


def values_at(record, site=0):
    """The number at a site, and the index in the program's record, of each value of the site's body."""
    program, number = record.program, 0
    starts = np.cumsum([0, *program.equations.result_counts])
    firsts = np.cumsum([0, *(len(body_values(program, starts, body)) for body in program.bodies)])
    for place in range(site + 1):
        body = record.sites.body[place]
        values = body_values(program, starts, program.bodies[body])
        pairs = list(enumerate(range(firsts[body], firsts[body + 1]), number))
        number += len(values)
    return pairs


def body_values(program, starts, body):
    end = body.first_equation + body.equation_count
    results = program.equations.results[starts[body.first_equation] : starts[end]]
    return [*body.constants, *body.inputs, *results]


def name_of(record, value):
    values, strings = record.program.values, record.program.strings
    return strings[values.user_name[value]] or strings[values.name[value]]


def name_at(record, number):
    """The name of a value at a site."""
    pairs = {n: v for site in range(len(record.sites.body)) for n, v in values_at(record, site)}
    return name_of(record, pairs[number])


def spec_of(record, number):
    return record.shardings[record.layouts.sharding[number]]


def layouts(record, site=0):
    """The layout at a site of each value that has a name of the user's; of those of one name, the last."""
    names = record.program.values.user_name
    return {
        record.program.strings[names[value]]: spec_of(record, number).text
        for number, value in values_at(record, site)
        if names[value]
    }


class Hop(NamedTuple):
    value: int
    dimension: int
    equation: int
    origin: int


def hops(record, number):
    """How each axis came to a value at a site."""
    why, start = record.why, sum(record.why.counts[:number])
    rows = range(start, start + why.counts[number])
    return {
        record.axes[why.axis[i]]: Hop(
            why.value[i], why.dimension[i], why.equation[i], why.origin[i]
        )
        for i in rows
    }


def chain(record, number, axis):
    """Names of the values by which an axis came to a value, and what the user said in the end."""
    names = []
    while number >= 0:
        names.append(name_at(record, number))
        hop = hops(record, number)[axis]
        number = hop.value
    return names, record.origins[hop.origin].text


def exchanges(record, which="collectives"):
    return [(each.operation, each.axes, each.reason) for each in getattr(record, which)]


def primitive(record, equation):
    return record.program.strings[record.program.equations.primitive[equation]]


def result(record, place=0):
    """The number of a result of the whole program."""
    return {value: number for number, value in values_at(record)}[
        record.program.bodies[0].outputs[place]
    ]


def named(record, name, site=0):
    """The number at a site of the value that the user calls `name`."""
    return next(n for n, value in values_at(record, site) if name_of(record, value) == name)


def mlp(x, w, v):
    h = x @ w
    a = jnp.tanh(h)
    return a @ v


MLP = (argument((16, 8), "data"), argument((8, 32), None, "model"), argument((32, 8), "model"))


# Layouts and why -----------------------------------------------------------------------------------


def test_every_intermediate_has_its_layout_and_bytes():
    record = analysis.sharding(mlp, *MLP)
    expected = {
        "x": "P('data',)", "w": "P(None, 'model')", "v": "P('model',)",
        "h": "P('data', 'model')", "a": "P('data', 'model')",
    }  # fmt: skip
    assert layouts(record).items() >= expected.items()
    assert spec_of(record, result(record)).text == "P('data',)"
    assert -1 not in record.layouts.sharding
    assert record.layouts.device_bytes == [256] * 6
    [mesh] = record.meshes
    assert (mesh.axis_sizes, mesh.device_ids) == ([2, 4], [])


def test_why_leads_back_to_the_arguments():
    record = analysis.sharding(pl.jit(mlp), *MLP)
    a = named(record, "a")
    assert chain(record, a, "data") == (["a", "h", "x"], "argument `x`")
    assert chain(record, a, "model") == (["a", "h", "w"], "argument `w`")
    hop = hops(record, a)["model"]
    assert (name_at(record, hop.value), hop.dimension) == ("h", 1)
    assert primitive(record, hop.equation) == "tanh"


def test_axes_come_from_constraints_and_from_what_is_asked_of_results():
    def f(x, y):
        z = jnp.sin(x)
        z = pl.lax.with_sharding_constraint(z, placed(MESH, "model"))
        return z.T, y + 1

    jitted = pl.jit(
        f, in_shardings=(placed(MESH), None), out_shardings=(None, placed(MESH, "data"))
    )
    record = analysis.sharding(jitted, jnp.ones((8, 4)), jnp.ones(8))
    first, second = result(record, 0), result(record, 1)
    assert chain(record, first, "model")[1] == "with_sharding_constraint"
    assert chain(record, second, "data")[1] == "out_shardings of result 1"
    constraint = record.origins[hops(record, first)["model"].origin].equation
    assert primitive(record, constraint) == "sharding_constraint"


def test_in_shardings_are_named():
    jitted = pl.jit(jnp.sin, in_shardings=placed(MESH, "data"))
    record = analysis.sharding(jitted, pl.ShapeDtypeStruct((8,), np.float32))
    assert chain(record, result(record), "data")[1].startswith("in_shardings of")


def test_explicit_axes_are_said_by_the_types(devices):
    mesh = pl.make_mesh((2, 4), ("data", "model"), axis_types=(pl.sharding.AxisType.Explicit,) * 2)
    with pl.set_mesh(mesh):
        x = pl.device_put(jnp.ones((8, 4)), placed(mesh, "data"))
        record = analysis.sharding(lambda x: jnp.sin(x) * 2, x)
    assert spec_of(record, result(record)).text == "P('data',)"
    assert "Explicit" in record.origins[hops(record, result(record))["data"].origin].text


def test_arguments_that_are_not_used_are_left_out():
    record = analysis.sharding(lambda x, y: y * 2, argument((8,)), argument((8,), "data"))
    assert [name_of(record, value) for value in record.program.bodies[0].inputs] == ["y"]


def test_each_call_of_a_program_has_layouts_of_its_own():
    inner = pl.jit(lambda a: jnp.exp(jnp.tanh(a)) * jnp.cos(jnp.sin(a)))

    def outer(x, y):
        return inner(x) @ inner(y)

    record = analysis.sharding(outer, argument((8, 8), "data"), argument((8, 8), None, "model"))
    assert (record.sites.body, record.sites.parent) == ([0, 1, 1], [-1, 0, 0])
    assert record.sites.equation == [-1, 0, 1]
    assert [layouts(record, site)["a"] for site in (1, 2)] == ["P('data',)", "P(None, 'model')"]
    assert chain(record, named(record, "a", 2), "model") == (["a"], "argument `y`")
    last = values_at(record, 2)[-1][0]
    assert chain(record, last, "model")[1] == "argument `y`"
    # What the caller takes is told in the caller's own values.
    assert hops(record, result(record))["model"].value in dict(values_at(record))


def test_calls_within_calls_are_sites_of_their_own():
    inner = pl.jit(lambda a: jnp.exp(jnp.tanh(a)) * jnp.cos(jnp.sin(a)))
    middle = pl.jit(lambda a: inner(a) + inner(a.T))
    record = analysis.sharding(
        lambda x: pl.lax.scan(lambda c, _: (middle(c), None), x, None, length=2)[0],
        argument((8, 8), "data"),
    )
    assert record.sites.parent == [-1, 0, 1, 2, 2]
    assert [layouts(record, site)["a"] for site in (2, 3, 4)] == [
        "P('data',)", "P('data',)", "P(None, 'data')",
    ]  # fmt: skip


def test_an_exchange_is_told_at_the_call_that_needs_it(devices):
    @pl.jit
    def product(a, b):
        return jnp.tanh(jnp.sin(a) @ jnp.cos(b)) + jnp.exp(a @ b)

    x = pl.device_put(jnp.ones((8, 8)), placed(devices, "data"))
    y = pl.device_put(jnp.ones((8, 8)), placed(devices, None, "model"))
    z = pl.device_put(jnp.ones((8, 8)), placed(devices, "model"))
    record = analysis.sharding(lambda x, y, z: (product(x, y), product(y, z)), x, y, z)
    for which in ("planned", "collectives"):
        actual = [each for each in getattr(record, which) if each.operation == "all-reduce"]
        assert {each.site for each in actual} == {2}
        assert {primitive(record, each.equation) for each in actual} == {"dot_general"}


def test_values_inside_of_shard_map_are_those_of_one_device():
    def local(x):
        return pl.lax.psum(jnp.sin(x), "model")

    mapped = pl.shard_map(
        local,
        mesh=MESH,
        in_specs=pl.P(None, "model"),
        out_specs=pl.P(),
        axis_names={"model"},
    )
    record = analysis.sharding(pl.jit(mapped), argument((8, 8), "data", "model"))
    assert record.sites.manual_axes == [[], ["model"]]
    assert {spec_of(record, number).text for number, _ in values_at(record, 1)} == {"P('data',)"}


def test_specs_over_the_current_mesh_are_understood(devices):
    x = pl.device_put(jnp.ones((16, 8)), placed(devices, "data", "model"))
    with pl.set_mesh(devices):
        record = analysis.sharding(lambda x: pl.lax.with_sharding_constraint(x, pl.P("data")), x)
    assert exchanges(record, "planned") == [("all-gather", ["model"], "written")]
    assert record.basis == "compiler"


def test_each_value_names_its_mesh(devices):
    line = Mesh(devices.devices.reshape(8), ("line",))
    turned = Mesh(devices.devices.reshape(4, 2), ("data", "model"))
    x = pl.device_put(jnp.ones((16, 8)), placed(devices, "data", "model"))
    y = pl.device_put(jnp.ones((16, 8)), placed(line, "line"))
    z = pl.device_put(jnp.ones((16, 8)), placed(turned, "data"))
    record = analysis.sharding(lambda x, y, z: (jnp.sin(x), jnp.cos(y), jnp.tan(z)), x, y, z)
    meshes = [record.meshes[spec_of(record, result(record, place)).mesh] for place in range(3)]
    assert [mesh.axis_names for mesh in meshes] == [["data", "model"], ["line"], ["data", "model"]]
    assert [mesh.axis_sizes for mesh in meshes] == [[2, 4], [8], [4, 2]]
    placements = ["P('data', 'model')", "P('line',)", "P('data',)"]
    names = "x", "y", "z", "result[0]", "result[1]", "result[2]"
    assert layouts(record) == dict(zip(names, placements * 2, strict=True))
    cos = result(record, 1)
    assert (record.layouts.device_bytes[cos], chain(record, cos, "line")[1]) == (64, "argument `y`")


@pytest.mark.parametrize("is_abstract", [False, True])
def test_a_change_of_meshes_is_explained(devices, is_abstract):
    square, line = (
        (MESH, AbstractMesh((8,), ("line",)))
        if is_abstract
        else (devices, Mesh(devices.devices.reshape(8), ("line",)))
    )

    def f(x):
        y = jnp.sin(x)
        return pl.lax.with_sharding_constraint(y, placed(line, "line"))

    record = analysis.sharding(f, argument((16, 8), "data", "model", mesh=square))
    [each] = record.planned
    assert (each.operation, each.axes, each.mesh, each.reason) == (
        "reshard",
        ["line"],
        1,
        "written",
    )
    # Of its 2x8 each device has the part where its 8x2 is.
    assert each.bytes_per_device == (2 * 8 - 2 * 2) * 4
    assert each.note == (
        "sharding_constraint asks for P('line',) over line=8, which was P('data', 'model') over data=2, model=4"
    )
    assert {(each.reason, each.note) for each in record.collectives} == {("written", each.note)}
    assert sum(each.bytes_per_device for each in record.collectives) == each.bytes_per_device


def test_the_same_parts_by_another_mesh_are_not_moved(devices):
    line = Mesh(devices.devices.reshape(8), ("line",))
    x = pl.device_put(jnp.ones((16, 8)), placed(devices, ("data", "model")))
    record = analysis.sharding(
        lambda x: pl.lax.with_sharding_constraint(x, placed(line, "line")) * 2, x
    )
    assert (record.planned, record.collectives) == ([], [])


def test_a_manual_region_over_another_mesh_names_its_axes(devices):
    line = Mesh(devices.devices.reshape(8), ("line",))
    x = pl.device_put(jnp.ones((16, 8)), placed(devices, "data", "model"))
    total = pl.shard_map(
        lambda a: pl.lax.psum(a, "line"), mesh=line, in_specs=pl.P("line"), out_specs=pl.P()
    )
    record = analysis.sharding(lambda x: jnp.sin(x) + total(jnp.cos(x))[0, 0], x)
    for each in (record.planned[-1], record.collectives[-1]):
        assert (each.operation, each.axes, each.mesh) == ("all-reduce", ["line"], 1)
    assert (record.sites.manual_axes, record.sites.mesh) == ([[], ["line"]], [0, 1])


def test_placements_without_a_mesh_get_axes_of_their_own(devices):
    placement = placed(devices, "data", "model")
    tiles = placement._to_xla_hlo_sharding(2)
    x = pl.device_put(jnp.ones((16, 8)), GSPMDSharding(placement._internal_device_list, tiles))
    record = analysis.sharding(lambda x: x.sum(axis=0), x)
    assert (record.meshes[0].axis_names, record.meshes[0].axis_sizes) == (["dim0", "dim1"], [2, 4])
    assert exchanges(record) == [("all-reduce", ["dim0"], "contraction")]


def test_a_program_on_one_device_is_whole():
    record = analysis.sharding(lambda x: x @ x, np.ones((4, 4), np.float32))
    assert [each.text for each in record.shardings] == ["P()"]
    assert (record.collectives, record.planned, record.meshes[0].axis_names) == (
        [],
        [],
        [],
    )
    assert record.basis == "compiler"


# Exchanges -----------------------------------------------------------------------------------------


def test_a_contraction_of_a_divided_dimension_is_summed():
    record = analysis.sharding(mlp, *MLP)
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

    record = analysis.sharding(f, argument((8, 8), None, "model"), argument((8, 8), "model"))
    assert {each.runs for each in record.collectives} == {5}
    record = analysis.sharding(
        lambda x: pl.lax.while_loop(lambda c: c.sum() < 9, lambda c: c * 2, x),
        argument((8,), "data"),
    )
    assert [(each.operation, each.runs) for each in record.collectives] == [("all-reduce", None)]


def test_branches_are_looked_into():
    def f(x, w):
        return pl.lax.cond(x[0, 0] > 0, lambda: x @ w, lambda: x * 2)

    record = analysis.sharding(f, argument((8, 8), None, "model"), argument((8, 8), "model"))
    by_contraction = [each for each in record.collectives if each.reason == "contraction"]
    assert "dot_general" in {primitive(record, each.equation) for each in by_contraction}


def test_what_the_user_writes_is_told_apart():
    def local(x, w):
        return pl.lax.psum(jnp.sin(x @ w), "model")

    mapped = pl.shard_map(
        local, mesh=MESH, in_specs=(pl.P("data", "model"), pl.P("model")), out_specs=pl.P("data")
    )
    record = analysis.sharding(mapped, argument((8, 8), "data", "model"), argument((8, 8), "model"))
    assert exchanges(record) == [("all-reduce", ["model"], "written")]
    assert primitive(record, record.collectives[0].equation).startswith("psum")
    assert chain(record, result(record), "data")[1] == "out_specs of shard_map"


def test_resharding_and_full_replication_are_told_apart():
    record = analysis.sharding(lambda x: jnp.fft.fft(x), argument((16,), "data"))
    assert exchanges(record) == [("all-gather", ["data"], "full_replication")]
    assert "fft takes it whole" in record.collectives[0].note
    record = analysis.sharding(lambda x: jnp.sort(x), argument((16, 4), "data", "model"))
    assert {each.reason for each in record.collectives} == {"reshard"}
    record = analysis.sharding(
        lambda x: pl.lax.with_sharding_constraint(x, placed(MESH)), argument((16, 4), "data")
    )
    assert exchanges(record) == [("all-gather", ["data"], "written")]


def test_what_runs_is_read_off_the_compiled_program(devices):
    x = pl.device_put(jnp.ones((16, 8)), placed(devices, "data", "model"))
    w = pl.device_put(jnp.ones((8, 32)), placed(devices, "model"))
    jitted = pl.jit(lambda x, w: jnp.sin(x @ w).sum())
    record = analysis.sharding(jitted, x, w)
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
    is_reported = any(each.startswith("all-reduce over model:") for each in record.differences)
    assert is_reported == (counts[0] != counts[1])


def test_a_pass_that_fails_is_named(monkeypatch):
    monkeypatch.setattr(propagation, "_EXCHANGES", "sdy-no-such-pass")
    with pytest.raises(CompilationError, match="insert exchanges"):
        analysis.sharding(mlp, *MLP)


def test_nothing_runs():
    ran = []
    jitted = pl.jit(lambda x: pl.pure_callback(lambda v: ran.append(1) or v, x, x))
    analysis.sharding(jitted, jnp.ones(3))
    assert ran == []


# Abstract meshes, memory, form -----------------------------------------------------------------------


def test_arguments_over_an_abstract_mesh_keep_their_layouts_beside_an_equal_mesh_of_devices(
    devices,
):
    def layer(x, w):
        h = jnp.tanh(x @ w)
        return pl.lax.with_sharding_constraint(h, pl.NamedSharding(devices, pl.P("data"))).sum(0)

    records = [
        analysis.sharding(
            layer,
            argument((8, 16), "data", mesh=over),
            argument((16, 32), None, "model", mesh=over),
        )
        for over in (MESH, devices)
    ]
    assert exchanges(records[0]) == exchanges(records[1])
    assert records[0].layouts == records[1].layouts
    assert len(records[0].collectives) == 2


def test_4096_abstract_devices_take_no_devices():
    mesh = AbstractMesh((64, 64), ("data", "model"))
    record = analysis.sharding(
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
    return analysis.sharding(
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
    assert record.meshes[0].device_kind == "NVIDIA H100 80GB HBM3"
    assert "nothing can be compiled for the kind 'NVIDIA Z1'" in on_gpus("NVIDIA Z1").not_compiled


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

    record = analysis.sharding(f, argument((16, 4), "data"))
    # x, a and b are alive at once, 16 * 4 / 2 float32 on each device.
    assert set(record.device_peak_bytes) == {3 * 16 * 4 * 4 // 2}


def test_a_loop_needs_its_body_once():
    def f(x):
        return pl.lax.scan(lambda c, _: (jnp.sin(jnp.cos(c)), None), x, None, length=100)[0]

    record = analysis.sharding(f, argument((16, 4), "data"))
    assert max(record.device_peak_bytes) <= 4 * 16 * 4 * 4 // 2


def test_the_record_is_json(devices):
    x = pl.device_put(jnp.ones((16, 8)), placed(devices, "data"))
    record = analysis.sharding(pl.grad(lambda x: (x @ x.T).sum()), x)
    parsed = json.loads(json.dumps(record.to_dict(), allow_nan=False))
    assert parsed["kind"] == "function_sharding"
    count = len(values_at(record))
    for column in ("sharding", "device_bytes", "count"):
        assert len(parsed["layouts"][column]) == count
    assert len(parsed["why"]["counts"]) == count
    assert sum(parsed["why"]["counts"]) == len(parsed["why"]["axis"])


def test_arguments_of_what_is_no_function_are_refused():
    for value in (placed(MESH, "data"), MESH):
        with pytest.raises(ArgumentTypeError, match="is no function"):
            analysis.sharding(value, 3)


def test_a_constraint_that_cannot_be_met_evenly_says_what_to_do(devices):
    def scaled(x):
        constrained = pl.lax.with_sharding_constraint(
            jnp.tanh(x), placed(devices, ("data", "model"), None)
        )
        return constrained * 2

    record = analysis.sharding(scaled, np.ones((17, 1024), np.float32))
    [cut] = record.uneven
    primitives = record.program.equations.primitive
    assert record.program.strings[primitives[cut.equation]] == "sharding_constraint"
    assert (cut.site, cut.padded, cut.device_bytes, cut.whole_bytes) == (0, 24, 3 * 4096, 17 * 4096)
    assert cut.note == (
        "pad 17 to 24 along dimension 0: 8 parts aren't even, so as a result it is whole on each device, "
        "68 KiB instead of 12 KiB"
    )
    text = str(pl.viz.sharding(scaled)(np.ones((17, 1024), np.float32)))
    assert "!  pad 17 to 24 along dimension 0" in text
    # What it says is so: the result is whole on each device.
    assert pl.jit(scaled)(np.ones((17, 1024))).sharding.is_fully_replicated
    assert analysis.sharding(scaled, np.ones((24, 1024), np.float32)).uneven == []


def test_an_uneven_constraint_is_found_within_programs(devices):
    both = placed(devices, "data", "model")
    inner = pl.jit(lambda x: pl.lax.with_sharding_constraint(x, both) + 1)
    record = analysis.sharding(lambda x: inner(x) + inner(2 * x), np.ones((4, 6), np.float32))
    assert len(record.uneven) == len({cut.site for cut in record.uneven}) == 2
    assert {cut.note[:29] for cut in record.uneven} == {"pad 6 to 8 along dimension 1:"}
    assert {cut.device_bytes for cut in record.uneven} == {2 * 2 * 4}
