"""Visits: the order in which Python executed the user's lines during tracing, each before the equations it made."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pellucid.introspect.noting import Images, TracedMoment, images_of
from pellucid.introspect.simulation import simulated_body
from pellucid.introspect.stepping import can_enter, programs_within, slots_of
from pellucid_kernel.debug.equation_stacks import Line, Stack, bodies_to_stop_in, equation_stacks

_calls = itertools.count(1)


class Visit(NamedTuple):
    """A place between two equations, with the line at which each of the user's functions is there."""

    position: int
    """Position of the equation that follows."""
    lines: Stack
    """Current lines of the functions called within this program, outermost first."""
    calls: tuple[int, ...]
    """Numbers of these function calls; negative if the call was not recorded during tracing, but derived from
    equations.
    """
    is_stop: bool
    """Whether a line begins here; False if a function has just returned into the middle of a line."""
    held: tuple[Mapping[str, Any] | None, ...]
    """For each function, what its names refer to (see `introspect.noting`); None if that wasn't recorded."""
    batches: tuple[int | None, ...]
    """For each function, the number of `vmap`s of this program around it; None if that wasn't recorded."""


def visits_of(jaxpr: Any) -> list[Visit]:
    """The visits of a program in order; cached."""
    if "visits" not in jaxpr.memo:
        jaxpr.memo["visits"] = [*_visits_of(jaxpr)]
    return jaxpr.memo["visits"]


def has_stops(equation: Any, caller: Any) -> bool:
    """Whether stepping into the programs of an equation of `caller` leads to lines of the user.

    Equations of programs made by library functions belong to the line that calls the function.
    """
    simulated = simulated_body(equation)
    if simulated is None and not can_enter(equation):
        return False
    bodies = (
        [simulated]
        if simulated is not None
        else [slot.program.jaxpr for slot in slots_of(equation).programs]
    )
    programs = [p for body in bodies for p in programs_within(body, bodies_to_stop_in)]
    if images_of(caller) is None:
        return any(map(visits_of, programs))
    here = equation_stacks(caller).stack(equation)[-1:]
    return any(
        visit.is_stop and (visit.calls[-1] > 0 or visit.lines[-1:] != here)
        for program in programs
        for visit in visits_of(program)
    )


class _Around(NamedTuple):
    """The functions that were active while some equations were staged."""

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
    """Visits derived from equations: which functions made an equation follows from its source lines.

    Needed for backward passes, and for programs traced without a debugger. Two consecutive calls of a function from the
    same line can't be distinguished.
    """

    def __init__(self, jaxpr: Any, images: Images | None) -> None:
        self._equations = jaxpr.equations
        self._places = equation_stacks(jaxpr)
        self._n_around = None if images is None else images.notes.n_around
        self._lines: Stack = ()
        self._calls: tuple[int, ...] = ()

    def forget(self) -> None:
        """Drops the lines and calls of the last visit."""
        self._lines, self._calls = (), ()

    def visits(self, around: _Around, start: int, end: int) -> Iterator[Visit]:
        """The visits before the equations `start` to `end`, which were staged while the functions `around` were at
        their lines.
        """
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
            if len(lines) <= same:  # execution returned to the middle of a line
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
        """The lines of an equation in functions called by those of `around`."""
        if self._n_around is None:
            return self._places.stack(equation)
        n, stack = len(around.lines), self._places.whole(equation)[self._n_around :]
        return stack[n:] if stack[:n] == around.lines else ()


def _n_common(lines: Stack, others: Stack) -> int:
    same = 0
    while same < min(len(lines), len(others)) and lines[same] == others[same]:
        same += 1
    return same
