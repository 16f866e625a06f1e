"""Operations of `ops.gpu` that are kernels for Hopper GPUs, in the simulator, against their plain forms; `test_mosaic_gpu` compiles them."""

import functools

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid.errors import ArgumentTypeError, ArgumentValueError, ShapeError, UnsupportedError
from pellucid.experimental.pallas.ops.gpu import (
    attention_mgpu,
    hopper_matmul_mgpu,
    ragged_dot_mgpu,
)
from pellucid.experimental.pallas.ops.gpu.hopper_matmul_mgpu import MatmulDimension

BF16 = jnp.bfloat16


def numbers(*shape, seed=0, dtype=BF16):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def close(x, y, tolerance=2e-2):
    np.testing.assert_allclose(np.asarray(x, float), np.asarray(y, float), atol=tolerance, rtol=tolerance)  # fmt: skip


# Products -----------------------------------------------------------------------------------------------------

config = hopper_matmul_mgpu.TuningConfig


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ((200, 136, 264), config(64, 64, 64, 3)),
        ((100, 50, 37), config(64, 32, 32, 2, wg_dimension=MatmulDimension.M, grid_minor_dim=MatmulDimension.M)),
        ((64, 64, 16), config(64, 16, 16, 1)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [BF16, np.float16])
def test_products(sizes, options, dtype):
    m, k, n = sizes
    a, b = numbers(m, k, dtype=dtype), numbers(k, n, seed=1, dtype=dtype)
    found = hopper_matmul_mgpu.product_by_kernel(options, a, b)
    assert found.dtype == a.dtype
    close(found, a.astype(np.float32) @ b.astype(np.float32))


def test_products_have_derivatives_and_batches():
    a, b, c = numbers(20, 30), numbers(30, 40, seed=1), numbers(20, 40, seed=2)
    own = functools.partial(hopper_matmul_mgpu.matmul, config=config(64, 64, 64, 2))
    plain = lambda a, b, c: (a.astype(np.float32) @ b.astype(np.float32)).astype(BF16) + c
    close(own(a, b, c), plain(a, b, c))
    of = lambda f: pl.grad(lambda *x: jnp.sin(f(*x).astype(np.float32)).sum(), (0, 1, 2))(a, b, c)
    for x, y in zip(of(own), of(plain), strict=True):
        close(x, y, 5e-2)
    both = np.stack([a, a * 2])
    close(pl.vmap(own, (0, None, None))(both, b, c), jnp.stack([plain(x, b, c) for x in both]), 5e-2)  # fmt: skip


def test_products_are_kernels_on_gpus():
    a, b = numbers(128, 64), numbers(64, 256, seed=1)
    run = pl.jit(lambda a, b: hopper_matmul_mgpu.matmul(a, b, None, config(64, 128, 64, 2)))
    text = run.trace(a, b).lower(lowering_platforms=("cuda",)).as_text()
    assert "mosaic_gpu_v2" in text
    assert "mosaic_gpu_v2" not in run.lower(a, b).as_text()


def test_products_that_are_refused():
    a = numbers(64, 64)
    run = lambda a, b, c=None, **o: hopper_matmul_mgpu.matmul(a, b, c, config(64, 64, 64, 2, **o))
    with pytest.raises(ArgumentTypeError, match="bfloat16 or float16"):
        run(a.astype(np.float32), a.astype(np.float32))
    with pytest.raises(ShapeError, match="matrices"):
        run(a, a[:32])
    with pytest.raises(ShapeError, match="shape of the product"):
        run(a, a, a[:32])
    with pytest.raises(UnsupportedError, match="cluster"):
        run(a, a, cluster_dimension=MatmulDimension.M)
    with pytest.raises(ArgumentValueError, match="`tile_m` is a multiple of 64"):
        config(32, 64, 64, 2)


# Attention ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "causal"),
    [
        ((1, 128, 128, 2, 1, 64), False),
        ((1, 140, 140, 2, 2, 40), True),
        ((2, 20, 70, 1, 1, 64), False),
    ],
)
def test_attention(shape, causal):
    batch, queries, keys, heads, groups, size = shape
    q = numbers(batch, queries, heads, size) * BF16(0.2)
    k, v = [numbers(batch, keys, groups, size, seed=i) for i in (1, 2)]
    options = attention_mgpu.TuningConfig(64, 64, 2, causal=causal)
    found, sums = attention_mgpu.attention_by_kernel(options, q, k, v)
    expected, (logarithms,) = attention_mgpu.attention_reference(q, k, v, causal, True)
    close(found, expected)
    close(sums, logarithms, 1e-4)
    assert found.shape == q.shape
    assert found.dtype == q.dtype


