"""Windows and elements of windows at computed positions, inside and outside, are those that NumPy finds step by step."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax

X = np.arange(1.0, 9.0, dtype=np.float32)
POSITIONS = [(-1, 4), (0, 0), (2, 1), (3, 3), (5, 2), (9, -1), (4, 7)]


def window(x: Any, start: Any, size: int) -> Any:
    return lax.dynamic_slice(x, (start,), (size,), allow_negative_indices=False)


def written(x: Any, update: Any, start: Any) -> Any:
    return lax.dynamic_update_slice(x, update, (start,), allow_negative_indices=False)


def inside(start: int, size: int, of: int) -> int:
    return min(max(start, 0), of - size)


def five(i: int) -> np.ndarray:
    """Five elements from the position that is nearest to i."""
    start = inside(i, 5, len(X))
    return X[start : start + 5]


def two_of_five(i: int, j: int) -> np.ndarray:
    start = inside(j, 2, 5)
    return five(i)[start : start + 2]


def _rewritten(i: int, j: int) -> np.ndarray:
    y = X.copy()
    start = inside(i, 5, len(X)) + inside(j, 2, 5)
    y[start : start + 2] = 0
    return y


def _scanned(y: Any, j: Any) -> Any:
    return lax.scan(lambda c, e: (c + window(e, j, 2), None), jnp.zeros(2), y[None])[0]


WINDOWS: dict[str, tuple[Callable[..., Any], Callable[[int, int], Any]]] = {
    "slices": (lambda x, i, j: window(window(x, i, 5), j, 2), two_of_five),
    "factor 1": (lambda x, i, j: window(window(x, i, 5) * 1, j, 2), two_of_five),
    "inner function": (lambda x, i, j: window(pl.jit(window, static_argnums=2)(x, i, 5), j, 2), two_of_five),
    "outer function": (lambda x, i, j: pl.jit(window, static_argnums=2)(window(x, i, 5), j, 2), two_of_five),
    "loop of one run": (lambda x, i, j: _scanned(window(x, i, 5), j), two_of_five),
    "branch": (
        lambda x, i, j: window(lax.cond(i > 2, lambda: window(x, i, 5), lambda: window(x, i, 5)), j, 2), two_of_five,
    ),
    "new axis": (
        lambda x, i, j: lax.dynamic_slice(window(x, i, 5)[:, None], (j, 0), (2, 1), allow_negative_indices=False)[:, 0], two_of_five,
    ),
    "clipped element": (lambda x, i, j: window(x, i, 5).at[j].get(mode="clip", wrap_negative_indices=False), lambda i, j: five(i)[inside(j, 1, 5)]),
    "constant position": (lambda x, i, j: window(window(x, i, 5), 9, 2), lambda i, j: five(i)[3:]),
    "update of a slice": (lambda x, i, j: written(x, written(window(x, i, 5), jnp.zeros(2), j), i), _rewritten),
    "batch": (lambda x, i, j: pl.vmap(lambda j: window(window(x, i, 5), j, 2))(j[None])[0], two_of_five),
}  # fmt: skip


@pytest.mark.parametrize("row", WINDOWS)
def test_windows_of_windows(row: str) -> None:
    f, expected = WINDOWS[row]
    f = pl.jit(f)
    for i, j in POSITIONS:
        np.testing.assert_array_equal(f(X, np.int32(i), np.int32(j)), expected(i, j), str((i, j)))


PRODUCTS: dict[str, Callable[..., Any]] = {
    "product": lambda x, i, j: window(window(x, i, 4) * 3, j, 1),
    "twice": lambda x, i, j: window(window(x, i, 4) * 3 * 5, j, 1) // 5,
    "element": lambda x, i, j: (window(x, i, 4) * 3)[j, None],
    "sum of copies": lambda x, i, j: window(jnp.broadcast_to(window(x, i, 4), (3, 4)).sum(0, x.dtype), j, 1),
    "matrix product": lambda x, i, j: window((window(x, i, 4)[:, None] @ jnp.full((1, 1), 3, x.dtype))[:, 0], j, 1),
    "outer function": lambda x, i, j: pl.jit(lambda y: window(y, j, 1))(window(x, i, 4) * 3),
    "inner function": lambda x, i, j: window(pl.jit(lambda y: y * 3)(window(x, i, 4)), j, 1),
    "loop of one run": lambda x, i, j: lax.fori_loop(
        0, 1, lambda _, c: c + window(window(x, i, 4) * 3, j, 1), jnp.zeros(1, x.dtype)
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int16", "float32"])
@pytest.mark.parametrize("row", PRODUCTS)
def test_elements_of_products_of_slices(row: str, dtype: str) -> None:
    f, x = pl.jit(PRODUCTS[row]), X.astype(dtype)
    for i, j in product((0, 2), (0, 1, 3)):
        np.testing.assert_array_equal(f(x, np.int32(i), np.int32(j)), 3 * x[[i + j]])


@pytest.mark.parametrize("shape", [(4, 2), (2, 4)])
@pytest.mark.parametrize(("first", "second"), ["xy", "yx"])
def test_products_of_uneven_parts(first: str, second: str, shape: tuple[int, int]) -> None:
    """Devices exchange parts of the arrays, of which each has one element."""
    mesh = pl.make_mesh(shape, ("x", "y"), axis_types=(pl.sharding.AxisType.Auto,) * 2)
    over = lambda x, axis: lax.with_sharding_constraint(x, pl.NamedSharding(mesh, pl.P(axis)))

    def f(a: Any, b: Any) -> Any:
        for _ in range(3):
            a, b = a * 5 ^ b, a * 3
        return a, b

    a, b = np.array([1, 2, 3], np.uint32), np.array([7, 8, 9], np.uint32)
    found = pl.jit(lambda a, b: f(over(a, first), over(b, second)))(a, b)
    np.testing.assert_array_equal(found, f(a, b))
