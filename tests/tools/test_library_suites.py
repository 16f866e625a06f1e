"""The runner of libraries' test suites, on a suite whose tests fail with pellucid, with both, and after others."""

import sys

import pytest

from tools import library_suites

TESTS = """
import jax
import pytest

before = []

def test_passes(): before.append(1)
@pytest.mark.parametrize("x", ["a b", "c;d"])
def test_fails_with_pellucid(x): assert not hasattr(jax, "__pellucid__")
def test_fails_with_both(): assert False
def test_fails_after_another(): assert not before
def test_is_skipped(): pytest.skip("not counted")
@pytest.fixture
def broken(): assert not hasattr(jax, "__pellucid__")
def test_has_a_fixture_that_fails(broken): pass
"""


@pytest.fixture
def suite(tmp_path, monkeypatch) -> library_suites.Suite:
    tests = tmp_path / "build" / "library-1.0" / "tests"
    tests.mkdir(parents=True)
    (tmp_path / "conftest.py").write_text("raise AssertionError('the configuration of pellucid')")
    (tests / "suite_test.py").write_text(TESTS)
    (tests / "other_test.py").write_text("def test_passes(): pass")
    suite = library_suites.Suite("library", "tests")
    monkeypatch.setattr(library_suites, "SOURCES", tmp_path / "build")
    monkeypatch.setattr(library_suites, "SUITES", {"library": suite})
    monkeypatch.setattr("importlib.metadata.version", lambda name: "1.0")
    return suite


def test_what_fails_with_pellucid_alone_is_listed(suite, monkeypatch, capsys) -> None:
    arguments = ["library_suites.py", "library", "--under", "suite_test.py"]
    monkeypatch.setattr(sys, "argv", arguments)
    assert library_suites.main() == 1
    file = "tests/suite_test.py"
    assert capsys.readouterr().out.splitlines() == [
        "| library, `suite_test.py` | 2 | 5 | 3 of `suite_test.py` |",
        f"    {file}::test_fails_with_pellucid[a b]",
        f"    {file}::test_fails_with_pellucid[c;d]",
        f"    {file}::test_has_a_fixture_that_fails",
    ]


def test_tests_are_chosen_by_words_of_their_names(suite) -> None:
    chosen = library_suites.run(suite, "1/0", 60, keyword="fails and not pellucid")
    assert {test.partition("::")[2] for test in chosen.outcomes} == {
        "test_fails_with_both", "test_fails_after_another", "test_has_a_fixture_that_fails"
    }  # fmt: skip
    row = library_suites.row("a", library_suites.result_of("passed\tt"), [], 1, keyword="x or y")
    assert row == "| a, those of `x or y` | 1 | 1 |  |"


def test_samples_and_runs_that_were_stopped(suite) -> None:
    every_third = library_suites.run(suite, "3/1", 60, under="suite_test.py")
    names = [test.partition("::")[2] for test in every_third.outcomes]
    assert names == ["test_fails_with_pellucid[a b]", "test_fails_after_another"]
    assert every_third.is_complete
    stopped = every_third._replace(is_complete=False)
    assert library_suites.row("a", stopped, [], 3) == "| a, one test in 3, the first 2 | 1 | 1 |  |"
    assert not library_suites.run(suite, "1/0", 0.01).is_complete
