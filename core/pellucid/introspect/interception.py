"""Users' programs run by somebody else than their executables: how a debugger stops in jitted functions."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from pellucid._machine.base import is_user_file
from pellucid._machine.callbacks.breakpoints import prompt_streams
from pellucid._machine.compilation import interception
from pellucid._machine.compilation.interception import Runner
from pellucid._machine.compilation.launches import Launch
from pellucid._machine.higher_order.program_cache import users_programs as traced_programs
from pellucid._machine.ir import Jaxpr
from pellucid._machine.runtime.calls import clear_all_entries

from .stepping import opened

__all__ = [
    "Launch",
    "Runner",
    "is_user_file",
    "keep_calls",
    "prompt_streams",
    "run_programs_by",
    "users_programs",
]

_lock = threading.Lock()


def run_programs_by(runner: Runner | None) -> None:
    """Give `runner` each call of a jitted function of the user, and each loop, branch or call that runs as an operation.

    None ends it. Nothing is compiled again.

    Calls that it leaves alone go through C++ again, which asks nobody: to be called again when it chooses others.
    """
    with _lock:
        interception.runner = runner
        clear_all_entries()


def keep_calls() -> None:
    """Let errors of checks know the call of a jitted function that gave them, from the next call on, which takes 20 us more."""
    with _lock:
        if not interception.keeps_calls:
            interception.keeps_calls = True
            clear_all_entries()


def users_programs() -> Iterator[Jaxpr]:
    """The programs of all functions of the user that were jitted and are alive, as they are stepped through."""
    for program in traced_programs():
        yield opened(program.values.closed)[0]
