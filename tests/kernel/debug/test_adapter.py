"""JupyterLab's debugger in jitted functions, through the messages that JupyterLab sends; no browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from debugged_kernel import DebuggedKernel
from running_kernel import kernel, run

DEFINE = """\
import pellucid as pl, pellucid.numpy as jnp
from pellucid import lax

def layer(w, c):
    h = c * w
    return jnp.tanh(h)

@pl.jit
def loss(ws, x):
    # nothing is computed here
    y = x * 2
    def body(c, w):
        c = layer(w, c)
        d = c + 1
        return d, d.sum()
    out, sums = lax.scan(body, y, ws)
    z = out.mean()
    return z + sums.sum()

grad = pl.jit(pl.grad(loss))
ws, x = jnp.arange(20.0), jnp.ones(3)
"""
COMMENT, Y, LAYER, D, SCAN, Z = 10, 11, 13, 14, 16, 17
CALL = "before = 1\nvalue = loss(ws, x)\nafter = 2\nfloat(value)"


@pytest.fixture(scope="module")
def debugged() -> Iterator[DebuggedKernel]:
    with kernel() as (_, client):
        debugged = DebuggedKernel(client)
        run(client, DEFINE)
        debugged.plain = run(client, CALL)["result"]
        debugged.capabilities = debugged.start()
        yield debugged


@pytest.fixture(autouse=True)
def no_breakpoints(debugged: DebuggedKernel) -> Iterator[None]:
    yield
    debugged.break_at(DEFINE)
    debugged.break_at(CALL)
    debugged.body("pellucid/watch", condition=None)


def lines(frames):
    return [frame["line"] for frame in frames]


def test_a_breakpoint_stops_in_a_program_that_was_compiled_before(debugged: DebuggedKernel) -> None:
    assert debugged.capabilities["supportsStepBack"]
    path = debugged.break_at(DEFINE, Y)
    debugged.run(CALL)
    frames = debugged.stopped()
    assert lines(frames) == [Y, 2]
    assert frames[0]["name"] == "loss"
    assert frames[0]["source"]["path"] == path
    assert set(debugged.variables(frames[0])) == {"ws", "x"}
    assert debugged.body("debugInfo")["stoppedThreads"] == [1 << 20]
    assert lines(debugged.go("next")) == [SCAN, 2]
    frames = debugged.go("stepIn")
    assert lines(frames) == [LAYER, SCAN, 2]
    assert frames[0]["name"] == "loss.<locals>.body (iteration 0 of 20)"
    assert lines(debugged.go("stepIn")) == [5, LAYER, SCAN, 2]
    assert lines(debugged.go("next")) == [6, LAYER, SCAN, 2]
    frames = debugged.go("stepOut")
    assert lines(frames) == [D, SCAN, 2]
    assert debugged.variables(frames[0])["w"]["type"] == "f32[] 0.0"
    assert lines(debugged.go("stepBack")) == [LAYER, SCAN, 2]
    assert debugged.finish() == debugged.plain
    assert debugged.body("debugInfo")["stoppedThreads"] == []


def test_steps_reach_the_line_of_python_behind_the_call(debugged: DebuggedKernel) -> None:
    debugged.break_at(DEFINE, Z)
    debugged.run(CALL)
    assert lines(debugged.stopped()) == [Z, 2]
    assert lines(debugged.go("next")) == [Z + 1, 2]
    assert lines(debugged.go("next"))[0] == 3
    assert debugged.finish() == debugged.plain


def test_a_step_into_from_python_enters_the_program(debugged: DebuggedKernel) -> None:
    debugged.break_at(CALL, 2)
    debugged.run(CALL)
    assert lines(debugged.stopped())[0] == 2
    assert lines(debugged.go("stepIn")) == [Y, 2]
    assert lines(debugged.go("stepOut"))[0] == 3
    assert debugged.finish() == debugged.plain
    debugged.run(CALL)
    assert lines(debugged.stopped())[0] == 2
    assert debugged.finish() == debugged.plain  # the step is over: the program isn't entered again


def test_an_edited_value_is_computed_with_until_one_goes_back(debugged: DebuggedKernel) -> None:
    assert debugged.capabilities["supportsSetVariable"]
    debugged.break_at(DEFINE, SCAN)
    debugged.run(CALL)
    frame = debugged.stopped()[0]
    [values, *_] = debugged.body("scopes", frameId=frame["id"])["scopes"]
    number = values["variablesReference"]
    reply = debugged.body("setVariable", variablesReference=number, name="y", value="y * 0")
    assert reply["type"].startswith("f32[3]")
    reply = debugged.request("setVariable", variablesReference=number, name="y", value="1")
    assert "has the type of its variable `y`, float32[3]" in reply["message"]
    for _ in range(2):
        assert debugged.parts(number)["y"]["type"].endswith("in [0, 0]")
    assert lines(debugged.go("stepBack")) == [Y, 2]
    frames = debugged.go("next")
    y = debugged.body("evaluate", expression="float(y[0])", frameId=frames[0]["id"])
    assert y["result"] == "2.0"
    frame = frames[0]["id"]
    debugged.body("setExpression", expression="y", value="jnp.full(3, jnp.inf)", frameId=frame)
    assert debugged.finish() == "nan"
    [line] = [e["body"]["output"] for e in debugged.events if e["event"] == "output"][-1:]
    assert line.startswith("loss gives results of edited values: y in loss")


def test_a_variable_is_drawn_at_a_slice_and_set_by_its_frame(debugged: DebuggedKernel) -> None:
    debugged.break_at(DEFINE, Z)
    debugged.run(CALL)
    frame = debugged.stopped()[0]["id"]
    standing = debugged.body("pellucid/program", frameId=frame)
    assert {v["name"]: v["type"] for v in standing["variables"]}["sums"] == "f32[20]"
    assert all(v["canSet"] for v in standing["variables"])
    assert (standing["positions"], standing["chosen"]) == ([], None)
    figure = debugged.body("pellucid/figure", frameId=frame, name="out")
    assert (figure["record"]["kind"], figure["leading"]) == ("array_values", [])
    debugged.body("setExpression", frameId=frame, expression="out", value="jnp.full(3, 7.0)")
    figure = debugged.body("pellucid/figure", frameId=frame, name="out", index=[4])
    assert (figure["record"]["low"], figure["record"]["high"]) == (7.0, 7.0)
    rich = debugged.body("richInspectVariables", variableName="out", frameId=frame)
    assert "application/vnd.pellucid.array-values.v1+json" in rich["data"]
    refused = debugged.request("pellucid/figure", frameId=frame, name="nothing")
    assert "NameError" in refused["message"]
    debugged.finish()


def test_an_eager_derivative_is_stopped_in_forwards_and_backwards(debugged: DebuggedKernel) -> None:
    code = "before = 1\nfloat(pl.grad(loss)(ws, x).sum())"
    plain = run(debugged.client, code)["result"]
    debugged.break_at(DEFINE, Z)
    debugged.run(code)
    assert lines(debugged.stopped()) == [Z, 2]
    assert lines(debugged.go("stepBack")) == [SCAN, 2]
    debugged.go("continue")
    frames = debugged.go("continue")
    assert lines(frames) == [Z, 2]
    assert frames[0]["name"] == "loss (backward)"
    assert debugged.finish() == plain


def test_a_loop_that_runs_as_an_operation_is_stopped_in(debugged: DebuggedKernel) -> None:
    code = "def body(c, w):\n    d = c * w\n    return d + 1, d\nfloat(lax.scan(body, x, ws[:3])[0][0])"
    plain = run(debugged.client, code)["result"]
    debugged.break_at(code, 2)
    debugged.run(code)
    [frame, *_] = debugged.stopped()
    assert frame["name"].endswith("body (iteration 0 of 3)")
    for iteration in (1, 2):
        [frame, *_] = debugged.go("continue")
        assert frame["name"].endswith(f"body (iteration {iteration} of 3)")
    assert debugged.finish() == plain


def test_continue_forgets_a_step_of_python(debugged: DebuggedKernel) -> None:
    debugged.break_at(CALL, 1)
    debugged.run(CALL)
    debugged.stopped()
    debugged.go("next")
    assert lines(debugged.go("stepIn")) == [Y, 2]
    assert debugged.finish() == debugged.plain


def test_tracing_does_not_stop(debugged: DebuggedKernel) -> None:
    code = (
        "@pl.jit\n"
        "def traced(x):\n"
        "    y = x + 1\n"
        "    inner = pl.jit(lambda v: v * 2)(y)\n"
        "    return inner - 1\n"
        "def plain(x):\n"
        "    return x + 1\n"
        "float(traced(plain(1.0)))\n"
    )
    debugged.break_at(code, 3, 5, 7)
    debugged.run(code)
    assert lines(debugged.stopped())[0] == 7  # Python
    assert lines(debugged.go("continue")) == [3, 8]
    assert lines(debugged.go("continue")) == [5, 8]
    assert debugged.finish() == "5.0"
    debugged.break_at(code)
    # On request it does, on abstract values.
    code = code.replace("inner - 1", "inner - 2")  # it isn't traced again
    debugged.body("pellucid/settings", stopsInTrace=True)
    debugged.break_at(code, 5)
    debugged.run(code)
    [frame, *_] = debugged.stopped()
    assert (frame["name"], frame["line"]) == ("traced", 5)
    assert "Tracer" in debugged.variables(frame)["inner"]["value"]
    assert lines(debugged.go("continue")) == [5, 8]
    assert debugged.finish() == "4.0"
    debugged.body("pellucid/settings")
    debugged.break_at(code)


def test_breakpoints_move_or_say_why_they_do_not_stop(debugged: DebuggedKernel) -> None:
    path = debugged.break_at(DEFINE, COMMENT, Z + 3)
    other = debugged.break_at(DEFINE.replace("* 2", "* 3"), Y)
    listed = {
        (each["path"], each["line"]): each
        for each in debugged.body("pellucid/breakpoints")["breakpoints"]
    }
    moved = listed[path, COMMENT]
    assert moved["verified"]
    assert moved["actualLine"] == Y
    assert "it stops in line 11" in moved["message"]
    assert not listed[other, Y]["verified"]
    assert "the text has changed" in listed[other, Y]["message"]
    debugged.run(CALL)
    assert lines(debugged.stopped()) == [Y, 2]
    assert debugged.finish() == debugged.plain


def test_conditions_stay_with_lines_that_are_sent_again(debugged: DebuggedKernel) -> None:
    path = debugged.path(DEFINE)
    debugged.body("pellucid/breakpoint", path=path, line=D, condition="w > 3")
    debugged.body("pellucid/breakpoint", path=path, line=Y, logMessage="x is {x.shape}")
    debugged.body("pellucid/breakpoint", path=path, line=Z, condition="1 / 0")
    debugged.break_at(DEFINE, D, Y, Z)
    debugged.run(CALL)
    frames = debugged.stopped()
    assert frames[0]["name"] == "loss.<locals>.body (iteration 4 of 20)"
    debugged.body("pellucid/breakpoint", path=path, line=D, hitCondition="21")
    assert lines(debugged.go("continue")) == [Z, 2]
    outputs = [e["body"]["output"] for e in debugged.events if e["event"] == "output"]
    assert any("ZeroDivisionError" in text for text in outputs)
    for line in (D, Y, Z):
        debugged.body("pellucid/breakpoint", path=path, line=line)
    assert debugged.finish() == f"x is (3,)\n{debugged.plain}"


def test_the_program_is_shown_and_gone_to(debugged: DebuggedKernel) -> None:
    debugged.break_at(DEFINE, LAYER)
    assert not debugged.request("pellucid/program")["success"]
    debugged.run(CALL)
    [_, outer, _] = debugged.stopped()
    shown = debugged.body("pellucid/program")
    assert shown["record"]["kind"] == "program"
    assert shown["equation"] in shown["record"]["equations"]["id"]
    assert shown["iteration"] == {"run": 0, "runs": 20}
    assert shown["path"] == ["loss"]
    assert set(shown["values"].values()) == {"f32[3] in [2, 2]", "f32[] 0.0"}
    assert debugged.body("pellucid/program", version=shown["version"])["unchanged"]
    assert shown["isInnermost"]
    outside = debugged.body("pellucid/program", frameId=outer["id"])
    assert outside["record"]["name"] == "loss"
    assert not outside["isInnermost"]
    debugged.break_at(DEFINE)
    assert not debugged.request("pellucid/goto", iteration=20)["success"]
    debugged.body("pellucid/goto", iteration=17)
    assert debugged.stopped()[0]["name"] == "loss.<locals>.body (iteration 17 of 20)"
    again = debugged.body("pellucid/program", program=shown["program"])
    assert again["iteration"]["run"] == 17
    assert again["record"] is None
    debugged.body("pellucid/goto", position=again["count"] - 1)
    debugged.stopped()
    assert debugged.body("pellucid/program")["position"] == again["count"] - 1
    assert debugged.finish() == debugged.plain


def test_a_function_that_each_run_jits_again_stops(debugged: DebuggedKernel) -> None:
    define = "def halved(x):\n    y = x * 2\n    return y / 4\n"
    call = "float(pl.jit(halved)(jnp.float32(3.0)))"
    run(debugged.client, define)
    assert [run(debugged.client, call)["result"] for _ in range(3)] == ["1.5"] * 3
    for _ in range(2):
        debugged.break_at(define, 3)
        debugged.run(call)
        assert lines(debugged.stopped())[0] == 3
        assert debugged.finish() == "1.5"
        debugged.break_at(define)
        assert [run(debugged.client, call)["result"] for _ in range(2)] == ["1.5"] * 2


def test_a_watch_stops_in_the_backward_pass(debugged: DebuggedKernel) -> None:
    code = (
        "@pl.jit\n"
        "@pl.grad\n"
        "def slope(x):\n"
        "    root = jnp.sqrt(x)\n"
        "    return root * 2\n"
        "float(slope(0.0))\n"
    )
    debugged.body("pellucid/watch", condition="isinf")
    debugged.run(code)
    assert debugged.until("stopped")["reason"] == "data breakpoint"
    [frame, *_] = debugged.frames(1)
    assert frame["line"] == 4
    assert debugged.finish() == "inf"
    debugged.body("pellucid/watch", condition="x > 1e9")
    debugged.run(code)
    debugged.stopped()
    assert debugged.finish() == "inf"
    # One that is set, and taken back, while the program has stopped.
    debugged.body("pellucid/watch", condition="")
    debugged.break_at(code, 4)
    debugged.run(code)
    debugged.stopped()
    debugged.break_at(code)
    debugged.body("pellucid/watch", condition="isinf")
    assert debugged.go("continue")[0]["name"] == "slope (backward)"
    debugged.body("pellucid/watch", condition="")
    debugged.go("stepBack")
    assert debugged.finish() == "inf"


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("float(pl.grad(root)(0.0))", "root"),
        ("float(pl.vmap(pl.grad(root))(jnp.zeros(1))[0])", "root"),
        ("float(pl.jvp(root, (0.0,), (1.0,))[1])", "root"),
        ("float(pl.vjp(root, 0.0)[1](1.0)[0])", "root"),
        ("float(pl.lax.fori_loop(0, 1, lambda i, c: 1 / (c - c), 1.0))", ""),
    ],
)
def test_a_watch_stops_in_whatever_runs(debugged: DebuggedKernel, call: str, name: str) -> None:
    code = f"@pl.jit\ndef root(x):\n    y = jnp.sqrt(x)\n    return y * 2\n{call}\n"
    debugged.body("pellucid/watch", condition="isinf")
    try:
        debugged.run(code)
        assert debugged.until("stopped")["reason"] == "data breakpoint"
        [frame, *_] = debugged.frames(1)
        assert frame["line"] == (3 if name else 5)
        assert debugged.finish() == "inf"
    finally:
        debugged.body("pellucid/watch", condition="")


EAGER = """\
def scale(x):
    y = x * 2
    z = jnp.log(y)
    w = z + 1
    return w

