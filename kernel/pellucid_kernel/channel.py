"""The line to the panels of a front end: records out, requests in.

A panel opens a comm; several panels, of several windows, may be open. A comm whose front end is gone fails when it is
used, and is forgotten.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

import comm as comms

TARGET = "pellucid.session"
LOADED_TARGET = "pellucid.loaded"
"""Opened by the kernel once it knows `TARGET`: front ends that asked too early ask again."""
logger = logging.getLogger("pellucid")

Answer = Callable[[Mapping[str, Any]], list[Mapping[str, Any]]]


class Channel:
    """All open comms of this kernel. Messages may come in from any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._comms: dict[str, Any] = {}
        self._followed: dict[str, frozenset[str]] = {}
        """By comm the names of the panels that are in sight there."""
        self._manager: Any = None
        self._answer: Answer | None = None

    def followed(self) -> frozenset[str]:
        """Names of the panels that are in sight anywhere."""
        with self._lock:
            return frozenset().union(*self._followed.values())

    def listen(self, manager: Any) -> None:
        """Let front ends open comms with `manager`, the kernel's."""
        self._manager = manager
        manager.register_target(TARGET, self._opened)

    def announce(self) -> None:
        """Announces to front ends that panels may send requests; those without panels ignore it."""
        if self._manager is not None:
            # Looked up when it is called, because ipykernel replaces it.
            comms.create_comm(target_name=LOADED_TARGET).close()

    def answer_with(self, answer: Answer | None) -> None:
        """Answer requests with what `answer` makes of them; until then a request is answered by nothing."""
        self._answer = answer

    def send(self, message: Mapping[str, Any], panel: str | None = None) -> None:
        """Send to all comms, or to those where a panel is in sight."""
        with self._lock:
            for name, comm in list(self._comms.items()):
                if panel is None or panel in self._followed.get(name, ()):
                    self._send(comm, message)

    def close(self) -> None:
        """Close all comms and take no more."""
        with self._lock:
            for comm in self._comms.values():
                comm.close()
            self._comms.clear()
            self._followed.clear()
        if self._manager is not None:
            self._manager.unregister_target(TARGET, self._opened)
            self._manager = None

    def _opened(self, comm: Any, message: Mapping[str, Any]) -> None:
        comm.on_msg(lambda each: self._received(comm, each["content"]["data"]))
        comm.on_close(lambda _: self._forget(comm))
        with self._lock:
            self._comms[comm.comm_id] = comm
        self._received(comm, {"kind": "open"})

    def _received(self, comm: Any, request: Mapping[str, Any]) -> None:
        if request.get("kind") == "follow":
            with self._lock:
                self._followed[comm.comm_id] = frozenset(request["panels"])
        for message in [] if self._answer is None else self._answer(request):
            with self._lock:
                self._send(comm, message)

    def _send(self, comm: Any, message: Mapping[str, Any]) -> None:
        try:
            comm.send(dict(message))
        except Exception:
            logger.warning("a panel can't be reached any more", exc_info=True)
            self._forget(comm)

    def _forget(self, comm: Any) -> None:
        with self._lock:
            self._comms.pop(comm.comm_id, None)
            self._followed.pop(comm.comm_id, None)
