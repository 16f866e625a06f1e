"""Programs that transform programs give what the reference gives."""

import pytest
from corpus import compositions, models, transform_programs

import pellucid

PROGRAMS = [*transform_programs.PROGRAMS, *models.PROGRAMS, *compositions.PROGRAMS]


@pytest.mark.parametrize(
    ("program", "arguments"), PROGRAMS, ids=lambda x: getattr(x, "__name__", "")
)
def test_agrees_with_the_reference(oracle, program, arguments):
    oracle.check(program, *arguments, library=pellucid)
