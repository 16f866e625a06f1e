"""Debugging sessions: lines, variables, breakpoints, the way back, and what is found."""

from __future__ import annotations

import contextlib
import gc
import io
from concurrent.futures import wait

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid.introspect import compiling_ahead, finding as finding_module
from pellucid.introspect.interception import Runner, run_programs_by
from pellucid_kernel.debug import (
    Breakpoint,
    DebugSession,
    Prompt,
    debug,
    exceeds,
    find,
    isinf,
    isnan,
)

WEIGHTS = jnp.arange(12.0).reshape(3, 2, 2) / 10
X = jnp.array([[0.5, -1.0]])


def layer(w, x):
    h = x @ w
    return jnp.tanh(h)


@pl.jit
def loss(weights, x):
    y = x * 2

    def body(c, w):
        c = layer(w, c)
        d = c + 1
        return d, d.sum()

    out, sums = lax.scan(body, y, weights)
    z = out.mean()
    return z + sums.sum()


FIRST = loss.__wrapped__.__code__.co_firstlineno
Y, BODY, LAYER, D = FIRST + 2, FIRST + 4, FIRST + 5, FIRST + 6
SCAN, Z = FIRST + 9, FIRST + 10


def started() -> DebugSession:
    """A session before the first line of `loss`."""
    return debug(loss)(WEIGHTS, X).step()


def line(session: DebugSession) -> int:
    return session.stack()[-1].line


def test_a_session_goes_line_by_line_into_functions_and_loops_and_back() -> None:
    session = started()
    assert line(session) == Y
    assert line(session.next()) == BODY
    assert line(session.next()) == SCAN
    np.testing.assert_array_equal(session.variables()["y"], 2 * X)
    assert line(session.step()) == LAYER
    assert session.stack()[-1].run == "(iteration 0 of 3)"
    assert session.stack()[-1].function.endswith("body")
    assert set(session.variables()) == {"c", "w"}
    assert session.step().stack()[-1].function == "layer"
    assert set(session.variables()) == {"w", "x"}
    np.testing.assert_array_equal(session.variables()["x"], 2 * X)
    assert "h" in session.next().variables()
    assert line(session.next()) == D
    assert "h" not in session.variables()  # a variable of `layer`
    assert line(session.back()) == LAYER
    assert line(session.out()) == Z
    assert line(session.back()) == SCAN
    np.testing.assert_allclose(session.finish(), loss(WEIGHTS, X), 1e-6)
    assert session.is_done


def test_arguments_of_a_loop_keep_their_names_where_one_never_changes() -> None:
    def run(h, w, xs):
        def body(carry, x):
            return (jnp.sin(carry[0]) * x, carry[1]), carry[1]

        return lax.scan(body, (h, w), xs + 0.0)

    session = debug(run)(1.0, 2.0, jnp.arange(3.0)).jump(1)
    assert session.variables() == {"carry[0]": 0.0, "carry[1]": 2.0, "x": 1.0}


@pytest.mark.parametrize("uppers", [(), (3,)])
def test_arguments_of_a_fori_loop_have_the_names_of_its_function(uppers) -> None:
    def run(x, upper=3):
        def body(i, state):
            total = state["sum"] + i
            return {"sum": total}

        return lax.fori_loop(0, upper, body, {"sum": x})["sum"]

    session = debug(run)(1.0, *uppers).jump(2).next()
    assert session.variables() == {"i": 2, "state['sum']": 2.0, "total": 4.0}


def again(c, w):
    h = jnp.tanh(c @ w)
    g = jnp.sin(h)
    c = g + c
    return c, g.sum()


def scanned_again(x, weights):
    x, sums = lax.scan(pl.checkpoint(again), x, weights)
    y = x * x
    return y.sum() + sums.sum()


@pytest.mark.parametrize("transform", [lambda f: f, pl.jit], ids=["plain", "jit"])
def test_names_in_what_a_backward_pass_computes_again_are_those_of_the_line(transform) -> None:
    """In bodies of checkpoints and loops, arguments have their names; none holds what it was given on another line."""
    x, weights = np.full((2, 2), 0.5, np.float32), np.full((3, 2, 2), 0.25, np.float32)
    first, start = again.__code__.co_firstlineno, scanned_again.__code__.co_firstlineno
    # Of each line of `again`: what its names have there in each iteration.
    expected, c = {}, x
    for i in range(3):
        h = np.tanh(c @ weights[i])
        locals = {"c": c, "w": weights[i]}
        for line_number, made in enumerate([{"h": h}, {"g": np.sin(h)}, {"c": np.sin(h) + c}, {}]):
            expected[i, first + 1 + line_number] = dict(locals)
            locals |= made
        c = locals["c"]
    session = debug(pl.grad(transform(scanned_again)))(x, weights)
    seen, is_backward = set(), False
    for _ in range(100):
        session.step()
        if session.is_done:
            break
        *around, frame = session.stack()
        is_backward |= frame.function == "scanned_again" and frame.line == start + 3
        names = session.variables()
        if frame.function == "again":
            iteration = int(around[-1].run.split()[1])
            iteration = 2 - iteration if is_backward else iteration
            known = expected[iteration, frame.line]
            seen.add((is_backward, frame.line, *names))
            for name in {"c", "w", "h", "g"} & names.keys():
                if name in known:
                    np.testing.assert_allclose(names[name], known[name], 1e-6)
        elif is_backward and frame.line == start + 3 and "x" in names:
            np.testing.assert_allclose(names["x"], c, 1e-6)
    # The backward pass knows the arguments where they still have their values, and what it computes again.
    assert (True, first + 1, "c", "w") in seen
    assert any({*each} >= {True, first + 2, "c", "w", "h"} for each in seen)


