"""Recursion levels that jaxlib's flattening doesn't give back when Python code in it fails.

A flattening that ends in an error from Python code (a predicate, a class's own flattening, a
comparison of dict keys) keeps one level of Python's recursion limit for each node around the
place of the error. The loss adds up in a thread that lives long; a tree that contains itself
takes all levels at once, and with them everything that the thread could still do.

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
"""Levels that handling an error needs, given before they are known to be missing."""

# No argument types: converting an argument to a declared type takes levels itself.
_enter = ctypes.pythonapi.Py_EnterRecursiveCall
leave_level = ctypes.pythonapi.Py_LeaveRecursiveCall
"""Give this thread one recursion level."""
leave_level.restype = None


def guarded(function: F) -> F:
    """`function`, called with one level kept aside, which its error leaves to `leave_level`.

    A `staticmethod` object is the quickest callable that enters a level for its call.
    """
    return staticmethod(function)  # type: ignore[return-value]


def give_levels(count: int) -> None:
    """Give this thread `count` recursion levels."""
    for _ in range(count):
        leave_level()


def take_levels(count: int) -> None:
    """Take `count` recursion levels from this thread, but not more than it has."""
    try:
        for _ in range(count):
            _enter(b"")
    except RecursionError:
        pass


def restore_levels() -> None:
    """Give this thread as many levels as a new one has, less one for each of its frames."""
    of_a_new_thread: list[int] = []
    thread = threading.Thread(target=lambda: of_a_new_thread.append(levels_left()))
    thread.start()
    thread.join()
    missing = of_a_new_thread[0] - _frame_count() - levels_left()
    give_levels(missing)
    take_levels(-missing)


def levels_left() -> int:
    """How many more levels this thread may enter in C, counted by entering them."""
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
