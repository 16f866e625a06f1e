"""How long does it take from the end of a recorded run to its first view, how much slower is what is recorded, and how true is it?

The first table compares with jax. Of pellucid the first view is the record of the session's figure, of jax the directory
that `stop_trace` writes, which a viewer has yet to read; where `PELLUCID_XPROF` names a Python that has the package xprof,
another row adds what XProf takes to make its first view of it. Seconds are those of the processor, of all threads, whatever else
the machine does. `PELLUCID_LONG=1` adds a session of 2.3 million events, which takes some minutes. The second table has
bounds of pellucid alone.
"""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from transformer import loss, parameters, tokens
from versus import Target, compare

STEPS, MANY_STEPS = 60, 240
"""Steps of some 2,500 events each: a usual session, and a long one."""
LONG_STEPS = 900 if os.environ.get("PELLUCID_LONG") else 0
"""Steps of a session of 2.3 million events."""
XPROF = os.environ.get("PELLUCID_XPROF", "")
"""A Python interpreter that has the package xprof."""
TINY_CALLS = 1000
SLICES = 1_000_000

_XPROF_VIEW = """
import sys
from xprof.convert.raw_to_tool_data import xspace_to_tool_data
data, _ = xspace_to_tool_data(sys.argv[1:], "trace_viewer@", {})
assert len(data) > 1_000_000
"""
"""Program that makes XProf's first view of a recording, as its server does."""


class Runs(NamedTuple):
    """Programs of one library; each function gives the seconds that it took."""

    steps: Callable[[int], float]
    """Steps of training, of 1,000 operations each."""
    by_name: dict[str, Callable[[], float]]


def runs_of(jax: Any) -> Runs:
    """The programs that are recorded."""
    weights, batch = parameters(jax), tokens(jax)

    @jax.jit
    def step(weights: Any) -> Any:
        gradients = jax.grad(lambda weights: loss(jax, weights, batch))(weights)
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients)

    add, one = jax.jit(lambda x: x + 1), jax.numpy.ones(4)
    product, matrix = jax.jit(lambda x: jax.numpy.tanh(x @ x)), jax.numpy.ones((600, 600))

    def steps(count: int) -> float:
        state = jax.block_until_ready(step(weights))
        start = time.perf_counter()
        for i in range(count):
            with jax.profiler.StepTraceAnnotation("train", step_num=i):
                state = step(state)
        jax.block_until_ready(state)
        return time.perf_counter() - start

    def calls(function: Any, x: Any, count: int) -> float:
        jax.block_until_ready(function(x))
        start = time.perf_counter()
        for _ in range(count):
            jax.block_until_ready(function(x))
        return time.perf_counter() - start

    return Runs(
        steps,
        {
            "a step of 1,000 operations": lambda: steps(1),
            "steps of 5 ms": lambda: calls(product, matrix, 10),
            "1,000 tiny calls": lambda: calls(add, one, TINY_CALLS),
        },
    )


OVERHEADS = {"a step of 1,000 operations": 1.10, "steps of 5 ms": 1.02, "1,000 tiny calls": 1.10}
"""Seconds of a recorded run as a multiple of an unrecorded one, at most."""


def measurements(jax: Any) -> dict[str, Callable[[], float]]:
    """Seconds of the processor from the end of recorded steps to their first view; seconds of steps, recorded and not."""
    steps, by_name = runs_of(jax)
    recorded = _recorded_by_pellucid if hasattr(jax.profiler, "profile") else _recorded_by_jax

    def first_view(count: int, **options: bool) -> Callable[[], float]:
        return lambda: recorded(jax, lambda: steps(count), **options)[1]

    def overhead(run: Callable[[], float]) -> Callable[[], float]:
        def ratio() -> float:
            plain, ours = _in_turns(run, lambda: recorded(jax, run)[0]).T
            return float(np.median(ours / plain))

        return ratio

    rows: dict[str, Callable[[], float]] = {
        FIRST_VIEW: first_view(STEPS),
        f"first view of {MANY_STEPS} steps": first_view(MANY_STEPS),
        **{f"{OVERHEAD}{name}": overhead(run) for name, run in by_name.items()},
        "a step": lambda: steps(STEPS) / STEPS,
    }
    if XPROF:
        rows[f"{FIRST_VIEW}, in XProf"] = first_view(STEPS, in_xprof=True)
    if LONG_STEPS:
        rows[f"{LONG_VIEW}first view"] = first_view(LONG_STEPS)
        rows[f"{LONG_VIEW}Perfetto's trace"] = first_view(LONG_STEPS, perfetto=True)
    return rows


