"""Compare random programs of nested transformations with jax, and what runs at once with what is compiled.

    python tools/random_programs.py --seed 0 --count 2000
    python tools/random_programs.py --seed 0 --count 200 --areas linalg sparse

Programs are made by `tests/corpus/random_programs.py`, one for each seed; with `--areas`, or `--areas all`, by the tables of
`tests/corpus/drawn`, as many for each area, of which the results in several ways are compared with one another, too. The
area `masks`, of `tests/corpus/masked_programs.py`, holds masked gradients against forward mode and needs no reference. Each library runs them in a process of its
own, over eight virtual CPU devices. Prints a line for each difference and for each program that one side refuses, and
ends with an error if there was one.
"""

from __future__ import annotations

import argparse
import base64
import importlib
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any, TextIO

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAMS_PER_PROCESS = 100
"""Programs that a process runs before a new one takes over: compiled programs are never freed."""
SECONDS_PER_PROGRAM = 300
"""After these the process of a program that doesn't end is ended: the program counts as one that ended it."""
QUICK = "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0"
"""Flags by which programs compile in half the time; derivatives that differ by masks differ whatever XLA does."""


def stream_of_answers() -> TextIO:
    """Standard output for answers alone: what libraries print, LAPACK in C for one, goes to standard error from now on."""
    sys.stdout.flush()
    stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return stream


def work(library: str, first: int, last: int, eager_every: int) -> None:
    """Run the programs from `first` to before `last` with `library`, and print what they give, one line for each."""
    sys.path.insert(0, str(ROOT / "tests" / "corpus"))
    programs = importlib.import_module("random_programs")
    chosen = importlib.import_module(library)
    warnings.simplefilter("ignore")
    stream = stream_of_answers()
    for seed in range(first, last):
        signal.alarm(SECONDS_PER_PROGRAM)
        program = programs.make(seed)
        results: Any = []
        for compiled in (True, False) if eager_every and seed % eager_every == 0 else (True,):
            try:
                results.append(programs.run(chosen, program, compiled))
            except Exception as error:
                text = " | ".join(str(error).splitlines())[:300]
                results.append(f"{type(error).__name__}: {text}")
        print(base64.b64encode(pickle.dumps((seed, results))).decode(), file=stream, flush=True)


def work_on_area(library: str, first: int, last: int, area: str) -> None:
    """As `work`, for programs drawn of an area."""
    sys.path.insert(0, str(ROOT / "tests" / "corpus"))
    programs = importlib.import_module("drawn.programs")
    chosen = importlib.import_module(library)
    warnings.simplefilter("ignore")
    stream = stream_of_answers()
    for seed in range(first, last):
        signal.alarm(SECONDS_PER_PROGRAM)
        print(seed, file=stream, flush=True)
        results = programs.run(chosen, programs.make(seed, area))
        print(base64.b64encode(pickle.dumps(results)).decode(), file=stream, flush=True)


def answers_of_area(library: str, seed: int, count: int, area: str) -> dict[int, Any]:
    """The results of each drawn program by its seed, None for one that ended its process."""
    flags = f"--xla_force_host_platform_device_count=8 {os.environ.get('XLA_FLAGS', '')}"
    environment = {**os.environ, "XLA_FLAGS": flags}
    found: dict[int, Any] = {}
    while len(found) < count:
        at = seed + len(found)
        last = min(seed + count, at + PROGRAMS_PER_PROCESS)
        command = [sys.executable, __file__, "--worker", library, str(at), str(last), area]
        run = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False,
        )  # fmt: skip
        numbers, results = run.stdout.split()[::2], run.stdout.split()[1::2]
        found |= dict.fromkeys(map(int, numbers or [at]))
        found |= {
            int(n): pickle.loads(base64.b64decode(r))  # noqa: S301
            for n, r in zip(numbers, results, strict=False)
        }
    return found


def try_masks(seed: int, count: int) -> int:
    """Try the law of masked gradients, which needs no reference, on `count` programs; how many break it."""
    sys.path.insert(0, str(ROOT / "tests"))
    os.environ["XLA_FLAGS"] = (
        f"--xla_force_host_platform_device_count=8 {os.environ.get('XLA_FLAGS', QUICK)}"
    )
    programs = importlib.import_module("corpus.masked_programs")
    library = importlib.import_module("pellucid")
    wrong = 0
    for number in range(seed, seed + count):
        texts = programs.problems(number)
        wrong += bool(texts)
        print(*texts, sep="\n", end="\n" * bool(texts), flush=True)
        if number % PROGRAMS_PER_PROCESS == 0:
            library.clear_caches()
    print(f"masks: {count} programs from seed {seed}: {wrong} break the law", flush=True)
    return wrong


def compare_areas(areas: list[str], seed: int, count: int) -> int:
    """Compare `count` programs of each area; how many differ."""
    sys.path.insert(0, str(ROOT / "tests" / "corpus"))
    programs = importlib.import_module("drawn.programs")
    comparison = importlib.import_module("drawn.comparison")
    known = [*importlib.import_module("drawn.tables").AREAS]
    wrong = 0
    if "masks" in areas:
        wrong += try_masks(seed, count)
        areas = [area for area in areas if area != "masks"]
    for area in known if areas == ["all"] else areas:
        ours, theirs = (answers_of_area(name, seed, count, area) for name in ("pellucid", "jax"))
        differ = 0
        for number, mine in ours.items():
            texts = comparison.problems(mine, theirs[number])
            differ += bool(texts)
            if texts:
                program = programs.make(number, area)
                print(
                    f"seed {number} of {area}: {program.body} | {program.inputs} {program.around}"
                )
            for text in texts:
                print(f"    {text}", flush=True)
        print(f"{area}: {count} programs from seed {seed}: {differ} differ", flush=True)
        wrong += differ
    return wrong


