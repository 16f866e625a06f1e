"""Functions that move elements, where they change nothing."""

import numpy as np
import pytest

import pellucid as pl
from pellucid import lax

CHANGE_NOTHING = {
    "reshape": lambda x: lax.reshape(x, (2, 3)),
    "transpose": lambda x: lax.transpose(x, (0, 1)),
    "broadcast": lambda x: lax.broadcast(x, ()),
    "broadcast_in_dim": lambda x: lax.broadcast_in_dim(x, (2, 3), (0, 1)),
    "broadcast_to_rank": lambda x: lax.broadcast_to_rank(x, 1),
    "squeeze": lambda x: lax.squeeze(x, ()),
    "expand_dims": lambda x: lax.expand_dims(x, ()),
    "collapse": lambda x: lax.collapse(x, 0, 1),
    "concatenate": lambda x: lax.concatenate([x], 0),
    "reduce_sum": lambda x: lax.reduce_sum(x, ()),
    "reduce": lambda x: lax.reduce(x, np.float32(0), lax.add, ()),
    "pmax": lambda x: lax.pmax(x, ()),
    "fft": lambda x: lax.real(lax.fft(x, "FFT", ())),
}


class Wrapped:
    def __init__(self, array):
        self.array = array

    def __jax_array__(self):
        return self.array


@pytest.mark.parametrize("function", CHANGE_NOTHING.values(), ids=CHANGE_NOTHING)
def test_what_changes_nothing_gives_an_array_of_its_own(function):
    x = np.ones((2, 3), np.float32)
    result = function(x)
    x[:] = 0
    assert isinstance(result, pl.Array)
    assert result.tolist() == [[1, 1, 1]] * 2
    array = pl.device_put(np.ones((2, 3), np.float32))
    assert isinstance(function(Wrapped(array)), pl.Array)
    assert pl.make_jaxpr(lax.squeeze, static_argnums=1)(array, ()).jaxpr.equations == ()


def test_a_number_that_is_not_changed_is_weakly_typed():
    assert lax.reshape(2.0, ()).weak_type
    assert lax.broadcast(2.0, ()).dtype == np.float32


def test_an_array_that_is_not_changed_is_given_back():
    array = pl.device_put(np.ones((2, 3), np.float32))
    assert lax.reshape(array, (2, 3)) is array
