"""`nn.dot_product_attention(implementation="kernel")` beside the plain form."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import nn
from pellucid.errors import ShapeError, UnsupportedError
from pellucid.experimental.pallas.ops.gpu.attention import mha
from pellucid.experimental.pallas.ops.tpu.flash_attention import flash_attention
from tests.core.kernels.ops.closeness import assert_close


def array(shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), np.float32)


Q, K, V = array((2, 21, 4, 8)), array((2, 30, 2, 8), 1), array((2, 30, 2, 8), 2)
MASK = np.random.default_rng(3).random((2, 1, 21, 30)) > 0.3
OPTIONS = {
    "plain": {},
    "causal": {"is_causal": True, "scale": 0.7},
    "biased": {"bias": array((4, 21, 30), 4)},
    "masked": {"mask": MASK, "bias": array((2, 4, 1, 30), 5)},
    "lengths": {
        "query_seq_lengths": np.array([21, 7]),
        "key_value_seq_lengths": np.array([11, 30]),
    },
}


@pytest.mark.parametrize("name", OPTIONS)
def test_results_and_derivatives_are_those_of_the_plain_form(name):
    options = OPTIONS[name]
    found, expected = [
        nn.dot_product_attention(Q, K, V, implementation=i, **options) for i in ("kernel", "xla")
    ]
    assert_close(found, expected)
    loss = lambda i: (
        lambda *x: (nn.dot_product_attention(*x, implementation=i, **options) ** 2).sum()
    )
    found, expected = [pl.jit(pl.grad(loss(i), (0, 1, 2)))(Q, K, V) for i in ("kernel", "xla")]
    assert_close(found, expected)


def test_single_examples_and_a_scale_of_0():
    options = {"bias": array((4, 21, 30), 4), "scale": 0.0}
    found, expected = [
        nn.dot_product_attention(Q[0], K[0], V[0], implementation=i, **options)
        for i in ("kernel", "xla")
    ]
    assert_close(found, expected)


def test_the_matrix_of_logits_is_not_in_memory():
    x = array((1, 1024, 1, 8))
    temporaries = [
        pl.jit(lambda x, i=i: nn.dot_product_attention(x, x, x, implementation=i)).lower(x).compile().memory_analysis().temp_size_in_bytes
        for i in ("kernel", "xla")
    ]  # fmt: skip
    assert temporaries[0] < 1024 * 1024 * 4 < temporaries[1] * 2


def test_what_it_has_not():
    for options in ({"local_window_size": 3}, {"return_residual": True}):
        with pytest.raises(UnsupportedError, match="kernel"):
            nn.dot_product_attention(Q, K, V, implementation="kernel", **options)
    with pytest.raises(ShapeError):
        nn.dot_product_attention(Q, K[:1], V, implementation="kernel")


def test_attention_of_nn_by_kernels_of_empty_arrays_and_scales_beyond_narrow_dtypes() -> None:
    nothing, keys = jnp.ones((1, 0, 1, 4)), jnp.ones((1, 3, 1, 4))
    attend = lambda q, k: nn.dot_product_attention(q, k, k, implementation="kernel")
    back = pl.grad(lambda k: attend(nothing, k).sum())
    np.testing.assert_array_equal(back(keys), jnp.zeros_like(keys))
    assert attend(jnp.ones((0, 2, 1, 4)), jnp.ones((0, 3, 1, 4))).shape == (0, 2, 1, 4)
    for plain in (
        lambda k: flash_attention(*[jnp.swapaxes(x, 1, 2) for x in (nothing, k, k)]),
        lambda k: mha(nothing, k, k, None),
    ):
        np.testing.assert_array_equal(
            pl.grad(lambda k, f=plain: f(k).sum())(keys), jnp.zeros_like(keys)
        )
    small = jnp.asarray(np.linspace(-1e-3, 1e-3, 24).reshape(1, 3, 2, 4), np.float16)
    found, wanted = [
        nn.dot_product_attention(small, small, small, scale=1e5, implementation=name)
        for name in ("kernel", "xla")
    ]
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_attention_of_nn_by_kernels_refuses_integers() -> None:
    x = jnp.ones((1, 3, 2, 4), np.int32)
    with pytest.raises(UnsupportedError, match="floating numbers only"):
        nn.dot_product_attention(x, x, x, implementation="kernel")
