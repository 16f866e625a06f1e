"""Python loops that a program has once for each of their iterations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from pellucid.base import source
from pellucid.introspect.statements import statements_of
from pellucid.ir.jaxpr import Equation

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


def unrolled_loop(equations: Sequence[Equation]) -> UnrolledLoop | None:
    """The loop that most of the repeated equations come from; None where none ran 16 times or more.

    Equations are repeated if they have the same primitive and come from the same places of all the user's frames.
    """
    repeated = Counter(
        [
            (each.primitive.name, tuple(source.user_places(each.source)))
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
