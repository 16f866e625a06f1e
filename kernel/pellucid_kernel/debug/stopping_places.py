"""Registry of places in calls that a front end can open in the debugger, by the numbers in figures and errors."""

from __future__ import annotations

import itertools
import secrets
import weakref
from typing import TYPE_CHECKING, Any, Protocol

from pellucid.introspect.errors import ArgumentTypeError

if TYPE_CHECKING:
    from pellucid_kernel.debug.debug_session import DebugSession
    from pellucid_viz.figure import Figure

# Numbers start at random, because a notebook may contain those of earlier kernels.
_numbers = itertools.count(secrets.randbelow(1 << 40))
_shown: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


class StoppingPlace(Protocol):
    """An object that can open a debugging session at a place of a call."""

    def opened(self) -> tuple[str, DebugSession]:
        """(name of the call, a session at the place)."""
        ...


def number_of(thing: Any) -> int:
    """Registers a displayed object and returns its number, valid while the object exists."""
    number = next(_numbers)
    _shown[number] = thing
    return number


def thing_of(number: int) -> Any:
    """The displayed object with this number; None if it no longer exists."""
    return _shown.get(number)


def display_bundle(
    figure: Figure, place: StoppingPlace | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """MIME bundle and metadata of a figure. With a `place`, the metadata has its number, for a button that opens it."""
    metadata = {} if place is None else {"pellucid": {"failure": number_of(place)}}
    return figure.displayed(), metadata


def check_function(function: Any, tool: str) -> None:
    """Raises ArgumentTypeError unless `function` is callable."""
    if not callable(function):
        raise ArgumentTypeError(
            f"{tool} takes a function, and its arguments in a second call.",
            got=f"got {type(function).__name__}",
            do=f"Write pl.debugger.{tool}(f)(x), with `f` instead of `f(x)`.",
        )


def check_condition(condition: Any) -> None:
    """Raises ArgumentTypeError unless `condition` is callable."""
    if not callable(condition):
        raise ArgumentTypeError(
            "find takes a condition: a function of one array that gives booleans.",
            got=f"got {type(condition).__name__}",
            do="Write pl.debugger.find(f, pl.debugger.isnan)(x), or exceeds(1e4), or a function of your own.",
        )
