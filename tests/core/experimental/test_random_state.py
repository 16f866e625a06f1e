"""Generators with a state: the reference's draws."""

import numpy as np
import pytest
from corpus.library_programs import stateful_draws

import pellucid as pl
import pellucid.numpy as jnp
from pellucid.experimental.random import stateful_rng


def test_draws_are_those_of_the_reference(oracle) -> None:
    oracle.check(stateful_draws, library=pl)


def _drawn(rng, wrap):
    return pl.vmap(wrap(lambda x: rng.uniform() + x))(jnp.zeros(3))


@pytest.mark.parametrize(
    "wrap",
    [
        lambda f: f,
        pl.jit,
        lambda f: lambda x: pl.lax.scan(lambda c, _: (c, f(x)), 0.0, None, 2)[1],
        lambda f: lambda x: pl.jit(lambda: f(0.0))() + x,
    ],
)
def test_elements_of_a_batch_dont_share_a_generator(wrap):
    with pytest.raises(NotImplementedError, match="add for each of the elements"):
        _drawn(stateful_rng(0), wrap)
    drawn = pl.vmap(wrap(lambda rng: rng.uniform()) if wrap is pl.jit else lambda r: r.uniform())
    assert len(set(np.asarray(drawn(stateful_rng(0).split(3))).tolist())) == 3


def test_one_addition_for_a_whole_batch_is_refused():
    for jit in (pl.jit, lambda f: f):
        ref = pl.new_ref(jnp.zeros(()))
        with pytest.raises(NotImplementedError, match="add for each of the elements"):
            pl.vmap(jit(lambda x, ref=ref: pl.ref.addupdate(ref, (), 1.0)))(jnp.zeros(3))
        assert ref[...] == 0


def test_generators_in_traced_functions_need_a_seed():
    for transform in (pl.jit, pl.grad, pl.vmap):
        with pytest.raises(TypeError, match="needs a seed"):
            transform(lambda x: stateful_rng().uniform() * x.sum())(jnp.zeros(3))
    assert pl.jit(lambda: stateful_rng(0).uniform())() == stateful_rng(0).uniform()


def test_keys_of_a_shape_and_split_generators():
    keys = stateful_rng(0).key((2,))
    expected = pl.random.split(stateful_rng(0).key(), (2,))
    assert (pl.random.key_data(keys) == pl.random.key_data(expected)).all()
    with pytest.raises(ValueError, match="split"):
        stateful_rng(0).split(2).key()
