"""The examples of every page of the documentation run, and give what the page shows."""

from __future__ import annotations

import doctest
import re
import shutil
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(
    path
    for path in DOCS.rglob("*.md")
    if path.parent.name != "api" and ">>> " in path.read_text(encoding="utf-8")
)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def examples(path: Path) -> doctest.DocTest:
    """The examples of a page as one test; a fence ends the output above it."""
    text = re.sub(r"^\s*(```|:::+)$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    globs = {"__name__": "__main__"}
    return doctest.DocTestParser().get_doctest(text, globs, path.stem, str(path), 0)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(DOCS)))
def test_the_page_runs(path: Path) -> None:
    if "g++" in path.read_text(encoding="utf-8") and shutil.which("g++") is None:
        pytest.skip("there is no C++ compiler g++")
    report: list[str] = []
    test = examples(path)
    outcome = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append)
    assert outcome.attempted
    assert not outcome.failed, "".join(report)
