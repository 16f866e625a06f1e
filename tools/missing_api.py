"""Writes down which public names of the reference pellucid lacks, module by module.

tests/corpus/reference_names.txt has one line for each module of the reference: its name and its public names.
`--check` compares with tests/snapshots/missing_api.txt and writes nothing.
"""

import argparse
import importlib
import importlib.util
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "tests" / "corpus" / "reference_names.txt"
SNAPSHOT = Path("tests/snapshots/missing_api.txt")


def reference_names() -> dict[str, list[str]]:
    """The public names of each module of the reference, by the name that the module has here."""
    names: dict[str, list[str]] = {}
    for line in REFERENCE.read_text(encoding="utf-8").splitlines():
        module, _, listed = line.partition(":")
        names["pellucid" + module.removeprefix("jax")] = listed.split()
    return names


def exists(module: str) -> bool:
    """Whether there is a module of this name."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # not even its package
        return False


def missing_names(module: str, names: list[str]) -> list[str]:
    """Those of `names` that `module` lacks: all of them if there is no such module."""
    if not exists(module):
        return names
    ours = importlib.import_module(module)
    return [name for name in names if not hasattr(ours, name)]


def report() -> str:
    """One paragraph for each module with something missing, the number of missing names first."""
    paragraphs: list[str] = []
    for module, names in reference_names().items():
        missing = missing_names(module, names)
        if not missing and (names or exists(module)):
            continue
        head = f"{module}: {len(missing)} of {len(names)}" + (
            "" if exists(module) else ", no such module"
        )
        listed = textwrap.fill(" ".join(missing), 100, initial_indent="    ", subsequent_indent="    ",
                               break_long_words=False, break_on_hyphens=False)  # fmt: skip
        paragraphs.append(f"{head}\n{listed}\n" if missing else f"{head}\n")
    return "".join(paragraphs)


def main() -> int:
    """Write the snapshot, or with `--check` compare it; the exit status is 1 if it differs."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--check", action="store_true", help="compare, write nothing")
    options = arguments.parse_args()
    path, text = ROOT / SNAPSHOT, report()
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
