"""Writes down every public name, so that a review shows when one comes, goes or changes its signature.

Public is what `__all__` of a package lists, or of a module directly in a package's folder. Modules that the reference
has, too, are public at any depth; these and modules directly in pellucid show all that they import if they have no `__all__`. `--check` compares with tests/snapshots/public_api.txt and writes nothing.
"""

from __future__ import annotations
import __future__

import argparse
import difflib
import importlib
import inspect
import pkgutil
import sys
import types
from collections.abc import Collection, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.missing_api import default_text, reference_names  # noqa: E402  (a tool beside this one)

SNAPSHOT = Path("tests/snapshots/public_api.txt")
PACKAGES = ("pellucid", "pellucid_kernel", "pellucid_viz", "pellucid_profiler")
FACADES = frozenset(reference_names())
"""Modules that the reference has, by the names that they have here."""
NOT_SHOWN = (
    types.ModuleType,
    type(__future__.annotations),
)  # what `from __future__` imports is an object, too
SKIPPED = {"__main__", "wiring"}


def public_modules(package: types.ModuleType) -> Iterator[types.ModuleType]:
    """`package`, its subpackages at any depth, and the modules directly in its own folder."""
    yield package
    for entry in pkgutil.walk_packages(package.__path__, prefix=f"{package.__name__}."):
        parent, _, name = entry.name.rpartition(".")
        is_private = "._" in entry.name
        is_outer = name not in SKIPPED and (entry.ispkg or parent == package.__name__)
        if (is_outer and not is_private) or entry.name in FACADES:
            module = importlib.import_module(entry.name)
            if names_of(module) is not None:
                yield module


def names_of(module: types.ModuleType) -> list[str] | None:
    """The names that `module` shows; None if it is no public one."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    parent = module.__name__.rpartition(".")[0]
    is_outer = parent in ("pellucid", "pellucid.experimental") and not hasattr(module, "__path__")
    if not is_outer and module.__name__ not in FACADES:
        return None
    values = vars(module).items()
    return [n for n, x in values if n[0] != "_" and not isinstance(x, NOT_SHOWN)]


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


def lines_of(name: str, value: object, public: Collection[object] = ()) -> Iterator[str]:
    """One line for `value`, and for a class that isn't NumPy's one for each of its public methods, as `members_of` has them."""
    if isinstance(value, types.ModuleType):
        yield f"{name}: module"
    elif isinstance(value, type):
        yield f"{name}: class"
        for attribute, member in sorted(members_of(value, public).items()):
            # Static and class methods are called through their function.
            method: object = getattr(member, "__func__", member)
            if not attribute.startswith("_") and callable(method):
                yield f"{name}.{attribute}{signature_text(method)}"
    elif callable(value):
        yield f"{name}{signature_text(value)}"
    else:
        yield f"{name}: {type(value).__name__}"


def members_of(kind: type, public: Collection[object]) -> dict[str, object]:
    """Members that a class defines, or bases of its package that are none of `public`; none for NumPy's classes."""
    package = kind.__module__.partition(".")[0]
    members: dict[str, object] = {}
    for each in () if package == "numpy" else reversed(kind.__mro__):
        if each is kind or (each.__module__.partition(".")[0] == package and each not in public):
            members |= vars(each)
    return members


def public_api(packages: tuple[str, ...] = PACKAGES) -> str:
    """All public names of `packages`, one on a line, in the order of the alphabet."""
    roots = map(importlib.import_module, packages)
    modules = [
        each for root in roots for each in public_modules(root)
    ]  # all are loaded: one may add to another
    values = {
        f"{module.__name__}.{name}": getattr(module, name)
        for module in modules
        for name in names_of(module) or ()
    }
    public = {value for value in values.values() if isinstance(value, type)}
    lines = {line for name, value in values.items() for line in lines_of(name, value, public)}
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
