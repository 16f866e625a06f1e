"""Where intermediates lie in programs of every kind: what is known of each, and what is refused."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import analysis
from pellucid.introspect.errors import ArgumentTypeError
from pellucid.sharding import AbstractMesh, AxisType

X = np.linspace(0, 1, 64, dtype=np.float32).reshape(8, 8)
P = pl.P


@pytest.fixture(scope="module")
def mesh():
    return pl.make_mesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def placed(mesh, *spec, x=X):
    return pl.device_put(x, pl.NamedSharding(mesh, P(*spec)))


def loop_over_layers(mesh):
    layers = placed(mesh, None, "data", "model", x=np.stack([X] * 3))
    loss = lambda w, x: pl.lax.scan(lambda c, w: (jnp.tanh(c @ w), None), x, w)[0].sum()
    return pl.grad(loss), (layers, placed(mesh, "data"))


def loop_until(mesh):
    return lambda x: pl.lax.while_loop(lambda c: c.sum() < 99, lambda c: c @ c.T, x), (
        placed(mesh, "data", "model"),
    )


def branches(mesh):
    f = lambda x: pl.lax.cond(x.sum() > 0, lambda y: jnp.sin(y) @ y, lambda y: y @ jnp.cos(y), x)
    return f, (placed(mesh, "data", "model"),)


def loop_in_two_calls(mesh):
    total = lambda w: pl.jit(
        lambda x: pl.lax.scan(lambda c, _: (jnp.tanh(c @ w), None), x, None, 2)[0]
    )
    f = total(placed(mesh, "model"))
    return lambda x: f(f(x).T), (placed(mesh, "data", "model"),)


def rematerialized(mesh):
    layer = pl.checkpoint(lambda x, w: jnp.tanh(jnp.tanh(x @ w) @ w))
    loss = lambda x, w: layer(layer(x, w), w).sum()
    return pl.grad(loss, argnums=(0, 1)), (placed(mesh, "data"), placed(mesh, None, "model"))


def derivative_of_the_user(mesh):
    @pl.custom_vjp
    def sine(x):
        return jnp.sin(x)

    sine.defvjp(lambda x: (jnp.sin(x), jnp.cos(x)), lambda slope, ct: (slope * ct,))
    return pl.grad(lambda x: sine(sine(x)).sum()), (placed(mesh, "data"),)


def manual_in_a_call_in_a_loop(mesh):
    total = pl.jit(
        pl.shard_map(
            lambda x: pl.lax.psum(x, "model") * 2,
            mesh=mesh, in_specs=P("data", "model"), out_specs=P("data"),
        )
    )  # fmt: skip
    step = lambda c, _: (jnp.tile(total(c), (1, 4)), None)
    return lambda x: pl.lax.scan(step, x, None, length=4)[0], (placed(mesh, "data", "model"),)


def manual_within_manual(mesh):
    def outer(x):
        total = lambda y: pl.lax.psum(y, "model")
        return pl.shard_map(
            total, in_specs=P(None, "model"), out_specs=P(), axis_names={"model"}
        )(x)  # fmt: skip

    f = pl.shard_map(outer, mesh=mesh, in_specs=P("data"), out_specs=P("data"), axis_names={"data"})
    return pl.jit(f), (placed(mesh, "data", "model"),)


def mapped_over_devices(mesh):
    return pl.pmap(lambda x: pl.lax.psum(x, "i") + x, axis_name="i"), (X,)


def layouts_of_inner_calls(mesh):
    inner = pl.jit(
        lambda x: jnp.sin(x) * jnp.cos(x) + jnp.tanh(x) * x,
        in_shardings=pl.NamedSharding(mesh, P("model")),
        out_shardings=pl.NamedSharding(mesh, P(None, "model")),
    )
    return pl.jit(lambda x: inner(inner(x))), (placed(mesh, "data"),)


def constants_of_the_function(mesh):
    weights = placed(mesh, None, "model")
    return lambda x: x @ weights + X, (placed(mesh, "data"),)


def scalars_and_static_arguments(mesh):
    f = pl.jit(lambda x, rate, n: x * rate + n, static_argnums=2)
    return f, (placed(mesh, "data"), 2.0, 3)


def printed(mesh):
    def f(x):
        pl.debug.print("{}", x.sum())
        return x * 2

    return f, (placed(mesh, "data"),)


def addends(mesh):
    typed = pl.make_mesh((2, 4), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)

    partial = pl.NamedSharding(typed, P(None, None, unreduced={"model"}))
    rows = pl.NamedSharding(typed, P("model"))
    f = lambda x, w: pl.sharding.reshard(jnp.matmul(x, w, out_sharding=partial), rows)
    return f, (placed(typed, None, "model"), placed(typed, "model"))


def uneven_parts(mesh):
    rows = pl.NamedSharding(mesh, P("data"))
    f = lambda x: pl.lax.with_sharding_constraint(x[:7] * 2, rows) @ x
    return f, (placed(mesh, "data", "model"),)


PROGRAMS = [
    loop_over_layers, loop_in_two_calls, loop_until, branches, rematerialized, derivative_of_the_user,
    manual_in_a_call_in_a_loop, manual_within_manual, mapped_over_devices, layouts_of_inner_calls,
    constants_of_the_function, scalars_and_static_arguments, printed, addends, uneven_parts,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_all_is_known(program, mesh):
    f, args = program(mesh)
    record = analysis.sharding(f, *args)
    assert record.basis == "compiler"
    assert -1 not in record.layouts.sharding
    assert -1 not in record.why.origin
    for each in (*record.planned, *record.collectives):
        assert each.axes
        assert min(each.equation, each.site) >= 0
        assert each.reason != "unknown"


def test_the_exchanges_of_each_branch_are_told(mesh):
    f, args = branches(mesh)
    record = analysis.sharding(f, *args)
    assert record.sites.parent == [-1, 0, 0]
    gathers = [each for each in record.collectives if each.operation == "all-gather"]
    assert {each.site for each in gathers} == {1, 2}


@pytest.mark.parametrize("time", ["first", "again"])
def test_loops_in_calls_are_told_apart(mesh, time):
    f, args = loop_in_two_calls(mesh)
    record = analysis.sharding(f, *args)
    if time == "again":  # its executable is shared, and names the equations of the other program
        kept = pl.jit(f).lower(*args).compile()
        f, args = loop_in_two_calls(mesh)
        record = analysis.sharding(f, *args)
        del kept
    assert record.sites.parent == [-1, 0, 1, 0, 3]
    for which in (record.planned, record.collectives):
        assert {each.site for each in which if each.runs == 2} == {2, 4}


def test_calls_of_a_loop_lead_to_their_exchange(mesh):
    f, args = manual_in_a_call_in_a_loop(mesh)
    record = analysis.sharding(f, *args)
    [each] = record.collectives
    sites, names = record.sites, []
    at = each.site
    while at >= 0:
        row = sites.equation[at]
        names.append(
            record.program.strings[record.program.equations.primitive[row]] if row >= 0 else ""
        )
        at = sites.parent[at]
    assert names == ["shard_map", "jit", "scan", ""]
    assert (each.runs, each.reason) == (4, "written")


def test_donated_arguments_stay(mesh):
    x = placed(mesh, "data")
    analysis.sharding(pl.jit(lambda x: x + 1, donate_argnums=0), x)
    assert not x.is_deleted()


@pytest.mark.parametrize(
    ("sizes", "names"), [((8, 8, 8), ("replica", "data", "model")), ((64, 64), ("data", "model"))]
)
def test_large_abstract_meshes_are_as_good(sizes, names):
    mesh = AbstractMesh(sizes, names)

    def argument(*spec):
        placement = pl.NamedSharding(mesh, P(*spec))
        return pl.ShapeDtypeStruct((4096, 4096), np.float32, sharding=placement)

    batch = tuple(names[:-1])
    block = pl.jit(lambda x, w, v: x + jnp.tanh(x @ w) @ v)
    loss = lambda w, v, x: block(block(x, w, v), w, v).sum()
    operands = argument(None, "model"), argument("model"), argument(batch)
    record = analysis.sharding(pl.grad(loss), *operands)
    assert len(record.device_peak_bytes) == mesh.size
    assert -1 not in record.layouts.sharding
    assert -1 not in record.why.origin
    assert all(each.group_size in (*sizes, 64) for each in record.collectives)


def test_what_the_function_raises_comes_out(mesh):
    with pytest.raises(ZeroDivisionError):
        analysis.sharding(lambda x: 1 / 0, placed(mesh, "data"))


def test_a_compiled_function_is_refused(mesh):
    x = placed(mesh, "data")
    with pytest.raises(ArgumentTypeError, match="a compiled function doesn't tell"):
        analysis.sharding(pl.jit(jnp.sin).lower(x).compile(), x)
