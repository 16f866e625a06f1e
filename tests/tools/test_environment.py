"""`tools/environment.sh` installs what changed, once, and says so; pip is a stand-in."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = f"""#!/bin/sh
# Runs as Python, but for pip, whose arguments it writes down.
case "$1 $2" in
"-m pip")
    echo "$*" >>"$CALLS"
    echo "Collecting numpy>=2.0"
    echo "Collecting jaxlib"
    echo "Installing collected packages: numpy, jaxlib"
    exit "${{PIP_STATUS:-0}}"
    ;;
esac
exec {sys.executable} "$@"
"""
Install = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An environment whose Python is a stand-in."""
    python = tmp_path / "venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(PYTHON)
    python.chmod(0o755)
    return tmp_path / "venv"


@pytest.fixture
def install(folder: Path) -> Install:
    def run(
        extras: str, status: int = 0, stdout: int = subprocess.PIPE
    ) -> subprocess.CompletedProcess[str]:
        variables = {"CALLS": str(folder / "calls"), "PIP_STATUS": str(status)}
        command = ["sh", str(ROOT / "tools/environment.sh"), str(folder), extras]
        env = os.environ | variables
        return subprocess.run(
            command, check=False, text=True, env=env, stdout=stdout, stderr=subprocess.PIPE
        )

    return run


def calls(folder: Path) -> list[str]:
    """The extras that pip was asked to install, in turn."""
    path = folder / "calls"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.rpartition("[")[2].rstrip("]") for line in lines]


def test_what_is_installed_is_installed_once(folder: Path, install: Install) -> None:
    first = install("lab")
    assert first.returncode == 0
    assert "about a minute" in first.stdout
    assert "Installed in" in first.stdout
    assert install("lab").stdout == ""
    assert calls(folder) == ["lab"]


def test_an_environment_for_development_serves_the_lab(folder: Path, install: Install) -> None:
    install("lab")
    install("dev")
    assert install("lab").stdout == ""
    assert calls(folder) == ["lab", "dev"]


def test_a_failure_is_no_installation(folder: Path, install: Install) -> None:
    assert install("lab", status=1).returncode == 1
    assert not (folder / "pellucid-installed").exists()
    assert install("lab").returncode == 0
    assert calls(folder) == ["lab", "lab"]


def read(terminal: int) -> Iterator[str]:
    """What was written to a terminal; its other end is closed, which Linux calls an error."""
    with os.fdopen(terminal, "rb", buffering=0) as file, contextlib.suppress(OSError):
        while data := file.read(1000):
            yield data.decode()


@pytest.mark.parametrize("status", [0, 1])
def test_a_terminal_shows_progress(folder: Path, install: Install, status: int) -> None:
    reader, writer = pty.openpty()
    outcome = install("lab", status=status, stdout=writer)
    os.close(writer)
    shown = "".join(read(reader))
    assert outcome.returncode == status
    assert "2 packages found: jaxlib" in shown
    assert ("Installed in" in shown) == (status == 0)
