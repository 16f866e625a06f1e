"""Limit on the number of loop steps in a recording, which keeps the session of a long cell small."""

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
from pellucid_profiler.text import count_text, seconds_text

MIN_STEPS = 20
"""Minimum number of steps in a recording that is stopped before its cell ends."""
MIN_SECONDS = 0.5
"""Minimum duration of such a recording: about 200,000 events, if all operations are small."""
CHECK_SECONDS = 0.1
"""Interval between checks for new live arrays."""


class StepLimit:
    """Decides when a recording contains enough steps of a loop.

    With `n_steps`, it counts the steps that the program names. Without, `MIN_STEPS` steps and `MIN_SECONDS` seconds are
    enough; then repetitions of a line in an outermost `for` or `while` statement count as steps, too, if
    arrays are alive that weren't at the last check (`CHECK_SECONDS` ago). So loops that run no device programs don't stop
    a recording, and neither do lines that are traced.

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
        """Line numbers of the frames that were active at the begin, by frame id. Loops around these lines enclose the
        recording.
        """
        self.count = 0
        """Number of named steps that have ended."""
        self._loop = ""
        self._begin = time.monotonic()
        self._counts: dict[tuple[CodeType, int], int] = {}
        self._loops: dict[CodeType, list[frozenset[int]]] = {}
        """For each code object, the line numbers of each of its loop statements."""
        self._next = self._begin + MIN_SECONDS
        self._arrays: dict[int, weakref.ref[Any]] | None = None
        """Weak references to the arrays alive at the last check, by id."""

    def again(self) -> StepLimit:
        """A fresh copy of this limit, for a recording that restarts."""
        limit = StepLimit(self.n_steps)
        limit._begun_at = self._begun_at
        return limit

    def is_reached_by_step(self) -> bool:
        """Counts a named step at its end. Returns whether the recording has enough steps."""
        if recording.is_tracing():
            return False
        self.count += 1
        if self.n_steps is not None:
            return self.count >= self.n_steps
        return self.count >= MIN_STEPS and time.monotonic() >= self._begin + MIN_SECONDS

    def is_reached_by_line(self, frame: FrameType) -> bool:
        """Counts a line that is about to run in `frame`. Returns whether the recording has enough steps of its loop."""
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
        """Message shown when a recording stops at its step limit. `is_warmed_up`: warm-up steps were discarded."""
        seconds = seconds_text(time.monotonic() - self._begin)
        behind = ", behind a warm-up that compiled" if is_warmed_up else ""
        whole = "`%%profile -r 1` records all of one run."
        if self.n_steps is not None:
            whole = "`profile()` without `steps` records all."
        return (
            f"The recording holds {count_text(self.count, 'step')}{self._loop}, {seconds}{behind}; the rest ran without being "
            f"recorded. {whole}"
        )


# Loops in code -------------------------------------------------------------------------------------------


def _outer(frame: FrameType) -> Iterator[FrameType]:
    """The user frames that enclose `frame`."""
    outer = user_frame_of(frame.f_back)
    while outer is not None:
        yield outer
        outer = user_frame_of(outer.f_back)


_COLLECTS = frozenset({"LIST_APPEND", "SET_ADD", "MAP_ADD"})
"""Bytecode instructions that mark the loop of a comprehension, as opposed to a statement; in displays their argument is
1.
"""


def _loops_of(code: CodeType) -> list[frozenset[int]]:
    """The line numbers of each `for` and `while` statement of `code`."""
    if code.co_name in ("<lambda>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"):
        return []
    instructions = [*dis.get_instructions(code)]
    loops = {
        (each.argval, each.offset)
        for each in instructions
        if each.opname.startswith(("JUMP_BACKWARD", "POP_JUMP_BACKWARD"))
    }
    # A loop that directly encloses such an instruction is a comprehension, not a statement.
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
