"""Interrupts of a cell that have no effect yet, because Python runs code of C: a message says so, and why."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from types import FrameType
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from pellucid.introspect import waits
from pellucid.introspect.unrolled import running_line

_TOLD_AFTER_SECONDS = 0.8


class Position:
    """Where a thread is: as long as it is in the same call of C, at the same position."""

    def __init__(self, thread: int) -> None:
        self.frame: FrameType | None = sys._current_frames().get(thread)  # pyright: ignore[reportPrivateUsage]  # public by use
        self._instruction = -1 if self.frame is None else self.frame.f_lasti

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Position):
            return NotImplemented
        return self.frame is other.frame and self._instruction == other._instruction

    __hash__ = None  # pyright: ignore[reportAssignmentType]  # it is compared only


class UnansweredInterrupts:
    """Says, below a cell that was interrupted and goes on, which line runs and what devices compute.

    Python handles an interrupt once code of C returns. That may be long: NumPy, which waits for a device before it reads
    an array's memory, and programs that a CPU runs in the thread that calls them.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell: Any = shell
        self._cell = 0
        """Number of the running cell; 0 between cells."""
        self._n_cells = 0
        self._parent: Any = None
        """The message that asked for the running cell."""
        self._thread = threading.get_ident()
        self._received, self._sent = socket.socketpair()
        self._sent.setblocking(False)
        try:
            # The signal's number is written by C at once, whatever the main thread does.
            self._before = signal.set_wakeup_fd(self._sent.fileno(), warn_on_full_buffer=False)
        except ValueError:  # not the main thread, which alone is interrupted
            self._before = None
            self._received.close()
            self._sent.close()
            return
        threading.Thread(target=self._watch, name="pellucid-interrupts", daemon=True).start()

    def stop(self) -> None:
        """Ends the thread, and gives signals to who had them before."""
        if self._before is not None:
            signal.set_wakeup_fd(self._before)
        self._sent.close()

    def cell_started(self) -> None:
        """Notes the cell below which messages are shown."""
        kernel = getattr(self._shell, "kernel", None)
        self._parent = None if kernel is None else kernel.get_parent("shell")
        self._thread = threading.get_ident()
        self._n_cells += 1
        self._cell = self._n_cells

    def cell_ended(self) -> None:
        """Notes that no cell runs."""
        self._cell = 0

    def _watch(self) -> None:
        """Runs in a thread of its own, until `stop`."""
        stopped = threading.Event()
        while signals := self._received.recv(64):
            if self._before is not None and self._before >= 0:
                with contextlib.suppress(OSError):  # closed meanwhile, or full
                    os.write(self._before, signals)
            if signal.SIGINT not in signals or not self._cell:
                continue
            cell, position = self._cell, Position(self._thread)
            stopped.wait(_TOLD_AFTER_SECONDS)
            if self._cell == cell and Position(self._thread) == position:
                self._tell(position)
        self._received.close()

    def _tell(self, position: Position) -> None:
        line = running_line(position.frame)
        place = "The cell" if line is None else f"{line.source}, line {line.line}"
        arrays = waits.unfinished_arrays()
        computed = (
            f" {waits.devices_text(arrays)} still computes {waits.awaited_text(arrays)}."
            if arrays
            else ""
        )
        text = (
            f"The interrupt has to wait: {place} runs code of C, which Python can't leave before it returns.{computed} "
            "Wait for it, or restart the kernel.\n"
        )
        kernel = getattr(self._shell, "kernel", None)
        if kernel is None:
            sys.stderr.write(text)
            sys.stderr.flush()
            return
        # `sys.stderr` would write below the cell in which this thread was started.
        kernel.session.send(
            kernel.iopub_socket, "stream", {"name": "stderr", "text": text},
            parent=self._parent, ident=b"stream.stderr",
        )  # fmt: skip
