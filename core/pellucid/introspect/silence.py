"""Programs without those calls of Python that return nothing, such as prints: for runs that a tool makes besides the
user's own.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator
from typing import Any

from pellucid._machine.base.narrowing import is_tuple
from pellucid._machine.callbacks.pure import HostCall
from pellucid._machine.ir import ClosedJaxpr, Equation, Jaxpr, no_effects, with_programs


class _State(threading.local):
    is_on = False


_state = _State()


@contextlib.contextmanager
def silence() -> Generator[None]:
    """A context in which the frames of this thread run programs without prints and other effects."""
    before, _state.is_on = _state.is_on, True
    try:
        yield
    finally:
        _state.is_on = before


def is_silent() -> bool:
    """Whether frames of this thread run programs without effects."""
    return _state.is_on


def is_note(equation: Equation) -> bool:
    """Whether an equation calls Python and returns nothing, as a print does."""
    return isinstance(equation.primitive, HostCall) and not equation.results


def program_to_run(program: ClosedJaxpr) -> ClosedJaxpr:
    """The form in which frames of this thread run a program without constants: within `silence`, without its notes."""
    if not _state.is_on or not program.effects:
        return program
    memo = program.jaxpr.memo
    if "silenced program" not in memo:
        memo["silenced program"] = ClosedJaxpr(without_notes(program.jaxpr))
    return memo["silenced program"]


def without_notes(jaxpr: Jaxpr) -> Jaxpr:
    """The program, and the programs within it, without equations that are notes (`is_note`); itself if there are
    none. Cached.
    """
    if "silenced" not in jaxpr.memo:
        equations = [_without_notes(e) for e in jaxpr.equations if not is_note(e)]
        kept = len(equations) == len(jaxpr.equations)
        is_same = kept and all(a is b for a, b in zip(equations, jaxpr.equations, strict=True))
        jaxpr.memo["silenced"] = jaxpr if is_same else jaxpr.replace(equations=equations)
    return jaxpr.memo["silenced"]


def _without_notes(equation: Equation) -> Equation:
    params: Any = equation.params
    if not equation.effects or not is_tuple(params):
        return equation
    new: tuple[Any, ...] = with_programs(params, without_notes)
    if all(a is b for a, b in zip(new, params, strict=True)):
        return equation
    silent = equation.replace(params=new)
    aval_effects = equation.primitive.effects([a.aval for a in equation.operands], new)
    return silent.replace(effects=aval_effects or no_effects)
