"""Cost of a function over another mesh: against compiled programs, by hand, and for bad input."""

from collections import Counter

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import analysis
from pellucid.introspect.errors import PellucidError
from tests.introspect.sharded_cases import cases, told

P = pl.P
H100 = analysis.Machine("test", 10**12, 10**13, 10**11, 10**10, 10**9, 10**8)

PARTITIONED_OTHERWISE = {
    "sorted_and_summed", "positions_of_extremes", "axes_left_to_the_compiler", "sorting", "conditions",
    "functions_over_one_axis", "derivatives_of_functions_over_one_axis", "ragged_experts",
}  # fmt: skip
"""Programs for which XLA's partitioner exchanges something else than Shardy plans."""


def sent(collectives):
    """Bytes that one device sends in a run, by operation and axes."""
    total = Counter()
    for each in collectives:
        total[each.operation, tuple(each.axes)] += each.bytes_per_device * (each.runs or 1)
    return total


@pytest.mark.parametrize("program", cases())
def test_exchanges_agree_with_the_compiled_program(program, request):
    def compare(jitted, *args):
        record = analysis.sharding(jitted, *args)
        what_if = analysis.WhatIf(jitted, *args)
        estimate = what_if.estimate(what_if.today)
        total = Counter()
        for each in estimate.exchanges:
            total[each.operation, tuple(each.axes)] += each.sent_bytes
        assert total == sent(record.planned)
        return total == sent(record.collectives)

    agreeing = told(program, compare)
    if agreeing:
        assert all(agreeing) == (request.node.callspec.id not in PARTITIONED_OTHERWISE)


def drawn_placement(what_if, rng):
    """Today's mesh, with each argument cut along other dimensions."""
    sizes, drawn = what_if.today.mesh.shape, []
    for argument in what_if.arguments:
        dims, rest = [()] * len(argument.shape), [*argument.shape]
        for axis, size in sizes.items():
            dim = int(rng.integers(len(dims) + 1))  # the last one: not cut along this axis
            if dim < len(dims) and rest[dim] % size == 0:
                dims[dim] = (*dims[dim], axis)
                rest[dim] //= size
        drawn.append(tuple(dims))
    return analysis.Placement(what_if.today.mesh, tuple(drawn))


def compiled_at(jitted, args, mesh, what_if, placement):
    """The record of a function compiled with its arguments placed so over a mesh of devices."""
    described = [
        pl.ShapeDtypeStruct(
            each.shape, each.dtype, weak_type=each.weak_type, sharding=pl.NamedSharding(mesh, P(*dims))
        )
        for each, dims in zip(what_if.arguments, placement.dims, strict=True)
    ]  # fmt: skip
    leaves, tree = pl.tree.flatten(args)
    assert len(leaves) == len(described)
    return analysis.sharding(jitted, *tree.unflatten(described))


@pytest.mark.parametrize("program", cases())
def test_where_nothing_is_planned_and_something_sent_an_operation_is_named(program, request):
    """Also over other placements: `what_if` gives a figure of what is sent, or says that it doesn't know."""
    rng = np.random.default_rng(sum(request.node.callspec.id.encode()))

    def compare(jitted, *args):
        what_if = analysis.WhatIf(jitted, *args)
        meshes = {leaf.sharding.mesh for leaf in pl.tree.leaves(args) if isinstance(getattr(leaf, "sharding", None), pl.NamedSharding)}  # fmt: skip
        if len(meshes) != 1 or len(what_if.arguments) != len(pl.tree.leaves(args)):
            return
        placement = drawn_placement(what_if, rng)
        try:
            estimate = what_if.estimate(placement)
            record = compiled_at(jitted, args, *meshes, what_if, placement)
        except PellucidError:  # the program states another placement itself
            return
        planned = sum(each.sent_bytes for each in estimate.exchanges)
        assert planned or not sum(sent(record.collectives).values()) or estimate.uncounted
        if estimate.uncounted:
            [remark, *_] = what_if.record(placement).remarks
            assert "which nothing here counts" in remark

    told(program, compare)


