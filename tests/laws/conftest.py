"""What the tests of laws share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pellucid
from tests.laws.evaluation import CHUNK, EXACT, Evaluated, Task, evaluate
from tests.laws.jax_answers import COMPILATION
from tests.laws.sample import Sample

HERE = Path(__file__).parent

_outcomes: dict[Any, dict[Sample, Evaluated | Exception]] = {}
"""By law, then by row: what was evaluated so far."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let all rows rotate but the first of each kind that a law has of a function.

    Rows may convert complex numbers to real ones, which warns.
    """
    seen: set[tuple[str, str, str]] = set()
    for item in items:
        if item.path.parent != HERE:
            continue
        item.add_marker(pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning"))
        callspec = getattr(item, "callspec", None)
        sample = callspec.params.get("sample") if callspec is not None else None
        if isinstance(sample, Sample):
            key = (law_of(item), sample.function_name, sample.kind)
            if key in seen:
                item.add_marker(pytest.mark.rotates(str(sample)))
            seen.add(key)


def law_of(item: Any) -> str:
    """Name of the test without its row."""
    return f"{item.path.name}::{getattr(item, 'originalname', item.name)}"


@pytest.fixture(autouse=True, scope="module")
def _free_programs() -> Iterator[None]:
    """Free the programs of each law at its end: a process has only so many memory maps for compiled code."""
    yield
    pellucid.clear_caches()


@pytest.fixture
def together(request: pytest.FixtureRequest) -> Callable[..., list[Any]]:
    """`together(task, x64)`: the results of this test's row, computed together with those of its neighbours.

    `task(sample)` gives a function of flat values and its operands; `x64(sample)` says where it needs 64 bits.
    Rows that were collected for this test are compiled in chunks; an error is raised for its own row only. Special
    values are computed as users do: quick compilation differs for the smallest numbers.
    """
    law = law_of(request.node)
    smooth = request.node.callspec.params["sample"].smooth

    def belongs(item: Any) -> bool:
        return law_of(item) == law and item.callspec.params["sample"].smooth == smooth

    def results(task: Callable[[Sample], Task], x64: Callable[[Sample], bool]) -> list[Any]:
        options = COMPILATION if smooth else EXACT
        return outcome((law, smooth), request.node, belongs, task, x64, options).results

    return results


@pytest.fixture
def compiled(request: pytest.FixtureRequest) -> Evaluated:
    """The staged program of this test's row and its results, computed once for all tests that want them."""
    return outcome(
        "compiled",
        request.node,
        lambda item: item.path.parent == HERE and "compiled" in item.fixturenames,
        lambda sample: (sample.function, sample.arguments),
        lambda sample: sample.needs_x64,
        EXACT,
    )


def outcome(
    pool: Any,
    item: Any,
    belongs: Callable[[Any], bool],
    task: Callable[[Sample], Task],
    x64: Callable[[Sample], bool],
    options: dict[str, Any] = COMPILATION,
) -> Evaluated:
    """What was evaluated for the row of test `item`; the rest of its chunk of collected rows comes with it."""
    done = _outcomes.setdefault(pool, {})
    sample = item.callspec.params["sample"]
    if sample not in done:
        collected = [i.callspec.params["sample"] for i in item.session.items if belongs(i)]
        rows = [row for row in dict.fromkeys(collected) if x64(row) == x64(sample)]
        start = rows.index(sample) // CHUNK * CHUNK
        tasks = {row: task(row) for row in rows[start : start + CHUNK]}
        done |= evaluate(tasks, x64=x64(sample), options=options)
    found = done[sample]
    if isinstance(found, Exception):
        raise found
    return found
