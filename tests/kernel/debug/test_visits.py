"""The law of the debugger: its stops, and what names hold there, are those of pdb on the same function run eagerly."""

from __future__ import annotations

import bdb
import functools
import inspect

import numpy as np
import pytest
from corpus import compositions, models, transform_programs
from rotation import rotating

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid._machine.higher_order import bodies
from pellucid._machine.ir import Var
from pellucid.introspect.noting import held_values
from pellucid_kernel.debug import debug

LIMIT = 25
"""Stops that are compared of each program."""
LEFT_OUT = (
    # Loops of no step, which don't run eagerly.
    transform_programs.scan_of_nothing,
    compositions.loops_over_nothing,
    transform_programs.forward_through_custom_reverse,  # a mistake, which raises
    transform_programs.rematerialized_layers,  # NumPy stacks its argument, which no trace allows
)
"""Programs that pdb doesn't step through."""
_OPERATION = "the function of a reduction, which is one operation of the program"
_SOLVER = "Python runs the function to trace it for the solver's rules, the program within the solver's loop"
_LANES = "Python runs the test and the body once, as the batch is traced; the program until the last lane ends"
_ORDER = "Python traces the branch for true before that for false; where a batch selects, the program runs them by index"
_SEQUENCE = "Python runs the function once, for the batch that it is given; the program for one lane after another"
_TRANSPOSED = "Python runs a linear function to trace it; the program has its transpose alone"
_DERIVATIVE = (
    "Python runs the function at each order; the program has of the lower ones the derivative alone"
)
_TRACED = "Python runs all branches, to trace what `checkpoint` is given; the program runs one"
_RULE = "Python runs the function for its type; the program has its rule in its place"
_CLOSURE = "Python runs the function where its closure is made explicit; the program where the result is called"
INTO_OTHER_CALLS = {
    transform_programs.reduced_by_function: _OPERATION,
    compositions.reduced_windows_by_function: _OPERATION,
    transform_programs.implicit_solution: _SOLVER,
    models.implicit_layer: _SOLVER,
    transform_programs.newton_root: _SOLVER,
    transform_programs.doubling_batched: _LANES,
    transform_programs.batched_bound_of_loop: _LANES,
    compositions.loop_until_batched: _LANES,
    compositions.nested_branches: _ORDER,
    transform_programs.one_after_another: _SEQUENCE,
    compositions.tangents_of_sequential_map: _SEQUENCE,
    transform_programs.transposed_function: _TRANSPOSED,
    compositions.transposed_twice: _TRANSPOSED,
    transform_programs.gradient_function: _DERIVATIVE,
    models.gradient_through_training: _DERIVATIVE,
    compositions.closures_of_gradients: _CLOSURE,
    transform_programs.closure_made_explicit: _CLOSURE,
    compositions.differential_equation: _CLOSURE,
    compositions.rematerialized_branch: _TRACED,
    compositions.rematerialized_custom_rule: _RULE,
    transform_programs.custom_batching: _RULE,
}
"""Programs that run functions otherwise than Python does while it traces them, and how, so that `step` can't be the same; `next`
and `out` are.
"""
PROGRAMS = {
    f"{program.__name__}-{i}": (program, arguments)
    for corpus in (transform_programs, compositions, models)
    for i, (program, arguments) in enumerate(corpus.PROGRAMS)
    # Those with texts among their arguments make one function of others: a session takes arrays.
    if program not in LEFT_OUT and not any(isinstance(x, str) for x in arguments)
}


def commands_of(name: str) -> list[str]:
    """The command by which a program is gone through: one, or those for which the law holds."""
    program, _ = PROGRAMS[name]
    if program in INTO_OTHER_CALLS:
        return ["next", "out"]
    return [COMMANDS[len(name) % 3]]


class Pdb(bdb.Bdb):
    """Gives one command again and again, as a user of pdb does who looks at nothing but lines of his own."""

    def __init__(self, command: str, files: set[str]) -> None:
        super().__init__()
        self.command, self.files = command, files
        self.stops: list[tuple[str, int]] = []
        self.held: list[dict[str, object]] = []

    def user_line(self, frame) -> None:
        if frame.f_code.co_filename not in self.files:
            self.set_step()
        elif len(self.stops) == LIMIT:
            self.set_quit()
        else:
            self.stops.append((frame.f_code.co_qualname, frame.f_lineno))
            self.held.append(held_values(frame))
            if self.command == "next":
                self.set_next(frame)
            elif self.command == "out":
                self.set_return(frame)
            else:
                self.set_step()

    def user_return(self, frame, value) -> None:
        """At the end of a function one goes on to the next line of the user around it."""
        if self.command == "step" or frame.f_code.co_filename not in self.files:
            return
        while (frame := frame.f_back) is not None:
            if frame.f_code.co_filename in self.files:
                self.set_next(frame)
                return


def by_pdb(function, arguments, command):
    """Lines, and what names hold there, at which pdb stops in a call that runs eagerly, with no function traced before."""
    pdb = Pdb(
        command,
        {__file__, *[inspect.getfile(c) for c in (transform_programs, compositions, models)]},
    )
    with pl.disable_jit(), pytest.MonkeyPatch.context() as patch:
        # Else functions that a program calls twice, as those of `checkpoint`, are Python once, and run twice.
        patch.setattr(bodies, "compares_by_identity", ().__contains__)
        pdb.runcall(function, *arguments)
    return pdb.stops, pdb.held


