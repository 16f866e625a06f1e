"""Recursion levels that jaxlib's flattening doesn't give back when it fails.

A flattening that ends in an error from Python code (a predicate, a class's own flattening, a
comparison of dict keys) keeps one level of Python's recursion limit for each node around the
place of the error. The loss adds up in a thread that lives long, until every call fails.
"""

import ctypes

_leave = ctypes.pythonapi.Py_LeaveRecursiveCall
_leave.restype = None


def give_back_levels(count: int) -> None:
    """Give this thread `count` recursion levels back that a failed flattening has kept."""
    for _ in range(count):
        _leave()
