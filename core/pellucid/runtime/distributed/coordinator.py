"""Process 0's meeting place: it lets processes in, watches them, and leads them to jaxlib's service.

Everything goes through one port. A connection says first what it is for: membership, which lasts as long as
the process is in the job, agreements with the other processes, or a tunnel to jaxlib's coordination service, which
listens on this machine only.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

from . import wire
from .agreements import Agreements, Fail

_MAX_HELLO_SECONDS = 10.0


class Coordinator:
    """Keeps the connections of the job's processes, and reports to all of them when one fails."""

    def __init__(self, num_processes: int, heartbeat_timeout: float, service_port: int) -> None:
        self._num_processes = num_processes
        self._heartbeat_timeout = heartbeat_timeout
        self._service_port = service_port
        self._members: dict[int, asyncio.StreamWriter] = {}
        self._meetings: dict[int, asyncio.StreamWriter] = {}
        self._failures: dict[int, str] = {}
        self._agreements = Agreements(
            lambda process, event, **fields: wire.send(self._meetings[process], event, **fields),
            Fail(
                self.note_failure,
                lambda proposals: self._tell("different orders", said=proposals),
            ),
        )
        self._job = ""
        self.address_for_others: str | None = None
        """Where another process found this one; None while none has."""
        self._is_empty = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._pulse: asyncio.Future[None] | None = None

    async def start(self, host: str | None, port: int) -> None:
        """Listen at `port` of the interfaces that have the address `host`, or of all."""
        self._server = await wire.serve(self._accept, host, port)
        self._pulse = asyncio.ensure_future(self._send_heartbeats())

    async def stop(self, seconds: float) -> None:
        """Listen no more, and wait `seconds` for the members to leave."""
        if self._server is None or self._pulse is None:
            return
        self._server.close()
        try:
            await asyncio.wait_for(self._is_empty.wait(), seconds)
        except TimeoutError:
            for writer in self._members.values():
                writer.close()
        self._pulse.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            hello = await asyncio.wait_for(wire.receive(reader), _MAX_HELLO_SECONDS)
        except TimeoutError:
            return
        if hello is None:
            return
        refusal = self._refusal(hello)
        if refusal:
            wire.send(writer, "refused", **refusal)
        elif hello["event"] == "tunnel":
            service = await asyncio.open_connection("127.0.0.1", self._service_port)
            try:
                await wire.join((reader, writer), service)
            finally:
                service[1].close()
        elif hello["event"] == "meetings":
            await self._attend_meetings(hello["process_id"], reader, writer)
        else:
            await self._attend(hello["process_id"], reader, writer)

    def _refusal(self, hello: dict[str, Any]) -> dict[str, Any]:
        """Why a connection isn't let in, and whether that can change; empty if it is let in."""
        if hello.get("version") != wire.VERSION:
            return {"reason": "process 0 runs another version of pellucid", "final": True}
        if hello["event"] in ("tunnel", "meetings"):
            is_member = self._job and hello.get("job") == self._job
            return {} if is_member else {"reason": "the job is over", "final": True}
        process, count = hello.get("process_id"), hello.get("num_processes")
        if count != self._num_processes:
            reason = (
                f"process {process} was told num_processes={count}, process 0 {self._num_processes}"
            )
            return {"reason": reason, "final": True}
        if process not in range(self._num_processes):
            return {"reason": f"there is no process {process} of {count}", "final": True}
        if self._job:  # it may be the one before ours
            return {"reason": "the job there has begun, and all its processes are in it"}
        if process in self._members:
            return {"reason": f"another process has come as process {process}", "final": True}
        return {}

    async def _attend(
        self, process: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Be there for a member until it leaves or fails; before the job has begun it may come again."""
        self._members[process] = writer
        self._is_empty.clear()
        if process != 0:
            self.address_for_others = writer.get_extra_info("sockname")[0]
        self._tell_who_is_there()
        try:
            reason = await self._until_it_ends(reader)
        finally:
            del self._members[process]
            if not self._members:
                self._is_empty.set()
        if reason is None:
            return
        if self._job:
            self.note_failure(process, reason)
        else:
            self._tell_who_is_there()

    async def _attend_meetings(
        self, process: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Receive a member's proposals, until it leaves or fails."""
        self._meetings[process] = writer
        try:
            while (message := await wire.receive(reader)) is not None:
                if message["event"] == "come":
                    self._agreements.come(
                        process, tuple(message["group"]), message["what"], message["said"],
                        message["seconds"], message["key"],
                    )  # fmt: skip
                elif message["event"] == "launched":
                    self._agreements.launched(
                        process, tuple(message["group"]), message["keys"], message["seconds"]
                    )
                elif message["event"] == "stop":
                    self._agreements.stop(process, message["reason"])
                else:
                    self._agreements.withdraw(process)
        finally:
            self._agreements.forget(process)

    def note_failure(self, process: int, reason: str) -> None:
        """Report to all members that `process` has failed."""
        self._failures[process] = reason
        self._tell("failed", processes=self._failures)

    async def _until_it_ends(self, reader: asyncio.StreamReader) -> str | None:
        """Why a member failed; None if it left."""
        while True:
            try:
                message = await asyncio.wait_for(wire.receive(reader), self._heartbeat_timeout)
            except TimeoutError:
                return f"nothing was heard of it for {self._heartbeat_timeout:g} s"
            if message is None:
                return "its connection closed"
            if message["event"] == "leaving":
                return message.get("reason")

    def _tell_who_is_there(self) -> None:
        missing = sorted(set(range(self._num_processes)) - set(self._members))
        if missing:
            self._tell("waiting", missing=missing)
        else:
            self._job = secrets.token_hex(8)
            self._tell("complete", job=self._job)

    def _tell(self, event: str, **fields) -> None:
        for writer in self._members.values():
            wire.send(writer, event, **fields)

    async def _send_heartbeats(self) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_timeout / 4)
            self._tell("alive")
