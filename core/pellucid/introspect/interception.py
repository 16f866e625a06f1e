"""Lets a debugger run users' programs in place of their executables, so that it can stop in jitted functions."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

from pellucid._machine.base import is_user_file
from pellucid._machine.base.source import is_internal_file
from pellucid._machine.callbacks.breakpoints import prompt_streams
from pellucid._machine.compilation import interception
from pellucid._machine.compilation.interception import Operation, Runner
from pellucid._machine.compilation.launches import Launch
from pellucid._machine.higher_order.traced_function_cache import users_programs as traced_programs
from pellucid._machine.ir import Jaxpr
from pellucid._machine.runtime.calls import clear_all_entries

from .stepping import open_program

__all__ = [
    "Launch",
    "Operation",
    "Runner",
    "is_called_by_program",
    "is_user_file",
    "keep_calls",
    "prompt_streams",
    "run_programs_by",
    "users_programs",
]

_lock = threading.Lock()
_runners: list[Runner] = []
"""Those that were added and haven't left, the one that runs last."""


def is_called_by_program() -> bool:
    """Whether a running program calls the Python that this thread runs, for whose results it waits."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # public by use
    while frame.f_back is not None:
        frame = frame.f_back
    return is_internal_file(frame.f_code.co_filename)


def run_programs_by(runner: Runner | None, instead_of: Runner | None = None) -> None:
    """Make `runner` run each call of a jitted function of the user, and each loop, branch or call that is run eagerly, and look at
    all other operations that run eagerly if it has a `look`.

    It takes the place of `instead_of`, which None leaves empty. Of several runners the last one that was added runs; when it
    leaves, the one before it does so again. Nothing is compiled again.

    Calls that it declines return to the C++ path, which doesn't ask again: call this again when it would accept others.
    """
    with _lock:
        place = next((i for i, each in enumerate(_runners) if each is instead_of), len(_runners))
        _runners[place : place + 1] = [] if runner is None else [runner]
        interception.runner = _runners[-1] if _runners else None
        clear_all_entries()


def keep_calls() -> None:
    """From the next call on, errors of checks hold the call of a jitted function that raised them, which costs 20 us per call."""
    with _lock:
        if not interception.keeps_calls:
            interception.keeps_calls = True
            clear_all_entries()


def users_programs() -> Iterator[Jaxpr]:
    """The programs of the user's jitted functions that are alive, in the form in which the debugger steps through them."""
    for program in traced_programs():
        yield open_program(program.values.closed)[0]