def test_a_session_jumps_to_an_iteration_and_evaluates_there() -> None:
    session = started().next().jump(2)
    assert session.stack()[-1].run == "(iteration 2 of 3)"
    np.testing.assert_array_equal(session.variables()["w"], WEIGHTS[2])
    np.testing.assert_allclose(session.evaluate("(c @ w).sum() + y.sum() * 0"), np.sum(
        np.asarray(session.variables()["c"]) @ WEIGHTS[2]), 1e-6)  # fmt: skip
    with pytest.raises(ValueError, match="no run 3 of `scan`"):
        session.jump(3)


def test_a_session_stops_at_breakpoints_both_ways() -> None:
    session = debug(loss)(WEIGHTS, X)
    assert session.break_at(D).line == D
    assert session.break_at(D + 2).line == SCAN  # of the lines between nothing is computed
    runs = []
    while not session.run().is_done:
        runs.append((line(session), session.stack()[-1].run))
    assert runs == [(SCAN, ""), *((D, f"(iteration {i} of 3)") for i in range(3))]
    back = []
    while session.run_back().stack()[-1].file and line(session) in (SCAN, D):
        back.append((line(session), session.stack()[-1].run))
        if len(back) == len(runs):
            break
    assert back == runs[::-1]
    # From within a loop without a breakpoint, to the line around it.
    session = debug(loss)(WEIGHTS, X)
    session.break_at(SCAN)
    session.run().step().jump(2)
    assert (line(session.run_back()), session.stack()[-1].run) == (SCAN, "")


def test_a_breakpoint_may_have_a_condition() -> None:
    session = debug(loss)(WEIGHTS, X)
    session.break_at(D, condition="w[0, 0] > 0.3")
    assert session.run().stack()[-1].run == "(iteration 1 of 3)"
    session.break_at(Z, condition="nonsense > 1")
    assert line(session.run()) == D
    assert line(session.run()) == Z
    assert "NameError: name 'nonsense' is not defined" in str(session)
    assert not session.back().reason


def test_breakpoints_count_hits_and_print_messages() -> None:
    session = debug(loss)(WEIGHTS, X)
    file = loss.__wrapped__.__code__.co_filename
    messages: list[str] = []
    session.log = messages.append
    session.breakpoints += [
        Breakpoint(file, D, hit_condition=">= 2"),
        Breakpoint(file, D, message="{c.shape} in a run, {1 + 1}"),
    ]
    assert session.run().stack()[-1].run == "(iteration 1 of 3)"
    assert messages == ["(1, 2) in a run, 2"] * 2
    session.breakpoints[0] = Breakpoint(file, D, hit_condition="often")
    assert "a number of hits is a number" in session.run().reason


def test_a_watch_stops_before_what_makes_a_value_and_breakpoints_before() -> None:
    def scaled(x):
        y = x - 1.0
        return lax.scan(lambda c, v: (c + 1, jnp.log(v * c)), 0.0, y)[1]

    session = debug(scaled)(jnp.array([2.0, 1.0, 0.5]))
    assert session.watch(isnan, "NaN")
    session.breakpoints.append(Breakpoint(__file__, scaled.__code__.co_firstlineno + 1))
    assert session.run(first=True).stack()[-1].function.endswith("scaled")
    assert session.run().stack()[-1].run == "(iteration 2 of 3)"
    assert session.equation.primitive.name == "log"
    assert session.reason == "the next operation gives a value with NaN"
    assert not session.next().reason
    assert not debug(scaled)(jnp.array([2.0, 3.0])).watch(isnan, "NaN")


@pytest.mark.parametrize("has_token", [False, True])
def test_sessions_stop_at_breakpoints_in_code_without_a_prompt(has_token) -> None:
    def function(x):
        y = x + 1.0
        token = pl.debug.breakpoint(token=y if has_token else None, stdin=io.StringIO("q"))
        return y * (y if token is None else token)

    session = debug(lambda xs: lax.map(function, xs))(jnp.arange(2.0))
    runs = []
    while not session.run().is_done:
        runs.append(session.stack()[-1].run)
        assert line(session) == function.__code__.co_firstlineno + 2
        assert "y" in session.variables()
    assert runs == ["(iteration 0 of 2)", "(iteration 1 of 2)"]
    np.testing.assert_array_equal(session.finish(), [1.0, 4.0])
    assert not any(each.ulps for each in session.differences())
    if has_token:
        assert find(function, exceeds(3.0))(1.0).primitive == "mul"


class Compilations(pl.Observer):
    """Counts compiled programs."""

    count = 0

    def compilation_finished(self, event) -> None:
        self.count += 1


