"""Runners of programs in place of their executables: a debugger that stops in the program."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from pellucid._machine.ir import Results

from .launches import Launch, Listener


class Runner(NamedTuple):
    """Who runs the users' programs in place of their executables."""

    run: Callable[[Launch], Results | None]
    """Gives the results of a program, or None for one that runs as ever."""
    tracing: Callable[[], AbstractContextManager[Any]]
    """Entered while a function is traced."""


class _Returning(threading.local):
    """The call of which a thread makes the tree of results, and whether one of them keeps it."""

    launch: Launch | None = None
    is_kept = False


_returning = _Returning()
keeps_calls = False
"""Whether results may keep the call that gave them, as errors of checks do for debuggers; such a call costs Python each time."""


def returned(tree: Any, results: Results, launch: Launch) -> tuple[Any, bool]:
    """The results of a call as a tree, and whether one of them keeps the call."""
    if not keeps_calls:
        return tree.unflatten(results), False
    outer = _returning.launch, _returning.is_kept
    _returning.launch, _returning.is_kept = launch, False
    try:
        return tree.unflatten(results), _returning.is_kept
    finally:
        _returning.launch, _returning.is_kept = outer


def call_to_keep() -> Launch | None:
    """The call of which this thread makes the results, for one of them that keeps it; None where none is kept."""
    _returning.is_kept = _returning.launch is not None
    return _returning.launch


runner: Runner | None = None
"""None while programs run as ever. What has run without it is in C++ caches, which must be cleared when it changes."""


def tracing() -> AbstractContextManager[Any]:
    """Entered while a function of the user is traced."""
    return contextlib.nullcontext() if runner is None else runner.tracing()


class Interception(Listener):
    """Asks the runner for the results of users' programs."""

    def hears(self, launch: Launch) -> bool:
        return runner is not None and launch.is_of_user

    def around(self, launch: Launch, run: Callable[[], Results]) -> Results:
        results = None if runner is None else runner.run(launch)
        if results is None:
            return run()
        launch.needs_python = True
        return launch.settled(results)
