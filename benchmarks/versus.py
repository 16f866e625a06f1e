"""Run the same measurement in pellucid and in jax, alternately, and print the ratio of medians.

A question file defines `measurements(library)`: a dict from a name to a function that measures once and gives
seconds (or another amount where smaller is better). Each library runs in a process of its own, because the two
can't share one; the processes take turns, so that a busy machine disturbs both alike.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
# Processes that compile all modules anew would be measured; jax's bytecode was stored when it was installed.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


class Target(NamedTuple):
    """The aim: pellucid's amount at most `ratio` times jax's."""

    ratio: float
    unit: str = "us"


_SCALES = {"us": 1e6, "ms": 1e3, "s": 1.0, "MiB": 2**-20, "": 1.0}


def per_call(function: Callable[[], Any], *, seconds: float = 0.05, warm_up: int = 3) -> float:
    """Best seconds of one call, over four loops of about `seconds` together."""
    for _ in range(warm_up):
        function()
    start = time.perf_counter()
    function()
    n = max(1, int(seconds / max(time.perf_counter() - start, 1e-7) / 4))
    best = float("inf")
    for _ in range(4):
        start = time.perf_counter()
        for _ in range(n):
            function()
        best = min(best, (time.perf_counter() - start) / n)
    return best


def distinct_fusions(hlo: str) -> int:
    """Number of fusions of an optimized program that differ in more than names: XLA's CPU compiler compiles each once.

    Those that call a library (`kind=kCustom`) are left out.
    """
    hlo = re.sub(r", (?:metadata|backend_config)=\{[^\n]*", "", hlo)
    bodies = dict(re.findall(r"^(%[\w.-]+) \([^\n]*\{\n(.*?)^\}", hlo, re.MULTILINE | re.DOTALL))
    names = re.findall(r" fusion\(.*kind=(?!kCustom)\w+, calls=(%[\w.-]+)", hlo)
    return len({_without_names(bodies[name]) for name in names})


def _without_names(body: str) -> str:
    numbers: dict[str, str] = {}
    return re.sub(r"%[\w.-]+", lambda name: numbers.setdefault(name[0], f"%{len(numbers)}"), body)


class Worker:
    """One library in a process of its own."""

    def __init__(self, library: str, file: pathlib.Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "versus.py"), "--worker", library, str(file)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.names = self._receive()

    def _receive(self) -> Any:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("@"):
                answer = json.loads(line[1:])
                if isinstance(answer, dict) and "error" in answer:
                    raise RuntimeError(answer["error"])
                return answer
        raise RuntimeError(f"the worker of {self.process.args[3]} ended")  # type: ignore[index]

    def measure(self, name: str) -> float:
        """One measurement of `name`."""
        assert self.process.stdin is not None
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        return self._receive()

    def stop(self) -> None:
        """Let the process end in order; one that doesn't within a minute is killed."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def work(library: str, file: str) -> None:
    """The worker's loop: a name in, an amount out."""
    spec = importlib.util.spec_from_file_location("question", file)
    assert spec is not None
    assert spec.loader is not None
    question = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(question)
    if library == "jax":
        import jax as chosen
    else:
        import pellucid as chosen
    measurements = question.measurements(chosen)
    print("@" + json.dumps(list(measurements)), flush=True)
    for line in sys.stdin:
        try:
            answer: Any = measurements[line.strip()]()
        except Exception as error:
            answer = {"error": f"{line.strip()} in {library}: {type(error).__name__}: {error}"}
        print("@" + json.dumps(answer), flush=True)


def compare(
    file: str,
    targets: dict[str, Target],
    *,
    rounds: int = ROUNDS,
    otherwise: Target = Target(1.0),  # noqa: B008 - a NamedTuple is immutable
) -> list[dict[str, Any]]:
    """Measure alternately, compare with `targets` by name or `otherwise`, print one line for each measurement, return the records."""
    ours, theirs = Worker("pellucid", pathlib.Path(file)), Worker("jax", pathlib.Path(file))
    records = []
    try:
        for name in ours.names:
            mine, other = [], []
            for _ in range(rounds):
                mine.append(ours.measure(name))
                other.append(theirs.measure(name))
            target = targets.get(name, otherwise)
            scale = _SCALES[target.unit]
            a, b = statistics.median(mine), statistics.median(other)
            ratio = a / b if b else float("nan")
            met = "ok  " if ratio <= target.ratio else "MISS"
            print(
                f"{met} {name:<52} {a * scale:10.2f} {target.unit:<3} jax {b * scale:10.2f} {target.unit:<3} "
                f"ratio {ratio:5.2f} (wanted <= {target.ratio:.2f})",
                flush=True,
            )
            records.append(
                {
                    "name": name,
                    "pellucid": a,
                    "jax": b,
                    "ratio": ratio,
                    "wanted": target.ratio,
                    "unit": target.unit,
                }
            )
    finally:
        ours.stop()
        theirs.stop()
    return records


if __name__ == "__main__" and sys.argv[1:2] == ["--worker"]:
    work(*sys.argv[2:4])
