"""No tool changes what the functions of an example give or raise: called eagerly, jitted, differentiated or batched."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from example_calls import (
    EXAMPLES,
    WAYS,
    copied,
    first_calls,
    loss_of,
    numbers,
    outcome,
    without_static,
)

import pellucid as pl
from pellucid import profiler, viz
from pellucid_kernel import debug as debugger


class Call(NamedTuple):
    """A function and its arguments."""

    function: Any
    args: tuple[Any, ...]

    def __call__(self) -> Any:
        return self.function(*copied(self.args))


@functools.cache
def calls_of(path: Path) -> list[tuple[Any, tuple[Any, ...]]]:
    """What an example compiles, with arguments that no test takes."""
    return first_calls(path, 1)


def _shown(figure_of: Callable[[Any], Any]) -> Callable[[Call], Any]:
    return lambda call: str(figure_of(call.function)(*call.args))


def _loss(call: Call) -> Call:
    loss, floats = loss_of(*call)
    return Call(loss, (floats,))


def _gradient(call: Call) -> Call:
    loss = _loss(call)
    return Call(pl.grad(loss.function), loss.args)


def _profiled(call: Call) -> Any:
    with profiler.profile(lines=True) as session:
        call()
    return profiler.report(session.wait())


FIGURES: dict[str, Callable[[Call], Any]] = {
    "program": _shown(viz.program),
    "lens": _shown(viz.lens),
    "passes": _shown(lambda f: viz.passes(f, with_xla=False)),
    "diff": _shown(lambda f: viz.diff(f, f)),
    "ladder": _shown(lambda f: viz.ladder(f, ["linearize"])),
    "compiled": _shown(viz.compiled),
    "memory": _shown(viz.memory),
    "sharding": _shown(viz.sharding),
    "grid": _shown(viz.grid),
    "what_if": _shown(viz.what_if),
}
RUNS: dict[str, Callable[[Call], Any]] = {
    "profile": _profiled,
    "find": _shown(lambda f: debugger.find(f, debugger.isnan)),
    "diverge": _shown(debugger.diverge),
    "first_difference": _shown(debugger.first_difference),
    "repeat": _shown(lambda f: debugger.repeat(f, 2)),
    "debug": lambda call: debugger.debug(call.function)(*call.args).next().next().finish(),
    "explain_grad": lambda call: _shown(debugger.explain_grad)(_loss(call)),
}
CASES = [
    pytest.param(path, way, tools, id=f"{path.stem}-{way}-{kind}", marks=pytest.mark.rotates)
    for path in EXAMPLES
    for way in WAYS
    for kind, tools in (("figures", FIGURES), ("runs", RUNS))
]


def bits(values: list[Any]) -> list[bytes]:
    return [numbers(x).tobytes() for x in values]


@pytest.mark.parametrize(("path", "way", "tools"), CASES)
def test_functions_of_an_example_end_the_same_after_every_tool(
    path: Path, way: str, tools: dict[str, Callable[[Call], Any]]
) -> None:
    for jitted, args in calls_of(path):
        call = Call(*WAYS[way](*without_static(jitted, args)))
        given = bits(pl.tree.leaves(call.args))
        error, results = outcome(call)
        for name, tool in tools.items():
            # A function may end where the gradient that is explained doesn't.
            expected = outcome(_gradient(call))[0] if name == "explain_grad" else error
            where = f"{name} of {jitted.__name__}, {way}"
            # Where a call fails on NumPy arrays, which traced values can't index, a tool that traces it may see none.
            assert outcome(functools.partial(tool, call))[0] in ("", expected), where
            assert bits(pl.tree.leaves(call.args)) == given, where
            after = outcome(call)
            assert after[0] == error, where
            assert bits(after[1]) == bits(results), where


def test_the_law_sees_a_tool_that_fails_and_one_that_takes_arguments() -> None:
    """And a call that fails is one, whatever the tool."""

    def taking(call: Call) -> Any:
        return pl.jit(lambda x: x + 1, donate_argnums=0)(*call.args)

    call = Call(lambda x: x * 2, (pl.numpy.ones(3),))
    assert outcome(functools.partial(FIGURES["program"], call))[0] == ""
    assert (
        outcome(lambda: FIGURES["program"](Call(lambda x: 1 / 0, call.args)))[0]
        == "ZeroDivisionError"
    )
    taking(call)
    with pytest.raises(RuntimeError):
        bits(pl.tree.leaves(call.args))
