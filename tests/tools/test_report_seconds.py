"""The seconds of tests and folders, of a small run of its own."""

from pathlib import Path

from tools import report_seconds

RUN = """<testsuites><testsuite>
<testcase classname="tests.laws.test_programs" name="test_a[row]" time="50.5" />
<testcase classname="tests.laws.test_sharding" name="test_b" time="11" />
<testcase classname="core.pellucid._machine.base.errors" name="pellucid._machine.base.errors" time="59" />
</testsuite></testsuites>"""


def test_the_report_begins_with_the_slowest_test(tmp_path: Path) -> None:
    (tmp_path / "tests/laws").mkdir(parents=True)
    (tmp_path / "core/pellucid/_machine/base").mkdir(parents=True)
    (tmp_path / "run.xml").write_text(RUN)
    durations = report_seconds.read_durations(tmp_path, tmp_path / "run.xml")
    listed = report_seconds.report(durations).splitlines()
    assert listed[0].split() == ["120", "s", "in", "all", "tests"]
    assert "core.pellucid._machine.base.errors::pellucid._machine.base.errors" in listed[2]
    assert listed[-2].split() == ["61.5", "s", "tests/laws"]
