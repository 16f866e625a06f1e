"""Repair of recursion levels that jaxlib's flattening loses when Python code in it fails.

If a flattening ends with an error of Python code (a predicate, a class's flattening function, a comparison of dict
keys), it doesn't give back one level of Python's recursion limit for each node around the place of the error. The
losses add up in a long-lived thread; a tree that contains itself uses all levels at once, so that the thread can't do
anything any more.

    try:
        return guarded(pytree.flatten)(tree)
    except Exception:
        for _ in SPARE_LEVELS:  # before any other call
            leave_level()
        …                       # then `take_levels`, `give_levels` or `restore_levels`
"""

import ctypes
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

SPARE_LEVELS = range(64)
"""Number of levels needed to handle an error, given back before the loss is known."""

# No argument types: converting an argument to a declared type uses recursion levels itself.
_enter = ctypes.pythonapi.Py_EnterRecursiveCall
leave_level = ctypes.pythonapi.Py_LeaveRecursiveCall
"""Gives this thread one recursion level back."""
leave_level.restype = None


def guard(function: F) -> F:
    """`function`, called with one level in reserve, which is available to `leave_level` after an error.

    A `staticmethod` object is the fastest callable that enters a recursion level.
    """
    return staticmethod(function)  # type: ignore[return-value]


def give_levels(count: int) -> None:
    """Gives this thread `count` recursion levels."""
    for _ in range(count):
        leave_level()


def take_levels(count: int) -> None:
    """Takes `count` recursion levels from this thread, at most as many as it has."""
    try:
        for _ in range(count):
            _enter(b"")
    except RecursionError:
        pass


def restore_levels() -> None:
    """Sets this thread's levels to those of a new one, minus one for each of its frames."""
    of_a_new_thread: list[int] = []
    thread = threading.Thread(target=lambda: of_a_new_thread.append(remaining_levels()))
    thread.start()
    thread.join()
    missing = of_a_new_thread[0] - _frame_count() - remaining_levels()
    give_levels(missing)
    take_levels(-missing)


def remaining_levels() -> int:
    """Number of levels that this thread can still enter in C, counted by entering them."""
    count = 0
    try:
        while True:
            _enter(b"")
            count += 1
    except RecursionError:
        for _ in SPARE_LEVELS:
            leave_level()
    give_levels(count - len(SPARE_LEVELS))
    take_levels(len(SPARE_LEVELS) - count)
    return count


def _frame_count() -> int:
    count, frame = 0, sys._getframe()
    while frame is not None:
        count, frame = count + 1, frame.f_back
    return count
