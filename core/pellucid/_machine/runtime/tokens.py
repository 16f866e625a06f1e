"""Ordering of effects at run time, with tokens that are passed from program to program."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid._machine.ir import Effect, abstract_token, shaped_array
from pellucid._machine.sharding.placement import replicated_placement
from pellucid._machine.xla import ArrayImpl, Device, arrays
from pellucid._machine.xla.compile import result_handler

from .waiting import wait_for_token

_TOKEN_TYPE = shaped_array((0,), np.dtype(bool))


class Token:
    """A token outside of a program: `buffer` is ready when all effects that it orders have happened.

    >>> token = lax.create_token()
    >>> isinstance(token, pl.extend.core.Token)
    True
    """

    aval = abstract_token

    def __init__(self, buf: Any) -> None:
        self.buffer = buf

    def block_until_ready(self) -> None:
        """Wait until all effects that the token orders have happened."""
        wait_for_token(self.buffer)


class RuntimeTokens(threading.local):
    """This thread's tokens: the latest of each ordered effect, and of each device's programs."""

    def __init__(self) -> None:
        self.last: dict[Effect, ArrayImpl] = {}
        """The token returned by the latest program with an effect."""
        self.running: dict[Device, ArrayImpl] = {}
        """The token of the latest program with side effects on a device."""

    def token_to_await(self, effect: Effect, devices: Sequence[Device]) -> Any:
        """The token for which the next program with `effect` on `devices` must wait.

        A program on other devices is waited for here, because no token spans both.
        """
        token = self.last.get(effect)
        sharding = replicated_placement(tuple(devices))
        if token is not None and token._sharding == sharding:
            return token
        if token is not None:
            wait_for_token(token)
        empty = [np.zeros(0, np.bool_) for _ in devices]
        return arrays.put(_TOKEN_TYPE, sharding, empty, list(devices), False)

    def handler(self, devices: Sequence[Device]) -> Any:
        """The handler that makes an array from a token that a program on `devices` returns."""
        return result_handler(_TOKEN_TYPE, replicated_placement(tuple(devices)), False)

    def block_until_ready(self) -> None:
        """Wait for all effects of programs that this thread started; raises their errors."""
        started = [*self.running.values(), *self.last.values()]
        self.running, self.last = {}, {}
        for token in started:
            wait_for_token(token)


tokens = RuntimeTokens()


def effects_barrier() -> None:
    """Wait until the side effects of all programs started by this thread have happened.

    >>> pl.jit(lambda x: pl.debug.print("x is {}", x))(3); pl.effects_barrier()
    x is 3
    """
    tokens.block_until_ready()
