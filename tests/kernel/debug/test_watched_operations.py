"""A watch stops for whatever runs: operations of cells and of what transforms functions eagerly, at the user's line, with its locals."""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pytest
from rotation import rotating

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid_kernel.debug.breakpoints import Breakpoints
from pellucid_kernel.debug.debug_session import DebugSession
from pellucid_kernel.debug.stops import Stop, Stops


class Seen(NamedTuple):
    """A stop, as somebody who looks at it sees it."""

    line: int
    function: str
    reason: str
    variables: dict[str, Any]
    operands: list[Any]
    callers: list[int]
    thread: int


@contextlib.contextmanager
def watching(text: str) -> Iterator[list[Seen]]:
    """Everything stops at values of which `text` holds, and goes on at once; gives the stops."""
    seen: list[Seen] = []

    def publish(stop: Stop, reason: str | None) -> None:
        if reason is None:
            return
        session = stop.session
        frame = session.stack()[-1]
        seen.append(
            Seen(
                frame.line, frame.function, session.reason, session.variables(), session.operands(),
                [each.f_lineno for each in stop.callers], threading.get_ident(),
            )
        )  # fmt: skip
        stop.go("continue", DebugSession.run)

    breakpoints = Breakpoints()
    breakpoints.watched = text
    said: list[str] = []
    stops = Stops(breakpoints, publish, said.append, said.append)
    stops.update()
    try:
        yield seen
    finally:
        stops.end()
    assert not said


# Functions, each with a line at which the first NaN is made ---------------------------------------------------


def called(x):
    y = x * 2
    return inner(y) + 1


def inner(y):
    z = y + 0
    z = jnp.log(z)  # here
    return z * 3


def operator(x):
    y = x + 2
    y = (y - y) / (y - y)  # here
    return y.sum() * 2


def composed(x):
    y = x * x
    return jnp.std(y) + jnp.linalg.norm(jnp.log(x))  # here


def unrolled(x):
    y = x
    for i in range(3):
        y = jnp.sqrt(y - i)  # here
    return y.sum()


def listed(x):
    parts = [x, x + 1]
    parts = [jnp.log(part) for part in parts]  # here
    return parts[0] + parts[1]


def scanned(x):
    def body(c, v):
        w = jnp.log(x[0] - v)  # here
        return c + w, w

    return lax.scan(body, 0.0, jnp.arange(3.0))[0]


def branched(x):
    def logarithm(y):
        return jnp.log(y)  # here

    return lax.cond(True, logarithm, jnp.sin, x).sum()


def repeated(x):
    def body(i, c):
        return c + jnp.log(c - 5)  # here

    return lax.fori_loop(0, 2, body, x).sum()


def saved(x):
    @pl.checkpoint
    def block(y):
        y = y * 2
        return jnp.log(y)  # here

    return block(x).sum()


def jitted(x):
    @pl.jit
    def block(y):
        y = y * 2
        return jnp.log(y)  # here

    return block(x).sum()


@pl.custom_jvp
def with_forward_rule(x):
    return jnp.log(x)  # here


with_forward_rule.defjvps(lambda t, result, x: t / x)


def forward_rule(x):
    return with_forward_rule(x * 2).sum()


def batched(x):
    return pl.vmap(lambda v: jnp.log(v) + 1)(x).sum()  # here


FUNCTIONS = [
    called, operator, composed, unrolled, listed, scanned, branched, repeated, saved, jitted, forward_rule, batched,
]  # fmt: skip
X = jnp.array([-1.0, -2.0])


