"""What XLA's partitioner gets wrong, or ends the process over, comes out right over several devices."""

from __future__ import annotations

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid.sharding import AxisType, NamedSharding, PartitionSpec as P

RNG = np.random.default_rng(0)


def mesh(*sizes):
    names = ("a", "b")[: len(sizes)]
    return pl.make_mesh(sizes, names, axis_types=(AxisType.Auto,) * len(sizes))


def over_devices(function, mesh, specs, *operands):
    placed = tuple(NamedSharding(mesh, spec) for spec in specs)
    return np.asarray(pl.jit(function, in_shardings=placed)(*operands))


@pytest.mark.parametrize(
    ("sizes", "lhs", "rhs"),
    [
        ((2, 2), P("b"), P("b", "a")),
        ((2, 4), P("a"), P(None, "a")),
        ((2, 4), P("a"), P(None, "b")),
        ((2, 4), P("a"), P("a", "b")),
    ],
    ids=str,
)
def test_a_convolution_whose_positions_are_cut(sizes, lhs, rhs) -> None:
    x = RNG.normal(size=(6, 3, 5, 2)).astype(np.float32)
    w = RNG.normal(size=(2, 4, 3, 3)).astype(np.float32)

    def convolved(x, w):
        return lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("HCWN", "WOIH", "CWNH")
        )

    expected = np.asarray(pl.jit(convolved)(x, w))
    found = over_devices(convolved, mesh(*sizes), (lhs, rhs), x, w)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_convolution_with_negative_padding() -> None:
    x = RNG.normal(size=(4, 2, 12)).astype(np.float32)
    w = RNG.normal(size=(4, 2, 3)).astype(np.float32)

    def convolved(x, w):
        return lax.conv_general_dilated(x, w, (1,), [(-2, 1)], lhs_dilation=(2,))

    expected = np.asarray(pl.jit(convolved)(x, w))
    for spec in (P("a"), P(None, None, "a")):
        found = over_devices(convolved, mesh(4), (spec, P("a")), x, w)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("reduce", [jnp.max, jnp.min])
def test_extremes_keep_nan(reduce) -> None:
    x = np.arange(16, dtype=np.float32).reshape(8, 2)
    x[5, 1] = np.nan
    found = over_devices(lambda x: reduce(x, axis=0), mesh(8), (P("a"),), x)
    np.testing.assert_array_equal(found, np.asarray(reduce(x, axis=0)))
    assert np.isnan(found[1])
    assert not np.isnan(found[0])
