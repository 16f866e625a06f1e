"""How long does a user wait in the debugger, and what does it cost where nobody debugs?

The digits model is a training step of the example `digits_with_nn`: 224 equations. Programs are compiled before, as in a
session's second half, but for the steps, which go over lines where nobody stopped before, with `LOOK_SECONDS` at each stop.
"""

from __future__ import annotations

import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from versus import per_call

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid.debugger import DebugSession, debug, find, isinf, isnan
from pellucid.introspect.interception import Runner, run_programs_by
from pellucid_kernel.debug import python_thread
from pellucid_kernel.debug.values import summary

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
import digits_with_nn as digits
import language_model
from debugged_kernel import DebuggedKernel
from running_kernel import kernel, run as run_cell

LOOK_SECONDS = 1.0
"""Seconds between two steps, in which a user looks at the stop."""
ROUNDS = 5


class Row(NamedTuple):
    """A measurement and its bound; smaller is better."""

    name: str
    amount: float
    bound: float
    unit: str


def train_step_arguments() -> tuple[Any, ...]:
    """Arguments of the digits model's training step: random images in place of the data set."""
    key = pl.random.key(0)
    params = digits.initial_params(key)
    rng = np.random.default_rng(0)
    images = jnp.asarray(rng.random((64, 8, 8, 1), dtype=np.float32))
    labels = jnp.asarray(rng.integers(0, 10, 64))
    return params, digits.initial_moments(params), jnp.int32(1), images, labels, key


def seconds(function: Callable[[], Any]) -> float:
    """Seconds of one call, until its arrays are computed."""
    start = time.perf_counter()
    pl.block_until_ready(function())
    return time.perf_counter() - start


def median(function: Callable[[], Any]) -> float:
    """Median seconds of a call that was made once before."""
    function()
    return statistics.median(seconds(function) for _ in range(ROUNDS))


def last_line(function: Any) -> int:
    """The line of a function's last statement of one line."""
    return max(n for _, _, n in function.__code__.co_lines() if n)


def runs_to_a_breakpoint() -> Iterator[Row]:
    """A loop of 1 s, to a breakpoint behind it, beside the compiled run."""

    @pl.jit
    def trained(weights: Any, x: Any) -> Any:
        def layer(c: Any, w: Any) -> Any:
            c = jnp.tanh(c @ w)
            return c, c.sum()

        out, sums = lax.scan(layer, x, weights)
        total = sums.sum()
        return out * total

    weights, x = jnp.ones((100, 512, 512)) / 512, jnp.ones((512, 512))
    program = pl.make_jaxpr(trained)(weights, x)
    line = last_line(trained.__wrapped__)
    compiled = median(lambda: trained(weights, x))

    def run(*, is_watched: bool) -> Any:
        session = DebugSession.of_program(program, [weights, x], {})
        session.break_at(line, __file__)
        if is_watched:
            session.watch(isnan, "NaN")
        assert session.run().stack()[-1].line == line
        return list(session.variables().values())

    yield Row(
        "debugged run to a breakpoint / compiled",
        median(lambda: run(is_watched=False)) / compiled,
        3,
        "",
    )
    watched = median(lambda: run(is_watched=True))
    yield Row("… with a watch on every value / compiled", watched / compiled, 10, "")


def steps() -> Iterator[Row]:
    """Steps through the digits model, into functions, and back."""
    session = debug(digits.train_step)(*train_step_arguments())
    forward, back = [], []
    while not session.is_done:
        str(session)  # which a front end shows
        time.sleep(LOOK_SECONDS)
        forward.append(seconds(lambda: list(session.step().variables().values())))
    while session.place() != (0,) and len(back) < 100:
        back.append(seconds(lambda: list(session.back().variables().values())))
    yield Row("a step on the digits model, median", statistics.median(forward), 0.05, "ms")
    yield Row("… the slowest of ten", statistics.quantiles(forward, n=10)[-1], 0.05, "ms")
    yield Row("a step back, the slowest", max(back), 0.3, "ms")


def variables_of_many_elements() -> Iterator[Row]:
    """Variables with 10^7 elements, as JupyterLab lists them at a stop."""

    def large(x: Any) -> Any:
        y = jnp.sin(x)
        z = y * 2.0
        return (y + z).sum()

    session = debug(large)(jnp.ones(10**7))
    session.break_at(last_line(large))

    def shown() -> Any:
        session.restart().run()
        pl.block_until_ready(session.operands())
        return seconds(lambda: [summary(x) for x in session.variables().values()])

    shown()
    yield Row(
        "variables of 10^7 elements at a stop", max(shown() for _ in range(ROUNDS)), 0.1, "ms"
    )


