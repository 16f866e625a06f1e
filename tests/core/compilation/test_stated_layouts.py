"""Layouts over Explicit mesh axes that functions can't give their results: they are refused, eagerly and in a trace."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid.sharding import AxisType, NamedSharding, PartitionSpec as P, set_mesh

MIXED = pl.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit, AxisType.Auto))
OTHER = pl.make_mesh((4, 2), ("a", "b"), axis_types=(AxisType.Explicit,) * 2)
EXPLICIT = pl.make_mesh((8,), ("x",), axis_types=(AxisType.Explicit,))
X = np.ones((8, 8), np.float32)

FUNCTIONS = {
    "zeros": lambda s: jnp.zeros((8, 8), out_sharding=s),
    "full_like": lambda s: jnp.full_like(X, 2, out_sharding=s),
    "asarray": lambda s: jnp.asarray(X, out_sharding=s),
    "iota": lambda s: lax.broadcasted_iota(np.int32, (8, 8), 0, out_sharding=s),
    "matmul": lambda s: jnp.matmul(X, X, out_sharding=s),
    "einsum": lambda s: jnp.einsum("ij,jk->ik", X, X, out_sharding=s),
    "reshape": lambda s: jnp.reshape(X, (8, 8), out_sharding=s),
    "broadcast_to": lambda s: jnp.broadcast_to(X[0], (8, 8), out_sharding=s),
    "get": lambda s: jnp.asarray(X).at[:8].get(out_sharding=s),
    "uniform": lambda s: pl.random.uniform(pl.random.key(0), (8, 8), out_sharding=s),
}


@pytest.mark.parametrize("transform", [lambda f: f, pl.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_layouts_over_other_meshes_and_auto_axes_are_refused(name, transform):
    function = FUNCTIONS[name]
    with set_mesh(MIXED):
        assert transform(lambda: function(P("x")))().sharding.spec in (P("x"), P("x", None))
        for stated in (P(None, "y"), NamedSharding(OTHER, P("a", "b"))):
            with pytest.raises(ValueError, match=r"Explicit mesh axes|over another mesh"):
                transform(lambda s=stated: function(s))()


@pytest.mark.parametrize("transform", [lambda f: f, pl.jit], ids=["eager", "jit"])
def test_a_constraint_does_not_take_an_explicit_axis_for_an_auto_one(transform):
    auto = pl.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    with set_mesh(EXPLICIT), pytest.raises(AssertionError, match="the layouts differ"):
        transform(lambda: lax.with_sharding_constraint(jnp.ones(8), NamedSharding(auto, P("x"))))()


@pytest.mark.parametrize("transform", [lambda f: f, pl.jit], ids=["eager", "jit"])
def test_loops_along_a_cut_axis_are_refused(transform):
    with set_mesh(EXPLICIT):
        xs = pl.device_put(X, P("x"))
        for loop in (
            lambda xs: lax.scan(lambda c, x: (c, x), 0.0, xs),
            lambda xs: lax.scan(lambda c, x: (c, x), 0.0, {"a": xs}, reverse=True),
            lambda xs: lax.map(lambda x: x, xs),
        ):
            with pytest.raises(ValueError, match=r"xs.*f32\[8@x,8\]"):
                transform(loop)(xs)
        rows = pl.device_put(X, P(None, "x"))
        assert transform(lambda xs: lax.map(lambda x: x * 2, xs))(rows).sharding.spec == P(
            None, "x"
        )
