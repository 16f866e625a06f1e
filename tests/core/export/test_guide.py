"""The examples of the guide run."""

import doctest
from pathlib import Path

GUIDE = Path(__file__).parents[3] / "docs/export.md"


def test_the_guide_runs():
    failures, count = doctest.testfile(str(GUIDE), module_relative=False)
    assert failures == 0
    assert count > 5