def jumps() -> Iterator[Row]:
    """Jumps in a scan of 1,000 iterations, and the memory of a session of 20 values of 4 MB with room for 5."""

    def looped(x: Any) -> Any:
        def body(c: Any, y: Any) -> Any:
            d = jnp.tanh(c @ c) + y
            return d, d.sum()

        return lax.scan(body, x, jnp.arange(1000.0))

    session = debug(looped)(jnp.ones((64, 64)))
    session.jump(1)
    iterations = (999, 17, 500, 3, 998)
    jumped = [seconds(lambda n=n: list(session.jump(n).variables().values())) for n in iterations]
    yield Row("a jump in a scan of 1,000 iterations", max(jumped), 0.5, "ms")

    def chain(x: Any) -> Any:
        for _ in range(20):
            x = jnp.sin(x)
        return x

    operand = jnp.ones(10**6)
    budget = 5 * operand.nbytes
    session = debug(chain, budget=budget)(operand)
    sizes = []
    while not session.is_done:
        sizes.append(session.step().bytes)
    yield Row("bytes of kept values / budget", max(sizes) / budget, 1, "")


def conditions() -> Iterator[Row]:
    """A conditional breakpoint, and a watch, that stop in iteration 900 of a scan of 1,000, beside its compiled run."""

    def looped(x: Any) -> Any:
        def body(c: Any, y: Any) -> Any:
            d = jnp.tanh(c @ c) + y
            return d, jnp.log(d.max() * 0 + 899.5 - y)

        return lax.scan(body, x, jnp.arange(1000.0))

    x = jnp.ones((256, 256))
    program = pl.make_jaxpr(looped)(x)
    jitted = pl.jit(looped)
    compiled = median(lambda: jitted(x))
    line = looped.__code__.co_firstlineno + 3

    def run(prepare: Callable[[DebugSession], Any]) -> None:
        session = DebugSession.of_program(program, [x], {})
        prepare(session)
        assert session.run().levels[-1].turn[1] == 900

    held = median(lambda: run(lambda session: session.break_at(line, __file__, "y == 900")))
    yield Row("a run to iteration 900 by a condition / compiled", held / compiled, 3, "")
    watched = median(lambda: run(lambda session: session.watch(isnan, "NaN")))
    yield Row("a run to a watch in iteration 900 / compiled", watched / compiled, 10, "")


def findings() -> Iterator[Row]:
    """The search for a NaN of iteration 30 in a scan of 40 training steps, of 600 equations, beside its first compiled run."""
    params = language_model.initial_params(pl.random.key(0), 30)
    texts = np.random.default_rng(0).integers(0, 30, (40, 8, 65)).astype(np.int32)

    def logits(params: Any, letters: Any) -> Any:
        x = params["letters"][letters] + params["places"][: letters.shape[1]]
        for i in range(language_model.LAYERS):
            x, _ = language_model.block(x, pl.tree.map(lambda p, i=i: p[i], params["layers"]))
        return language_model.normalized(x) @ params["letters"].T

    def loss(params: Any, texts: Any) -> Any:
        scores = pl.nn.log_softmax(logits(params, texts[:, :-1]))
        return -jnp.mean(jnp.take_along_axis(scores, texts[:, 1:, None], axis=-1))

    def trained(params: Any, texts: Any) -> Any:
        def step(state: Any, texts: Any) -> Any:
            params, means, squares, n = state
            value, gradients = pl.value_and_grad(loss)(params, texts)
            means = pl.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, gradients)
            squares = pl.tree.map(lambda s, g: 0.99 * s + 0.01 * g**2, squares, gradients)
            rate = 3e-3 * jnp.sqrt(1 - 0.99**n) / (1 - 0.9**n) + jnp.log(jnp.where(n > 30, -1, 1))
            update = lambda p, m, s: p - rate * m / (jnp.sqrt(s) + 1e-6)
            return (pl.tree.map(update, params, means, squares), means, squares, n + 1), value

        zeros = pl.tree.map(jnp.zeros_like, params)
        return lax.scan(step, (params, zeros, zeros, jnp.float32(1)), texts)

    def processor_seconds(function: Callable[..., Any]) -> tuple[float, Any]:
        start = time.process_time()
        result = pl.block_until_ready(function(params, texts))
        return time.process_time() - start, result

    compiled, _ = processor_seconds(pl.jit(lambda params, texts: trained(params, texts)))
    found, iterations = processor_seconds(
        lambda *xs: getattr(find(trained, isnan)(*xs), "iterations", None)
    )
    assert iterations == [30]
    yield Row("find in 40 training steps / first compiled run", found / compiled, 3, "")
    absent, finding = processor_seconds(find(lambda *xs: trained(*xs), isinf))
    assert finding is None
    yield Row("… of what isn't there / first compiled run", absent / compiled, 3, "")


