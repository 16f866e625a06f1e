"""Programs of the corpora, stepped to their end and back, equation by equation and through every program within."""

from __future__ import annotations

import numpy as np
import pytest
from corpus import effect_programs, transform_programs
from rotation import rotating

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid.introspect.stepping import compiled_results, frame_of
from pellucid_kernel.debug.session import ulps
from pellucid_kernel.debug.stepper import Stepper
from tests.core.higher_order.repeat_until import repeat_until

UNSTAGED = (
    transform_programs.forward_through_custom_reverse,  # a mistake
    transform_programs.rematerialized_layers,  # computes with NumPy on its arguments
)
PROGRAMS = {
    f"{corpus.__name__.rpartition('.')[2]}-{program.__name__}-{i}": (program, arguments)
    for corpus, entries in (
        (transform_programs, transform_programs.PROGRAMS),
        (effect_programs, effect_programs.VALUES.values()),
    )
    for i, (program, arguments) in enumerate(entries)
    if program not in UNSTAGED
}


def stepper_of(function, *args):
    program = pl.make_jaxpr(function)(*args)
    leaves = pl.tree.leaves(args)
    return Stepper(frame_of(program, *leaves)), program, leaves


def walked(stepper, *, into=True):
    """The places on the way to the end."""
    places = [stepper.place()]
    while not stepper.is_done:
        stepper.forward(into=into)
        places.append(stepper.place())
    return places


def walked_back(stepper, *, into=True):
    places = [stepper.place()]
    while not stepper.is_at_start:
        stepper.back(into=into)
        places.append(stepper.place())
    return places


@pytest.mark.parametrize("name", rotating([(name,) for name in PROGRAMS], lambda case: case[0]))
def test_a_program_is_stepped_to_its_end_and_back(name) -> None:
    program, arguments = PROGRAMS[name]
    stepper, closed, leaves = stepper_of(lambda *xs: program(pl, *xs), *arguments)
    places = walked(stepper)
    results = stepper.top.frame.results()
    assert walked_back(stepper)[::-1] == places
    assert walked(stepper) == places
    again = stepper.top.frame.results()
    expected = compiled_results(closed, *leaves)
    for ours, once_more, theirs in zip(results, again, expected, strict=True):
        np.testing.assert_array_equal(ours, once_more)
        if jnp.issubdtype(theirs.dtype, jnp.inexact):
            np.testing.assert_allclose(ours, theirs, 2e-5, 2e-6)
        else:
            np.testing.assert_array_equal(ours, theirs)


def body(c, x):
    c = jnp.sin(c) * x
    return lax.cond(c[0] > 0, lambda c: c + 1, lambda c: c - 1, c), c.sum()


