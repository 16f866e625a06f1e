"""Transfer guards, which log or forbid transfers.

A transfer is explicit if the user called `device_put`, `device_get` or their kin for it; any other is
implicit. "log" and "disallow" are about implicit transfers, "log_explicit" and "disallow_explicit" about all.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from pellucid.base import TransferGuardError, config, logger
from pellucid.xla.guards import let_through

FREE: AbstractContextManager[None] = nullcontext()
_EXPLICIT = {
    "host_to_device": "call `device_put`",
    "device_to_device": "call `device_put`",
    "device_to_host": "call `device_get`",
}
_OPTIONS = {
    "host_to_device": config.transfer_guard_host_to_device,
    "device_to_device": config.transfer_guard_device_to_device,
    "device_to_host": config.transfer_guard_device_to_host,
}


def passed(
    direction: str, aval: Any, target: Any, *, explicit: bool
) -> AbstractContextManager[None]:
    """A block in which one transfer may happen.

    Logs the transfer or raises TransferGuardError, as the level of its direction says.
    """
    level = _OPTIONS[direction].value
    if level == "allow":
        return FREE
    what = f"{direction.replace('_', '-')} transfer"
    if level == "disallow_explicit" or (level == "disallow" and not explicit):
        allow = f'`with transfer_guard_{direction}("allow"):`'
        raise TransferGuardError(
            f"a {what} happened that the transfer guard forbids.",
            got=f"{aval.text()} to {target}",
            do=f"Write {allow} around it."
            if explicit
            else f"To mean it, {_EXPLICIT[direction]}, or write {allow} around it.",
        )
    if level == "log_explicit" or (level == "log" and not explicit):
        logger.warning("%s: %s to %s", what, aval.text(), target)
    return let_through()
