"""Runs that should be equal bit for bit."""

import itertools

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid.introspect.errors import ArgumentValueError
from pellucid_kernel.debug import repeat, stopping_places
from pellucid_kernel.debug.differences import ulps


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
    assert "don't repeat from `pure_callback` on (its result 0 differs)" in str(repetition)


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


def test_the_figure_draws_the_first_operation_that_does_not_repeat_and_opens_it() -> None:
    call = drifting()

    def f(x, *, scale):
        y = jnp.sin(x)
        z = call(y)
        return z * scale

    repetition = repeat(f, 3)(1.0, scale=2.0)
    record = repetition.record()
    assert (record.function, record.primitive, record.runs) == ("f", "pure_callback", "3 runs")
    assert [each.split(".")[-1] for each in record.functions[-2:]] == ["f", "<lambda>"]
    assert record.operations.begins == [True, False]
    assert [each.name for each in record.values] == [
        "operand 0",
        "result in the first run",
        "result in another",
        "distance, in units of the last place",
    ]
    first, other, distance = [each.values.low for each in record.values[1:]]
    assert first != other
    assert distance == ulps(np.float32(first), np.float32(other))
    data, metadata = repetition._repr_mimebundle_()
    assert data["text/plain"] == str(repetition)
    name, session = stopping_places.thing_of(metadata["pellucid"]["failure"]).opened()
    assert name == "f"
    assert [frame.line for frame in session.stack()[-2:]] == record.way.line[-2:]
    assert record.way.line[-2] == f.__code__.co_firstlineno + 2


def test_runs_that_are_equal_have_no_figure() -> None:
    repetition = repeat(lambda x: x * 2.0, 2)(1.0)
    assert repetition._repr_mimebundle_() == ({"text/plain": str(repetition)}, {})
    with pytest.raises(ArgumentValueError, match="no operation differs"):
        repetition.record()


@pytest.mark.parametrize("n", [1, 0, -3, 2.5, "two"])
def test_fewer_than_two_runs_are_refused(n) -> None:
    with pytest.raises(ArgumentValueError, match="at least two runs"):
        repeat(jnp.sin, n)
