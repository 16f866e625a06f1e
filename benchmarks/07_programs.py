"""How large are transformed programs, and how much does reverse mode keep, compared with the reference?

For each program of the corpus of tests: equations after dead-code elimination, with those of inner programs, and bytes
of residuals when the program itself is differentiated. A name ends in `!` where ours is more; tests/corpus/sizes.py
says what is counted and why a program may be larger.
"""

from __future__ import annotations

import importlib
import json
import pathlib
import subprocess
import sys
from typing import Any

TESTS = pathlib.Path(__file__).resolve().parents[1] / "tests"


def sizes_module() -> Any:
    """The module of the tests that measures."""
    sys.path.insert(0, str(TESTS))
    return importlib.import_module("corpus.sizes")


def measured_by(library: str) -> dict[str, list[Any]]:
    """The sizes in a process that imports `library`."""
    run = subprocess.run(
        [sys.executable, __file__, "--worker", library],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(run.stdout.splitlines()[-1])


def compare() -> None:
    """Print the table."""
    corpus = sizes_module()
    ours, theirs = measured_by("pellucid"), measured_by("jax")
    larger = corpus.larger(ours, theirs)
    shown = lambda n: str(n) if isinstance(n, int) else "-"
    print(f"{'program':<44} {'equations':>10} {'jax':>6}   {'residual bytes':>14} {'jax':>8}")
    for name, mine in ours.items():
        a, b, c, d = map(shown, (mine[0], theirs[name][0], mine[1], theirs[name][1]))
        mark = "!" if name in larger else " "
        print(f"{name + mark:<44} {a:>10} {b:>6}   {c:>14} {d:>8}  {corpus.REASONS.get(name, '')}")
    print(
        f"{len(ours)} programs; larger in {len(larger)}, of which {len(larger & {*corpus.REASONS})} with a reason"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        print(json.dumps(sizes_module().sizes(importlib.import_module(sys.argv[2]))))
    else:
        compare()
