"""Kernels and their transformations give what their programs give, run one after another on plain arrays."""

import numpy as np
import pytest
from rotation import rotating

import pellucid as pl
from tests.core.kernels import one_by_one as plain

ROWS = rotating([(seed,) for seed in range(64)], lambda row: "random")


def assert_close(ours, expected, tolerance=1e-5):
    for x, y in zip(ours, expected, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("seed", ROWS)
def test_kernels_and_their_batches(seed):
    case, *args = plain.random_case(seed)
    expected = plain.one_by_one(case, *args)
    assert_close(plain.as_kernel(case, *args), expected)
    batch = pl.tree.map(
        lambda x: np.stack([x, x[::-1] if x.dtype == np.int32 and x.ndim else x + 1]), args
    )
    rows = [plain.one_by_one(case, *pl.tree.map(lambda x, i=i: x[i], batch)) for i in range(2)]
    found = pl.vmap(lambda args: plain.as_kernel(case, *args), axis_size=2)(batch)
    assert_close(found, [np.stack(column) for column in zip(*rows, strict=True)])


@pytest.mark.parametrize("seed", ROWS)
def test_derivatives_of_kernels(seed):
    case, scalars, *floats = plain.random_case(seed)
    if case.dtype != np.float32:
        return
    rng = np.random.default_rng(seed)
    numbers = lambda x: rng.integers(-2, 3, np.shape(x)).astype(np.float32)
    tangents = pl.tree.map(numbers, floats)
    kernel, expected = [
        lambda *xs, run=run: run(case, scalars, *xs) for run in (plain.as_kernel, plain.one_by_one)
    ]
    (y, dy), (y_plain, dy_plain) = [pl.jvp(f, floats, tangents) for f in (kernel, expected)]
    assert_close(y, y_plain)
    defined = [np.isfinite(x) for x in y_plain]
    kept = lambda xs: [np.where(m, x, 0) for m, x in zip(defined, xs, strict=True)]
    assert_close(kept(dy), kept(dy_plain), 1e-4)
    if case.traced:  # no reverse mode through loops of unknown length
        return
    cotangents = [numbers(x) * m for x, m in zip(y, defined, strict=True)]
    gradients, plain_gradients = [pl.vjp(f, *floats)[1](cotangents) for f in (kernel, expected)]
    assert_close(pl.tree.leaves(gradients), pl.tree.leaves(plain_gradients), 1e-4)
