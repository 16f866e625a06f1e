"""The position of a kernel's program in its grid, and the trace around its programs."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any, NamedTuple

from pellucid._machine.base import ArgumentValueError, JAXTypeError
from pellucid._machine.tracing import context


class GridPosition(NamedTuple):
    """The grid of the kernel that is being traced, and the position of its program."""

    ids: tuple[Any, ...]
    sizes: tuple[Any, ...]
    names: tuple[Any, ...] | None
    failures: Any = None
    """Where its programs note what goes wrong (`Failures`)."""
    thread_name: Any = None
    """The name of the axis along which programs are threads of one block, on GPUs."""


_position: contextvars.ContextVar[GridPosition | None] = contextvars.ContextVar(
    "position", default=None
)


_around: contextvars.ContextVar[Any] = contextvars.ContextVar("around", default=None)


@contextlib.contextmanager
def programs_of_kernel() -> Iterator[None]:
    """Trace in the block a program that runs once for each program of a kernel; what all have in common belongs to the trace around."""
    token = _around.set(context.trace)
    try:
        yield
    finally:
        _around.reset(token)


def trace_around() -> Any:
    """The trace around the programs of the kernel that is being traced; None outside of kernels."""
    return _around.get()


@contextlib.contextmanager
def within(position: GridPosition) -> Iterator[None]:
    """Trace the block as the body of a kernel."""
    token = _position.set(position)
    try:
        yield
    finally:
        _position.reset(token)


def current_position() -> GridPosition | None:
    """The current position in the grid of the kernel that is being traced; None outside of kernels."""
    return _position.get()


def program_id(axis: Any) -> Any:
    """The position of this program along an axis of the grid, an int32; of the axis with this name if it has names.

    Raises: JAXTypeError outside of a kernel; ArgumentValueError for an axis that the grid doesn't have.
    """
    position, i = _axis("program_id", axis)
    return position.ids[i]


def num_programs(axis: Any) -> Any:
    """The size of an axis of the grid: an int, or an int32 that is traced.

    Raises: JAXTypeError outside of a kernel; ArgumentValueError for an axis that the grid doesn't have.
    """
    position, i = _axis("num_programs", axis)
    return position.sizes[i]


def _axis(caller: str, axis: Any) -> tuple[GridPosition, int]:
    position = _position.get()
    if position is None:
        raise JAXTypeError(
            f"{caller} has a meaning only in a kernel.",
            do="Call it in the function that `pallas_call` gets; an index map has the position as its arguments.",
        )
    n = len(position.ids)
    if position.names is not None and axis in position.names:
        return position, position.names.index(axis)
    if not isinstance(axis, int) or not 0 <= axis < n:
        names = "" if position.names is None else f", named {position.names}"
        raise ArgumentValueError(
            f"{caller}: the grid has no such axis.", got=f"axis {axis!r}, grid of {n} axes{names}"
        )
    return position, axis
