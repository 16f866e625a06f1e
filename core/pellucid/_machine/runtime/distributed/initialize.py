"""Joining and leaving a job of several processes."""

from __future__ import annotations

import atexit
import os
import sys
import warnings
from typing import Any

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    DistributedError,
    Ints,
    PellucidError,
    clear_caches,
    config,
    logger,
)
from pellucid._machine.runtime import peers, platforms

from .cluster import ProcessIdentity
from .clusters import complete_place
from .coordination import KeyValueStore
from .job import THIS_MACHINE, Job, JobParameters

_ALL_INTERFACES = ("::", "0.0.0.0")  # noqa: S104


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: int | Ints | None = None,
    cluster_detection_method: str | None = None,
    initialization_timeout: float = 300,
    heartbeat_timeout_seconds: float = 100,
    shutdown_timeout_seconds: float = 300,
    coordinator_bind_address: str | None = None,
    slice_index: int | None = None,
    partition_index: int | None = None,
    *,
    secret: str | None = None,
) -> None:
    """Join this process to `num_processes - 1` others, so that `devices()` are those of all of them.

    To be called in every process, before anything that touches a device; it returns when all have come. Process
    0 listens at `coordinator_address` ("host:port"), or where `coordinator_bind_address` says; the others come
    there. What isn't given is taken from the environment: the variables `JAX_COORDINATOR_ADDRESS`,
    `JAX_LOCAL_DEVICE_IDS`, `JAX_COORDINATOR_BIND_ADDRESS` and `JAX_PARTITION_INDEX`, then the cluster that is
    found ("slurm", "ompi", "k8s", "gcetpu", "gketpu"; "mpi4py" only if `cluster_detection_method` names it;
    "deactivate" asks none). `local_device_ids` are the GPUs that this process uses.

    Only processes with the same `secret` come in, by default the variable `PELLUCID_DISTRIBUTED_SECRET`, or what Open
    MPI's `mpirun` or mpi4py gives all of them. Without one, whoever reaches process 0 takes a place in the job before
    it has begun.

    Times are in seconds. A process from which nothing was heard for `heartbeat_timeout_seconds`, or whose
    connection closed, has failed: all others get a PeerFailureError that names it, from whatever they wait for.

    Raises: DistributedTimeoutError if not all come within `initialization_timeout`; DistributedError if this
    process is in a job already, has used devices, or is refused; ArgumentValueError for what is missing or wrong.

    Example: in each of two processes `pl.distributed.initialize("10.0.0.1:8476", 2, process_id)`, where process 0 runs
    on 10.0.0.1.

    >>> x = jnp.ones(2)
    >>> pl.distributed.initialize("localhost:8476", num_processes=2, process_id=0)
    Traceback (most recent call last):
        ...
    pellucid.errors.DistributedError: distributed.initialize: devices were already used, so this process can't join others any more.
    ...
    """
    for job in peers.jobs:
        raise DistributedError(
            "distributed.initialize: this process is in a job already.",
            got=f"process {job.parameters.process_id} of {job.parameters.num_processes}",
            do="Call it once, or call distributed.shutdown() first.",
        )
    platforms.check_none_started("distributed.initialize")
    if partition_index is None and slice_index is not None:
        warnings.warn(
            "`slice_index` is deprecated; use `partition_index`.", DeprecationWarning, stacklevel=2
        )
        partition_index = slice_index
    place = complete_place(
        ProcessIdentity(
            coordinator_address or os.environ.get("JAX_COORDINATOR_ADDRESS"),
            num_processes,
            process_id,
            _device_ids(local_device_ids),
            secret or os.environ.get("PELLUCID_DISTRIBUTED_SECRET"),
        ),
        cluster_detection_method,
        initialization_timeout,
    )
    parameters = _job_parameters(
        place,
        coordinator_bind_address or os.environ.get("JAX_COORDINATOR_BIND_ADDRESS"),
        {
            "initialization_timeout": initialization_timeout,
            "heartbeat_timeout_seconds": heartbeat_timeout_seconds,
            "shutdown_timeout_seconds": shutdown_timeout_seconds,
        },
        _partition_index(partition_index),
    )
    if place.local_device_ids:
        config.cuda_visible_devices.set(",".join(map(str, place.local_device_ids)))
    peers.jobs.append(Job(parameters))
    atexit.unregister(_leave_at_exit)
    atexit.register(_leave_at_exit)


def shutdown() -> None:
    """Leave the other processes; does nothing if this one is in no job.

    Waits for all to call it. After it, or after it raised, this process's own devices are all there is again, and
    `initialize` may be called anew. After a failure of another process it waits for nobody.

    Raises: DistributedTimeoutError if not all come within the `shutdown_timeout_seconds` of `initialize`;
    PeerFailureError if one fails meanwhile.

    >>> pl.distributed.shutdown()
    >>> pl.distributed.is_initialized()
    False
    """
    if not peers.jobs:
        return
    [job] = peers.jobs
    try:
        if job.membership.has_failed:
            job.abandon("it followed another failure")
            return
        try:
            job.leave()
        except BaseException:
            job.abandon("it was shut down without the others")
            raise
    finally:
        peers.jobs.clear()
        platforms.stop_all()
        clear_caches()


