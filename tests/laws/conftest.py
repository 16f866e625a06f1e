"""What the tests of laws share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pellucid.wiring  # noqa: F401  (the text of programs, and operators of arrays)
from tests.laws.evaluation import Task, evaluate
from tests.laws.sample import Sample

_outcomes: dict[Any, dict[Any, Any]] = {}


ROWS_BY_DEFAULT = 2
"""Rows of each function that every run checks; the others are marked slow (`make test-slow` runs them)."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all but the first rows of each function as slow: 1,600 rows for nine laws take an hour.

    Rows may convert complex numbers to real ones, which warns.
    """
    seen: dict[tuple[str, str], int] = {}
    for item in items:
        if item.path.parent != Path(__file__).parent:
            continue
        item.add_marker(pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning"))
        callspec = getattr(item, "callspec", None)
        sample = callspec.params.get("sample") if callspec is not None else None
        if isinstance(sample, Sample):
            key = (getattr(item, "originalname", item.name), sample.call.partition("(")[0])
            seen[key] = seen.get(key, 0) + 1
            if seen[key] > ROWS_BY_DEFAULT:
                item.add_marker(pytest.mark.slow)


@pytest.fixture
def together(request: pytest.FixtureRequest) -> Callable[..., list[Any]]:
    """`together(task, x64)`: the results of this test's row, computed together with those of its other rows.

    `task(sample)` gives a function of flat values and its operands; `x64(sample)` says where it needs 64 bits.
    The first call compiles the rows that were collected for this test; an error is raised for its own row only.
    """

    def results(task: Callable[[Sample], Task], x64: Callable[[Sample], bool]) -> list[Any]:
        test = request.node.originalname
        if test not in _outcomes:
            items = [
                i
                for i in request.session.items
                if getattr(i, "originalname", None) == test and i.path == request.node.path
            ]
            samples = [i.callspec.params["sample"] for i in items]
            _outcomes[test] = {}
            for wide in (False, True):
                tasks = {s: task(s) for s in samples if x64(s) is wide}
                _outcomes[test] |= evaluate(tasks, x64=wide)
        outcome = _outcomes[test][request.node.callspec.params["sample"]]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return results