def after(v):
    return v + 1

a = jnp.array([-1.0, 3.0])
b = scale(a)
c = after(b)
"""


@pytest.fixture
def watched(debugged: DebuggedKernel) -> Iterator[DebuggedKernel]:
    debugged.body("pellucid/watch", condition="isnan")
    yield debugged
    debugged.body("pellucid/watch", condition="")


def test_a_watch_stops_at_the_line_of_an_eager_operation(watched: DebuggedKernel) -> None:
    watched.run(EAGER)
    stop = watched.until("stopped")
    assert stop["reason"] == "data breakpoint"
    assert stop["text"] == "`log` gives a value with NaN: 1 of 2 elements, first at index (0,)"
    frames = watched.frames(1)
    assert lines(frames) == [3, 11]
    assert [frame["name"] for frame in frames] == ["scale", "<module>"]
    assert {*watched.variables(frames[0])} == {"x", "y"}
    [operand] = watched.variables(frames[0], 1).values()
    assert operand["type"] == "f32[2] in [-2, 6]"
    assert "a" in watched.variables(frames[1], 1)
    evaluated = watched.body("evaluate", expression="float(y.sum())", frameId=frames[0]["id"])
    assert evaluated["result"] == "4.0"
    program = watched.body("pellucid/program", frameId=frames[0]["id"])
    assert (program["position"], program["count"]) == (0, 1)
    assert not any(each["canSet"] for each in program["variables"])
    assert watched.variables(frames[0], 2)["stopped"]["value"].strip("'") == stop["text"]
    [values, *_] = watched.body("scopes", frameId=frames[0]["id"])["scopes"]
    number = values["variablesReference"]
    reply = watched.request("setVariable", variablesReference=number, name="y", value="y * 0")
    assert "has run, by Python" in reply["message"]
    # Python is at the line, so steps go on from it.
    assert lines(watched.go("next")) == [4, 11]
    assert lines(watched.go("stepOut"))[-1] in (11, 12)
    watched.finish()


@pytest.mark.parametrize(("command", "reached"), [("stepIn", [4, 11]), ("stepOut", [12])])
def test_steps_from_an_eager_operation_go_on_in_python(
    watched: DebuggedKernel, command: str, reached: list[int]
) -> None:
    watched.run(EAGER)
    assert lines(watched.stopped()) == [3, 11]
    assert lines(watched.go(command)) == reached
    watched.finish()


def test_a_step_into_from_an_eager_operation_enters_the_program_that_its_line_calls(
    watched: DebuggedKernel,
) -> None:
    code = "after_all = pl.jit(lambda v: v + 1)\nvalue = after_all(jnp.log(jnp.float32(-1)))\n"
    watched.run(code)
    assert lines(watched.stopped()) == [2]
    assert lines(watched.go("stepIn")) == [1, 2]
    watched.finish()


def test_a_value_that_was_shown_stops_again_in_the_next_cell(watched: DebuggedKernel) -> None:
    watched.run("bad = jnp.log(jnp.float32(-1))\nbad + 1\n")
    assert lines(watched.stopped()) == [1]
    assert watched.finish() == "Array(nan, dtype=float32)"
    watched.run("bad + 1")
    assert lines(watched.stopped()) == [1]
    assert watched.finish() == "Array(nan, dtype=float32)"


def test_expressions_errors_and_rich_views(debugged: DebuggedKernel) -> None:
    debugged.break_at(DEFINE, Z)
    debugged.run(CALL)
    [frame, caller] = debugged.stopped()

    def evaluated(expression, frame=frame):
        return debugged.body("evaluate", expression=expression, frameId=frame["id"], context="repl")

    assert evaluated("(y + 1).sum()")["result"] == "Array(9., dtype=float32)"
    assert "ZeroDivisionError" in evaluated("1 / 0")["result"]
    assert evaluated("before", caller)["result"] == "1"
    assert evaluated("float(loss(ws, x))", caller)["result"] == debugged.plain  # doesn't stop
    variables = debugged.variables(frame)
    parts = debugged.parts(variables["y"]["variablesReference"])
    assert parts["y.max()"]["value"] == "2.0"
    assert parts["y[2]"]["value"] == "2.0"
    rich = debugged.body("richInspectVariables", variableName="y[2]", frameId=0)
    assert "2." in rich["data"]["text/plain"]
    assert not debugged.body("richInspectVariables", variableName="other", frameId=0)["data"]
    debugged.body(
        "copyToGlobals", srcVariableName="y", dstVariableName="copied", srcFrameId=frame["id"]
    )
    assert "position" in debugged.variables(frame, 2)
    assert "operand 0" in debugged.variables(frame, 1)
    assert "ws" in {each["name"] for each in debugged.body("inspectVariables")["variables"]}
    assert debugged.finish() == debugged.plain
    assert run(debugged.client, "copied.shape")["result"] == "(3,)"


def test_a_step_over_the_last_line_of_a_cell_ends_with_the_cell(debugged: DebuggedKernel) -> None:
    last = "value = loss(ws, x)"
    debugged.break_at(DEFINE, Z + 1)
    debugged.run(last)
    assert lines(debugged.stopped()) == [Z + 1, 1]
    debugged.body("next", threadId=1)
    debugged.until("idle")  # fails where it stops in IPython's own code
    debugged.break_at(DEFINE)
    debugged.run("float(value)")
    debugged.until("idle")
    assert debugged.text == debugged.plain


NOTED = """\
def outer(w, h):
    def inner(c):
        z = c * w
        return z + 1
    for _ in range(2):
        h = inner(h)
    return h * 2

fresh = pl.jit(outer)
made = fresh(x, x)"""


def test_programs_traced_with_the_debugger_on_show_the_arguments_of_inner_functions(
    debugged: DebuggedKernel,
) -> None:
    debugged.break_at(NOTED, 3)
    debugged.run(NOTED)
    frames = debugged.stopped()
    assert lines(frames)[:2] == [3, 6]
    assert {"c", "w"} <= debugged.variables(frames[0]).keys()
    assert {"w", "h"} <= debugged.variables(frames[1]).keys()
    assert lines(debugged.go("stepOut"))[0] == 5
    frames = debugged.go("next")
    assert lines(frames)[0] == 6
    assert lines(debugged.go("stepIn"))[:2] == [3, 6]
    assert lines(debugged.go("next"))[:2] == [4, 6]
    debugged.break_at(NOTED)
    debugged.finish()