FIRST_VIEW = f"first view of {STEPS} steps"
OVERHEAD = "recorded by unrecorded, "
ROUNDS = 24
"""Rounds of runs, recorded and not, whose ratio has a median."""
LOOP_STEPS, RECORDED_STEPS = 500, 20
"""Steps of a loop, and how many of them a session records."""
LONG_VIEW = f"{LONG_STEPS} steps, "


def _in_turns(
    run: Callable[[], float], *recorders: Callable[[], float], rounds: int = ROUNDS
) -> np.ndarray:
    """Seconds [rounds, 1 + recorders] of `run` and of its recorded runs, each behind an unrecorded one, in rotating order."""
    measured = (run, *recorders)
    seconds = np.zeros((rounds, len(measured)))
    for i in range(rounds):
        for k in np.roll(np.arange(len(measured)), i):
            run()  # what a session before left in the caches is no part of this one
            seconds[i, k] = measured[k]()
    return seconds


def _in_xlas_session(pl: Any, run: Callable[[], float]) -> float:
    """Seconds of a run that XLA records, with the options of a session and nothing else of ours."""
    session = _xlas_session(pl)
    seconds = run()
    del session  # which ends it
    return seconds


def _xlas_session(pl: Any) -> Any:
    from pellucid.introspect import recording

    options = pl.profiler.ProfileOptions()
    options.python_tracer_level, options.enable_hlo_proto = 0, False
    return recording.XlaRecording(options)


def _recorded_by_pellucid(
    pl: Any,
    run: Callable[[], float],
    *,
    perfetto: bool = False,
    steps: int | None = None,
    **_: bool,
) -> tuple[float, float]:
    """Seconds of (the run, the processor from its end to its first view or its trace for Perfetto)."""
    with tempfile.TemporaryDirectory() as folder:
        with pl.profiler.profile(steps=steps) as session:
            seconds = run()
            start = time.process_time()
        if perfetto:
            session.wait().to_perfetto(Path(folder) / "session.pftrace")
        else:
            assert session.wait().record().totals.operation_count
        return seconds, time.process_time() - start


