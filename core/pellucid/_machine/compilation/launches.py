"""Launches: a program that is about to run on certain operands, and who listens to it."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any

from pellucid._machine.ir import ClosedJaxpr, Operands, Results
from pellucid._machine.runtime.executable import Executable
from pellucid._machine.runtime.transfer import put_leaf
from pellucid._machine.tracing import ValueProgram


class Launch:
    """A program that is about to run on certain operands.

    `arguments` of the call are arrays, and references of which `operands` has what they hold. `allow_calls` lets this
    thread call the same function meanwhile, which C++ takes for a recursion. `traced` is the program as it was traced,
    which takes `closed_over` and `arguments`; only calls whose keys are followed as a whole have it.
    """

    # Written out: the methods that `dataclass` makes belong to no file, and Python's debuggers stop in them.
    __slots__ = (
        "name", "values", "arguments", "operands", "executable", "allow_calls", "traced", "closed_over", "is_of_user",
        "is_operation", "needs_python",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        values: ValueProgram,
        arguments: Operands,
        executable: Executable,
        allow_calls: Callable[[], None],
        *,
        traced: ClosedJaxpr | None = None,
        closed_over: Operands = (),
        is_of_user: bool = False,
        is_operation: bool = False,
    ) -> None:
        self.name, self.values, self.executable = name, values, executable
        self.arguments, self.operands = arguments, values.operands(arguments)
        self.allow_calls = allow_calls
        self.traced, self.closed_over = traced, closed_over
        self.is_of_user = is_of_user
        """Whether it is a function, a loop or a branch of the user, which a debugger may run instead."""
        self.is_operation = is_operation
        """Whether it is one operation, as the eager derivative of a jitted function runs those with programs."""
        self.needs_python = False
        """Whether the next call of this kind has to come through Python; a listener says so."""

    @property
    def program(self) -> ClosedJaxpr:
        """The program that runs, on `operands`."""
        return self.values.closed

    def taken(self) -> Operands:
        """The operands where the compiled program takes them."""
        return self._at(self.executable.argument_shardings, self.operands)

    def run(self) -> Results:
        """The results of the compiled program, which takes the memory of donated operands; to be called once."""
        return self.executable(self.operands)

    def settled(self, results: Results) -> Results:
        """The results of the call, of those of the program; references that it wrote get their new values."""
        return self.values.settle(self.arguments, results)

    def placed(self, results: Operands) -> Results:
        """Results that were computed otherwise, put where those of the compiled program lie."""
        return self._at(self.executable.out_shardings, results)

    def _at(self, shardings: Sequence[Any], values: Operands) -> Results:
        if not self.executable.committed:
            return values
        return [*map(put_leaf, values, shardings)]


class Listener(abc.ABC):
    """What goes on besides while a program runs, if an option or a tool asks for it."""

    @abc.abstractmethod
    def hears(self, launch: Launch) -> bool:
        """Whether `around` has to be called for this launch; asked at each one that goes through Python."""

    @abc.abstractmethod
    def around(self, launch: Launch, run: Callable[[], Results]) -> Results:
        """The results of the launch: those of `run()`, which is called at most once."""
