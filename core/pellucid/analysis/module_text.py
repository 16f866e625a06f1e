"""A parser of the printed text of an MLIR module: names of values, and lines of operations.

MLIR renumbers all values each time it is asked for a name, which makes asking for all names quadratic. The text
contains all names, with operations in the order of a walk through the module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

_RESULTS = re.compile(r"^\s*((?:%[\w$.#-]+(?::\d+)?(?:, )?)+) = ")
_TYPED = re.compile(r"(%[\w$.-]+): ")
_ASSIGNED = re.compile(r"(%[\w$.-]+) = ")
FUNCTIONS = ("func.func", "tt.func")
"""Operations that are functions, of StableHLO and of Triton."""
_NO_OPERATION = ("}", "cond {", "module", "//")


class Printed(NamedTuple):
    """Names and lines read from a module's text."""

    names: dict[Any, str]
    """Maps each value to its name."""
    lines: list[tuple[Any, int]]
    """Pairs (operation, index of its first line) of the operations in the text."""


class _Line(NamedTuple):
    number: int
    text: str
    arguments: list[str]
    """Names of the arguments of the line's block, if they were on the line before it."""


def printed_module(text: str, module: Any) -> Printed:
    """Names and lines of the operations within the functions of `module`, which was printed as `text`."""
    printed = Printed({}, [])
    lines = _operation_lines(text)
    for function in module.body.operations:
        if function.operation.name in FUNCTIONS:
            header = next(lines)
            _read_block(
                function.operation.regions[0].blocks[0], _TYPED.findall(header.text), lines, printed
            )
        else:
            next(lines)
    return printed


def _operation_lines(text: str) -> Iterator[_Line]:
    arguments: list[str] = []
    for number, line in enumerate(text.split("\n")):
        stripped = line.lstrip()
        if stripped.startswith("^"):
            arguments = _TYPED.findall(stripped)
        elif stripped.startswith("reducer("):  # with several operands: (accumulator, element) pairs
            pairs = _TYPED.findall(stripped)
            arguments = pairs[::2] + pairs[1::2]
        elif stripped and not stripped.startswith(_NO_OPERATION):
            yield _Line(number, line, arguments)
            arguments = []


def _read_block(block: Any, arguments: list[str], lines: Iterator[_Line], printed: Printed) -> None:
    printed.names.update(zip(block.arguments, arguments, strict=False))
    for i, op in enumerate(block.operations):
        operation = op.operation
        if operation.name == "scf.yield" and len(operation.operands) == 0:
            continue  # this operation has no line of its own
        line = next(lines)
        if i == 0 and line.arguments:
            printed.names.update(zip(block.arguments, line.arguments, strict=False))
        printed.lines.append((operation, line.number))
        printed.names.update(zip(operation.results, _result_names(line.text), strict=False))
        if " applies " in line.text:  # its region has one operation, named in the line
            continue
        if operation.name == "stablehlo.while":
            inner = _ASSIGNED.findall(line.text.partition("stablehlo.while(")[2])
        elif operation.name == "scf.for":
            inner = _ASSIGNED.findall(line.text.partition("scf.for ")[2])
        else:
            inner = _TYPED.findall(line.text)
        for region in operation.regions:
            for inner_block in region.blocks:
                _read_block(inner_block, inner, lines, printed)


def _result_names(line: str) -> Iterator[str]:
    """`%0`, or `%3#0`, `%3#1` for `%3:2`, or `%values`, `%indices`."""
    match = _RESULTS.match(line)
    for part in match.group(1).split(", ") if match else ():
        name, _, count = part.partition(":")
        if count:
            yield from (f"{name}#{i}" for i in range(int(count)))
        else:
            yield name