def findings_in_small_operations() -> Iterator[Row]:
    """The search for a NaN in programs of small operations, beside their first compiled run.

    Programs that compile in a tenth of a second take more: a search compiles two or three of their size, reads the
    file of the lines, and traces with notes.
    """
    factor = 1.0

    def steps(c: Any, n: int) -> Any:
        for k in range(n):
            c = jnp.sin(c) * factor + 0.001 * k
        return c

    def spoilt(c: Any, is_bad: Any) -> Any:
        return c + jnp.log(jnp.where(is_bad, -1.0, 1.0))

    def scanned(n: int, runs: int, bad: int) -> Callable[..., Any]:
        def body(c: Any, i: Any) -> Any:
            c = spoilt(steps(c, n), i == bad)
            return c, c.sum()

        return lambda x: lax.scan(body, x, jnp.arange(runs))

    def repeated(x: Any) -> Any:
        body = lambda s: (s[0] + 1, spoilt(steps(s[1], 100), s[0] == 30))
        return lax.while_loop(lambda s: s[0] < 40, body, (0, x))

    def branches(x: Any) -> Any:
        def body(c: Any, i: Any) -> Any:
            taken = lambda c: spoilt(steps(c, 50), i == 31)
            return lax.cond(i % 2 == 1, taken, lambda c: steps(jnp.cos(c), 50), c), None

        return lax.scan(body, x, jnp.arange(40))

    def loss(x: Any) -> Any:
        c, sums = scanned(100, 40, -1)(x)
        return (c * jnp.sqrt(x * 0)).sum() + sums.sum()

    loop = scanned(100, 40, 31)
    programs: dict[str, tuple[Callable[..., Any], Any]] = {
        "300 operations × 40 iterations": (loop, jnp.ones(8)),
        "… under vmap": (pl.vmap(scanned(100, 40, 31)), jnp.ones((8, 2))),
        "… jit of jit": (pl.jit(lambda x: pl.jit(scanned(100, 40, 31))(x)), jnp.ones(8)),
        "… its gradient": (pl.grad(loss), jnp.ones(8)),
        "300 operations, no loop": (lambda x: spoilt(steps(x, 100), True), jnp.ones(8)),
        "300 operations, while_loop of 40": (repeated, jnp.ones(8)),
        "150 operations in each branch × 40": (branches, jnp.ones(8)),
        "30 operations × 5,000 iterations": (scanned(10, 5000, 4000), jnp.ones(8)),
    }
    for name, (function, x) in programs.items():
        factor += 0.01  # no program is compiled already, as part of another one
        start = time.process_time()
        pl.block_until_ready(pl.jit(lambda x, f=function: f(x))(x))
        compiled = time.process_time() - start
        start = time.process_time()
        assert find(lambda x, f=function: f(x), isnan)(x) is not None
        found = time.process_time() - start
        yield Row(f"find, {name} / first run", found / compiled, 3, "")


def start_in_a_notebook() -> Iterator[Row]:
    """The start of JupyterLab's debugger in a notebook of 200 cells that have run: the requests of its front end.

    JupyterLab hashes cells by itself; it has a cell written to its file only where one has a breakpoint.
    """
    cells = [f"def f{i}(x):\n    return x * {i}\nprint(pl.jit(f{i})(1.0))" for i in range(200)]
    cells[0] = f"import pellucid as pl\n{cells[0]}"
    with kernel() as (_, client):
        debugged = DebuggedKernel(client)
        for cell in cells:
            run_cell(client, cell)
        start = time.perf_counter()
        debugged.body("debugInfo")
        debugged.start()
        debugged.body("debugInfo")
        for cell in cells[::20]:
            debugged.break_at(cell, 2)
        debugged.body("inspectVariables")
        debugged.request("modules")
        debugged.body("pellucid/breakpoints")
        yield Row(
            "the debugger's start in a notebook of 200 cells", time.perf_counter() - start, 1, "ms"
        )


def cost_without_breakpoints() -> Iterator[Row]:
    """Calls of a jitted function while the debugger is on, with no breakpoint in it."""
    function, x = pl.jit(lambda x: x + 1), jnp.ones(3)
    runner = Runner(lambda pending: None, python_thread.left_alone)
    ratios = []
    for _ in range(ROUNDS):  # beside each other, as a machine's speed changes
        off = per_call(lambda: function(x))
        run_programs_by(runner)
        on = per_call(lambda: function(x))
        run_programs_by(None, runner)
        ratios.append(on / off)
    yield Row("a call with the debugger on / off", statistics.median(ratios), 1.1, "")


def main() -> None:
    """Prints one line for each measurement."""
    parts = (
        runs_to_a_breakpoint,
        steps,
        variables_of_many_elements,
        jumps,
        conditions,
        findings,
        findings_in_small_operations,
        start_in_a_notebook,
        cost_without_breakpoints,
    )
    for part in parts:
        for row in part():
            scale = 1e3 if row.unit == "ms" else 1.0
            met = "ok  " if row.amount <= row.bound else "MISS"
            print(
                f"{met} {row.name:<52} {row.amount * scale:10.2f} {row.unit:<3} "
                f"(wanted <= {row.bound * scale:g})",
                flush=True,
            )


if __name__ == "__main__":
    main()
