"""The guide to native functions runs, cell by cell."""

import doctest
import shutil
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[3] / "docs/ffi.md"


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler g++")
def test_the_guide_runs():
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, attempted = doctest.testfile(str(GUIDE), module_relative=False, optionflags=flags)
    assert attempted > 15
    assert failed == 0
