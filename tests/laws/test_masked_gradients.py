"""Masked reverse mode gives what forward mode gives wherever that is finite, and what plain reverse mode gives wherever that is.

`python tools/random_programs.py --areas masks --count 1000` tries many more programs.
"""

from __future__ import annotations

import numpy as np
import pytest
from corpus.masked_programs import problems

QUICK = 2


@pytest.mark.parametrize(
    "seed",
    [pytest.param(s, marks=() if s < QUICK else (pytest.mark.rotates,)) for s in range(QUICK * 12)],
)
def test_the_law_of_masked_gradients(seed: int) -> None:
    with np.errstate(all="ignore"):
        assert problems(seed) == []
