"""jaxlib's way to its coordination service, which doesn't break when process 0 dies.

jaxlib's client ends the process when its connection is lost. So it connects to this process, which passes
everything on to the coordinator, and which keeps the near end open when the far end is gone.
"""

from __future__ import annotations

import asyncio
import contextlib

from . import wire


class Tunnel:
    """Passes connections made to a port of this machine on to the coordinator of a job."""

    def __init__(self, host: str, port: int, job: str) -> None:
        self._far_end = (host, port)
        self._job = job

    async def start(self) -> int:
        """Begin to listen; gives the port."""
        self._server = await wire.serve(self._carry, "127.0.0.1", 0)
        return self._server.sockets[0].getsockname()[1]

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):  # then it is as if the far end were silent
            far = await asyncio.open_connection(*self._far_end)
            wire.send(far[1], "tunnel", version=wire.VERSION, job=self._job)
            try:
                await wire.join((reader, writer), far)
            finally:
                far[1].close()
        while await reader.read(wire.CHUNK):
            pass
