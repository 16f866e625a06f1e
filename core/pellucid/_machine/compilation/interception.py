"""Lets a debugger run programs in place of their executables, to stop within them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from pellucid._machine.base import capture
from pellucid._machine.ir import (
    ClosedJaxpr,
    Equation,
    Jaxpr,
    Operands,
    Primitive,
    Results,
    Var,
)
from pellucid._machine.tracing import type_of

from .launches import Launch, Listener


class Operation(NamedTuple):
    """An operation that has run by itself, in no program of the user."""

    name: str
    operands: Operands
    results: Results
    program: Callable[[], ClosedJaxpr]
    """Returns its program, of one equation if it is a primitive."""


class Runner(NamedTuple):
    """Functions that run users' programs in place of their executables."""

    run: Callable[[Launch], Results | None]
    """Returns the results of a program, or None if it is to run as usual."""
    tracing: Callable[[], AbstractContextManager[Any]]
    """Context entered while a function is traced."""
    look: Callable[[Operation], None] | None = None
    """Looks at each operation that runs eagerly, once it has run; None while C++ may run them."""


class _Returning(threading.local):
    """The call whose results a thread is assembling, and whether any result keeps the call."""

    launch: Launch | None = None
    is_kept = False


_returning = _Returning()
keeps_calls = False
"""Whether results may keep the call that computed them, as errors of checks do for debuggers; such calls run through
Python.
"""


def results_of_launch(tree: Any, results: Results, launch: Launch) -> tuple[Any, bool]:
    """(results of a call as a tree, whether any result keeps the call)."""
    if not keeps_calls:
        return tree.unflatten(results), False
    outer = _returning.launch, _returning.is_kept
    _returning.launch, _returning.is_kept = launch, False
    try:
        return tree.unflatten(results), _returning.is_kept
    finally:
        _returning.launch, _returning.is_kept = outer


def call_to_keep() -> Launch | None:
    """The call whose results this thread is assembling, for a result that keeps it; None if calls aren't kept."""
    _returning.is_kept = _returning.launch is not None
    return _returning.launch


runner: Runner | None = None
"""None while programs run as usual. Calls made without a runner are in C++ caches, which must be cleared when it
changes.
"""


def tracing() -> AbstractContextManager[Any]:
    """The context to enter while a user's function is traced."""
    return contextlib.nullcontext() if runner is None else runner.tracing()


class Interception(Listener):
    """Listener that lets the installed `runner` run users' programs, and look at operations; what it declines runs as usual."""

    def hears(self, launch: Launch) -> bool:
        return runner is not None and (launch.is_of_user or runner.look is not None)

    def around(self, launch: Launch, run: Callable[[], Results]) -> Results:
        current = runner
        if current is None:
            return run()
        results = current.run(launch) if launch.is_of_user else None
        if results is not None:
            launch.needs_python = True
            return launch.call_results(results)
        results = run()
        if current.look is not None:
            launch.needs_python = True
            if not launch.is_searched:
                program = lambda: launch.program
                current.look(Operation(launch.name, launch.operands, results, program))
        return results


def look_at(primitive: Primitive[Any], params: Any, operands: Operands, results: Results) -> None:
    """Shows the installed `runner` an operation that has run without a program."""
    if runner is not None and runner.look is not None:
        program = lambda: program_of(primitive, params, operands)
        runner.look(Operation(primitive.name, operands, results, program))


def program_of(primitive: Primitive[Any], params: Any, operands: Operands) -> ClosedJaxpr:
    """The program of one operation on `operands`."""
    inputs = [Var(type_of(x)) for x in operands]
    avals, _ = primitive.types(tuple([var.aval for var in inputs]), params)
    results = [*map(Var, avals)]
    equation = Equation([*inputs], results, primitive, params, source=capture())
    return ClosedJaxpr(Jaxpr((), inputs, (equation,), results))
