"""Clients of platforms: the CPU's, with virtual devices; those of accelerators are in `plugins`."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxlib import _jax

from . import bootstrap
from .arrays import ArrayImpl
from .guards import let_through
from .shardings import Device
from .traceback import JaxRuntimeError

if TYPE_CHECKING:

    class Client:
        """The devices of a platform, with their compiler."""

        platform: str
        platform_version: str

        def devices(self) -> Sequence[Device]: ...
        def local_devices(self) -> Sequence[Device]: ...
        def device_count(self) -> int: ...
        def local_device_count(self) -> int: ...
        def process_index(self) -> int: ...
        def live_arrays(self) -> list[ArrayImpl]: ...
        def live_executables(self) -> list[Any]: ...
        def heap_profile(self) -> bytes: ...
        def compile(self, module: Any, devices: Any, options: Any) -> Any: ...
        def compile_and_load(
            self, module: Any, devices: Any, options: Any, callbacks: Any
        ) -> Any: ...
        def deserialize_executable(
            self, data: bytes, devices: Any, options: Any, *, host_callbacks: Any
        ) -> Any: ...

else:
    Client = _jax.Client
ifrt_programs = _jax.ifrt_programs

_FLAG = re.compile(r"--xla_force_host_platform_device_count=(\d+)")


def cpu_device_count(requested: int) -> int:
    """Number of virtual CPU devices: `requested` if positive, else from XLA_FLAGS, else one."""
    if requested > 0:
        return requested
    counts = _FLAG.findall(os.environ.get("XLA_FLAGS", ""))
    return int(counts[-1]) if counts else 1


def make_cpu_client(n_devices: int, *, asynchronous: bool = True, **distributed: Any) -> Client:
    """A CPU client with `n_devices` virtual devices.

    If there are more devices than threads, collectives of running programs block each other: they hang, or crash the
    process. The number of threads is read from the environment when a client starts; a user's setting is kept.
    """
    chosen = "PJRT_NPROC" in os.environ or "NPROC" in os.environ
    if not chosen:
        os.environ["PJRT_NPROC"] = str(max(os.cpu_count() or 1, 2 * n_devices))
    try:
        return _jax.get_tfrt_cpu_client(
            asynchronous=asynchronous, num_devices=n_devices, **distributed
        )
    finally:
        if not chosen:
            del os.environ["PJRT_NPROC"]


def answer_lookups(
    client: Client,
    aval_of: Callable[..., Any],
    sharding_of: Callable[..., Any],
) -> None:
    """Makes C++ cache our aval class, for which it would otherwise import `jax`.

    `aval_of(shape, dtype, weak_type)` and `sharding_of(device, memory_kind=None)` replace functions of `jax`. C++ looks
    the class up once per process, when it first makes an array without an aval from Python: here, by DLPack.
    """

    class ShapedArray:
        def __new__(cls, shape: Any, dtype: Any, weak_type: bool = False) -> Any:
            return aval_of(tuple(shape), np.dtype(dtype), weak_type)

    device = client.local_devices()[0]

    def look_up() -> None:
        aval = ShapedArray((1,), np.float32)
        with let_through():  # a transfer guard may be set already
            put = _jax.batched_device_put(
                aval, sharding_of(device), [np.zeros(1, np.float32)], [device]
            )
        with contextlib.suppress(JaxRuntimeError):  # platforms without DLPack make no such arrays
            capsule = _jax.buffer_to_dlpack_managed_tensor(put, None)
            _jax.dlpack_managed_tensor_to_buffer(capsule, device, None)

    bootstrap.with_stand_in_modules(
        {
            "jax": {},
            "jax._src": {},
            "jax.core": {"ShapedArray": ShapedArray},
            "jax._src.sharding_impls": {"make_single_device_sharding": sharding_of},
            "jax._src.literals": {"TypedNdArray": type("TypedNdArray", (), {})},
        },
        look_up,
    )
