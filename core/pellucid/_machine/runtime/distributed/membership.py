"""This process's membership in a job: joining, heartbeats, and failures of others."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
from collections.abc import Callable
from typing import Any

from pellucid._machine.base import (
    AgreementError,
    DistributedError,
    DistributedTimeoutError,
    PeerFailureError,
    logger,
)
from pellucid._machine.runtime.peers import processes_in_words

from . import wire

_ATTEMPT_INTERVAL_SECONDS = 0.2
_MAX_GOODBYE_SECONDS = 2.0


class _NotYetError(ConnectionError):
    """Process 0 is reachable, and may admit this process later."""


class Membership:
    """The connection of process `process_id` to the coordinator, and what it reported about the others."""

    def __init__(
        self,
        process_id: int,
        num_processes: int,
        heartbeat_timeout: float,
        on_failure: Callable[[], None],
        secret: str = "",
    ) -> None:
        self._secret = secret
        self.process_id = process_id
        self.num_processes = num_processes
        self.job = ""
        self.failures: dict[int, str] = {}
        self.different_programs: list[str] = []
        """Lines about different programs launched at the same position, for messages; empty if all are equal."""
        self._heartbeat_timeout = heartbeat_timeout
        self._on_failure = on_failure
        self.has_failed = False
        """Whether a process has failed, or launched another program."""
        self._failed = threading.Event()
        self._writer: asyncio.StreamWriter | None = None
        self._missing: list[int] = []
        self._tasks: list[asyncio.Future[None]] = []

    async def join(self, host: str, port: int, seconds: float) -> None:
        """Join, and wait until all have joined.

        Raises: DistributedTimeoutError if that takes longer than `seconds`, with the missing processes;
        DistributedError if process 0 refuses this one.
        """
        address, problem = f"{host}:{port}", "no answer"
        try:
            async with asyncio.timeout(seconds):
                while not self.job:
                    try:
                        await self._attempt(host, port)
                    except _NotYetError as error:
                        if problem != str(error):
                            problem = str(error)
                            logger.warning("%s does not let process %d in: %s; it tries again until %g s are over",
                                           address, self.process_id, problem, seconds)  # fmt: skip
                        await self.leave()
                        await asyncio.sleep(_ATTEMPT_INTERVAL_SECONDS)
                    except OSError as error:
                        problem = str(error)
                        await self.leave()
                        await asyncio.sleep(_ATTEMPT_INTERVAL_SECONDS)
        except TimeoutError:
            if self._missing:
                missing = f"{processes_in_words(self._missing)} of {self.num_processes}"
                raise DistributedTimeoutError(
                    f"{missing} did not come within {seconds:g} s.",
                    got=f"process {self.process_id} waited at {address}",
                    do="Start all processes with the same coordinator_address, or raise initialization_timeout.",
                ) from None
            raise DistributedTimeoutError(
                f"process 0 could not be reached at {address} within {seconds:g} s.",
                got=problem,
                do="Check coordinator_address, and that process 0 runs; or raise initialization_timeout.",
            ) from None
        finally:
            if not self.job:
                await self.leave()

    async def _attempt(self, host: str, port: int) -> None:
        """Connect to the coordinator and wait until the job is complete.

        Raises: OSError for failures that may be temporary; DistributedError if this process doesn't fit.
        """
        reader, self._writer = await asyncio.open_connection(host, port)
        nonce = secrets.token_hex(16) if self._secret else ""
        is_proven = not self._secret
        wire.send(
            self._writer, "member", version=wire.VERSION, process_id=self.process_id,
            num_processes=self.num_processes, nonce=nonce,
        )  # fmt: skip
        while not self.job:
            message = await wire.receive(reader)
            match message["event"]:
                case "challenge":
                    self._answer(message, nonce, f"{host}:{port}")
                    is_proven = True
                case "waiting" | "complete" if not is_proven:
                    raise self._secret_error(f"{host}:{port}", "it asked for no secret")
                case "waiting":
                    self._missing = message["missing"]
                case "complete":
                    self.job = message["job"]
                case "lost":
                    raise ConnectionError("what answers there is no coordinator of pellucid")
                case "refused" if message["is_final"] and "secret" in message["reason"]:
                    raise self._secret_error(f"{host}:{port}", message["reason"])
                case "refused" if message["is_final"]:
                    raise DistributedError(
                        f"process 0 at {host}:{port} does not let process {self.process_id} in.",
                        got=message["reason"],
                        do="Give all processes the same coordinator_address and num_processes, and each its own process_id.",
                    )
                case "refused":
                    raise _NotYetError(message["reason"])
        heartbeats = wire.repeat(self._heartbeat_timeout / 4, wire.send, self._writer, "alive")
        self._tasks = [*map(asyncio.ensure_future, (self._listen(reader), heartbeats))]

    def _answer(self, challenge: dict[str, Any], nonce: str, address: str) -> None:
        """Prove to process 0 that this process knows the secret, after it has proven the same."""
        if not self._secret:
            raise self._secret_error(address, "it asks for a secret, and this process has none")
        if not wire.is_same(challenge.get("proof"), wire.proof(self._secret, "process 0", nonce)):
            raise self._secret_error(address, "it has another secret")
        mine = wire.proof(
            self._secret, "member", challenge.get("nonce"), self.process_id, self.num_processes
        )
        wire.send(self._writer, "proof", proof=mine)  # type: ignore[arg-type]

    def _secret_error(self, address: str, problem: str) -> DistributedError:
        return DistributedError(
            f"process 0 at {address} and process {self.process_id} don't share a secret.",
            got=problem,
            do="Set PELLUCID_DISTRIBUTED_SECRET to the same text in all processes, or pass `secret`.",
        )

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        while True:
            message = await wire.receive(reader, self._heartbeat_timeout)
            match message["event"]:
                case "lost":
                    self._note({0: message["reason"]})
                    return
                case "failed":
                    self._note({int(process): why for process, why in message["processes"].items()})
                case "different orders":
                    self.different_programs = message["programs"]
                    self._note({})

    def _note(self, failures: dict[int, str]) -> None:
        self.failures = {**failures, **self.failures}
        if not self.has_failed:
            self.has_failed = True
            self._failed.set()
            self._on_failure()

    async def leave(self, reason: str | None = None) -> None:
        """Leave, with a `reason` if the others are to treat it as a failure."""
        for task in self._tasks:
            task.cancel()
        if self._writer is not None:
            wire.send(self._writer, "leaving", reason=reason)
            self._writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                # `wait_for` in Python 3.11 can lose a cancellation, and with it the timeout of joining.
                async with asyncio.timeout(_MAX_GOODBYE_SECONDS):
                    await self._writer.wait_closed()

    def failure(self, seconds: float = 0.0) -> DistributedError | None:
        """The error for processes that have failed or launched different programs, or do so within `seconds`."""
        if not self.has_failed and not (seconds and self._failed.wait(seconds)):
            return None
        if self.different_programs:
            return AgreementError(
                "the processes have launched different programs; what they computed since is wrong.",
                got=self.different_programs,
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

    def check(self, seconds: float = 0.0) -> None:
        """Raise the `failure`, if there is one."""
        if (error := self.failure(seconds)) is not None:
            raise error
