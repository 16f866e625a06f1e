"""Counts what docstrings of public functions and classes lack, by module: an example, shapes or dtypes, errors.

tools/docstrings_allowed.txt says how much a module may still lack. More than that fails; less is written down with
`--write`, so that the numbers only fall. With names of modules, lists what theirs lack.
"""

import argparse
import inspect
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.api_pages import is_documented, members, public_modules  # noqa: E402  (tools beside this one)
from tools.check_prose import hold  # noqa: E402

ALLOWED = Path("tools/docstrings_allowed.txt")
ARRAY_MODULES = re.compile(r"pellucid\.(numpy|lax|nn|random|scipy|image|ops)\b")
"""Modules whose functions take or return arrays: their docstrings give shapes or dtypes, and errors."""

SHAPES = re.compile(r"shape|dtype|scalar|vector|matri|\[[a-z0-9, .…*]+\]")
"""Words of a docstring that gives the shape or the dtype of a result; `[n, m]` is a shape, too."""


def findings() -> Iterator[tuple[str, str]]:
    """(module, text) of everything that is missing, by the first module that shows a name."""
    seen: set[int] = set()
    for module in public_modules():
        for name, value in members(module).items():
            if is_documented(value) and id(value) not in seen:
                seen.add(id(value))
                of_arrays = bool(ARRAY_MODULES.match(module.__name__)) and takes_operands(value)
                for lacking in lacks(inspect.getdoc(value) or "", of_arrays=of_arrays):
                    yield module.__name__, f"{name}: {lacking}"


def takes_operands(value: object) -> bool:
    """Whether `value` is a function with parameters."""
    return (
        callable(value)
        and not isinstance(value, type)
        and bool(inspect.signature(value).parameters)
    )


def lacks(docstring: str, *, of_arrays: bool) -> list[str]:
    """Missing parts of a docstring; those of functions of arrays also give shapes or dtypes, and errors."""
    text, example, _ = docstring.partition(">>>")
    return [
        *([] if example else ["no example"]),
        *(["no shape or dtype of its result"] if of_arrays and not SHAPES.search(text) else []),
        *(["no error that it raises"] if of_arrays and "aises" not in text else []),
    ]


def main() -> int:
    """Check all public modules; the exit status is 1 if one lacks more than it may."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("modules", nargs="*", help="list what the names of these modules lack")
    arguments.add_argument(
        "--write", action="store_true", help="lower the numbers that are allowed"
    )
    options = arguments.parse_args()
    lacking = list(findings())
    for module, text in lacking:
        if module in options.modules:
            print(f"{module}.{text}")
    return hold(
        Counter(module for module, _ in lacking),
        ROOT / ALLOWED,
        "# What docstrings of public names still lack (tools/check_docstrings.py). Numbers only fall.",
        "examples, shapes or errors missing; `python tools/check_docstrings.py MODULE` lists them",
        write=options.write,
    )


if __name__ == "__main__":
    sys.exit(main())
