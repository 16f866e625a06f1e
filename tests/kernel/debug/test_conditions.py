"""Conditions of breakpoints in loops: evaluated by the compiled loop, with the stops of a run that evaluates each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid_kernel.debug import Breakpoint, DebugSession, debug, isnan

LIMIT = 7.0


def scanned(x):
    scale = x * 2.0

    def body(c, v):
        d = c * 0.5 + v
        e = d * scale
        return d, e

    return lax.scan(body, x, jnp.arange(3000.0) % 500)


def looped(x):
    return lax.while_loop(lambda c: c < 2500.0, lambda c: doubled(c), x)


def doubled(c):
    d = c + 1
    return d * 1.0


def nested(x):
    def outer(c, v):
        def inner(i, s):
            t = s + i
            return t * 0.5

        c = lax.fori_loop(0, 5, inner, c) + v
        return c, c

    return lax.scan(outer, x, jnp.arange(40.0))


def line_of(function, text: str) -> int:
    """The line of a file with a text, from a function on."""
    lines = Path(__file__).read_text().split("\n")
    first = function.__code__.co_firstlineno
    return next(n for n in range(first, len(lines)) if text in lines[n - 1])


def places(session: DebugSession, run: str = "run") -> list[tuple[int, ...]]:
    stops = []
    while not getattr(session, run)().is_done and session.place() != (0,):
        stops.append(session.place())
    return stops


E = np.asarray(pl.jit(scanned)(0.5)[1])  # `scale` is 1.0
V = np.arange(3000) % 500
CASES = {
    "a value": (scanned, "e = d", "d > 997", E > 997),
    "a run": (scanned, "d = c", "v == 250", V == 250),
    "a name of the module": (scanned, "e = d", "d < LIMIT", E < LIMIT),
    "a value around the loop": (scanned, "e = d", "v == scale + 30", V == 31),
    "never": (scanned, "e = d", "d < -5", V < 0),
    "a test": (looped, "d = c", "c % 1200 == 3.5", np.arange(2500) % 1200 == 3),
    "a loop around": (nested, "c = lax", "v == 33", np.arange(40) == 33),
}


@pytest.mark.parametrize("case", CASES)
def test_a_compiled_loop_stops_where_its_conditions_hold(case, monkeypatch) -> None:
    function, text, condition, holds = CASES[case]
    session = debug(function)(0.5)
    session.break_at(line_of(function, text), __file__, condition)
    evaluated: list[tuple[int, ...]] = []
    evaluate = DebugSession.evaluate

    def counted(self: DebugSession, expression: str):
        evaluated.append(self.place())
        return evaluate(self, expression)

    monkeypatch.setattr(DebugSession, "evaluate", counted)
    stops = places(session)
    assert evaluated == stops  # in no run where it doesn't hold
    assert [place[2] for place in stops] == [*np.flatnonzero(holds)]
    assert places(session, "run_back") == stops[::-1]


def test_a_condition_stops_as_one_that_is_evaluated_in_each_run() -> None:
    line = line_of(nested, "t = s")
    condition = "(s > 15) & (i == 2)"
    session = debug(nested)(0.5)
    session.break_at(line, __file__, condition)
    each = debug(nested)(0.5)
    # `bool` needs a value, which a traced loop hasn't.
    each.break_at(line, __file__, f"bool({condition})")
    assert places(session) == places(each)


def test_breakpoints_without_conditions_stop_in_each_run() -> None:
    session = debug(nested)(0.5)
    session.break_at(line_of(nested, "t = s"), __file__, "i == 4")
    session.break_at(line_of(nested, "c = lax"), __file__)
    file = __file__
    messages: list[str] = []
    session.log = messages.append
    session.breakpoints.append(Breakpoint(file, line_of(nested, "t = s"), "i == 3", ">= 39", "{i}"))
    stops = places(session)
    assert len(stops) == 80
    assert messages == ["3", "3"]


def test_names_of_no_value_stop_in_the_first_run() -> None:
    session = debug(scanned)(0.5)
    session.break_at(line_of(scanned, "e = d"), __file__, "d > nothing")
    assert session.run().stack()[-1].run == "(iteration 0 of 3000)"
    assert "NameError" in session.reason


def test_a_condition_at_positions_stops_in_the_run_where_one_meets_it() -> None:
    def local(x):
        def body(c, v):
            d = c + v
            return lax.pmean(d, "x") + c * 0, d

        return lax.scan(body, x, jnp.arange(2000.0))[0]

    mesh = pl.make_mesh((8,), ("x",), axis_types=(pl.sharding.AxisType.Auto,))
    function = pl.shard_map(local, mesh=mesh, in_specs=pl.P("x"), out_specs=pl.P("x"))
    session = debug(function)(jnp.arange(8.0))
    session.break_at(line_of(local, "return lax.pmean"), __file__, "d[0] == 19 * 18 / 2 + 19 + 3.5")
    session.run()
    assert session.stack()[-1].run == "(iteration 19 of 2000)"
    session = debug(function)(jnp.arange(8.0))
    session.break_at(line_of(local, "return lax.pmean"), __file__, "(d[0] == 5) & (v == 0)")
    assert session.run().position == 5
    assert session.stack()[-1].run == "(iteration 0 of 2000)"
    assert session.run().is_done


def test_a_watch_in_a_long_loop_is_one_stop(monkeypatch) -> None:
    def logs(x):
        return lax.scan(lambda c, v: (c - 1.0, jnp.log(c) + v), x, jnp.zeros(3000))

    session = debug(logs)(np.float32(2000.5))
    assert session.watch(isnan, "NaN")
    n_stops = 0
    move = DebugSession._stops_here

    def counted(self: DebugSession, *args, **kwargs):
        nonlocal n_stops
        n_stops += 1
        return move(self, *args, **kwargs)

    monkeypatch.setattr(DebugSession, "_stops_here", counted)
    assert session.run().stack()[-1].run == "(iteration 2001 of 3000)"
    assert session.equation.primitive.name == "log"
    assert n_stops == 1
