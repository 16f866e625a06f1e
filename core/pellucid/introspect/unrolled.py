"""Programs that are traced or compiled now: their size, where they were called, and unrolled Python loops in them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from types import CodeType
from typing import Any, NamedTuple

from pellucid._machine.base import source
from pellucid._machine.ir import Equation, Jaxpr
from pellucid._machine.tracing import stage

from .bodies import programs_within
from .statements import statements_of

MIN_ITERATIONS = 16
_MAX_EQUATIONS = 20_000
"""Maximum number of equations that are compared: the first ones are enough."""


class UnrolledLoop(NamedTuple):
    """A Python loop of the user that was traced iteration by iteration."""

    file: str
    line: int
    """Of the `for`, `while` or comprehension."""
    iterations: int
    """How often the most frequent of its operations was traced so far."""


class UserLine(NamedTuple):
    """A line of the user."""

    source: str
    """Name of the cell or file."""
    line: int


def calling_line() -> UserLine | None:
    """The innermost line of the user that led here; None where there is none."""
    frame = source.user_frame(source.capture())
    return None if frame is None else user_line(frame.file, frame.line)


def user_line(file: str, line: int) -> UserLine:
    """A line of a file, or of the cell whose code the file has."""
    return UserLine(source.cell_name(file) or os.path.basename(file), line)


def equation_count(program: Any) -> int:
    """Equations of a jaxpr and of those within it; of a trace those so far."""
    programs = programs_within(program) if isinstance(program, Jaxpr) else [program]
    return sum(len(each.equations) for each in programs)


def _places_within_trace(traceback: Any) -> list[tuple[CodeType, int]]:
    """Where the user's frames stand in their code, innermost first, up to the outermost trace."""
    codes, offsets = traceback.raw_frames()
    ends = [i for i, code in enumerate(codes) if code is stage.__code__]
    inner = list(zip(codes, offsets, strict=True))[: ends[-1] if ends else None]
    return [(code, offset) for code, offset in inner if source.is_user_file(code.co_filename)]


def unrolled_loop(equations: Sequence[Equation]) -> UnrolledLoop | None:
    """The loop that most of the repeated equations come from; None where none ran 16 times or more.

    Equations are repeated if they have the same primitive and come from the same places of all the user's frames, from
    the outermost trace on: a loop around that traces again and again.
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
