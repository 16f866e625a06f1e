"""Which of the values that a name was given in a function is its value before a line."""

from __future__ import annotations

import pytest

from pellucid.introspect.statements import Statements

NESTED = """
def function(c):
    y = c
    def inner(a):
        y = a * 3
        return y
    return inner(y)
"""

BRANCHES = """
def function(c, flag):
    if flag:
        y = c
    else:
        y = -c
    return y
"""

CASES = """
def function(c, kind):
    match kind:
        case 1:
            y = c
        case _:
            y = -c
    return y
"""

CAPTURE = """
def function(c):
    y = c
    match [c]:
        case [y]:
            z = y
    return y
"""

MAYBE = """
def function(c, flag):
    y = c
    if flag:
        y = -c
    return y
"""

DELETED = """
def function(c):
    y = c
    del y
    return c
"""

NONLOCAL = """
def function(c):
    y = c
    def inner():
        nonlocal y
        y = -y
    inner()
    return y
"""

COMPREHENSION = """
def function(c):
    y = c
    z = [y for y in c]
    return y
"""

TWICE = """
def outer(c):
    def function(a):
        y = a
        return y
    p = function(c)
    def function(a):
        y = -a
        return y
    return function(p)
"""


@pytest.mark.parametrize(
    ("text", "bound", "line", "is_current"),
    [
        (NESTED, 3, 7, True),
        (BRANCHES, 4, 7, True),
        (BRANCHES, 6, 7, True),
        (CASES, 5, 8, True),
        (CASES, 7, 8, True),
        (CAPTURE, 3, 6, False),
        (CAPTURE, 3, 7, False),
        (CAPTURE, 5, 7, True),
        (MAYBE, 3, 4, True),
        (MAYBE, 3, 6, False),
        (MAYBE, 5, 6, True),
        (DELETED, 3, 4, True),
        (DELETED, 3, 5, False),
        (NONLOCAL, 3, 8, False),
        (COMPREHENSION, 3, 5, True),
        (TWICE, 4, 5, True),
        (TWICE, 8, 5, False),
        (TWICE, 4, 9, False),
        (TWICE, 8, 9, True),
    ],
)  # fmt: skip
def test_the_value_of_a_name_before_a_line_is_the_one_that_python_has(
    text: str, bound: int, line: int, is_current: bool
) -> None:
    """`MAYBE` at its end: what the first line gave may be the value, but it isn't certain."""
    statements = Statements(text)
    for is_backward in (False, True):
        found = statements.is_current("y", bound, "function", line, is_backward=is_backward)
        assert found == is_current


def test_a_name_that_an_inner_function_changes_has_no_value_there_before() -> None:
    assert not Statements(NONLOCAL).is_current("y", 6, "inner", 6, is_backward=True)
