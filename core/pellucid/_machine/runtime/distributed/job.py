"""A job of several processes, from the view of one of them, from joining to leaving."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from pellucid._machine.base import (
    DistributedError,
    DistributedTimeoutError,
    config,
    interruptible,
    logger,
)
from pellucid._machine.xla import distributed as xla_distributed

from . import coordination, sockets, wire
from .coordinator import Coordinator
from .meetings import REPORT_INTERVAL_SECONDS, Meetings
from .membership import Membership

_GLOO = "pellucid/gloo"
THIS_MACHINE = ("localhost", "127.0.0.1", "::1")


class JobParameters(NamedTuple):
    """The parameters with which process `process_id` joins a job; times are in seconds."""

    host: str
    port: int
    bind_host: str | None
    """None for all interfaces."""
    bind_port: int
    num_processes: int
    process_id: int
    partition_index: int | None
    initialization_timeout: float
    heartbeat_timeout_seconds: float
    shutdown_timeout_seconds: float
    secret: str = ""
    """A secret shared by all processes of the job; empty if any process that reaches process 0 may join."""


class Job:
    """This process in a job: its place among the others, and the options of platform clients."""

    def __init__(self, parameters: JobParameters) -> None:
        self.parameters = parameters
        self._shutdown_timeout = max(1, round(parameters.shutdown_timeout_seconds))
        self._place = {"node_id": parameters.process_id, "num_nodes": parameters.num_processes}
        self._loop = wire.EventLoopThread()
        self._service: Any = None
        self._coordinator: Coordinator | None = None
        self._gloo_here: sockets.Address | None = None
        self._gloo_there: set[sockets.Address] = set()
        self._preemption_watch: Any = None
        self._end_of_mpi: Any = None
        self.membership = Membership(
            parameters.process_id,
            parameters.num_processes,
            parameters.heartbeat_timeout_seconds,
            self._when_one_fails,
            parameters.secret,
        )
        self.meetings = Meetings(self.membership)
        self.client: Any = None
        try:
            self._join()
        except BaseException:
            if self.client is not None:
                self.abandon("it could not join")
            else:
                self.meetings.close()
                self._stop_coordinator(0.0)
                self._loop.stop()
            raise
        self.barriers = coordination.Barriers(self.client)
        self.store = coordination.KeyValueStore(self.client)

    def _join(self) -> None:
        parameters = self.parameters
        near_port = self._start_coordinator() if parameters.process_id == 0 else None
        self._loop.run(
            self.membership.join(
                parameters.host, parameters.port, parameters.initialization_timeout
            )
        )
        self.meetings.connect(parameters.host, parameters.port)
        reports = wire.repeat(REPORT_INTERVAL_SECONDS, self.meetings.report)
        self._reports = self._loop.start(reports)
        if near_port is None:
            tunnel = wire.start_tunnel(parameters.host, parameters.port, self.membership.job)
            near_port = self._loop.run(tunnel)
        self.client = xla_distributed.make_client(
            f"127.0.0.1:{near_port}", parameters.process_id, shutdown_timeout=self._shutdown_timeout
        )
        deadline = time.monotonic() + parameters.initialization_timeout
        interruptible(self.client.connect, check=lambda: self._check_joining(deadline))

    def _check_joining(self, deadline: float) -> None:
        """Raise if a failure makes it pointless to wait for jaxlib's own meeting, which follows pellucid's at once."""
        self.membership.check()
        if time.monotonic() > deadline:
            raise DistributedTimeoutError(
                "jaxlib's coordination service did not let all processes in.",
                got=f"waited {self.parameters.initialization_timeout:g} s after all had come",
                do="Look at the output of process 0.",
            )

    def _start_coordinator(self) -> int:
        parameters = self.parameters
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            service_port = free.getsockname()[1]
        coordinator = Coordinator(
            parameters.num_processes,
            parameters.heartbeat_timeout_seconds,
            service_port,
            parameters.secret,
        )
        if not parameters.secret and parameters.bind_host not in THIS_MACHINE:
            logger.warning(
                "whoever reaches port %d of this machine can take a place in the job; set PELLUCID_DISTRIBUTED_SECRET "
                "to the same text in all processes, or pass `secret` to distributed.initialize", parameters.bind_port,
            )  # fmt: skip
        try:
            self._loop.run(coordinator.start(parameters.bind_host, parameters.bind_port))
        except OSError as error:
            raise DistributedError(
                f"process 0 can't listen at port {parameters.bind_port}.",
                got=str(error),
                do="Choose another port in coordinator_address, or another coordinator_bind_address.",
            ) from None
        self._coordinator = coordinator
        self._service = xla_distributed.start_service(
            f"127.0.0.1:{service_port}",
            parameters.num_processes,
            shutdown_timeout=self._shutdown_timeout,
        )
        return service_port

    # Options of the platforms' clients.

    def cpu_options(self) -> dict[str, Any]:
        """Options with which a CPU client connects to those of the other processes."""
        collectives, implementation = None, config.cpu_collectives_implementation.value
        if implementation == "mpi":
            collectives, self._end_of_mpi = make_mpi()
        elif implementation == "gloo":
            collectives = self._make_gloo()
        return {"distributed_client": self.client, "collectives": collectives, **self._place}

    def accelerator_options(self) -> dict[str, Any]:
        """Options with which an accelerator's client connects to those of the other processes."""
        index = self.parameters.partition_index
        return self._place if index is None else {**self._place, "partition_index": index}

    def _make_gloo(self):
        host = self._address_towards_the_others()
        collectives, self._gloo_here = sockets.listening_while(
            lambda: xla_distributed.make_gloo_collectives(self.client, host), host
        )
        if self._gloo_here is not None:
            self.store.set(f"{_GLOO}/{self.parameters.process_id}", json.dumps(self._gloo_here))
        return collectives

    def _address_towards_the_others(self) -> str:
        """The address of the interface through which this process reaches process 0, or is reached if it is process 0."""
        if self._coordinator is not None and self._coordinator.address_for_others is not None:
            return self._coordinator.address_for_others
        with socket.create_connection((self.parameters.host, self.parameters.port)) as connection:
            return connection.getsockname()[0]

    def note_gloo(self) -> None:
        """Record the address of each process's gloo; called after all CPU clients have been created."""
        addresses = map(json.loads, self.store.items(_GLOO).values())
        self._gloo_there = {(host, port) for host, port in addresses}

    # Failures.

    def _cut_gloo(self) -> None:
        if self._gloo_here is not None:
            sockets.cut(self._gloo_here, self._gloo_there)

    def _when_one_fails(self) -> None:
        self._cut_gloo()
        self.meetings.wake()
        logger.error("%s", self.membership.failure())

    # The end.

    def preemption_watch(self) -> Any:
        """jaxlib's handler for SIGTERM, created on first use; afterwards SIGTERM doesn't end the process."""
        if self._preemption_watch is None:
            self._preemption_watch = xla_distributed.start_preemption_watch(self.client)
        return self._preemption_watch

    def leave(self) -> None:
        """End the job together with the others."""
        self.meetings.agree(
            "distributed.shutdown", "no more", seconds=self.parameters.shutdown_timeout_seconds
        )
        self._reports.cancel()
        if self._preemption_watch is not None:
            self._preemption_watch.shutdown()
        interruptible(self.client.shutdown)
        if self._end_of_mpi is not None:
            self._end_of_mpi()
        self.meetings.close()
        self._loop.run(self.membership.leave())
        self._stop_coordinator(self.parameters.shutdown_timeout_seconds)
        if self._service is not None:
            interruptible(self._service.shutdown)
        self._loop.stop()

    def abandon(self, reason: str) -> None:
        """Leave without the others, and report the `reason` to them unless something has failed before.

        jaxlib's client and service are kept, with the thread that keeps their connections open: closing them before the
        other processes do would abort this process.
        """
        xla_distributed.keep_for_ever(self.client, self._service)
        _abandoned.append(self)
        self._cut_gloo()  # the other processes aren't waited for any longer
        self._reports.cancel()
        self.meetings.close()
        failure = None if self.membership.has_failed else reason
        self._loop.run(self.membership.leave(failure))
        self._stop_coordinator(0.0, failure)

    def _stop_coordinator(self, seconds: float, failure: str | None = None) -> None:
        if self._coordinator is not None:
            self._loop.run(self._coordinator.stop(seconds, failure))


_abandoned: list[Job] = []


def make_mpi() -> tuple[Any, Callable[[], None]]:
    """(collectives over MPI, a function that ends them); DistributedError in cases in which jaxlib would abort the
    process.
    """
    if "MPITRAMPOLINE_LIB" not in os.environ:
        raise DistributedError(
            "collectives over MPI need MPItrampoline.",
            got="MPITRAMPOLINE_LIB: not set",
            do="Set it to a wrapped MPI library (MPIwrapper), or leave cpu_collectives_implementation at 'gloo'.",
        )
    return xla_distributed.make_mpi_collectives()
