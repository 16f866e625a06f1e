"""What public names say of themselves, of either library: `__name__`, `__module__`, docstrings, classes of errors, stages.

`python tests/corpus/metadata.py` prints what the reference's say, for `reference_metadata.txt`; it needs jax. Parameters
are in `reference_names.txt`, as tools/missing_api.py compares them.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(__file__).parent
NAMES = FOLDER / "reference_names.txt"
REFERENCE = FOLDER / "reference_metadata.txt"
STAGES = ("clear_cache", "eval_shape", "lower", "trace")


@dataclass(frozen=True)
class Facts:
    """What one name says of itself."""

    name: str | None = None
    """Its `__name__`."""
    module: str | None = None
    """Its `__module__`, if that is a public one; the library's own name is `jax`."""
    is_documented: bool = False
    has_stages: bool = False
    """Whether it has the attributes of jitted functions."""
    bases: frozenset[str] = field(default_factory=frozenset)
    """Of a class of errors, itself and its public bases below Exception."""


def public_names() -> Iterator[tuple[str, str]]:
    """The reference's public modules and names; attributes of objects are left out."""
    module = ""
    for line in NAMES.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        if not line.startswith(" "):
            module = line
        elif "(" not in module and "[" not in module and not module.endswith(".Array"):
            text = line.strip()
            names = text.rpartition(") ")[2] if text.startswith("(") else text
            yield from ((module, name) for name in names.split())


@functools.cache
def public_modules() -> frozenset[str]:
    """The public modules of the reference that have names."""
    return frozenset(module for module, _ in public_names())


def is_spoken_of(x: Any) -> bool:
    """Whether `x` is a function or a class, which have names, and no alias of types."""
    return callable(x) and not isinstance(x, ModuleType) and isinstance(name_of(x), str)


def name_of(x: Any) -> Any:
    """The `__name__` of `x`; None without one."""
    return getattr(x, "__name__", None)


def facts_of(x: Any, library: str) -> Facts:
    """What `x`, a function or class of `library`, says of itself."""
    module = as_reference(getattr(x, "__module__", None) or "", library)
    bases: list[str] = []
    if isinstance(x, type) and issubclass(x, BaseException):
        bases = [as_reference(f"{c.__module__}.{c.__name__}", library) for c in x.__mro__[:-3]]
    return Facts(
        name_of(x),
        module if module in public_modules() else None,
        bool(x.__doc__),
        all(hasattr(x, stage) for stage in STAGES),
        frozenset(b for b in bases if b.rpartition(".")[0] in {"builtins", *public_modules()}),
    )


def as_reference(name: str, library: str) -> str:
    """A dotted name of `library` as it is below `jax`."""
    return f"jax{name.removeprefix(library)}" if f"{name}.".startswith(f"{library}.") else name


def all_facts(library: str) -> dict[tuple[str, str], Facts]:
    """The facts of each public name that is a function or a class of `library`, by module and name."""
    facts: dict[tuple[str, str], Facts] = {}
    for module, name in public_names():
        try:
            x = getattr(importlib.import_module(library + module.removeprefix("jax")), name)
        except (ImportError, AttributeError):
            continue
        if is_spoken_of(x):
            facts[module, name] = facts_of(x, library)
    return facts


def text_of(facts: dict[tuple[str, str], Facts]) -> str:
    """The facts as lines: after a module, the names of one kind, and what names say that is not as usual."""
    lines: list[str] = []
    for module in dict.fromkeys(module for module, _ in facts):
        lines.append(module)
        groups: dict[str, list[str]] = {}
        for (owner, name), each in facts.items():
            if owner == module:
                groups.setdefault(_kind(name, module, each), []).append(name)
        lines += [f"    {kind}: {' '.join(sorted(groups[kind]))}" for kind in sorted(groups)]
    return "\n".join(lines) + "\n"


def _kind(name: str, module: str, facts: Facts) -> str:
    words = ["documented"] if facts.is_documented else ["bare"]
    words += ["jitted"] if facts.has_stages else []
    words += [f"called {facts.name}"] if facts.name != name else []
    if facts.module is not None:
        words.append("here" if facts.module == module else f"of {facts.module}")
    bases = sorted(b.removeprefix("builtins.") for b in facts.bases)
    words += [f"is {' '.join(bases)}"] if bases else []
    return ", ".join(words)


def reference_facts() -> dict[tuple[str, str], Facts]:
    """The reference's facts, as they were recorded."""
    facts: dict[tuple[str, str], Facts] = {}
    module = ""
    for line in REFERENCE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        if not line.startswith(" "):
            module = line
            continue
        kind, _, names = line.strip().partition(": ")
        for name in names.split():
            facts[module, name] = _facts(kind, name, module)
    return facts


def _facts(kind: str, name: str, module: str) -> Facts:
    words = {word.partition(" ")[0]: word.partition(" ")[2] for word in kind.split(", ")}
    bases = words.get("is", "").split()
    return Facts(
        words.get("called", name),
        module if "here" in words else words.get("of"),
        "documented" in words,
        "jitted" in words,
        frozenset(b if b.startswith("jax.") else f"builtins.{b}" for b in bases),
    )


HEAD = """\
# What the reference's functions and classes say of themselves, from release {}: after the line of a module stand kinds
# and their names. `documented` ones have a docstring, `jitted` ones the attributes {}; `called` is a
# `__name__` that differs, `here` and `of` a public `__module__`; `is` lists an error's class and its public bases.
# Written by `python tests/corpus/metadata.py > tests/corpus/reference_metadata.txt`.
"""


if __name__ == "__main__":
    reference = importlib.import_module("jax")
    sys.stdout.write(HEAD.format(reference.__version__, ", ".join(STAGES)))
    sys.stdout.write(text_of(all_facts("jax")))
