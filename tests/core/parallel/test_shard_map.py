"""`shard_map`: meshes, specs, types of parts, derivatives, batches, and what is remembered."""

from __future__ import annotations

import numpy as np
import pytest

import pellucid as pl
from pellucid import P, lax, numpy as jnp, shard_map, smap
from pellucid._machine.base.errors import CollectiveError, DerivativeRuleError, UnsupportedError
from pellucid._machine.base.events import CompilationFinished, counting
from pellucid._machine.sharding.errors import PartitionSpecError
from pellucid.experimental.shard_map import shard_map as older_shard_map
from pellucid.sharding import AxisType, Mesh, NamedSharding, get_abstract_mesh, set_mesh

X = np.arange(32, dtype=np.float32).reshape(8, 4) / 8


@pytest.fixture(scope="module")
def mesh() -> Mesh:
    return Mesh(np.array(pl.devices()[:8]).reshape(4, 2), ("x", "y"))


# Meshes and specs ---------------------------------------------------------------------------------


def test_parts_and_results_are_placed_as_specs_say(mesh):
    shapes = []

    def note(x):
        shapes.append(x.shape)
        return 2 * x

    result = shard_map(note, mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", "y"))(X)
    assert shapes == [(2, 2)]
    assert result.sharding == NamedSharding(mesh, P("x", "y"))
    np.testing.assert_array_equal(result, 2 * X)


@pytest.mark.parametrize("of_type", [P(), P("x"), P(None, "x"), P(("x", "y")), P(("y", "x"))])
@pytest.mark.parametrize("jitted", [False, True])
def test_in_specs_are_those_of_explicit_arguments(jitted, of_type):
    explicit = pl.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    x = pl.device_put(X, NamedSharding(explicit, of_type))
    for spec in (P(), P("x"), P("x", None), P("y"), P(None, "x"), P("x", "y"), P(("x", "y"))):
        double = shard_map(lambda x: 2 * x, mesh=explicit, in_specs=spec, out_specs=spec)
        call = pl.jit(double) if jitted else double
        if (*spec, None, None)[:2] == (*of_type, None, None)[:2]:
            np.testing.assert_array_equal(call(x), 2 * X)
        else:
            with pytest.raises(
                PartitionSpecError, match=r"(?s)in_specs must be those of.*x: f32\["
            ):
                call(x)


def test_a_host_array_has_no_explicit_sharding():
    explicit = pl.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    whole = shard_map(lambda x: 2 * x, mesh=explicit, in_specs=P(), out_specs=P())
    np.testing.assert_array_equal(whole(X), 2 * X)
    with pytest.raises(PartitionSpecError, match="in_specs must be those of"):
        shard_map(lambda x: x, mesh=explicit, in_specs=P("x"), out_specs=P("x"))(X)


def test_one_dimension_over_two_axes(mesh):
    index = shard_map(
        lambda: lax.axis_index(("x", "y"))[None], mesh=mesh, in_specs=(), out_specs=P(("x", "y"))
    )
    np.testing.assert_array_equal(index(), np.arange(8))
    turned = shard_map(
        lambda: lax.axis_index(("x", "y"))[None], mesh=mesh, in_specs=(), out_specs=P(("y", "x"))
    )
    np.testing.assert_array_equal(turned(), [0, 2, 4, 6, 1, 3, 5, 7])


def test_devices_in_another_order():
    mesh = Mesh(np.array(pl.devices()[:8])[[3, 1, 7, 5, 0, 2, 6, 4]].reshape(2, 4), ("a", "b"))
    body = lambda x: (lax.psum(x, "b") + lax.axis_index("b"), lax.ppermute(x, "a", [(0, 1)]))
    f = shard_map(body, mesh=mesh, in_specs=P("a", "b"), out_specs=P("a", "b"))
    total, sent = pl.jit(f)(X)
    parts = X.reshape(8, 4, 1)
    np.testing.assert_allclose(
        total, (parts.sum(1, keepdims=True) + np.arange(4)[:, None]).reshape(8, 4)
    )
    np.testing.assert_array_equal(sent, np.concatenate([np.zeros((4, 4)), X[:4]]))


def test_specs_are_prefixes_of_trees(mesh):
    args = {"a": X, "b": (X, X[0])}
    f = shard_map(
        lambda t, s: (t["a"] * s, [lax.pmean(t["b"][0], "x")]),
        mesh=mesh,
        in_specs=({"a": P("x"), "b": P()}, P()),
        out_specs=(P("x"), P()),
    )
    first, [second] = f(args, np.float32(2))
    np.testing.assert_array_equal(first, 2 * X)
    np.testing.assert_allclose(second, X)


def test_none_in_specs_keeps_an_argument_as_it_is(mesh):
    f = shard_map(
        lambda x, name, n: x * n if name == "times" else x,
        mesh=mesh,
        in_specs=(P("x"), None, None),
        out_specs=P("x"),
    )
    np.testing.assert_array_equal(f(X, "times", 3), 3 * X)
    np.testing.assert_array_equal(f(X, "plain", 3), X)


def test_the_current_mesh_is_taken(mesh):
    f = shard_map(lambda x: lax.psum(x, "x"), in_specs=P("x"), out_specs=P())
    with set_mesh(mesh):
        np.testing.assert_allclose(f(X), X.reshape(4, 2, 4).sum(0))


def test_decorator_and_older_form(mesh):
    @shard_map(mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    def double(x):
        return 2 * x

    np.testing.assert_array_equal(double(X), 2 * X)
    np.testing.assert_array_equal(older_shard_map(lambda x: x, mesh, P("x"), P("x"))(X), X)


def test_smap_in_the_words_of_vmap(mesh):
    f = smap(lambda x, y: x + lax.psum(y, "x"), in_axes=(1, None), out_axes=1, axis_name="x")
    with set_mesh(mesh):
        np.testing.assert_allclose(pl.jit(f)(X.T, np.float32(1)), X.T + 4)


def test_in_specs_are_read_from_types_over_explicit_axes():
    mesh = pl.make_mesh((8,), ("x",), axis_types=(AxisType.Explicit,))
    x = pl.device_put(np.arange(8.0, dtype=np.float32), NamedSharding(mesh, P("x")))
    with set_mesh(mesh):
        f = shard_map(lambda x: lax.psum(x, "x"), out_specs=P())
        np.testing.assert_array_equal(pl.jit(f)(x), [28.0])


def test_axes_are_manual_inside(mesh):
    seen = []

    def note(x):
        seen.append(get_abstract_mesh().manual_axes)
        return x

    shard_map(note, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})(X)
    assert seen == [("x",)]


# Types ----------------------------------------------------------------------------------------------


def test_types_say_what_varies(mesh):
    def body(a, b):
        assert pl.typeof(a).varying == {"x", "y"}
        assert pl.typeof(b).varying == {"y"}
        assert pl.typeof(a + b).varying == {"x", "y"}
        assert pl.typeof(lax.psum(a, "x")).varying == {"y"}
        assert pl.typeof(lax.axis_index("x")).varying == {"x"}
        assert pl.typeof(lax.pcast(b, "x", to="varying")).varying == {"x", "y"}
        assert pl.typeof(lax.all_gather(a, ("x", "y"), to="invarying")).varying == set()
        return a + b

    f = shard_map(body, mesh=mesh, in_specs=(P("x", "y"), P(None, "y")), out_specs=P("x", "y"))
    np.testing.assert_array_equal(f(X, X[:2]), X + np.tile(X[:2], (4, 1)))


def test_the_program_shows_casts_and_sums(mesh):
    f = shard_map(
        lambda w, x: lax.psum(w * x, "x"), mesh=mesh, in_specs=(P(), P("x")), out_specs=P()
    )
    text = str(pl.make_jaxpr(pl.grad(lambda w, x: f(w, x).sum()))(X[:2], X))
    assert "pvary[axes=('x',)]" in text
    assert "psum_invariant[axes=('x',)]" in text


@pytest.mark.parametrize("typed", [True, False])
def test_the_primitive_of_a_sum_says_whether_types_vary(mesh, typed):
    def f(w, x):
        mapped = shard_map(
            lambda w, x: lax.psum(w * x, "x"),
            mesh=mesh,
            in_specs=(P(), P("x")),
            out_specs=P(),
            check_vma=typed,
        )
        return mapped(w, x).sum()

    program = pl.make_jaxpr(pl.value_and_grad(f))(X[:2], X)
    sums = {
        equation.primitive.name
        for outer in program.eqns
        if outer.primitive.name == "shard_map"
        for equation in outer.params["jaxpr"].eqns
        if "psum" in equation.primitive.name
    }
    assert sums == {"psum_invariant" if typed else "psum"}
    summed = pl.make_jaxpr(
        pl.vmap(lambda x: lax.psum(lax.psum(x, ("i", "j")), "i"), axis_name="i"),
        axis_env=[("j", 2)],
    )
    assert "psum_invariant" not in str(summed(X))


def test_a_gradient_inside_needs_no_sum_by_hand(mesh):
    def step(w, x):
        return pl.grad(lambda w: (jnp.sin(x) * w).sum())(w)

    f = shard_map(step, mesh=mesh, in_specs=(P(), P("x")), out_specs=P())
    np.testing.assert_allclose(f(np.ones(4, np.float32), X), np.sin(X).sum(0), rtol=1e-5)


def test_a_carry_that_begins_the_same_everywhere(mesh):
    def body(x):
        def step(carry, row):
            count, total = carry
            return (count + 1, total + count * row), total

        (count, total), _ = lax.scan(step, (0.0, jnp.zeros(4)), x)
        assert pl.typeof(count).varying == set()
        assert pl.typeof(total).varying == {"x"}
        return total[None]

    f = shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    np.testing.assert_allclose(f(X), X[1::2])


@pytest.mark.parametrize("check_vma", [True, False])
def test_a_loop_of_another_length_on_each_device(mesh, check_vma):
    def body(x):
        return lax.while_loop(lambda c: c.sum() < 50.0, lambda c: 2 * c + 1, x)

    f = shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=check_vma)
    expected = []
    for part in X.reshape(4, 2, 4):
        while part.sum() < 50:
            part = 2 * part + 1
        expected.append(part)
    np.testing.assert_allclose(pl.jit(f)(X), np.concatenate(expected))


