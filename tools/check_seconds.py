"""Holds folders of tests to the seconds that a run can spend on them.

Reads the JUnit file of a run (`make test` writes one). A folder whose tests took more than a minute together fails,
unless tools/seconds_allowed.txt grants it more with a reason. The slowest tests are listed; they fail nothing.
"""

import argparse
import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER_LIMIT_SECONDS = 60
LISTED_TESTS = 10
ALLOWED = Path("tools/seconds_allowed.txt")
RESULTS = Path(".test-results/tests.xml")


@dataclass(frozen=True, slots=True)
class Duration:
    """Seconds of one test: setup, call and teardown."""

    folder: str
    name: str
    seconds: float


def read_durations(root: Path, results: Path) -> list[Duration]:
    """Durations in a JUnit file, each with the folder of its test relative to `root`."""
    durations: list[Duration] = []
    for case in ET.parse(results).iter("testcase"):  # noqa: S314  (pytest wrote it)
        module = case.get("classname", "")
        durations.append(
            Duration(
                folder_of(root, module),
                f"{module}::{case.get('name', '')}",
                float(case.get("time", 0)),
            )
        )
    return durations


def folder_of(root: Path, module: str) -> str:
    """Folder that holds a test, for the dotted name of its module (and class)."""
    folder = Path()
    for part in module.split("."):
        if not (root / folder / part).is_dir():
            break
        folder /= part
    return folder.as_posix()


def read_allowed(path: Path) -> dict[str, float]:
    """Seconds of the folders that may take longer.

    A line is `folder: seconds: reason`; empty lines and lines that begin with # are skipped.

    Raises: ValueError for a line without seconds or without a reason.
    """
    allowed: dict[str, float] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        folder, _, rest = line.partition(":")
        seconds, _, reason = rest.partition(":")
        if not seconds.strip().isdigit() or not reason.strip():
            message = f"{path}, line {number}: write `folder: seconds: reason`, not {line!r}."
            raise ValueError(message)
        allowed[folder.strip()] = float(seconds)
    return allowed


def check(root: Path, durations: Iterable[Duration]) -> list[str]:
    """Folders whose tests took more seconds than they may, as messages."""
    allowed = read_allowed(root / ALLOWED)
    totals: dict[str, float] = defaultdict(float)
    for duration in durations:
        totals[duration.folder] += duration.seconds
    problems = [
        f"The tests in {folder} took {total:.0f} s; the limit is {limit:.0f} s."
        for folder, total in sorted(totals.items())
        if total > (limit := allowed.get(folder, FOLDER_LIMIT_SECONDS))
    ]
    problems += [
        f"{ALLOWED} names {folder}, which doesn't exist; remove it."
        for folder in allowed
        if not (root / folder).is_dir()
    ]
    return problems


def report(durations: Iterable[Duration]) -> str:
    """The slowest tests, and seconds by folder."""
    durations = sorted(durations, key=lambda duration: -duration.seconds)
    totals: dict[str, float] = defaultdict(float)
    for duration in durations:
        totals[duration.folder] += duration.seconds
    lines = [f"{sum(totals.values()):7.0f} s in all tests", "Slowest tests:"]
    lines += [f"{d.seconds:7.1f} s  {d.name}" for d in durations[:LISTED_TESTS]]
    lines.append("Folders:")
    lines += [f"{t:7.1f} s  {folder}" for folder, t in sorted(totals.items(), key=lambda x: -x[1])]
    return "\n".join(lines)


def main() -> int:
    """Check a run; the exit status is 1 if some folder took too long."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("results", type=Path, nargs="?", default=ROOT / RESULTS)
    arguments.add_argument("--quiet", action="store_true", help="list nothing")
    options = arguments.parse_args()
    durations = read_durations(ROOT, options.results)
    if not options.quiet:
        print(report(durations))
    problems = check(ROOT, durations)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