def over_devices(kind):
    """Places arrays over eight devices, along axis 0, with axes of a kind; on one device for None."""
    if kind is None:
        return jnp.asarray
    mesh = pl.make_mesh((8,), ("x",), axis_types=(kind,))
    return lambda x: pl.device_put(x, pl.NamedSharding(mesh, pl.P("x")))


@pytest.mark.parametrize("kind", [None, pl.sharding.AxisType.Auto, pl.sharding.AxisType.Explicit])
def test_what_a_step_runs_is_compiled_while_somebody_looks(kind) -> None:
    def scaled(x, scales):
        y = jnp.sin(x) * 3.25
        z = jnp.cos(y) - y

        def body(c, v):
            return c * v + 0.125, v

        return lax.scan(body, z, scales)

    put, scales = over_devices(kind), jnp.arange(8.0)
    # Elements are taken of an array that is cut along axis 0; a scan takes none that is cut so over Explicit axes.
    is_cut = kind is pl.sharding.AxisType.Auto
    args = put(jnp.arange(16.0)), put(scales) if is_cut else scales
    session = debug(pl.jit(scaled))(*args).step()
    first = scaled.__code__.co_firstlineno
    compilations = Compilations()
    for step, expected in (
        ("next", 2),
        ("next", 4),
        ("next", 7),
        ("back", 4),
        ("next", 7),
        ("next", None),
    ):
        session.compile_ahead()
        wait(compiling_ahead._queue)
        with pl.observe(compilations):
            getattr(session, step)()
            assert expected is None or line(session) == first + expected
            assert expected is None or {"x", "y", "scales"} <= set(session.variables())
        assert compilations.count == 0, (step, expected)
    session.restart().step().next().next().next()
    for step in ("step", "next", "out"):  # into the scan, of which elements are taken
        session.compile_ahead()
        wait(compiling_ahead._queue)
        with pl.observe(compilations):
            getattr(session, step)()
            list(session.variables().values())
        assert compilations.count == 0, step
    for ours, theirs in zip(session.finish(), pl.jit(scaled)(*args), strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-6)


def test_a_step_at_positions_is_compiled_while_somebody_looks() -> None:
    def local(x):
        y = jnp.sin(x) * 3.5
        z = y - lax.psum(y, "x")
        return z * 0.75

    mesh = pl.make_mesh((8,), ("x",), axis_types=(pl.sharding.AxisType.Auto,))
    mapped = pl.shard_map(local, mesh=mesh, in_specs=pl.P("x"), out_specs=pl.P("x"))
    session = debug(mapped)(jnp.arange(16.0))
    compilations = Compilations()
    while not session.positions():
        session.compile_ahead()
        wait(compiling_ahead._queue)
        with pl.observe(compilations):
            session.step()
            session.variables()
    session.compile_ahead()
    wait(compiling_ahead._queue)
    with pl.observe(compilations):
        session.next().next()
        assert {"x", "y", "z"} == set(session.variables())
    assert compilations.count == 0
    np.testing.assert_array_equal(session.finish(), pl.jit(mapped)(jnp.arange(16.0)))


def test_a_breakpoint_stays_in_its_function() -> None:
    def first(x):
        y = x + 1
        return [y]

    def second(x):
        return x * 2

    session = debug(lambda x: second(first(x)[0]))(1.0)
    last = first.__code__.co_firstlineno + 2
    with pytest.raises(ValueError, match=f"nothing is computed from line {last}"):
        session.break_at(last)


def test_a_line_without_operations_is_told() -> None:
    with pytest.raises(ValueError, match=r"nothing is computed from line 9999") as error:
        debug(loss)(WEIGHTS, X).break_at(9999)
    assert f"{Y}" in str(error.value)


def test_results_are_those_of_the_compiled_call() -> None:
    session = debug(loss)(WEIGHTS, X)
    with pytest.raises(ValueError, match="after the end"):
        session.differences()
    session.finish()
    [difference] = session.differences()
    assert difference.ulps <= 4


@pytest.mark.parametrize("transform", [pl.grad, lambda f: pl.vmap(f, (None, 0)), pl.jit])
def test_transformed_functions_show_the_lines_they_come_from(transform) -> None:
    x = X[None] if transform not in (pl.grad, pl.jit) else X
    session = debug(transform(loss))(WEIGHTS, x)
    lines = set()
    while not session.is_done:
        lines.add(line(session))
        session.step()
    assert {Y, D, Z} <= lines


