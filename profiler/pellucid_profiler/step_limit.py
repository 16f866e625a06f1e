"""Limit of a recording by the steps of a loop, so that the session of a long cell stays small."""

from __future__ import annotations

import dis
import sys
import time
import weakref
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

from pellucid.introspect import recording
from pellucid_profiler.marks import user_frame_of
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
    of the outermost `for` or `while` statement counts, too: it is taken for part of a loop of steps if new arrays are
    alive that weren't `CHECK_SECONDS` before. Loops without device programs therefore end no recording, nor do lines that
    are being traced.

    >>> import inspect
    >>> limit = StepLimit()
    >>> frame = inspect.currentframe()
    >>> [limit.is_reached_by_line(frame) for _ in range(1000)].count(True)
    0
    """

    def __init__(self, n_steps: int | None = None) -> None:
        self.n_steps = n_steps
        frame = user_frame_of(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]  # public by use
        frames = () if frame is None else (frame, *_outer(frame))
        self._begun_at = {id(each): each.f_lineno for each in frames}
        """By id, where the frames stood that were there at the begin: loops around these lines go on around the recording."""
        self.count = 0
        """Named steps that ended."""
        self._loop = ""
        self._begin = time.monotonic()
        self._counts: dict[tuple[CodeType, int], int] = {}
        self._loops: dict[CodeType, list[frozenset[int]]] = {}
        """Lines of each loop statement, by the code that has them."""
        self._next = self._begin + MIN_SECONDS
        self._arrays: dict[int, weakref.ref[Any]] | None = None
        """References to the arrays that were alive at the last comparison, by their ids."""

    def again(self) -> StepLimit:
        """The same limit for a recording that begins again."""
        limit = StepLimit(self.n_steps)
        limit._begun_at = self._begun_at
        return limit

    def is_reached_by_step(self) -> bool:
        """Counts a named step, which ends; whether the recording has enough of them."""
        if recording.is_tracing():
            return False
        self.count += 1
        if self.n_steps is not None:
            return self.count >= self.n_steps
        return self.count >= MIN_STEPS and time.monotonic() >= self._begin + MIN_SECONDS

    def is_reached_by_line(self, frame: FrameType) -> bool:
        """Counts a line, which begins in `frame`; whether the recording has enough of its loop."""
        if not self._is_in_loop(frame) or recording.is_tracing():
            return False
        code, line = key = frame.f_code, frame.f_lineno
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if (
            count < MIN_STEPS
            or time.monotonic() < self._next
            or any(map(self._is_in_loop, _outer(frame)))
        ):
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

    def _is_in_loop(self, frame: FrameType) -> bool:
        code, begun_at = frame.f_code, self._begun_at.get(id(frame))
        if code not in self._loops:
            self._loops[code] = _loops_of(code)
        return any(frame.f_lineno in lines and begun_at not in lines for lines in self._loops[code])

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


# Loops in code -------------------------------------------------------------------------------------------


def _outer(frame: FrameType) -> Iterator[FrameType]:
    """The user's frames around `frame`."""
    outer = user_frame_of(frame.f_back)
    while outer is not None:
        yield outer
        outer = user_frame_of(outer.f_back)


_COLLECTS = frozenset({"LIST_APPEND", "SET_ADD", "MAP_ADD"})
"""Instructions in the loops of comprehensions, which are no statements; with argument 1 they are those of displays."""


def _loops_of(code: CodeType) -> list[frozenset[int]]:
    """The lines of each `for` and `while` statement of `code`."""
    if code.co_name in ("<lambda>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"):
        return []
    instructions = [*dis.get_instructions(code)]
    loops = {
        (each.argval, each.offset)
        for each in instructions
        if each.opname.startswith(("JUMP_BACKWARD", "POP_JUMP_BACKWARD"))
    }
    # The innermost loop around an instruction that collects is no statement.
    for each in instructions:
        if each.opname in _COLLECTS and each.arg != 1:
            around = [loop for loop in loops if loop[0] <= each.offset <= loop[1]]
            loops -= {*sorted(around, key=lambda loop: loop[1] - loop[0])[:1]}
    return [
        frozenset(
            each.positions.lineno
            for each in instructions
            if each.positions and each.positions.lineno and begin <= each.offset <= end
        )
        for begin, end in loops
    ]
