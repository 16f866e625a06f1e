"""Limit of a recording by the steps of a loop, so that the session of a long cell stays small."""

from __future__ import annotations

import time
import weakref
from types import CodeType
from typing import Any

from pellucid.introspect import recording
from pellucid_profiler.text import counted, seconds_text

MIN_STEPS = 20
"""Times that a line has to begin, in a recording that ends before its cell does."""
MIN_SECONDS = 0.5
"""Seconds that such a recording lasts at least: a session of some 200,000 events, if all operations are small."""
CHECK_SECONDS = 0.1
"""Seconds between two comparisons of the arrays that are alive."""


class StepLimit:
    """Counts of steps, which say when a recording has enough of a loop.

    With `n_steps` it counts steps that the program names. Without it, `MIN_STEPS` in `MIN_SECONDS` are enough, and a line
    counts, too: it is taken for part of a loop of steps if new arrays are alive that weren't `CHECK_SECONDS` before. Loops
    without device programs therefore end no recording.

    >>> limit = StepLimit()
    >>> code = (lambda: None).__code__
    >>> [limit.is_reached_by_line(code, 1) for _ in range(1000)].count(True)
    0
    """

    def __init__(self, n_steps: int | None = None) -> None:
        self.n_steps = n_steps
        self.count = 0
        """Named steps that ended."""
        self._loop = ""
        self._begin = time.monotonic()
        self._counts: dict[tuple[CodeType, int], int] = {}
        self._next = self._begin + MIN_SECONDS
        self._arrays: dict[int, weakref.ref[Any]] | None = None
        """References to the arrays that were alive at the last comparison, by their ids."""

    def is_reached_by_step(self) -> bool:
        """Counts a named step, which ends; whether the recording has enough of them."""
        self.count += 1
        if self.n_steps is not None:
            return self.count >= self.n_steps
        return self.count >= MIN_STEPS and time.monotonic() >= self._begin + MIN_SECONDS

    def is_reached_by_line(self, code: CodeType, line: int) -> bool:
        """Counts a line, which begins; whether the recording has enough of its loop."""
        key = code, line
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if count < MIN_STEPS or time.monotonic() < self._next:
            return False
        before, arrays = self._arrays, recording.live_arrays()
        if before is not None and any(
            id(each) not in before or before[id(each)]() is not each for each in arrays
        ):
            of = "" if code.co_name == "<module>" else f" of {code.co_qualname}"
            self.count, self._loop = count, f" of the loop at line {line}{of}"
            return True
        self._arrays = {id(each): weakref.ref(each) for each in arrays}
        self._next = time.monotonic() + CHECK_SECONDS
        return False

    def text(self, *, is_warmed_up: bool) -> str:
        """Sentence about a recording that ends because the limit is reached, `is_warmed_up` if it had begun again."""
        seconds = seconds_text(time.monotonic() - self._begin)
        behind = ", behind a warm-up that compiled" if is_warmed_up else ""
        whole = "`%%profile -r 1` records all of one run."
        if self.n_steps is not None:
            whole = "`profile()` without `steps` records all."
        return (
            f"The recording holds {counted(self.count, 'step')}{self._loop}, {seconds}{behind}; the rest ran without being "
            f"recorded. {whole}"
        )
