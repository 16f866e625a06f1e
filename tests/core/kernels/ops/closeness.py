"""Comparison of results with those of plain forms."""

import numpy as np

import pellucid as pl


def assert_close(found, expected, tolerance=1e-5):
    """Trees of arrays have equal shapes and dtypes, and numbers within the tolerance, relative and absolute."""
    for x, y in zip(pl.tree.leaves(found), pl.tree.leaves(expected), strict=True):
        assert x.shape == y.shape
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x.astype("f4"), y.astype("f4"), tolerance, tolerance)
