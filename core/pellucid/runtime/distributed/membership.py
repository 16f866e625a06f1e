"""This process's place in a job: how it comes in, how it shows that it lives, how it learns who has failed."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable

from pellucid.base import (
    AgreementError,
    DistributedError,
    DistributedTimeoutError,
    PeerFailureError,
)

from . import wire

_ATTEMPT_INTERVAL_SECONDS = 0.2
_MAX_GOODBYE_SECONDS = 2.0
_MAX_NAMED_PROCESSES = 16


class Membership:
    """The connection of process `process_id` with the coordinator, and what it said about the others."""

    def __init__(
        self,
        process_id: int,
        num_processes: int,
        heartbeat_timeout: float,
        on_failure: Callable[[], None],
    ) -> None:
        self.process_id = process_id
        self.num_processes = num_processes
        self.job = ""
        self.failures: dict[int, str] = {}
        self.different_orders: list[tuple[list[int], str, str]] = []
        """(processes, subject, proposal) of programs launched at the same position; empty if all are equal."""
        self._heartbeat_timeout = heartbeat_timeout
        self._on_failure = on_failure
        self.has_failed = False
        """Whether a process has failed, or launched another program."""
        self._failed = threading.Event()
        self._writer: asyncio.StreamWriter | None = None
        self._missing: list[int] = []
        self._tasks: list[asyncio.Future[None]] = []

    async def join(self, host: str, port: int, seconds: float) -> None:
        """Come in, and wait until all are there.

        Raises: DistributedTimeoutError if that takes longer than `seconds`, with who is missing;
        DistributedError if process 0 refuses this one.
        """
        self._address = f"{host}:{port}"
        self._problem = "no answer"
        try:
            async with asyncio.timeout(seconds):
                while not await self._attempt(host, port):
                    await self.leave()
                    await asyncio.sleep(_ATTEMPT_INTERVAL_SECONDS)
        except TimeoutError:
            await self.leave()
            raise self._late(seconds) from None
        except DistributedError:
            await self.leave()
            raise

    async def _attempt(self, host: str, port: int) -> bool:
        """Whether the job is complete; if not, `_problem` says what was in the way."""
        try:
            reader, self._writer = await asyncio.open_connection(host, port)
        except OSError as error:
            self._problem = str(error)
            return False
        wire.send(
            self._writer, "member", version=wire.VERSION, process_id=self.process_id,
            num_processes=self.num_processes,
        )  # fmt: skip
        while True:
            message = await wire.receive(reader)
            if message is None:
                self._problem = "what answers there is no coordinator of pellucid"
                return False
            if message["event"] == "refused":
                self._problem = message["reason"]
                if message.get("final"):
                    raise self._refused()
                return False
            if message["event"] == "waiting":
                self._missing = message["missing"]
            if message["event"] == "complete":
                self.job = message["job"]
                self._tasks = [
                    asyncio.ensure_future(self._listen(reader)),
                    asyncio.ensure_future(self._send_heartbeats(self._writer)),
                ]
                return True

    def _refused(self) -> DistributedError:
        return DistributedError(
            f"process 0 at {self._address} does not let process {self.process_id} in.",
            got=self._problem,
            do="Give all processes the same coordinator_address and num_processes, and each its own process_id.",
        )

    def _late(self, seconds: float) -> DistributedTimeoutError:
        if self._missing:
            return DistributedTimeoutError(
                f"{processes_in_words(self._missing)} of {self.num_processes} did not come within {seconds:g} s.",
                got=f"process {self.process_id} waited at {self._address}",
                do="Start all processes with the same coordinator_address, or raise initialization_timeout.",
            )
        return DistributedTimeoutError(
            f"process 0 could not be reached at {self._address} within {seconds:g} s.",
            got=self._problem,
            do="Check coordinator_address, and that process 0 runs; or raise initialization_timeout.",
        )

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        while True:
            try:
                message = await asyncio.wait_for(wire.receive(reader), self._heartbeat_timeout)
            except TimeoutError:
                self._note({0: f"nothing was heard of it for {self._heartbeat_timeout:g} s"})
                return
            if message is None:
                self._note({0: "its connection closed"})
                return
            if message["event"] == "failed":
                self._note({int(process): why for process, why in message["processes"].items()})
            if message["event"] == "different orders":
                self.different_orders = message["said"]
                self._note({})

    def _note(self, failures: dict[int, str]) -> None:
        self.failures = {**failures, **self.failures}
        if not self.has_failed:
            self.has_failed = True
            self._failed.set()
            self._on_failure()

    async def _send_heartbeats(self, writer: asyncio.StreamWriter) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_timeout / 4)
            wire.send(writer, "alive")

    async def leave(self, reason: str | None = None) -> None:
        """Go, for `reason` if this is a failure to the others."""
        for task in self._tasks:
            task.cancel()
        if self._writer is not None:
            wire.send(self._writer, "leaving", reason=reason)
            self._writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                await asyncio.wait_for(self._writer.wait_closed(), _MAX_GOODBYE_SECONDS)

    def failure(self, seconds: float = 0.0) -> DistributedError | None:
        """The error for processes that have failed, or launched different programs, or are found to within `seconds`."""
        if not self.has_failed and not (seconds and self._failed.wait(seconds)):
            return None
        if self.different_orders:
            return AgreementError(
                "the processes have launched different programs; what they computed since is wrong.",
                got=[
                    f"{processes_in_words(who)}: {text}" for who, _, text in self.different_orders
                ],
                do="Call distributed.shutdown() and initialize() anew; the option "
                "agreement_on_programs='every_run' finds this before the programs start.",
            )
        failed = sorted(self.failures)
        error = PeerFailureError(
            f"{processes_in_words(failed)} of {self.num_processes} failed; process {self.process_id} can't go on alone.",
            got=[f"process {process}: {self.failures[process]}" for process in failed],
            do="Call distributed.shutdown() here, start what failed again, and initialize() anew; "
            "arrays over several processes are lost.",
        )
        error.failed = tuple(failed)
        return error


def processes_in_words(indices: list[int]) -> str:
    """As in "process 3" or "processes 0, 2"; of very many, the first."""
    shown = ", ".join(map(str, indices[:_MAX_NAMED_PROCESSES]))
    if len(indices) > _MAX_NAMED_PROCESSES:
        shown += f" and {len(indices) - _MAX_NAMED_PROCESSES} others"
    return f"process {shown}" if len(indices) == 1 else f"processes {shown}"
