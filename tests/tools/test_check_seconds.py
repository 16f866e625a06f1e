"""The seconds of folders of tests, on a small run of its own."""

from pathlib import Path

import pytest

from tools import check_seconds

RUN = """<testsuites><testsuite>
<testcase classname="tests.laws.test_programs" name="test_a[row]" time="50.5" />
<testcase classname="tests.laws.test_sharding" name="test_b" time="11" />
<testcase classname="core.pellucid.base.errors" name="pellucid.base.errors" time="59" />
</testsuite></testsuites>"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for folder in ("tests/laws", "core/pellucid/base", "tools"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / check_seconds.ALLOWED).write_text("# nothing yet\n")
    (tmp_path / "run.xml").write_text(RUN)
    return tmp_path


def problems(repository: Path) -> list[str]:
    durations = check_seconds.read_durations(repository, repository / "run.xml")
    return check_seconds.check(repository, durations)


def test_the_tests_of_a_folder_count_together(repository: Path) -> None:
    assert problems(repository) == ["The tests in tests/laws took 62 s; the limit is 60 s."]


def test_a_folder_may_be_granted_more(repository: Path) -> None:
    (repository / check_seconds.ALLOWED).write_text("tests/laws: 70: all rows (2026-01-01)\n")
    assert problems(repository) == []


def test_a_grant_needs_seconds_and_a_reason(repository: Path) -> None:
    for line in ("tests/laws: 70", "tests/laws: many: all rows"):
        (repository / check_seconds.ALLOWED).write_text(line)
        with pytest.raises(ValueError, match="write `folder: seconds: reason`"):
            problems(repository)


def test_a_grant_for_no_folder_fails(repository: Path) -> None:
    (repository / check_seconds.ALLOWED).write_text("tests/laws: 70: x\ntests/gone: 40: x\n")
    assert problems(repository) == [
        "tools/seconds_allowed.txt names tests/gone, which doesn't exist; remove it."
    ]


def test_the_report_begins_with_the_slowest_test(repository: Path) -> None:
    durations = check_seconds.read_durations(repository, repository / "run.xml")
    listed = check_seconds.report(durations).splitlines()
    assert listed[0].split() == ["120", "s", "in", "all", "tests"]
    assert "core.pellucid.base.errors::pellucid.base.errors" in listed[2]
