"""Progress of a conversion, and the progress bar shown while the user waits for it."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from pellucid_profiler.text import percent_text, seconds_text

T = TypeVar("T")

FIRST_SHOWN_SECONDS = 0.8
"""Delay before the progress bar appears; most conversions finish earlier."""
PERIOD_SECONDS = 0.2
COLLECTING = "XLA collects events"
"""Name of the first phase, whose duration is unknown in advance."""


class Interrupted(Exception):
    """Raised in the conversion's thread when the user has interrupted it."""


class ConversionProgress:
    """Phase and completed fraction of a conversion. Its thread reports them by calls, which raise `Interrupted` on
    request.

    >>> progress = ConversionProgress()
    >>> progress("reading events", 0.45)
    >>> progress.text()
    'reading events, 45 %'
    """

    def __init__(self) -> None:
        self.part = COLLECTING
        self.share: float | None = None
        """Completed fraction of the phase, 0 to 1; None if unknown."""
        self._is_interrupted = False

    def __call__(self, part: str, share: float | None = None) -> None:
        """Reports the current phase and its completed fraction."""
        if self._is_interrupted:
            raise Interrupted(f"interrupted while {self.text()}")
        self.part, self.share = part, share

    def text(self) -> str:
        """The phase and its completed fraction, for display."""
        return self.part if self.share is None else f"{self.part}, {percent_text(self.share)}"

    def interrupt(self) -> None:
        """Requests that the conversion stops at its next report."""
        self._is_interrupted = True

    def resume(self) -> None:
        """Withdraws an interrupt that the conversion hasn't noticed yet."""
        self._is_interrupted = False


def show_progress(
    future: Future[T], progress: ConversionProgress, timeout_seconds: float | None = None
) -> T:
    """Waits for a conversion and returns its result. Shows progress under the cell in a notebook, or as a line in a
    terminal.

    Raises: TimeoutError; any exception of the conversion.
    """
    start = time.monotonic()
    end = float("inf") if timeout_seconds is None else start + timeout_seconds
    draw: Callable[[str, float | None], None] | None = None
    period = FIRST_SHOWN_SECONDS
    try:
        while True:
            try:
                return future.result(max(0.0, min(period, end - time.monotonic())))
            except TimeoutError:
                if future.done() or time.monotonic() >= end:
                    raise
            draw, period = draw or _drawing(), PERIOD_SECONDS
            draw(progress.text(), progress.share)
    finally:
        if draw is not None:
            draw(
                f"converted in {seconds_text(time.monotonic() - start)}"
                if _has_succeeded(future)
                else "",
                1.0,
            )


def _has_succeeded(future: Future[Any]) -> bool:
    return future.done() and future.exception() is None


def _drawing() -> Callable[[str, float | None], None]:
    """A function that displays a text and a fraction in place of the previous ones; call it with fraction 1 at the end."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if ipython is not None and getattr(shell, "kernel", None) is not None:
        return _drawing_in_notebook(ipython.display)
    return _draw_line if sys.stderr.isatty() else lambda text, share: None


def _draw_line(text: str, share: float | None) -> None:
    sys.stderr.write("\r\x1b[K" + (f"Profile: {text}" if share != 1.0 else ""))
    sys.stderr.flush()


def _drawing_in_notebook(display: Any) -> Callable[[str, float | None], None]:
    handle: Any = None

    def draw(text: str, share: float | None) -> None:
        nonlocal handle
        line = f"Profile: {text or 'interrupted'}"
        bundle = {"text/plain": line, "text/html": _bar(line, share)}
        if handle is None:
            handle = display.display(bundle, raw=True, display_id=True)
        else:
            handle.update(bundle, raw=True)

    return draw


def _bar(text: str, share: float | None) -> str:
    value = "" if share is None else f' value="{share:.3f}"'
    bar = (
        ""
        if share == 1.0
        else f'<progress{value} style="width: 12em; vertical-align: middle"></progress> '
    )
    return f'<div role="status" style="font-size: smaller; opacity: 0.8">{bar}{html.escape(text)}</div>'