@pytest.mark.parametrize(
    ("function", "spec", "name"),
    [
        (lambda x: x[::-1], P("data"), "rev"),
        (lambda x: x[:, ::-1], P("data"), None),
        (lambda x: jnp.sort(x, axis=0), P("data"), "sort"),
        (lambda x: jnp.sort(x, axis=1), P("data"), None),
        # Its operand is gathered before it, which the plan has.
        (lambda x: jnp.convolve(x[:, 0], jnp.ones(3), "same"), P("data"), None),
        (lambda x: x @ x.T, P("data"), None),
    ],
)
def test_operations_across_parts_are_named(function, spec, name):
    what_if = analysis.WhatIf(function, placed((64, 256), pl.sharding.AbstractMesh((8,), ("data",)), *spec))  # fmt: skip
    uncounted = what_if.estimate(what_if.today).uncounted
    assert (name in {each.operation for each in uncounted}) == (name is not None)
    assert bool(uncounted) == (name is not None)
    remark = what_if.record(what_if.today).remarks[0]
    assert ("test_what_if.py:" in remark) == (name is not None)


def placed(shape, mesh=None, *spec, dtype="float32"):
    sharding = None if mesh is None else pl.NamedSharding(mesh, P(*spec))
    return pl.ShapeDtypeStruct(shape, dtype, sharding=sharding)


def product(x, y):
    return x @ y


