"""Sums along dimensions of every kind, whatever the layout."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import pellucid as pl
from pellucid import numpy as jnp
from pellucid.experimental.sparse import BCOO

LAYOUTS = [(b, d) for b in range(4) for d in range(4 - b)]
"""(n_batch, n_dense) of arrays of three dimensions."""


@pytest.mark.parametrize("shape", [(2, 3, 2), (2, 0, 3)])
def test_sums_are_those_of_the_dense_array(shape: tuple[int, ...]) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    for n_batch, n_dense in LAYOUTS:
        mat = BCOO.fromdense(jnp.asarray(x), n_batch=n_batch, n_dense=n_dense)
        for axes in itertools.chain(*(itertools.combinations(range(3), n) for n in (1, 2, 3))):
            ours = mat.sum(axes)
            dense = ours.todense() if isinstance(ours, BCOO) else ours
            np.testing.assert_array_equal(dense, x.sum(axes), f"{n_batch} {n_dense} {axes}")


def test_sum_of_all_is_an_array() -> None:
    x = jnp.arange(12.0).reshape(3, 4)
    for n_batch in range(3):
        total = pl.jit(lambda v, n=n_batch: BCOO.fromdense(v, nse=12, n_batch=n).sum())(x)
        assert total.shape == ()
        assert float(total) == 66
