"""Runs the test suites that come with the source distributions of libraries, with pellucid in the place of jax.

`python tools/library_suites.py NAME… --under PATH --keyword WORDS --sample N --offset K` downloads the source of the installed version of each library,
runs every N-th test below PATH from the K-th on, runs what failed once more with pellucid and with jax itself, and prints one row for
`docs/libraries.md` and the tests that fail with pellucid alone. It is also the pytest plugin of the runs that it starts.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "build" / "library_suites"
SELECTION, OUTCOMES = "LIBRARY_SUITE_SELECTION", "LIBRARY_SUITE_OUTCOMES"
"""Environment variables of a run: `N/K`, or the file of the node ids to run; the file that outcomes are written to."""


class Suite(NamedTuple):
    """The test suite of one library: its distribution, its folder there, the files that no environment runs, and its variables.

    A file that its tests import and the distribution lacks, of the name `supplied`, is a copy of `tests/tools/NAME_support.py`.
    """

    distribution: str
    tests: str
    ignored: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    supplied: str = ""


SUITES = {
    "blackjax": Suite("blackjax", "tests"),
    "brax": Suite("brax", "brax"),
    "chex": Suite("chex", "chex"),
    "distrax": Suite("distrax", "distrax"),
    "dm-pix": Suite("dm-pix", "dm_pix"),
    "dynamax": Suite("dynamax", "dynamax"),
    "e3nn-jax": Suite("e3nn-jax", "tests"),
    "einops": Suite("einops", "einops/tests"),
    "flax": Suite("flax", "tests", ("tests/io_test.py", "tests/tensorboard_test.py")),  # TensorFlow
    "flowjax": Suite("flowjax", "tests"),
    "gpjax": Suite("gpjax", "tests"),
    "haiku": Suite("dm-haiku", "haiku", ("haiku/_src/integration/jax2tf_test.py",)),  # TensorFlow
    "jax-md": Suite("jax-md", "tests"),
    "jaxlie": Suite(
        "jaxlie", "tests", ("tests/test_examples.py",), supplied="utils.py"
    ),  # no examples
    "kfac-jax": Suite("kfac-jax", "tests"),
    "mctx": Suite("mctx", "mctx"),
    "mujoco-mjx": Suite("mujoco-mjx", "mujoco/mjx"),
    "keras": Suite("keras", "keras/src", environment=(("KERAS_BACKEND", "jax"),)),
    "numpyro": Suite("numpyro", "test"),
    "optax": Suite("optax", "optax"),
    "orthax": Suite("orthax", "tests"),
    "penzai": Suite("penzai", "tests"),
    "quax": Suite("quax", "tests"),
    "quimb": Suite("quimb", "tests"),
    "s2fft": Suite("s2fft", "tests"),
    "tinygp": Suite("tinygp", "tests"),
}


class Result(NamedTuple):
    """Outcomes of a run by node id, each `passed`, `failed` or `skipped`, and whether the run came to its end."""

    outcomes: dict[str, str]
    is_complete: bool

    def count(self, outcome: str) -> int:
        """The number of tests with that outcome."""
        return Counter(self.outcomes.values())[outcome]


# The pytest plugin ----------------------------------------------------------------------------------------


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of the selection; what couldn't be collected is no test."""
    selection = os.environ.get(SELECTION)
    if selection is None:
        return
    step, _, offset = selection.partition("/")
    if step.isdigit():
        items[:] = items[int(offset) :: int(step)]
        return
    chosen = set(Path(selection).read_text().splitlines())
    items[:] = [item for item in items if item.nodeid in chosen]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Append the outcome of a test to the file of outcomes: it is there also if the run is stopped."""
    path = os.environ.get(OUTCOMES)
    if path is None or (report.when != "call" and report.outcome == "passed"):
        return
    with open(path, "a") as file:
        file.write(f"{report.outcome}\t{report.nodeid}\n")


# The runs -------------------------------------------------------------------------------------------------


def source_of(distribution: str) -> Path:
    """The unpacked source distribution of the installed version, which pip downloads if it isn't there."""
    version = importlib.metadata.version(distribution)
    stem = f"{distribution.replace('-', '_')}-{version}"
    SOURCES.mkdir(parents=True, exist_ok=True)
    # Where a library has no configuration, pytest would take ours, and fixtures of ours that import pellucid.
    (SOURCES / "pytest.ini").touch()
    packed = SOURCES / f"{stem}.tar.gz"
    if not (SOURCES / stem).is_dir():
        if not packed.exists():
            # Binary packages of build tools are taken, which pip needs to read the metadata.
            command = [sys.executable, "-m", "pip", "download", "--no-deps"]
            requirement = ["--no-binary", distribution, f"{distribution}=={version}"]
            subprocess.run([*command, "--dest", SOURCES, *requirement], check=True)
        with tarfile.open(packed) as archive:
            archive.extractall(SOURCES, filter="data")
    return SOURCES / stem


