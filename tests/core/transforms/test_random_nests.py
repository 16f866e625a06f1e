"""Random programs of nested transformations give what the reference gives, compiled and at once.

`python tools/random_programs.py --seed 0 --count 2000` compares many more.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from corpus.random_programs import difference, make, results, run

import pellucid as pl

QUICK = 6


@pytest.mark.parametrize(
    "seed",
    [pytest.param(s, marks=() if s < QUICK else (pytest.mark.rotates,)) for s in range(QUICK * 8)],
)
def test_agrees_with_the_reference(oracle_8_devices: Any, seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of casts and donations, which random programs have
        ours = results(pl, seed)
        if seed % 3 == 0:
            actual = run(pl, make(seed), compiled=False)
            assert [difference(a, b) for a, b in zip(actual, ours, strict=True)] == [""] * len(ours)
    theirs = oracle_8_devices.call(results, seed)
    assert [difference(a, b) for a, b in zip(ours, theirs, strict=True)] == [""] * len(ours)