def _recorded_by_jax(
    jax: Any, run: Callable[[], float], *, perfetto: bool = False, in_xprof: bool = False
) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, create_perfetto_trace=perfetto):
            seconds = run()
            start = time.process_time()
        processor = time.process_time() - start
        [file] = Path(folder).rglob("*.xplane.pb")
        if in_xprof:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([XPROF, "-c", _XPROF_VIEW, file], check=True, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            processor += after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        return seconds, processor


TARGETS = {
    FIRST_VIEW: Target(0.5, "ms"),
    f"{FIRST_VIEW}, in XProf": Target(0.5, "ms"),
    f"first view of {MANY_STEPS} steps": Target(0.5, "ms"),
    f"{LONG_VIEW}first view": Target(0.5, "ms"),
    f"{LONG_VIEW}Perfetto's trace": Target(0.5, "ms"),
    **{f"{OVERHEAD}{name}": Target(1.0, "") for name in OVERHEADS},
    "a step": Target(1.0, "ms"),
}


class Row(NamedTuple):
    """A measurement and its bound; smaller is better."""

    name: str
    amount: float
    bound: float
    unit: str = ""


def bounds() -> Iterator[Row]:
    """Speed and truth of sessions of pellucid."""
    import pellucid as pl

    questions = measurements(pl)
    yield Row(FIRST_VIEW, min(questions[FIRST_VIEW]() for _ in range(3)), 1.0, "s")
    yield Row("  XLA's own part of it", min(_collecting(pl) for _ in range(3)), 1.0, "s")
    yield from _overheads(pl)
    yield from _speed()
    yield from _truth(pl)


def _collecting(pl: Any) -> float:
    """Seconds of the processor in which XLA collects the events of 60 steps, which every reader of them waits for."""
    steps = runs_of(pl).steps
    steps(1)
    session = _xlas_session(pl)
    steps(STEPS)
    start = time.process_time()
    session.stop()
    return time.process_time() - start


def _overheads(pl: Any) -> Iterator[Row]:
    """Recorded runs against unrecorded ones, XLA's recorder alone against those, and ours against XLA's."""
    for name, run in runs_of(pl).by_name.items():
        plain, xla, ours = _in_turns(
            run,
            lambda run=run: _in_xlas_session(pl, run),
            lambda run=run: _recorded_by_pellucid(pl, run)[0],
        ).T
        yield Row(f"{OVERHEAD}{name}", float(np.median(ours / plain)), OVERHEADS[name])
        yield Row("  XLA's recorder alone", float(np.median(xla / plain)), OVERHEADS[name])
        yield Row("  ours by XLA's recorder alone", float(np.median(ours / xla)), 1.02)
    steps = runs_of(pl).steps
    plain, ours = _in_turns(
        lambda: steps(LOOP_STEPS),
        lambda: _recorded_by_pellucid(pl, lambda: steps(LOOP_STEPS), steps=RECORDED_STEPS)[0],
        rounds=ROUNDS // 4,
    ).T
    name = f"{OVERHEAD}{RECORDED_STEPS} of {LOOP_STEPS} steps"
    yield Row(name, float(np.median(ours / plain)), OVERHEADS["a step of 1,000 operations"])


def _speed() -> Iterator[Row]:
    from pellucid_profiler.perfetto import _events

    times = np.arange(2 * SLICES, dtype=np.int64)
    names = np.zeros(2 * SLICES, np.int64)
    start = time.process_time()
    trace = _events(names, times, times % 2 == 1, 1)
    yield Row("a million Perfetto slices", time.process_time() - start, 1.0, "s")
    assert len(trace) > 2 * SLICES


def _truth(pl: Any) -> Iterator[Row]:
    weights, batch = parameters(pl), tokens(pl)
    step = pl.jit(
        lambda w: pl.tree.map(lambda w, g: w - 0.1 * g, w, pl.grad(lambda w: loss(pl, w, batch))(w))
    )
    with pl.profiler.profile() as first:
        pl.block_until_ready(step(weights))
    steps = first.wait().compile_steps
    unnamed = sum(each.seconds for each in steps if not each.is_named)
    yield Row("compile time without a name", unnamed / sum(each.seconds for each in steps), 0.05)
    counts = []
    for n in (1, STEPS):
        with pl.profiler.profile() as recorded:
            state = weights
            for _ in range(n):
                state = step(state)
            pl.block_until_ready(state)
        session = recorded.wait()
        counts.append(len(session.operations))
    yield Row("operations lost of 60 steps", 1 - counts[1] / (STEPS * counts[0]), 0.0)
    totals = session.totals
    yield Row("time without a line", totals.unattributed_seconds / totals.operation_seconds, 0.05)
    parts = totals.measured_seconds + totals.estimated_seconds + totals.unattributed_seconds
    sums = [sum(row.seconds for row in session.lines), sum(session.by_category().values()), parts]
    off = max(abs(each - totals.operation_seconds) for each in sums)
    yield Row("parts less the whole", off / totals.operation_seconds, 1e-6)
    errors = [
        abs(memory.peak_bytes / memory.allocated_bytes - 1) for memory in session.memory.values()
    ]
    yield Row("peak memory against XLA's", max(errors), 0.01)
    yield _asynchronous(pl)
    yield _loops(pl)


def _asynchronous(pl: Any) -> Row:
    """Duration of a product of matrices, whose kernel returns at once, against the clock around its call."""
    product, x = pl.jit(lambda x: x @ x), pl.numpy.ones((1400, 1400))
    pl.block_until_ready(product(x))
    walls = []
    with pl.profiler.profile() as recorded:
        for _ in range(8):
            start = time.perf_counter()
            pl.block_until_ready(product(x))
            walls.append(time.perf_counter() - start)
    ops = recorded.operations
    spans = [
        float(ops.end_ns[ops.run == run].max() - ops.start_ns[ops.run == run].min()) / 1e9
        for run in recorded.calls.run
    ]
    assert all(span <= wall for span, wall in zip(spans, walls, strict=True))
    best = max(span / wall for span, wall in zip(spans, walls, strict=True))
    return Row("asynchronous duration against the clock", 1 - best, 0.02)


def _loops(pl: Any) -> Row:
    """Flops of products in nested loops against their number."""
    n, lax = 128, pl.lax
    nested = pl.jit(
        lambda x: lax.fori_loop(
            0, 4, lambda _, c: lax.fori_loop(0, 3, lambda _, d: d @ x, c) @ x, x
        )
    )
    x = pl.numpy.full((n, n), 1 / n)
    pl.block_until_ready(nested(x))
    with pl.profiler.profile() as recorded:
        pl.block_until_ready(nested(x))
    flops = sum(
        row.flops or 0
        for row in recorded.by_operation
        if any(s.operation == "dot_general" for s in recorded.infos[row.info].shares)
    )
    return Row("flops of nested loops", abs(flops / (16 * 2 * n**3) - 1), 1e-6)


def main() -> None:
    """Prints both tables."""
    compare(__file__, TARGETS)
    for row in bounds():
        met = "ok  " if row.amount <= row.bound else "MISS"
        print(f"{met} {row.name:<52} {row.amount:10.4f} {row.unit:<3} (wanted <= {row.bound:g})", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