LOOPS = {
    "scan": lambda x: lax.scan(body, x, jnp.arange(5.0)),
    "reversed scan": lambda x: lax.scan(body, x, jnp.arange(5.0), reverse=True),
    "while": lambda x: lax.while_loop(lambda c: c[0] < 50.0, lambda c: c * 1.5 + 1, x),
    "until": lambda x: repeat_until(lambda c: c * 1.5 + 1, lambda c: c[0] > 50.0, x),
    "loop without a run": lambda x: lax.while_loop(lambda c: c[0] < 0.0, lambda c: c + 1, x),
    "scan without a run": lambda x: lax.scan(body, x, jnp.zeros(0)),
    "printing scan": lambda x: lax.scan(
        lambda c, y: (pl.debug.print("{}", y) or c + y, c * y), x, jnp.arange(3.0)
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_runs_of_a_loop_follow_each_other(name, capfd) -> None:
    x = jnp.array([0.5, 1.0, 2.0])
    stepper, closed, leaves = stepper_of(LOOPS[name], x)
    places = walked(stepper)
    printed = capfd.readouterr().out
    results = stepper.top.frame.results()
    assert walked_back(stepper)[::-1] == places
    assert walked(stepper) == places
    assert capfd.readouterr().out == ""  # what was printed is not printed again
    for ours, theirs in zip(results, compiled_results(closed, *leaves), strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-6)
    assert printed == capfd.readouterr().out


def before_scan(x):
    stepper, _, _ = stepper_of(LOOPS["printing scan"], x)
    while stepper.equation.primitive.name != "scan":
        stepper.forward()
    return stepper


def test_a_loop_stepped_over_after_some_of_its_runs_does_not_repeat_their_effects(capfd) -> None:
    x = jnp.array([0.5, 1.0, 2.0])
    stepper = before_scan(x)
    stepper.forward(into=True)
    while stepper.top.turn != (0, 2):
        stepper.forward()
    stepper.back_out()
    stepper.forward()
    results = pl.jit(LOOPS["printing scan"])(x)[1]
    np.testing.assert_allclose(stepper.top.frame.results()[1], results, 1e-6)
    assert capfd.readouterr().out.split() == ["0.0", "1.0", "2.0"] * 2


def test_a_loop_whose_effects_happened_is_not_looked_into_afterwards(capfd) -> None:
    stepper = before_scan(jnp.array([0.5, 1.0, 2.0]))
    stepper.forward()
    stepper.back()
    assert stepper.equation.primitive.name == "scan"
    stepper.forward(into=True)
    assert len(stepper.levels) == 1
    assert capfd.readouterr().out.split() == ["0.0", "1.0", "2.0"]


def test_a_jump_gives_the_carry_of_an_iteration() -> None:
    def summed(x):
        return lax.scan(lambda c, y: (jnp.cos(c) + y, c), x, jnp.arange(1000.0) / 1000)

    stepper, _, _ = stepper_of(summed, 0.5)
    while stepper.equation.primitive.name != "scan":
        stepper.forward()
    _, carries = pl.jit(summed)(0.5)
    for number in (0, 999, 17, 500):
        stepper.jump(number)
        frame = stepper.top.frame
        np.testing.assert_allclose(frame.value(frame.jaxpr.invars[0]), carries[number], 1e-5)
    with pytest.raises(ValueError, match="no run 1000 of `scan`"):
        stepper.jump(1000)


def test_values_within_a_budget_are_computed_again() -> None:
    def chain(x):
        values = [x]
        for _ in range(20):
            values.append(jnp.sin(values[-1]))
        return values[-1]

    x = jnp.ones(1000)
    stepper, _, _ = stepper_of(chain, x)
    stepper.budget = 5 * x.nbytes
    while not stepper.is_done:
        stepper.forward()
        assert stepper.bytes <= stepper.budget
    stepper.top.frame.move(3)
    [third] = stepper.top.frame.read(stepper.top.frame.jaxpr.equations[2].results)
    np.testing.assert_allclose(third, jnp.sin(jnp.sin(jnp.sin(x))), 1e-6)


def test_a_program_runs_to_what_matches_and_back() -> None:
    stepper, _, _ = stepper_of(lambda x: lax.scan(body, x, jnp.arange(1.0, 4.0)), jnp.ones(2))
    is_sin = lambda equation: equation.primitive.name == "sin"
    places = []
    while stepper.run_to(is_sin):
        places.append(stepper.place())
    assert stepper.is_done
    assert [place[-2] for place in places] == [0, 1, 2]  # one in each iteration
    back = []
    while stepper.run_back_to(is_sin):
        back.append(stepper.place())
    assert back[::-1] == places
    assert stepper.is_at_start


def test_donated_operands_stay() -> None:
    f = pl.jit(lambda x: x * 2, donate_argnums=0)
    stepper, _, _ = stepper_of(lambda x: f(x) + x, jnp.ones(3))
    walked(stepper, into=False)
    walked_back(stepper)
    walked(stepper)
    np.testing.assert_array_equal(stepper.top.frame.results()[0], 3 * np.ones(3))


@pytest.mark.parametrize(
    ("a", "b", "distance"),
    [
        ([1.0, np.nan], [1.0, np.nan], 0.0),
        ([1.0], [np.nextafter(np.float32(1), np.float32(2))], 1.0),
        ([np.nan], [1.0], np.inf),
    ],
)
def test_distances_in_units_of_the_last_place(a, b, distance) -> None:
    assert ulps(np.float32(a), np.float32(b)) == distance
