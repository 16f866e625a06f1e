"""How long does it take from the end of a recorded run to its first view, how much slower is what is recorded, and how true is it?

The first table compares with jax. Of pellucid the first view is the record of the session's figure; of jax it is the
directory that `stop_trace` writes, which a viewer has yet to read. One thread makes it, so its seconds are those of the
processor, whatever else the machine does. The second table has bounds of pellucid alone.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from transformer import loss, parameters, tokens
from versus import Target, compare

STEPS, MANY_STEPS = 60, 240
"""Steps of some 2,500 events each: a usual session, and a long one."""
TINY_CALLS = 1000
SLICES = 1_000_000


def measurements(jax: Any) -> dict[str, Any]:
    """Seconds of the processor from the end of recorded steps to their first view; seconds of steps, recorded and not."""
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
        for _ in range(count):
            state = step(state)
        jax.block_until_ready(state)
        return time.perf_counter() - start

    def calls(function: Any, x: Any, count: int) -> float:
        jax.block_until_ready(function(x))
        start = time.perf_counter()
        for _ in range(count):
            jax.block_until_ready(function(x))
        return time.perf_counter() - start

    if hasattr(jax.profiler, "profile"):

        def recorded(run: Callable[[], float]) -> tuple[float, float]:
            """Seconds of (the run, the processor from its end to its first view)."""
            with jax.profiler.profile() as session:
                seconds = run()
                start = time.process_time()
            assert session.wait().record().totals.operation_count
            return seconds, time.process_time() - start

    else:

        def recorded(run: Callable[[], float]) -> tuple[float, float]:
            with tempfile.TemporaryDirectory() as folder:
                with jax.profiler.trace(folder):
                    seconds = run()
                    start = time.process_time()
                return seconds, time.process_time() - start

    def overhead(run: Callable[[], float]) -> float:
        """Seconds of a recorded run as a multiple of one that isn't; the best of some."""
        pairs = [(recorded(run)[0], run()) for _ in range(10)]
        return min(with_session for with_session, _ in pairs) / min(without for _, without in pairs)

    return {
        f"first view of {STEPS} steps": lambda: recorded(lambda: steps(STEPS))[1],
        f"first view of {MANY_STEPS} steps": lambda: recorded(lambda: steps(MANY_STEPS))[1],
        "recorded by unrecorded, 1,000 tiny calls": lambda: overhead(
            lambda: calls(add, one, TINY_CALLS)
        ),
        "recorded by unrecorded, steps of 5 ms": lambda: overhead(
            lambda: calls(product, matrix, 40)
        ),
        "a step": lambda: steps(STEPS) / STEPS,
    }


TARGETS = {
    f"first view of {STEPS} steps": Target(0.5, "ms"),
    f"first view of {MANY_STEPS} steps": Target(0.5, "ms"),
    "recorded by unrecorded, 1,000 tiny calls": Target(1.0, ""),
    "recorded by unrecorded, steps of 5 ms": Target(1.0, ""),
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
    yield Row("first view of 60 steps", questions[f"first view of {STEPS} steps"](), 1.0, "s")
    for name, bound in (("1,000 tiny calls", 1.10), ("steps of 5 ms", 1.02)):
        yield Row(
            f"recorded by unrecorded, {name}", questions[f"recorded by unrecorded, {name}"](), bound
        )
    yield from _speed()
    yield from _truth(pl)


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
