"""Random programs of collectives give what the reference gives, and what `vmap` gives without devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from corpus.random_manual import run, steps

import pellucid as pl


def seeds(quick: int, all_of_them: int) -> list[Any]:
    return [
        pytest.param(seed, marks=() if seed < quick else (pytest.mark.rotates,))
        for seed in range(all_of_them)
    ]


@pytest.mark.parametrize("seed", seeds(8, 400))
def test_agrees_with_the_reference(oracle_8_devices: Any, seed: int) -> None:
    way = ("mapped", "unchecked")[seed % 2]
    oracle_8_devices.check(run, way, seed, library=pl, tolerance=2e-4)


RECOMPUTED = {100}
"""Programs in which XLA computes the operand of `max` twice, differently rounded, so that no element equals the largest
and its derivative is lost on one device. The reference loses it, too."""


@pytest.mark.parametrize("seed", [s for s in seeds(8, 200) if s.values[0] not in RECOMPUTED])
def test_devices_compute_what_vmap_computes(seed: int) -> None:
    way = ("unchecked", "mapped")[seed % 2]
    if not agree(way, seed, "float32", 2e-4):
        # Some programs amplify errors of rounding; those agree with more bits.
        with pl.enable_x64(True):
            assert agree(way, seed, "float64", 1e-8), "\n".join(steps(seed))


def agree(way: str, seed: int, dtype: str, tolerance: float) -> bool:
    """Whether a program over devices has the results that it has under `vmap`."""
    actual, expected = run(pl, way, seed, dtype), run(pl, "vmapped", seed, dtype)
    pairs = zip(pl.tree.leaves(actual), pl.tree.leaves(expected), strict=True)
    return all(np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True) for a, b in pairs)
