"""Updates of a part of an array that are computed from the array itself: XLA must not read what it has overwritten."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax

X = np.arange(1, 9, dtype=np.float32) ** 2

UPDATES: dict[str, Callable[[Any], Any]] = {
    "slice": lambda x: lax.dynamic_update_slice(x, x[:3], (1,)),
    "dynamic slice": lambda x: lax.dynamic_update_slice(x, lax.dynamic_slice(x, (jnp.int32(0),), (3,)), (1,)),
    "reversed": lambda x: lax.dynamic_update_slice(x, x[:4][::-1], (2,)),
    "scatter": lambda x: x.at[1:].set(2 * x[:-1]),
    "scatter-add": lambda x: x.at[1:].add(x[:-1]),
    "of a reshaped array": lambda x: lax.dynamic_update_slice(x.reshape(2, 4), x[:3].reshape(1, 3), (0, 1)).reshape(8),
    "of an array with one more axis": lambda x: lax.dynamic_update_slice(x[None], x[None, :3], (0, 1))[0],
    "scatter into a reshaped array": lambda x: x.reshape(1, 8).at[0, 1:].set(x[:-1]).reshape(8),
    "scatter-add to a reshaped array": lambda x: x.reshape(2, 4).at[0, 1:].add(x[:3]).reshape(8),
}  # fmt: skip

WAYS: dict[str, Callable[[Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "reshaped": lambda f: lambda x: f(x).reshape(1, 8),
    "stacked by a loop": lambda f: lambda x: lax.scan(lambda c, _: (c, f(x)), 0, None, 2)[1][1],
    "carried by a loop": lambda f: lambda x: lax.scan(lambda c, _: (f(c), f(c)), x, None, 1)[1],
    "carried with one more axis": lambda f: (
        lambda x: lax.fori_loop(0, 1, lambda i, c: f(c.reshape(8)).reshape(1, 8), x.reshape(1, 8))
    ),
    "in a call": lambda f: lambda x: pl.jit(lambda y: f(y).reshape(1, 8))(x),
}


@pytest.mark.parametrize("update", UPDATES)
def test_an_update_is_computed_before_anything_is_overwritten(update: str) -> None:
    expected = np.asarray(UPDATES[update](jnp.asarray(X)))
    for name, way in WAYS.items():
        got = pl.jit(way(UPDATES[update]))(X)
        np.testing.assert_array_equal(np.asarray(got).reshape(8), expected, err_msg=name)


def test_an_update_from_elsewhere_is_written_in_place() -> None:
    text = pl.jit(lambda x, u: lax.dynamic_update_slice(x, u * 2, (1,))).lower(X, X[:2]).as_text()
    assert "optimization_barrier" not in text


def test_an_array_of_one_element_is_updated_by_a_long_computation() -> None:
    def update(x: Any) -> Any:
        y = x
        for _ in range(80):
            y = jnp.sin(y)
        return x.at[0].set(y[0])

    x = np.float32([0.5])
    np.testing.assert_array_equal(pl.jit(update)(x), update(jnp.asarray(x)))
