"""Compilations of operations called outside of jitted functions, each with the user's line that calls it."""

from __future__ import annotations

from typing import NamedTuple

from pellucid._machine.base import (
    CacheLooked,
    CompilationFinished,
    Observer,
    SourceFrame,
    StageStarted,
    capture,
)
from pellucid._machine.base.source import user_frame


class EagerCompilation(NamedTuple):
    """One compilation of an operation: its first call for operands of these types."""

    operation: str
    lower_seconds: float
    compile_seconds: float
    frame: SourceFrame | None
    """The user's line that was running; None if there is none."""


class EagerCompilationLog(Observer):
    """An observer that collects the compilations that belong to no jitted function.

    >>> from pellucid._machine.base.events import observe
    >>> log = EagerCompilationLog()
    >>> with observe(log):
    ...     x = pl.lax.tanh(np.ones((2, 3, 5), np.float32))
    >>> [each.operation for each in log.compilations]
    ['tanh']
    """

    def __init__(self) -> None:
        self.compilations: list[EagerCompilation] = []
        self._functions: dict[int, str] = {}
        """By thread the jitted function that was looked up in vain, and will be compiled under its name."""
        self._lowered: dict[int, tuple[str, int]] = {}
        """By thread what was lowered last, and when that began."""

    def cache_looked(self, event: CacheLooked, /) -> None:
        if not event.hit:
            self._functions[event.thread] = event.name

    def stage_started(self, event: StageStarted, /) -> None:
        if event.stage == "lower":
            self._lowered[event.thread] = event.name, event.time_ns

    def compilation_finished(self, event: CompilationFinished, /) -> None:
        if self._functions.get(event.thread) == event.name:
            del self._functions[event.thread]
            return
        if event.is_by_tool:
            return
        lowered, begin_ns = self._lowered.get(event.thread, ("", 0))
        seconds = (event.time_ns - begin_ns) / 1e9 if lowered == event.name else event.seconds
        lower_seconds = max(seconds - event.seconds, 0.0)
        self.compilations.append(
            EagerCompilation(event.name, lower_seconds, event.seconds, user_frame(capture()))
        )


__all__ = ["EagerCompilation", "EagerCompilationLog"]
