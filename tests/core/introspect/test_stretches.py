"""Stretches give all values of their equations, and of the calls among them."""

from __future__ import annotations

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid.introspect import stretches
from pellucid.introspect.stepping import frame_of
from pellucid.introspect.stretches import levels_to, run_stretch, stretch_from


@pl.jit
def inner(x):
    return jnp.sin(x) * 2.0


@pl.jit
def outer(x):
    pl.debug.print("x: {}", x)
    return inner(x + 1.0) - inner(x)


def program(x):
    y = outer(x) + 3.0
    z = lax.fori_loop(0, 3, lambda _, c: c * y, x)
    return z + y


X = np.float32(0.5)


def names(stretch) -> list[str]:
    return [place.equation.primitive.name for place in stretch.places]


def test_calls_belong_to_a_stretch_and_loops_end_it(capfd) -> None:
    frame = frame_of(pl.make_jaxpr(program)(X), X)
    stretch = stretch_from(frame.jaxpr, 0)
    assert stretch is not None
    assert names(stretch) == ["add", "sin", "mul", "sin", "mul", "sub", "add"]
    assert [e.primitive.name for e in frame.jaxpr.equations[: stretch.end]] == ["jit", "add"]
    assert stretch_from(frame.jaxpr, stretch.end) is None
    after = stretch_from(frame.jaxpr, stretch.end + 1)
    assert after is not None
    assert names(after) == ["add"]
    values = run_stretch(frame, stretch)
    assert frame.position == stretch.end
    results = [float(values[v]) for place in stretch.places for v in place.results]
    a, b = 2 * np.sin(1.5), 2 * np.sin(0.5)
    np.testing.assert_allclose(results, [1.5, a / 2, a, b / 2, b, a - b, a - b + 3], rtol=1e-6)
    pl.effects_barrier()
    assert not capfd.readouterr().out  # prints are no part of it


def test_frames_stand_before_an_equation_within_calls_and_know_its_operands() -> None:
    frame = frame_of(pl.make_jaxpr(program)(X), X)
    stretch = stretch_from(frame.jaxpr, 0)
    assert stretch is not None
    values = run_stretch(frame, stretch)
    place = stretch.places[4]  # the product of the second call of `inner`
    frames = [frame, *(each for each, _, _ in levels_to(frame, stretch, place, values))]
    assert [f.equation.primitive.name for f in frames] == ["jit", "jit", "mul"]
    innermost = frames[-1]
    assert innermost.equation is place.equation
    known = {*innermost.values}
    assert float(innermost.value(place.equation.operands[0])) == np.sin(X)
    innermost.move(innermost.position + 1)
    assert {*innermost.values} == known  # nothing had to be computed


@pytest.mark.parametrize(("n_bytes", "lengths"), [(8, [2, 2, 1]), (1, [1] * 5)])
def test_a_stretch_keeps_to_its_bytes(n_bytes: int, lengths: list[int], monkeypatch) -> None:
    monkeypatch.setattr(stretches, "MAX_BYTES", n_bytes)
    frame = frame_of(pl.make_jaxpr(lambda x: x * 2 + 1 - x**2 * 3)(X), X)
    ends = []
    while frame.equation is not None:
        stretch = stretch_from(frame.jaxpr, frame.position)
        assert stretch is not None
        run_stretch(frame, stretch)
        ends.append(stretch.end)
    assert np.diff([0, *ends]).tolist() == lengths
    assert float(frame.results()[0]) == 0.5 * 2 + 1 - 0.25 * 3
