"""Descriptions of operands in error messages: names, types, batches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from pellucid._machine.base import (
    PellucidError,
    strict_zip,
)

from .current import context
from .operands import DTYPES_OF_NUMBERS, type_of
from .tracer import Tracer

E = TypeVar("E", bound=PellucidError)


class OperandText(NamedTuple):
    """An operand in a message."""

    name: str | None
    """Its argument name, if it is an argument of a traced or transformed function, or was computed from only one."""
    type: str
    batch: str
    """Text with the sizes of the batches of which it is one element."""


def operand_text(x: Any) -> OperandText:
    """Describes the operand `x` for an error message."""
    if isinstance(x, Tracer):
        name, sizes = x.argument_name(), x.batches()
        source = None if name else x.only_argument()
        name = f"from {source}" if source else name
    else:
        # Equal numbers may be one object, so identity can't distinguish arguments.
        is_number = type(x) in DTYPES_OF_NUMBERS
        name, sizes = None if is_number else context.trace.name_of_argument(x), ()
    batch = f", one of {' x '.join(map(str, reversed(sizes)))} in a batch" if sizes else ""
    return OperandText(name, type_of(x).text(), batch)


def operand_lines(operands: Iterable[Any]) -> list[str]:
    """One line per operand for an error message: argument name if known, type, batches."""
    texts = map(operand_text, operands)
    return [f"{t.name or f'argument {i}'}: {t.type}{t.batch}" for i, t in enumerate(texts)]


def name_operands(error: E, operands: Sequence[Any]) -> E:
    """Adds names and batches of `operands` to the lines of `error` that contain their types.

    A line is `label: type` with optional further text, `got type`, or `type`. Operands of the same type are only named
    if each has a line; lines are in the order of operands.
    """
    if error.names_arguments:
        return error
    error.names_arguments = True
    texts = [*map(operand_text, operands)]
    lines = list(error.got)
    for kind in {text.type for text in texts}:
        alike = [text for text in texts if text.type == kind]
        shown = re.compile(
            f"(?:got )?{re.escape(kind)}|((?:(?!: ).)+): {re.escape(kind)}((?:[, ].*)?)"
        )
        places = [(i, match) for i, line in enumerate(lines) if (match := shown.fullmatch(line))]
        if len(places) == len(alike):
            for (i, match), text in strict_zip(places, alike):
                lines[i] = _operand_line(match[1] or "", match[2] or "", text)
    error.state_got(lines)
    return error


def _operand_line(label: str, more: str, text: OperandText) -> str:
    """A line with the type of an operand, its name and batches."""
    if not more.startswith(text.batch):
        more = text.batch + more
    if text.name and label != text.name:
        has_role = label.rstrip("0123456789") not in ("", "argument ", "array ", "operand ")
        label = f"{label} ({text.name})" if has_role else text.name
    return f"{label}: {text.type}{more}" if label else f"got {text.type}{more}"
