"""Equations as the user sees them: stacks of lines, the lines that have any, and where breakpoints stop."""

from __future__ import annotations

from typing import Any, NamedTuple

from pellucid.introspect.stepping import name_of, programs_within, user_stack


class Line(NamedTuple):
    """A line that a function of the user stands at."""

    file: str
    function: str
    line: int


Stack = tuple[Line, ...]
"""Lines from that of the program's function to the innermost."""


class Places:
    """The stacks of all equations of a program and of the programs within it."""

    def __init__(self, jaxpr: Any) -> None:
        self._stacks: dict[Any, Stack] = {}
        self._programs = list(programs_within(jaxpr))
        for program in self._programs:
            self._read(program)

    def stack(self, equation: Any) -> Stack:
        """The lines of an equation; empty where none is the user's."""
        return self._stacks.get(equation, ())

    def lines(self, file: str) -> list[int]:
        """Lines of a file that equations come from, ascending."""
        stacks = self._stacks.values()
        return sorted({line.line for stack in stacks for line in stack if line.file == file})

    def files(self) -> set[str]:
        """Files that equations come from."""
        return {line.file for stack in self._stacks.values() for line in stack}

    def first_of(self, file: str, line: int) -> dict[Any, int]:
        """The equations with which the program comes to a line, each with the depth of the line in its stack."""
        depths: dict[Any, int] = {}
        for program in self._programs:
            previous: Stack = ()
            for equation in program.equations:
                stack = self.stack(equation)
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