def total(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: f(x).sum()


WAYS: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "eager": lambda f: f(X),
    "jit": lambda f: pl.jit(f)(X),
    "compiled ahead": lambda f: pl.jit(f).lower(X).compile()(X),
    "grad": lambda f: pl.grad(total(f))(X),
    "vjp": lambda f: pl.vjp(total(f), X)[1](1.0),
    "jvp": lambda f: pl.jvp(f, (X,), (X,)),
    "linearize": lambda f: pl.linearize(f, X)[1](X),
    "vmap": lambda f: pl.vmap(f)(jnp.stack([X, X])),
    "vmap of vmap": lambda f: pl.vmap(pl.vmap(f))(jnp.stack([X, X])[None]),
    "vmap of grad": lambda f: pl.vmap(pl.grad(total(f)))(jnp.stack([X, X])),
    "grad of vmap": lambda f: pl.grad(total(pl.vmap(f)))(jnp.stack([X, X])),
    "grad of jit": lambda f: pl.grad(pl.jit(total(f)))(X),
    "jit of grad": lambda f: pl.jit(pl.grad(total(f)))(X),
    "vmap of jit of grad": lambda f: pl.vmap(pl.jit(pl.grad(total(f))))(jnp.stack([X, X])),
    "map": lambda f: lax.map(f, jnp.stack([X, X])),
    "checkpoint": lambda f: pl.checkpoint(f)(X),
    "grad of checkpoint": lambda f: pl.grad(pl.checkpoint(total(f)))(X),
    "cond": lambda f: lax.cond(True, f, f, X),
    "second derivative": lambda f: pl.jvp(pl.grad(total(f)), (X,), (X,)),
    "in a thread": lambda f: _in_thread(lambda: f(X)),
}


