"""Captured Python stacks, made and read by jaxlib's C++ side."""

from __future__ import annotations

from types import CodeType, TracebackType
from typing import TYPE_CHECKING, Any

from jaxlib import _jax

if TYPE_CHECKING:

    class Traceback:
        """A captured stack, as one opaque object."""

        @staticmethod
        def get_traceback() -> Traceback | None: ...
        @staticmethod
        def code_addr2line(code: CodeType, offset: int) -> int: ...
        @staticmethod
        def code_addr2location(
            code: CodeType, offset: int
        ) -> tuple[int | None, int | None, int | None, int | None]: ...
        @staticmethod
        def traceback_from_frames(frames: list[Any]) -> Traceback: ...
        def raw_frames(self) -> tuple[list[CodeType], list[int]]: ...
        def as_python_traceback(self) -> TracebackType: ...

    class JaxRuntimeError(RuntimeError):
        """An error of XLA."""

else:
    Traceback = _jax.Traceback
    JaxRuntimeError = _jax.JaxRuntimeError


def location_of(code: CodeType, offset: int) -> tuple[int, int, int, int]:
    """(line, column, end line, end column) of a raw frame; -1 where CPython records none."""
    result = Traceback.code_addr2location(code, offset)
    line, column, end_line, end_column = [-1 if value is None else value for value in result]
    return line, column, end_line, end_column
