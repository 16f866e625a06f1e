"""Arrays that are laid out alike: what the compiler does with them, derivatives, batches and mistakes."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid._machine.base.errors import ArgumentValueError
from pellucid.experimental.shard_alike import shard_alike
from pellucid.sharding import AxisType, NamedSharding, PartitionSpec as P

X = np.arange(32, dtype=np.float32).reshape(8, 4)
MESH = pl.make_mesh((4, 2), ("a", "b"), axis_types=(AxisType.Auto,) * 2)


def test_the_layout_of_one_becomes_that_of_the_other() -> None:
    @pl.jit
    def f(x):
        return shard_alike(x, jnp.ones((8, 4)))[1]

    @pl.jit
    def apart(x):
        return jnp.ones((8, 4)) + 0 * x.sum()

    x = pl.device_put(X, NamedSharding(MESH, P("a", "b")))
    assert f(x).sharding.is_equivalent_to(x.sharding, 2)
    assert not apart(x).sharding.is_equivalent_to(x.sharding, 2)
    assert f.lower(x).as_text().count("sdy.sharding_group") == 2


@pytest.mark.parametrize("transform", [lambda f: f, pl.jit], ids=["eager", "jit"])
def test_it_is_the_identity_under_all_transformations(transform) -> None:
    def f(x, y):
        x, y = shard_alike(x, y)
        return x * y

    y = X + 1
    np.testing.assert_array_equal(transform(f)(X, y), X * y)
    gradients = transform(pl.grad(lambda x, y: f(x, y).sum(), argnums=(0, 1)))(X, y)
    np.testing.assert_array_equal(gradients[0], y)
    np.testing.assert_array_equal(gradients[1], X)
    np.testing.assert_array_equal(transform(pl.vmap(f, (1, None), 1))(X, y[:, 0]), X * y[:, :1])
    _, tangent = pl.jvp(lambda x: f(x, y), (X,), (X,))
    np.testing.assert_array_equal(tangent, X * y)


def test_explicit_axes() -> None:
    mesh = pl.make_mesh((4,), ("a",), devices=pl.devices()[:4])
    x = pl.device_put(X, NamedSharding(mesh, P("a")))
    one, other = pl.jit(shard_alike)(x, x + 1)
    assert one.sharding.is_equivalent_to(other.sharding, 2)
    np.testing.assert_array_equal(other, X + 1)


def test_other_shapes_are_refused() -> None:
    with pytest.raises(ArgumentValueError, match="one shape and dtype"):
        shard_alike(X, X[:2])


def test_derivatives_of_jitted_functions_go_through_it():
    def loss(x):
        one, other = shard_alike(x, x * 2)
        return jnp.sum(jnp.sin(one) * other)

    x = np.float32([0.5, 1.0])
    expected = 2 * (np.sin(x) + x * np.cos(x))
    scanned = lambda x: pl.lax.scan(lambda c, _: (c + loss(x), None), 0.0, None, length=2)[0]
    for f, factor in ((pl.jit(loss), 1), (scanned, 2), (pl.checkpoint(loss), 1)):
        np.testing.assert_allclose(pl.grad(f)(x), factor * expected, rtol=1e-5)
    np.testing.assert_allclose(
        pl.linearize(pl.jit(loss), x)[1](np.ones_like(x)), expected.sum(), rtol=1e-5
    )
