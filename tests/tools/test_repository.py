"""Files for code hosts and builders of documentation can be read, and say the same as the project's own."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
READ = sorted([*ROOT.glob(".github/**/*.yml"), ROOT / ".readthedocs.yaml", ROOT / "CITATION.cff"])
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", READ, ids=lambda path: path.name)
def test_the_file_can_be_read(path: Path) -> None:
    assert yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["ci", "release"])
def test_workflows_run_what_everybody_runs(name: str) -> None:
    [job] = read(f".github/workflows/{name}.yml")["jobs"].values()
    assert ".ci/run" in [step.get("run") for step in job["steps"]]


def test_hooks_run_files_that_exist() -> None:
    hooks = [hook for repo in read(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    files = [word for hook in hooks for word in hook["entry"].split() if word.startswith("tools/")]
    assert files
    assert not [name for name in files if not (ROOT / name).exists()]


def test_wheels_are_tried_on_every_supported_python() -> None:
    versions = read(".github/workflows/wheels.yml")["jobs"]["install"]["strategy"]["matrix"][
        "python"
    ]
    prefix = "Programming Language :: Python :: "
    assert versions == [
        c.removeprefix(prefix) for c in PROJECT["classifiers"] if c.startswith(prefix)
    ]


def test_the_version_stands_in_one_place() -> None:
    assert "version" in PROJECT["dynamic"]
    assert "version" not in read("CITATION.cff")


def test_extras_that_builders_name_exist() -> None:
    [by_pip, _] = read(".readthedocs.yaml")["python"]["install"]
    assert {*by_pip["extra_requirements"]} <= {*PROJECT["optional-dependencies"]}
    assert '".[all]"' in (ROOT / "Dockerfile").read_text(encoding="utf-8")
