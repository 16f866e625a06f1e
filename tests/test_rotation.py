"""Parts of the rotating tests: together they are all, and a tree always has the same one."""

from collections.abc import Callable

import pytest
import rotation

pytest_plugins = ("pytester",)

GRID = """
import pytest

@pytest.mark.parametrize("i", range(100))
@pytest.mark.rotates
def test_grid(i): pass

@pytest.mark.parametrize("i", range(16))
def test_of_row(i): pass

@pytest.mark.slow
def test_that_takes_minutes(): pass

def test_in_every_run(): pass
"""
CONFTEST = """
import pytest, rotation

def pytest_collection_modifyitems(config, items):
    for item in items:
        if item.originalname == "test_of_row":
            item.add_marker(pytest.mark.rotates("row"))
    rotation.deselect(config, items)
"""


@pytest.fixture
def selected(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., frozenset[str]]:
    """`selected(part, *arguments)`: the tests of the grid that a run of `part` takes."""
    pytester.makepyfile(test_grid=GRID)
    pytester.makeconftest(CONFTEST)
    pytester.makeini("[pytest]\nmarkers =\n    rotates\n    slow\n")

    def run(part: int | None, *arguments: str) -> frozenset[str]:
        monkeypatch.setattr(rotation, "part_of_run", lambda: part)
        items, record = pytester.inline_genitems(*arguments)
        deselected = [item for call in record.getcalls("pytest_deselected") for item in call.items]
        return frozenset(item.nodeid for item in items if item not in deselected)

    return run


def test_all_parts_together_are_all_tests(selected: Callable[..., frozenset[str]]) -> None:
    parts = [selected(part) for part in range(rotation.PARTS)]
    everything = selected(None)
    assert frozenset.union(*parts) == everything
    assert len(everything) == 118
    always = frozenset.intersection(*parts)
    assert always == {"test_grid.py::test_in_every_run"}
    assert sum(len(part - always) for part in parts) == len(everything - always)
    assert max(map(len, parts)) < 40
    with_rows = [part for part in parts if any("test_of_row" in name for name in part)]
    assert len(with_rows) == 1


def test_named_tests_run_in_every_part(selected: Callable[..., frozenset[str]]) -> None:
    for part in (0, 1):
        assert len(selected(part, "-k", "test_grid and not takes")) == 117
        assert len(selected(part, "test_grid.py::test_that_takes_minutes")) == 1


def test_a_run_without_a_choice_takes_the_part_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(rotation.VARIABLE, raising=False)
    assert rotation.part_of_run.__wrapped__() == int(rotation.PART.read_text())
    assert int(rotation.PART.read_text()) in range(rotation.PARTS)


@pytest.mark.parametrize("chosen", ["8", "-1", "some"])
def test_a_part_that_does_not_exist_is_an_error(
    monkeypatch: pytest.MonkeyPatch, chosen: str
) -> None:
    monkeypatch.setenv(rotation.VARIABLE, chosen)
    with pytest.raises(ValueError, match=f"PELLUCID_TEST_PART is .*not '{chosen}'"):
        rotation.part_of_run.__wrapped__()
