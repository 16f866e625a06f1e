"""Order of effects at run time: tokens that one program hands to the next."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from pellucid.ir.avals import shaped_array
from pellucid.ir.effects import Effect
from pellucid.sharding.single_device import make_single_device_sharding
from pellucid.xla import arrays
from pellucid.xla.compile import result_handler

_TOKEN_TYPE = shaped_array((0,), np.dtype(bool))


class RuntimeTokens(threading.local):
    """Tokens of this thread: the last one of each ordered effect, and of each device's programs."""

    def __init__(self) -> None:
        self._ordered: dict[tuple[Effect, Any], Any] = {}
        self._running: dict[Any, Any] = {}

    def ordered(self, effect: Effect, device: Any) -> Any:
        """The token that the next program with `effect` on `device` must wait for."""
        token = self._ordered.get((effect, device))
        if token is None:
            sharding = make_single_device_sharding(device)
            token = arrays.put(_TOKEN_TYPE, sharding, [np.zeros(0, np.bool_)], [device], False)
        return token

    def set_ordered(self, effect: Effect, device: Any, token: Any) -> None:
        """Note the token that the latest program with `effect` gave."""
        self._ordered[effect, device] = token

    def handler(self, device: Any) -> Any:
        """Makes an array of a token that a program gives."""
        return result_handler(_TOKEN_TYPE, make_single_device_sharding(device), False)

    def add_runtime_token(self, device: Any, token: Any) -> None:
        """Note that a program with side effects runs on `device`."""
        self._running[device] = token

    def block_until_ready(self) -> None:
        """Wait for all effects of programs that this thread started; raises what they raised."""
        running, self._running = self._running, {}
        ordered, self._ordered = self._ordered, {}
        for token in running.values():
            token.block_until_ready()
        for token in ordered.values():
            token.block_until_ready()


tokens = RuntimeTokens()


def effects_barrier() -> None:
    """Wait until the side effects of all programs started by this thread have happened."""
    tokens.block_until_ready()
