"""Tells what the tests of a run took: the slowest ones, and each folder. It fails nothing, as machines differ.

Reads the JUnit file of a run (`make test` writes one).
"""

import argparse
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LISTED_TESTS = 10
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


def main() -> None:
    """Print the report of a run."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("results", type=Path, nargs="?", default=ROOT / RESULTS)
    print(report(read_durations(ROOT, arguments.parse_args().results)))


if __name__ == "__main__":
    main()
