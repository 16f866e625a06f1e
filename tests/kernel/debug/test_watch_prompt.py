"""`pl.debugger.watch`: whatever runs in a block stops at a prompt, and steps go on in Python's debugger."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid._machine.compilation import interception

X = jnp.array([-1.0, 3.0])


def scale(x):
    y = x * 2
    z = jnp.log(y)
    w = z + 1
    return after(w)


def after(v):
    u = v + 1
    return u * 2


FIRST = scale.__code__.co_firstlineno


def shown(commands: str, run: Callable[[], Any], condition: Any = "isnan") -> tuple[str, Any]:
    """What a prompt shows while something runs, and what that gives."""
    out = io.StringIO()
    tracing = sys.gettrace()
    try:
        with pl.debugger.watch(condition, stdin=io.StringIO(commands), stdout=out):
            result = run()
    finally:
        sys.settrace(tracing)  # pdb goes on with the thread that it steps through
    return out.getvalue(), result


@pytest.mark.parametrize(
    "condition", ["isnan", pl.debugger.isnan, "(x != x).any()"], ids=["name", "function", "text"]
)
def test_an_eager_operation_stops_at_a_prompt(condition) -> None:
    text, result = shown("p y\na\nw\nc\n", lambda: scale(X), condition)
    assert "`log` gives a value with" in text
    assert f"->{FIRST + 2:5d}      z = jnp.log(y)" in text
    assert "Array([-2.,  6.], dtype=float32)" in text
    assert "y = f32[2] in [-2, 6]" in text
    assert np.isnan(result).sum() == 1
    assert interception.runner is None


def test_up_and_down_go_through_the_callers_in_python() -> None:
    def caller():
        local = 5
        return scale(X), local

    text, _ = shown("u\np local\nd\np y.sum()\nd\nu 100\nc\n", caller)
    assert "(pellucid) 5\n" in text
    assert "Array(4., dtype=float32)" in text
    assert "the innermost frame is shown" in text
    assert "the outermost frame is shown" in text


@pytest.mark.parametrize(
    ("command", "line"), [("n", FIRST + 3), ("s", FIRST + 3), ("r", None)], ids=str
)
def test_steps_go_on_in_pdb(command: str, line: int | None) -> None:
    text, result = shown(f"{command}\np 6 * 7\nc\n", lambda: scale(X))
    _, _, behind = text.partition("gives a value with NaN")
    assert f"({line})scale()" in behind if line else "scale()" not in behind
    assert "(Pdb) 42" in behind
    assert np.isnan(result).sum() == 1


def test_a_program_is_stepped_through_and_then_python() -> None:
    def caller():
        value = pl.jit(scale)(X)
        return value  # noqa: RET504 - a line to stop at

    text, _ = shown("n\nn\ns\nn\nn\nn\nc\n", caller)
    assert "the next operation gives a value with NaN: 1 of 2 elements" in text
    assert f"->{FIRST + 3:5d}" in text
    assert f"->{after.__code__.co_firstlineno + 1:5d}" in text
    assert f"({caller.__code__.co_firstlineno + 2})caller()" in text


def test_quitting_runs_on_without_stops() -> None:
    text, results = shown("q\n", lambda: [scale(X) for _ in range(3)])
    assert text.count("gives a value with") == 1
    assert len(results) == 3


def test_a_watch_within_another_ends_with_its_block() -> None:
    out = io.StringIO()
    with pl.debugger.watch("isinf", stdin=io.StringIO("c\n"), stdout=out):
        shown("c\n", lambda: scale(X))
        1 / jnp.zeros(())
    assert "`divide` gives a value with infinity" in out.getvalue()


def test_watches_end_in_any_order() -> None:
    """As those of threads, and of generators, do."""
    first_out, second_out = io.StringIO(), io.StringIO()
    first = pl.debugger.watch("isnan", stdin=io.StringIO("c\n"), stdout=first_out)
    second = pl.debugger.watch("isinf", stdin=io.StringIO("c\n"), stdout=second_out)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    1 / jnp.zeros(())
    scale(X)
    second.__exit__(None, None, None)
    assert "`divide` gives a value with infinity" in second_out.getvalue()
    assert not first_out.getvalue()
    assert interception.runner is None


def test_what_is_no_condition_is_refused() -> None:
    with pytest.raises(SyntaxError), pl.debugger.watch("x >"):
        pass
    with pytest.raises(pl.errors.ArgumentValueError), pl.debugger.watch(backend="paper"):
        pass
    assert interception.runner is None


# The commands of pdb --------------------------------------------------------------------------------------


def looped(x):
    total = x * 0
    for i in range(3):
        total = total + x * i
    return total * after(x)


LOOP = looped.__code__.co_firstlineno


def at_prompt(commands: str, function: Callable[..., Any] = looped) -> str:
    out = io.StringIO()
    session = pl.debugger.debug(function)(X)
    pl.debugger.Prompt(session, io.StringIO(commands + "q\n"), out).cmdloop()
    return out.getvalue()


def test_commands_are_abbreviated_as_in_pdb() -> None:
    """`u` is up, `unt` is until."""
    text = at_prompt(f"unt {LOOP + 4}\ns\nu\np total\nd\nwhatis v\nh up\n!v.sum()\npp v\n")
    assert f"->{after.__code__.co_firstlineno + 1:5d}" in text
    assert f"->{LOOP + 4:5d}" in text
    assert "f32[2] in [-1, 3]" in text
    assert "u [N]: show the frame that called this one" in text
    assert "Array(2., dtype=float32)" in text


def test_until_leaves_a_loop() -> None:
    text = at_prompt("n\nn\nunt\nunt\n")
    lines = [int(each.split()[1]) for each in text.splitlines() if each.startswith("->")]
    assert lines[-1] == LOOP + 4


def test_breakpoints_are_cleared() -> None:
    text = at_prompt(f"b {LOOP + 4}\nb {LOOP + 3}\ncl {LOOP + 3}\nb\ncl\nb\nrestart\nexit\n")
    assert "1 removed" in text
    assert text.count(f":{LOOP + 4}\n") >= 2


def test_a_kernel_without_a_grid_says_that_it_has_none() -> None:
    from pellucid.experimental.pallas import pallas_call

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    call = pallas_call(kernel, X)
    text = at_prompt("j 1\nj 0,\n", lambda x: call(x))
    assert "this kernel has no grid: it runs once, and there is no program of it" in text
    assert text.count("jump to 1\n") == text.count("jump to (0,)\n") == 1
