"""Random kernels: a batch over axes gives what a loop over all programs gives, and transformations agree with each other."""

import numpy as np
import pytest
from corpus import kernels as corpus
from rotation import rotating

import pellucid as pl
from pellucid.kernels import programs

N_RANDOM = 100


def rows():
    """Kernels of floating numbers with inputs."""
    for seed in range(N_RANDOM):
        _, arrays = corpus.random_kernel(pl, seed)
        if arrays and arrays[0].dtype == np.float32:
            yield (seed,)


def assert_equal(ours, expected):
    for x, y in zip(ours, expected, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("seed", rotating(rows(), lambda row: "random"))
def test_transformed_kernels_agree(seed, monkeypatch):
    call, arrays = corpus.random_kernel(pl, seed)
    rng = np.random.default_rng(seed)
    tangents = [rng.integers(-3, 4, x.shape).astype(np.float32) for x in arrays]
    y, dy = pl.jvp(call, tuple(arrays), tuple(tangents))
    assert_equal(y, call(*arrays))

    defined = [np.isfinite(a) & np.isfinite(b) for a, b in zip(y, dy, strict=True)]
    dy = [np.where(mask, t, 0) for mask, t in zip(defined, dy, strict=True)]
    cts = [(rng.integers(-3, 4, m.shape) * m).astype(np.float32) for m in defined]
    again, transposed = pl.vjp(call, *arrays)
    assert_equal(again, y)
    gradients = transposed(type(again)(cts))
    assert sum(np.vdot(*pair) for pair in zip(cts, dy, strict=True)) == sum(
        np.vdot(*pair) for pair in zip(gradients, tangents, strict=True)
    )

    batch = [np.stack([x, x + 1]) for x in arrays]
    results = pl.vmap(call)(*batch)
    for i in range(2):
        assert_equal([r[i] for r in results], call(*[x[i] for x in batch]))

    monkeypatch.setattr(programs, "batched_axes", lambda kernel: ())
    loop, _ = corpus.random_kernel(pl, seed)
    assert_equal(loop(*arrays), y)
