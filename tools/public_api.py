"""Writes down every public name, so that a review shows when one comes, goes or changes its signature.

Public is what `__all__` of a package lists, or of a module directly in a package's folder. Facades of `pellucid`, such
modules without `__all__`, show all that they import. `--check` compares with tests/snapshots/public_api.txt and writes nothing.
"""

import argparse
import difflib
import importlib
import inspect
import pkgutil
import sys
import types
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SNAPSHOT = Path("tests/snapshots/public_api.txt")
PACKAGES = ("pellucid", "pellucid_kernel", "pellucid_viz", "pellucid_profiler")
SKIPPED = {"__main__", "wiring"}
LITERALS = (str, int, float, bool, type(None))


def public_modules(package: types.ModuleType) -> Iterator[types.ModuleType]:
    """`package`, its subpackages at any depth, and the modules directly in its own folder."""
    yield package
    for entry in pkgutil.walk_packages(package.__path__, prefix=f"{package.__name__}."):
        parent, _, name = entry.name.rpartition(".")
        if name not in SKIPPED and (entry.ispkg or parent == package.__name__):
            module = importlib.import_module(entry.name)
            if names_of(module) is not None:
                yield module


def names_of(module: types.ModuleType) -> list[str] | None:
    """The names that `module` shows; None if it is no public one."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    if module.__name__.rpartition(".")[0] not in ("pellucid", "pellucid.experimental") or hasattr(
        module, "__path__"
    ):
        return None
    values = vars(module).items()
    return [n for n, x in values if n[0] != "_" and not isinstance(x, types.ModuleType)]


def default_text(default: object) -> str:
    """A default value as text that is equal on every machine."""
    return repr(default) if isinstance(default, LITERALS) else "..."


def signature_text(function: object) -> str:
    """Names, kinds and literal defaults of the parameters of `function`; "" if it has none."""
    if not callable(function):
        return ""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ""
    bare: list[inspect.Parameter] = []
    for parameter in parameters:
        bare.append(parameter.replace(annotation=inspect.Parameter.empty))
        if parameter.default is not inspect.Parameter.empty:
            text = default_text(parameter.default)
            bare[-1] = bare[-1].replace(default=Verbatim(text))
    return str(inspect.Signature(bare))


class Verbatim:
    """A value whose repr is the given text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def lines_of(name: str, value: object) -> Iterator[str]:
    """One line for `value`, and for a class one for each of its own public methods."""
    if isinstance(value, types.ModuleType):
        yield f"{name}: module"
    elif isinstance(value, type):
        yield f"{name}: class"
        for attribute, member in sorted(vars(value).items()):
            # Static and class methods are called through their function.
            method: object = getattr(member, "__func__", member)
            if not attribute.startswith("_") and callable(method):
                yield f"{name}.{attribute}{signature_text(method)}"
    elif callable(value):
        yield f"{name}{signature_text(value)}"
    else:
        yield f"{name}: {type(value).__name__}"


def public_api(packages: tuple[str, ...] = PACKAGES) -> str:
    """All public names of `packages`, one on a line, in the order of the alphabet."""
    lines: set[str] = set()
    for package in map(importlib.import_module, packages):
        for module in list(public_modules(package)):  # all are loaded: one may add to another
            for name in names_of(module) or ():
                lines |= set(lines_of(f"{module.__name__}.{name}", getattr(module, name)))
    return "".join(f"{line}\n" for line in sorted(lines))


def main() -> int:
    """Write the snapshot, or with `--check` compare it; the exit status is 1 if it differs."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--check", action="store_true", help="compare, write nothing")
    options = arguments.parse_args()
    path, text = ROOT / SNAPSHOT, public_api()
    if options.check:
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        changes = list(
            difflib.unified_diff(
                before.splitlines(), text.splitlines(), "committed", "now", n=0, lineterm=""
            )
        )
        for line in changes:
            print(line, file=sys.stderr)
        if changes:
            print("Public names changed. If that is meant, run `make snapshots`.", file=sys.stderr)
        return 1 if changes else 0
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    print(SNAPSHOT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
