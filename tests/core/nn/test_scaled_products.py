"""Products of quantized operands are the reference's, with their gradients."""

import numpy as np
import pytest
from corpus import scaled_products as corpus

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import nn

NUMBERS = (((1,), (1,)), ((), ()))
MXFP8 = [nn.get_scaled_dot_general_config("mxfp8")] * 3


def test_scaled_products_are_products_of_scaled_operands() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    scales = np.array([[[1, 2]] * 3, [[3, 0.5]] * 3], np.float32)
    scaled = x * np.repeat(scales, 2, axis=-1)
    result = pl.jit(nn.scaled_matmul)(x, x, scales, scales)
    np.testing.assert_allclose(result, np.einsum("bmk,bnk->bmn", scaled, scaled), rtol=1e-6)


def test_products_and_gradients_are_those_of_the_reference(oracle) -> None:
    answers = oracle.call_each(corpus.products, corpus.CASES)
    for case, expected in zip(corpus.CASES, answers, strict=True):
        for ours, theirs in zip(corpus.product(pl, *case), expected, strict=True):
            # An element at the edge of two numbers of the narrow format may be rounded to either.
            difference, size = np.abs(ours - theirs), np.max(np.abs(theirs))
            assert np.max(difference) <= 2e-2 * size, case
            assert np.mean(difference) <= 2e-4 * size, case


def test_modes_may_differ() -> None:
    x = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)
    halved = nn.get_scaled_dot_general_config("nvfp4", jnp.array([0.5]))

    def square(x, configs=None):
        return nn.scaled_dot_general(x, x, NUMBERS, configs=configs)

    configs = [MXFP8[0], halved, MXFP8[0]]
    slope, exact = (pl.grad(lambda x, c=c: square(x, c).sum())(x) for c in (configs, None))
    for ours, expected in ((square(x, configs), square(x)), (slope, exact)):
        np.testing.assert_allclose(ours, expected, atol=0.12 * np.max(np.abs(expected)))


def test_axes_may_be_in_any_order_and_batches_nest() -> None:
    rng = np.random.default_rng(0)
    lhs, rhs = rng.standard_normal((4, 2, 3, 16)), rng.standard_normal((2, 16, 5, 4))
    numbers = (((3, 0), (1, 3)), ((1,), (0,)))
    result = nn.scaled_dot_general(lhs, rhs, numbers, configs=MXFP8)
    exact = nn.scaled_dot_general(lhs, rhs, numbers)
    assert result.shape == exact.shape == (2, 3, 5)
    np.testing.assert_allclose(result, exact, atol=0.1 * np.max(np.abs(exact)))
    batched = pl.vmap(lambda x: nn.scaled_dot_general(x, x, NUMBERS, configs=MXFP8))
    x = jnp.asarray(rng.standard_normal((2, 32, 32)), "float32")
    np.testing.assert_allclose(
        batched(x)[1], nn.scaled_dot_general(x[1], x[1], NUMBERS, configs=MXFP8), 1e-6
    )


def test_blocks_of_zeros_subnormals_and_infinities() -> None:
    ones = np.ones((1, 32), np.float32)
    for size, expected in ((0.0, 0.0), (1e-38, 0.0), (1e30, 3.2e31), (np.inf, np.nan)):
        result = nn.scaled_dot_general(size * ones, ones, NUMBERS, configs=MXFP8)
        np.testing.assert_allclose(result[0, 0], expected, 0.05, 1e-35)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: nn.get_scaled_dot_general_config("fp8"), ValueError, "mode"),
        (lambda x: nn.scaled_dot_general(x, x, NUMBERS, configs=MXFP8), ValueError, "multiple of 32"),
        (lambda x: nn.scaled_dot_general(x, x[:, :8], NUMBERS, configs=MXFP8), ValueError, "same sizes"),
        (lambda x: nn.scaled_dot_general(x, x, NUMBERS, "int32", MXFP8), TypeError, "only return float32"),
        (lambda x: nn.scaled_dot_general(x, x, NUMBERS, configs=MXFP8[:1]), ValueError, "configs of"),
        (
            lambda x: pl.grad(lambda y: nn.scaled_dot_general(y, y, NUMBERS, configs=MXFP8[:2]).sum())(jnp.ones((2, 32))),
            ValueError,
            "third config",
        ),
    ],
)  # fmt: skip
def test_errors(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call(np.ones((2, 20), np.float32))
