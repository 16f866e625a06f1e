"""The coordinator in process 0: admits processes, monitors them, and connects them to jaxlib's service.

It uses a single port. A connection first states its purpose: membership, which lasts while the process is in the job;
agreements with the other processes; or a tunnel to jaxlib's coordination service, which only listens on this
machine.
"""

from __future__ import annotations

import asyncio
import secrets
from asyncio import StreamReader, StreamWriter
from typing import Any

from . import wire
from .agreements import CHECK_INTERVAL_SECONDS, Agreements

_MAX_HELLO_SECONDS = 10.0


class Coordinator:
    """Manages the connections of the job's processes, and reports to all of them when one fails."""

    def __init__(
        self, num_processes: int, heartbeat_timeout: float, service_port: int, secret: str = ""
    ) -> None:
        self._secret = secret
        self._num_processes = num_processes
        self._heartbeat_timeout = heartbeat_timeout
        self._service_port = service_port
        self._members: dict[int, StreamWriter] = {}
        self._meetings: dict[int, StreamWriter] = {}
        self._failures: dict[int, str] = {}
        self._agreements = Agreements(
            lambda process, event, **fields: wire.send(self._meetings[process], event, **fields),
            self.note_failure,
            lambda lines: self._tell("different orders", programs=lines),
        )
        self._job = ""
        self.address_for_others: str | None = None
        """The address under which another process reached this one; None until one has."""
        self._is_empty = asyncio.Event()

    async def start(self, host: str | None, port: int) -> None:
        """Listen at `port`, on the interfaces with the address `host`, or on all."""
        self._server = await wire.serve(self._accept, host, port)
        self._tasks = [
            asyncio.ensure_future(wire.repeat(self._heartbeat_timeout / 4, self._tell, "alive")),
            asyncio.ensure_future(wire.repeat(CHECK_INTERVAL_SECONDS, self._agreements.check)),
        ]

    async def stop(self, seconds: float, failure: str | None = None) -> None:
        """Stop listening, and wait up to `seconds` for the members to leave; report this process's `failure`, if any."""
        if failure is not None:
            self.note_failure(0, failure)
        self._server.close()
        try:
            async with asyncio.timeout(seconds):
                await self._is_empty.wait()
        except TimeoutError:
            for writer in self._members.values():
                writer.close()
        for task in self._tasks:
            task.cancel()

    async def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        hello = await wire.receive(reader, _MAX_HELLO_SECONDS)
        event = hello["event"]
        if event == "member":
            reason, is_final = await self._unproven(hello, reader, writer), True
            if not reason:
                reason, is_final = self._refusal(hello)
            if reason:
                wire.send(writer, "refused", reason=reason, is_final=is_final)
            else:
                await self._attend(hello["process_id"], reader, writer)
        # The member belongs to a job that has ended.
        elif not self._job or not wire.is_same(hello.get("job"), self._job):
            return
        elif event == "tunnel":
            await wire.join(reader, writer, "127.0.0.1", self._service_port)
        else:
            await self._attend_meetings(hello["process_id"], reader, writer)

    async def _unproven(
        self, hello: dict[str, Any], reader: StreamReader, writer: StreamWriter
    ) -> str:
        """Reason to reject a process from the job, empty if it is accepted; both sides prove that they hold the secret."""
        process, count = hello.get("process_id"), hello.get("num_processes")
        if hello.get("version") != wire.VERSION:
            return "process 0 runs another version of pellucid"
        if type(process) is not int or type(count) is not int:
            return "its numbers are no integers"
        if not self._secret:
            stated = bool(hello.get("nonce"))
            return f"process {process} was given a secret, process 0 none" if stated else ""
        nonce = secrets.token_hex(16)
        mine = wire.proof(self._secret, "process 0", hello.get("nonce"))
        wire.send(writer, "challenge", nonce=nonce, proof=mine)
        answer = await wire.receive(reader, _MAX_HELLO_SECONDS)
        expected = wire.proof(self._secret, "member", nonce, process, count)
        return "" if wire.is_same(answer.get("proof"), expected) else "it has another secret"

    def _refusal(self, hello: dict[str, Any]) -> tuple[str, bool]:
        """(why a process of the job isn't admitted, empty if it is; whether that is permanent)."""
        process, count = hello["process_id"], hello["num_processes"]
        if count != self._num_processes:
            problem = f"process {process} was told num_processes={count}"
            return f"{problem}, process 0 {self._num_processes}", True
        if process not in range(self._num_processes):
            return f"there is no process {process} of {count}", True
        if self._job:  # the message may belong to the job before this one
            begun = "the job there has begun, and all its processes are in it"
            return f"{begun}{self._origin(process)}", False
        if process in self._members:
            return f"another process has come as process {process}{self._origin(process)}", True
        return "", False

    def _origin(self, process: int) -> str:
        """The address of the current member with this index, for a process that it displaces."""
        writer = self._members.get(process)
        address = None if writer is None else writer.get_extra_info("peername")
        return f"; process {process} is at {address[0]}:{address[1]}" if address else ""

    async def _attend(self, process: int, reader: StreamReader, writer: StreamWriter) -> None:
        """Serve a member until it leaves or fails; before the job has begun it may reconnect."""
        self._members[process] = writer
        self._is_empty.clear()
        if process != 0:
            self.address_for_others = writer.get_extra_info("sockname")[0]
        self._tell_who_is_there()
        message = {"event": "alive"}
        try:
            while message["event"] == "alive":
                message = await wire.receive(reader, self._heartbeat_timeout)
        finally:
            del self._members[process]
            if not self._members:
                self._is_empty.set()
        reason = message.get("reason", "it sent what is no message")
        if reason is not None and self._job:
            self.note_failure(process, reason)
        elif reason is not None:
            self._tell_who_is_there()

    async def _attend_meetings(
        self, process: int, reader: StreamReader, writer: StreamWriter
    ) -> None:
        """Receive a member's proposals, until it leaves or fails."""
        self._meetings[process] = writer
        agreements = self._agreements
        handlers = {
            "come": agreements.propose, "launched": agreements.report_launch, "stop": agreements.stop,
            "withdraw": agreements.withdraw,
        }  # fmt: skip
        try:
            while (message := await wire.receive(reader))["event"] != "lost":
                handlers[message.pop("event")](process, **message)
        finally:
            agreements.forget(process)

    def note_failure(self, process: int, reason: str) -> None:
        """Report to all members that `process` has failed."""
        if process not in self._failures:
            self._failures[process] = reason
            self._tell("failed", processes=self._failures)

    def _tell_who_is_there(self) -> None:
        missing = sorted(set(range(self._num_processes)) - set(self._members))
        if missing:
            self._tell("waiting", missing=missing)
        else:
            self._job = secrets.token_hex(8)
            self._tell("complete", job=self._job)

    def _tell(self, event: str, **fields: Any) -> None:
        for writer in self._members.values():
            wire.send(writer, event, **fields)
