"""Equations as the user sees them: stacks of lines, the lines that have any, and where breakpoints stop."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Any, NamedTuple

from pellucid.introspect.bodies import bodies_of
from pellucid.introspect.spans import source_record
from pellucid.introspect.stepping import (
    name_of,
    programs_within,
    user_codes,
    user_stack,
)
from pellucid_kernel.debug.schema import UserLineColumns


class Line(NamedTuple):
    """A line that a function of the user stands at."""

    file: str
    function: str
    line: int


class Span(NamedTuple):
    """The lines of a function's body."""

    first: int
    last: int


Stack = tuple[Line, ...]
"""Lines from that of the program's function to the innermost."""


def equation_stacks(jaxpr: Any) -> EquationStacks:
    """The places of a program; remembered."""
    if "equation stacks" not in jaxpr.memo:
        jaxpr.memo["equation stacks"] = EquationStacks(jaxpr)
    return jaxpr.memo["equation stacks"]


class EquationStacks:
    """The stacks of all equations of a program and of the programs within it."""

    def __init__(self, jaxpr: Any) -> None:
        self._stacks: dict[Any, Stack] = {}
        self._whole: dict[Any, Stack] = {}
        self._spans: dict[str, tuple[Span, ...]] = {}
        self._programs = list(programs_within(jaxpr))
        for program in self._programs:
            self._read(program)
        self._call_lines: dict[Any, set[Line]] = {}
        """By program the innermost lines of the equations that run it."""
        for program in self._programs:
            for equation in program.equations:
                for body in bodies_of(equation):
                    self._call_lines.setdefault(body.jaxpr, set()).update(self.stack(equation)[-1:])

    def stack(self, equation: Any) -> Stack:
        """The lines of an equation; empty where none is the user's."""
        return self._stacks.get(equation, ())

    def whole(self, equation: Any) -> Stack:
        """The lines of an equation with those of the functions around the program's."""
        return self._whole.get(equation, ())

    def lines(self, file: str) -> list[int]:
        """Lines of a file that equations come from, ascending."""
        stacks = self._stacks.values()
        return sorted({line.line for stack in stacks for line in stack if line.file == file})

    def resolve(self, file: str, line: int) -> int | None:
        """The line where a breakpoint at `line` stops: the first from there on that computes, of the same function.

        None where there is none. A line of no function, as a decorator or a call, stands for itself.
        """
        function = self._function_around(file, line)
        for each in self.lines(file):
            if each == line or (
                each > line
                and function is not None
                and self._function_around(file, each) == function
            ):
                return each
        return None

    def _function_around(self, file: str, line: int) -> Span | None:
        """The body of the innermost `def` that a line lies in; None for none, or a file that can't be read."""
        if file not in self._spans:
            self._spans[file] = _spans("".join(linecache.getlines(file)))
        return max((s for s in self._spans[file] if s.first <= line <= s.last), default=None)

    def files(self) -> set[str]:
        """Files that equations come from."""
        return {line.file for stack in self._stacks.values() for line in stack}

    def is_changed(self, file: str) -> bool:
        """Whether a module's file has another text than the functions that were traced.

        False for what other loaders than Python's own have loaded: they may rewrite code.
        """
        specs = [
            m.__spec__ for m in list(sys.modules.values()) if getattr(m, "__file__", "") == file
        ]
        loader = next((spec.loader for spec in specs if spec is not None), None)
        if type(loader) is not SourceFileLoader:
            return False
        equations = [e for program in self._programs for e in program.equations]
        traced = {code for e in equations for code in user_codes(e) if code.co_filename == file}
        try:
            return not traced <= {*_codes_of(loader.get_code(loader.name))}
        except (OSError, SyntaxError):
            return True

    def first_of(self, file: str, line: int) -> dict[Any, int]:
        """The equations with which the program comes to a line, each with the depth of the line in its stack.

        What a loop or a function of the library computes in its own programs belongs to the line that calls it.
        """
        depths: dict[Any, int] = {}
        for program in self._programs:
            previous: Stack = ()
            for equation in program.equations:
                stack = self.stack(equation)
                if not self._call_lines.get(program, set()).isdisjoint(stack[-1:]):
                    continue
                for depth, each in enumerate(stack, 1):
                    if (
                        each.file == file
                        and each.line == line
                        and previous[:depth] != stack[:depth]
                    ):
                        depths[equation] = depth
                previous = stack
        return depths

    def _read(self, program: Any) -> None:
        """Stacks below the frames that called the program's function, or that all its equations share."""
        name = name_of(program)
        full = {
            e: tuple([Line(f.file, f.function, f.line) for f in user_stack(e)])
            for e in program.equations
        }
        self._whole |= full
        stacks = [stack for stack in full.values() if stack]
        shared = 0
        while stacks and all(
            len(stack) > shared + 1 and stack[shared] == stacks[0][shared] for stack in stacks
        ):
            shared += 1
        for equation, stack in full.items():
            entries = [
                i for i, line in enumerate(stack) if line.function.rpartition(".")[2] == name
            ]
            self._stacks[equation] = stack[entries[0] if entries else shared :]


def user_line_columns(equations: Sequence[Any]) -> UserLineColumns:
    """The user's innermost lines of equations, as front ends link to them."""
    stacks = [user_stack(equation) for equation in equations]
    return columns_of_lines([stack[-1] if stack else None for stack in stacks])


def columns_of_lines(lines: Sequence[Any]) -> UserLineColumns:
    """Lines of the user, None where there is none, as front ends link to them."""
    numbers: dict[str, list[int]] = {}
    for line in lines:
        if line is not None:
            numbers.setdefault(line.file, []).append(line.line)
    files = [*numbers]
    return UserLineColumns(
        sources=[source_record(file, (min(n), max(n))) for file, n in numbers.items()],
        source=[-1 if line is None else files.index(line.file) for line in lines],
        line=[0 if line is None else line.line for line in lines],
    )


def _codes_of(code: CodeType | None) -> Iterator[CodeType]:
    """A code object and those of the functions within it."""
    if code is not None:
        yield code
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from _codes_of(constant)


def _spans(text: str) -> tuple[Span, ...]:
    """The bodies of the functions of a file."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return ()
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return tuple(
        Span(min(_signature_end(node) + 1, node.body[0].lineno), node.end_lineno or node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, functions)
    )


def _signature_end(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The last line with a part of the signature."""
    parts = [
        node for node in (*ast.walk(function.args), function.returns) if hasattr(node, "end_lineno")
    ]
    return max([function.lineno, *[node.end_lineno for node in parts]])  # type: ignore[union-attr]
