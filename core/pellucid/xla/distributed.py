"""jaxlib's coordination service, and what CPU devices of several processes exchange data with."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from jaxlib import _jax

RuntimeClient = _jax.DistributedRuntimeClient
Service = _jax.DistributedRuntimeService

_NEVER = 10_000_000
"""Seconds. jaxlib ends the process where it finds that another one is silent, so it never may: we watch them."""


def start_service(
    address: str, num_processes: int, *, register_timeout: int, shutdown_timeout: int
) -> Service:
    """The coordination service of a job, listening at `address`."""
    return _jax.get_distributed_runtime_service(
        address,
        num_processes,
        heartbeat_timeout=_NEVER,
        cluster_register_timeout=register_timeout,
        shutdown_timeout=shutdown_timeout,
    )


def make_client(
    address: str, process_id: int, *, initialization_timeout: int, shutdown_timeout: int
) -> RuntimeClient:
    """A client of the service at `address`, which isn't connected yet."""
    return _jax.get_distributed_runtime_client(
        address,
        process_id,
        init_timeout=initialization_timeout,
        shutdown_timeout=shutdown_timeout,
        heartbeat_timeout=_NEVER,
        shutdown_on_destruction=False,
        use_compression=True,
    )


def make_gloo_collectives(client: RuntimeClient, hostname: str) -> Any:
    """Collectives over TCP, between interfaces of which this process's has the address `hostname`."""
    return _jax.make_gloo_tcp_collectives(distributed_client=client, hostname=hostname)


def make_mpi_collectives() -> tuple[Any, Callable[[], None]]:
    """Collectives over MPI, through the library that MPITRAMPOLINE_LIB names; and what ends them."""
    collectives = _jax.make_mpi_collectives()
    collectives.Init()
    return collectives, collectives.Finalize


def start_preemption_watch(client: RuntimeClient) -> Any:
    """What tells at which step all processes stop after one of them got SIGTERM."""
    manager = _jax.create_preemption_sync_manager()
    manager.initialize(client)
    return manager


def keep_for_ever(*objects: Any) -> None:
    """Let none of jaxlib's objects be destroyed, not even when Python ends.

    A client whose service goes away ends the process, and so does one that is destroyed while others are not.
    """
    for kept in objects:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
