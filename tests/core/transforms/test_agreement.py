"""Programs that transform programs give what the reference gives."""

import pytest
from corpus.transform_programs import PROGRAMS

import pellucid


@pytest.mark.parametrize(
    ("program", "arguments"), PROGRAMS, ids=lambda x: getattr(x, "__name__", "")
)
def test_agrees_with_the_reference(oracle, program, arguments):
    oracle.check(program, *arguments, library=pellucid)
