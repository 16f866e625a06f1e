"""The project with a native function is built as its users build it, and its own tests pass."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = [str(ROOT / folder) for folder in ("core", "kernel", "viz", "profiler")]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler g++")
def test_it_builds_and_its_tests_pass(tmp_path: Path) -> None:
    project = shutil.copytree(
        ROOT / "examples" / "ffi_project",
        tmp_path / "project",
        ignore=shutil.ignore_patterns("build", "__pycache__", "*.egg-info"),
    )
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": "3",
        "XLA_FLAGS": "",
        "PYTHONPATH": os.pathsep.join([str(tmp_path / "built"), *PACKAGES]),
    }

    def python(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=project, env=environment, capture_output=True,
            text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    # What pip does when it makes the wheel, without another environment for it.
    python("setup.py", "-q", "build", "--build-lib", str(tmp_path / "built"))
    report = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "tests")
    assert " passed" in report
    assert "skipped" not in report
