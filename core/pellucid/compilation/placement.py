"""Where a program runs, found from its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pellucid.base.errors import DeviceError
from pellucid.runtime import platforms
from pellucid.runtime.platforms import platform_of
from pellucid.sharding.single_device import make_single_device_sharding
from pellucid.xla.arrays import ArrayImpl


class Placement(NamedTuple):
    """Where a program runs: its devices in order, and their client."""

    client: Any
    devices: tuple[Any, ...]

    @property
    def platform(self) -> str:
        return platform_of(self.client)


class Where(NamedTuple):
    """Where the arguments of one call say a program runs."""

    placement: Placement
    committed: bool
    shardings: tuple[Any, ...]
    """For each argument, where it must be."""


def where(operands: Sequence[Any], name: str, device: Any = None) -> Where:
    """Where a program on `operands` runs: where committed arrays lie, else on the default device.

    Raises DeviceError for arrays committed to different devices.
    """
    committed: Any = device
    first: Any = None
    for x in operands:
        if type(x) is ArrayImpl and x._committed:
            devices = x._sharding._internal_device_list
            if committed is None:
                committed, first = devices[0], x
            elif devices[0] is not committed:
                raise DeviceError(
                    f"`{name}` got arrays that are committed to different devices.",
                    got=[f"{y.aval.text()} on {', '.join(map(str, y.devices()))}"
                         for y in (first, x) if y is not None],
                    do="Move them to one place with `device_put`.",
                )  # fmt: skip
    chosen = committed if committed is not None else platforms.default_device()
    sharding = make_single_device_sharding(chosen)
    return Where(
        Placement(chosen.client, (chosen,)), committed is not None, (sharding,) * len(operands)
    )
