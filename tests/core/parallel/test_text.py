"""The text of programs with collectives is the reference's."""

from __future__ import annotations

from typing import Any

import pytest
from corpus.manual_text import PROGRAMS

import pellucid as pl


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_agrees_with_the_reference(oracle_8_devices: Any, program: Any) -> None:
    oracle_8_devices.check(program, library=pl)
