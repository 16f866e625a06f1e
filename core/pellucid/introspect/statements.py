"""Assignments in a file: the user's names for the values of a program."""

from __future__ import annotations

import ast
import bisect
import linecache
from collections.abc import Iterator
from typing import NamedTuple

from pellucid._machine.base import cached

Range = tuple[int, int, int, int]
"""(Line, column, end line, end column), the form in which Python gives the position of a frame."""


class Assigned(NamedTuple):
    """An expression whose value is assigned by a statement."""

    names: tuple[str, ...]
    """The assigned variables; several if the value is unpacked."""


class Returned(NamedTuple):
    """An expression whose value a function returns, or one item of a returned tuple."""

    item: int | None


class Loop(NamedTuple):
    """A `for` or `while` statement, or a comprehension."""

    line: int
    body: Range


class Statements:
    """The statements of one file, by position."""

    def __init__(self, text: str) -> None:
        self.values: dict[Range, Assigned | Returned] = {}
        """Maps the position of an expression to the variables it is assigned to, if that is certain."""
        self.loops: list[Loop] = []
        """Loops and comprehensions of the file, in no particular order."""
        self._starts: list[tuple[int, int]] = []
        self._ends: list[tuple[int, int]] = []
        self._variables: list[str] = []
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            return
        bindings = sorted(self._read(tree))
        for start, end, variable in bindings:
            self._starts.append(start)
            self._ends.append(end)
            self._variables.append(variable)

    def variable(self, place: Range) -> str:
        """The variable assigned by the statement that contains `place`; empty if there is none."""
        line, column, end_line, end_column = place
        i = bisect.bisect_right(self._starts, (line, column)) - 1
        if i >= 0 and (end_line, end_column) <= self._ends[i]:
            return self._variables[i]
        return ""

    def loop_around(self, place: Range, first_line: int) -> Loop | None:
        """The innermost loop that runs the code at `place`, in the function that begins at `first_line`."""
        around = [
            loop for loop in self.loops
            if loop.line >= first_line
            and loop.body[:2] <= place[:2] and place[2:] <= loop.body[2:]
        ]  # fmt: skip
        return max(around, key=lambda loop: loop.body[:2], default=None)

    def _read(self, tree: ast.AST) -> Iterator[tuple[tuple[int, int], tuple[int, int], str]]:
        for node in ast.walk(tree):
            match node:
                case ast.For(body=[first, *_]) | ast.While(body=[first, *_]):
                    self.loops.append(Loop(node.lineno, _range(first)[:2] + _range(node)[2:]))
                    continue
                case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                    self.loops.append(Loop(node.lineno, _range(node)))
                    continue
                case ast.Assign(targets=[*_, target], value=value):
                    self._assign(target, value)
                    variable = ", ".join(_names(target))
                case ast.AnnAssign(target=target, value=value) if value is not None:
                    self._assign(target, value)
                    variable = ast.unparse(target)
                case ast.AugAssign(target=target):
                    # Python gives the operation of `x += y` the position of the whole statement.
                    self.values[_range(node)] = Assigned((ast.unparse(target),))
                    variable = ast.unparse(target)
                case ast.NamedExpr(target=target, value=value):
                    self._assign(target, value)
                    continue
                case ast.Return(value=value) if value is not None:
                    self._add_returned(value)
                    variable = ""
                case ast.Lambda(body=body):
                    self._add_returned(body)
                    continue
                case _:
                    continue
            start, end = _range(node)[:2], _range(node)[2:]
            yield start, end, variable

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        names = _names(target)
        if isinstance(value, ast.Tuple) and len(value.elts) == len(names):
            for name, item in zip(names, value.elts, strict=True):
                self.values[_range(item)] = Assigned((name,))
        else:
            self.values[_range(value)] = Assigned(names)

    def _add_returned(self, value: ast.expr) -> None:
        self.values[_range(value)] = Returned(None)
        if isinstance(value, ast.Tuple):
            for i, item in enumerate(value.elts):
                self.values[_range(item)] = Returned(i)


def _range(node: ast.expr | ast.stmt) -> Range:
    return node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or 0


def _names(target: ast.expr) -> tuple[str, ...]:
    items = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
    return tuple(map(ast.unparse, items))


def statements_of(file: str) -> Statements:
    """The statements of `file`, read through `linecache`; none if it can't be read."""
    return _parse("".join(linecache.getlines(file)))


@cached(64)
def _parse(text: str) -> Statements:
    return Statements(text)
