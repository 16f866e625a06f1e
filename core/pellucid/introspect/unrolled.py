"""Functions that are being traced or compiled: the size of the program, the calling line, and unrolled Python loops in
it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import Any, NamedTuple

from pellucid._machine.base import source
from pellucid._machine.ir import Equation, Jaxpr
from pellucid._machine.tracing import stage

from .bodies import programs_within
from .statements import statements_of

MIN_ITERATIONS = 16
_MAX_EQUATIONS = 20_000
"""Maximum number of equations that are compared; the first ones suffice."""


class UnrolledLoop(NamedTuple):
    """A Python loop of the user that was traced iteration by iteration."""

    file: str
    line: int
    """Line of the `for`, `while` or comprehension."""
    iterations: int
    """How often the most frequent of its operations has been traced so far."""


class UserLine(NamedTuple):
    """A line of the user's code."""

    source: str
    """Name of the cell or file."""
    line: int


def calling_line() -> UserLine | None:
    """The innermost user line of the current call stack; None if there is none."""
    frame = source.user_frame(source.capture())
    return None if frame is None else user_line(frame.file, frame.line)


def running_line(frame: FrameType | None) -> UserLine | None:
    """The innermost user line of a frame, which may be of another thread, and of its callers; None if there is none."""
    while frame is not None and not source.is_user_file(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else user_line(frame.f_code.co_filename, frame.f_lineno)


def user_line(file: str, line: int) -> UserLine:
    """The record of a line of a file, or of the cell whose code has that file name."""
    return UserLine(source.cell_name(file) or os.path.basename(file), line)


def equation_count(program: Any) -> int:
    """Number of equations of a jaxpr and of those within it; for a trace, those staged so far."""
    programs = programs_within(program) if isinstance(program, Jaxpr) else [program]
    return sum(len(each.equations) for each in programs)


def _places_within_trace(traceback: Any) -> list[tuple[CodeType, int]]:
    """Code and current instruction of the user's frames, innermost first, up to the outermost trace."""
    codes, offsets = traceback.raw_frames()
    ends = [i for i, code in enumerate(codes) if code is stage.__code__]
    inner = list(zip(codes, offsets, strict=True))[: ends[-1] if ends else None]
    return [(code, offset) for code, offset in inner if source.is_user_file(code.co_filename)]


def unrolled_loop(equations: Sequence[Equation]) -> UnrolledLoop | None:
    """The loop to which most of the repeated equations belong; None if none has 16 iterations or more.

    Equations are repetitions of each other if they have the same primitive and the same stack of the user's frames, up
    to the outermost trace: a loop around that would trace each iteration by itself.
    """
    repeated = Counter(
        [
            (each.primitive.name, tuple(_places_within_trace(each.source)))
            for each in equations[:_MAX_EQUATIONS]
            if each.source is not None
        ]
    )
    for (_, places), count in repeated.most_common(4):
        if count < MIN_ITERATIONS:
            return None
        for code, offset in places:
            frame = source.frame_of(code, offset)
            place = (frame.line, frame.column, frame.end_line, frame.end_column)
            loop = statements_of(frame.file).loop_around(place, code.co_firstlineno)
            if loop is not None:
                return UnrolledLoop(frame.file, loop.line, count)
    return None
