"""The search for an interpreter that environments are made with."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "tools" / "find_python.sh"
OURS = f"{sys.version_info.major}.{sys.version_info.minor}"
OTHER = "3.11" if OURS != "3.11" else "3.12"


def find(*versions: str, chosen: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT, *versions],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"PELLUCID_PYTHON": chosen},
    )


def test_the_chosen_interpreter_is_taken() -> None:
    actual = find(chosen=sys.executable)
    assert actual.returncode == 0
    assert Path(actual.stdout.strip()).samefile(sys.executable)


def test_an_interpreter_of_another_version_is_refused() -> None:
    actual = find(OTHER, chosen=sys.executable)
    assert actual.returncode == 1
    assert actual.stdout == ""
    assert f"No usable Python of version {OTHER} was found." in actual.stderr


def test_an_interpreter_that_does_not_start_is_refused() -> None:
    actual = find(chosen="/no/such/python")
    assert actual.returncode == 1
    assert "3.11, 3.12, 3.13" in actual.stderr
