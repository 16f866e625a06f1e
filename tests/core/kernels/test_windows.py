"""Blocks of an array: which are equal, however far they lie from each other."""

import numpy as np
import pytest

from pellucid.kernels.windows import Windows


@pytest.mark.parametrize("scale", [1, 7, 10**6, 2**40])
def test_equal_blocks_have_equal_numbers(scale):
    rng = np.random.default_rng(scale % 1000)
    for _ in range(20):
        count, rank = rng.integers(1, 60), rng.integers(1, 5)
        starts = rng.integers(-3, 4, (count, rank)) * scale
        sizes = rng.integers(1, 3, (count, rank))
        windows = Windows((10,) * rank, starts, sizes)
        rows = np.concatenate([starts, sizes], axis=1)
        _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        assert windows.block_count == len(first)
        assert sorted(windows.first_programs.tolist()) == sorted(first.tolist())
        pairs = set(zip(windows.blocks.tolist(), inverse.ravel().tolist(), strict=True))
        assert len(pairs) == len(first)
        np.testing.assert_array_equal(windows.blocks[windows.first_programs], np.arange(len(first)))


def test_shares_of_blocks_that_overlap_are_found():
    starts, sizes = np.array([[0], [2], [4], [0]]), np.array([[3]])
    windows = Windows((8,), starts, sizes)
    cells = windows.shared_cells(np.array([0, 1, 2, 0]))
    elements = np.repeat(cells.counts, np.diff(cells.edges[0]))
    assert elements.tolist() == [0, 0, 1, 0, 1, 0, 0, 0]
    assert windows.touching(cells).tolist() == [True] * 4
    assert not windows.shared_cells(np.zeros(4, int)).counts.any()
