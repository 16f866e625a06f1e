"""The examples of a page of the documentation: `>>>` in its code blocks, which share their names."""

from __future__ import annotations

import doctest
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def examples(path: Path) -> doctest.DocTest:
    """The examples of a page as one test; a fence ends the output above it."""
    text = re.sub(r"^\s*(```|:::+)$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    globs = {"__name__": "__main__"}
    return doctest.DocTestParser().get_doctest(text, globs, path.stem, str(path), 0)


def run(test: doctest.DocTest, report: list[str]) -> doctest.TestResults:
    """Run the examples, and add the text of those that fail to `report`; names stay in `test.globs`.

    They run in a thread of their own, so that the sources of equations begin with the page, and not with who runs it.
    """
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(runner.run, test, out=report.append, clear_globs=False).result()
