"""Types that show shardings: layouts, values and refusals are the reference's."""

from __future__ import annotations

from typing import Any

import pytest
from corpus.explicit_programs import FAILING, PROGRAMS

import pellucid


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda x: x.__name__)
def test_agrees_with_the_reference(oracle_8_devices: Any, program: Any) -> None:
    oracle_8_devices.check(program, library=pellucid, tolerance=1e-4, fails=program in FAILING)
