"""One kernel with the core loaded: what cells made, shown to panels, tooltips and error messages."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from pellucid import analysis, introspect
from pellucid.base import events
from pellucid.introspect.errors import PellucidError
from pellucid.sharding import Mesh
from pellucid_kernel.cells import Cells
from pellucid_kernel.channel import Channel
from pellucid_kernel.completion import Hints
from pellucid_kernel.failures import FailureDisplay
from pellucid_kernel.schema import AnswerRecord, CompilationRecord, StateRecord

_MOST_ARRAYS = 300
"""Rows that a panel gets: the largest arrays come first."""
_MOST_MESHES = 6


class Session:
    """Connects the core with one shell until `stop`."""

    def __init__(self, shell: InteractiveShell, cells: Cells, channel: Channel) -> None:
        self._shell = shell
        self._channel = channel
        self._hints = Hints(shell)
        self._failures = FailureDisplay(shell)
        self._compilations = CompilationObserver(channel)
        introspect.find_cells_with(lambda file: _core_cell(cells, file))
        events.add_observer(self._compilations)
        channel.answer_with(self.answer)
        self.publish_state()

    def stop(self) -> None:
        """Leave the shell as it was."""
        events.remove_observer(self._compilations)
        introspect.find_cells_with(None)
        self._channel.answer_with(None)
        self._failures.stop()
        self._hints.stop()

    def let_go(self) -> None:
        """Forget what the frames of the last error hold."""
        introspect.clear_failed_frames()

    def show_whole_traceback(self) -> None:
        """Show the last error with all its frames."""
        self._failures.show_whole_traceback()

    def cell_ended(self) -> None:
        """Tell all panels what there is now."""
        self._compilations.function = None  # one that was interrupted never finished
        self.publish_state()

    def publish_state(self) -> None:
        """Tell all panels what there is now; costs nothing while none is open."""
        if self._channel.is_open:
            self._channel.send(self.state().to_dict())

    def state(self) -> StateRecord:
        """The user's jitted functions, devices and live arrays."""
        memory = introspect.memory(self._shell.user_ns)
        return StateRecord(
            functions=introspect.functions(),
            memory=dataclasses.replace(memory, arrays=memory.arrays[:_MOST_ARRAYS]),
            array_count=len(memory.arrays),
            meshes=meshes_of(self._shell.user_ns),
            device_note=device_note(memory),
            compiling=self._compilations.function,
        )

    def answer(self, request: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """What a panel's request gives."""
        kind = request.get("kind")
        if kind == "look":
            return self.state().to_dict()
        program = error = None
        try:
            if kind == "show_program":
                program = analysis.function_program(int(request["entry"]))
            elif kind == "free_array":
                introspect.delete_array(int(request["array"]))
            elif kind == "let_go":
                self.let_go()
                self._shell.displayhook.flush()
            else:
                error = f"this kernel knows no request {kind!r}"
        except PellucidError as raised:
            error = str(raised)
        answer = AnswerRecord(request=int(request.get("request", 0)), program=program, error=error)
        if kind in ("free_array", "let_go"):
            self.publish_state()
        return answer.to_dict()


class CompilationObserver(events.Observer):
    """Tells panels what XLA compiles, while it does."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.function: str | None = None

    def compilation_started(self, event: events.CompilationStarted, /) -> None:
        self._send(event.name)

    def compilation_finished(self, event: events.CompilationFinished, /) -> None:
        self._send(None)

    def _send(self, function: str | None) -> None:
        self.function = function
        if self._channel.is_open:
            self._channel.send(CompilationRecord(function=function).to_dict())


def meshes_of(namespace: Mapping[str, Any]) -> list[introspect.schema.ShardingRecord]:
    """The meshes among variables, the first name of each."""
    named: dict[Mesh, str] = {}
    for name, value in list(namespace.items()):
        if isinstance(value, Mesh) and not name.startswith("_"):
            named.setdefault(value, name)
    records = (introspect.sharding(mesh, name=name) for mesh, name in named.items())
    return list(itertools.islice(records, _MOST_MESHES))


def device_note(memory: introspect.schema.MemoryRecord) -> str:
    """How to get another number of virtual devices."""
    if any(device.platform != "cpu" for device in memory.devices):
        return ""
    return "Another number of CPU devices: %pellucid devices N in the first cell."


def _core_cell(cells: Cells, file: str) -> introspect.Cell | None:
    cell = cells.of(file)
    return None if cell is None else introspect.Cell(*cell)
