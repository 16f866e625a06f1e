"""Breakpoints set by front ends, with options that JupyterLab's own requests don't transport."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

BUDGET = 1 << 30
"""Default maximum number of bytes of values that a session keeps; other values are recomputed when needed."""


class DebuggerSettings(NamedTuple):
    """Settings of JupyterLab's debugger that apply to all stops."""

    budget: int = BUDGET
    """Maximum number of bytes of values that a stopped program keeps."""
    stops_in_trace: bool = False
    """Whether breakpoints also stop in Python while a function is traced, where values are abstract."""

    def to_dict(self) -> dict[str, Any]:
        """The settings as a body of the protocol."""
        return {"budget": self.budget, "stopsInTrace": self.stops_in_trace}


class Options(NamedTuple):
    """Options of a breakpoint in the protocol's syntax; empty strings if not set."""

    condition: str = ""
    hit_condition: str = ""
    message: str = ""

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Options:
        """The options of a breakpoint in a request."""
        names = ("condition", "hitCondition", "logMessage")
        return cls(*[str(request.get(name) or "") for name in names])

    def to_dict(self) -> dict[str, str]:
        """The options as a body of the protocol."""
        return {
            "condition": self.condition,
            "hitCondition": self.hit_condition,
            "logMessage": self.message,
        }


class Breakpoints:
    """Breakpoints by file and line. JupyterLab sends only lines, repeatedly; options set separately stay with their
    line.
    """

    def __init__(self) -> None:
        self._lines: dict[str, dict[int, Options]] = {}
        self._options: dict[tuple[str, int], Options] = {}
        self.settings = DebuggerSettings()
        self.watched = ""
        """Condition of the watchpoint: `isnan`, `isinf`, or an expression of a result `x`; empty if there is none."""

    def set(self, file: str, breakpoints: Sequence[Mapping[str, Any]]) -> None:
        """Replaces the breakpoints of a file."""
        self._lines[file] = {int(each["line"]): Options.of(each) for each in breakpoints}

    def set_options(self, file: str, line: int, options: Options) -> None:
        """Sets the options of a line, which need not have a breakpoint yet. Empty options remove them."""
        self._options.pop((file, line), None)
        if any(options):
            self._options[file, line] = options

    def all(self) -> list[tuple[str, int, Options]]:
        """(file, line, options) of each breakpoint."""
        return [
            (file, line, options if any(options) else self._options.get((file, line), options))
            for file, lines in self._lines.items()
            for line, options in lines.items()
        ]

    def clear(self) -> None:
        """Removes all breakpoints and the watchpoint. Options stay with their lines."""
        self._lines.clear()
        self.watched = ""
