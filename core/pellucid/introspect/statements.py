"""Assignments in a file: the user's names for the values of a program."""

from __future__ import annotations

import ast
import bisect
import linecache
import re
from collections.abc import Iterator
from typing import NamedTuple

from pellucid._machine.base import cached

Range = tuple[int, int, int, int]
"""(Line, column, end line, end column), the form in which Python gives the position of a frame."""


_ROOT = re.compile(r"\w+")
"""The variable with which a path such as `state['w']` begins."""


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


class Binding(NamedTuple):
    """A place where a function gives a name a value: a statement, or the parameters, at the first line of the function."""

    line: int
    end_line: int


class Statements:
    """The statements of one file, by position."""

    def __init__(self, text: str) -> None:
        self.values: dict[Range, Assigned | Returned] = {}
        """Maps the position of an expression to the variables it is assigned to, if that is certain."""
        self.loops: list[Loop] = []
        """Loops and comprehensions of the file, in no particular order."""
        self._functions: list[tuple[int, int, str, frozenset[str]]] = []
        """First and last line of each function, its name and its parameters."""
        self._bindings: dict[str, list[Binding]] = {}
        """The statements that assign each variable or path, such as `x` or `state['w']`."""
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

    def is_current(
        self, name: str, bound: int, function: str, line: int, *, is_backward: bool
    ) -> bool:
        """Whether what `name` was given at the line `bound` is its value before `line` of `function`, as far as known.

        `bound` is 0 for an argument. If `is_backward`, `line` runs in a backward pass, after all others, and what it saw in
        the forward pass is asked for.
        """
        around = [f for f in self._functions if f[0] <= line <= f[1] and f[2] == function]
        if not around:
            return True
        first, last, _, parameters = max(around, key=lambda f: f[0])
        root = _ROOT.match(name)
        names = dict.fromkeys((name, root[0] if root is not None else name))
        bindings = [
            each for n in names for each in self._bindings.get(n, ()) if first <= each.line <= last
        ]
        in_loop = any(
            first < loop.line and loop.body[0] <= each.line <= loop.body[2]
            for each in bindings
            for loop in self.loops
        )
        if in_loop:
            return not is_backward
        if len(bindings) + any(n in parameters for n in names) < 2:
            return True
        before = [each for each in bindings if each.line < line]
        if not before:
            return bound == 0
        latest = max(before)
        return latest.line <= bound <= latest.end_line

    def _read(self, tree: ast.AST) -> Iterator[tuple[tuple[int, int], tuple[int, int], str]]:
        for node in ast.walk(tree):
            self._note_bindings(node)
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

    def _note_bindings(self, node: ast.AST) -> None:
        match node:
            case (
                ast.FunctionDef(args=arguments)
                | ast.AsyncFunctionDef(args=arguments)
                | ast.Lambda(args=arguments)
            ):
                names = frozenset(
                    each.arg for each in ast.walk(arguments) if isinstance(each, ast.arg)
                )
                name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
                self._functions.append((node.lineno, node.end_lineno or node.lineno, name, names))
                return
            case ast.For(target=target) | ast.AsyncFor(target=target):
                targets, last = [target], target
            case ast.With() | ast.AsyncWith():
                targets, last = (
                    [x.optional_vars for x in node.items if x.optional_vars],
                    node.items[-1].context_expr,
                )
            case ast.Assign(targets=targets):
                last = node
            case (
                ast.AnnAssign(target=target)
                | ast.AugAssign(target=target)
                | ast.NamedExpr(target=target)
            ):
                targets, last = [target], node
            case _:
                return
        binding = Binding(node.lineno, last.end_lineno or node.lineno)
        for target in targets:
            for each in ast.walk(target):
                if isinstance(each, (ast.Name, ast.Attribute, ast.Subscript)) and isinstance(
                    each.ctx, ast.Store
                ):
                    self._bindings.setdefault(ast.unparse(each), []).append(binding)

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