@pytest.mark.parametrize("kind", [pl.sharding.AxisType.Auto, pl.sharding.AxisType.Explicit])
def test_programs_over_eight_devices_are_stepped_with_the_values_of_each(kind) -> None:
    def centered(x):
        y = jnp.sin(x)
        z = pl.reshard(y.sum(axis=1), whole) if whole else y.sum(axis=1)
        w = lax.map(lambda v: v * 2, z)
        return w - w.mean()

    mesh = pl.make_mesh((8,), ("x",), axis_types=(kind,))
    is_explicit = kind is pl.sharding.AxisType.Explicit
    whole = pl.NamedSharding(mesh, pl.P()) if is_explicit else None
    x = pl.device_put(jnp.arange(16.0).reshape(8, 2), pl.NamedSharding(mesh, pl.P("x")))
    session = debug(pl.jit(centered))(x).step()
    lines, first = [], centered.__code__.co_firstlineno
    while session.stack()[-1].function.endswith("centered"):
        lines.append(line(session) - first)
        for name in session.variables().keys() - {"whole", "kind"}:
            value = session.variables()[name]
            assert len(value.sharding.device_set) == 8
        session.next()
    assert lines == [1, 2, 3, 4]
    assert line(session.restart().step().next().next()) == first + 3
    y = session.variables()["y"]
    assert [shard.data.shape for shard in y.addressable_shards] == [(1, 2)] * 8
    out = io.StringIO()
    Prompt(session, io.StringIO("shards y\nq\n"), out).cmdloop()
    assert "device 7  [7:8, 0:2]  f32[1,2] in [0.650288, 0.990607]" in out.getvalue()
    session.finish()
    assert all(each.ulps <= 2 for each in session.differences())


# Edited values --------------------------------------------------------------------------------------------


def test_an_edited_value_is_used_from_there_on_and_taken_back_on_the_way_back() -> None:
    def f(x):
        y = x * 2
        a = y + 1
        b = y * 3
        return a + b

    session = debug(f)(jnp.arange(3.0))
    session.next().next()
    plain = f(jnp.arange(3.0))
    y = 2 * jnp.arange(3.0)
    session.set("y", jnp.ones(3))
    np.testing.assert_array_equal(session.next().variables()["b"], [3.0, 3.0, 3.0])
    np.testing.assert_array_equal(session.variables()["a"], y + 1)  # computed before
    np.testing.assert_array_equal(session.finish(), y + 1 + 3)
    assert session.edits[0].startswith("y in ")
    assert "with edited values: y in" in str(session)
    session.back().back().back()
    np.testing.assert_array_equal(session.variables()["y"], y)
    assert not session.edits
    np.testing.assert_array_equal(session.finish(), plain)


@pytest.mark.parametrize("is_left_to_out", [False, True])
def test_an_edit_in_a_run_of_a_loop_reaches_the_runs_after_it(is_left_to_out) -> None:
    def f(x):
        def body(c, v):
            d = c + v
            e = d * 2
            return e, d

        c, ds = lax.scan(body, x, jnp.arange(100.0) % 3)
        n = lax.while_loop(lambda i: i < c, lambda i: i * 2 + 1, 1.0)
        return c, ds, n

    def expected(edited):
        c, ds = 1.0, []
        for i in range(100):
            d = -1.0 if i == edited else np.float32(c) + i % 3
            ds.append(d)
            c = d * np.float32(2)
        n = np.float32(1.0)
        while n < c:
            n = n * 2 + 1
        return c, ds, n

    session = debug(f)(1.0).jump(95)
    session.next().set("d", -1.0)
    if is_left_to_out:
        session.out()
    for ours, theirs in zip(session.finish(), expected(95), strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-6)
    assert len(session.edits) == 1
    session.restart()
    for ours, theirs in zip(session.finish(), expected(None), strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-6)
    session.restart().jump(95).next().set("d", -1.0).out()
    assert len(session.edits) == 1
    session._stepper.back(into=True)
    assert len(session.edits) == 1
    session.jump(97)
    assert len(session.edits) == 1
    session.jump(94)
    assert not session.edits
    for ours, theirs in zip(session.finish(), expected(None), strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-6)


def test_callbacks_of_garbage_collection_are_no_steps() -> None:
    """Libraries register them, and Python calls them in the middle of any line."""
    called = []

    def helper():
        called.append(0)

    def callback(phase, info):
        helper()

    @pl.jit
    def f(x):
        gc.collect()
        y = x + 1
        return y * 2

    gc.callbacks.append(callback)
    try:
        session = debug(f)(jnp.ones(2))
    finally:
        gc.callbacks.remove(callback)
    names = set()
    while not session.is_done:
        names |= {frame.function.rpartition(".")[2] for frame in session.stack()}
        session = session.step()
    assert called
    assert not names & {"callback", "helper"}


def test_edits_of_other_types_and_names_are_refused() -> None:
    session = started().next().next()
    out = io.StringIO()
    commands = (
        "set y = 1.0\nset z = 1.0\nset y = y.astype(int)\nset y = y * 0\ny\nstep\nset y = y\nq\n"
    )
    Prompt(session, io.StringIO(commands), out).cmdloop()
    text = out.getvalue()
    assert (
        "an edited value has the type of its variable `y`, float32[1, 2].\n  float32[]\n  in loss"
        in text
    )
    assert (
        "no variable of this name whose value could be edited here.\n  'z'\n  Name one of weights, x, y."
        in text
    )
    assert "int32[1, 2]" in text
    assert "Array([[0., 0.]]" in text or "Array([[ 0., -0.]]" in text
    assert "no variable of this name" in text[text.index("iteration 0") :]


