"""A watch, as "Stop at a value" sets it, changes neither whether programs succeed nor what they give."""

from __future__ import annotations

import ast
import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from example_calls import (
    EXAMPLES,
    WAYS as WAYS_OF_EXAMPLES,
    first_calls,
    outcome,
    without_static,
)

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import events, lax
from pellucid.introspect import finding
from pellucid.introspect.recording import wait_for_devices
from pellucid_kernel.debug.breakpoints import Breakpoints
from pellucid_kernel.debug.debug_session import DebugSession
from pellucid_kernel.debug.stops import Stop, Stops

WATCHES = ["isnan", "isinf", "x.ndim > 9", "abs(x).max() > 0.5", "no_such_name > x"]


@contextlib.contextmanager
def watching(text: str) -> Iterator[list[str]]:
    """Programs stop at values of which `text` holds, and go on at once; gives the reasons for which they stopped."""
    breakpoints = Breakpoints()
    breakpoints.watched = text
    with stopping(breakpoints) as reasons:
        yield reasons


@contextlib.contextmanager
def stopping(breakpoints: Breakpoints) -> Iterator[list[str]]:
    """Programs stop at `breakpoints`, and go on at once; gives the reasons for which they stopped."""
    reasons = []

    def publish(stop: Stop, reason: str | None) -> None:
        if reason is not None:
            reasons.append(stop.session.reason)
            stop.go("continue", DebugSession.run)

    said: list[str] = []
    stops = Stops(breakpoints, publish, said.append, said.append)
    stops.update()
    try:
        yield reasons
    finally:
        stops.end()


def step(x):
    y = jnp.log(x) * x
    return lax.scan(lambda c, v: (c + jnp.sqrt(v), v / c), 0.0, y)[0] + y.sum()


def failing(x):
    pl.pure_callback(lambda x: 1 / 0, pl.ShapeDtypeStruct((), "float32"), x.sum())
    return pl.pure_callback(lambda x: 1 / 0, pl.ShapeDtypeStruct((), "float32"), x.sum())


X = np.array([[1.5, -2.0, 0.0], [3.0, 4.0, 5.0]], np.float32)
WAYS = {
    "eager": lambda f: lambda: [f(x) for x in X],
    "jit": lambda f: lambda: [pl.jit(f)(x) for x in X],
    "grad": lambda f: lambda: [pl.grad(f)(x) for x in X],
    "jit of grad": lambda f: lambda: [pl.jit(pl.grad(f))(x) for x in X],
    "vmap": lambda f: lambda: pl.vmap(f)(X),
    "jit of vmap of grad": lambda f: lambda: pl.jit(pl.vmap(pl.grad(f)))(X),
    "debug_nans": lambda f: lambda: _with_nans(f),
}


def _with_nans(f):
    with pl.debug_nans(True):
        return [pl.jit(f)(x) for x in X]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("watch", WATCHES)
@pytest.mark.parametrize("function", [step, failing], ids=["step", "failing"])
def test_a_watched_call_ends_as_it_does_without(function, watch: str, way: str) -> None:
    run = WAYS[way](function)
    before = outcome(run)
    with watching(watch) as reasons:
        watched = outcome(run)
    assert watched[0] == before[0]
    for ours, theirs in zip(watched[1], before[1], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    if function is step and way in ("jit", "debug_nans"):
        assert any(reasons) == (watch not in WATCHES[2::2])


class Compilations(events.Observer):
    """Counts compilations."""

    count = 0

    def compilation_finished(self, event: events.CompilationFinished, /) -> None:
        self.count += 1


@pytest.mark.parametrize("watch", ["isnan", "x.max() > 1e9", "no_such_name > x"])
@pytest.mark.parametrize("runs", [0, 6, 100_000])
def test_a_watch_that_holds_nowhere_costs_further_calls_no_compilation(
    watch: str, runs: int, monkeypatch
) -> None:
    monkeypatch.setattr(finding, "MAX_RUNS_AGAIN", runs)
    called = pl.jit(lambda x: lax.fori_loop(0, 5, lambda i, c: jnp.sin(c) + i, x).sum())
    with watching(watch) as reasons:
        for i in range(4):  # with 6 runs of an equation the third is the first that runs compiled
            called(X + i)
        compilations = Compilations()
        with pl.observe(compilations):
            results = [called(X + i) for i in range(3)]
    assert not any(reasons)
    assert compilations.count == 0
    np.testing.assert_array_equal(results, [called(X + i) for i in range(3)])


@pytest.mark.parametrize("watch", ["isnan", "x.ndim > 9"])
def test_effects_of_a_watched_call_happen_once(watch: str) -> None:
    seen: list[float] = []

    @pl.jit
    def noting(x):
        pl.debug.callback(lambda x: seen.append(float(x)), x.sum())
        return jnp.log(x).sum()

    with watching(watch) as reasons:
        noting(X)
        pl.effects_barrier()
    assert seen == [float(X.sum())]
    assert any(reasons) == (watch == "isnan")


@pytest.mark.parametrize("watch", ["isnan", "x.ndim > 9"])
@pytest.mark.rotates
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_watched_example_gives_its_losses(path: Path, watch: str, capsys) -> None:
    def losses():
        program = {"__name__": "example"}
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), program)
        return program["main"](2)

    before = losses()
    with watching(watch) as reasons:
        watched = losses()
    assert watched == before
    assert not any(reasons)


