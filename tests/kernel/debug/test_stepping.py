"""Programs of the corpora, stepped to their end and back, equation by equation and through every program within."""

from __future__ import annotations

import numpy as np
import pytest
from corpus import (
    addend_programs,
    collectives,
    compositions,
    effect_programs,
    explicit_programs,
    manual_programs,
    models,
    sharded_programs,
    transform_programs,
)
from rotation import rotating

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid.introspect.stepping import compiled_results, frame_of
from pellucid_kernel.debug.differences import first_difference_of, ulps
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
        (compositions, compositions.PROGRAMS),
        (models, models.PROGRAMS),
        (sharded_programs, sharded_programs.PROGRAMS),
        (effect_programs, effect_programs.VALUES.values()),
    )
    for i, (program, arguments) in enumerate(entries)
    if program not in UNSTAGED
}


def stepper_of(function, *args):
    program = pl.make_jaxpr(function)(*args)
    leaves = pl.tree.leaves(args)
    return Stepper(frame_of(program, *leaves)), program, leaves


MAX_PLACES = 1000
"""Places of a program that is stepped through all programs within; in a longer one these are stepped over."""


def walked(stepper, *, into=True):
    """The places on the way to the end; the first ones of a long way."""
    places = [stepper.place()]
    while not stepper.is_done and not (into and len(places) > MAX_PLACES):
        stepper.forward(into=into)
        places.append(stepper.place())
    return places


def walked_back(stepper, *, into=True):
    places = [stepper.place()]
    while not stepper.is_at_start:
        stepper.back(into=into)
        places.append(stepper.place())
    return places


@pytest.mark.parametrize(
    "name", rotating([(name,) for name in PROGRAMS], lambda case: case[0].partition("-")[0])
)
def test_a_program_is_stepped_to_its_end_and_back(name) -> None:
    program, arguments = PROGRAMS[name]
    texts = [x for x in arguments if isinstance(x, str)]
    function = lambda *xs: program(pl, *xs, *texts)
    stepper, closed, leaves = stepper_of(function, *arguments[: len(arguments) - len(texts)])
    places, into = walked(stepper), True
    if not stepper.is_done:
        stepper.restart()
        places, into = walked(stepper, into=False), False
    results = stepper.top.frame.results()
    assert walked_back(stepper, into=into)[::-1] == places
    assert walked(stepper, into=into) == places
    again = stepper.top.frame.results()
    expected = compiled_results(closed, *leaves)
    assert [ulps(a, b) for a, b in zip(results, again, strict=True)] == [0.0] * len(results)
    if any(ulps(a, b) for a, b in zip(results, expected, strict=True)):
        assert first_difference_of(closed, leaves) is not None
        for ours, theirs in zip(results, expected, strict=True):
            assert jnp.issubdtype(theirs.dtype, jnp.inexact)
            np.testing.assert_allclose(ours, theirs, 2e-5, 2e-6)


MANUAL = {
    f"{name}-{form}": (name, form)
    for name in manual_programs.PROGRAMS
    if name != "one_within_another"  # sets a mesh, which tracing refuses
    for form in ("value", "gradient")
}


@pytest.mark.rotates
@pytest.mark.parametrize("case", rotating([(name,) for name in MANUAL], lambda case: case[0]))
def test_programs_of_shard_map_are_stepped_at_all_positions(case) -> None:
    name, form = MANUAL[case]
    # XLA rounds the products of some gradients otherwise.
    tolerances = (2e-5, 2e-6) if form == "gradient" else (0, 0)
    arguments = manual_programs.PROGRAMS[name][2]
    function = manual_programs.function_of(pl, name, True)
    if form == "gradient":
        total = manual_programs.scalar(pl, function)
        function = pl.grad(total, tuple(range(len(arguments))))
    results, expected, depth = stepped_at_positions(function, *arguments)
    assert depth
    for ours, theirs in zip(results, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, *tolerances)


COLLECTIVES = {
    f"{name}-{way}": (name, way)
    for way in ("mapped", "unchecked")
    for name in collectives.ROWS
    if name != "ragged_all_to_all"  # the compiler has none for CPUs
}


