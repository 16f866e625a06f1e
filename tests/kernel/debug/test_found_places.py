"""`find` names the same place however it searches: run by run, loops by one program, values alone or together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid.introspect import finding as finding_module
from pellucid_kernel.debug import exceeds, find, isnan

RUNS = 7
STEPS = 6

Program = Callable[..., Any]


def steps(c: Any, is_bad: Any, step: int) -> Any:
    """A few small operations, of which that in a step gives NaN where `is_bad`."""
    for k in range(STEPS):
        c = jnp.sin(c) * 1.25 + 0.001 * k
        if k == step:
            c = c + jnp.log(jnp.where(is_bad, -1.0, 1.0))
    return c


def straight(step: int, run: int) -> Program:
    return lambda x: steps(steps(x, False, step), True, step)


def scanned(step: int, run: int) -> Program:
    def body(c: Any, i: Any) -> Any:
        c = steps(c, i == run, step)
        return c, c.sum()

    return lambda x: lax.scan(body, x, jnp.arange(RUNS))


def reversed_scan(step: int, run: int) -> Program:
    def body(c: Any, i: Any) -> Any:
        c = steps(c, i == RUNS - 1 - run, step)
        return c, c

    return lambda x: lax.scan(body, x, jnp.arange(RUNS), reverse=True)


def repeated_while(step: int, run: int) -> Program:
    def body(state: Any) -> Any:
        i, c = state
        return i + 1, steps(c, i == run, step)

    return lambda x: lax.while_loop(lambda state: state[0] < RUNS, body, (0, x))[1]


def while_it_is_small(step: int, run: int) -> Program:
    """The value that is NaN belongs to the condition of the loop, and ends it."""

    def condition(state: Any) -> Any:
        return steps(state[1].mean(), state[0] == run, step) < 5.0

    return lambda x: lax.while_loop(condition, lambda s: (s[0] + 1, jnp.cos(s[1])), (0, x))[1]


def branches(step: int, run: int) -> Program:
    def body(c: Any, i: Any) -> Any:
        taken = lambda c: steps(c, i == run, step)
        # The other branch would give NaN in each run.
        other = lambda c: jnp.cos(c) * jnp.where(i % 2 == run % 2, jnp.nan, 1.0)
        return lax.cond(i % 2 == run % 2, taken, other, c), None

    return lambda x: lax.scan(body, x, jnp.arange(RUNS))[0]


def nested(step: int, run: int) -> Program:
    def outer(i: Any, c: Any) -> Any:
        inner = lambda j, c: steps(c, (i == run) & (j == 2), step)
        return lax.fori_loop(0, 4, inner, jnp.cos(c))

    return lambda x: lax.fori_loop(0, RUNS, outer, x)


def lanes(step: int, run: int) -> Program:
    def one(x: Any, lane: Any) -> Any:
        body = lambda i, c: steps(c, (i == run) & (lane == 1), step)
        return lax.fori_loop(0, RUNS, body, x)

    return lambda x: pl.vmap(one)(x, jnp.arange(3))


def backward(step: int, run: int) -> Program:
    def loss(x: Any) -> Any:
        def body(c: Any, i: Any) -> Any:
            # The root of 0 is 0, and its derivative isn't finite.
            root = jnp.sqrt(jnp.where(i == run, 0.0, 1.0) * c * c)
            return steps(c, False, step) + 0.1 * root, None

        return lax.scan(body, x, jnp.arange(RUNS))[0].sum()

    return pl.grad(loss)


def jit_of_jit(step: int, run: int) -> Program:
    inner = pl.jit(scanned(step, run))
    return pl.jit(lambda x: pl.jit(lambda x: inner(x * 2.0))(x + 1.0))


def mean_is_large(x: Any) -> Any:
    """A condition that asks for the rank in Python, and answers once for all elements."""
    if x.ndim == 0 or x.dtype != np.float32:
        return False
    return jnp.mean(jnp.where(jnp.isnan(x), 1e6, x)) > 1e3


PROGRAMS = [
    straight, scanned, reversed_scan, repeated_while, while_it_is_small, branches, nested, lanes,
    backward, jit_of_jit,
]  # fmt: skip


def ways() -> Iterator[dict[str, float]]:
    """Settings of the search: each run and value by itself; as it is by default; all loops by programs."""
    yield {"MAX_RUNS": np.inf, "MIN_TESTED_TOGETHER": np.inf}
    yield {}
    yield {"MAX_RUNS": 0}
    yield {"MAX_RUNS": 2, "MIN_TESTED_TOGETHER": 1, "TESTED_TOGETHER": 3}


def facts(found: Any) -> tuple[Any, ...]:
    """What a finding names, without values."""
    return (
        found.primitive, found.line, found.iterations, found.number, [*map(str, found.lanes)],
        found.is_backward, found.elements.tolist(), found.session.place(),
    )  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_all_ways_of_searching_find_one_place(program: Any, monkeypatch: Any) -> None:
    rng = np.random.default_rng(PROGRAMS.index(program))
    step, run = int(rng.integers(STEPS)), int(rng.integers(1, RUNS))
    x = jnp.linspace(0.2, 0.9, 3)
    condition = mean_is_large if program in (scanned, nested) else isnan
    found = []
    for way in ways():
        with monkeypatch.context() as settings:
            for name, value in way.items():
                settings.setattr(finding_module, name, value)
            found.append(find(program(step, run), condition)(x))
    first = found[0]
    if program is backward:
        assert first.iterations == [RUNS - 1 - run]
        assert first.is_backward
    else:
        own = () if program is straight else (run, 2) if program is nested else (run,)
        assert first.iterations == [*own]
        assert first.primitive == ("add" if condition is mean_is_large else "log")
    for other in found[1:]:
        assert facts(other) == facts(first)
        np.testing.assert_allclose(other.result, first.result, rtol=1e-5)
        for a, b in zip(other.operands, first.operands, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.parametrize("max_runs", [0, 300])
@pytest.mark.parametrize("program", [scanned, repeated_while, branches])
def test_nothing_is_found_where_nothing_is(program: Any, max_runs: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(finding_module, "MAX_RUNS", max_runs)
    assert find(program(0, RUNS + 1), exceeds(1e3))(jnp.ones(3)) is None


@pytest.mark.parametrize("max_runs", [0, 300, np.inf])
def test_values_are_those_of_operations_by_themselves(max_runs: float, monkeypatch: Any) -> None:
    """In a chaotic map, in which a difference in the last bit grows to a whole number within a hundred runs."""
    monkeypatch.setattr(finding_module, "MAX_RUNS", max_runs)

    def body(c: Any, i: Any) -> Any:
        c = c * 3.99 * (1.0 - c)
        return c, c + jnp.where(i == 350, 500.0, 0.0)

    found: Any = find(lambda x: lax.scan(body, x, jnp.arange(400)), exceeds(500.0))(np.float32(0.3))
    assert (found.primitive, found.iterations) == ("add", [350])
    c = jnp.asarray(0.3, np.float32)
    for _ in range(351):
        c = c * 3.99 * (1.0 - c)
    assert float(found.operands[0]) == float(c)


@pytest.mark.parametrize("program", [scanned, repeated_while, branches, backward])
def test_a_search_that_is_repeated_finds_the_same(program: Any, monkeypatch: Any) -> None:
    """The program that is searched again runs as one with a check of each value first."""
    monkeypatch.setattr(finding_module, "MAX_RUNS_AGAIN", 0)
    function = pl.jit(program(2, 4))
    x = jnp.linspace(0.2, 0.9, 3)
    first: Any = find(function, isnan)(x)
    again: Any = find(function, isnan)(x)
    assert facts(again) == facts(first)
    assert [find(function, exceeds(1e6))(x) is None for _ in range(3)] == [
        program is not backward
    ] * 3


def test_many_operations_compile_in_linear_time() -> None:
    """No program computes an operation for each value that depends on it: the texts of compiled programs stay short."""
    sizes = []
    for n in (8, 16):
        lengths = []

        def deep(x: Any, n: int = n) -> Any:
            for k in range(n):
                x = jnp.sin(x) * 1.25 + 0.5 * k
            return jnp.log(x - 1e4)

        class Lengths(pl.events.Observer):
            def compilation_finished(self, event: Any, lengths: Any = lengths) -> None:
                lengths.extend(len(m.to_string()) for m in event.executable.loaded.hlo_modules())

        with pl.observe(Lengths()):
            found: Any = find(deep, isnan)(jnp.ones(4))
        assert found.primitive == "log"
        sizes.append(max(lengths))
    assert sizes[1] < 2.5 * sizes[0]
