"""Communication with the panels of front ends: sends records, receives requests.

A panel opens a comm, and several panels in several windows can be open. A comm whose front end is gone raises when it
is used, and is then dropped.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

import comm as comms

TARGET = "pellucid.session"
LOADED_TARGET = "pellucid.loaded"
"""Comm target that the kernel opens once it has registered `TARGET`: front ends whose request came too early ask again."""
logger = logging.getLogger("pellucid")

Answer = Callable[[Mapping[str, Any]], list[Mapping[str, Any]]]


class Channel:
    """All open comms of this kernel. Messages can arrive in any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._comms: dict[str, Any] = {}
        self._followed: dict[str, frozenset[str]] = {}
        """For each comm, the names of the panels visible there."""
        self._manager: Any = None
        self._answer: Answer | None = None

    def followed_panels(self) -> frozenset[str]:
        """Names of the panels that are visible in any front end."""
        with self._lock:
            return frozenset().union(*self._followed.values())

    def listen(self, manager: Any) -> None:
        """Registers `TARGET` with the kernel's comm `manager`, so that front ends can open comms."""
        self._manager = manager
        manager.register_target(TARGET, self._on_open)

    def announce(self) -> None:
        """Announces to front ends that panels can send requests. Front ends without panels ignore it."""
        if self._manager is not None:
            # Looked up at each call, because ipykernel replaces it.
            comms.create_comm(target_name=LOADED_TARGET).close()

    def answer_with(self, answer: Answer | None) -> None:
        """Sets the function that answers requests. Without one, requests get no answer."""
        self._answer = answer

    def send(self, message: Mapping[str, Any], panel: str | None = None) -> None:
        """Sends a message to all comms, or to those where `panel` is visible."""
        with self._lock:
            for name, comm in list(self._comms.items()):
                if panel is None or panel in self._followed.get(name, ()):
                    self._send(comm, message)

    def close(self) -> None:
        """Closes all comms and accepts no new ones."""
        with self._lock:
            for comm in self._comms.values():
                comm.close()
            self._comms.clear()
            self._followed.clear()
        if self._manager is not None:
            self._manager.unregister_target(TARGET, self._on_open)
            self._manager = None

    def _on_open(self, comm: Any, message: Mapping[str, Any]) -> None:
        comm.on_msg(lambda each: self._on_message(comm, each["content"]["data"]))
        comm.on_close(lambda _: self._forget(comm))
        with self._lock:
            self._comms[comm.comm_id] = comm
        self._on_message(comm, {"kind": "open"})

    def _on_message(self, comm: Any, request: Mapping[str, Any]) -> None:
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