def run(
    suite: Suite,
    selection: str,
    seconds: float,
    test_seconds: float = 60,
    *,
    with_jax: bool = False,
    under: str = "",
    keyword: str = "",
) -> Result:
    """Run the selected tests of a suite, or of a path in its folder, in a process of their own, for at most `seconds`, and one test `test_seconds`.

    `keyword` is an expression of words in the tests' names, as pytest's `-k` has it.
    """
    source = source_of(suite.distribution)
    name = f"{suite.distribution}{'.jax' if with_jax else ''}"
    if suite.supplied:
        support = ROOT / "tests" / "tools" / f"{suite.distribution}_support.py"
        shutil.copy(support, source / suite.tests / suite.supplied)
    outcomes, log = SOURCES / f"{name}.outcomes", SOURCES / f"{name}.log"
    outcomes.write_text("")
    runner = ["pytest"] if with_jax else ["pellucid.as_jax", "-m", "pytest"]
    command = [
        sys.executable, "-m", *runner, str(Path(suite.tests, under)), "-q", "-p", Path(__file__).stem, "-p", "no:cacheprovider",
        "-p", "no:xdist", "--import-mode=importlib", "-W", "ignore", "--continue-on-collection-errors",
        "--rootdir=.", "--color=no", "--tb=short", f"--timeout={test_seconds}",
        *(f"--ignore={path}" for path in suite.ignored), *(("-k", keyword) if keyword else ()),
    ]  # fmt: skip
    path, folder = str(Path(__file__).parent), source / suite.tests
    if not (folder / "__init__.py").exists():  # its test files import each other by name
        path = f"{path}{os.pathsep}{folder}"
    path = os.pathsep.join(filter(None, (path, os.environ.get("PYTHONPATH", ""))))
    environment = os.environ | {SELECTION: selection, OUTCOMES: str(outcomes), "PYTHONPATH": path}
    environment |= dict(suite.environment)
    environment["PELLUCID_AS_JAX"] = "0" if with_jax else "1"
    is_complete = True
    with log.open("w") as file:
        try:
            subprocess.run(
                command, check=False, cwd=source, env=environment, stdout=file, stderr=file, timeout=seconds
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            is_complete = False
    return result_of(outcomes.read_text(), is_complete)


def result_of(text: str, is_complete: bool = True) -> Result:
    """The result that a file of outcomes has; a test that failed in any of its stages failed."""
    outcomes: dict[str, str] = {}
    for line in text.splitlines():
        outcome, _, test = line.partition("\t")
        if outcomes.get(test) != "failed":
            outcomes[test] = outcome
    return Result(outcomes, is_complete)


def row(
    name: str, result: Result, failing: list[str], sample: int, under: str = "", keyword: str = ""
) -> str:
    """The library's row of the table in `docs/libraries.md`; `failing` are the tests that pass with jax."""
    passed = result.count("passed")  # what fails with jax, or only after other tests, is left out
    share = f", `{under}`" if under else ""
    share += f", those of `{keyword}`" if keyword else ""
    share += "" if sample == 1 else f", one test in {sample}"
    stopped = "" if result.is_complete else f", the first {len(result.outcomes):,}"
    files = Counter(test.partition("::")[0].rpartition("/")[2] for test in failing)
    what = ", ".join(f"{count} of `{file}`" for file, count in files.most_common())
    return f"| {name}{share}{stopped} | {passed:,} | {passed + len(failing):,} | {what} |"


def main() -> int:
    """Run the suites that are named, and print their rows; the exit status is 1 where a test fails with pellucid alone."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("names", nargs="+", choices=sorted(SUITES))
    arguments.add_argument(
        "--under", default="", metavar="PATH", help="file or folder of its tests"
    )
    arguments.add_argument(
        "--keyword", default="", metavar="WORDS", help="tests whose names have these, as pytest -k"
    )
    arguments.add_argument("--sample", type=int, default=1, metavar="N", help="run one test in N")
    arguments.add_argument("--offset", type=int, default=0, metavar="K", help="begin at test K")
    arguments.add_argument("--test-seconds", type=float, default=60, help="time limit of each test")
    arguments.add_argument("--seconds", type=float, default=900, help="time limit of each run")
    options = arguments.parse_args()
    any_failing = False
    for name in options.names:
        selection = f"{options.sample}/{options.offset}"
        part = {"under": options.under, "keyword": options.keyword}
        limits = options.seconds, options.test_seconds
        result = run(SUITES[name], selection, *limits, **part)
        failed = [test for test, outcome in result.outcomes.items() if outcome == "failed"]
        if failed:
            chosen = SOURCES / f"{name}.failed"
            chosen.write_text("\n".join(failed))
            # Both run them in the same company: what a test before them left behind is not there.
            again, reference = (
                run(SUITES[name], str(chosen), *limits, with_jax=with_jax).outcomes
                for with_jax in (False, True)
            )
            result = result._replace(outcomes=result.outcomes | again)
            failed = [
                t for t in failed if again.get(t) != "passed" and reference.get(t) == "passed"
            ]
        print(row(name, result, failed, options.sample, **part), *failed, sep="\n    ")
        any_failing |= bool(failed)
    return int(any_failing)


if __name__ == "__main__":
    sys.exit(main())
