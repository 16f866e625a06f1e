"""Texts on what Python waits for, and on the devices that are still busy after an interrupted wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pellucid._machine.runtime import memory, waiting

_MAX_NAMED = 3


def awaited_text(several: Sequence[Any]) -> str:
    """The types of arrays that are waited for: `f32[8,128]`, or `f32[8,128], f32[8] and 5 more`."""
    return _shorten([x.aval.text() for x in several])


def devices_text(several: Sequence[Any]) -> str:
    """The devices on which arrays are computed: `cpu 0, cpu 1`."""
    return _device_names(waiting.devices_of(several))


def busy_text() -> str:
    """The devices that are still busy after an interrupted wait; empty if none is."""
    return _device_names(waiting.busy_devices())


def unfinished_arrays() -> list[Any]:
    """The arrays of this process that devices haven't computed yet, whoever waits for them."""
    return [*memory.unfinished_arrays()]


def _device_names(devices: Sequence[Any]) -> str:
    return _shorten([f"{device.platform} {device.id}" for device in devices])


def _shorten(texts: Sequence[str]) -> str:
    n_more = len(texts) - _MAX_NAMED
    shown = ", ".join(texts[:_MAX_NAMED])
    return shown if n_more <= 0 else f"{shown} and {n_more} more"
