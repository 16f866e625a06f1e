"""Host callbacks: which Python functions compiled programs called, how often, for how long, on which threads."""

from __future__ import annotations

from typing import Any, NamedTuple

from pellucid.events import CallbackRan, Observer
from pellucid_profiler.sources import SourceLine


class CallbackRow(NamedTuple):
    """Calls of one Python function by compiled programs, over the whole session."""

    function: str
    place: SourceLine | None
    """Where the function is defined; None for builtins and other callables without Python code."""
    count: int  # pyright: ignore[reportIncompatibleMethodOverride]  # hides tuple.count
    seconds: float
    thread_count: int
    """Number of threads that ran the function. They are mostly XLA's, not the thread that called the program."""


class CallbackLog(Observer):
    """An observer that sums up the callbacks that run while it observes.

    >>> from pellucid.events import observe
    >>> log = CallbackLog()
    >>> with observe(log):
    ...     pl.jit(lambda x: pl.debug.callback(lambda x: None, x))(1.0)
    ...     pl.effects_barrier()
    >>> [(row.function, row.count) for row in log.rows()]
    [('<lambda>', 1)]
    """

    def __init__(self) -> None:
        self._events: list[CallbackRan] = []

    def callback_ran(self, event: CallbackRan, /) -> None:
        self._events.append(event)

    def rows(self) -> list[CallbackRow]:
        """The callbacks grouped by function, sorted by total time, longest first."""
        by_function: dict[tuple[str, SourceLine | None], list[CallbackRan]] = {}
        for event in list(self._events):
            by_function.setdefault(_function(event.function), []).append(event)
        rows = [
            CallbackRow(
                *key, len(events), sum(each.seconds for each in events),
                len({each.thread for each in events}),
            )
            for key, events in by_function.items()
        ]  # fmt: skip
        return sorted(rows, key=lambda row: -row.seconds)


def _function(function: Any) -> tuple[str, SourceLine | None]:
    name = getattr(function, "__name__", type(function).__name__)
    code = getattr(function, "__code__", None)
    return name, None if code is None else SourceLine(code.co_filename, code.co_firstlineno, name)
