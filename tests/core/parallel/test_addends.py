"""Types that say unreduced or reduced: as in the reference, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from corpus import addend_programs

import pellucid as pl
from pellucid import P, lax, numpy as jnp
from pellucid._machine.base.errors import ArgumentValueError, CollectiveError
from pellucid._machine.ir.checking import check_jaxpr
from pellucid._machine.sharding.errors import PartitionSpecError, ShardingTypeError
from pellucid.sharding import AxisType, NamedSharding

X = np.cos(np.arange(64, dtype=np.float32)).reshape(8, 8)


@pytest.mark.parametrize("program", addend_programs.PROGRAMS, ids=lambda p: p.__name__)
def test_agrees_with_the_reference(oracle_8_devices: Any, program: Any) -> None:
    oracle_8_devices.check(program, library=pl, tolerance=1e-4)


@pytest.fixture
def mesh():
    explicit = pl.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    with pl.set_mesh(explicit):
        yield explicit


PARTS = P("x")


def mapped(body, out_specs=PARTS, in_specs=PARTS, **options):
    return pl.shard_map(body, in_specs=in_specs, out_specs=out_specs, **options)


def addends(x):
    return lax.pcast(x, "x", to="unreduced")


def test_one_collective_for_all_uses(mesh):
    def loss(w, x, to_varying):
        def body(w, x):
            w = lax.pcast(w, "x", to="reduced") if to_varying else w
            return x @ w + jnp.tanh(x @ w) + jnp.sin(x @ w)

        return mapped(body, in_specs=(P(), P("x")))(w, x).sum()

    def text(to_varying):
        gradient = pl.make_jaxpr(pl.grad(lambda w, x: loss(w, x, to_varying)))
        return str(gradient(X, pl.device_put(X, NamedSharding(mesh, P("x")))))

    assert text(True).count("unreduced_psum") == 1
    assert text(False).count("psum_invariant") == 3


@pytest.mark.parametrize(
    "wrap", [pl.jit, pl.checkpoint, lambda f: lambda x: pl.vmap(f)(x[None])[0]]
)
def test_within_other_transformations(mesh, wrap):
    total = lambda x: lax.psum(addends(jnp.sin(x)) + addends(x), "x")
    x = pl.device_put(X, NamedSharding(mesh, P("x")))
    expected = (np.sin(X) + X).reshape(4, 2, 8).sum(0)
    np.testing.assert_allclose(mapped(wrap(total), P())(x), expected, rtol=1e-5)
    batch = pl.vmap(mapped(total, P()), in_axes=1, out_axes=1)(x)
    np.testing.assert_allclose(batch, expected, rtol=1e-5)


def test_addends_through_a_loop(mesh):
    def body(x):
        total, _ = lax.scan(lambda c, row: (c + addends(row), None), addends(0 * x[0]), x)
        return lax.psum(total, "x")

    x = pl.device_put(X, NamedSharding(mesh, P("x")))
    np.testing.assert_allclose(mapped(body, P())(x), X.sum(0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("body", "error", "text"),
    [
        (lambda x: x + addends(x), CollectiveError, "hold addends is used as each position's own"),
        (lambda x: jnp.exp(addends(x)), ShardingTypeError, "does not commute with sums"),
        (lambda x: lax.pmax(addends(x), "x"), CollectiveError, "hold addends"),
        (lambda x: lax.psum(addends(x), ("x", "y")), CollectiveError, "over all of these"),
        (addends, CollectiveError, "out_specs must say over which axes"),
        (lambda x: addends(addends(x)), ArgumentValueError, "only a value that is varying"),
        (
            lambda x: lax.pcast(x, "x", to="reduced"),
            ArgumentValueError,
            "only a value that is the same",
        ),
    ],
)
def test_what_addends_are_not_for(mesh, body, error, text):
    x = pl.device_put(X, NamedSharding(mesh, P("x")))
    with pytest.raises(error, match=text):
        pl.make_jaxpr(mapped(body))(x)


def test_specs_and_types_must_agree(mesh):
    whole = pl.device_put(X, NamedSharding(mesh, P(reduced={"x"})))
    with pytest.raises(PartitionSpecError, match="as its type does"):
        mapped(lambda x: x, P(), P())(whole)
    with pytest.raises(PartitionSpecError, match="as its type does"):
        mapped(lambda x: x, P(), P(reduced={"x"}))(X)
    with pytest.raises(ArgumentValueError, match="types say nothing of axis 'x'"):
        mapped(addends, check_vma=False)(pl.device_put(X, NamedSharding(mesh, P("x"))))
    auto = pl.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    with pytest.raises(PartitionSpecError, match="only Explicit axes"):
        pl.shard_map(addends, mesh=auto, in_specs=P("x"), out_specs=P(unreduced={"x"}))(X)


@pytest.mark.parametrize(
    ("body", "in_specs", "out_specs"),
    [
        (
            lambda w: lax.pcast(lax.all_gather(w, "x", to="reduced"), "x", to="varying"),
            PARTS,
            PARTS,
        ),
        (
            lambda w: lax.pcast(
                lax.all_gather(w, "x", axis=1, tiled=True, to="reduced"), "x", to="varying"
            ),
            PARTS,
            PARTS,
        ),
        (lambda w: lax.psum(addends(w), "x"), PARTS, P()),
        (lambda w: lax.psum_scatter(addends(w[:4]), "x"), P(None, "x"), PARTS),
        (lambda w: lax.psum_scatter(addends(w), "x", tiled=True), P(None, "x"), PARTS),
    ],
    ids=["gathered", "tiled", "summed", "scattered", "scattered in parts"],
)
@pytest.mark.parametrize("axis_type", [AxisType.Explicit, AxisType.Auto])
def test_programs_with_marks_are_well_typed(body, in_specs, out_specs, axis_type):
    mesh = pl.make_mesh((4, 2), ("x", "y"), axis_types=(axis_type,) * 2)
    with pl.set_mesh(mesh):
        x = pl.device_put(X, NamedSharding(mesh, in_specs))
        f = mapped(body, out_specs, in_specs)
        batched = pl.vmap(f, in_axes=2, out_axes=1)
        programs = [
            pl.make_jaxpr(f)(x),
            pl.make_jaxpr(pl.grad(lambda x: (f(x) ** 2).sum()))(x),
            pl.make_jaxpr(batched)(pl.device_put(X[..., None], NamedSharding(mesh, in_specs))),
        ]
    for (
        program
    ) in programs:  # also where no mesh is set: a type rule asks for its operands and params alone
        check_jaxpr(program)


def test_types_out_of_a_region_show_explicit_axes_alone():
    mesh = pl.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit, AxisType.Auto))
    spec = P(("y", "x"))
    with pl.set_mesh(mesh):
        x = pl.device_put(X, NamedSharding(mesh, spec))
        f = pl.vmap(mapped(jnp.sin, spec, spec), in_axes=1, out_axes=1)
        gradient = pl.jit(pl.grad(lambda x: (f(x) ** 2).sum()))(x)
        assert str(pl.typeof(gradient)) == "float32[8@x,8]"
    np.testing.assert_allclose(gradient, 2 * np.sin(X) * np.cos(X), rtol=1e-5)


# Explicit axes ------------------------------------------------------------------------------------

ADDENDS = P(None, None, unreduced={"x"})
WHOLE = P(None, None)


def product_of_parts(mesh):
    a = pl.device_put(X, NamedSharding(mesh, P(None, "x")))
    b = pl.device_put(X.T, NamedSharding(mesh, P("x")))
    return pl.jit(lambda a, b: jnp.einsum("ij,jk->ik", a, b, out_sharding=ADDENDS))(a, b)


def test_addends_out_of_a_program(mesh):
    u, total = product_of_parts(mesh), X @ X.T
    shards = u.addressable_shards
    np.testing.assert_allclose(shards[0].data, X[:, :2] @ X.T[:2], rtol=1e-5)
    np.testing.assert_allclose(
        sum(np.asarray(s.data) for s in shards[::2]), total, rtol=1e-4, atol=1e-5
    )
    assert repr(u) == str(u)
    assert "unreduced={'x'}" in str(u)
    np.testing.assert_allclose(u, total, rtol=1e-4, atol=1e-5)
    for spec in (WHOLE, P("x"), ADDENDS):
        moved = pl.device_put(u, NamedSharding(mesh, spec))
        assert moved.sharding.spec.unreduced == spec.unreduced
        np.testing.assert_allclose(moved, total, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("from_device", [False, True])
def test_a_whole_value_is_put_as_addends(mesh, from_device):
    x = pl.device_put(X, NamedSharding(mesh, P("y"))) if from_device else X
    u = pl.device_put(x, NamedSharding(mesh, ADDENDS))
    assert str(pl.typeof(u)) == "float32[8,8]{U:x}"
    np.testing.assert_allclose(u, X)
    np.testing.assert_allclose(pl.sharding.reshard(u + u, WHOLE), 2 * X)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: pl.sharding.reshard(x * 2, ADDENDS) + pl.sharding.reshard(x, ADDENDS),
        lambda x: pl.sharding.auto_axes(lambda x: x * 3, out_sharding=ADDENDS)(x),
        lambda x: jnp.einsum("ij,jk->ik", x, 3 * np.eye(8, dtype=np.float32), out_sharding=ADDENDS),
    ],
    ids=["reshard", "auto_axes", "einsum"],
)
def test_what_is_whole_becomes_addends_of_itself(mesh, f):
    result = pl.jit(lambda x: pl.sharding.reshard(f(x), WHOLE))(X)
    np.testing.assert_allclose(result, 3 * X, rtol=1e-5)


@pytest.mark.parametrize(
    "f",
    [
        lambda w: w * 2.0,
        lambda w: 1.0 - w / 3.0,
        lambda w: w[:, :4],
        lambda w: w[jnp.array([1, 0, 7, 1])],
        lambda w: lax.pad(w, np.float32(0), ((0, 1, 0), (1, 0, 0)))[1:, :-1].T,
        lambda w: jnp.cumsum(w, 1) + w.reshape(4, 16).reshape(8, 8),
    ],
    ids=["scaled", "divided", "cut", "taken", "padded", "summed"],
)
def test_cotangents_of_reduced_values_are_addends(mesh, f):
    x = pl.device_put(X, NamedSharding(mesh, P("x")))

    def loss(w, reduced):
        w = pl.sharding.reshard(w, P(None, None, reduced={"x"})) if reduced else w
        y = f(w)
        return ((x @ y if y.shape[0] == 8 else x[:, :4] @ y) ** 2).sum()

    gradient = pl.jit(pl.grad(loss), static_argnums=1)
    np.testing.assert_allclose(gradient(X, True), gradient(X, False), rtol=1e-4, atol=1e-4)


def test_a_scalar_beside_addends_has_a_whole_cotangent(mesh):
    x = pl.device_put(X, NamedSharding(mesh, P("x")))

    def loss(s, w):
        w = pl.sharding.reshard(w, P(None, None, reduced={"x"}))
        return ((x @ (w * s)) ** 2).sum()

    gradient = pl.jit(pl.grad(loss))(np.float32(2), X)
    assert str(pl.typeof(gradient)) == "float32[]"
    np.testing.assert_allclose(gradient, 4 * ((X @ X) ** 2).sum(), rtol=1e-4)
    inside = mapped(
        lambda s, w, x: x @ lax.pcast(lax.pcast(w, "x", to="reduced") * s, "x", to="varying"),
        in_specs=(P(), P(), PARTS),
    )
    gradient = pl.jit(pl.grad(lambda s: (inside(s, X, x) ** 2).sum()))(np.float32(2))
    np.testing.assert_allclose(gradient, 4 * ((X @ X) ** 2).sum(), rtol=1e-4)


@pytest.mark.parametrize(
    ("body", "in_spec", "out_spec", "seed"),
    [
        (addends, PARTS, P(unreduced={"x"}), P(reduced={"x"})),
        (
            lambda x: lax.all_gather(x, "x", tiled=True, to="reduced"),
            PARTS, P(reduced={"x"}), P(unreduced={"x"}),
        ),
    ],
    ids=["addends", "gathered"],
)  # fmt: skip
def test_cotangents_into_a_region_have_the_marks_of_the_other_kind(
    mesh, body, in_spec, out_spec, seed
):
    """`pull` of a linear `f` is its transpose: <f(x), ct> = <x, pull(ct)>."""
    x = pl.device_put(X, NamedSharding(mesh, in_spec))
    f = mapped(body, out_spec, in_spec)
    y = f(x)
    ct = pl.reshard(jnp.asarray(np.sin(np.arange(y.size)).reshape(y.shape), np.float32), seed)

    def pulled(x, ct):
        return pl.vjp(f, x)[1](ct)[0]

    for pull in (pulled, pl.jit(pulled)):
        np.testing.assert_allclose(
            np.vdot(x, pull(x, ct)), np.vdot(np.asarray(y), np.asarray(ct)), rtol=1e-4
        )
    check_jaxpr(pl.make_jaxpr(pulled)(x, ct))


def test_the_gradient_of_a_reduced_result_is_refused_where_it_would_count_twice(mesh):
    x = pl.device_put(X, NamedSharding(mesh, P("x")))

    def loss(x):
        return (lax.all_gather(x, "x", tiled=True, to="reduced") ** 2).sum()

    with pytest.raises(ArgumentValueError, match="must be unreduced over it"):
        mapped(pl.grad(loss))(x)
    with pytest.raises(ArgumentValueError, match="must be unreduced over it"):
        mapped(lambda x: pl.vjp(loss, x)[1](jnp.float32(1))[0])(x)
    gradient = mapped(lambda x: pl.vjp(loss, x)[1](addends(lax.pcast(1 / 4, "x", to="varying")))[0])
    np.testing.assert_allclose(gradient(x), 2 * X, rtol=1e-5)


def types(tree):
    return [pl.typeof(x).str_short() for x in pl.tree.leaves(tree)]


@pytest.mark.parametrize("transform", [lambda f: f, pl.jit], ids=["eager", "jit"])
def test_zero_cotangents_of_reduced_values_are_unreduced(mesh, transform):
    x = pl.device_put(X[0], P(reduced={"x"}))
    f = pl.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda _, ct: (None,))
    assert types(transform(pl.grad(lambda x: f(x).sum()))(x)) == ["float32[8]{U:x}"]
    assert types(transform(pl.grad(lambda x: 1.0))(x)) == ["float32[8]{U:x}"]
    ct = pl.device_put(X[0], P(unreduced={"x"}))
    pulled = transform(lambda x, ct: pl.vjp(lambda x, y: y, x, x)[1](ct))(x, ct)
    assert types(pulled) == ["float32[8]{U:x}"] * 2
    rounded = transform(pl.grad(lambda x: lax.reduce_precision(x, 5, 10).sum()))(x)
    assert types(rounded) == ["float32[8]{U:x}"]


def test_rows_are_looked_up_in_a_reduced_table(mesh):
    table = pl.device_put(X, P(reduced={"x"}))
    rows = pl.device_put(np.arange(8)[::-1].copy(), P("x"))
    look = lambda table: table.at[rows].get(out_sharding=P("x", None))
    result = pl.jit(look)(table)
    np.testing.assert_array_equal(result, X[::-1])
    assert types(result) == ["float32[8@x,8]"]
    gradient = pl.jit(pl.grad(lambda table: (look(table) * 2).sum()))(table)
    assert types(gradient) == ["float32[8,8]{U:x}"]
    np.testing.assert_array_equal(pl.reshard(gradient, P()), np.full((8, 8), 2))


def test_varying_results_become_addends_where_out_specs_say_so(mesh):
    cut = pl.device_put(X, P("x", "y"))
    result = pl.jit(mapped(lambda x: x, P("x", None, unreduced={"y"}), P("x", "y")))(cut)
    np.testing.assert_allclose(pl.reshard(result, P()), X[:, :4] + X[:, 4:], rtol=1e-6)


def test_addends_are_taken_without_checked_types(mesh):
    product = pl.jit(lambda a, b: jnp.dot(a, b, out_sharding=P(unreduced={"x"})))
    u = product(pl.device_put(X, P(None, "x")), pl.device_put(X, P("x", None)))
    body = lambda x: lax.psum(x, "x")
    total = pl.jit(mapped(body, P(), P(unreduced={"x"}), check_vma=False))(u)
    np.testing.assert_allclose(total, X @ X, rtol=1e-5)


def test_types_say_all_axes_over_which_a_gathered_value_is_reduced(mesh):
    seen = []

    def body(x):
        gathered = lax.all_gather(x, "y", to="reduced")
        seen.append(pl.typeof(gathered).mat.reduced)
        return gathered

    out_specs = P(reduced={"x", "y"})
    x = pl.device_put(X[0], P("y", reduced={"x"}))
    pl.jit(mapped(body, out_specs, P("y", reduced={"x"})))(x)
    assert seen == [{"x", "y"}]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((1, 4, 8), (1, 8, 6)),
        ((1, 4, 8), (8, 6)),
        ((4, 8), (1, 8, 6)),
        ((1, 3, 4, 8), (1, 1, 8, 6)),
        ((1, 8), (2, 8, 6)),
    ],
)
def test_products_of_batches_of_one_stay_addends(mesh, left, right):
    a = np.arange(np.prod(left), dtype=np.float32).reshape(left)
    b = np.arange(np.prod(right), dtype=np.float32).reshape(right)
    over = lambda x, dim: pl.device_put(
        x, NamedSharding(mesh, P(*["y" if i == dim else None for i in range(x.ndim)]))
    )
    spec = P(*[None] * max(a.ndim, b.ndim), unreduced={"y"})
    product = pl.jit(lambda a, b: jnp.matmul(a, b, out_sharding=spec))
    operands = over(a, a.ndim - 1), over(b, b.ndim - 2)
    assert "all-reduce" not in product.lower(*operands).compile().as_text()
    result = product(*operands)
    first, second = (result.addressable_shards[i].data for i in (0, 1))
    np.testing.assert_allclose(first, a[..., :4] @ b[..., :4, :], rtol=1e-6)
    np.testing.assert_allclose(second, a[..., 4:] @ b[..., 4:, :], rtol=1e-6)
