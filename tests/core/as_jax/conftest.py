"""Two environments in which pellucid is installed: one that has the reference too, and one that doesn't have it at all."""

from __future__ import annotations

import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = [str(ROOT / part) for part in ("core", "kernel", "profiler", "viz")]


def make_environment(folder: Path, without: tuple[str, ...]) -> Path:
    """The interpreter of a new virtual environment with all packages of this one, but those that match `without`.

    pellucid is the one of this checkout, with the file through which Python asks for it when it starts.
    """
    venv.EnvBuilder(symlinks=True).create(folder)
    places = {"base": str(folder), "platbase": str(folder)}
    site = Path(sysconfig.get_path("purelib", "venv", vars=places))
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if package.suffix != ".pth" and not any(package.match(pattern) for pattern in without):
            (site / package.name).symlink_to(package)
    (site / "checkout.pth").write_text("\n".join(FOLDERS), encoding="utf-8")
    (site / "pellucid_start.pth").write_bytes((ROOT / "core" / "pellucid_start.pth").read_bytes())
    return Path(sysconfig.get_path("scripts", "venv", vars=places)) / "python"


@pytest.fixture(scope="session")
def interpreters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The interpreters of the two environments, by name."""
    folder = tmp_path_factory.mktemp("environments")
    return {
        "both installed": make_environment(folder / "both", ()),
        "pellucid alone": make_environment(folder / "alone", ("jax", "jax-*.dist-info")),
    }


@pytest.fixture(params=["both installed", "pellucid alone"])
def interpreter(request: pytest.FixtureRequest, interpreters: dict[str, Path]) -> Path:
    """The interpreter of each of the two environments."""
    return interpreters[request.param]
