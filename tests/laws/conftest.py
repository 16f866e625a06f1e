"""What the tests of laws share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pellucid
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


@pytest.fixture(autouse=True, scope="module")
def _free_programs() -> Iterator[None]:
    """Free the programs of each law at its end: a process has only so many memory maps for compiled code."""
    yield
    pellucid.clear_caches()


@pytest.fixture
def together(request: pytest.FixtureRequest) -> Callable[..., list[Any]]:
    """`together(task, x64)`: the results of this test's row, computed together with those of its other rows.

    `task(sample)` gives a function of flat values and its operands; `x64(sample)` says where it needs 64 bits.
    The first call compiles the rows that were collected for this test; an error is raised for its own row only.
    """

    def test_of(item: Any) -> Any:
        return item.path, getattr(item, "originalname", None)

    def results(task: Callable[[Sample], Task], x64: Callable[[Sample], bool]) -> list[Any]:
        test = test_of(request.node)
        return outcome(test, request.node, lambda item: test_of(item) == test, task, x64)

    return results


@pytest.fixture
def compiled(request: pytest.FixtureRequest) -> list[Any]:
    """The results of this test's row by a compiled program, computed once for all tests that want them."""
    return outcome(
        "compiled",
        request.node,
        lambda item: (
            item.path.parent == Path(__file__).parent
            and "compiled" in getattr(item, "fixturenames", ())
        ),
        lambda sample: (sample.function, sample.arguments),
        lambda sample: sample.needs_x64,
    )


def outcome(
    pool: Any,
    item: Any,
    belongs: Callable[[Any], bool],
    task: Callable[[Sample], Task],
    x64: Callable[[Sample], bool],
) -> list[Any]:
    """The results for the row of test `item`; the rows of all collected tests that belong to the pool come with it."""
    if pool not in _outcomes:
        others = [i for i in item.session.items if belongs(i)]
        samples = dict.fromkeys(i.callspec.params["sample"] for i in others)
        _outcomes[pool] = {}
        for wide in (False, True):
            _outcomes[pool] |= evaluate({s: task(s) for s in samples if x64(s) is wide}, x64=wide)
    found = _outcomes[pool][item.callspec.params["sample"]]
    if isinstance(found, Exception):
        raise found
    return found