def test_attention_has_derivatives_and_batches():
    q, k, v = [numbers(1, 12, h, 16, seed=i) * BF16(0.3) for i, h in enumerate((4, 2, 2))]
    own = functools.partial(
        attention_mgpu.attention, config=attention_mgpu.TuningConfig(64, 64, 2, causal=True)
    )
    plain = lambda *x: attention_mgpu.attention_reference(*x, causal=True)
    close(own(q, k, v), plain(q, k, v))
    _, (sums,) = own(q, k, v, save_residuals=True)
    assert sums.shape == (1, 4, 12)
    of = lambda f: pl.grad(lambda *x: jnp.sin(f(*x).astype(np.float32)).sum(), (0, 1, 2))(q, k, v)
    for x, y in zip(of(own), of(plain), strict=True):
        close(x, y, 5e-2)
    close(pl.vmap(own)(*[x[None] for x in (q, k, v)])[0], plain(q, k, v))


def test_attention_that_is_refused():
    q = numbers(1, 8, 3, 16)
    run = functools.partial(attention_mgpu.attention, config=attention_mgpu.TuningConfig(64, 64, 2))
    with pytest.raises(ShapeError, match="a divisor of heads"):
        run(q, q[:, :, :2], q[:, :, :2])
    with pytest.raises(ArgumentTypeError, match="bfloat16 or float16"):
        run(*[q.astype(np.float32)] * 3)
    with pytest.raises(ArgumentValueError, match="from 2 on"):
        attention_mgpu.TuningConfig(64, 64, 1)
    with pytest.raises(ArgumentValueError, match="all, or none"):
        attention_mgpu.TuningConfig(64, 64, 2, block_q_dq=64)


# Groups of rows -----------------------------------------------------------------------------------------------

BLOCKS = {"block_m": 64, "block_n": 64, "block_k": 32, "max_concurrent_steps": 2, "grid_block_n": 1}


@pytest.mark.parametrize("sizes", [(70, 0, 30), (64, 64, 0), (1, 2, 3), (0, 0, 0), (0, 100, 28)])
def test_groups_of_rows(sizes):
    lhs, rhs = numbers(130, 40), numbers(3, 40, 50, seed=1)
    sizes = np.array(sizes, np.int32)
    found = ragged_dot_mgpu.ragged_dot_by_kernel(config(64, 32, 32, 2), lhs, rhs, sizes)
    expected = pl.lax.ragged_dot(lhs, rhs, sizes, preferred_element_type=np.float32)
    close(found, expected)
    close(ragged_dot_mgpu.ragged_dot(lhs, rhs, group_sizes=sizes, **BLOCKS), expected)
    turned = rhs.transpose(0, 2, 1)
    found = ragged_dot_mgpu.ragged_dot(lhs, turned, group_sizes=sizes, transpose_rhs=True, **BLOCKS)
    close(found, expected)


def test_groups_of_rows_have_derivatives():
    lhs, rhs, sizes = numbers(20, 8), numbers(2, 8, 16, seed=1), np.array([5, 12], np.int32)
    own = functools.partial(ragged_dot_mgpu.ragged_dot, group_sizes=sizes, **BLOCKS)
    plain = lambda x, y: pl.lax.ragged_dot(x, y, sizes)
    of = lambda f: pl.grad(lambda *x: jnp.sin(f(*x).astype(np.float32)).sum(), (0, 1))(lhs, rhs)
    for x, y in zip(of(own), of(plain), strict=True):
        close(x, y, 5e-2)


def test_groups_of_rows_that_are_refused():
    lhs, rhs, sizes = numbers(20, 8), numbers(2, 8, 16, seed=1), np.array([5, 12], np.int32)
    with pytest.raises(ShapeError, match="a size for each group"):
        ragged_dot_mgpu.ragged_dot(lhs, rhs, group_sizes=sizes[:1], **BLOCKS)
    with pytest.raises(ArgumentTypeError, match="integer sizes"):
        ragged_dot_mgpu.ragged_dot(lhs, rhs, group_sizes=sizes * 1.0, **BLOCKS)
    with pytest.raises(ArgumentValueError, match="multiple of 32"):
        ragged_dot_mgpu.ragged_dot(lhs, rhs, group_sizes=sizes, **{**BLOCKS, "block_n": 40})
