"""Masked reverse mode gives what forward mode gives wherever that is finite, and what plain reverse mode gives wherever that is.

`python tools/random_programs.py --areas masks --count 1000` tries many more programs.
"""

from __future__ import annotations

import numpy as np
import pytest
from corpus.masked_programs import problems, second_derivatives

import pellucid as pl
import pellucid.numpy as jnp

QUICK = 2


@pytest.mark.parametrize(
    "seed",
    [pytest.param(s, marks=() if s < QUICK else (pytest.mark.rotates,)) for s in range(QUICK * 12)],
)
def test_the_law_of_masked_gradients(seed: int) -> None:
    with np.errstate(all="ignore"):
        assert problems(seed) == []


def test_second_derivatives_count_where_the_first_is_a_number() -> None:
    """By the first element the derivative overflows, 1e60: what reverse mode differentiates there is infinite.

    Forward mode multiplies by the tangents' 0 first. Where 1e60 is a number, both say the same.
    """
    scale = np.array([1e30, 1], np.float32)
    function = lambda x, w: jnp.sum(scale * (1e30 * jnp.sin(x)))
    ways = (
        pl.jacfwd(pl.grad(function)),
        pl.jacrev(pl.jacfwd(function)),
        pl.jacrev(pl.grad(function)),
    )
    x = np.ones(2, np.float32)
    with np.errstate(all="ignore"), pl.masked_gradients():
        assert np.isinf(pl.jacfwd(function)(x, x)[0])
        assert pl.jacfwd(pl.jacfwd(function))(x, x)[0, 1] == 0
        assert np.isnan(ways[0](x, x)[0, 1])
        counted = np.isfinite(second_derivatives(function)(x, x))
        np.testing.assert_array_equal(counted, [[False, False], [False, True]])
        with pl.enable_x64():
            x = x.astype(np.float64)
            expected = second_derivatives(function)(x, x)
            assert np.isfinite(expected).all()
            for way in ways:
                np.testing.assert_allclose(way(x, x), expected)
