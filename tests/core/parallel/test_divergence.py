"""Collectives that only some devices would reach are found when a function is traced, also where types say nothing."""

from __future__ import annotations

import numpy as np
import pytest

import pellucid as pl
from pellucid import P, lax, numpy as jnp
from pellucid._machine.base.errors import CollectiveError
from pellucid.sharding import AxisType, Mesh

X = np.arange(8, dtype=np.float32)


@pytest.fixture(scope="module")
def mesh() -> Mesh:
    return pl.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)


def summed(x):
    return x + lax.psum(x, "x")


def chosen(predicate, x):
    return lax.cond(predicate, summed, lambda x: x, x)


def counted(n, x):
    return lax.fori_loop(0, n, lambda _, x: summed(x), x)


DIVERGING = {
    "a branch": lambda x: chosen(x.sum() > 3, x),
    "a branch by position": lambda x: chosen(lax.axis_index("x") > 1, x),
    "a branch of switch": lambda x: lax.switch(
        lax.axis_index("x"), [summed, lambda x: x, lambda x: -x, summed], x
    ),
    "a branch by what was sent": lambda x: chosen(lax.ppermute(x, "x", [(0, 1)]).sum() > 3, x),
    "a branch by a sum in groups": lambda x: chosen(
        lax.psum(x.sum(), "x", axis_index_groups=[[0, 1], [2, 3]]) > 3, x
    ),
    "a branch by the result of a branch": lambda x: chosen(
        lax.cond(x.sum() > 3, lambda: 1.0, lambda: 2.0) > 1, x
    ),
    "a loop": lambda x: counted(lax.axis_index("x"), x),
    "a loop whose second round differs": lambda x: lax.while_loop(
        lambda c: c[0] < 5, lambda c: (c[1].sum(), summed(c[1])), (0 * lax.psum(x.sum(), "x"), x)
    )[1],
    "a branch in a scan": lambda x: lax.scan(
        lambda c, _: (c + 1, chosen(c > 3, x)), x.sum(), None, length=2
    )[1][0],
    "a branch with a permutation along another axis": lambda x: lax.cond(
        x.sum() > 3, lambda x: lax.ppermute(x, "y", [(0, 1), (1, 0)]), lambda x: -x, x
    ),
    "a branch in a jitted function": lambda x: pl.jit(chosen)(x.sum() > 3, x),
    "a branch in a remade function": lambda x: pl.checkpoint(chosen)(x.sum() > 3, x),
}

TOGETHER = {
    "a branch by a sum": lambda x: chosen(lax.psum(x.sum(), "x") > 3, x),
    "a branch by what all have gathered": lambda x: chosen(
        lax.all_gather(x, "x", to="invarying").max() > 3, x
    ),
    "a branch by the position along another axis": lambda x: chosen(lax.axis_index("y") > 0, x),
    "a branch with a sum along another axis": lambda x: lax.cond(
        x.sum() > 3, lambda x: x * lax.psum(1.0 + lax.axis_index("y"), "y"), lambda x: -x, x
    ),
    "a branch without collectives": lambda x: lax.cond(
        x.sum() > 3, lambda x: x + lax.axis_index("x"), lambda x: x, x
    ),
    "a loop of one length": lambda x: counted(3, x),
    "a loop until all are done": lambda x: lax.while_loop(
        lambda x: lax.pmax(x.max(), "x") < 100, lambda x: summed(x) + 1, x
    ),
}


def mapped(body, mesh, check_vma):
    return pl.shard_map(
        body, mesh=mesh, in_specs=P("x"), out_specs=P(("x", "y")), check_vma=check_vma
    )


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("name", DIVERGING)
def test_devices_that_go_different_ways_are_found(mesh, name, check_vma):
    with pytest.raises(CollectiveError, match="devices that go another way"):
        pl.make_jaxpr(mapped(DIVERGING[name], mesh, check_vma))(X)


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("name", TOGETHER)
def test_devices_that_go_the_same_way_arrive(mesh, name, check_vma):
    assert np.isfinite(mapped(TOGETHER[name], mesh, check_vma)(X)).all()


def test_gathered_values_are_the_same_where_types_say_nothing(mesh):
    body = lambda x: chosen(lax.all_gather(x, "x").max() > 3, x)
    assert np.isfinite(mapped(body, mesh, False)(X)).all()


def test_each_device_of_pmap_takes_its_own_way_only_without_collectives():
    f = pl.pmap(lambda x: chosen(x > 3, x), axis_name="x")
    with pytest.raises(CollectiveError, match="devices that go another way"):
        f(X)


def test_what_the_host_says_may_differ(mesh):
    def body(x):
        flag = pl.experimental.io_callback(lambda: np.float32(1), jnp.zeros(()))
        return chosen(flag > 0, x)

    with pytest.raises(CollectiveError, match="devices that go another way"):
        pl.make_jaxpr(mapped(body, mesh, False))(X)


@pytest.mark.parametrize("check_vma", [True, False])
def test_a_device_alone_along_its_axis_waits_for_nobody(check_vma):
    mesh = pl.make_mesh((1, 8), ("x", "y"), axis_types=(AxisType.Auto,) * 2)

    def body(x):
        ring = lambda x: lax.ppermute(summed(x), "y", [(i, (i + 1) % 8) for i in range(8)])
        return lax.cond(lax.axis_index("x") == 0, ring, lambda x: x, x)

    actual = pl.shard_map(
        body, mesh=mesh, in_specs=P("y"), out_specs=P(("x", "y")), check_vma=check_vma
    )(X)
    np.testing.assert_array_equal(actual, 2 * np.roll(X, 1))


@pytest.mark.parametrize("check_vma", [True, False])
def test_a_way_that_all_take_is_known_in_derivatives_too(mesh, check_vma):
    body = lambda x: chosen(lax.psum(x.sum(), "x") > 3, jnp.sin(x))
    f = pl.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=check_vma)
    np.testing.assert_allclose(pl.grad(lambda x: f(x).sum())(X), 5 * np.cos(X), rtol=1e-6)


@pytest.mark.parametrize("check_vma", [True, False])
def test_permutations_that_the_compiler_adds_are_found(mesh, check_vma):
    over_y = pl.NamedSharding(mesh, P("y"))
    laid_out = lambda x: lax.with_sharding_constraint(x, over_y)

    def turned(predicate, x):
        return lax.cond(predicate, lambda x: laid_out(laid_out(x)[::-1]), lambda x: -x, laid_out(x))

    def compiled(body):
        mapped = pl.shard_map(
            body,
            mesh=mesh,
            in_specs=P("x"),
            out_specs=P("x"),
            axis_names={"x"},
            check_vma=check_vma,
        )
        return pl.jit(mapped).lower(X).compile()

    with pytest.raises(CollectiveError, match="the compiler made it a permutation"):
        compiled(lambda x: turned(lax.axis_index("x") > 1, x))
    together = compiled(lambda x: turned(lax.psum(x.sum(), "x") > 1, x))
    np.testing.assert_array_equal(together(X), X.reshape(4, 2)[:, ::-1].reshape(-1))
