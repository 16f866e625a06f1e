"""Stacks of user lines by equation, lines with equations, and the lines at which breakpoints stop."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Any, NamedTuple

from pellucid.introspect.bodies import EquationBody, bodies_of
from pellucid.introspect.simulation import simulated_body
from pellucid.introspect.spans import source_record
from pellucid.introspect.stepping import (
    name_of,
    programs_within,
    user_codes,
    user_stack,
)
from pellucid_kernel.debug.schema import UserLineColumns


class Line(NamedTuple):
    """A line of user code and its function."""

    file: str
    function: str
    line: int


class Span(NamedTuple):
    """Range of lines of a function's body."""

    first: int
    last: int


Stack = tuple[Line, ...]
"""User lines from the program's function to the innermost call."""


def equation_stacks(jaxpr: Any) -> EquationStacks:
    """The stacks of a program's equations; cached."""
    if "equation stacks" not in jaxpr.memo:
        jaxpr.memo["equation stacks"] = EquationStacks(jaxpr)
    return jaxpr.memo["equation stacks"]


def bodies_to_stop_in(equation: Any) -> list[EquationBody]:
    """The programs of an equation in which a debugger stops: also the kernel that it simulates."""
    body = simulated_body(equation)
    own = [] if body is None else [EquationBody(body, "kernel", None, is_branch=False)]
    return [*bodies_of(equation), *own]


class EquationStacks:
    """Stacks of user lines of all equations in a program and the programs within it."""

    def __init__(self, jaxpr: Any) -> None:
        self._stacks: dict[Any, Stack] = {}
        self._whole: dict[Any, Stack] = {}
        self._spans: dict[str, tuple[Span, ...]] = {}
        self._lines_in: dict[Any, frozenset[Line]] = {}
        self._has_own_lines = False
        """Whether an equation is of a function for which its program was traced."""
        self._programs = list(programs_within(jaxpr, bodies_to_stop_in))
        for program in self._programs:
            self._read(program)
        self.is_of_user = self._has_own_lines or len({*self._whole.values()} - {()}) > 1
        """Whether its function is the user's: one of the library that is jitted has the line that called it first."""
        self.simulated = [
            e for p in self._programs for e in p.equations if simulated_body(e) is not None
        ]
        """The equations that run kernels in the simulator."""
        self._call_lines: dict[Any, set[Line]] = {}
        """For each program, the innermost lines of the equations that call it."""
        for program in self._programs:
            for equation in program.equations:
                for body in bodies_to_stop_in(equation):
                    self._call_lines.setdefault(body.jaxpr, set()).update(self.stack(equation)[-1:])

    def stack(self, equation: Any) -> Stack:
        """User lines of an equation within its program; empty if there are none."""
        return self._stacks.get(equation, ())

    def whole(self, equation: Any) -> Stack:
        """User lines of an equation, with those of the functions that called its program."""
        return self._whole.get(equation, ())

    def lines(self, file: str) -> list[int]:
        """Sorted lines of a file that have equations."""
        stacks = self._stacks.values()
        return sorted({line.line for stack in stacks for line in stack if line.file == file})

    def resolve(self, file: str, line: int) -> int | None:
        """The line where a breakpoint at `line` stops: the first line of the same function, from `line` on, with an
        equation.

        None if there is none. Outside of functions, for example at a decorator, a line is only resolved to itself.
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
        """Body of the innermost `def` that contains a line; None outside of functions, or if the file can't be read."""
        if file not in self._spans:
            self._spans[file] = _spans("".join(linecache.getlines(file)))
        return max((s for s in self._spans[file] if s.first <= line <= s.last), default=None)

    def lines_in(self, program: Any) -> frozenset[Line]:
        """The lines of all equations within one of its programs; cached."""
        if program not in self._lines_in:
            programs = programs_within(program, bodies_to_stop_in)
            lines = [line for p in programs for e in p.equations for line in self.stack(e)]
            self._lines_in[program] = frozenset(lines)
        return self._lines_in[program]

    def files(self) -> set[str]:
        """Files with lines of equations."""
        return {line.file for stack in self._stacks.values() for line in stack}

    def is_changed(self, file: str) -> bool:
        """Whether a module's file has been edited since its functions were traced.

        False for modules loaded by other than Python's own loaders, which may rewrite code.
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
        """The first equations of each visit to a line, with the depth of the line in their stacks.

        Equations of programs made by library functions belong to the line that calls the function.
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
        """Reads the stacks of a program, from its function on or, if that isn't in one, without the frames that all
        share.
        """
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
            self._has_own_lines = self._has_own_lines or bool(entries)
            self._stacks[equation] = stack[entries[0] if entries else shared :]


def line_within(line: str, iterations: Sequence[int]) -> str:
    """The text of a line, with the iterations of the loops around it, innermost first.

    >>> line_within("model.py, line 3: `y = x * 2`", (2, 5))
    'model.py, line 3, in iteration 5 of iteration 2: `y = x * 2`'
    """
    numbers = " of ".join(f"iteration {i}" for i in reversed(iterations))
    if not numbers:
        return line
    place, *code = line.split(": ", 1)
    return ": ".join([f"{place}, in {numbers}" if place else f"in {numbers}", *code])


def user_line_columns(equations: Sequence[Any]) -> UserLineColumns:
    """The innermost user lines of equations, as columns for front ends."""
    stacks = [user_stack(equation) for equation in equations]
    return columns_of_lines([stack[-1] if stack else None for stack in stacks])


def columns_of_lines(lines: Sequence[Any]) -> UserLineColumns:
    """User lines (None for no line) as columns for front ends."""
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
    """A code object and, recursively, those of the functions defined in it."""
    if code is not None:
        yield code
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from _codes_of(constant)


def _spans(text: str) -> tuple[Span, ...]:
    """The bodies of the functions in a source text."""
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
    """Last line of a function's signature."""
    parts = [
        node for node in (*ast.walk(function.args), function.returns) if hasattr(node, "end_lineno")
    ]
    return max([function.lineno, *[node.end_lineno for node in parts]])  # type: ignore[union-attr]
