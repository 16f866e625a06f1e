"""Programs drawn from tables of what the library can do give what the reference gives, in each of their ways.

`python tools/random_programs.py --areas all` compares many more.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from corpus.drawn import comparison, programs, tables

import pellucid as pl

SEEDS = {
    "special": (1003, 1004),
    "random": (1002, 1007),
    "nn": (1001, 1004),
    "linalg": (1001, 1004),
    "dtypes": (1001, 1003),
    "reductions": (1001, 1004),
    "sorting": (1001, 1006),
    "indexing": (1001, 1004),
    "contractions": (1001, 1004),
    "sparse": (1002, 1009),
    "references": (1000, 1001),
    "callbacks": (1002, 1003),
    "collectives": (1000, 1001),
    "explicit": (1000, 1002),
    "export": (1001, 1005),
    "nests": (1001, 1002),
}  # fmt: skip
"""Programs that are in no row of `docs/api-differences.md`, by area."""


def test_every_area_has_programs() -> None:
    assert SEEDS.keys() == tables.AREAS.keys()


@pytest.mark.parametrize(
    ("area", "seed"),
    [
        pytest.param(area, seed, marks=[pytest.mark.rotates] if i else [])
        for area, seeds in SEEDS.items()
        for i, seed in enumerate(seeds)
    ],
)
def test_agrees_with_the_reference_and_with_itself(
    oracle_8_devices: Any, area: str, seed: int
) -> None:
    program = programs.make(seed, area)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of donations and casts
        ours = programs.run(pl, program)
    [theirs] = oracle_8_devices.call_each(programs.answers, [tuple(program)])
    assert not comparison.problems(ours, theirs), (program.body, program.inputs, program.around)