def test_times_are_rooflines():
    what_if = analysis.WhatIf(product, placed((512, 256)), placed((256, 128)), device=H100)
    placement = what_if.placement({"a": 4, "b": 8}, {"x": P("a", "b"), "y": P("b")})
    estimate = what_if.estimate(placement)
    n_bytes = 4 * (512 * 256 // 32 + 256 * 128 // 8 + 512 * 128 // 4)
    flops = 2 * 512 * 256 * 128 / 32
    assert estimate.compute_seconds == pytest.approx(max(flops / 1e12, n_bytes / 1e11))
    # Along the minor axis, which is in one node: 2 · 7/8 of the 128 × 128 elements of a device.
    (exchange,) = estimate.exchanges
    assert (exchange.operation, exchange.axes, exchange.count) == ("all-reduce", ["b"], 1)
    assert exchange.sent_bytes == 2 * 7 / 8 * 4 * 128 * 128
    assert exchange.seconds == pytest.approx(exchange.sent_bytes / 1e9)
    across = what_if.estimate(what_if.placement({"b": 8, "a": 4}, {"x": P("a", "b"), "y": P("b")}))
    assert across.exchange_seconds == pytest.approx(10 * estimate.exchange_seconds)


def test_elements_between_fused_operations_are_not_stored():
    x = placed((1000, 1000))
    one, three = (
        analysis.WhatIf(f, x, device=H100)
        for f in (lambda x: jnp.exp(x), lambda x: jnp.exp(jnp.sin(x) * 2.0))
    )
    assert three.estimate(three.today).compute_seconds == pytest.approx(
        one.estimate(one.today).compute_seconds, rel=0.02
    )


def test_a_loop_takes_its_body_as_often_as_it_runs_and_a_branch_the_longest():
    x = placed((256, 256))

    def scanned(x):
        return pl.lax.scan(lambda c, _: (c @ c, None), x, length=10)[0]

    def chosen(x):
        return pl.lax.cond(x[0, 0] > 0, lambda x: x @ x @ x, lambda x: x @ x, x)

    def seconds(f):
        what_if = analysis.WhatIf(f, x, device=H100)
        return what_if.estimate(what_if.today).compute_seconds

    once = seconds(lambda x: x @ x)
    assert seconds(scanned) == pytest.approx(10 * once, rel=0.01)
    assert seconds(chosen) == pytest.approx(2 * once, rel=0.01)


def step(params, x):
    h = jnp.tanh(x @ params["layers"][0]["w"])
    h = pl.lax.with_sharding_constraint(h, P("data"))
    return (h @ params["layers"][1]["w"]).sum()


PARAMS = {"layers": [{"w": placed((256, 256))}, {"w": placed((256, 256))}]}
MESH = pl.sharding.AbstractMesh((8, 2), ("data", "model"))
X = placed((64, 256), MESH, "data")
X8 = placed((64, 256), pl.sharding.AbstractMesh((8,), ("data",)), "data")


def test_a_placement_follows_paths_of_arguments():
    what_if = analysis.WhatIf(step, PARAMS, X)
    placement = what_if.placement({"data": 4, "model": 4}, {"params*['w']": P(None, "model")})
    record = what_if.record(placement)
    weights, batch = record.arguments
    assert (weights.name, weights.count) == ("params['layers'][*]['w']", 2)
    assert weights.device_bytes == 2 * 4 * 256 * 64
    assert batch.device_bytes == 4 * 64 * 256 // 4
    assert record.today.axis_sizes == [8, 2]
    assert record.today.argument_bytes == 4 * (2 * 256 * 256 + 64 * 256 // 8)
    assert record.placement.dim_axes == [[[], ["model"]], [["data"], []]]
    assert record.exchanges[0].source.name.endswith("test_what_if.py")
    assert {axis for each in record.exchanges for axis in each.axes} <= {"data", "model"}
    # An axis that the next mesh lacks divides nothing any more.
    alone = what_if.placement({"data": 2}, start=placement)
    assert what_if.record(alone).placement.dim_axes == [[[], []], [["data"], []]]


def test_any_number_of_devices_needs_no_device():
    what_if = analysis.WhatIf(step, PARAMS, X)
    with pl.set_mesh(pl.make_mesh((8,), ("other",))):
        big = what_if.record(what_if.placement({"data": 64, "model": 64}, {"*": P(None, "model")}))
    assert big.placement.axis_sizes == [64, 64]
    assert big.placement.argument_bytes == 4 * (2 * 256 * 256 + 64 * 256) // 64


def test_a_search_keeps_to_memory_and_orders_by_time():
    what_if = analysis.WhatIf(step, PARAMS, X, device=H100)
    search = analysis.fastest(what_if, what_if.today, seconds=60, count=50)
    assert search.remaining_count == 0
    assert len(search.best) == search.examined_count > 5
    seconds = [each.seconds for each in search.best]
    assert seconds == sorted(seconds)
    limit = sorted(each.peak_bytes for each in search.best)[3]
    less = analysis.fastest(what_if, what_if.today, limit, count=50)
    assert 0 < len(less.best) < len(search.best)
    assert all(each.peak_bytes <= limit for each in less.best)
    hurried = analysis.fastest(what_if, what_if.placement({"data": 2, "model": 2}), seconds=1e-9)
    assert (hurried.examined_count, len(hurried.best)) == (1, 1)
    assert hurried.remaining_count > 1


def constrained(x):
    mesh = pl.make_mesh((8,), ("data",), axis_types=(pl.sharding.AxisType.Auto,))
    return pl.lax.with_sharding_constraint(x * 2.0, pl.NamedSharding(mesh, P("data")))


def changed(*arguments, function=step, args=(PARAMS, X)):
    what_if = analysis.WhatIf(function, *args)
    return what_if.estimate(what_if.placement(*arguments))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: analysis.WhatIf(3), "needs a function"),
        (lambda: analysis.WhatIf(step, PARAMS, X, device="abacus"), "Known kinds are A100"),
        (lambda: changed({"data": 0}), "'data'] is 0"),
        (lambda: changed({"data": 8192}), "8192 devices"),
        (lambda: changed("data"), "got str"),
        (lambda: changed(None, {"parms": P()}), "arguments are params"),
        (lambda: changed(None, {"x": P("row")}), "names axis 'row'"),
        (lambda: changed(None, {"x": P("data", None, "model")}), "more entries"),
        (lambda: changed(None, {"x": "data"}), "no PartitionSpec"),
        (lambda: changed({"data": 48}), "can't be split evenly"),
        (lambda: changed({"data": 4, "row": 2}, function=constrained, args=(X8,)), "it names one itself"),
        (lambda: changed({"data": 4}, function=constrained, args=(X8,)), "another number of devices"),
        (lambda: analysis.fastest(analysis.WhatIf(step, PARAMS, X), analysis.WhatIf(step, PARAMS, X).today, 0), "must be positive"),
        (
            lambda: analysis.WhatIf(product, X, placed((256, 256), pl.sharding.AbstractMesh((4,), ("row",)))),
            "several meshes",
        ),
    ],
)  # fmt: skip
def test_bad_input_says_what_and_what_to_do(call, message):
    with pytest.raises((PellucidError, ValueError)) as raised:
        call()
    assert message in str(raised.value)