def over_positions():
    """A function at positions x=0, …, 3 and y=0, 1, with a loop, a sum and two branches; its lines begin at its own."""
    mesh = pl.make_mesh((4, 2), ("x", "y"), axis_types=(pl.sharding.AxisType.Auto,) * 2)

    def local(w, x):
        h = x * w
        s = lax.psum(h.sum(), "x")
        h, _ = lax.scan(lambda c, v: (jnp.log(c) + v, None), h, jnp.arange(3.0))
        z = lax.cond(lax.axis_index("x") == 0, lambda x: x + s, lambda x: x - s, h)
        return z / s

    return local, pl.shard_map(
        local, mesh=mesh, in_specs=(pl.P(), pl.P("x", "y")), out_specs=pl.P("x", "y")
    )


def test_a_program_at_eight_positions_shows_the_values_of_each() -> None:
    local, mapped = over_positions()
    first = local.__code__.co_firstlineno
    x = 20.0 + jnp.arange(16.0).reshape(4, 4)
    session = debug(mapped)(2.0, x).step()
    assert session.stack()[-1].run == "(over 8 positions)"
    assert line(session.next()) == first + 2
    h, w = session.variables()["h"], session.variables()["w"]
    assert (h.shape, w.shape) == ((8, 1, 2), ())  # w is the same everywhere
    assert [shard.device.id for shard in h.addressable_shards] == [*range(8)]
    session.next().next()
    assert session.variables()["s"].shape == (2,)  # varies over y alone
    out = io.StringIO()
    Prompt(session, io.StringIO("position x=3, y=1\np h\nposition x=9, y=1\nq\n"), out).cmdloop()
    assert "(position x=3, y=1 (device 7))" in out.getvalue()
    assert "there is no such position here.\n  x=9, y=1" in out.getvalue()
    looped = np.log(np.log(np.log(2 * x[3:, 2:])) + 1) + 2
    np.testing.assert_allclose(session.variables()["h"], looped, 1e-6)
    np.testing.assert_array_equal(session.variables()["s"], 2 * x[:, 2:].sum())
    session.back().jump(2)
    assert session.stack()[-1].run == "(iteration 2 of 3)"
    np.testing.assert_allclose(session.variables()["c"], np.log(np.log(2 * x[3:, 2:])) + 1, 1e-6)
    session.out().at()
    while line(session) == first + 4 and "stepped over" not in session.reason:
        session.step()
    assert session.reason == "`cond` was stepped over: positions run it in different ways"
    session.finish()
    assert [each.ulps for each in session.differences()] == [0.0]


@pytest.mark.parametrize(
    "transform", [lambda f: f, pl.jit, lambda f: pl.grad(lambda x: f(x).sum())]
)
def test_a_watch_stops_within_a_shard_map(transform) -> None:
    mesh = pl.make_mesh((4,), ("x",), axis_types=(pl.sharding.AxisType.Auto,))

    def local(x):
        def body(c, w):
            h = c * w
            return jnp.log(h), h.sum()

        return lax.scan(body, x, jnp.array([1.0, 1.0, -1.0]))[0]

    mapped = pl.shard_map(local, mesh=mesh, in_specs=pl.P("x"), out_specs=pl.P("x"))
    session = debug(transform(mapped))(jnp.full((8,), 20.0).at[5].set(0.5))
    assert session.watch(isnan, "NaN")
    session.run()
    # log(log(0.5)) is NaN at the third position, an iteration before the others.
    assert session.reason == (
        "the next operation gives a value with NaN: 1 of 2 elements, first at index (1,)"
    )
    assert session.equation.primitive.name == "log"
    assert "iteration 1 of 3" in session.stack()[-1].run
    # The position that has it is chosen.
    assert session.position == 2
    assert "device 2" in str(session)


def test_a_shard_map_within_another_shows_the_positions_of_both() -> None:
    mesh = pl.make_mesh((2, 2), ("x", "y"), axis_types=(pl.sharding.AxisType.Auto,) * 2)

    def inner(v):
        w = v * 10 + lax.axis_index("y")
        return lax.psum(w, "y")

    def outer(v):
        u = v + 0
        within = pl.shard_map(inner, in_specs=pl.P("y"), out_specs=pl.P(), axis_names={"y"})
        return within(u)

    mapped = pl.shard_map(
        outer, mesh=mesh, in_specs=pl.P("x"), out_specs=pl.P("x"), axis_names={"x"}
    )
    session = debug(mapped)(jnp.arange(4.0)).step()
    assert session.stack()[-1].run == "(over 2 positions)"
    session.break_at(inner.__code__.co_firstlineno + 2)
    assert session.run().stack()[-1].run == "(over 4 positions)"
    np.testing.assert_array_equal(session.variables()["w"].ravel(), [0, 11, 20, 31])
    session.at(x=1, y=0)
    assert session.stack()[-1].run == "(position x=1, y=0 (device 2))"
    np.testing.assert_array_equal(session.variables()["w"], [20])
    [around] = [i for i, frame in enumerate(session.stack()) if frame.level == 1]
    assert session.stack()[around].run == "(position x=1 (devices 2, 3))"
    np.testing.assert_array_equal(session.variables(around)["u"], [2, 3])
    session.set("w", jnp.array([200.0]))
    np.testing.assert_array_equal(session.finish(), [11, 231])


