"""Programs that transform programs give what the reference gives."""

import pellucid
import pytest

from corpus.transform_programs import PROGRAMS


@pytest.mark.parametrize(("program", "arguments"), PROGRAMS, ids=lambda x: getattr(x, "__name__", ""))
def test_agrees_with_the_reference(oracle, program, arguments):
    oracle.check(program, *arguments, library=pellucid)
