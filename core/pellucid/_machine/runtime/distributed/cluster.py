"""The interface of clusters, which know a process's place in a job."""

from __future__ import annotations

import abc
import os
import socket
import time
from typing import NamedTuple

from pellucid._machine.base import DistributedError, DistributedTimeoutError

_FIRST_EPHEMERAL_PORT = 61440
_PORTS = 4096
_LOOKUP_INTERVAL_SECONDS = 1.0


class ProcessIdentity(NamedTuple):
    """The identity of a process in its job; fields are None where unknown."""

    coordinator_address: str | None = None
    num_processes: int | None = None
    process_id: int | None = None
    local_device_ids: tuple[int, ...] | None = None
    secret: str | None = None


class Cluster(abc.ABC):
    """A kind of cluster, from the view of one of its processes."""

    name: str
    is_asked_unnamed = True
    """Whether it is tried if `cluster_detection_method` doesn't name a cluster."""

    @abc.abstractmethod
    def is_present(self) -> bool:
        """Whether a cluster of this kind started the process."""

    @abc.abstractmethod
    def coordinator(self, seconds: float) -> tuple[str, int]:
        """Host of process 0, and a port that all processes choose alike; may wait up to `seconds` for the host."""

    @abc.abstractmethod
    def num_processes(self) -> int: ...

    @abc.abstractmethod
    def process_id(self) -> int: ...

    def local_process_id(self) -> int | None:
        """Index among the processes of this machine, if each of them uses one GPU."""
        return None

    def secret(self) -> str | None:
        """A text that is known only to the processes of the job, if there is one."""
        return None

    def _number(self, name: str, text: str | None = None) -> int:
        """The environment variable `name`, or `text` if given, as an integer.

        Raises: DistributedError if it is missing or not an integer.
        """
        text = text or os.environ.get(name)
        if text is None or not text.strip().isdecimal():
            raise DistributedError(
                f"distributed.initialize: the {self.name} cluster doesn't say what it should.",
                got=f"{name}: {'not set' if text is None else repr(text)}",
                do="Pass coordinator_address, num_processes and process_id.",
            )
        return int(text)


def port_for_job(job_id: int) -> int:
    """A port in the upper ephemeral range, so that jobs on one machine rarely share it."""
    return _FIRST_EPHEMERAL_PORT + job_id % _PORTS


def wait_for_host(host: str, seconds: float) -> None:
    """Wait until `host` can be resolved: names of machines become available when they have started."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.getaddrinfo(host, None)
        except OSError as error:
            if time.monotonic() >= deadline:
                raise DistributedTimeoutError(
                    f"the coordinator's host {host!r} was not found within {seconds:g} s.",
                    got=str(error),
                ) from None
            time.sleep(_LOOKUP_INTERVAL_SECONDS)
        else:
            return


class Launched(Cluster):
    """A cluster that numbers its processes in environment variables."""

    variables: tuple[str, str, str]
    """Names of the variables with the number of processes, this one's index among all, and that on its machine."""

    def num_processes(self):
        return self._number(self.variables[0])

    def process_id(self):
        return self._number(self.variables[1])

    def local_process_id(self):
        return self._number(self.variables[2])
