"""Interruptible waits for devices: the only way in which Python waits for their results.

A device can't be interrupted. It completes its work, and a later request to it waits again. So an interrupted wait says
so, and each following wait does too, until the devices have completed the work that was left to them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from pellucid._machine.base import events, interruptible, logger
from pellucid._machine.xla import ArrayImpl, Device, arrays

from . import peers

_MAX_NAMED_DEVICES = 4
_SECONDS_BETWEEN_CHECKS = 0.05
_MIN_SLEEP_SECONDS, _MAX_SLEEP_SECONDS = 5e-5, 5e-3
_RESTART = "A program that runs can't be stopped but by ending the process (restarting the kernel)."

is_ready = ArrayImpl.is_ready
"""Whether an array is computed; a function of C, because it is called before every wait."""
_left: list[ArrayImpl] = []
"""Arrays that devices went on computing after the wait for them was interrupted."""


def wait_for(several: Sequence[ArrayImpl]) -> None:
    """Wait until arrays are computed; raises errors of the computation, and KeyboardInterrupt after Ctrl-C.

    For a program across processes, the wait also ends if one has failed or runs another program: its devices may wait
    for data that is never sent.
    """
    if _left:
        _tell_who_is_busy(several)
    is_told = bool(events.on.wait_started) and not all(
        x.is_deleted() or is_ready(x) for x in several
    )
    if is_told:
        events.publish(events.WaitStarted(several))
    running: list[ArrayImpl] = []
    try:
        if peers.jobs and not all(is_ready(x) or x.is_fully_addressable for x in several):
            _wait_while_all_live(several)
        arrays.wait_for(several)
    except KeyboardInterrupt as error:
        running = _unfinished_arrays(several)
        _left.extend(running)
        if running:
            error.add_note(
                f"The device is not interrupted: {_devices_text(devices_of(running))} still computes what was waited "
                f"for, and what it is asked for next has to wait. {_RESTART}"
            )
        raise
    finally:
        if is_told:
            events.publish(events.WaitEnded(is_left=bool(running)))


def busy_devices() -> list[Device]:
    """Devices that are still computing after Ctrl-C interrupted the wait for them."""
    _left[:] = _unfinished_arrays(_left)
    return devices_of(_left)


def _wait_while_all_live(several: Sequence[ArrayImpl]) -> None:
    """Wait until arrays are computed, or have failed; raises as `peers.check`.

    It polls in this thread: a thread that waits for devices could never be ended, and Python couldn't exit.
    """
    began = checked = time.monotonic()
    while not all(map(is_ready, several)):
        now = time.monotonic()
        if now - checked > _SECONDS_BETWEEN_CHECKS:
            peers.check()
            checked = now
        # Polling delays a result by at most an eighth of its computation time.
        time.sleep(min(max((now - began) / 8, _MIN_SLEEP_SECONDS), _MAX_SLEEP_SECONDS))


def wait_for_token(token: Any) -> None:
    """Wait until the effects ordered by a program's token have happened, like `wait_for`.

    Unlike waits for arrays, waits for XLA's tokens don't handle signals.
    """
    if isinstance(token, ArrayImpl):
        wait_for([token])
    else:
        interruptible(token.block_until_ready)


def _tell_who_is_busy(several: Sequence[ArrayImpl]) -> None:
    """Warn that arrays will be late because devices are still busy with earlier work."""
    _left[:] = _unfinished_arrays(_left)
    if _left and not all(x.is_deleted() or is_ready(x) for x in several):
        logger.warning(
            "%s still runs a program for which a wait was interrupted, so this wait may be long; Ctrl-C ends it too. %s",
            _devices_text(devices_of(_left)), _RESTART,
        )  # fmt: skip


def _unfinished_arrays(several: Sequence[ArrayImpl]) -> list[ArrayImpl]:
    return [x for x in several if not x.is_deleted() and not is_ready(x)]


def devices_of(several: Sequence[ArrayImpl]) -> list[Device]:
    """The devices that hold the arrays, without repetitions."""
    return list(dict.fromkeys([d for x in several for d in x._sharding._internal_device_list]))


def _devices_text(devices: Sequence[Device]) -> str:
    """A text such as "CpuDevice(id=0)"; of many devices, the number of the remaining ones."""
    shown = ", ".join(map(repr, devices[:_MAX_NAMED_DEVICES]))
    n_more = len(devices) - _MAX_NAMED_DEVICES
    return shown if n_more <= 0 else f"{shown} and {n_more} more"
