"""Compares pellucid's public names and their parameters with the reference's, module by module.

tests/corpus/reference_names.txt has the reference's names and parameters. What is missing or incompatible is
written to tests/snapshots/missing_api.txt; `--check` compares with it and writes nothing; `--counts` prints one row
for each module: its names, those that exist, and those whose parameters are compatible.

Parameters are compatible if calls that the reference accepts bind the same arguments here: positional ones have the
same places and names, keywords exist, and default values that have a text are equal. Where the reference has `*args`
or `**kwargs`, named parameters are as good. Names that begin with `_` are nobody's.
"""

import argparse
import importlib
import importlib.util
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import Parameter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "tests" / "corpus" / "reference_names.txt"
SNAPSHOT = Path("tests/snapshots/missing_api.txt")
LITERALS = (str, int, float, bool, type(None))

OBJECTS: dict[str, Callable[[Any], Any]] = {
    "Array": lambda pl: pl.numpy.zeros((2, 2)),
    "Array.at[]": lambda pl: pl.numpy.zeros((2, 2)).at[0],
    "devices()[0]": lambda pl: pl.devices()[0],
    "jit()": lambda pl: pl.jit(abs),
    "jit().lower()": lambda pl: pl.jit(abs).lower(1.0),
    "jit().lower().compile()": lambda pl: pl.jit(abs).lower(1.0).compile(),
    "jit().trace()": lambda pl: pl.jit(abs).trace(1.0),
    "make_jaxpr()": lambda pl: pl.make_jaxpr(abs)(1.0),
}
"""Objects whose attributes are compared, by their name below `pellucid`."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Names of one module of the reference that are missing here, and why others have incompatible parameters."""

    module: str
    exists: bool
    names: int
    missing: list[str]
    incompatible: dict[str, str]

    @property
    def compatible(self) -> int:
        """Number of names that exist with compatible parameters (or have none)."""
        return self.names - len(self.missing) - len(self.incompatible)


def reference_api() -> dict[str, dict[str, str | None]]:
    """The names of each module or object of the reference with their parameters; None for names without any."""
    api: dict[str, dict[str, str | None]] = {}
    names: dict[str, str | None] = {}
    for line in REFERENCE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        if not line.startswith(" "):
            names = api["pellucid" + line.removeprefix("jax")] = {}
            continue
        text = line.strip()
        parameters: str | None = None
        if text.startswith("("):
            parameters, _, text = text[1:].rpartition(") ")
        names |= dict.fromkeys(text.split(), parameters)
    return api


def owner_of(module: str) -> object | None:
    """The module or object of this name; None if there is none."""
    name = module.removeprefix("pellucid.")
    if name in OBJECTS:
        return OBJECTS[name](importlib.import_module("pellucid"))
    try:
        if importlib.util.find_spec(module) is None:
            return None
    except ModuleNotFoundError:  # not even its package
        return None
    return importlib.import_module(module)


def coverage(module: str, names: dict[str, str | None]) -> Coverage:
    """`names` of the reference's module compared with those that `module` has here."""
    owner = owner_of(module)
    missing = [name for name in names if owner is None or not hasattr(owner, name)]
    incompatible: dict[str, str] = {}
    for name in names.keys() - set(missing):
        parameters = names[name]
        if parameters is not None:
            difference = difference_of(parameters, getattr(owner, name))
            if difference is not None:
                incompatible[name] = difference
    return Coverage(
        module, owner is not None, len(names), sorted(missing), dict(sorted(incompatible.items()))
    )


def default_text(default: object) -> str:
    """A default value as text that is equal on every machine."""
    return repr(default) if isinstance(default, LITERALS) else "..."


def parsed(text: str) -> list[Parameter]:
    """The parameters that `text`, as `inspect` prints them without annotations, lists."""
    parameters: list[Parameter] = []
    kind = Parameter.POSITIONAL_OR_KEYWORD
    for part in text.split(", ") if text else ():
        name, _, default = part.partition("=")
        if name == "/":
            parameters = [p.replace(kind=Parameter.POSITIONAL_ONLY) for p in parameters]
        elif name == "*":
            kind = Parameter.KEYWORD_ONLY
        elif name.startswith("**"):
            parameters.append(Parameter(name[2:], Parameter.VAR_KEYWORD))
        elif name.startswith("*"):
            parameters.append(Parameter(name[1:], Parameter.VAR_POSITIONAL))
            kind = Parameter.KEYWORD_ONLY
        else:
            parameters.append(Parameter(name, kind, default=default or Parameter.empty))
    return parameters


