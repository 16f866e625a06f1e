"""jaxlib's coordination service, and what CPU devices of several processes exchange data with."""

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
"""Seconds. jaxlib ends the process where it finds that another one is late, so it never may: we watch them."""


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
    """A client of the service at `address` of this machine, which isn't connected yet.

    The way is past any proxy that the environment names: it is read when the client is made.
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
    """Collectives over TCP, between interfaces of which this process's has the address `hostname`."""
    return _jax.make_gloo_tcp_collectives(distributed_client=client, hostname=hostname)


def make_mpi_collectives() -> tuple[Any, Callable[[], None]]:
    """Collectives over MPI, through the library that MPITRAMPOLINE_LIB names; and what ends them."""
    collectives = _jax.make_mpi_collectives()
    collectives.Init()
    return collectives, collectives.Finalize


def start_preemption_watch(client: RuntimeClient) -> Any:
    """Manager that agrees on the step at which all processes stop after one of them got SIGTERM."""
    manager = _jax.create_preemption_sync_manager()
    manager.initialize(client)
    return manager


def keep_for_ever(*objects: Any) -> None:
    """Let none of jaxlib's objects be destroyed, not even when Python ends.

    A client whose service goes away ends the process, and so does one that is destroyed while others are not.
    """
    for owned in objects:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(owned))


start_transfer_server: Any = getattr(_jax, "start_transfer_server", None)
"""Starts a server from which other processes pull arrays; None where jaxlib was built without."""
make_error_array: Any = getattr(_jax, "_make_error_array", None)
"""Makes an array whose use raises an error; None where jaxlib was built without."""
