"""Work that all processes finish, or whose failure is raised in all of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from pellucid.base import (
    ArgumentValueError,
    DistributedError,
    PeerFailureError,
    ProcessFailureError,
)
from pellucid.runtime import peers, platforms
from pellucid.runtime.distributed import initialize

_NAME = "live_devices"


@contextlib.contextmanager
def live_devices(devices: Sequence[Any]) -> Iterator[list[Any]]:
    """A block of code that all processes of `devices` run, or none: it gives the devices, ordered by id.

    The processes wait for each other where it begins and where it ends. If one of them fails meanwhile, all others get
    a ProcessFailureError; if it raises, that process gets what it raised and the others an AgreementError that names it.

    In the reference a job may go on with the processes that are left. Here a job ends with its first failure: the
    connections of collectives are cut, so that nobody waits for ever. So the next block raises at once, until
    `distributed.shutdown` and `initialize` have made a new job.

    Raises: DistributedError without a job; ArgumentValueError if none of `devices` belongs to this process.

    Example: `with live_devices(pl.devices()) as devices:` around a step of training, in each process.
    """
    initialize.job(_NAME)
    process_ids = sorted({device.process_index for device in devices})
    if platforms.process_index() not in process_ids:
        raise ArgumentValueError(
            f"{_NAME}: none of the devices belongs to this process.",
            got=f"devices of the processes {process_ids}" if devices else "no devices",
            do="Pass `pl.devices()`.",
        )
    with _failures_of(devices):
        peers.agree(_NAME, "begins", process_ids)
        try:
            yield sorted(devices, key=lambda device: device.id)
        except DistributedError:
            raise  # the others have heard, too
        except Exception as error:
            with contextlib.suppress(DistributedError):
                peers.agree(_NAME, f"raised {type(error).__name__}: {error}", process_ids)
            raise
        peers.agree(_NAME, "ends", process_ids)


@contextlib.contextmanager
def _failures_of(devices: Sequence[Any]) -> Iterator[None]:
    """Turn the failure of a process into one of its `devices`."""
    try:
        yield
    except PeerFailureError as error:
        failure = ProcessFailureError(error.what, got=error.got, do=error.do)
        failure.failed = error.failed
        failure.failed_devices = frozenset(d for d in devices if d.process_index in error.failed)
        raise failure from error