@pytest.mark.parametrize("check_vma", [True, False])
def test_constants_from_outside(mesh, check_vma):
    constant = jnp.arange(4.0)

    def outer(w, x):
        body = lambda x: lax.psum(x * w + constant, "x")
        return shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P(), check_vma=check_vma)(x)

    expected = X.reshape(4, 2, 4).sum(0) * 3 + 4 * np.arange(4.0)
    np.testing.assert_allclose(pl.jit(outer)(np.float32(3), X), expected)
    actual = pl.grad(lambda w: outer(w, X).sum())(np.float32(3))
    np.testing.assert_allclose(actual, X.sum(), rtol=1e-5)


def test_a_custom_derivative_inside(mesh):
    @pl.custom_vjp
    def cube(x):
        return x**3

    cube.defvjp(lambda x: (x**3, x), lambda x, ct: (10 * ct * x,))
    f = shard_map(lambda x: cube(x), mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    np.testing.assert_allclose(pl.grad(lambda x: f(x).sum())(X), 10 * X, rtol=1e-5)

    @pl.custom_jvp
    def double(x, w):
        return 2 * x * w

    double.defjvp(lambda p, t: (double(*p), 5 * t[0] + 7 * t[1]))
    g = shard_map(
        lambda x, w: lax.psum(double(x, w), "x"), mesh=mesh, in_specs=(P("x"), P()), out_specs=P()
    )
    wx, ww = pl.grad(lambda *a: g(*a).sum(), (0, 1))(X, X[:2])
    np.testing.assert_allclose(wx, np.full_like(X, 5))
    np.testing.assert_allclose(ww, np.full_like(X[:2], 28))


def test_a_cotangent_that_differs_though_its_argument_does_not(mesh):
    @pl.custom_vjp
    def times(x, w):
        return x * w

    times.defvjp(lambda x, w: (x * w, (x, w)), lambda r, ct: (ct * r[1], (ct * r[0]).sum()))
    f = shard_map(times, mesh=mesh, in_specs=(P("x"), P()), out_specs=P("x"))
    with pytest.raises(DerivativeRuleError, match="psum"):
        pl.grad(lambda w: f(X, w).sum())(np.float32(2))


# Batches --------------------------------------------------------------------------------------------


def test_a_batch_over_a_mesh_axis(mesh):
    def loss(w, x):
        return lax.psum((w * jnp.sin(x)).sum(0), "x")

    f = shard_map(loss, mesh=mesh, in_specs=(P(), P("x")), out_specs=P())
    batch = np.stack([X, 2 * X])
    mapped = pl.vmap(f, in_axes=(None, 0), spmd_axis_name="y")
    w = np.arange(4, dtype=np.float32)
    result = pl.jit(mapped)(w, batch)
    assert result.sharding.is_equivalent_to(NamedSharding(mesh, P("y")), 2)
    np.testing.assert_allclose(result, (w * np.sin(batch)).sum(1), rtol=1e-5)
    actual = pl.grad(lambda w: mapped(w, batch).sum())(w)
    np.testing.assert_allclose(actual, np.sin(batch).sum((0, 1)), rtol=1e-5)


def test_a_named_batch_outside_and_inside(mesh):
    f = shard_map(lambda x: lax.psum(x, ("b", "x")), mesh=mesh, in_specs=P("x"), out_specs=P())
    batch = np.stack([X, 2 * X])
    expected = 3 * X.reshape(4, 2, 4).sum(0)
    np.testing.assert_allclose(pl.vmap(f, axis_name="b", out_axes=None)(batch), expected)

    def inside(x):
        return pl.vmap(lambda row: lax.psum(row, ("b", "x")), axis_name="b", out_axes=None)(x)

    g = shard_map(inside, mesh=mesh, in_specs=P("x"), out_specs=P())
    np.testing.assert_allclose(g(X), X.sum(0))


# What is remembered, what is refused --------------------------------------------------------------------


def test_a_second_call_compiles_nothing(mesh):
    f = shard_map(lambda x: lax.psum(jnp.cos(x), "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
    f(X)
    with counting(CompilationFinished) as counts:
        f(X + 1)
        f(X + 2)
    assert {event.cache for event in counts.events} == {"memory"}


def test_the_size_of_an_axis_decides_what_is_traced():
    @pl.jit
    def shares(x):
        return x / lax.axis_size("i")

    results = [pl.vmap(shares, axis_name="i")(np.ones(n, np.float32))[0] for n in (2, 4)]
    assert results == [0.5, 0.25]


def test_a_jitted_function_sees_the_axis_though_its_argument_is_not_batched():
    f = pl.vmap(
        lambda x: x + pl.jit(lambda y: lax.psum(y, "i"))(1.0 + 0 * jnp.ones(())), axis_name="i"
    )
    np.testing.assert_allclose(f(np.zeros(3, np.float32)), 3.0)


def test_a_sum_that_a_branch_hides_is_found_in_the_transpose(mesh):
    def body(w, x):
        predicate = x.sum() > 5
        return lax.cond(
            predicate,
            lambda: lax.scan(lambda c, r: (c + w * r, None), x[0] * 0, x)[0],
            lambda: x[0],
        )[None]

    f = shard_map(body, mesh=mesh, in_specs=(P(), P("x")), out_specs=P("x"))
    w = np.ones(4, np.float32)
    parts = X.reshape(4, 2, 4)
    chosen = parts.sum((1, 2)) > 5
    np.testing.assert_allclose(f(w, X), np.where(chosen[:, None], parts.sum(1), parts[:, 0]))
    with pytest.raises(CollectiveError, match="would wait for devices"):
        pl.grad(lambda w: f(w, X).sum())(w)


def test_results_are_committed_to_the_mesh(mesh):
    assert shard_map(lambda x: x, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(X).committed


# Effects ------------------------------------------------------------------------------------------------


def test_a_reference_inside(mesh):
    def body(x):
        total = pl.new_ref(2 * x)
        total[...] += lax.psum(x, "x")
        return total[...]

    f = shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    expected = 2 * X + np.tile(X.reshape(4, 2, 4).sum(0), (4, 1))
    np.testing.assert_allclose(pl.jit(f)(X), expected)
    np.testing.assert_allclose(pl.grad(lambda x: f(x).sum())(X), np.full_like(X, 6))


def test_a_reference_from_outside_is_refused(mesh):
    def outer(x):
        total = pl.new_ref(0 * x)
        body = lambda x: total[0] + x
        return shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(x)

    with pytest.raises(UnsupportedError, match="no references"):
        pl.jit(outer)(X)


def test_each_device_calls_back(mesh):
    body = lambda x: pl.pure_callback(np.negative, pl.ShapeDtypeStruct((1, 4), np.float32), x)
    f = shard_map(body, mesh=mesh, in_specs=P(("x", "y")), out_specs=P(("x", "y")))
    np.testing.assert_array_equal(pl.jit(f)(X), -X)


def test_positions_that_attain_an_extreme_share_its_derivative():
    x, t = np.float32([2, 5, 5, 1]), np.float32([1, 2, 4, 8])
    tangent = lambda x, t: pl.jvp(lambda x: lax.pmax(x, "i"), (x,), (t,))[1]
    np.testing.assert_array_equal(pl.vmap(tangent, axis_name="i")(x, t), [3, 3, 3, 3])
    mesh = Mesh(np.array(pl.devices()[:4]), ("i",))
    on_devices = shard_map(tangent, mesh=mesh, in_specs=P("i"), out_specs=P())
    np.testing.assert_array_equal(on_devices(x, t), [3])


# Axes of one device -------------------------------------------------------------------------------------


def every_collective(x):
    return [
        lax.psum(x, "i"), lax.pmax(x, "i"), lax.all_gather(x, "i", tiled=True), lax.all_gather(x, "i")[0],
        lax.ppermute(x, "i", [(0, 0)]), lax.all_to_all(x, "i", 0, 0, tiled=True),
        lax.psum_scatter(x, "i", tiled=True), lax.psum_scatter(x[None], "i"), lax.axis_index("i") + x,
        lax.pbroadcast(x, "i", 0),
    ]  # fmt: skip


@pytest.mark.parametrize("shape", [(1,), (1, 8)])
@pytest.mark.parametrize("names", [{"i"}, frozenset()])
def test_an_axis_of_one_device(shape, names):
    devices = np.array(pl.devices()[: np.prod(shape)]).reshape(shape)
    mesh = Mesh(devices, ("i", "k")[: len(shape)])
    f = shard_map(every_collective, mesh=mesh, in_specs=P("i"), out_specs=P("i"), axis_names=names)
    x = np.arange(4, dtype=np.float32)
    for actual in f(x):
        np.testing.assert_array_equal(actual, x)
    gradient = pl.grad(lambda x: sum(actual.sum() for actual in f(x)))(x)
    np.testing.assert_array_equal(gradient, np.full(4, 10))


# Groups, empty values, small integers ---------------------------------------------------------------------


@pytest.mark.parametrize("check_vma", [True, False])
def test_groups_of_several_sizes(mesh, check_vma):
    groups = [[0], [1, 2, 3]]

    def body(x):
        mean = lax.pmean(x, "x", axis_index_groups=groups)
        return mean, lax.psum(jnp.ones(1), "x", axis_index_groups=groups)

    f = shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=check_vma)
    means, counts = f(X)
    parts = X.reshape(4, 2, 4)
    rest = parts[1:].mean(0)
    np.testing.assert_allclose(means, np.concatenate([parts[0], rest, rest, rest]), rtol=1e-6)
    np.testing.assert_array_equal(counts, [1, 3, 3, 3])


def test_empty_values(mesh):
    def body(x):
        joined = lax.all_gather(x, "x", tiled=True)
        return joined, lax.psum_scatter(joined, "x", tiled=True)

    f = shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    assert [y.shape for y in f(np.zeros((0, 3), np.float32))] == [(0, 3), (0, 3)]


def test_a_mean_of_small_integers_is_no_integer(mesh):
    f = shard_map(lambda x: lax.pmean(x, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
    mean = f(jnp.array([1, 1, 0, 1, 2, 0, 1, 0], "int4"))
    np.testing.assert_array_equal(mean, [1.0, 0.5])


def test_complex_constants_are_summed(mesh):
    def body(x):
        return x + lax.psum(jnp.full(x.shape, 2 + 1j, "complex64"), "x")

    f = shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    np.testing.assert_array_equal(pl.jit(f)(np.ones(8, np.complex64)), np.full(8, 9 + 4j))


def test_a_mean_over_an_axis_of_its_own_too():
    mean = pl.vmap(lambda x: lax.pmean(x, ("i", 0)), axis_name="i")(X)
    np.testing.assert_allclose(mean, np.full(8, X.mean()))


def test_an_argument_laid_out_over_explicit_axes_of_another_mesh(mesh):
    x = pl.device_put(X, NamedSharding(pl.make_mesh((8,), ("d",)), P("d")))
    f = shard_map(lambda x: lax.psum(x, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
    np.testing.assert_allclose(f(x), X.reshape(4, 2, 4).sum(0))
