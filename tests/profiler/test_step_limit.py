"""Recordings of some steps of a loop."""

import pytest

import pellucid as pl
from pellucid import numpy as jnp
from pellucid.base.errors import ArgumentValueError
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
    with pytest.raises(ArgumentValueError, match="one step at least"):
        profile(steps=0)