def _lines_of_functions(path: Path) -> list[int]:
    """The first line of the body of each function of a program, docstrings left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
    bodies = [f.body[1:] if ast.get_docstring(f) else f.body for f in functions]
    return [body[0].lineno for body in bodies if body]


@pytest.mark.parametrize("condition", ["", "False"])
@pytest.mark.rotates
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_with_breakpoints_gives_its_losses(path: Path, condition: str, capsys) -> None:
    def losses():
        program = {"__name__": "example"}
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), program)
        return program["main"](2)

    before = losses()
    breakpoints = Breakpoints()
    lines = _lines_of_functions(path)
    breakpoints.set(str(path), [{"line": line, "condition": condition} for line in lines])
    with stopping(breakpoints) as reasons:
        stopped = losses()
    # A program that stops runs in parts, which round otherwise than the whole.
    np.testing.assert_allclose(stopped, before, rtol=1e-4)
    assert bool(reasons) == (not condition)


@pytest.mark.rotates
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_watched_functions_of_an_example_end_as_they_do_without(path: Path) -> None:
    ended = []
    for jitted, args in first_calls(path, 1):
        function, args = without_static(jitted, args)
        for name, way in WAYS_OF_EXAMPLES.items():
            called, given = way(function, args)
            run = functools.partial(called, *given)
            before = outcome(run)
            with watching("isnan"):
                watched = outcome(run)
            assert watched[0] == before[0], name
            for ours, theirs in zip(watched[1], before[1], strict=True):
                np.testing.assert_array_equal(ours, theirs, name)
            ended.append((name, before[0]))
    assert ("eager", "") in ended


TOOLS = {
    "find": lambda f: pl.debugger.find(f, pl.debugger.isnan),
    "explain_grad": pl.debugger.explain_grad,
    "diverge": pl.debugger.diverge,
    "first_difference": pl.debugger.first_difference,
    "repeat": pl.debugger.repeat,
    "debug": lambda f: lambda x: pl.debugger.debug(f)(x).finish(),
    "by_tool": events.by_tool,
}


@pytest.mark.parametrize("tool", TOOLS)
def test_no_program_stops_while_a_tool_runs_it(tool: str) -> None:
    """And the user's own next call of it does."""
    f = pl.jit(lambda x: jnp.log(x).sum())
    x = np.array([-1.0, 2.0], np.float32)
    with watching("isnan") as reasons:
        TOOLS[tool](lambda x: f(x) + 1)(x)
        assert not reasons
        f(x)
    assert len(reasons) == 1


def test_programs_of_tools_are_not_searched(monkeypatch) -> None:
    """Such as the one that finds out whether devices still work, which runs long."""
    with watching("isnan"):
        monkeypatch.setattr(DebugSession, "of_program", None)
        wait_for_devices()
        pl.analysis.array_values(jnp.array([1.0, np.nan]))


@pytest.mark.parametrize("function", [jnp.var, jnp.std, pl.nn.standardize])
def test_numbers_that_a_program_fills_arrays_with_stop_nothing(function) -> None:
    """Such as the NaN from which functions choose where a result has none."""
    x = np.ones((2, 4), np.float32)
    with watching("isnan") as reasons:
        pl.jit(lambda x: function(x, axis=-1))(x)
    assert not reasons
    assert pl.debugger.find(lambda x: function(x, axis=-1), pl.debugger.isnan)(x) is None
    found = pl.debugger.find(lambda x: x + jnp.full(4, np.nan), pl.debugger.isnan)(x)
    assert "add" in str(found)


def _masked(x):
    return jnp.where(x > 0, x, jnp.nan)


MOVED = {
    "moved": lambda x: jnp.where(x > 0, x, jnp.broadcast_to(jnp.full(4, np.nan)[::-1], x.shape)),
    "batched": pl.vmap(_masked),
    "batched twice": pl.vmap(pl.vmap(jnp.std)),
    "batched derivative of a loop": pl.vmap(
        pl.grad(
            lambda x: lax.fori_loop(0, 2, lambda i, c: pl.nn.standardize(c + X[0, 0] * i), x).sum()
        )
    ),
    "batched loop": pl.vmap(lambda x: lax.scan(lambda c, _: (_masked(c), None), x, length=2)[0]),
}


@pytest.mark.parametrize("is_whole", [True, False], ids=["whole", "by stretch"])
@pytest.mark.parametrize("name", MOVED)
def test_numbers_that_a_program_fills_arrays_with_stop_nothing_where_they_are_moved(
    name: str, is_whole: bool, monkeypatch
) -> None:
    """As batches move the NaN from which `where` chooses; what takes the number is found, in both kinds of search."""
    if is_whole:  # as a program with effects is
        monkeypatch.setattr(finding, "_is_plain", lambda jaxpr: False)
    find = pl.debugger.find(MOVED[name], pl.debugger.isnan)
    x = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    assert find(x) is None
    x[1, 2] = -1.0
    if name in ("moved", "batched", "batched loop"):
        assert "select_n" in str(find(x))
