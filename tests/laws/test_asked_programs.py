"""Programs of the kinds that users of array libraries have asked about for years, in our own words, give what mathematics gives.

Names say which thread of jax-ml/jax or openxla/xla asks for them. Of 22398 and 40564 we have no text: their programs are of the
kind that the threads named with them ask for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp

POINTS = np.float32([[1, 2], [3, 4], [0, 0]])
LENGTHS = np.sqrt((POINTS**2).sum(1, keepdims=True))


def lengths_of_far_points(points: Any) -> Any:
    lengths = jnp.sqrt((points * points).sum(axis=1))
    return jnp.where(lengths > 0.5, lengths, 1.0).sum()


def distances_of_pairs(points: Any) -> Any:
    between = points[:, None] - points
    others = ~np.eye(len(points), dtype=bool)
    return jnp.where(others, jnp.linalg.norm(between, axis=-1), 0).sum() / 2


def angles_but_one(x: Any) -> Any:
    return jnp.where(np.array([False, True, False]), 0.0, jnp.arctan2(x, x)).sum()


def product_not_taken(scale: Any) -> Any:
    return pl.lax.select(False, scale * jnp.float32(np.nan), jnp.float32(1))


def powers_of_positive(x: Any) -> Any:
    return jnp.where(x > 0, x**0.5, 0).sum()


def kept_powers(x: Any) -> Any:
    """Powers of positive elements, chosen by positions once all are computed."""
    return ((np.float32([0, 1]) * x) ** 0.5)[np.array([1])].sum()


def inverse_distances(points: Any) -> Any:
    others = ~np.eye(len(points), dtype=bool)
    lengths = jnp.sqrt(((points[:, None] - points) ** 2).sum(-1))
    lengths = jnp.where(others, lengths, 0)
    return jnp.where(others, 1 / lengths, 0).sum() / 2


def infinite_where_off(x: Any) -> Any:
    return jnp.where(x > 0, 0.0, x * jnp.inf)


def standardized_rows(x: Any) -> Any:
    """Rows without a spread stay what they are."""
    centered = x - x.mean(axis=1, keepdims=True)
    spread = jnp.sqrt((centered**2).mean(axis=1, keepdims=True))
    return (jnp.where(spread > 0, centered / spread, x) * np.float32([1, 2])).sum()


def _unit(x: Any) -> Any:
    return np.divide(x, LENGTHS, out=np.zeros_like(x), where=LENGTHS > 0)


def steps_until_the_end(x: Any) -> Any:
    """Elements that have arrived stay what they are, in a loop that computes a step of all."""

    def step(y: Any, _: Any) -> Any:
        return jnp.where(y > 1, jnp.sqrt(jnp.log(y)) + 1, y), None

    return pl.lax.scan(step, x, None, length=3)[0].sum()


def _step_slopes(x: Any) -> Any:
    y, slopes = np.float64(x), np.ones(len(x))
    for _ in range(3):
        moves = y > 1
        root = np.sqrt(np.log(np.where(moves, y, 2)))
        slopes *= np.where(moves, 1 / (2 * np.where(moves, y, 2) * root), 1)
        y = np.where(moves, root + 1, y)
    return slopes


PAIRS = POINTS[:, None] - POINTS
FAR = np.where(np.eye(3, dtype=bool), 1, np.linalg.norm(PAIRS, axis=-1))[..., None]
MASKED: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "347, lengths": (lengths_of_far_points, POINTS, _unit(POINTS)),
    "347, distances of pairs": (distances_of_pairs, POINTS, (PAIRS / FAR).sum(1)),
    "1052, angles": (angles_but_one, np.float32([3, 0, -5]), np.zeros(3)),
    "20601, a product with NaN": (product_not_taken, np.float32(2.3), 0),
    "19089, powers": (powers_of_positive, np.float32([0, 1, 4]), [0, 0.5, 0.25]),
    "19089, chosen powers": (kept_powers, np.float32(1), 0.5),
    "3407, inverse distances": (inverse_distances, POINTS, -(PAIRS / FAR**3).sum(1)),
    "2630, infinity": (infinite_where_off, np.float32(1), 0),
    "22398, steps until the end": (
        steps_until_the_end,
        np.float32([1, 3, 9]),
        _step_slopes([1, 3, 9]),
    ),
    # The derivative of (a, b) / spread is 0: both are 1 and -1 whatever they are.
    "a spread of 0": (standardized_rows, np.float32([[5, 5], [3, 1]]), [[1, 2], [0, 0]]),
}


@pytest.mark.parametrize("name", MASKED)
def test_gradients_without_nan_of_what_is_not_selected(name: str) -> None:
    function, x, expected = MASKED[name]
    assert not np.isfinite(pl.grad(function)(x)).all()
    with pl.masked_gradients():
        for way in (pl.grad(function), pl.jit(pl.grad(function))):
            np.testing.assert_allclose(way(x), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_attention_over_large_logits_is_as_eager(seed: int) -> None:
    """38609: exponentials of matrices as queries. 37234: products of products as logits."""
    rng = np.random.default_rng(seed)
    matrix, keys, values = rng.standard_normal((3, 5, 5)).astype(np.float32)

    def attended(matrix: Any, keys: Any, values: Any, size: float) -> Any:
        queries = pl.scipy.linalg.expm(matrix @ matrix.T) * size
        weights = pl.nn.softmax(queries @ keys.T * 5**-0.5, axis=-1)
        return weights @ values

    for size in (1.0, 1e9, 1e18):
        eager = attended(matrix, keys, values, size)
        compiled = pl.jit(attended)(matrix, keys, values, size)
        assert np.isfinite(eager).all()
        np.testing.assert_allclose(compiled, eager, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("temperature", [0.7, 3.0, 1e-9])
def test_normalized_exponentials_are_as_eager(temperature: float) -> None:
    """40564 and 38609: logits by a temperature that is no power of 2, through each function that subtracts a maximum."""
    logits = np.random.default_rng(1).standard_normal((6, 7)).astype(np.float32) * 1e9

    def own(x: Any) -> Any:
        powers = jnp.exp(x - x.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)

    for normalize in (own, pl.nn.softmax, pl.nn.log_softmax, pl.nn.logsumexp):
        function = lambda x, f=normalize: f(x / temperature)
        eager = function(logits)
        assert np.isfinite(eager).all()
        assert np.isfinite(pl.jit(function)(logits)).all()
        with pl.exact_arithmetic():
            np.testing.assert_array_equal(pl.jit(function)(logits), eager)


def test_sums_of_products_that_cancel() -> None:
    """openxla/xla 41579: a x + b x of opposite factors is 0, unless one of the products isn't rounded."""
    x, a = np.float32([1.1e15, 3.3e20]), np.float32(1 / 3)
    with pl.exact_arithmetic():
        np.testing.assert_array_equal(pl.jit(lambda x, a, b: a * x + b * x)(x, a, -a), 0)