def is_initialized() -> bool:
    """Whether this process is joined to others.

    >>> pl.distributed.is_initialized()
    False
    """
    return bool(peers.jobs)


def barrier(name: str, timeout_seconds: float = 300.0, process_ids: Ints | None = None) -> None:
    """Wait until all processes (of `process_ids`) have come to the barrier `name`; a name may be used again.

    Raises: DistributedTimeoutError after `timeout_seconds`, with who is missing; PeerFailureError as soon as a
    process fails.

    >>> pl.distributed.barrier("loaded", timeout_seconds=10.0)
    Traceback (most recent call last):
        ...
    pellucid.errors.DistributedError: distributed.barrier: this process is not joined to others.
    ...
    """
    job("distributed.barrier").barriers.wait(name, timeout_seconds, process_ids)


def report_error(reason: str | None) -> None:
    """Reports to the other processes that this one is alive but can't continue for now; with None, that it continues.

    A process that waits for it longer than a moment gets a DistributedError with `reason`. For programs that catch the
    errors of others, such as notebooks.

    Raises: DistributedError if this process is in no job.

    >>> pl.distributed.report_error("out of memory")
    Traceback (most recent call last):
        ...
    pellucid.errors.DistributedError: distributed.report_error: this process is not joined to others.
    ...
    """
    job("distributed.report_error").meetings.stop(reason)


def key_value_store() -> KeyValueStore:
    """Strings and bytes by name, the same for all processes of the job.

    Raises: DistributedError if this process is in no job.

    >>> pl.distributed.key_value_store().set("step", "3")
    Traceback (most recent call last):
        ...
    pellucid.errors.DistributedError: distributed.key_value_store: this process is not joined to others.
    ...
    """
    return job("distributed.key_value_store").store


def job(who: str) -> Job:
    """The job of this process; raises DistributedError on behalf of `who` if there is none."""
    if not peers.jobs:
        raise DistributedError(
            f"{who}: this process is not joined to others.",
            do="Call distributed.initialize() first.",
        )
    return peers.jobs[0]


def _leave_at_exit() -> None:
    """Leave the job when Python exits, without waiting for the others after an exception."""
    error = getattr(sys, "last_value", None)
    if peers.jobs and error is not None:
        peers.jobs.pop().abandon(f"it ended with {type(error).__name__}: {error}"[:500])
        return
    try:
        shutdown()
    except PellucidError as failure:
        logger.error("%s", failure)


def _device_ids(ids: int | Ints | None) -> tuple[int, ...] | None:
    if ids is None:
        text = os.environ.get("JAX_LOCAL_DEVICE_IDS")
        return tuple(int(number) for number in text.split(",")) if text else None
    return (ids,) if isinstance(ids, int) else tuple(ids)


def _partition_index(index: int | None) -> int | None:
    if index is not None:
        return index
    text = os.environ.get("JAX_PARTITION_INDEX")
    if not text and (text := os.environ.get("JAX_SLICE_INDEX")):
        warnings.warn(
            "`JAX_SLICE_INDEX` is deprecated; use `JAX_PARTITION_INDEX`.",
            DeprecationWarning,
            stacklevel=3,
        )
    return int(text) if text else None


def _job_parameters(
    place: ProcessIdentity,
    bind_address: str | None,
    timeouts: dict[str, float],
    partition_index: int | None,
) -> JobParameters:
    who = "distributed.initialize"
    stated: Any = place
    address, count, process, _, secret = stated
    for name, value in place._asdict().items():
        if value is None and name not in ("local_device_ids", "secret"):
            raise ArgumentValueError(
                f"{who}: {name} is missing.",
                got="no cluster was found that knows it",
                do="Pass coordinator_address, num_processes and process_id.",
            )
    for name, value in (("num_processes", count), ("process_id", process)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise ArgumentTypeError(f"{who}: {name} must be an integer.", got=type(value).__name__)
    if not 0 <= process < count:
        raise ArgumentValueError(
            f"{who}: process_id must be between 0 and num_processes - 1.",
            got=f"process_id {process}, num_processes {count}",
        )
    if secret is not None and not isinstance(secret, str):
        raise ArgumentTypeError(f"{who}: secret must be a string.", got=type(secret).__name__)
    for name, value in timeouts.items():
        if not value > 0:
            raise ArgumentValueError(
                f"{who}: {name} must be a positive number of seconds.", got=f"{value}"
            )
    host, port = _host_and_port("coordinator_address", address)
    bind_host, bind_port = host if host in THIS_MACHINE else None, port
    if bind_address is not None:
        bind_host, bind_port = _host_and_port("coordinator_bind_address", bind_address)
    if bind_host in _ALL_INTERFACES:
        bind_host = None
    return JobParameters(
        host, port, bind_host, bind_port, count, process, partition_index, **timeouts,
        secret=secret or "",
    )  # fmt: skip


def _host_and_port(name: str, address) -> tuple[str, int]:
    if not isinstance(address, str):
        raise ArgumentTypeError(
            f"distributed.initialize: {name} must be a string.", got=type(address).__name__
        )
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ArgumentValueError(
            f"distributed.initialize: {name} must be 'host:port'.",
            got=repr(address),
            do="Write '10.0.0.1:8476', or '[fe80::1]:8476' for an IPv6 address.",
        )
    return host.strip("[]"), int(port)