def test_addends_are_shown_at_their_positions() -> None:
    mesh = pl.make_mesh((4,), ("x",), axis_types=(pl.sharding.AxisType.Explicit,))

    def local(v):
        u = lax.pcast(v, "x", to="unreduced")
        total = lax.psum(u, "x")
        return total * 2

    with pl.set_mesh(mesh):
        v = pl.device_put(jnp.arange(8.0), pl.sharding.NamedSharding(mesh, pl.P("x")))
        session = debug(pl.shard_map(local, in_specs=pl.P("x"), out_specs=pl.P()))(v)
        session.step().next()
        np.testing.assert_array_equal(session.variables()["u"], v.reshape(4, 2))
        session.at(x=3)
        np.testing.assert_array_equal(session.variables()["u"], [6, 7])
        session.set("u", jnp.zeros(2))
        np.testing.assert_array_equal(session.finish(), [12, 18])


def test_breakpoints_in_branches_of_which_positions_take_others_are_passed_in_words() -> None:
    def local(x):
        i = lax.axis_index("x")

        def odd(x):
            return x * 3.0

        return lax.cond(i % 2 == 0, lambda x: x + 1.0, odd, x)

    mesh = pl.make_mesh((8,), ("x",), axis_types=(pl.sharding.AxisType.Auto,))
    mapped = pl.shard_map(local, mesh=mesh, in_specs=pl.P("x"), out_specs=pl.P("x"))
    session = debug(mapped)(jnp.arange(8.0))
    messages: list[str] = []
    session.log = messages.append
    session.break_at(local.__code__.co_firstlineno + 4)
    assert session.run().is_done
    [message] = messages
    assert message.startswith("breakpoints within `cond` were passed: positions run it in")


def test_a_program_with_tokens_at_positions_is_stepped_over_in_words() -> None:
    mesh = pl.make_mesh((4,), ("x",), axis_types=(pl.sharding.AxisType.Auto,))

    def local(v):
        lax.after_all(lax.create_token(v))
        return v * 2

    mapped = pl.shard_map(local, mesh=mesh, in_specs=pl.P("x"), out_specs=pl.P("x"))
    session = debug(lambda v: mapped(v) + 1)(jnp.arange(4.0))
    assert "`shard_map` was stepped over: its program has a value that is no array" in str(
        session.step()
    )
    np.testing.assert_array_equal(session.finish(), [1, 3, 5, 7])


def test_an_edit_changes_the_value_of_one_position_or_all() -> None:
    _, mapped = over_positions()
    x = 20.0 + jnp.arange(16.0).reshape(4, 4)
    plain = np.asarray(mapped(2.0, x))
    session = debug(mapped)(2.0, x).step().next().next().next().next()
    session.at(x=2, y=0).set("z", jnp.zeros((1, 2)))
    expected = plain.copy()
    expected[2, :2] = 0
    np.testing.assert_allclose(session.finish(), expected, 1e-6)
    session.restart().step().next().next().at().set("h", jnp.full((1, 2), 2.0))
    rows = np.asarray(session.finish())
    assert len(np.unique(rows[1:, :2])) == len(np.unique(rows[1:, 2:])) == 1


def test_a_condition_and_a_finder_name_the_position() -> None:
    local, mapped = over_positions()
    x = 20.0 + jnp.arange(16.0).reshape(4, 4)
    session = debug(mapped)(2.0, x)
    session.break_at(local.__code__.co_firstlineno + 2, condition="h.max() > 60")
    assert session.run().stack()[-1].run == "(position x=2, y=1 (device 5))"
    finding = find(mapped, isnan)(2.0, x.at[1, 2].set(0.4))
    assert (finding.primitive, finding.iterations) == ("log", [1])
    assert "position x=1, y=1 (device 3)" in str(finding)


# Finders --------------------------------------------------------------------------------------------------


def shrinking(x):
    def body(c, y):
        h = jnp.log(c)  # NaN where c is negative
        c = jnp.where(h > -1e9, c - y, c)
        return c, h

    c, _ = lax.scan(body, x, jnp.ones(10))
    return c.sum()


LOG = shrinking.__code__.co_firstlineno + 2


@pytest.mark.parametrize("by_turn", [True, False])
@pytest.mark.parametrize(
    "transform", [lambda f: f, pl.jit, pl.grad, lambda f: pl.jit(pl.value_and_grad(f))]
)
def test_the_first_nan_is_found_in_its_iteration(transform, by_turn, monkeypatch) -> None:
    if not by_turn:
        monkeypatch.setattr(finding_module, "MAX_RUNS", 0)
    finding = find(transform(shrinking), isnan)(jnp.array([8.5, 6.5, 30.0]))
    assert (finding.primitive, finding.line, finding.iterations) == ("log", LOG, [7])
    np.testing.assert_array_equal(finding.elements, [[1]])
    np.testing.assert_array_equal(finding.operands[0], [1.5, -0.5, 23.0])
    assert "1 of 3 elements, first at index (1,)" in str(finding)
    assert "in [-0.5, 23]" in str(finding)
    assert finding.session.jump(6).variables()["c"][1] == 0.5


