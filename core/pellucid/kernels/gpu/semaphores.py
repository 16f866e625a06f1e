"""Semaphores in the memory of a GPU: signals and waits between blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pellucid._machine.base import ArgumentValueError, UnsupportedError
from pellucid.kernels import semaphores


@dataclass(frozen=True, init=False)
class SemaphoreSignal:
    """A signal of `inc` to a semaphore, for `semaphore_signal_parallel`."""

    ref: Any
    device_id: Any
    inc: Any = 1

    def __init__(self, ref: Any, *, device_id: Any, inc: Any = 1) -> None:
        for name, x in (("ref", ref), ("device_id", device_id), ("inc", inc)):
            object.__setattr__(self, name, x)


def _check(caller: str, memory_scope: Any, device_id: Any) -> None:
    if memory_scope not in ("sys", "gpu"):
        raise ArgumentValueError(
            f'{caller}: `memory_scope` is "sys" or "gpu".', got=f"got {memory_scope!r:.40}"
        )
    if device_id is not None:
        raise UnsupportedError(
            f"{caller}: kernels on GPUs can't reach other devices.",
            got=f"device_id={device_id!r:.40}",
            do="Use collectives of `lax` around the kernel.",
        )


def semaphore_signal(
    semaphore: Any,
    inc: Any = 1,
    *,
    device_id: Any = None,
    memory_scope: Literal["sys", "gpu"] = "sys",
) -> None:
    """Add `inc` to a semaphore. Raises: UnsupportedError for one of another device."""
    _check("semaphore_signal", memory_scope, device_id)
    semaphores.semaphore_signal(semaphore, inc)


def semaphore_signal_parallel(*signals: SemaphoreSignal) -> None:
    """Several signals, in any order."""
    for signal in signals:
        semaphore_signal(signal.ref, signal.inc, device_id=signal.device_id)


def semaphore_wait(
    semaphore: Any,
    value: Any = 1,
    *,
    decrement: bool = True,
    memory_scope: Literal["sys", "gpu"] = "sys",
) -> None:
    """Wait until a semaphore has at least `value`, and take that away again unless `decrement` is False."""
    _check("semaphore_wait", memory_scope, None)
    semaphores.semaphore_wait(semaphore, value, decrement=decrement)