def answers(library: str, seed: int, count: int, eager_every: int) -> Iterator[tuple[int, Any]]:
    """(seed, results) of each program, None for one that ended its process."""
    flags = f"--xla_force_host_platform_device_count=8 {os.environ.get('XLA_FLAGS', '')}"
    environment = {**os.environ, "XLA_FLAGS": flags}
    at, end = seed, seed + count
    while at < end:
        last = min(end, at + PROGRAMS_PER_PROCESS)
        command = [
            sys.executable,
            __file__,
            "--worker",
            library,
            str(at),
            str(last),
            str(eager_every),
        ]
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                at, results = pickle.loads(base64.b64decode(line))  # noqa: S301
                yield at, results
                at += 1
        if at < last:
            yield at, None
            at += 1


def problems(ours: Any, theirs: Any, difference: Any) -> list[str]:
    """A line for each way in which a program's results, or how it ended, differ from the reference's."""
    if ours is None or theirs is None:
        ended = "pellucid" if theirs is not None else "jax" if ours is not None else "each"
        return [f"{ended} ended its process"]
    reference = theirs[0]
    texts: list[str] = []
    for how, results in zip(("compiled", "at once"), ours, strict=False):
        if isinstance(reference, str):
            if not isinstance(results, str):
                texts.append(f"{how}: only jax raises {reference}")
        elif isinstance(results, str):
            texts.append(f"{how}: only pellucid raises {results}")
        elif text := differs(results, reference, difference):
            texts.append(f"{how}: differs from jax {text}")
    return texts


def differs(results: Any, reference: Any, difference: Any) -> str:
    """In what the first two results differ that do."""
    pairs = zip(results, reference, strict=True)
    return next((text for a, b in pairs if (text := difference(a, b))), "")


def is_of_jax(seed: int, ours: Any, difference: Any) -> bool:
    """Whether jax refuses a program or ends its process, or its compiled and its eager results differ and ours agree.

    Ours agree with its eager results, or each kind with its own (eager operations round each narrow float), or in all
    elements in which its own agree: at a tie, say of `max`, rounding chooses the derivative.
    """
    [(_, theirs)] = answers("jax", seed, 1, 1)
    if theirs is None:
        return True
    if ours is None or isinstance(ours[0], str):
        return False
    if any(isinstance(results, str) for results in theirs):
        return True
    if not differs(ours[0], theirs[1], difference):
        return True
    alike = zip(ours, theirs, strict=False)
    if not any(isinstance(a, str) or differs(a, b, difference) for a, b in alike):
        return True
    undecided = [
        np.abs(a - b) > 1e-3 if a.dtype.kind == "f" else a != b
        for a, b in zip(*theirs, strict=True)
    ]
    settled: list[Any] = [
        np.where(u, a, b) for u, a, b in zip(undecided, ours[0], theirs[1], strict=True)
    ]
    return any(map(np.any, undecided)) and not differs(settled, ours[0], difference)


def main() -> int:
    """Run and compare; 1 if there was a difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="number of the first program")
    parser.add_argument("--count", type=int, default=2000, help="how many programs")
    parser.add_argument(
        "--eager-every",
        type=int,
        default=4,
        help="run every so many programs at once, too; 0: none",
    )
    parser.add_argument("--areas", nargs="+", help="areas of drawn programs, or `all`")
    options = parser.parse_args()
    if options.areas:
        return int(compare_areas(options.areas, options.seed, options.count) > 0)
    sys.path.insert(0, str(ROOT / "tests" / "corpus"))
    difference = importlib.import_module("random_programs").difference
    start, wrong, done, of_jax, refused = time.monotonic(), 0, 0, 0, 0
    span = options.seed, options.count
    ours = answers("pellucid", *span, options.eager_every)
    for (seed, mine), (_, theirs) in zip(ours, answers("jax", *span, 0), strict=True):
        texts = problems(mine, theirs, difference)
        done += 1
        refused += bool(mine and theirs and all(isinstance(x[0], str) for x in (mine, theirs)))
        if not texts:
            continue
        blames_jax = is_of_jax(seed, mine, difference)
        of_jax += blames_jax
        wrong += not blames_jax
        for text in texts:
            print(f"seed {seed}: {text}{' (a fault of jax)' if blames_jax else ''}", flush=True)
    seconds = time.monotonic() - start
    print(
        f"{done} programs from seed {options.seed}: {wrong} differ, {of_jax} by faults of jax, both refuse {refused}, {seconds:.0f} s"
    )
    return int(wrong > 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        library, first, last, rest = sys.argv[2:6]
        if rest.isdigit():
            work(library, int(first), int(last), int(rest))
        else:
            work_on_area(library, int(first), int(last), rest)
    else:
        sys.exit(main())