def test_a_search_compiles_the_body_of_a_loop_as_one() -> None:
    def deep(x):
        def body(c, _):
            for _ in range(30):
                c = jnp.sin(c) * 2.0 - 0.5
            return jnp.log(c + 40.0), None

        return lax.scan(body, x, None, length=5)[0]

    compilations = Compilations()
    with pl.observe(compilations):
        finding = find(deep, exceeds(3.68))(jnp.arange(7.0))
    assert (finding.primitive, finding.iterations) == ("add", [0])
    # The body, the condition for its type, and what leads to the place; not its 91 operations.
    assert compilations.count < 8


def test_a_nan_of_the_backward_pass_is_found() -> None:
    finding = find(pl.grad(lambda x: jnp.sqrt(x * 0.0).sum()), isnan)(jnp.ones(3))
    assert finding.primitive == "mul"
    assert finding.is_backward
    assert "3 infinite" in str(finding)


def test_lanes_of_batches_are_in_the_stack_and_in_what_is_found() -> None:
    def batched(x):
        return pl.vmap(shrinking)(x)

    x = jnp.array([16.5, 4.5, 64.5])
    session = debug(batched)(x)
    session.break_at(LOG)
    assert session.run().stack()[-1].run == "(iteration 0 of 10) (3 lanes)"
    finding = find(batched, isnan)(x)
    assert [*map(str, finding.lanes)] == ["lane 1 of 3"]
    assert "in lane 1 of 3" in str(finding)
    session = debug(batched)(x)
    session.watch(isnan, "NaN")
    assert session.run().stack()[-1].run.endswith("(lane 1 of 3)")
    assert session.reason == (
        "the next operation gives a value with NaN, lane 1 of 3: 1 of 3 elements, first at index (1,)"
    )
    assert session.back().lanes == ()


def scaled(ws, x):
    half = x / 2
    y = jnp.sin(half)
    out, _ = lax.scan(lambda c, w: (c * w + 1, None), y, ws)
    return (out * y).sum()


SCALED = scaled.__code__.co_firstlineno


def scaled_lanes(ws, xs):
    xs = xs * 2
    totals = pl.vmap(scaled, (None, 1))(ws, xs)
    return totals.sum()


def test_values_of_one_lane_are_shown_and_named_in_conditions() -> None:
    ws, xs = jnp.arange(1.0, 4.0), jnp.arange(8.0).reshape(2, 4)
    session = debug(scaled_lanes)(ws, xs)
    session.break_at(SCALED + 3)
    assert session.run().stack()[-1].run == "(4 lanes)"
    assert session.variables()["half"].shape == (2, 4)
    session.in_lane(1)
    assert session.stack()[-1].run == "(lane 1 of 4)"
    np.testing.assert_array_equal(session.variables()["half"], xs[:, 1])
    # The function around `vmap` has the whole batch.
    np.testing.assert_array_equal(session.variables(0)["xs"], xs * 2)
    assert session.evaluate("half.shape, xs.shape") == ((2,), (2, 4))
    assert session.operands()[0].shape == (2,)
    with pytest.raises(ValueError, match="below 4"):
        session.in_lane(4)
    session.step()
    assert session.stack()[-1].run == "(iteration 0 of 3) (lane 1 of 4)"
    assert session.variables()["c"].shape == (2,)
    session.breakpoints.clear()
    session.break_at(SCALED + 3, None, "w == 2 and c.shape == (2,) and c[0] > 1.4")
    assert session.run().stack()[-1].run == "(iteration 1 of 3) (lane 1 of 4)"
    assert session.in_lane().variables()["c"].shape == (4, 2)
    out = io.StringIO()
    Prompt(session, io.StringIO("lane 2\nc\nlane *\nlane 9\nq\n"), out).cmdloop()
    assert "(lane 2 of 4)" in out.getvalue()
    assert "(4 lanes)" in out.getvalue()
    assert "no such lane" in out.getvalue()


def test_a_value_of_one_lane_is_set() -> None:
    ws, xs = jnp.arange(1.0, 4.0), jnp.arange(8.0).reshape(2, 4)
    session = debug(scaled_lanes)(ws, xs)
    session.break_at(SCALED + 2)
    session.run().in_lane(2).set("half", jnp.zeros(2))
    whole = session.in_lane().variables()["half"]
    np.testing.assert_array_equal(whole, xs.at[:, 2].set(0.0))
    edited = xs.at[:, 2].set(0.0)
    np.testing.assert_allclose(session.finish(), scaled_lanes(ws, edited), rtol=1e-6)


def test_lanes_within_batches_are_chosen_one_by_one() -> None:
    def inner(x, y):
        z = x * y
        return jnp.sin(z)

    def outer(x, ys):
        w = x + 1
        return pl.vmap(inner, (None, 0))(w, ys)

    xs, ys = jnp.arange(3.0), jnp.arange(2.0) + 5
    session = debug(lambda xs, ys: pl.vmap(outer, (0, None))(xs, ys))(xs, ys)
    session.break_at(inner.__code__.co_firstlineno + 2)
    assert session.run().stack()[-1].run == "(3 × 2 lanes)"
    assert session.in_lane(None, 1).stack()[-1].run == "(3 lanes, lane 1 of 2)"
    np.testing.assert_array_equal(session.variables()["z"], (xs + 1) * 6)
    assert float(session.in_lane(2, 1).variables()["z"]) == 18.0
    outer_frame = next(i for i, f in enumerate(session.stack()) if f.function.endswith("outer"))
    assert float(session.variables(outer_frame)["w"]) == 3.0