def test_arrays_on_devices_are_placed_as_they_lie():
    mesh = pl.make_mesh((2, 4), ("a", "b"), axis_types=(pl.sharding.AxisType.Auto,) * 2)
    x = pl.device_put(np.ones((8, 16), np.float32), pl.NamedSharding(mesh, P("a", "b")))
    what_if = analysis.WhatIf(lambda x: x.sum(), x)
    assert what_if.argument_bytes(what_if.today) == x.addressable_shards[0].data.nbytes
    assert what_if.today.dims == ((("a",), ("b",)),)


def test_arguments_without_shardings_lie_as_the_program_places_them():
    mesh = pl.make_mesh((4, 2), ("a", "b"), axis_types=(pl.sharding.AxisType.Auto,) * 2)
    summed = pl.shard_map(lambda x: pl.lax.psum(x, "a"), mesh=mesh, in_specs=P("a"), out_specs=P())
    x = np.ones((8, 16), np.float32)
    what_if = analysis.WhatIf(pl.jit(summed), x)
    assert what_if.today.dims == ((("a",), ()),)
    record = what_if.record(what_if.today)
    assert record.today.argument_bytes == record.arguments[0].device_bytes == x.nbytes // 4


@pytest.mark.parametrize("name", ['a"b', "a\\b", "ä", "x\n", "{]?,", "x:(2)4", "%41"])
def test_names_of_axes_may_hold_any_character(name):
    mesh = pl.make_mesh((2, 2), (name, "y"), axis_types=(pl.sharding.AxisType.Auto,) * 2)
    x = pl.device_put(np.ones((4, 4), np.float32), pl.NamedSharding(mesh, P(name, "y")))
    function = pl.jit(lambda x: jnp.sum(x @ x, 0))
    what_if = analysis.WhatIf(function, x)
    assert what_if.today.dims == (((name,), ("y",)),)
    sends = {axis for each in analysis.sharding(function, x).planned for axis in each.axes}
    assert sends == {name, "y"}
    np.testing.assert_array_equal(function(x), np.full(4, 16))  # XLA can be told of it

    def summed(x):
        return pl.lax.psum(x, name)

    over_one = pl.shard_map(summed, mesh=mesh, in_specs=P(name), out_specs=P(), axis_names={name})
    np.testing.assert_array_equal(pl.jit(over_one)(x), np.full((2, 4), 2))


def test_addends_over_an_axis_with_any_name_are_summed_once():
    for name in ('a"b', "a]b", "ä?"):
        with pl.set_mesh(pl.make_mesh((2,), (name,))):
            a, b = (pl.device_put(np.ones((4, 4), np.float32), s) for s in (P(None, name), P(name)))
            product = pl.jit(lambda a, b: jnp.matmul(a, b, out_sharding=P(unreduced={name})))  # noqa: B023
            assert "all-reduce" not in product.lower(a, b).compile().as_text()
            np.testing.assert_array_equal(pl.reshard(product(a, b), P()), np.full((4, 4), 4))
