"""Connects the loaded core with one shell: panels, tooltips and error messages."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from pellucid import config, events, introspect
from pellucid.introspect.errors import PellucidError
from pellucid_kernel.arrays import HANDLERS as ARRAY_HANDLERS
from pellucid_kernel.cells import Cells
from pellucid_kernel.channel import Channel
from pellucid_kernel.completion import Hints
from pellucid_kernel.failures import FailureDisplay
from pellucid_kernel.interrupts import UnansweredInterrupts
from pellucid_kernel.panels import PANELS
from pellucid_kernel.placements import HANDLERS as PLACEMENT_HANDLERS
from pellucid_kernel.profiles import HANDLERS as PROFILE_HANDLERS
from pellucid_kernel.progress import ProgramProgress, RecompilationNotes
from pellucid_kernel.schema import AnswerRecord


class ShellConnection:
    """Connects the core with one shell, until `stop`."""

    def __init__(self, shell: InteractiveShell, cells: Cells, channel: Channel) -> None:
        self._channel = channel
        self._panels = {each.name: each(shell) for each in PANELS}
        self._handlers = {
            kind: handler
            for handlers in (
                ARRAY_HANDLERS,
                PLACEMENT_HANDLERS,
                PROFILE_HANDLERS,
                *(panel.handlers() for panel in self._panels.values()),
            )
            for kind, handler in handlers.items()
        }
        self._hints = Hints(shell)
        self._failures = FailureDisplay(shell)
        self._progress = ProgramProgress(lambda record: channel.send(record.to_dict()))
        self._notes = RecompilationNotes(shell)
        self._interrupts = UnansweredInterrupts(shell)
        # JupyterLab's server sets the variable to the notebook's name.
        if config.compilation_cache_session is None:
            config.update("compilation_cache_session", os.environ.get("JPY_SESSION_NAME"))
        introspect.find_cells_with(lambda file: _core_cell(cells, file))
        events.add_observer(self._progress)
        events.add_observer(self._notes)
        channel.answer_with(self.answer)
        channel.send(self._progress.shown.to_dict())
        self.publish_states()

    def stop(self) -> None:
        """Restores the shell as it was."""
        events.remove_observer(self._notes)
        events.remove_observer(self._progress)
        self._progress.stop()
        self._interrupts.stop()
        introspect.find_cells_with(None)
        self._channel.answer_with(None)
        self._failures.stop()
        self._hints.stop()

    def let_go(self) -> None:
        """Drops references to arrays held by the frames of the last error."""
        introspect.clear_failed_frames()

    def show_whole_traceback(self) -> None:
        """Shows the last error with all its frames."""
        self._failures.show_whole_traceback()

    def cell_started(self, cell: str | None) -> None:
        """Sets the id of the cell that is now running."""
        self._progress.cell_started(cell)
        self._interrupts.cell_started()

    def cell_ended(self) -> None:
        """Sends the current state to all panels."""
        self._interrupts.cell_ended()
        self._notes.cell_ended()
        self._progress.cell_ended()
        self.publish_states()

    def publish_states(self) -> None:
        """Sends its state to each visible panel; does nothing if there is none."""
        for name in self._panels.keys() & self._channel.followed_panels():
            self._channel.send(self._panels[name].state().to_dict(), panel=name)

    def answer(self, request: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """The messages that answer a request of a front end."""
        kind = request.get("kind")
        if kind == "open":
            return [self._progress.shown.to_dict()]
        if kind == "follow":
            followed = self._panels.keys() & set(request["panels"])
            return [self._panels[name].state().to_dict() for name in followed]
        shown = error = None
        try:
            if kind in self._handlers:
                shown = self._handlers[kind](request)
            else:
                error = f"this kernel knows no request {kind!r}"
        except PellucidError as raised:
            error = str(raised)
        answer = AnswerRecord(request=int(request.get("request", 0)), shown=shown, error=error)
        if shown is None and error is None:
            self.publish_states()
        return [answer.to_dict()]


def _core_cell(cells: Cells, file: str) -> introspect.Cell | None:
    cell = cells.of(file)
    return None if cell is None else introspect.Cell(*cell)
