"""Lets a debugger run programs in place of their executables, to stop within them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from pellucid._machine.ir import Results

from .launches import Launch, Listener


class Runner(NamedTuple):
    """Functions that run users' programs in place of their executables."""

    run: Callable[[Launch], Results | None]
    """Returns the results of a program, or None if it is to run as usual."""
    tracing: Callable[[], AbstractContextManager[Any]]
    """Context entered while a function is traced."""


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
    """Listener that lets the installed `runner` run users' programs; a program that it declines runs as usual."""

    def hears(self, launch: Launch) -> bool:
        return runner is not None and launch.is_of_user

    def around(self, launch: Launch, run: Callable[[], Results]) -> Results:
        results = None if runner is None else runner.run(launch)
        if results is None:
            return run()
        launch.needs_python = True
        return launch.call_results(results)
