"""How long do whole programs of other libraries take, from the start of Python to the last line?

Each measurement is a process that runs one program of `examples/libraries` as its users do, by jax or by what answers
`import jax` here: imports, tracing, compilation and steps together. Wall seconds depend on what else the machine does;
seconds of the processor much less. Programs whose libraries aren't installed are left out: `make test-libraries` makes an
environment with all of them, `build/libraries/bin/python benchmarks/25_library_programs.py` measures there. Names as
arguments choose programs.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import math
import os
import pathlib
import resource
import subprocess
import sys
import time
from typing import Any

from versus import Target, compare

_PROGRAMS = pathlib.Path(__file__).resolve().parents[1] / "examples" / "libraries"
_CHOICE = "BENCH_PROGRAMS"  # for the workers, which get no arguments
_WORST = Target(1.1, "s")
_GEOMETRIC_MEAN = 0.85


def measurements(jax: Any) -> dict[str, Any]:
    """Wall seconds and seconds of the processor of each program in a process of its own."""
    chosen = os.environ.get(_CHOICE, "").split()
    programs = [
        path
        for path in sorted(_PROGRAMS.glob("*.py"))
        if _installed(path) and (not chosen or path.stem in chosen)
    ]
    amounts = {"wall": 0, "processor": 1}
    return {
        f"{path.stem}, {amount}": functools.partial(_amount, jax.__name__, path, place)
        for path in programs
        for amount, place in amounts.items()
    }


def _installed(program: pathlib.Path) -> bool:
    modules = set()
    for node in ast.walk(ast.parse(program.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add((node.module or "").partition(".")[0])
    return all(importlib.util.find_spec(name) for name in modules - {"jax"})


_runs: dict[
    pathlib.Path, list[tuple[float, float]]
] = {}  # measured for one amount, to be given for the other


def _amount(library: str, program: pathlib.Path, place: int) -> float:
    """The amount of a run; both amounts of one round are those of the same run."""
    runs = _runs.setdefault(program, [])
    if place == 0:
        runs.append(_run(library, program))
        return runs[-1][0]
    return runs.pop(0)[1]


def _run(library: str, program: pathlib.Path) -> tuple[float, float]:
    answered = ["-m", "pellucid.as_jax"] if library == "pellucid" else []
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, *answered, str(program)], capture_output=True, text=True, check=False
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(
            f"{program.stem} ended with {done.returncode}: {done.stderr.strip().splitlines()[-1:]}"
        )
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    if sys.argv[1:]:
        os.environ[_CHOICE] = " ".join(sys.argv[1:])
    records = compare(
        __file__, {}, rounds=int(os.environ.get("BENCH_ROUNDS", "3")), otherwise=_WORST
    )
    for amount in ("wall", "processor"):
        ratios = [record["ratio"] for record in records if record["name"].endswith(f", {amount}")]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            met = "ok  " if mean <= _GEOMETRIC_MEAN else "MISS"
            print(
                f"{met} geometric mean of {len(ratios)} programs, {amount}: {mean:.2f} (wanted <= {_GEOMETRIC_MEAN:.2f})"
            )
