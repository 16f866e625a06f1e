"""Counts public functions and classes whose docstring has no example, by module.

tools/examples_allowed.txt says how many a module still has. More than that fail; fewer are written down with `--write`,
so that the numbers only fall. With names of modules, lists theirs.
"""

import argparse
import inspect
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.api_pages import is_documented, members, public_modules  # noqa: E402  (tools beside this one)
from tools.check_prose import hold  # noqa: E402

ALLOWED = Path("tools/examples_allowed.txt")


def names_without_example() -> list[tuple[str, str]]:
    """(module, name) of each documented function or class without a doctest, by the first module that shows it."""
    names: list[tuple[str, str]] = []
    seen: set[int] = set()
    for module in public_modules():
        for name, value in members(module).items():
            if is_documented(value) and id(value) not in seen:
                seen.add(id(value))
                if ">>>" not in (inspect.getdoc(value) or ""):
                    names.append((module.__name__, name))
    return names


def main() -> int:
    """Check all public modules; the exit status is 1 if one has more names without an example than it may have."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("modules", nargs="*", help="list the names of these modules")
    arguments.add_argument(
        "--write", action="store_true", help="lower the numbers that are allowed"
    )
    options = arguments.parse_args()
    names = names_without_example()
    for module, name in names:
        if module in options.modules:
            print(f"{module}.{name}")
    return hold(
        Counter(module for module, _ in names),
        ROOT / ALLOWED,
        "# Public functions and classes that have no example yet (tools/check_examples.py). Numbers only fall.",
        "public names without an example; `python tools/check_examples.py MODULE` lists them",
        write=options.write,
    )


if __name__ == "__main__":
    sys.exit(main())
