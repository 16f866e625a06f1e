"""Do sharded programs exchange between devices what jax's exchange, and no more bytes?

For each program of the corpora it compares the optimized programs of both: how many exchanges of each kind, and the
bytes of their results, those of loops counted once. It prints the programs in which the two differ.
"""

from __future__ import annotations

import functools
import math
import os
import pathlib
import re
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

os.environ["PELLUCID_NUM_CPU_DEVICES"] = "8"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["PJRT_NPROC"] = "16"

from versus import Worker

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
from corpus import explicit_programs, manual_programs, sharded_programs
from corpus.recording import Recording

_EXCHANGE = re.compile(
    r" = (\(.*?\)|\S+) (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-start)?\("
)
_ARRAY = re.compile(r"([a-z]+)(\d*)\[([\d,]*)\]")


def exchanges(text: str) -> tuple[Counter[str], int]:
    """How many exchanges of each kind an HLO text has, and the bytes of their results."""
    kinds: Counter[str] = Counter()
    total = 0
    for line in text.splitlines():
        match = _EXCHANGE.search(line)
        if match is not None:
            kinds[match.group(2)] += 1
            for _, bits, dims in _ARRAY.findall(match.group(1)):
                total += math.prod(map(int, filter(None, dims.split(",")))) * int(bits or 8) // 8
    return kinds, total


def programs() -> dict[str, Callable[[Any], Any]]:
    """All programs of the corpora, each as a function of the array library."""
    found: dict[str, Callable[[Any], Any]] = {}
    for function, args in sharded_programs.PROGRAMS:
        found[f"sharded: {function.__name__}"] = lambda jax, f=function, a=args: f(jax, *a)
    for function in explicit_programs.PROGRAMS:
        found[f"explicit: {function.__name__}"] = function
    for form in (manual_programs.value, manual_programs.gradient):
        for name in manual_programs.PROGRAMS:
            if name not in (*manual_programs.NESTED, *manual_programs.UNKNOWN):
                key = f"manual: {form.__name__} of {name}"
                found[key] = lambda jax, f=form, n=name: f(jax, n)
    return found


def measurements(jax: Any) -> dict[str, Any]:
    """What each program exchanges: (kinds, bytes)."""

    def measured(program: Callable[[Any], Any]) -> Any:
        texts: list[str] = []
        recording = Recording(
            jax, lambda jitted, args: texts.append(jitted.lower(*args).compile().as_text())
        )
        try:
            program(recording)
        except Exception as error:  # some programs of the corpora are refused by both libraries
            return {"refused": type(error).__name__}
        found = [exchanges(text) for text in texts]
        return {
            "kinds": dict(sum((kinds for kinds, _ in found), Counter())),
            "bytes": sum(n_bytes for _, n_bytes in found),
        }

    return {name: functools.partial(measured, program) for name, program in programs().items()}


def main() -> None:
    here = pathlib.Path(__file__)
    ours, theirs = Worker("pellucid", here), Worker("jax", here)
    totals, exceeding, compared = [0, 0], 0, 0
    try:
        for name in ours.names:
            mine, other = ours.measure(name), theirs.measure(name)
            if "refused" in mine or "refused" in other:
                if ("refused" in mine) != ("refused" in other):
                    print(f"      {name}: pellucid {mine}, jax {other}", flush=True)
                continue
            compared += 1
            totals = [totals[0] + mine["bytes"], totals[1] + other["bytes"]]
            if mine["bytes"] > other["bytes"]:
                exceeding += 1
            if mine != other:
                word = "MORE" if mine["bytes"] > other["bytes"] else "    "
                print(f"{word}  {name}: pellucid {mine}, jax {other}", flush=True)
    finally:
        ours.stop()
        theirs.stop()
    met = "MISS" if exceeding else "ok  "
    print(f"{met} {compared} programs move {totals[0]} B, jax {totals[1]} B; {exceeding} move more")


if __name__ == "__main__":
    main()
