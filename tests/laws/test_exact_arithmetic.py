"""Under the option `exact_arithmetic` compiled programs have the bits of eager ones.

`tests/corpus/exact_programs.py` draws the programs, and says what the option doesn't promise.
"""

from __future__ import annotations

import numpy as np
import pytest
from compilation import usual_options
from corpus.exact_programs import problems

from pellucid._machine.compilation import pipeline

QUICK = 2


@pytest.mark.parametrize(
    "seed",
    [pytest.param(s, marks=() if s < QUICK else (pytest.mark.rotates,)) for s in range(QUICK * 12)],
)
def test_the_law_of_exact_arithmetic(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "compile_options", usual_options)
    with np.errstate(all="ignore"):
        assert problems(seed) == []
