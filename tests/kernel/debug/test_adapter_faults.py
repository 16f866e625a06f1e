"""Interrupts, effects, donated operands and clients that leave, while a program has stopped in JupyterLab's debugger."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from debugged_kernel import DebuggedKernel
from jupyter_client.blocking.client import BlockingKernelClient
from running_kernel import SECONDS, kernel, run

DEFINE = """\
import numpy as np, pellucid as pl, pellucid.numpy as jnp
calls = []

@pl.jit
def effects(x):
    y = x + 1
    pl.debug.callback(lambda v: calls.append(float(v)), y, ordered=True)
    z = y * 2
    return z

def scaled(x, key):
    y = pl.random.normal(key, x.shape)
    return x * y

@pl.jit
def stopping(x):
    y = x + 1
    pl.debug.breakpoint()
    return y * 2

donating = pl.jit(scaled, donate_argnums=0)

def halved(v):
    w = v / 2
    return w

def smaller(v):
    w = v - 1
    return w

@pl.jit
def long(x):
    for _ in range(20):
        y = jnp.sin(x)
        x = x + y / 8
    z = x.sum()
    return z

key = pl.random.key(3)
"""

HALVED, SMALLER, Z = (
    DEFINE.split("\n").index(text) + 1
    for text in ("    w = v / 2", "    w = v - 1", "    z = x.sum()")
)


@pytest.fixture(scope="module")
def debugged() -> Iterator[DebuggedKernel]:
    with kernel() as (manager, client):
        debugged = DebuggedKernel(client)
        debugged.manager = manager
        run(client, DEFINE)
        debugged.start()
        yield debugged


def test_effects_happen_once_however_often_one_goes_back(debugged: DebuggedKernel) -> None:
    debugged.break_at(DEFINE, 8)
    debugged.run("print(float(effects(1.0)), calls)")
    assert debugged.stopped()[0]["line"] == 8
    debugged.go("stepBack")
    debugged.go("stepBack")
    assert debugged.go("continue")[0]["line"] == 8
    assert debugged.finish() == "4.0 [2.0]\n"
    debugged.break_at(DEFINE)


def test_a_breakpoint_in_code_stops_where_the_debugger_is_on(debugged: DebuggedKernel) -> None:
    debugged.run("float(stopping(1.0))")
    [frame] = [each for each in debugged.stopped() if each["name"] == "stopping"]
    assert frame["line"] == 18
    assert {"x", "y"} == set(debugged.variables(frame))
    assert debugged.finish() == "4.0"


def test_donated_operands_and_keys_give_the_compiled_results(debugged: DebuggedKernel) -> None:
    code = "x = jnp.ones(1000)\nprint(donating(x, key).tobytes().hex()[-64:], x.is_deleted())"
    plain = run(debugged.client, code)["stdout"]
    debugged.break_at(DEFINE, 13)
    debugged.run(code)
    frames = debugged.stopped()
    assert frames[0]["line"] == 13
    assert {"x", "y", "key"} == set(debugged.variables(frames[0]))
    assert debugged.finish() == plain
    debugged.break_at(DEFINE)


def test_loops_and_branches_that_run_as_operations_are_stopped_in(debugged: DebuggedKernel) -> None:
    code = "a = pl.lax.while_loop(lambda v: v > 1.0, halved, 4.0)\nfloat(pl.lax.cond(a > 0, smaller, halved, a))"
    plain = run(debugged.client, code)["result"]
    debugged.break_at(DEFINE, HALVED, SMALLER)
    debugged.run(code)
    names = [debugged.stopped()[0]["name"]]
    names += [debugged.go("continue")[0]["name"] for _ in range(2)]
    assert names == ["halved (iteration 0)", "halved (iteration 1)", "smaller"]
    assert debugged.finish() == plain
    debugged.break_at(DEFINE)


def test_a_condition_that_raises_stops_and_says_so(debugged: DebuggedKernel) -> None:
    debugged.break_at(DEFINE, SMALLER, condition="v.nonsense > 1")
    debugged.run("float(pl.jit(smaller)(4.0))")
    body = debugged.until("stopped")
    assert "raised AttributeError" in body["text"]
    assert debugged.frames(body["threadId"])[0]["line"] == SMALLER
    assert debugged.finish() == "3.0"
    debugged.break_at(DEFINE)


def test_values_beyond_the_budget_are_computed_again(debugged: DebuggedKernel) -> None:
    debugged.body("pellucid/settings", budget=50_000)
    debugged.break_at(DEFINE, Z)
    debugged.run("x = jnp.linspace(0.5, 1.0, 1000)\nfloat(long(x))")  # 40 values of 4,000 bytes
    debugged.stopped()
    debugged.go("stepBack")  # to the line of `for`, which ends the loop
    frames = debugged.go("stepBack")
    facts = debugged.variables(frames[0], 2)
    number, unit = facts["kept"]["value"].strip("'").split()
    assert unit == "KiB"
    assert float(number) < 50_000 / 1024
    check = debugged.body(
        "evaluate",
        expression="bool(jnp.allclose(y, jnp.sin(x)) and x.max() > 1)",
        frameId=frames[0]["id"],
    )
    assert check["result"] == "True"
    debugged.break_at(DEFINE)
    result = debugged.finish()
    assert result == run(debugged.client, "float(long(x))")["result"]
    assert debugged.body("pellucid/breakpoints")["settings"]["budget"] == 50_000
    assert "above 0" in debugged.request("pellucid/settings", budget=0)["message"]
    debugged.body("pellucid/settings")
    assert debugged.body("pellucid/breakpoints")["settings"]["budget"] == 1 << 30


def failure_of(debugged: DebuggedKernel, code: str) -> int:
    """The number of the error that a cell shows."""
    numbers: list[int] = []

    def collect(message) -> None:
        if message["msg_type"] == "display_data":
            numbers.append(message["content"]["metadata"]["pellucid"]["failure"])

    debugged.client.execute_interactive(code, output_hook=collect, timeout=SECONDS)
    [number] = numbers
    return number


def stop_at_failure(debugged: DebuggedKernel, number: int) -> None:
    code = f"print(get_ipython().kernel.debugger.stop_at_failure({number}))"
    debugged.cell = debugged.client.execute(code, store_history=False)
    debugged.text = ""


def test_an_error_is_opened_where_it_was_raised(debugged: DebuggedKernel) -> None:
    code = (
        "import numpy as np\n"
        "@pl.jit\n"
        "def failing(x):\n"
        "    y = x + 1\n"
        "    z = pl.pure_callback(lambda v: np.float32('one'), y, y)\n"
        "    return z * 2\n"
        "failing(np.float32(1.0))"
    )
    failed = failure_of(debugged, code)
    trapped = failure_of(
        debugged,
        "@pl.jit\ndef rooted(x):\n    y = x - 1\n    return jnp.sqrt(y) * 2\n"
        "with pl.debug_nans(True):\n    rooted(0.0)",
    )
    stop_at_failure(debugged, failed)
    debugged.until("idle")
    assert "another error was shown since" in debugged.text
    stop_at_failure(debugged, trapped)
    body = debugged.until("stopped")
    [frame] = debugged.frames(body["threadId"])
    assert (body["reason"], frame["name"], frame["line"]) == ("exception", "rooted", 4)
    assert debugged.variables(frame)["y"]["value"] == "-1.0"
    assert debugged.go("stepBack")[0]["line"] == 3
    assert debugged.finish().strip() == ""
    stop_at_failure(debugged, failure_of(debugged, code))
    assert debugged.stopped()[0]["line"] == 5
    assert debugged.finish().strip() == ""
    checked = (
        "from pellucid.experimental import checkify\n"
        "def bounded(x):\n"
        "    y = x - 1\n"
        "    checkify.check(y > 0, '{} is too small', y)\n"
        "    return y * 2\n"
        "x = jnp.float32(0.5)\n"
        "for _ in range(3):\n"
        "    error, _ = pl.jit(checkify.checkify(bounded))(x)\n"
        "error.throw()"
    )
    stop_at_failure(debugged, failure_of(debugged, checked))
    [frame] = debugged.stopped()
    assert (frame["name"], frame["line"]) == ("bounded", 4)
    assert debugged.variables(frame)["y"]["value"] == "-0.5"
    assert debugged.finish().strip() == ""


def test_a_cell_that_is_run_again_while_stopped_waits_and_stops_too(
    debugged: DebuggedKernel,
) -> None:
    debugged.break_at(DEFINE, 8)
    debugged.run("float(effects(1.0))")
    debugged.stopped()
    debugged.run("float(effects(1.0)) + 1")
    assert debugged.go("continue")[0]["line"] == 8
    assert debugged.finish() == "5.0"
    debugged.break_at(DEFINE)


def test_a_cell_with_other_text_leaves_the_breakpoints_of_the_program_that_was_traced(
    debugged: DebuggedKernel,
) -> None:
    changed = DEFINE.replace("w = v - 1", "w = v - 2")
    debugged.break_at(DEFINE, SMALLER)
    path = debugged.break_at(changed, SMALLER)
    debugged.run("float(pl.jit(smaller)(4.0))")
    frames = debugged.stopped()
    assert frames[0]["source"]["path"] == debugged.path(DEFINE)
    [listed] = [
        b for b in debugged.body("pellucid/breakpoints")["breakpoints"] if b["path"] == path
    ]
    assert "the text has changed" in listed["message"]
    assert debugged.finish() == "3.0"
    run(debugged.client, changed)
    debugged.run("float(pl.jit(smaller)(4.0))")
    assert debugged.stopped()[0]["source"]["path"] == path
    assert debugged.finish() == "2.0"
    debugged.break_at(changed)
    debugged.break_at(DEFINE)
    run(debugged.client, DEFINE)


def test_a_module_that_changed_on_disk_stops_where_it_was_traced(
    debugged: DebuggedKernel, tmp_path: Path
) -> None:
    module = tmp_path / "scales.py"
    module.write_text("def scale(x):\n    y = x * 2\n    return y + 1\n")
    define = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport scales\nscale = pl.jit(scales.scale)\nfloat(scale(1.0))"
    assert run(debugged.client, define)["result"] == "3.0"
    module.write_text(
        "def added(x):\n    return x\n\ndef scale(x):\n    y = x * 4\n    return y + 1\n"
    )
    source = {"path": str(module)}
    debugged.body("setBreakpoints", source=source, breakpoints=[{"line": 2}, {"line": 5}])
    moved, beyond = [
        b for b in debugged.body("pellucid/breakpoints")["breakpoints"] if b["path"] == str(module)
    ]
    assert moved["verified"]
    assert "changed" in moved["message"]
    assert not beyond["verified"]
    assert "changed" in beyond["message"]
    debugged.run("float(scale(1.0))")
    assert debugged.stopped()[0]["line"] == 2
    assert debugged.finish() == "3.0"
    # Traced again, it has the lines of the file.
    debugged.run("import importlib\nfloat(pl.jit(importlib.reload(scales).scale)(1.0))")
    assert debugged.stopped()[0]["line"] == 5
    assert debugged.finish() == "5.0"
    debugged.body("setBreakpoints", source=source, breakpoints=[])


def test_a_second_client_sees_the_stop_and_may_go_on(debugged: DebuggedKernel) -> None:
    debugged.break_at(DEFINE, 8)
    debugged.run("float(effects(1.0))")
    debugged.stopped()
    client = BlockingKernelClient(connection_file=debugged.manager.connection_file)
    client.load_connection_file()
    client.start_channels()
    try:
        second = DebuggedKernel(client)
        assert second.body("debugInfo")["stoppedThreads"] == [1 << 20]
        # A front end that finds the debugger on restores its state from here, in place of a second attachment.
        assert second.body("debugInfo")["isStarted"]
        assert not second.request("attach")["success"]
        [frame, *_] = second.frames(1 << 20)
        assert frame["line"] == 8
        assert second.variables(frame)["y"]["value"] == "2.0"
        second.body("continue", threadId=1)
        debugged.until("idle")
        assert debugged.text == "4.0"
    finally:
        client.stop_channels()
    debugged.break_at(DEFINE)


def test_an_interrupt_ends_the_stop(debugged: DebuggedKernel) -> None:
    debugged.break_at(DEFINE, 8)
    debugged.run("effects(1.0)")
    debugged.stopped()
    debugged.manager.interrupt_kernel()
    debugged.until("continued")
    debugged.until("idle")
    assert "KeyboardInterrupt" in debugged.text
    assert debugged.body("debugInfo")["stoppedThreads"] == []
    debugged.run("float(effects(2.0))")  # run again
    debugged.stopped()
    assert debugged.finish() == "6.0"


def test_a_client_that_leaves_lets_the_cell_end(debugged: DebuggedKernel) -> None:
    debugged.break_at(DEFINE, 8)
    debugged.run("float(effects(3.0)), float(effects(4.0))")
    debugged.stopped()
    debugged.body("disconnect", restart=False, terminateDebuggee=False)
    debugged.until("idle")
    assert debugged.text == "(8.0, 10.0)"
    # Switched on again, the debugger stops in Python and in programs as before, and leaves both.
    code = "x = 3.0\ny = float(effects(x))\ny"
    debugged.start()
    debugged.break_at(DEFINE, 8)
    debugged.break_at(code, 2)
    debugged.run(code)
    assert debugged.stopped()[0]["line"] == 2
    assert [frame["line"] for frame in debugged.go("continue")] == [8, 2]
    debugged.body("disconnect", restart=False, terminateDebuggee=False)
    debugged.until("idle")
    assert debugged.text == "8.0"
    debugged.start()
    debugged.break_at(code, 2)
    debugged.run(code)
    assert debugged.stopped()[0]["line"] == 2
    debugged.body("disconnect", restart=False, terminateDebuggee=False)
    debugged.until("idle")
    assert debugged.text == "8.0"


def test_a_kernel_that_is_restarted_while_stopped_begins_anew(debugged: DebuggedKernel) -> None:
    debugged.start()
    debugged.break_at(DEFINE, 8)
    debugged.run("effects(3.0)")
    debugged.stopped()
    debugged.manager.restart_kernel(now=False)
    debugged.client.wait_for_ready(timeout=SECONDS)
    run(debugged.client, DEFINE)
    assert debugged.body("debugInfo")["stoppedThreads"] == []
    debugged.start()
    debugged.break_at(DEFINE, 8)
    debugged.run("float(effects(5.0)), calls")
    debugged.stopped()
    assert debugged.finish() == "(12.0, [6.0])"


def test_a_kernel_that_is_shut_down_lets_the_program_run_on(debugged: DebuggedKernel) -> None:
    debugged.break_at(DEFINE, 8)
    debugged.run("effects(3.0)")
    debugged.stopped()
    debugged.client.shutdown()
    assert debugged.client.get_control_msg(timeout=SECONDS)["content"]["status"] == "ok"


def test_a_kernel_without_a_debugger_has_no_variables_of_frames() -> None:
    with kernel() as (_, client):
        debugged = DebuggedKernel(client)
        assert debugged.body("variables", variablesReference=7) == {"variables": []}
        assert debugged.body("scopes", frameId=7) == {"scopes": []}
