"""A line that says how far something is that takes seconds, and that vanishes when it ends."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

_SHOWN_AFTER_SECONDS = 1.0
_INTERVAL_SECONDS = 0.5


@contextlib.contextmanager
def progress() -> Iterator[Callable[[str, float], None]]:
    """A context that gives a function of a text and the seconds since it began, which writes them in place of what it wrote before.

    >>> with progress() as report:
    ...     report("starts", 0.2)
    """
    width, latest = 0, 0.0

    def report(text: str, seconds: float) -> None:
        nonlocal width, latest
        if seconds < latest:  # another one has begun
            latest = 0.0
        if seconds < max(_SHOWN_AFTER_SECONDS, latest + _INTERVAL_SECONDS):
            return
        latest = seconds
        line = f"{text}, {seconds:.0f} s"
        sys.stdout.write(f"\r{line.ljust(width)}")
        sys.stdout.flush()
        width = len(line)

    try:
        yield report
    finally:
        if width:
            sys.stdout.write(f"\r{' ' * width}\r")
            sys.stdout.flush()