def test_differences_of_equal_products() -> None:
    """18507: a b - a b, of a product that float32 rounds. 26147: differences of equal squares."""
    a, b, x = np.float32(2396747), np.float32(7), np.float32([0.1, 1.7, -3.3])
    with pl.exact_arithmetic():
        assert pl.jit(lambda a, b, c, d: a * d - b * c)(a, a, b, b) == 0
        np.testing.assert_array_equal(pl.jit(lambda x, y: x**2 - y**2)(x, x), 0)


def test_gradients_of_decompositions_at_equal_values() -> None:
    turned = np.diag([1.0, 1, 2, 3])

    def norm_by_parts(a: Any) -> Any:
        u, s, vh = jnp.linalg.svd(a, full_matrices=False)
        return jnp.linalg.norm((u * s) @ vh)

    with pl.enable_x64():
        # 8732: the matrix made again. Reverse mode can't know that it is one: NaN, and nothing that looks right.
        assert np.isnan(pl.grad(norm_by_parts)(turned)).any()
        [note] = pl.debugger.explain_grad(norm_by_parts)(turned).notes
        assert "singular values that are equal" in note
        np.testing.assert_allclose(pl.grad(jnp.linalg.norm)(turned), turned / np.sqrt(15))

        # 669: a function of the matrix, by the function that is made for it.
        root = lambda a: jnp.linalg.hermitian_function(jnp.sqrt, a)
        gradient = pl.grad(lambda a: (root(a) * turned).sum())(np.eye(4))
        np.testing.assert_allclose(gradient, turned / 2)

        # 2311: parts of a matrix of rank 1, without the vectors of its zeros.
        def first_part(a: Any) -> Any:
            u, s, vh = jnp.linalg.svd(a, full_matrices=False)
            return (u[:, :1] * s[:1] @ vh[:1] * weights).sum()

        ones, weights = np.outer([3.0, 0, 0], [2.0, 0, 0]), np.arange(9.0).reshape(3, 3)
        assert np.isnan(pl.grad(first_part)(ones)).any()
        with pl.masked_gradients():
            found = pl.grad(first_part)(ones)
        # The best matrix of rank 1 changes by what keeps its row or its column.
        np.testing.assert_allclose(
            found, np.where([[1, 1, 1], [1, 0, 0], [1, 0, 0]], weights, 0), atol=1e-12
        )


@pytest.mark.parametrize("exponent", [-66, 60])
def test_second_derivatives_of_singular_values_of_any_size(exponent: int) -> None:
    """40185: those of c A are those of A by c, also where squares of singular values leave the range."""
    a = np.float32([[5, 2, 0], [1, 4, 1], [0, 2, 3]])
    second = pl.jit(pl.hessian(lambda a: jnp.linalg.svd(a, compute_uv=False).sum()))
    expected = np.asarray(second(a), np.float64)
    assert np.isfinite(expected).all()
    found = np.asarray(second(a * np.float32(2.0**exponent)), np.float64)
    np.testing.assert_allclose(found * 2.0**exponent, expected, rtol=1e-4, atol=1e-4)
