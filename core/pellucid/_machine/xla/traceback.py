"""Captured Python stacks, made and read by jaxlib's C++ side."""

from __future__ import annotations

from types import CodeType

from jaxlib import _jax

Traceback = _jax.Traceback
JaxRuntimeError = _jax.JaxRuntimeError


def location_of(code: CodeType, offset: int) -> tuple[int, int, int, int]:
    """(line, column, end line, end column) of a raw frame; -1 where CPython knows none."""
    result = Traceback.code_addr2location(code, offset)
    line, column, end_line, end_column = [-1 if value is None else value for value in result]
    return line, column, end_line, end_column
