"""Reads the text of an HLO module: computations, instructions, where they come from.

The text is what all releases of XLA give; the binary form has the same facts and changes its numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple


class Instruction(NamedTuple):
    """One line of a computation."""

    name: str
    is_root: bool
    type: str
    """As printed, `f32[3,4]{1,0}` or a tuple of such."""
    opcode: str
    operands: list[str]
    """Names of instructions."""
    payload: str
    """What stands in the parentheses of a parameter or a constant."""
    attributes: list[tuple[str, str]]
    """All but the called computations and the metadata."""
    called: list[tuple[str, str]]
    """(attribute, name of a computation): `to_apply`, `calls`, `body`, …"""
    path: str
    """The location's name that the operation had in StableHLO; empty where XLA made it."""


class Computation(NamedTuple):
    """A program of instructions."""

    name: str
    is_entry: bool
    instructions: list[Instruction]


_HEADER = re.compile(r"^(ENTRY )?%?([\w.$-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.$-]+) = ")
_OPCODE = re.compile(r"\s*([\w-]+)\(")
_NAME = re.compile(r"%([\w.$-]+)")
_PATH = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_CALLING = frozenset({
    "to_apply", "calls", "condition", "body", "branch_computations", "called_computations", "true_computation",
    "false_computation", "select", "scatter", "async_execution_thread_computation",
})  # fmt: skip
_CLOSING = {"(": ")", "{": "}", "[": "]"}


def parse(text: str) -> list[Computation]:
    """The computations of a module, the entry first, callees after their callers where the text allows."""
    found: list[Computation] = []
    current: Computation | None = None
    for line in text.split("\n"):
        header = _HEADER.match(line)
        if header:
            current = Computation(header.group(2), bool(header.group(1)), [])
            found.append(current)
        elif line.startswith("}"):
            current = None
        elif current is not None:
            instruction = parse_instruction(line)
            if instruction is not None:
                current.instructions.append(instruction)
    found.reverse()
    found.sort(key=lambda computation: not computation.is_entry)
    return found


def parse_instruction(line: str) -> Instruction | None:
    """The instruction on a line; None where there is none.

    >>> parse_instruction('  ROOT %b = f32[2]{0} add(%a, %a), metadata={op_name="jit(f)/add#e7"}')[:5]
    ('b', True, 'f32[2]{0}', 'add', ['a', 'a'])
    """
    match = _INSTRUCTION.match(line)
    if match is None:
        return None
    rest = line[match.end() :]
    type_end = _matching(rest, 0) if rest.startswith("(") else rest.index(" ")
    opcode = _OPCODE.match(rest, type_end)
    if opcode is None:
        return None
    end = _matching(rest, opcode.end() - 1)
    inside = rest[opcode.end() : end - 1]
    name_and_root = match.group(2), bool(match.group(1))
    is_leaf = opcode.group(1) in ("parameter", "constant")
    attributes, called, path = _attributes(rest[end:])
    return Instruction(
        *name_and_root,
        rest[:type_end].strip(),
        opcode.group(1),
        [] if is_leaf else _NAME.findall(inside),
        inside if is_leaf or opcode.group(1) == "iota" else "",
        attributes,
        called,
        path,
    )


def _attributes(text: str) -> tuple[list[tuple[str, str]], list[tuple[str, str]], str]:
    attributes: list[tuple[str, str]] = []
    called: list[tuple[str, str]] = []
    path = ""
    for item in _items(text):
        name, equals, value = item.partition("=")
        if not equals:
            continue
        if name in _CALLING and "%" in value:
            names = _NAME.findall(value)
            roles = (
                [name]
                if len(names) == 1 and not value.startswith("{")
                else [f"{name}[{i}]" for i in range(len(names))]
            )
            called += zip(roles, names, strict=True)
        elif name == "metadata":
            match = _PATH.search(value)
            path = re.sub(r"\\(.)", r"\1", match.group(1)) if match else ""
        else:
            attributes.append((name, value))
    return attributes, called, path


def _items(text: str) -> Iterator[str]:
    """`, a=b, c={d, e}` cut at its outer commas."""
    start = i = 0
    while i < len(text):
        c = text[i]
        if c in _CLOSING or c == '"':
            i = _matching(text, i)
            continue
        if c == ",":
            if text[start:i].strip():
                yield text[start:i].strip()
            start = i + 1
        i += 1
    if text[start:].strip():
        yield text[start:].strip()


def _matching(text: str, start: int) -> int:
    """The place behind the bracket or quote that closes the one at `start`."""
    if text[start] == '"':
        i = start + 1
        while i < len(text) and text[i] != '"':
            i += 2 if text[i] == "\\" else 1
        return i + 1
    depth, i = 0, start
    while i < len(text):
        c = text[i]
        if c == '"':
            i = _matching(text, i)
            continue
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth == 0:
                return i + 1
        i += 1
    return len(text)
