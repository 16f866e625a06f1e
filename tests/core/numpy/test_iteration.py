"""Iteration over arrays: the rows, by programs that give many of them."""

import itertools

import numpy as np
import pytest

import pellucid as pl
from pellucid import numpy as jnp
from pellucid._machine.base.errors import DeletedArrayError
from pellucid.numpy import joining, operators

BLOCK = operators._MAX_UNSTACKED_ROWS


@pytest.mark.parametrize("width", [2, operators._MIN_ROW_SIZE])
@pytest.mark.parametrize("n", [0, 1, BLOCK, BLOCK + 1, 2 * BLOCK + 3])
def test_rows_are_those_of_numpy(n, width):
    x = np.arange(width * n, dtype=np.int16).reshape(n, width)
    rows = list(jnp.array(x))
    assert len(rows) == n
    for row, expected in zip(rows, x, strict=True):
        assert row.dtype == np.int16
        np.testing.assert_array_equal(row, expected)


@pytest.mark.parametrize("n", [2, BLOCK + 1])
def test_rows_keep_type_and_place(n):
    device = pl.devices()[1]
    weak = pl.device_put(jnp.broadcast_to(jnp.asarray(1.0), n), device)
    assert {(row.weak_type, row.device) for row in weak} == {(weak.weak_type, device)}
    keys = pl.random.split(pl.random.key(0), n)
    words = [pl.random.key_data(key) for key in keys]
    np.testing.assert_array_equal(words, pl.random.key_data(keys))


def test_rows_are_computed_in_blocks_when_they_are_asked_for(monkeypatch):
    blocks = []
    unstack = joining.unstack
    monkeypatch.setattr(joining, "unstack", lambda x: (blocks.append(len(x)), unstack(x))[1])
    rows = iter(jnp.arange(3 * BLOCK))
    assert blocks == []
    assert [int(row) for row in itertools.islice(rows, BLOCK)] == list(range(BLOCK))
    assert blocks == [BLOCK]
    assert int(next(rows)) == BLOCK
    assert blocks == [BLOCK, BLOCK]


@pytest.mark.parametrize("shape", [(3 * BLOCK,), (3 * BLOCK, operators._MIN_ROW_SIZE)])
def test_an_array_deleted_before_or_during_iteration_is_refused(shape):
    x = jnp.ones(shape)
    rows = iter(x)
    next(rows)
    x.delete()
    assert len(list(itertools.islice(rows, BLOCK - 1))) == BLOCK - 1
    with pytest.raises(DeletedArrayError):
        next(rows)
    with pytest.raises(DeletedArrayError):
        next(iter(x))


def test_a_scalar_is_refused_before_its_first_row():
    with pytest.raises(TypeError, match="0-dimensional"):
        iter(jnp.asarray(1.0))


def test_arrays_are_iterated_over_while_a_function_is_traced():
    x = jnp.arange(2.0 * BLOCK)
    total = pl.jit(lambda y: sum(row * y for row in x))
    assert total(1.0) == x.sum()
    assert pl.grad(lambda y: sum(row * y for row in x))(1.0) == x.sum()
    assert pl.grad(lambda x: sum(row * row for row in x))(x)[3] == 6


@pytest.mark.parametrize("n", [8, 40])
@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
def test_rows_of_an_array_over_devices(kind, n):
    kinds = (getattr(pl.sharding.AxisType, kind),) * 2
    mesh = pl.make_mesh((2, 4), ("a", "b"), axis_types=kinds)
    x = np.arange(8.0 * n, dtype=np.float32).reshape(n, 8)
    for spec in (pl.P("a"), pl.P(None, "b"), pl.P("a", "b")):
        rows = list(pl.device_put(x, pl.NamedSharding(mesh, spec)))
        np.testing.assert_array_equal(rows, x)
        padded = (*spec, None)[:2]
        if kind == "Explicit":
            assert {row.sharding.spec for row in rows} == {pl.P(padded[1])}
