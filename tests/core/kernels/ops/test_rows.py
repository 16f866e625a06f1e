"""Softmax and normalization as kernels, against their plain forms, and lowered for GPUs."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid.errors import ArgumentValueError, AxisError, ShapeError
from pellucid.experimental.pallas.ops.gpu import layer_norm, rms_norm
from pellucid.experimental.pallas.ops.gpu.softmax import _forward, softmax
from pellucid.introspect.triton_text import triton_texts
from tests.core.kernels.ops.closeness import assert_close
from tests.core.kernels.test_triton import assert_same

NORMS = {
    "layer_norm": (layer_norm.layer_norm, layer_norm.layer_norm_reference),
    "rms_norm": (rms_norm.rms_norm, rms_norm.rms_norm_reference),
}
TOLERANCE = {"float32": 1e-5, "bfloat16": 0.05, "float16": 0.01}


def array(shape, dtype="float32", seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), dtype)


@pytest.mark.parametrize(
    ("shape", "axis"), [((8,), -1), ((3, 5), -1), ((3, 5), 0), ((2, 3, 4), 1), ((4, 1), 1)]
)
def test_softmax_is_that_of_nn(shape, axis):
    x = array(shape)
    assert_close(softmax(x, axis=axis), pl.nn.softmax(x, axis=axis))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_softmax_of_narrow_numbers_is_computed_in_float32(dtype):
    x = 20 * array((4, 6), dtype)
    assert_close(softmax(x), pl.nn.softmax(x.astype("f4")).astype(dtype), TOLERANCE[dtype])


def test_softmax_of_large_and_infinite_logits():
    x = jnp.array([[1e30, 0.0, -jnp.inf], [0.0, 0.0, -1e30]])
    np.testing.assert_array_equal(softmax(x), [[1, 0, 0], [0.5, 0.5, 0]])


def test_softmax_differentiates_forward_and_backward_twice_and_in_batches():
    x, tangent = array((3, 5)), array((3, 5), seed=1)
    ours, plain = (lambda x: (softmax(x) ** 2).sum()), (lambda x: (pl.nn.softmax(x) ** 2).sum())
    assert_close(pl.jit(pl.grad(ours))(x), pl.jit(pl.grad(plain))(x))
    assert_close(pl.jvp(softmax, (x,), (tangent,)), pl.jvp(pl.nn.softmax, (x,), (tangent,)))
    assert_close(pl.jit(pl.hessian(ours))(x), pl.jit(pl.hessian(plain))(x))
    batch = array((2, 3, 5))
    assert_close(pl.jit(pl.vmap(pl.grad(ours)))(batch), pl.jit(pl.vmap(pl.grad(plain)))(batch))


def test_softmax_of_nothing():
    assert softmax(jnp.zeros((0, 3))).shape == (0, 3)
    assert softmax(jnp.zeros((3, 0))).shape == (3, 0)
    with pytest.raises(AxisError, match="out of bounds"):
        softmax(jnp.float32(1))


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((7,), "float32"),
        ((3, 8), "float32"),
        ((2, 3, 5), "float32"),
        ((3, 6), "bfloat16"),
        ((35, 130), "float32"),
    ],
)
def test_norms_and_their_derivatives_are_those_of_the_plain_form(name, shape, dtype):
    norm, plain = NORMS[name]
    x, weight, bias = array(shape, dtype), array(shape[-1:], seed=1), array(shape[-1:], seed=2)
    tolerance = TOLERANCE[dtype]
    assert_close(norm(x, weight, bias), plain(x, weight, bias), tolerance)
    weights = array(shape, seed=3)
    loss = lambda f: lambda *operands: (f(*operands).astype("f4") * weights).sum()
    found = pl.jit(pl.grad(loss(norm), (0, 1, 2)))(x, weight, bias)
    expected = pl.jit(pl.grad(loss(plain), (0, 1, 2)))(x, weight, bias)
    assert_close(found, expected, 10 * tolerance)
    as_formula = lambda *operands: norm(*operands, backward_pass_impl="xla")
    assert_close(pl.jit(pl.grad(loss(as_formula), (0, 1, 2)))(x, weight, bias), expected, tolerance)


@pytest.mark.parametrize("name", NORMS)
def test_norms_in_batches_and_differentiated_twice(name):
    norm, plain = NORMS[name]
    x, weight, bias = array((2, 3, 5)), array((5,), seed=1), array((5,), seed=2)
    assert_close(pl.vmap(norm, (0, None, None))(x, weight, bias), plain(x, weight, bias))
    second = lambda f: pl.grad(
        lambda x: (pl.grad(lambda x: (f(x, weight, bias) ** 3).sum())(x) ** 2).sum()
    )(x[0])
    assert_close(second(norm), second(plain), 1e-3)


@pytest.mark.parametrize("name", NORMS)
def test_norms_of_a_constant_row_with_eps(name):
    norm, plain = NORMS[name]
    x, one, zero = jnp.full((2, 3), 4.0), jnp.ones(3), jnp.zeros(3)
    assert_close(norm(x, one, zero, eps=0.5), plain(x, one, zero, eps=0.5))


@pytest.mark.parametrize("name", NORMS)
def test_norms_name_what_does_not_fit(name):
    norm, _ = NORMS[name]
    with pytest.raises(ShapeError, match=f"{name} needs a weight"):
        norm(jnp.ones((2, 3)), jnp.ones(4), jnp.zeros(3))
    with pytest.raises(ArgumentValueError, match="backward_pass_impl"):
        norm(jnp.ones((2, 3)), jnp.ones(3), jnp.zeros(3), backward_pass_impl="mosaic")


def test_all_become_programs_of_triton():
    x, weight, bias = array((3, 6)), array((6,)), array((6,))
    [found] = triton_texts(softmax, x)
    assert found.grid == (3, 1, 1)
    for norm, _ in NORMS.values():
        texts = triton_texts(
            pl.grad(lambda x, w, b, norm=norm: norm(x, w, b).sum(), (0, 1, 2)), x, weight, bias
        )
        assert len(texts) == 3  # forward, of rows, of weights


def test_kernels_in_the_dialect_of_triton_compute_the_same():
    assert_same(lambda x: _forward(x, 4), array((3, 6)))
