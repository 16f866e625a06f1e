"""Display of errors raised by pellucid: the message and the user's lines, with the full traceback one click away."""

from __future__ import annotations

import importlib
from types import TracebackType
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from pellucid import config, introspect
from pellucid_viz import Figure

_RED, _DIM, _END = "\x1b[1;31m", "\x1b[2m", "\x1b[0m"


class FailureDisplay:
    """Replaces IPython's traceback for errors raised by pellucid."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell: Any = shell
        self._traceback: Any = shell.InteractiveTB.structured_traceback
        self._shell.InteractiveTB.structured_traceback = self.structured_traceback
        self._send: Any = shell._showtraceback
        self._shell._showtraceback = self.send
        self._is_whole = False

    def stop(self) -> None:
        """Restores the shell's own tracebacks."""
        del self._shell.InteractiveTB.structured_traceback, self._shell._showtraceback

    def show_whole_traceback(self) -> None:
        """Shows the last error as IPython does."""
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
        """The lines of an error message. With a rich front end they are short, since the error is drawn above. Also
        called for the history.
        """
        record = self._record(value)
        if record is None:
            return self._traceback(etype, value, held, **options)
        if not self._is_drawn:
            return [color_text(record)]
        return [f"{_RED}{record.name}{_END}: {record.what}", *where(record)]

    def send(self, etype: type[BaseException], value: BaseException, lines: list[str]) -> None:
        """Publishes an error: its drawing, then the message."""
        record = self._record(value)
        if record is not None and self._is_drawn:
            self._shell.display_pub.publish(
                data=Figure(record).displayed(), metadata={"pellucid": self._standing(value)}
            )
        self._send(etype, value, lines)

    def _standing(self, value: BaseException) -> dict[str, Any]:
        """Metadata of an error's output, by which front ends hide the plain message that follows.

        `failure` is a number by which a debugger can open the place where the error was raised.
        """
        standing: dict[str, Any] = {"stands_for_error": True}
        if getattr(self._shell.kernel, "debugger", None) is not None:
            number = importlib.import_module("pellucid_kernel.debug.failures").number_of(value)
            standing |= {} if number is None else {"failure": number}
        return standing

    @property
    def _is_drawn(self) -> bool:
        return getattr(self._shell, "kernel", None) is not None

    def _record(self, value: BaseException | None) -> introspect.schema.ErrorRecord | None:
        if value is None or self._is_whole or config.read("traceback_filtering") == "off":
            return None
        return introspect.error(value)


def color_text(record: introspect.schema.ErrorRecord) -> str:
    """The text of an error with terminal colours."""
    head, _, rest = repr(Figure(record)).partition("\n")
    return f"{_RED}{head}{_END}\n{rest}"


def where(record: introspect.schema.ErrorRecord) -> list[str]:
    """One line with the place of an error, to accompany the drawing."""
    if not record.frames:
        return []
    frame = record.frames[-1]
    return [f"{_DIM}in {frame.source.name}, line {frame.line}; drawn above{_END}"]
