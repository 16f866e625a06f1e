"""Reads the text of an MLIR module beside the module: names of values, lines of operations.

MLIR numbers values anew for each name that it is asked for, so that asking for all of them takes quadratic time; the
text has them all. It has the operations in the order in which one walks the module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

_RESULTS = re.compile(r"^\s*((?:%[\w$.#-]+(?::\d+)?(?:, )?)+) = ")
_TYPED = re.compile(r"(%[\w$.-]+): ")
_ASSIGNED = re.compile(r"(%[\w$.-]+) = ")
_NO_OPERATION = ("}", "cond {", "module", "//")


class Printed(NamedTuple):
    """Contents of a module's text."""

    names: dict[Any, str]
    """For each value its name."""
    lines: list[tuple[Any, int]]
    """Each operation that is shown, with the index of its first line."""


class _Line(NamedTuple):
    number: int
    text: str
    arguments: list[str]
    """Names of the arguments of the block that the line is in, where they stood just before it."""


def printed_module(text: str, module: Any) -> Printed:
    """Names and lines of the operations within the functions of `module`, whose text is `text`."""
    printed = Printed({}, [])
    lines = _operation_lines(text)
    for function in module.body.operations:
        if function.operation.name == "func.func":
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
        elif stripped.startswith(
            "reducer("
        ):  # of several operands: so far and next of each, in pairs
            pairs = _TYPED.findall(stripped)
            arguments = pairs[::2] + pairs[1::2]
        elif stripped and not stripped.startswith(_NO_OPERATION):
            yield _Line(number, line, arguments)
            arguments = []


def _read_block(block: Any, arguments: list[str], lines: Iterator[_Line], printed: Printed) -> None:
    printed.names.update(zip(block.arguments, arguments, strict=False))
    for i, op in enumerate(block.operations):
        operation = op.operation
        line = next(lines)
        if i == 0 and line.arguments:
            printed.names.update(zip(block.arguments, line.arguments, strict=False))
        printed.lines.append((operation, line.number))
        printed.names.update(zip(operation.results, _result_names(line.text), strict=False))
        if " applies " in line.text:  # its region is one operation, which the line names
            continue
        if operation.name == "stablehlo.while":
            inner = _ASSIGNED.findall(line.text.partition("stablehlo.while(")[2])
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