def by_session(function, arguments, command):
    """The same of a session, but for lines of backward passes, which Python doesn't come to."""
    session = debug(function)(*arguments)
    stops, held = [], []
    while not session.is_done and len(stops) < LIMIT:
        if session.is_on_python_line():
            frame = session.stack()[-1]
            stops.append((frame.function, frame.line))
            held.append(session.variables())
        getattr(session, command)()
    return stops, held


def sorted_elements(value):
    """Elements in an order that doesn't depend on where a batch has its dimension."""
    return np.sort(np.ravel(np.asarray(value)).astype(complex))


COMMANDS = ("step", "next", "out")


@pytest.mark.parametrize(
    ("name", "command"),
    rotating(
        [(name, command) for name in PROGRAMS for command in commands_of(name)],
        lambda case: case[1],
    ),
)
def test_stops_and_locals_are_those_of_pdb(name, command) -> None:
    program, arguments = PROGRAMS[name]
    arguments = pl.tree.map(jnp.asarray, list(arguments))
    function = functools.partial(program, pl)
    expected, theirs = by_pdb(function, arguments, command)
    stops, ours = by_session(function, arguments, command)
    assert stops == expected
    for place, mine, held in zip(stops, ours, theirs, strict=True):
        for variable, value in mine.items():
            assert variable in held, (place, variable)
            # Python has variables only of what it traces, as of what `checkpoint` is given.
            if isinstance(held[variable], Var):
                continue
            if jnp.issubdtype(getattr(value, "dtype", object), np.number):
                same = sorted_elements(held[variable])
                np.testing.assert_allclose(
                    sorted_elements(value), same, 1e-4, 1e-5, err_msg=f"{variable} in {place}"
                )


def layer(w, h):
    z = w * h
    z = jnp.tanh(z)
    return z + 1


def layers(ws, x):
    n, out = 2, []

    def body(c, w):
        c = layer(w, c)
        return c, c

    h, hs = lax.scan(body, x, ws)
    for i in range(n):
        h = layer(ws[i], h)
        out.append(h)
    total = (h + hs.sum()) * out[0]
    return total * 2


FIRST = layers.__code__.co_firstlineno
WAYS = {
    "plain": (layers, lambda x: x),
    "jit": (pl.jit(layers), lambda x: x),
    "vmap": (pl.vmap(layers, (None, 0)), lambda x: jnp.stack([x, x + 1, x - 1])),
    "grad": (pl.grad(layers, 1), lambda x: x),
    "jit of grad": (pl.jit(pl.grad(layers, 1)), lambda x: x),
    "grad of jit": (pl.grad(pl.jit(layers), 1), lambda x: x),
    "vmap of jit": (pl.vmap(pl.jit(layers), (None, 0)), lambda x: jnp.stack([x, x + 1, x - 1])),
}


@pytest.mark.parametrize("way", WAYS)
def test_transformations_have_the_stops_and_locals_of_the_function(way) -> None:
    function, batch = WAYS[way]
    ws, x = jnp.array([0.5, -1.0, 2.0]), jnp.float32(0.25)
    expected, theirs = by_pdb(layers, (ws, x), "step")
    session = debug(function)(ws, batch(x))
    stops, ours = [], []
    while not session.is_done and len(stops) < len(expected):
        frame = session.stack()[-1]
        if session.is_on_python_line() and frame.function.partition(".")[0] in ("layers", "layer"):
            if session.batch_sizes():
                session.in_lane(0)
            stops.append((frame.function, frame.line))
            ours.append(session.variables())
        session.step()
    assert stops == expected
    for place, mine, held in zip(stops, ours, theirs, strict=True):
        assert mine.keys() == held.keys(), place
        for name, value in mine.items():
            np.testing.assert_allclose(value, held[name], 1e-5, err_msg=f"{name} in {place}")


@pytest.mark.parametrize("way", ["plain", "vmap", "grad", "jit"])
def test_out_of_a_loop_goes_on_in_the_function_around_it(way) -> None:
    function, batch = WAYS[way]
    session = debug(function)(jnp.array([0.5, -1.0, 2.0]), batch(jnp.float32(0.25)))
    session.run_to(FIRST + 4)
    assert session.stack()[-1].run.startswith("(iteration 0 of 3)")
    session.out()
    assert (session.stack()[-1].function, session.stack()[-1].line) == ("layers", FIRST + 8)
    assert session.next().stack()[-1].line == FIRST + 9
    assert session.step().stack()[-1].function == "layer"
    assert {"w", "h"} == set(session.variables())
    assert session.out().stack()[-1].line == FIRST + 10


def test_a_name_that_has_another_value_later_has_the_one_of_its_line() -> None:
    def function(x):
        state = {"x": x}
        y = state["x"]
        state["x"] = y * 2
        y = y + 1
        return y + state["x"]

    session = debug(function)(1.0)
    seen = []
    while not session.is_done:
        seen.append(dict(session.variables()))
        session.next()
    assert [each.get("state['x']") for each in seen] == [None, 1.0, 1.0, 2.0, 2.0]
    assert [each.get("y") for each in seen] == [None, None, 1.0, 1.0, 2.0]
