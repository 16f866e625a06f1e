"""Request handlers for displayed arrays: other slices, and the values on one device."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pellucid import analysis, introspect
from pellucid.introspect.errors import ArgumentValueError
from pellucid.introspect.schema import ArrayValuesRecord
from pellucid_kernel.panels.panel import Handler
from pellucid_kernel.schema import ArraySliceRecord


def _values(request: Mapping[str, Any]) -> ArrayValuesRecord:
    array, device = introspect.array_of(request["array"]), request["device"]
    if device is not None:
        shards = [each.data for each in array.addressable_shards if each.device.id == device]
        if not shards:
            raise ArgumentValueError(f"device {device} holds no part of the array.")
        array = shards[0]
    record = analysis.array_values(array)
    return dataclasses.replace(record, array=request["array"] if device is None else "")


def _slice(request: Mapping[str, Any]) -> ArraySliceRecord:
    array = introspect.array_of(request["array"])
    drawn = analysis.array_slice(array, request["index"], request["dims"])
    return ArraySliceRecord(**drawn._asdict())


HANDLERS: Mapping[str, Handler] = {"show_array": _values, "show_array_slice": _slice}
"""Handlers of requests, by kind of request."""
