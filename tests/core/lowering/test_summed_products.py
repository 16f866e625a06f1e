"""Sums of products of matrices over few rows, with many results: a library for CPUs puts some of them at other places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid._machine.lowering import faults

_rng = np.random.default_rng(0)
SMALL, ROWS = _rng.random((3, 3)), _rng.random((40_000, 3))
BATCH = _rng.random((4, 3, 3)), _rng.random((4, 17_000, 3))


def _of_each_row(matrix: Any, rows: Any) -> Any:
    return pl.vmap(lambda row: ((matrix @ row) ** 2).sum())(rows)


def _through_calls(matrix: Any, rows: Any) -> Any:
    product = pl.jit(lambda a, b: jnp.tanh(jnp.einsum("ij,nj->in", a, b)))
    total = pl.jit(lambda y: y.sum(0))
    return total(product(matrix, rows))


def _in_a_loop(matrix: Any, rows: Any) -> Any:
    step = lambda total, _: (total + jnp.einsum("ij,nj->in", matrix, rows).sum(0), None)
    return pl.lax.scan(step, jnp.zeros(len(rows), rows.dtype), None, length=2)[0]


def _product(matrix: Any, rows: Any) -> Any:
    return jnp.einsum("ij,nj->in", matrix, rows)


def _sums(matrix: Any, rows: Any) -> Any:
    return (rows @ matrix.T).sum(1)


def _of_two(x: Any) -> Any:
    zero = x.dtype.type(0)
    both = lambda a, b: (a[0] + b[0], a[1] + b[1])
    return pl.lax.reduce((x, 2 * x), (zero, zero), both, (0,))[0]


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, Any], Callable[..., Any]]] = {
    "of each row": (_of_each_row, (SMALL, ROWS), lambda a, b: ((b @ a.T) ** 2).sum(1)),
    "mean": (lambda a, b: jnp.einsum("ij,nj->in", a, b).mean(0), (SMALL, ROWS), lambda a, b: (b @ a.T).mean(1)),
    "through calls": (_through_calls, (SMALL, ROWS), lambda a, b: np.tanh(b @ a.T).sum(1)),
    "in a loop": (_in_a_loop, (SMALL, ROWS), lambda a, b: 2 * (b @ a.T).sum(1)),
    "by a function of one's own": (lambda a, b: pl.lax.reduce(_product(a, b), b.dtype.type(0), lambda x, y: x + y * 1, (0,)), (SMALL, ROWS), _sums),
    "of two arrays": (lambda a, b: _of_two(_product(a, b)), (SMALL, ROWS), _sums),
    "over windows": (lambda a, b: pl.lax.reduce_window(_product(a, b), b.dtype.type(0), pl.lax.add, (3, 1), (1, 1), "VALID")[0], (SMALL, ROWS), _sums),
    "over windows by a function of one's own": (lambda a, b: pl.lax.reduce_window(_product(a, b), b.dtype.type(0), lambda x, y: x + y * 1, (3, 1), (1, 1), "VALID")[0], (SMALL, ROWS), _sums),
    "cumulative": (lambda a, b: jnp.cumsum(_product(a, b), 0)[-1], (SMALL, ROWS), _sums),
    "by products of elements": (lambda a, b: jnp.vecdot(_product(a, b), _product(a, b), axis=0), (SMALL, ROWS), lambda a, b: ((b @ a.T) ** 2).sum(1)),
    "of batches": (lambda a, b: jnp.einsum("bij,bnj->bin", a, b).sum(1), BATCH, lambda a, b: np.einsum("bij,bnj->bn", a, b)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_at_their_places(name: str, dtype: Any) -> None:
    function, operands, expected = PROGRAMS[name]
    with pl.enable_x64():
        found = pl.jit(function)(*(x.astype(dtype) for x in operands))
    np.testing.assert_allclose(found, expected(*operands), rtol=1e-5)


def _text(function: Callable[..., Any], *operands: Any) -> str:
    return pl.jit(function).lower(*operands).as_text()


def test_only_sums_that_may_go_wrong_are_kept_apart() -> None:
    product = lambda a, b: jnp.einsum("ij,nj->in", a, b)
    large = pl.ShapeDtypeStruct((40_000, 3), np.float32)
    apart = "stablehlo.select"
    assert apart in _text(lambda a, b: product(a, b).sum(0), SMALL, large)
    with faults.without_workaround("summed-product"):
        assert apart not in _text(lambda a, b: 1 * product(a, b).sum(0), SMALL, large)
    # A loss, a sum with few results, one of no product, one of integers.
    assert apart not in _text(lambda a, b: product(a, b).sum(), SMALL, large)
    assert apart not in _text(lambda a, b: product(a, b).sum(1), SMALL, large)
    assert apart not in _text(lambda b: (b * b).sum(1), large)
    integers = pl.ShapeDtypeStruct((40_000, 3), np.int32)
    assert apart not in _text(
        lambda a, b: product(a, b).sum(0), np.ones((3, 3), np.int32), integers
    )


def test_symbolic_sizes_may_be_large() -> None:
    [n] = pl.export.symbolic_shape("n")
    rows = pl.ShapeDtypeStruct((n, 3), np.float32)
    exported = pl.export.export(pl.jit(_of_each_row))(np.float32(SMALL), rows)
    found = exported.call(np.float32(SMALL), np.float32(ROWS))
    np.testing.assert_allclose(found, ((ROWS @ SMALL.T) ** 2).sum(1), rtol=1e-5)