def test_conditions() -> None:
    f = lambda x: jnp.exp(x * 10) - 1
    assert find(f, isnan)(1.0) is None
    assert find(f, isinf)(10.0).primitive == "exp"
    assert find(f, exceeds(50))(10).primitive == "mul"
    assert find(lambda x: x + 1, isnan)(1) is None
    with pytest.raises(TypeError, match="must return booleans"):
        find(f, lambda x: x + 1)(1.0)


def test_a_branch_that_isn_t_taken_is_not_searched() -> None:
    f = lambda x: lax.cond(x > 0, jnp.sqrt, lambda x: x - 1, x)
    assert find(f, isnan)(-1.0) is None
    assert (
        find(lambda x: lax.cond(x < 0, jnp.sqrt, lambda x: x - 1, x), isnan)(-1.0).primitive
        == "sqrt"
    )


def test_functions_that_call_python_for_values_are_not_searched() -> None:
    f = lambda x: pl.experimental.io_callback(np.sin, pl.ShapeDtypeStruct((), np.float32), x)
    with pytest.raises(ValueError, match="effects that give values"):
        find(f, isnan)(1.0)


# The prompt -----------------------------------------------------------------------------------------------


def test_a_prompt_takes_the_commands_of_pdb() -> None:
    commands = f"s\nn\nb {D}, w[0, 0] > 0.3\nc\nw\na\np d\np c.shape\nc.ndim\nback\nj 9\nunt {Z}\nreverse\nq\n"
    out = io.StringIO()
    Prompt(debug(loss)(WEIGHTS, X), io.StringIO(commands), out).cmdloop()
    text = out.getvalue()
    assert f"-> {D:4d}  " in text
    assert "(iteration 1 of 3)" in text
    assert "NameError: name 'd' is not defined" in text
    assert "(1, 2)" in text
    assert "no run 9 of `scan`" in text


def test_operands_are_taken_where_in_shardings_bring_them() -> None:
    mesh = pl.make_mesh((8,), ("x",), axis_types=(pl.sharding.AxisType.Auto,))
    sharding = pl.NamedSharding(mesh, pl.P("x"))
    doubled = pl.jit(lambda x, y: x * 2 + y, in_shardings=(sharding, None))
    operands = []
    runner = Runner(lambda call: operands.append(call.placed_operands()), contextlib.nullcontext)
    run_programs_by(runner)
    try:
        doubled(np.arange(16.0, dtype=np.float32), 1.0)
    finally:
        run_programs_by(None, runner)
    [[x, y]] = operands
    assert x.sharding == sharding
    np.testing.assert_array_equal(x, np.arange(16.0))
    assert float(y) == 1.0


def rooted(x):
    y = jnp.sqrt(x)
    carry, ys = lax.scan(lambda c, v: (c + v * c, jnp.log(v)), y[0], y)
    z = lax.cond(x[1] > 0, lambda y: y / y, lambda y: y, y)
    return lax.fori_loop(0, 3, lambda i, c: c * z[i], carry + ys.sum())


def mapped(f):
    mesh = pl.make_mesh((2,), ("data",), axis_types=(pl.sharding.AxisType.Auto,))
    part = pl.shard_map(
        lambda x: pl.vmap(f)(x), mesh=mesh, in_specs=pl.P("data"), out_specs=pl.P("data")
    )
    return lambda x: part(jnp.stack([x, x + 1]))


WAYS = {"plain": lambda f: f, "jit": pl.jit, "grad": pl.grad, "vmap": lambda f: lambda x: pl.vmap(f)(jnp.stack([x, x])), "shard_map": mapped}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_a_session_steps_past_nan_under_debug_nans(way: str) -> None:
    x = jnp.array([-1.0, 0.0, 2.0])

    def seen(session) -> list[str]:
        """Where each step stands, with the variables and operands there; then back, and to the end."""
        texts = []
        while not session.is_done:
            shown = {name: str(value) for name, value in session.variables().items()}
            texts.append(f"{session.stack()[-1]} {shown} {[*map(str, session.operands())]}")
            session.step()
        texts.append(str(session.differences()))
        texts += [str(session.back()) for _ in range(4)]
        names = [*session.variables()]
        texts += [str(session.evaluate(f"jnp.sum({name}) * 2")) for name in names]
        texts.append(str(session.first_difference()))
        session.restart()
        texts.append(f"{session.watch(isnan, 'NaN')} {session.run()}")
        return [*texts, str(session.restart().finish())]

    begin, runs = debug(WAYS[way](rooted)), []
    for is_trapped in (False, True):
        with pl.debug_nans(is_trapped), pl.debug_infs(is_trapped):
            runs.append(seen(begin(x)))
    assert "nan" in runs[0][-1]
    assert runs[0] == runs[1]
