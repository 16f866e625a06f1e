"""One kernel with the core loaded: what cells made, shown to panels, tooltips and error messages."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from pellucid import introspect
from pellucid.introspect.errors import PellucidError
from pellucid_kernel.cells import Cells
from pellucid_kernel.channel import Channel
from pellucid_kernel.completion import Hints
from pellucid_kernel.failures import FailureDisplay
from pellucid_kernel.schema import AnswerRecord, StateRecord

_MOST_ARRAYS = 300
"""Rows that a panel gets: the largest arrays come first."""


class Session:
    """Connects the core with one shell until `stop`."""

    def __init__(self, shell: InteractiveShell, cells: Cells, channel: Channel) -> None:
        self._shell = shell
        self._channel = channel
        self._hints = Hints(shell)
        self._failures = FailureDisplay(shell)
        introspect.find_cells_with(lambda file: _core_cell(cells, file))
        channel.answer_with(self.answer)
        self.publish_state()

    def stop(self) -> None:
        """Leave the shell as it was."""
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
            device_note=device_note(memory),
        )

    def answer(self, request: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """What a panel's request gives."""
        kind = request.get("kind")
        if kind == "look":
            return self.state().to_dict()
        program = error = None
        try:
            if kind == "show_program":
                program = introspect.function_program(int(request["entry"]))
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


def device_note(memory: introspect.schema.MemoryRecord) -> str:
    """How to get another number of virtual devices."""
    if any(device.platform != "cpu" for device in memory.devices):
        return ""
    return "Another number of CPU devices: %pellucid devices N in the first cell."


def _core_cell(cells: Cells, file: str) -> introspect.Cell | None:
    cell = cells.of(file)
    return None if cell is None else introspect.Cell(*cell)
