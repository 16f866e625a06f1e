"""`Array`: a class with the methods of arrays, whose instances are arrays and tracers."""

import pickle

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid._machine.xla.arrays import ARRAY_TYPES


def test_the_class_has_the_methods_that_arrays_have():
    vector = jnp.array([3.0, 1.0, 2.0])
    assert pl.Array.__module__ == "pellucid"
    assert pl.Array.__name__ == "Array"
    assert float(pl.Array.max(vector)) == 3
    np.testing.assert_array_equal(pl.Array.__add__(vector, 1), vector + 1)
    np.testing.assert_array_equal(pl.Array.T.fget(vector), vector)
    shared = set.intersection(*({n for n in dir(c) if n[0] != "_"} for c in ARRAY_TYPES))
    assert [name for name in shared if not hasattr(pl.Array, name)] == []


def test_what_arrays_of_some_dtypes_refuse_stays_refused():
    keys = pl.random.split(pl.random.key(0))
    assert isinstance(keys, pl.Array)
    with pytest.raises(TypeError):
        keys + 1


def test_the_class_is_pickled_by_name():
    assert pickle.loads(pickle.dumps(pl.Array)) is pl.Array
