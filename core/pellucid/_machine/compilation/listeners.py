"""The list of listeners to launches; runs a program with them around it."""

from __future__ import annotations

import functools
from collections.abc import Callable

from pellucid._machine.ir import Results

from .finite import FiniteCheck
from .interception import Interception
from .key_reuse import KeyUses
from .launches import Launch, Listener

LISTENERS: tuple[Listener, ...] = (Interception(), FiniteCheck(), KeyUses())
"""All listeners, from the innermost, which may replace the run, to the outermost."""


def run(launch: Launch) -> Results:
    """The results of a launch, with all listeners around it; sets `launch.needs_python`."""
    started: Callable[[], Results] | None = None
    for listener in LISTENERS:
        if listener.hears(launch):
            inner = started or functools.partial(_run, launch)
            started = functools.partial(listener.around, launch, inner)
    return _run(launch) if started is None else started()


def _run(launch: Launch) -> Results:
    return launch.call_results(launch.run())
