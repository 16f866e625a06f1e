"""Vague names and docstrings are found, and folders may only get fewer of them."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools import check_prose

TOOL = Path(check_prose.__file__)

TEXT = '''
"""Type rules of primitives."""

LIMIT = 3
"""What is meant."""

def rule(given):
    """Whether everything fits; hears of the mesh."""
    found = [x for x in given]
    for own in found:
        results = own
    return results
'''


def test_vague_names_and_docstrings_are_found() -> None:
    lines = [(line, text.partition(":")[0]) for line, text in check_prose.findings(TEXT)]
    assert sorted(lines) == [
        (5, "a docstring that begins with `What is meant.`"),
        (5, "a docstring with `is meant`"),
        (7, "the parameter `given`"),
        (8, "a docstring that begins with `Whether everything fits; hears`"),
        (8, "a docstring with `hears`"),
        (9, "the name `found`"),
        (10, "the name `own`"),
    ]


@pytest.mark.parametrize(("allowed", "status"), [(1, 1), (2, 0), (3, 0)])
def test_more_than_is_allowed_fails_and_fewer_are_written(tmp_path, allowed, status) -> None:
    package = tmp_path / "core" / "pellucid" / "ir"
    package.mkdir(parents=True)
    (package / "rules.py").write_text("def f(given):\n    found = given\n    return found\n")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "prose_allowed.txt").write_text(f"core/pellucid/ir: {allowed}\n")
    tool = tmp_path / "tools" / "check_prose.py"
    tool.write_text(TOOL.read_text())
    run = subprocess.run(
        [sys.executable, tool, "--write"], capture_output=True, text=True, check=False
    )
    assert run.returncode == status
    assert ("core/pellucid/ir: 2 vague" in run.stderr) == bool(status)
    written = (tmp_path / "tools" / "prose_allowed.txt").read_text()
    assert f"core/pellucid/ir: {min(allowed, 2)}" in written