def _in_thread(run: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


def line_of(function: Callable[..., Any]) -> int:
    """The line of a function, or of one that it calls, that is marked."""
    of_rule = with_forward_rule.__wrapped__
    marked = {called: inner, forward_rule: of_rule}.get(function, function)
    lines, first = inspect.getsourcelines(marked)
    [number] = [i for i, text in enumerate(lines) if "# here" in text]
    return first + number


CASES = [(function, way) for function in FUNCTIONS for way in WAYS]


@pytest.mark.parametrize(("function", "way"), rotating(CASES, lambda case: case[1]))
def test_whatever_runs_a_function_stops_at_the_line_that_makes_the_first_value(
    function, way: str
) -> None:
    before = WAYS[way](function)
    with watching("isnan") as seen:
        watched = WAYS[way](function)
    assert [each.line for each in seen[:1]] == [line_of(function)]
    assert "NaN" in seen[0].reason
    for ours, theirs in zip(pl.tree.leaves(watched), pl.tree.leaves(before), strict=True):
        np.testing.assert_array_equal(ours, theirs)


# Backward passes ----------------------------------------------------------------------------------------------


def root(x):
    y = x * 2
    z = jnp.sqrt(y)
    return (z * 3).sum()


BACKWARD = {
    "grad": lambda: pl.grad(root)(ZERO),
    "vjp": lambda: pl.vjp(root, ZERO)[1](1.0),
    "jit of grad": lambda: pl.jit(pl.grad(root))(ZERO),
    "grad of jit": lambda: pl.grad(pl.jit(root))(ZERO),
    "grad of vmap": lambda: pl.grad(lambda x: pl.vmap(root)(x).sum())(ZERO[None]),
    "vmap of grad": lambda: pl.vmap(pl.grad(root))(ZERO[None]),
    "grad of checkpoint": lambda: pl.grad(pl.checkpoint(root))(ZERO),
    "jacrev": lambda: pl.jacrev(root)(ZERO),
}
ZERO = jnp.zeros(2)


@pytest.mark.parametrize("way", BACKWARD)
def test_a_backward_pass_stops_at_the_line_of_the_forward_pass(way: str) -> None:
    with watching("isinf") as seen:
        BACKWARD[way]()
    assert [each.line for each in seen[:1]] == [root.__code__.co_firstlineno + 2]
    assert seen[0].function == "root"


def test_the_rule_of_a_user_stops_at_its_own_line() -> None:
    @pl.custom_vjp
    def same(x):
        return x

    def backward(residual, cotangent):
        scaled = cotangent * 2
        return (scaled * jnp.log(residual),)

    same.defvjp(lambda x: (x, x), backward)
    with watching("isnan") as seen:
        pl.grad(lambda x: same(x).sum())(X)
    [stop] = seen
    assert stop.line == backward.__code__.co_firstlineno + 2
    assert [*stop.variables] == ["residual", "cotangent", "scaled"]


# What a stop shows --------------------------------------------------------------------------------------------


def test_a_stop_shows_the_locals_the_operands_and_the_callers() -> None:
    with watching("isnan") as seen:
        called(X)
    [stop] = seen
    here = inspect.currentframe().f_lineno - 2
    assert (stop.function, stop.line) == ("inner", line_of(called))
    assert stop.reason == "`log` gives a value with NaN: 2 of 2 elements, first at index (0,)"
    np.testing.assert_array_equal(stop.variables["y"], X * 2)
    np.testing.assert_array_equal(stop.variables["z"], X * 2)
    np.testing.assert_array_equal(stop.operands[0], X * 2)
    assert stop.callers[:2] == [called.__code__.co_firstlineno + 2, here]


def test_a_stop_in_a_batch_says_which_lane_and_shows_it() -> None:
    batch = jnp.array([[1.0, 2.0], [3.0, -4.0], [5.0, 6.0]])
    lanes: list[Any] = []

    def publish(stop: Stop, reason: str | None) -> None:
        if reason is not None:
            session = stop.session
            lanes.append((session.reason, session.batch_sizes()))
            session.in_lane(1)
            lanes.append([session.variables()["y"], session.operands()[0]])
            stop.go("continue", DebugSession.run)

    breakpoints = Breakpoints()
    breakpoints.watched = "isnan"
    stops = Stops(breakpoints, publish, print, print)
    stops.update()
    try:
        pl.vmap(inner)(batch)
        # Along another dimension than the first.
        pl.vmap(inner, 1)(batch.T)
    finally:
        stops.end()
    for i, element in enumerate([(1, 1), (1, 1)]):
        reason, sizes = lanes[2 * i]
        assert f"lane 1 of 3: 1 of 6 elements, first at index {element}" in reason
        assert sizes == [3]
        for value in lanes[2 * i + 1]:
            np.testing.assert_array_equal(value, [3.0, -4.0])


def test_a_stop_within_batches_of_batches_says_the_lanes_of_both() -> None:
    x = jnp.ones((2, 3, 4)).at[1, 2, 3].set(-1.0)
    with watching("isnan") as seen:
        pl.vmap(pl.vmap(inner, 1), 0)(x)
    assert "lane 1 of 2, lane 3 of 4: 1 of 24 elements" in seen[0].reason


def test_operations_over_a_mesh_and_shard_map_stop() -> None:
    mesh = pl.make_mesh((4,), ("x",), axis_types=(pl.sharding.AxisType.Auto,))
    x = pl.device_put(jnp.array([1.0, 2.0, -3.0, 4.0]), pl.NamedSharding(mesh, pl.P("x")))
    with watching("isnan") as seen:
        inner(x)
        pl.shard_map(inner, mesh=mesh, in_specs=pl.P("x"), out_specs=pl.P("x"))(x)
    assert [each.line for each in seen] == [line_of(called)] * 2
    assert "first at index (2,)" in seen[0].reason
    assert seen[0].operands[0].sharding == x.sharding


def test_the_thread_that_runs_an_operation_stops() -> None:
    with watching("isnan") as seen, ThreadPoolExecutor(1) as pool:
        thread = pool.submit(lambda: (inner(X), threading.get_ident())[1]).result()
        [*pool.map(jnp.log, [X])]
    assert [each.thread for each in seen] == [thread] * 2
    assert seen[1].line == 0  # no line of the user


@pytest.mark.parametrize("text", ["isnan", "isinf", "abs(x).max() > limit", "x.sum() < local"])
def test_conditions_of_the_users_names_hold_for_operations(text: str) -> None:
    local = -5.0
    with watching(text) as seen:
        (X * 1e38) * 1e38 * 0 + local  # -inf, then NaN
    assert len(seen) == 1
    assert text.removeprefix("is")[:3].lower() in seen[0].reason.lower()


limit = 3e38


# When it stops ------------------------------------------------------------------------------------------------


def test_what_comes_from_a_value_that_was_shown_stops_no_more() -> None:
    doubled = pl.jit(lambda x: x * 2)
    with watching("isnan") as seen:
        bad = jnp.log(X)
        worse = doubled(bad) + 1
        worse.sum()
        doubled(X)
        jnp.log(X)
    assert len(seen) == 2


def test_data_stop_the_first_operation_that_takes_them() -> None:
    with watching("isnan") as seen:
        x = jnp.array([1.0, np.nan])
        jnp.full((3,), jnp.nan)
        jnp.zeros(2) + x
    assert [each.reason.partition(" gives")[0] for each in seen] == ["`add`"]


def test_references_hold_values_that_were_shown() -> None:
    ref = pl.new_ref(jnp.ones(2))
    with watching("isnan") as seen:
        ref[...] = jnp.log(X)
        ref[...] + 1
        read = pl.new_ref(jnp.array([1.0, np.nan]))
        read[...] * 2
        read[1] += 1
    assert [each.reason.partition(" gives")[0] for each in seen] == [
        "`log`",
        "`multiply`",
        "`read`",
    ]


def test_a_jitted_function_of_the_library_stops_at_the_line_that_calls_it() -> None:
    """And not at the one that called it first, which its program knows."""
    root = pl.jit(jnp.sqrt)
    root(jnp.ones(2))
    with watching("isnan") as seen:
        root(X)
    line = inspect.currentframe().f_lineno - 1  # pyright: ignore[reportOptionalMemberAccess]
    assert [(each.line, each.reason.partition(" gives")[0]) for each in seen] == [(line, "`sqrt`")]


def test_a_callback_that_gives_a_value_stops_once_and_is_called_once() -> None:
    calls: list[int] = []

    def logarithm(x):
        calls.append(1)
        return np.full_like(x, np.nan)

    with watching("isnan") as seen:
        pl.pure_callback(logarithm, pl.ShapeDtypeStruct((2,), "float32"), X)
    assert len(seen) == len(calls) == 1
    assert seen[0].reason.startswith("`pure_callback` gives a value with NaN")


def test_operations_of_a_callback_of_a_program_that_has_stopped_run_on() -> None:
    """It has to end, as the program that has stopped waits for it."""

    def computing(x):
        return np.asarray(jnp.log(jnp.asarray(x)))

    @pl.jit
    def calling(x):
        y = jnp.log(x)
        return y + pl.pure_callback(computing, pl.ShapeDtypeStruct((2,), "float32"), x)

    reasons: list[str] = []

    def publish(stop: Stop, reason: str | None) -> None:
        if reason is not None:
            reasons.append(stop.session.reason)
            stop.go("next", DebugSession.next)

    breakpoints = Breakpoints()
    breakpoints.watched = "isnan"
    stops = Stops(breakpoints, publish, print, print)
    stops.update()
    try:
        assert np.isnan(calling(X)).all()
    finally:
        stops.end()
    assert reasons


def test_an_error_of_an_operation_is_the_one_without_a_watch() -> None:
    def failing(x):
        return x @ jnp.ones((3, 4, 5))[0].T

    errors = []
    for watch in (contextlib.nullcontext(), watching("isnan")):
        with watch, pytest.raises(pl.errors.ShapeError) as raised:
            failing(X)
        errors.append(str(raised.value))
    assert errors[0] == errors[1]


def test_a_condition_that_raises_stops_nothing_and_is_said_once() -> None:
    said: list[str] = []
    breakpoints = Breakpoints()
    breakpoints.watched = "no_such_name > x"
    stops = Stops(breakpoints, lambda stop, reason: None, said.append, print)
    stops.update()
    try:
        for _ in range(3):
            jnp.sin(X)
    finally:
        stops.end()
    assert said == [
        "`sin` runs without the watch for `no_such_name > x`: NameError: name 'no_such_name' is not defined"
    ]


@pytest.mark.parametrize(
    "setting", ["transfer_guard", "debug_nans", "numpy_rank_promotion", "no_execution"]
)
def test_settings_of_the_user_forbid_nothing_to_a_watch(setting: str) -> None:
    values = {"transfer_guard": "disallow", "numpy_rank_promotion": "raise"}
    refusals = pl.errors.NonFiniteError, pl.errors.ForbiddenError
    with (
        getattr(pl, setting)(values.get(setting, True)), watching("isnan") as seen,
        contextlib.suppress(*refusals),
    ):  # fmt: skip
        jnp.log(X)
    assert len(seen) == (setting != "no_execution")


def test_nothing_is_looked_at_without_a_watch() -> None:
    """C++ runs operations then, also while breakpoints are set."""
    breakpoints = Breakpoints()
    breakpoints.set(__file__, [{"line": 1}])
    stops = Stops(breakpoints, print, print, print)
    looked: list[Any] = []
    stops.look = looked.append
    stops.update()
    try:
        jnp.log(X)
        assert not looked
        breakpoints.watched = "isnan"
        stops.update()
        jnp.log(X)
        assert len(looked) == 1
        breakpoints.watched = ""
        stops.update()
        jnp.log(X)
        assert len(looked) == 1
    finally:
        stops.end()