@pytest.mark.rotates
@pytest.mark.parametrize("case", COLLECTIVES)
def test_collectives_are_stepped_to_the_bit(case) -> None:
    name, way = COLLECTIVES[case]
    function, values = collectives.WAYS[way](pl, name), collectives.values(name)
    results, expected, depth = stepped_at_positions(function, values)
    assert depth
    for ours, theirs in zip(results, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def stepped_at_positions(function, *arguments):
    """Results of a function stepped to its end and back, those of the compiled one, and the depth of positions in it."""
    stepper, closed, leaves = stepper_of(function, *arguments)
    places, depth = [stepper.place()], 0
    while not stepper.is_done:
        frame, position = stepper.top.frame, stepper.top.frame.position
        stepper.forward(into=True)
        places.append(stepper.place())
        assert frame.obstacle(position) in ("", "positions run it in different ways")
        if (positions := stepper.top.frame.positions) is not None:
            depth = max(depth, positions.n_axes)
            operands = stepper.equation.operands if stepper.equation else []
            parts = stepper.top.frame.user_values(operands, len(positions) - 1)
            assert [p.shape for p in parts] == [a.aval.shape for a in operands]
    results = stepper.top.frame.results()
    assert walked_back(stepper)[::-1] == places
    return results, compiled_results(closed, *leaves), depth


class Stepped:
    """The library, whose `jit` also steps the program and compares results."""

    def __init__(self) -> None:
        self.n_stepped = 0

    def __getattr__(self, name):
        return getattr(pl, name)

    def jit(self, function):
        def run(*args):
            results, expected, _ = stepped_at_positions(function, *args)
            for ours, theirs in zip(results, expected, strict=True):
                np.testing.assert_allclose(ours, theirs, 2e-5, 2e-6)
            self.n_stepped += 1
            return pl.jit(function)(*args)

        return run


MARKED = [
    *addend_programs.PROGRAMS,
    explicit_programs.functions_over_one_axis,
    explicit_programs.derivatives_of_functions_over_one_axis,
]


@pytest.mark.rotates
@pytest.mark.parametrize("program", MARKED, ids=lambda program: program.__name__)
def test_addends_and_explicit_axes_are_stepped_at_all_positions(program) -> None:
    library = Stepped()
    program(library)
    assert library.n_stepped == 1


def layers_within(x, w):
    """A `shard_map` over one axis, with one over another axis within it, which has a loop."""
    mesh = pl.make_mesh((2, 4), ("data", "model"), axis_types=(pl.sharding.AxisType.Auto,) * 2)

    def inner(x, w):
        h = jnp.tanh(x @ w) + lax.axis_index("model")
        h, _ = lax.scan(lambda c, k: (c * k, None), h, jnp.arange(1.0, 3.0))
        return lax.psum(h, "model")

    def outer(x, w):
        x = 2 * x
        model = pl.shard_map(
            inner, in_specs=(pl.P(), pl.P("model")), out_specs=pl.P(), axis_names={"model"}
        )
        return lax.pmean((model(x, w) ** 2).mean(), "data")

    return pl.shard_map(
        outer,
        mesh=mesh,
        in_specs=(pl.P("data"), pl.P()),
        out_specs=pl.P(),
        axis_names={"data"},
    )(x, w)


@pytest.mark.parametrize("transform", [lambda f: f, lambda f: pl.grad(f, (0, 1))])
def test_a_shard_map_within_another_is_stepped_to_the_bit(transform) -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((4, 2), (8, 3)))
    results, expected, depth = stepped_at_positions(transform(layers_within), x, w)
    assert depth == 2
    for ours, theirs in zip(results, expected, strict=True):
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
    assert ulps(jnp.asarray(a, jnp.bfloat16), jnp.asarray(a, jnp.bfloat16)) == 0


def test_the_first_operation_that_rounds_otherwise_is_named() -> None:
    def function(x):
        y = x + 1.0
        return jnp.exp(y * 1.7) * y - jnp.sin(y) / 3.1

    x = jnp.linspace(0.0, 5.0, 4096)
    program = pl.make_jaxpr(lambda x, key: (pl.lax.map(function, x), pl.random.split(key)))
    program = program(x, pl.random.key(0))
    results = compiled_results(program, x, pl.random.key(0))
    assert ulps(results[1], results[1]) == 0
    assert ulps(results[1], results[1][::-1]) == np.inf
    difference = first_difference_of(pl.make_jaxpr(function)(x), [x])
    assert difference is not None
    if difference.primitive:  # which depends on the processor
        assert difference.ulps
        assert ":" in difference.line
