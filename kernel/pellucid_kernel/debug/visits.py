"""The stops of a program: the user's lines in the order in which Python ran them, each before the equations that it made."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pellucid.introspect.noting import Images, TracedMoment, images_of
from pellucid.introspect.stepping import can_enter, programs_within, slots_of
from pellucid_kernel.debug.equation_stacks import Line, Stack, equation_stacks

_calls = itertools.count(1)


class Visit(NamedTuple):
    """A place between two equations at which the user's functions stand on certain lines."""

    position: int
    """Of the first equation that comes after it."""
    lines: Stack
    """Where the functions stand that began in this program, outermost first."""
    calls: tuple[int, ...]
    """Numbers of these runs of functions: negative for those that no trace has noted, which lines of equations imply."""
    is_stop: bool
    """Whether a line begins here; False where a function has returned into the middle of one."""
    held: tuple[Mapping[str, Any] | None, ...]
    """What the names of each function hold, see `introspect.noting`; None where that wasn't noted."""
    batches: tuple[int | None, ...]
    """How many `vmap` of this program are around each function; None where that wasn't noted."""


def visits_of(jaxpr: Any) -> list[Visit]:
    """The visits of a program, in their order; remembered."""
    if "visits" not in jaxpr.memo:
        jaxpr.memo["visits"] = [*_visits_of(jaxpr)]
    return jaxpr.memo["visits"]


def has_stops(equation: Any, caller: Any) -> bool:
    """Whether somebody who goes into the programs of an equation of the program `caller` comes to lines of the user.

    What functions of the library compute in their own programs belongs to the line that calls them.
    """
    if not can_enter(equation):
        return False
    programs = [
        p for slot in slots_of(equation).programs for p in programs_within(slot.program.jaxpr)
    ]
    if images_of(caller) is None:
        return any(map(visits_of, programs))
    here = equation_stacks(caller).stack(equation)[-1:]
    return any(
        visit.is_stop and (visit.calls[-1] > 0 or visit.lines[-1:] != here)
        for program in programs
        for visit in visits_of(program)
    )


class _Around(NamedTuple):
    """The functions that were running while some equations were staged."""

    lines: Stack = ()
    calls: tuple[int, ...] = ()
    held: tuple[Mapping[str, Any], ...] = ()
    batches: tuple[int, ...] = ()


def _visits_of(jaxpr: Any) -> Iterator[Visit]:
    images = images_of(jaxpr)
    events: Sequence[TracedMoment] = () if images is None else images.notes.events
    implied = _Implied(jaxpr, images)
    around, position = _Around(), 0
    for event in events:
        reached = bisect.bisect_left(images.order, event.count)  # type: ignore[union-attr]
        yield from implied.visits(around, position, reached)
        around, position = _around(event), reached
        if event.activations:
            yield Visit(
                position, around.lines, around.calls, event.is_line, around.held, around.batches
            )
        implied.forget()
    yield from implied.visits(around, position, len(jaxpr.equations))


def _around(event: TracedMoment) -> _Around:
    codes = [each.code for each in event.activations]
    lines = tuple(
        [Line(c.co_filename, c.co_qualname, n) for c, n in zip(codes, event.lines, strict=True)]
    )
    calls = tuple([each.number + 1 for each in event.activations])
    batches = tuple([each.n_batches for each in event.activations])
    return _Around(lines, calls, event.held, batches)


class _Implied:
    """Visits that nobody noted: equations say by their lines which functions have made them.

    So do those of backward passes, and those of programs that were traced without a debugger. Two runs of one function from the
    same line, one right after the other, are one for them.
    """

    def __init__(self, jaxpr: Any, images: Images | None) -> None:
        self._equations = jaxpr.equations
        self._places = equation_stacks(jaxpr)
        self._n_around = None if images is None else images.notes.n_around
        self._lines: Stack = ()
        self._calls: tuple[int, ...] = ()

    def forget(self) -> None:
        """Begin anew: a function that was noted has gone on."""
        self._lines, self._calls = (), ()

    def visits(self, around: _Around, start: int, end: int) -> Iterator[Visit]:
        """The visits before some equations, which were made while the functions `around` stood where they do."""
        n = len(around.lines)
        for position in range(start, end):
            lines = self._lines_within(around, self._equations[position])
            before, calls = self._lines, self._calls
            if lines == before:
                continue
            same = _n_common(lines, before)
            is_same_call = len(lines) > same < len(before) and (
                lines[same].function == before[same].function
            )
            kept = calls[: same + is_same_call]
            self._lines = lines
            self._calls = (*kept, *[-next(_calls) for _ in lines[len(kept) :]])
            if len(lines) <= same:  # back in the middle of a line
                depths = [same] if lines or n else []
            else:
                depths = [*range(same + 1, len(lines) + 1)]
            for depth in depths:
                yield Visit(
                    position,
                    (*around.lines, *lines[:depth]),
                    (*around.calls, *self._calls[:depth]),
                    len(lines) > same,
                    (*around.held, *[None] * depth),
                    (*around.batches, *[None] * depth),
                )

    def _lines_within(self, around: _Around, equation: Any) -> Stack:
        """The lines of an equation in functions that `around` doesn't have."""
        if self._n_around is None:
            return self._places.stack(equation)
        n, stack = len(around.lines), self._places.whole(equation)[self._n_around :]
        return stack[n:] if stack[:n] == around.lines else ()


def _n_common(lines: Stack, others: Stack) -> int:
    same = 0
    while same < min(len(lines), len(others)) and lines[same] == others[same]:
        same += 1
    return same