def difference_of(text: str, function: object) -> str | None:
    """The first call of the reference, whose parameters are `text`, that `function` would bind otherwise."""
    if not callable(function):
        return "not callable"
    try:
        ours = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return "no signature"
    kinds = {p.kind for p in ours}
    places = [p for p in ours if p.kind <= Parameter.POSITIONAL_OR_KEYWORD]
    by_name = {p.name: p for p in ours if p.kind is not Parameter.POSITIONAL_ONLY}
    for place, theirs in enumerate(parsed(text)):
        if theirs.name.startswith("_") or theirs.kind is Parameter.VAR_KEYWORD:
            continue
        if theirs.kind is Parameter.VAR_POSITIONAL:
            if theirs.kind not in kinds and place >= len(places):
                return f"no *{theirs.name}"
            continue
        here = by_name.get(theirs.name)
        if theirs.kind <= Parameter.POSITIONAL_OR_KEYWORD:
            if place < len(places):
                here = places[place]
            elif Parameter.VAR_POSITIONAL not in kinds:
                return f"no {theirs.name} at place {place}"
            if theirs.kind is Parameter.POSITIONAL_OR_KEYWORD and by_name.get(theirs.name) != here:
                return f"{theirs.name} is no keyword at place {place}"
        if here is None:
            if Parameter.VAR_KEYWORD not in kinds:
                return f"no {theirs.name}"
        elif theirs.default is not Parameter.empty:
            if here.default is Parameter.empty:
                return f"{theirs.name} has no default"
            default = default_text(here.default)
            if theirs.default not in ("...", default):
                return f"{theirs.name}={default}, not {theirs.default}"
    return next(unknown_required(parsed(text), ours), None)


def unknown_required(theirs: list[Parameter], ours: list[Parameter]) -> Iterator[str]:
    """Parameters without default that only `ours` has."""
    if any(p.kind is Parameter.VAR_POSITIONAL for p in theirs):
        return
    places = sum(p.kind <= Parameter.POSITIONAL_OR_KEYWORD for p in theirs)
    names = {p.name for p in theirs}
    for place, parameter in enumerate(ours):
        is_variadic = parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        is_shared = parameter.name in names or place < places
        if parameter.default is Parameter.empty and not is_variadic and not is_shared:
            yield f"{parameter.name} is required"


def reference_names() -> dict[str, list[str]]:
    """The public names of each module of the reference, by the name that the module has here."""
    return {module: list(names) for module, names in reference_api().items()}


def all_coverage() -> list[Coverage]:
    """The comparison of each module and object of the reference."""
    return [coverage(module, names) for module, names in reference_api().items()]


def report(modules: list[Coverage]) -> str:
    """One paragraph for each module with something missing or incompatible, the numbers of such names first."""
    paragraphs: list[str] = []
    for each in modules:
        if each.exists and not each.missing and not each.incompatible:
            continue
        head = f"{each.module}: {len(each.missing)} of {each.names}"
        head += f", {len(each.incompatible)} incompatible" if each.incompatible else ""
        lines = [head if each.exists else f"{head}, no such module"]
        if each.missing:
            lines.append(textwrap.fill(" ".join(each.missing), 100, initial_indent="    ", subsequent_indent="    ",
                                       break_long_words=False, break_on_hyphens=False))  # fmt: skip
        lines += [f"    {name}: {difference}" for name, difference in each.incompatible.items()]
        paragraphs.append("\n".join(lines) + "\n")
    return "".join(paragraphs)


def counts(modules: list[Coverage]) -> str:
    """A table with the numbers of names that exist and that are compatible, and their sum."""
    rows = [(m.module, m.names, m.names - len(m.missing), m.compatible) for m in modules if m.names]
    rows.append(("all", *(sum(column) for column in list(zip(*rows, strict=True))[1:])))  # type: ignore[arg-type]
    width = max(len(row[0]) for row in rows)
    lines = [f"{'':{width}}  names  exist  compatible"]
    lines += [
        f"{module:{width}}  {names:5}  {exist:5}  {compatible:10}  {100 * compatible / names:5.1f} %"
        for module, names, exist, compatible in rows
    ]
    return "\n".join(lines)


def main() -> int:
    """Write the snapshot, or with `--check` compare it; the exit status is 1 if it differs."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--check", action="store_true", help="compare, write nothing")
    arguments.add_argument("--counts", action="store_true", help="print a table, write nothing")
    options = arguments.parse_args()
    modules = all_coverage()
    if options.counts:
        print(counts(modules))
        return 0
    path, text = ROOT / SNAPSHOT, report(modules)
    if options.check:
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{SNAPSHOT} is out of date. Run `make snapshots`.", file=sys.stderr)
            return 1
        return 0
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    print(SNAPSHOT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
