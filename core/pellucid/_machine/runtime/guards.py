"""Transfers between host and devices: guards that log or forbid them, events, errors.

A transfer is explicit if the user called `device_put`, `device_get` or a similar function; all others are implicit.
"log" and "disallow" apply to implicit transfers, "log_explicit" and "disallow_explicit" to all.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from pellucid._machine.base import (
    Direction,
    TransferFinished,
    TransferGuardError,
    TransferStarted,
    config,
    logger,
    on,
    publish,
)
from pellucid._machine.xla import JaxRuntimeError, let_through

from .failures import raise_runtime_error

T = TypeVar("T")
_FREE: AbstractContextManager[None] = nullcontext()
_EXPLICIT = {
    "host_to_device": "device_put",
    "device_to_device": "device_put",
    "device_to_host": "device_get",
}
"""Functions with which users request transfers."""
_OPTIONS = {
    "host_to_device": config.transfer_guard_host_to_device,
    "device_to_device": config.transfer_guard_device_to_device,
    "device_to_host": config.transfer_guard_device_to_host,
}


def run_transfer(
    direction: Direction,
    n_bytes: int,
    aval: Any,
    target: Any,
    run: Callable[[], T],
    *,
    explicit: bool | None,
) -> T:
    """The result of `run()`, a transfer of `n_bytes`, which is guarded as in `guard_transfer`, and published."""
    guard = guard_transfer(direction, aval, target, explicit=explicit)
    if on.transfer_started:
        publish(TransferStarted(direction, n_bytes))
    start = time.perf_counter()
    try:
        if guard is _FREE:
            result: Any = run()
        else:
            with guard:
                result = run()
        if on.transfer_finished and direction != "device_to_host":
            result.block_until_ready()
    except (JaxRuntimeError, ValueError) as error:
        raise_runtime_error(_EXPLICIT[direction], error)
    if on.transfer_finished:
        seconds = time.perf_counter() - start
        publish(TransferFinished(direction, n_bytes, seconds))
    return result


def guard_transfer(
    direction: Direction, aval: Any, target: Any, *, explicit: bool | None
) -> AbstractContextManager[None]:
    """A context for one transfer.

    Logs the transfer or raises TransferGuardError, according to the level for its direction. `explicit` is whether the
    user requested it; None if it needn't be guarded.
    """
    level = _OPTIONS[direction].value
    if level == "allow":
        return _FREE
    if explicit is None:
        return let_through()
    what = f"{direction.replace('_', '-')} transfer"
    if level == "disallow_explicit" or (level == "disallow" and not explicit):
        allow = f'`with transfer_guard_{direction}("allow"):`'
        raise TransferGuardError(
            f"a {what} happened that the transfer guard forbids.",
            got=f"{aval.text()} to {target}",
            do=f"Write {allow} around it."
            if explicit
            else f"To mean it, call `{_EXPLICIT[direction]}`, or write {allow} around it.",
        )
    if level == "log_explicit" or (level == "log" and not explicit):
        logger.warning("%s: %s to %s", what, aval.text(), target)
    return let_through()
