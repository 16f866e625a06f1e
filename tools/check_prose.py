"""Holds names and docstrings to the field's words, by folder; the lists below say which words avoid them.

tools/prose_allowed.txt says how many findings a folder still has. More than that fail; fewer are written down with
`--write`, so that the numbers only fall.
"""

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("core", "kernel", "viz", "profiler", "tools", "tests", "benchmarks", "examples")
ALLOWED = Path("tools/prose_allowed.txt")

VAGUE_NAMES = {
    "asked", "found", "given", "heard", "kept", "known", "made", "meant", "named", "own", "said", "stuff", "taken",
    "told", "wanted",
}  # fmt: skip
"""Names of variables and parameters that say what happened to a value and not what it is."""

VAGUE_VERBS = re.compile(
    r"\b(is|are|was|were) told\b|\bhears?\b|\btells?\b|\bcomes? of\b|\bgoes on\b|\bis meant\b|\bare meant\b|\bwants?\b|"
    r"\bsays nothing\b|\bknows nothing\b",
    re.IGNORECASE,
)
"""Verbs of a docstring that say nothing of what code does; returns, checks, raises, caches, lowers, waits do."""

RIDDLES = re.compile(r"^(What|Whether everything|Of what|So long|Down to|Those that|How it)\b")
"""Beginnings of a docstring that is no definition."""


def python_files(root: Path) -> Iterator[Path]:
    """Python sources below `root`, relative to it."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            if not {"__pycache__", "node_modules", "output"} & set(path.parts):
                yield path.relative_to(root)


def folder_of(path: Path) -> str:
    """The folder that `path` is counted with: a package of core, or a top folder."""
    return "/".join(
        path.parts[:3] if path.parts[0] == "core" and len(path.parts) > 3 else path.parts[:1]
    )


def findings(text: str) -> Iterator[tuple[int, str]]:
    """(line, what is wrong there) in the Python source `text`."""
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Store)
            and node.id in VAGUE_NAMES
        ):
            yield node.lineno, f"the name `{node.id}`: use a noun of the field"
        elif isinstance(node, ast.arg) and node.arg in VAGUE_NAMES:
            yield node.lineno, f"the parameter `{node.arg}`: use a noun of the field"
        for statement in getattr(node, "body", ()) if isinstance(node, documented) else ():
            docstring = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(docstring, ast.Constant) and isinstance(docstring.value, str):
                verb = VAGUE_VERBS.search(docstring.value)
                if verb is not None:
                    yield docstring.lineno, f"a docstring with `{verb[0]}`: say what the code does"
                if RIDDLES.match(docstring.value):
                    start = " ".join(docstring.value.split()[:4])
                    yield (
                        docstring.lineno,
                        f"a docstring that begins with `{start}`: name the thing",
                    )


def read_allowed(path: Path) -> dict[str, int]:
    """Findings that each folder may have; a line is `folder: number`."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    pairs = (line.partition(":") for line in lines if line.strip() and not line.startswith("#"))
    return {folder.strip(): int(number) for folder, _, number in pairs}


def hold(counts: Counter[str], path: Path, head: str, problem: str, *, write: bool) -> int:
    """1 if some count is larger than the file at `path` allows, which is reported; `write` lowers what it allows."""
    allowed = read_allowed(path)
    problems = {name: n for name, n in counts.items() if n > allowed.get(name, 0)}
    for name, number in sorted(problems.items()):
        print(f"{name}: {number} {problem}; {allowed.get(name, 0)} are allowed.", file=sys.stderr)
    if write:
        lowered = {name: min(n, allowed.get(name, n)) for name, n in sorted(counts.items())}
        lines = [head, *(f"{name}: {number}" for name, number in lowered.items() if number)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 1 if problems else 0


def main() -> int:
    """Check the repository; the exit status is 1 if a folder has more findings than it may have."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument(
        "paths", nargs="*", type=Path, help="list the findings of these files or folders"
    )
    arguments.add_argument(
        "--write", action="store_true", help="lower the numbers that are allowed"
    )
    options = arguments.parse_args()
    count_by_folder: Counter[str] = Counter()
    for path in python_files(ROOT):
        folder = folder_of(path)
        is_listed = any(path.is_relative_to(p) for p in options.paths)
        for line, text in findings((ROOT / path).read_text(encoding="utf-8")):
            count_by_folder[folder] += 1
            if is_listed:
                print(f"{path}:{line}: {text}")
    return hold(
        count_by_folder,
        ROOT / ALLOWED,
        "# Vague names and docstrings that a folder still has (tools/check_prose.py). Numbers only fall.",
        "vague names or docstrings; `python tools/check_prose.py FOLDER` lists them",
        write=options.write,
    )


if __name__ == "__main__":
    sys.exit(main())
