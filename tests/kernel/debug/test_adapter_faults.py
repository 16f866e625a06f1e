"""Interrupts, effects, donated operands and clients that leave, while a program has stopped in JupyterLab's debugger."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from debugged_kernel import DebuggedKernel
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
key = pl.random.key(3)
"""


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


def test_a_kernel_that_is_shut_down_lets_the_program_run_on(debugged: DebuggedKernel) -> None:
    debugged.start()
    debugged.break_at(DEFINE, 8)
    debugged.run("effects(3.0)")
    debugged.stopped()
    debugged.client.shutdown()
    assert debugged.client.get_control_msg(timeout=SECONDS)["content"]["status"] == "ok"
