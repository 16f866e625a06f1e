"""The native function against a loop in NumPy, and its derivatives against finite differences."""

import numpy as np
import pytest
from linear_recurrence import linear_recurrence

import pellucid as pl
import pellucid.numpy as jnp
from pellucid.test_util import check_grads

RNG = np.random.default_rng(0)
DECAY = RNG.uniform(0.2, 0.9, (3, 6)).astype(np.float32)
X = RNG.normal(size=(3, 6)).astype(np.float32)


def by_loop(decay, x, *, reverse=False):
    """The definition, in float64."""
    decay, x = np.broadcast_arrays(np.asarray(decay, np.float64), np.asarray(x, np.float64))
    y, state = np.zeros(x.shape), np.zeros(x.shape[:-1])
    for t in reversed(range(x.shape[-1])) if reverse else range(x.shape[-1]):
        y[..., t] = state = decay[..., t] * state + x[..., t]
    return y


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("transform", [lambda f: f, pl.jit, pl.vmap], ids=["eager", "jit", "vmap"])
def test_values(transform, reverse):
    y = transform(lambda d, x: linear_recurrence(d, x, reverse=reverse))(DECAY, X)
    np.testing.assert_allclose(y, by_loop(DECAY, X, reverse=reverse), rtol=1e-5)


def test_a_batch_of_one_operand():
    y = pl.vmap(linear_recurrence, in_axes=(None, 1))(DECAY[0], X.T)
    np.testing.assert_allclose(y, by_loop(DECAY[0], X), rtol=1e-5)


def test_an_empty_axis():
    assert linear_recurrence(jnp.ones((2, 0)), jnp.ones((2, 0))).shape == (2, 0)


def test_float64():
    with pl.enable_x64(True):
        x = X.astype(np.float64)
        y = linear_recurrence(DECAY, x)
        assert y.dtype == jnp.float64
        np.testing.assert_allclose(y, by_loop(DECAY, x), rtol=1e-14)


@pytest.mark.parametrize("reverse", [False, True])
def test_derivatives(reverse):
    f = lambda d, x: linear_recurrence(d, x, reverse=reverse)
    check_grads(f, (DECAY, X), order=2, modes=["rev"], rtol=0.02, atol=0.02)


def test_rows_over_devices():
    mesh = pl.make_mesh((3,), ("rows",), axis_types=(pl.sharding.AxisType.Auto,))
    rows = pl.NamedSharding(mesh, pl.P("rows"))
    f = pl.jit(pl.vmap(linear_recurrence), in_shardings=rows)
    assert "all-gather" not in f.lower(DECAY, X).compile().as_text()
    y = f(DECAY, X)
    assert {shard.data.shape for shard in y.addressable_shards} == {(1, 6)}
    np.testing.assert_allclose(y, by_loop(DECAY, X), rtol=1e-5)


def test_what_it_does_not_take():
    with pytest.raises(ValueError, match="needs an axis"):
        linear_recurrence(0.5, 1.0)
    with pytest.raises(TypeError, match="not complex64"):
        linear_recurrence(0.5, jnp.ones(3, jnp.complex64))
