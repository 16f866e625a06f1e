"""What is found wrong with the references that a kernel counts with: barriers that are used as memory, memory that is used as a semaphore."""

from __future__ import annotations

from pellucid._machine.base import ArgumentTypeError
from pellucid._machine.base.source import describe
from pellucid._machine.ir import AbstractRef, Equation, Jaxpr, programs_of
from pellucid._machine.refs.primitives import Get, Write
from pellucid.kernels.semaphores import (
    OnParts,
    semaphore_read_p,
    semaphore_signal_p,
    semaphore_wait_p,
)

from .memory import ACC, Barrier, Memory

_OF_SEMAPHORES = (semaphore_read_p, semaphore_signal_p, semaphore_wait_p)


def check_counters(caller: str, jaxpr: Jaxpr) -> None:
    """Raise ArgumentTypeError if a kernel reads or writes a barrier, or signals to what is no semaphore."""
    for equation in jaxpr.equations:
        if isinstance(equation.primitive, (Get, Write)):
            _check(caller, equation, Barrier, "a barrier is no memory that is read and written.")
        elif equation.primitive in _OF_SEMAPHORES:
            _check(caller, equation, (Barrier, Memory, ACC), "only semaphores take signals.")
        elif not isinstance(equation.primitive, OnParts):  # whose definitions count
            for program in programs_of(equation):
                check_counters(caller, getattr(program, "jaxpr", program))


def _check(caller: str, equation: Equation, kinds: type | tuple[type, ...], what: str) -> None:
    for operand in equation.operands:
        aval = operand.aval
        if isinstance(aval, AbstractRef) and isinstance(aval.kind, kinds):
            is_barrier = isinstance(aval.kind, Barrier)
            raise ArgumentTypeError(
                f"{caller}: {what}",
                got=f"`{equation.primitive.name}` of {aval.text()} in {aval.kind}",
                where=describe(equation.source),
                do="Use `barrier_arrive`, `barrier_wait` and `barrier_test`."
                if is_barrier
                else "Scratch of the type `SemaphoreType.REGULAR` is one.",
            )
