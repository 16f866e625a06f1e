"""jaxlib's coordination service, and collectives between CPU devices of several processes."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

from jaxlib import _jax

RuntimeClient = _jax.DistributedRuntimeClient
Service = _jax.DistributedRuntimeService

_NO_PROXY = "no_grpc_proxy"
_NEVER = 10_000_000
"""Timeout in seconds, in effect infinite: jaxlib ends the process when a peer is late, so pellucid watches them."""


def start_service(address: str, num_processes: int, *, shutdown_timeout: int) -> Service:
    """The coordination service of a job, listening at `address`."""
    return _jax.get_distributed_runtime_service(
        address,
        num_processes,
        heartbeat_timeout=_NEVER,
        cluster_register_timeout=_NEVER,
        shutdown_timeout=shutdown_timeout,
    )


def make_client(address: str, process_id: int, *, shutdown_timeout: int) -> RuntimeClient:
    """A client of the service at `address`, not connected yet.

    Proxies from the environment, which is read when the client is made, are bypassed.
    """
    inherited = os.environ.get(_NO_PROXY)
    os.environ[_NO_PROXY] = address.partition(":")[0]
    try:
        return _jax.get_distributed_runtime_client(
            address,
            process_id,
            init_timeout=_NEVER,
            shutdown_timeout=shutdown_timeout,
            heartbeat_timeout=_NEVER,
            shutdown_on_destruction=False,
            use_compression=True,
        )
    finally:
        if inherited is None:
            del os.environ[_NO_PROXY]
        else:
            os.environ[_NO_PROXY] = inherited


def make_gloo_collectives(client: RuntimeClient, hostname: str) -> Any:
    """Collectives over TCP; `hostname` is the address of this process's network interface."""
    return _jax.make_gloo_tcp_collectives(distributed_client=client, hostname=hostname)


def make_mpi_collectives() -> tuple[Any, Callable[[], None]]:
    """(collectives over MPI through the library given by MPITRAMPOLINE_LIB, function that shuts them down)."""
    collectives = _jax.make_mpi_collectives()
    collectives.Init()
    return collectives, collectives.Finalize


def start_preemption_watch(client: RuntimeClient) -> Any:
    """Manager by which processes agree on the step at which all stop after one of them received SIGTERM."""
    manager = _jax.create_preemption_sync_manager()
    manager.initialize(client)
    return manager


def keep_for_ever(*objects: Any) -> None:
    """Prevents the destruction of jaxlib objects, even at Python's exit.

    A client ends the process if its service goes away, or if it is destroyed while others are not.
    """
    for owned in objects:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(owned))


start_transfer_server: Any = getattr(_jax, "start_transfer_server", None)
"""Starts a server from which other processes pull arrays; None if jaxlib was built without."""
make_error_array: Any = getattr(_jax, "_make_error_array", None)
"""Makes an array whose use raises an error; None if jaxlib was built without."""
