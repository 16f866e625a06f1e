"""Places that a front end can open in its debugger, by the numbers that figures and errors carry."""

from __future__ import annotations

import itertools
import secrets
import weakref
from typing import TYPE_CHECKING, Any, Protocol

from pellucid.introspect.errors import ArgumentTypeError

if TYPE_CHECKING:
    from pellucid_kernel.debug.debug_session import DebugSession
    from pellucid_viz.figure import Figure

_numbers = itertools.count(secrets.randbelow(1 << 40))  # a notebook has those of kernels before
_shown: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


class StoppingPlace(Protocol):
    """What knows a place of a call at which one can stop."""

    def opened(self) -> tuple[str, DebugSession]:
        """The name of the call, and a session there."""
        ...


def number_of(thing: Any) -> int:
    """A number for something that is shown, by which `thing_of` finds it while somebody keeps it."""
    number = next(_numbers)
    _shown[number] = thing
    return number


def thing_of(number: int) -> Any:
    """What was shown under a number; None if it is gone."""
    return _shown.get(number)


def displayed(figure: Figure, place: StoppingPlace | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """A figure for a cell's output, with the number of the place that a button below it opens; without one for None."""
    metadata = {} if place is None else {"pellucid": {"failure": number_of(place)}}
    return figure.displayed(), metadata


def check_function(function: Any, tool: str) -> None:
    """Raise ArgumentTypeError unless a tool is given a function."""
    if not callable(function):
        raise ArgumentTypeError(
            f"{tool} takes a function, and its arguments in a second call.",
            got=f"got {type(function).__name__}",
            do=f"Write pl.debugger.{tool}(f)(x), with `f` instead of `f(x)`.",
        )


def check_condition(condition: Any) -> None:
    """Raise ArgumentTypeError unless `find` is given a condition."""
    if not callable(condition):
        raise ArgumentTypeError(
            "find takes a condition: a function of one array that gives booleans.",
            got=f"got {type(condition).__name__}",
            do="Write pl.debugger.find(f, pl.debugger.isnan)(x), or exceeds(1e4), or a function of your own.",
        )
