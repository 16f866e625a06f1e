"""The panel "Devices and mesh": devices, live arrays and the meshes of variables."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

from pellucid import introspect
from pellucid.sharding import Mesh
from pellucid_kernel.panels.panel import Handler, Panel
from pellucid_kernel.schema import DevicesState

MAX_ARRAYS = 300
"""Maximum number of arrays sent to a panel, largest first."""
MAX_MESHES = 6


class DevicesPanel(Panel):
    name = "devices"

    def state(self) -> DevicesState:
        namespace = self.shell.user_ns
        memory = introspect.memory(namespace)
        return DevicesState(
            memory=dataclasses.replace(memory, arrays=memory.arrays[:MAX_ARRAYS]),
            array_count=len(memory.arrays),
            meshes=meshes_of(namespace),
            device_note=device_note(memory),
        )

    def handlers(self) -> Mapping[str, Handler]:
        return {"free_array": _free_array, "let_go": self._let_go}

    def _let_go(self, request: Mapping[str, Any]) -> None:
        introspect.clear_failed_frames()
        self.shell.displayhook.flush()


def _free_array(request: Mapping[str, Any]) -> None:
    introspect.delete_array(int(request["array"]))


def meshes_of(namespace: Mapping[str, Any]) -> list[introspect.schema.ShardingRecord]:
    """The meshes among the variables of `namespace`, each under the first name that refers to it."""
    names: dict[Mesh, str] = {}
    for name, value in list(namespace.items()):
        if isinstance(value, Mesh) and not name.startswith("_"):
            names.setdefault(value, name)
    records = (introspect.sharding(mesh, name=name) for mesh, name in names.items())
    return list(itertools.islice(records, MAX_MESHES))


def device_note(memory: introspect.schema.MemoryRecord) -> str:
    """A hint for setting the number of virtual devices; empty if it doesn't apply."""
    if any(device.platform != "cpu" for device in memory.devices):
        return ""
    return "Another number of CPU devices: %pellucid devices N in the first cell."
