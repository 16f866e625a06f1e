"""The examples of every page of the documentation run, and give what the page shows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pellucid._machine.runtime import donation
from tools.page_examples import examples, run

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(
    path
    for path in DOCS.rglob("*.md")
    if path.parent.name != "api" and ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(DOCS)))
def test_the_page_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(donation, "_donors", {})  # other tests' functions
    text = path.read_text(encoding="utf-8")
    for compiler in ("g++", "rustc"):
        if f'"{compiler}"' in text and shutil.which(compiler) is None:
            pytest.skip(f"there is no compiler {compiler}")
    report: list[str] = []
    test = examples(path)
    outcome = run(test, report)
    test.globs.clear()
    assert outcome.attempted
    assert not outcome.failed, "".join(report)
