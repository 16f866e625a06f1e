"""Recordings of some steps of a loop."""

import pytest

import pellucid as pl
from pellucid import numpy as jnp
from pellucid._machine.base.errors import ArgumentValueError
from pellucid_profiler import StepTraceAnnotation, step_limit
from pellucid_profiler.recorder import Profile, profile, step


def run(function, count: int) -> None:
    """Named steps whose results are dropped."""
    for i in range(count):
        with step(i):
            function(jnp.ones(8))


def test_steps_behind_those_that_compile_are_recorded() -> None:
    function = pl.jit(lambda x: jnp.cos(x) * 0.71)
    with profile(steps=3) as recorded:
        run(function, 8)
        during = recorded.wait()
    assert [each.number for each in during.steps] == [1, 2, 3]
    assert during.compilations == []
    assert during.remarks[0].startswith("The recording holds 3 steps, ")
    assert "behind a warm-up that compiled; the rest ran" in during.remarks[0]
    assert recorded.wait() is during
    with profile():
        pass


def test_steps_behind_those_that_compile_operations_are_recorded() -> None:
    x = jnp.ones((5, 23))
    with profile(steps=3) as recorded:
        for i in range(8):
            with step(i):
                pl.lax.rev(x, (1,))
        during = recorded.wait()
    assert [each.number for each in during.steps] == [1, 2, 3]
    assert during.compilations == []


def test_a_loop_with_fewer_steps_is_recorded_whole() -> None:
    run(jnp.cos, 1)
    with profile(steps=5) as recorded:
        for i in range(3):
            with StepTraceAnnotation("train", step_num=i):
                jnp.cos(jnp.ones(8))
    assert [each.number for each in recorded.steps] == [0, 1, 2]
    assert not recorded.is_cut
    assert recorded.remarks == []


def test_a_block_without_named_steps_says_so() -> None:
    with profile(steps=2) as recorded:
        jnp.cos(jnp.ones(8))
    assert "named no steps" in recorded.remarks[0]
    assert len(recorded.calls) > 0


def test_named_steps_end_a_recording_of_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_limit, "MIN_SECONDS", 0.0)
    run(jnp.cos, 1)
    limit = step_limit.StepLimit()
    with Profile(lines=True, limit=limit) as recorded:
        run(jnp.cos, 3 * step_limit.MIN_STEPS)
    assert recorded.is_cut
    assert [each.number for each in recorded.steps] == [*range(step_limit.MIN_STEPS)]


def test_no_steps_are_refused() -> None:
    with pytest.raises(ArgumentValueError, match="at least one step"):
        profile(steps=0)


# Which lines are those of a loop of steps ------------------------------------------------------------------

PROGRAM = """
step = pl.jit(lambda p, x: pl.tree.map(
    lambda a: a - 0.1 * a.sum() * x.sum(),  # called for each leaf, while it is traced and by each update
    p,
))
def update(p, x):
    new = {}
    for name in p:                          # a loop within each step
        new[name] = p[name] * 0.9 + x.mean()
    return new
p = {k: jnp.ones(64) for k in "abcdefghijklmnopqrstuvwxyz"}
p = step(p, jnp.ones(8))
kept = []
for i in range(2000):
    p = update(step(p, jnp.ones(8)), jnp.ones(8))
    kept = [*kept[-5:], p]
"""


def recorded_run(tmp_path, program: str) -> Profile:
    path = tmp_path / "cell.py"
    path.write_text(program)
    code = compile(program, str(path), "exec")
    scope = {"pl": pl, "jnp": jnp}
    exec(code, scope)  # compiled before
    limit = step_limit.StepLimit()
    with Profile(lines=True, limit=limit) as recorded:
        exec(code, scope)
    return recorded


def test_the_loop_is_the_outermost_statement(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_limit, "MIN_SECONDS", 0.05)
    monkeypatch.setattr(step_limit, "CHECK_SECONDS", 0.02)
    recorded = recorded_run(tmp_path, PROGRAM)
    assert recorded.is_cut
    line = PROGRAM.splitlines().index("for i in range(2000):") + 1
    assert any(f"of the loop at line {line + i}" in recorded.remarks[0] for i in range(3))


TRACED = """
def body(x):
    for _ in range(2000):
        x = x * 0.999 + 0.5
    return x
y = pl.jit(lambda x: body(x))(jnp.ones(8))
g = pl.grad(lambda x: body(x).sum())(jnp.ones(8))
"""


def test_lines_that_are_traced_end_no_recording(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_limit, "MIN_SECONDS", 0.0)
    monkeypatch.setattr(step_limit, "CHECK_SECONDS", 0.0)
    recorded = recorded_run(tmp_path, TRACED)
    assert not recorded.is_cut
    assert recorded.wait().remarks == []


def test_a_recording_may_begin_and_end_while_a_program_is_traced() -> None:
    @pl.jit
    def function(x):
        with profile():
            return jnp.sin(x)

    assert function(jnp.zeros(3)).tolist() == [0, 0, 0]


def test_loops_in_code() -> None:
    def function(xs):
        total = 0
        squares = [x * x for x in xs]
        for x in squares:
            total += sum(y for y in (x, 1))
            others = [-z for z in xs]
        while total > 10:
            total //= 2
        return total, others

    first = function.__code__.co_firstlineno
    lines = {line - first for loop in step_limit._loops_of(function.__code__) for line in loop}
    assert {4, 5, 7} <= lines
    assert not lines & {1, 2, 8}
    assert not step_limit._loops_of((lambda xs: [2 * x for x in xs]).__code__)


def test_loops_around_the_recording_are_none_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_limit, "MIN_SECONDS", 0.02)
    monkeypatch.setattr(step_limit, "CHECK_SECONDS", 0.01)
    x = jnp.cos(jnp.ones(64))
    for _ in range(2):
        with Profile(lines=True, limit=step_limit.StepLimit()) as recorded:
            for _ in range(3000):
                x = jnp.cos(x)
        assert recorded.is_cut
