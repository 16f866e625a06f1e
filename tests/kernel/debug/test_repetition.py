"""Runs that should be equal bit for bit."""

import itertools

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid.introspect.errors import ArgumentValueError
from pellucid_kernel.debug import repeat


def drifting():
    """A function of the host that gives another number each time."""
    numbers = itertools.count()
    shape = pl.ShapeDtypeStruct((), np.float32)
    host = lambda x: np.float32(x + 1e-3 * next(numbers))
    return lambda x: pl.pure_callback(host, shape, x)


def test_programs_that_repeat_are_exact() -> None:
    x = jnp.ones((64, 64))
    repetition = repeat(lambda x: jnp.tanh(x @ x).sum(), 3)(x)
    assert repetition.is_exact
    assert repetition.first is None
    assert str(repetition) == "3 runs of <lambda> are equal to the bit, in all values"
    assert repeat(pl.random.split, 2)(pl.random.key(0)).is_exact
    assert repeat(lambda x: x / 0.0, 2)(jnp.zeros(3)).is_exact  # NaN is equal to itself


def test_the_operation_that_does_not_repeat_is_told_from_those_that_follow() -> None:
    call = drifting()

    def f(x):
        y = jnp.sin(x)
        z = call(y)
        return z * 2 + y, y

    repetition = repeat(f, 4)(1.0)
    assert repetition.results == [0]
    assert [(row.primitive, row.begins, row.runs) for row in repetition.rows] == [
        ("pure_callback", True, 3),
        ("mul", False, 3),
        ("add", False, 3),
    ]
    assert repetition.first is not None
    assert repetition.first.ulps > 1
    assert "don't repeat from `pure_callback` on (its results 0 differ)" in str(repetition)


def test_a_loop_is_compared_by_its_results() -> None:
    call = drifting()
    repetition = repeat(
        lambda x: lax.scan(lambda c, _: (call(c), None), x, None, length=3)[0], 2
    )(jnp.float32(1))  # fmt: skip
    assert [row.primitive for row in repetition.rows] == ["scan"]


def test_zeros_of_other_sign_do_not_repeat() -> None:
    signs = itertools.cycle([0.0, -0.0])
    host = lambda x: np.float32(next(signs))
    f = lambda x: pl.pure_callback(host, pl.ShapeDtypeStruct((), np.float32), x)
    [row] = repeat(f, 2)(1.0).rows
    assert row.ulps == 0


def test_one_run_is_refused() -> None:
    with pytest.raises(ArgumentValueError, match="fewer than two runs"):
        repeat(jnp.sin, 1)
