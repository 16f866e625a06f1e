"""Products of arrays with some rows set to 0: the copies that they read on CPUs are made when they run, and kept no longer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid._machine.lowering import selected_products
from pellucid.sharding import NamedSharding, PartitionSpec as P


@pytest.fixture(autouse=True)
def of_small_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selected_products, "MIN_BYTES", 0)


BFLOAT16: Any = jnp.dtype("bfloat16").type
CALL = "@product_of_selection"
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "tanh": jnp.tanh,
    "gelu": pl.nn.gelu,
    "relu": pl.nn.relu,
}


def _array(*shape: int, scale: float = 0.1, dtype: Any = np.float32) -> Any:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * scale).astype(dtype)


def _loss(activation: Callable[[Any], Any]) -> Callable[..., Any]:
    """The sum of what a network gives for rows that are no padding; `rows` are all dimensions of `x` but the last."""

    def loss(weights: Any, x: Any, rows: Any) -> Any:
        for w, b in weights:
            x = activation(x @ w + b)
        return jnp.sum(jnp.where(rows[..., None], jnp.log1p(x * x), 0))

    return loss


def _temporary_bytes(function: Callable[..., Any], *arguments: Any) -> int:
    compiled = pl.jit(function).lower(*arguments).compile()
    return compiled.memory_analysis().temp_size_in_bytes


@pytest.mark.parametrize("n_layers", [2, 6])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("shape", [(1024,), (16, 64)])
def test_gradients_with_padded_rows_keep_no_more_than_others(
    activation: str, n_layers: int, shape: Any
) -> None:
    weights = [(_array(128, 128), _array(128))] * n_layers
    x, rows = _array(*shape, 128), np.random.default_rng(0).random(shape) > 0.25
    gradient = pl.grad(_loss(ACTIVATIONS[activation]))
    plain = _temporary_bytes(gradient, weights, x, rows)
    with pl.masked_gradients():
        masked = _temporary_bytes(gradient, weights, x, rows)
    assert plain > x.nbytes
    assert masked <= 1.05 * plain


@pytest.mark.parametrize("dtype", [np.float32, np.float64, BFLOAT16])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients_with_padded_rows_are_those_of_the_other_rows(
    activation: str, dtype: Any
) -> None:
    weights = [(_array(8, 8, scale=1), _array(8, scale=1)) for _ in range(3)]
    x, rows = _array(4, 6, 8, scale=1), np.random.default_rng(0).random((4, 6)) > 0.25
    loss = _loss(ACTIVATIONS[activation])
    with pl.enable_x64():
        weights, x = pl.tree.map(lambda x: x.astype(dtype), (weights, x))
        expected = pl.grad(loss)(weights, x[rows], np.ones(rows.sum(), bool))
        x[~rows] = np.nan
        with pl.masked_gradients():
            compiled = pl.jit(pl.grad(loss)).lower(weights, x, rows)
            found = compiled.compile()(weights, x, rows)
    assert compiled.as_text().count(f"call {CALL}") == 3
    tolerance = 0.1 if dtype is BFLOAT16 else 1e-4
    for a, b in zip(pl.tree.leaves(found), pl.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(
            np.asarray(a, float), np.asarray(b, float), rtol=tolerance, atol=tolerance
        )


def _selected(x: Any, rows: Any) -> Any:
    return jnp.where(rows[:, None], x, 0)


def _product(x: Any, y: Any) -> Any:
    """The product over rows, as of activations and cotangents."""
    return jnp.einsum("ij,ik->jk", x, y)


def _in_a_loop(x: Any, y: Any, rows: Any) -> Any:
    def body(carry: Any, _: Any) -> Any:
        a, b = carry
        return (jnp.tanh(a @ b.T @ a), b - a @ _product(_selected(a, rows), b)), a[0]

    return pl.lax.scan(body, (x, y), None, length=3)


def _in_a_branch(x: Any, y: Any, rows: Any) -> Any:
    return pl.lax.cond(
        rows[0],
        lambda a, b: _product(_selected(a, rows), b),
        lambda a, b: _product(a, _selected(b, rows)),
        x,
        y,
    )


def _of_an_intermediate(x: Any, y: Any, rows: Any) -> Any:
    """Everything is read before the product, and after it."""
    a, b = jnp.sin(x), jnp.cos(y)
    before = a @ b.T
    product = _product(_selected(a, rows), b)
    return (
        before,
        product,
        a * 2,
        b * product.sum(),
        pl.lax.cond(rows[0], lambda: b + 1, lambda: b - a),
    )


PROGRAMS: dict[str, Callable[..., Any]] = {
    "of an intermediate": _of_an_intermediate,
    "of both": lambda x, y, rows: _product(_selected(x, rows), _selected(y, ~rows)),
    "of one array": lambda x, y, rows: (_product(_selected(x, rows), x), x + 1),
    "of one intermediate": lambda x, y, rows: (_product(_selected(z := jnp.sin(x) @ y.T, rows), z), z @ z + z),
    "from the right": lambda x, y, rows: _product(y, _selected(x, rows)),
    "transposed": lambda x, y, rows: _product(_selected(x, rows), jnp.sin(y)).T * 2,
    "of which something else is chosen": lambda x, y, rows: _product(jnp.where(rows[:, None], 3, x), y),
    "one by another": lambda x, y, rows: _product(_selected(x, rows), _selected(y, rows) @ _product(x, y)),
    "of a batch": lambda x, y, rows: jnp.einsum("bij,bik->bjk", jnp.where(rows[:3, None, None], x.reshape(3, 2, 4), 0), y.reshape(3, 2, 4)),
    "of several dimensions": lambda x, y, rows: jnp.einsum("bij,bik->jk", jnp.where(rows[:3, None, None], x.reshape(3, 2, 4), 0), y.reshape(3, 2, 4) + 1),
    "in a loop": _in_a_loop,
    "in a branch": _in_a_branch,
    "in a call": lambda x, y, rows: [pl.jit(lambda a, b: _product(_selected(a, rows), b))(a, jnp.sin(b)) for a, b in ((x, y), (y, x))],
    "in a batch of programs": lambda x, y, rows: pl.vmap(lambda a, b: _product(_selected(a, rows[:3]), b))(x.reshape(2, 3, 4), y.reshape(2, 3, 4)),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*donated")
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_single_operations(name: str) -> None:
    function = PROGRAMS[name]
    x, y, rows = _array(6, 4, scale=1), _array(4, 6, scale=1).T.copy(), np.arange(6) % 3 > 0
    x[0] = np.nan if name in ("from the right", "one by another", "in a call") else x[0]
    expected = function(x, y, rows)
    # In a loop a copy lives for one iteration in any case.
    assert (CALL in pl.jit(function).lower(x, y, rows).as_text()) == (name != "in a loop")
    for donated in ((), (0, 1)):
        arguments = pl.device_put((x, y, rows))
        found = pl.jit(function, donate_argnums=donated)(*arguments)
        for a, b in zip(pl.tree.leaves(found), pl.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def _text(function: Callable[..., Any], **options: Any) -> str:
    array = pl.ShapeDtypeStruct((64, 32), np.float32)
    arguments = array, array, pl.ShapeDtypeStruct((64,), bool)
    return pl.jit(function).trace(*arguments).lower(**options).as_text()


def test_only_copies_of_arrays_in_memory_are_made_late() -> None:
    product = lambda x, y, rows: _product(_selected(x, rows), jnp.sin(y))
    assert CALL in _text(product)
    assert CALL in _text(lambda x, y, rows: ((z := jnp.sin(x)) @ y.T, product(z, y, rows)))
    # The kernel that computes the rows sets others to 0; so does that of elements.
    assert CALL not in _text(lambda x, y, rows: product(jnp.sin(x), y, rows))
    assert CALL not in _text(lambda x, y, rows: _product(jnp.where(x > 0, x, 0), y))
    # What has other users is kept in any case.
    assert CALL not in _text(lambda x, y, rows: (_product(z := _selected(x, rows), y), jnp.sin(z)))
    assert CALL not in _text(product, lowering_platforms=("tpu",))
    assert CALL not in _text(product, lowering_platforms=("cpu", "tpu"))


def test_programs_in_parts_keep_their_operands() -> None:
    mesh = pl.make_mesh((2,), ("i",), axis_types=(pl.sharding.AxisType.Auto,))
    x, rows = _array(8, 4), np.arange(8) % 2 > 0
    laid_out = pl.device_put(x, NamedSharding(mesh, P("i")))
    lowered = pl.jit(lambda x, rows: _product(_selected(x, rows), x)).lower(laid_out, rows)
    assert CALL not in lowered.as_text()
    np.testing.assert_allclose(lowered.compile()(laid_out, rows), x[rows].T @ x[rows], rtol=1e-5)


def test_weights_are_waited_for_by_nobody() -> None:
    """Only what the program computes is passed on: arguments are there already."""
    text = _text(
        lambda x, y, rows: (_product(_selected(x, rows), y), _product(_selected(y, rows), x))
    )
    assert text.count(f"call {CALL}") == 2
    assert ":2 = call" not in text
