"""Functions of `numpy.linalg`, `random` and `nn` give the same eagerly, under jit and under vmap: values, types, errors.

Recorded answers of the reference are compared in `linalg`, `random` and `nn`.
"""

from __future__ import annotations

import zlib

import pytest
from corpus import numpy_outcomes
from corpus.api_calls import all_rows
from everywhere import difference_of, parts, report

import pellucid

PARTS, SHARE = 16, 32
"""Parts, of which a run takes one in eight, and the share of the rows that each evaluates."""


@pytest.mark.parametrize("part", parts(PARTS))
def test_values_are_the_same_everywhere(part: int) -> None:
    rows = [row for row in all_rows() if zlib.crc32(str(row).encode()) % SHARE == part]
    outcomes = numpy_outcomes.results(pellucid, rows)
    report([
        f"{row}: eager, {mode}: {difference}"
        for row, outcome in zip(rows, outcomes, strict=True)
        for mode, other in (("jit", outcome.jit), ("vmap", outcome.vmap))
        if (difference := difference_of(outcome.eager, other, mode == "vmap"))
    ])  # fmt: skip
