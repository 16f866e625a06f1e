"""Names and commands that the documentation mentions in running text exist; those in examples are run."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import pellucid as pl
import pellucid.numpy as jnp
import pellucid_profiler  # noqa: F401  (`pl.profiler`)
from pellucid import lax

ROOT = Path(__file__).parents[2]
TEXTS = [
    *(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "api"),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
]
MODULES = {"pl": pl, "pellucid": pl, "jnp": jnp, "lax": lax}
"""What names in running text begin with."""
NO_NAMES = {"lax.select_and_scatter_p": "listed as missing", "pl.NAME": "stands for any option"}
"""What reads like a name and isn't one here, with the reason."""
NAME = re.compile(rf"`(({'|'.join(MODULES)})\.[A-Za-z_][A-Za-z_0-9.]*)(?=[`(,\[ ])")
MODULE = re.compile(r"python -m ((?:pellucid|pellucid_\w+)(?:\.\w+)*)")
TARGET = re.compile(r"`make ([a-z-]+)`")


def found(pattern: re.Pattern[str]) -> dict[str, Path]:
    """The first group of all matches, with a text that has each."""
    return {
        match[1]: path
        for path in TEXTS
        for match in pattern.finditer(path.read_text(encoding="utf-8"))
    }


def exists(name: str) -> bool:
    """Whether a dotted name is an attribute, or a module that can be imported."""
    first, *parts = name.rstrip(".").split(".")
    value: object = MODULES[first]
    for part in parts:
        if isinstance(value, ModuleType) and not hasattr(value, part):
            with contextlib.suppress(ImportError):
                importlib.import_module(f"{value.__name__}.{part}")
        if not hasattr(value, part):
            return False
        value = getattr(value, part)
    return True


def test_names_exist() -> None:
    names = {name: path for name, path in found(NAME).items() if name not in NO_NAMES}
    assert len(names) > 100
    assert not [
        f"{path.relative_to(ROOT)}: {name}" for name, path in names.items() if not exists(name)
    ]


def test_modules_that_are_run_exist() -> None:
    assert not [name for name in found(MODULE) if importlib.util.find_spec(name) is None]


@pytest.mark.parametrize("target", sorted(found(TARGET)))
def test_targets_of_make_exist(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
