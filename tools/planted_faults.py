"""Plant faults in a copy of the sources, one at a time, and see that the tests named for each notice.

`planted_faults.toml` lists them, one of each kind: the text that is changed, and tests of the default run that must fail.

    python tools/planted_faults.py               # all of them, a minute each
    python tools/planted_faults.py swapped       # those whose kind has the word
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import NamedTuple

GIT = shutil.which("git") or "git"
ROOT = Path(__file__).parent.parent
TABLE = Path(__file__).with_suffix(".toml")
PACKAGES = ("core", "kernel", "viz", "profiler")
SECONDS = 900
"""After which tests that hang count as failed."""


class Fault(NamedTuple):
    """A change of one place in a file, and the tests that must notice it."""

    kind: str
    file: str
    before: str
    after: str
    tests: list[str]


def faults(words: list[str]) -> list[Fault]:
    """The faults of the table whose kind has all `words`."""
    rows = tomllib.loads(TABLE.read_text(encoding="utf-8"))["fault"]
    return [Fault(**row) for row in rows if all(word in row["kind"] for word in words)]


def copy_tree(folder: Path) -> None:
    """Copy what tests need of the tree, with files that are built."""
    names = subprocess.check_output([GIT, "ls-files", "-z"], cwd=ROOT, text=True).split("\0")
    built = ["viz/pellucid_viz/static/viewer.js"]
    for name in [*filter(None, names), *built]:
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)


def plant(fault: Fault, folder: Path) -> str:
    """Change the file in `folder`; its text before.

    Raises: ValueError where the text to change isn't there exactly once.
    """
    path = folder / fault.file
    text = path.read_text(encoding="utf-8")
    if text.count(fault.before) != 1:
        raise ValueError(
            f"{fault.kind}: {text.count(fault.before)} places in {fault.file} have\n{fault.before}"
        )
    path.write_text(text.replace(fault.before, fault.after), encoding="utf-8")
    return text


def failed_test(tests: list[str], folder: Path) -> str | None:
    """The first test that fails in `folder`, or what else ended the run; None if all pass."""
    sources = os.pathsep.join(str(folder / package) for package in PACKAGES)
    environment = {**os.environ, "PYTHONPATH": sources, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "--no-header",
        "-p",
        "no:cacheprovider",
        *tests,
    ]
    try:
        run = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"no end within {SECONDS} s"
    if run.returncode == 0:
        return None
    for line in run.stdout.splitlines():
        if line.startswith(("FAILED ", "ERROR ")):
            return line.split(" ", 1)[1].split(" - ")[0]
    return f"exit status {run.returncode}: {run.stdout[-500:]}{run.stderr[-500:]}"


def main() -> int:
    """Print for each fault which test noticed it; 1 if one wasn't noticed."""
    missed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_tree(folder)
        for fault in faults(sys.argv[1:]):
            text = plant(fault, folder)
            failed = failed_test(fault.tests, folder)
            (folder / fault.file).write_text(text, encoding="utf-8")
            if failed is not None and "::" in failed and failed_test([failed], folder) is not None:
                print(f"NO FAULT {fault.kind}\n    {failed} fails without it, too", flush=True)
                missed += 1
                continue
            missed += failed is None
            print(
                f"{'MISSED ' if failed is None else 'noticed'}  {fault.kind}\n    {failed or ''}",
                flush=True,
            )
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
