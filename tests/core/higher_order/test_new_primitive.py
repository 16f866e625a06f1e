"""A control-flow primitive in one file has all rules, and readers of programs know it by its slots."""

import numpy as np
import pytest

import pellucid as pl
from pellucid import lax, numpy as jnp
from pellucid._machine.base.errors import CollectiveError, MissingRule
from pellucid.experimental import checkify
from pellucid.introspect.bodies import bodies_of
from pellucid.sharding import PartitionSpec as P
from tests.core.higher_order.repeat_until import repeat_until

X = np.float32(1.1)


def doubled(x, factor=2.0, stop=10.0):
    return repeat_until(lambda x: x * factor, lambda x: x > stop, x)


def test_it_runs_the_body_once_before_it_asks():
    assert repeat_until(lambda x: x + 1, lambda x: x > 0, 5) == 6
    assert pl.jit(doubled)(X) == np.float32(17.6)
    assert "repeat_until[" in str(pl.make_jaxpr(doubled)(X))


def test_derivatives():
    np.testing.assert_allclose(pl.jvp(doubled, (X,), (np.float32(1),))[1], 16)
    np.testing.assert_allclose(pl.jit(pl.jacfwd(doubled, argnums=1))(X, 2.0), 4 * 8 * X, rtol=1e-6)
    np.testing.assert_allclose(pl.linearize(doubled, X)[1](np.float32(2)), 32)
    with pytest.raises(MissingRule, match="known only when it runs"):
        pl.grad(doubled)(X)


def test_elements_of_a_batch_end_apart():
    xs = np.array([1.1, 6, 11], np.float32)
    np.testing.assert_array_equal(pl.vmap(doubled)(xs), [doubled(x) for x in xs])
    by_factor = pl.vmap(doubled, (None, 0))(X, np.float32([2, 20]))
    np.testing.assert_allclose(by_factor, [17.6, 22], rtol=1e-6)


def test_it_reads_and_writes_references():
    def summed(x):
        total = pl.new_ref(np.float32(0))

        def body(x):
            total[...] += x
            return x * 2

        return repeat_until(body, lambda x: x > 10, x), total[...]

    np.testing.assert_allclose(pl.jit(summed)(X), (17.6, 16.5), rtol=1e-6)


def test_it_goes_where_nobody_uses_its_results():
    program = pl.jit(lambda x: (doubled(x), x + 1)[1])
    assert "while" in pl.jit(doubled).lower(X).as_text()
    assert "while" not in program.lower(X).as_text()


def test_checks_within():
    def checked(x):
        def body(x):
            checkify.check(x < 8, "{} is large", x)
            return x * 2

        return repeat_until(body, lambda x: x > 10, x)

    error, result = pl.jit(checkify.checkify(checked))(X)
    assert result == np.float32(17.6)
    assert "8.8" in error.get()


def test_readers_find_both_programs_of_unknown_trips():
    [equation] = pl.make_jaxpr(doubled)(X).jaxpr.equations
    actual = [(body.role, body.trips, body.is_branch) for body in bodies_of(equation)]
    assert actual == [("body_jaxpr", None, False), ("until_jaxpr", None, False)]


def test_collectives_in_steps_that_end_apart():
    mesh = pl.sharding.Mesh(np.array(pl.devices()), ("i",))

    def diverging(x):
        return repeat_until(lambda x: x + lax.psum(x, "i"), lambda x: jnp.sum(x) > 10, x)

    with pytest.raises(CollectiveError, match="`psum` in a repeat_until loop would wait"):
        pl.shard_map(diverging, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False)(
            np.ones(8, np.float32)
        )
