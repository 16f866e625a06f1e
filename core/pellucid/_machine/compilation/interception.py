"""Runners of programs in place of their executables: a debugger that stops in the program."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

from pellucid._machine.ir import ClosedJaxpr, Operands, Results
from pellucid._machine.runtime.executable import Executable
from pellucid._machine.runtime.transfer import put_leaf


@dataclass(frozen=True, eq=False)
class Pending:
    """A program that is about to run on certain operands."""

    name: str
    program: ClosedJaxpr
    operands: Operands
    executable: Executable
    allow_calls: Callable[[], None]
    """Lets this thread call the same function meanwhile, which C++ takes for a recursion."""
    is_operation: bool = False
    """Whether it is one operation with programs, as the eager derivative of a jitted function runs them."""

    def taken(self) -> Operands:
        """The operands where the compiled program takes them."""
        return self._at(self.executable.argument_shardings, self.operands)

    def run(self) -> Results:
        """The results of the compiled program, which takes the memory of donated operands; to be called once."""
        return self.executable(self.operands)

    def placed(self, results: Operands) -> Results:
        """Results that were computed otherwise, put where those of the compiled program lie."""
        return self._at(self.executable.out_shardings, results)

    def _at(self, shardings: Sequence[Any], values: Operands) -> Results:
        if not self.executable.committed:
            return values
        return [*map(put_leaf, values, shardings)]


class Runner(NamedTuple):
    """Who runs the users' programs in place of their executables."""

    run: Callable[[Pending], Results | None]
    """Gives the results of a program, or None for one that runs as ever."""
    tracing: Callable[[], AbstractContextManager[Any]]
    """Entered while a function is traced."""


class _Returning(threading.local):
    """The call of which a thread makes the tree of results, and whether one of them keeps it."""

    pending: Pending | None = None
    is_kept = False


_returning = _Returning()
keeps_calls = False
"""Whether results may keep the call that gave them, as errors of checks do for debuggers; such a call costs Python each time."""


def returned(tree: Any, results: Results, pending: Pending) -> tuple[Any, bool]:
    """The results of a call as a tree, and whether one of them keeps the call."""
    if not keeps_calls:
        return tree.unflatten(results), False
    outer = _returning.pending, _returning.is_kept
    _returning.pending, _returning.is_kept = pending, False
    try:
        return tree.unflatten(results), _returning.is_kept
    finally:
        _returning.pending, _returning.is_kept = outer


def call_to_keep() -> Pending | None:
    """The call of which this thread makes the results, for one of them that keeps it; None where none is kept."""
    _returning.is_kept = _returning.pending is not None
    return _returning.pending


runner: Runner | None = None
"""None while programs run as ever. What has run without it is in C++ caches, which must be cleared when it changes."""


def tracing() -> AbstractContextManager[Any]:
    """Entered while a function of the user is traced."""
    return contextlib.nullcontext() if runner is None else runner.tracing()
