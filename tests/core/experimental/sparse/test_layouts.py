"""Arrays in other layouts hold the same elements, also where there are none."""

from __future__ import annotations

import numpy as np
import pytest

from pellucid import numpy as jnp
from pellucid.experimental import sparse
from pellucid.experimental.sparse import BCOO

LAYOUTS = [(b, d) for b in range(3) for d in range(3 - b)]
"""(n_batch, n_dense) of matrices."""


@pytest.mark.parametrize("shape", [(2, 3), (2, 0), (0, 2), (0, 0)])
def test_every_layout_holds_the_same_elements(shape: tuple[int, ...]) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    for n_batch, n_dense in LAYOUTS:
        mat = BCOO.fromdense(jnp.asarray(x), n_batch=n_batch, n_dense=n_dense)
        for other in LAYOUTS:
            changed = sparse.bcoo_update_layout(
                mat, n_batch=other[0], n_dense=other[1], on_inefficient=None
            )
            assert (changed.n_batch, changed.n_dense) == other
            np.testing.assert_array_equal(changed.todense(), x, f"{n_batch} {n_dense} {other}")
        np.testing.assert_array_equal((mat * mat).todense(), x * x, f"{n_batch} {n_dense}")
