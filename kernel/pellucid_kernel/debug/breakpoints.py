"""Breakpoints as front ends set them: lines of files, with conditions that some of them can't send along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

BUDGET = 1 << 30
"""Bytes of values that a session keeps by default; others are computed again when somebody looks."""


class DebuggerSettings(NamedTuple):
    """Settings of JupyterLab's debugger that hold for all stops."""

    budget: int = BUDGET
    """Bytes of values that a stopped program keeps."""
    stops_in_trace: bool = False
    """Whether breakpoints stop while a function is traced too, in Python, on abstract values."""

    def to_dict(self) -> dict[str, Any]:
        """The settings as the protocol names them."""
        return {"budget": self.budget, "stopsInTrace": self.stops_in_trace}


class Options(NamedTuple):
    """Under what conditions a breakpoint stops, as texts of the protocol; empty for none."""

    condition: str = ""
    hit_condition: str = ""
    message: str = ""

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Options:
        """The options that a request states for a breakpoint."""
        names = ("condition", "hitCondition", "logMessage")
        return cls(*[str(request.get(name) or "") for name in names])

    def to_dict(self) -> dict[str, str]:
        """The options as the protocol names them."""
        return {
            "condition": self.condition,
            "hitCondition": self.hit_condition,
            "logMessage": self.message,
        }


class Breakpoints:
    """Lines by file. JupyterLab sends lines alone, and sends them again: options that came otherwise stay with a line."""

    def __init__(self) -> None:
        self._lines: dict[str, dict[int, Options]] = {}
        self._options: dict[tuple[str, int], Options] = {}
        self.settings = DebuggerSettings()
        self.watched = ""
        """`isnan`, `isinf`, or an expression of a result `x`; empty for no watch."""

    def set(self, file: str, breakpoints: Sequence[Mapping[str, Any]]) -> None:
        """Replace the breakpoints of a file."""
        self._lines[file] = {int(each["line"]): Options.of(each) for each in breakpoints}

    def set_options(self, file: str, line: int, options: Options) -> None:
        """State the options of a line, whether it has a breakpoint yet or not; empty ones forget it."""
        self._options.pop((file, line), None)
        if any(options):
            self._options[file, line] = options

    def all(self) -> list[tuple[str, int, Options]]:
        """File, line and options of each breakpoint."""
        return [
            (file, line, options if any(options) else self._options.get((file, line), options))
            for file, lines in self._lines.items()
            for line, options in lines.items()
        ]

    def clear(self) -> None:
        """Forget all breakpoints, and the watch; options stay with their lines."""
        self._lines.clear()
        self.watched = ""
