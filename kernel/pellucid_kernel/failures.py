"""Errors of the core in a notebook: what, the user's lines only, the whole traceback one click away."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from pellucid import introspect
from pellucid_viz import Figure

STANDS_FOR_ERROR = {"pellucid": {"stands_for_error": True}}
"""Says that the error message that comes next is drawn by this output, so it need not be shown a second time."""
_RED, _DIM, _END = "\x1b[1;31m", "\x1b[2m", "\x1b[0m"


class FailureDisplay:
    """Shows errors that the core raised in place of IPython's traceback."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell: Any = shell
        self._traceback: Any = shell.InteractiveTB.structured_traceback
        self._shell.InteractiveTB.structured_traceback = self.structured_traceback
        self._is_whole = False

    def stop(self) -> None:
        """Give the shell back its own tracebacks."""
        del self._shell.InteractiveTB.structured_traceback

    def show_whole_traceback(self) -> None:
        """Show the last error as IPython does."""
        self._is_whole = True
        try:
            self._shell.showtraceback()
        finally:
            self._is_whole = False

    def structured_traceback(
        self,
        etype: type[BaseException] | None = None,
        value: BaseException | None = None,
        held: TracebackType | None = None,
        **options: Any,
    ) -> list[str]:
        """The lines that a front end shows for an error; drawn in front of them where front ends draw."""
        record = None if value is None or self._is_whole else introspect.error(value)
        if record is None:
            return self._traceback(etype, value, held, **options)
        if getattr(self._shell, "kernel", None) is None:
            return [colored(record)]
        self._shell.display_pub.publish(data=Figure(record).bundle(), metadata=STANDS_FOR_ERROR)
        return [f"{_RED}{record.name}{_END}: {record.what}", *where(record)]


def colored(record: introspect.schema.ErrorRecord) -> str:
    """The text of an error for a terminal."""
    head, _, rest = repr(Figure(record)).partition("\n")
    return f"{_RED}{head}{_END}\n{rest}"


def where(record: introspect.schema.ErrorRecord) -> list[str]:
    """The place of the error in a line; it is drawn above."""
    if not record.frames:
        return []
    frame = record.frames[-1]
    return [f"{_DIM}in {frame.source.name}, line {frame.line}; drawn above{_END}"]
