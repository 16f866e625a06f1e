"""Holds source files to the size that a reader can keep in mind.

A file over 900 lines fails, unless tools/sizes_allowed.txt names it with a reason. A function over
80 lines is listed, so that somebody looks at it a second time; it fails nothing.
"""

import argparse
import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE_LIMIT = 900
FUNCTION_LOOK = 80
FOLDERS = (
    "core",
    "kernel",
    "viz",
    "profiler",
    "lab-extension",
    "tools",
    "tests",
    "benchmarks",
    "examples",
)
SUFFIXES = {".py", ".ts", ".tsx", ".css"}
SKIPPED = {"node_modules", "lib", "dist", "__pycache__", "coverage", "output"}
ALLOWED = Path("tools/sizes_allowed.txt")


@dataclass(frozen=True, slots=True)
class LongFunction:
    """A function longer than a reader takes in at one look."""

    path: Path
    line: int
    name: str
    lines: int


def source_files(root: Path) -> Iterator[Path]:
    """Sources below `root` that people write, relative to it."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            relative = path.relative_to(root)
            if path.suffix in SUFFIXES and path.is_file() and not SKIPPED & set(relative.parts):
                yield relative


def read_allowed(path: Path) -> dict[Path, str]:
    """The files that may be longer, each with its reason.

    A line is `path: reason`; empty lines and lines that begin with # are skipped.

    Raises: ValueError for a line without a reason.
    """
    allowed: dict[Path, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, reason = line.partition(":")
        if not reason.strip():
            message = f"{path}, line {number}: {name.strip()} is allowed without a reason."
            raise ValueError(message)
        allowed[Path(name.strip())] = reason.strip()
    return allowed


def long_functions(path: Path, text: str) -> Iterator[LongFunction]:
    """Functions in the Python source `text` that have more than 80 lines."""
    for node in ast.walk(ast.parse(text, filename=str(path))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LOOK:
                yield LongFunction(path, node.lineno, node.name, lines)


def check(root: Path, *, quiet: bool = False) -> list[str]:
    """Files below `root` that are too long, as messages; prints the long functions unless `quiet`."""
    allowed = read_allowed(root / ALLOWED)
    problems: list[str] = []
    functions: list[LongFunction] = []
    too_long: set[Path] = set()
    for path in source_files(root):
        text = (root / path).read_text(encoding="utf-8")
        count = len(text.splitlines())
        if count > FILE_LIMIT:
            too_long.add(path)
            if path not in allowed:
                problems.append(f"{path} has {count} lines; the limit is {FILE_LIMIT}.")
        if path.suffix == ".py":
            functions.extend(long_functions(path, text))
    problems += [
        f"{ALLOWED} names {path}, which is not longer than {FILE_LIMIT} lines; remove it."
        for path in sorted(set(allowed) - too_long)
    ]
    if functions and not quiet:
        print(f"Functions over {FUNCTION_LOOK} lines, for a second look:")
        for function in sorted(functions, key=lambda function: -function.lines):
            print(f"  {function.lines:4} {function.path}:{function.line} {function.name}")
    return problems


def main() -> int:
    """Check the repository; the exit status is 1 if some file is too long."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--root", type=Path, default=ROOT, help="folder to check")
    arguments.add_argument("--quiet", action="store_true", help="don't list long functions")
    options = arguments.parse_args()
    problems = check(options.root, quiet=options.quiet)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
