"""Compilation, execution and (de)serialization of programs by XLA."""

from __future__ import annotations

import functools
import mmap
import pathlib
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxlib import _jax, version

from .client import Client
from .mlir import bytecode
from .shardings import Device, DeviceLayout, OpSharding
from .traceback import JaxRuntimeError

jaxlib_version: str = version.__version__
CompileOptions = _jax.CompileOptions

if TYPE_CHECKING:

    class RunResults:
        """Results of a run, before they become Python arrays."""

        def consume_with_handlers(self, handlers: Sequence[Callable[[Any], Any]]) -> list[Any]: ...
        def consume_token(self) -> Any: ...

    class LoadedExecutable:
        """A compiled program loaded on its devices."""

        client: Client

        def local_devices(self) -> list[Device]: ...
        def execute_sharded(
            self, arguments: Sequence[Any], with_tokens: bool = False
        ) -> RunResults: ...
        def hlo_modules(self) -> list[Any]: ...
        def cost_analysis(self) -> Any: ...
        def get_compiled_memory_stats(self) -> Any: ...
        def get_parameter_layouts(self) -> list[DeviceLayout]: ...
        def get_output_layouts(self) -> list[DeviceLayout]: ...
        def get_parameter_shardings(self) -> list[OpSharding] | None: ...
        def get_output_shardings(self) -> list[OpSharding] | None: ...
        def get_output_memory_kinds(self) -> list[list[str | None]]: ...
        def serialize(self) -> bytes: ...

else:
    LoadedExecutable = _jax.LoadedExecutable
approx_top_k_sizes = _jax.approx_top_k_reduction_output_size
"""XLA's (size after the partial reduction of ApproxTopK, log2 of the reduction)."""


def compile_options(
    devices: Sequence[Device],
    overrides: Sequence[tuple[str, Any]] = (),
    *,
    is_partitioned: bool = False,
) -> CompileOptions:
    """Compile options for a program on `devices`, with XLA flags `overrides` of exactly matching types.

    A program that refers to a mesh is partitioned, even if the mesh has one device.
    """
    options = CompileOptions()
    build = options.executable_build_options
    options.num_replicas = build.num_replicas = 1
    options.num_partitions = build.num_partitions = len(devices)
    build.use_spmd_partitioning = is_partitioned
    build.use_shardy_partitioner = True
    ids = np.array([[d.id for d in devices]], dtype=np.int32)
    build.device_assignment = _jax.DeviceAssignment.create(ids)
    flags = [(name, value) for name, value in overrides if name != FDO_PROFILE]
    for _, profile in (each for each in overrides if each[0] == FDO_PROFILE):
        build.fdo_profile = profile
    if flags:
        options.env_option_overrides = flags
    return options


FDO_PROFILE = "fdo_profile"
"""Compiler option that is no flag: costs from a recorded run, as bytes, by which XLA schedules operations."""


def compile_module(
    client: Client,
    module: Any,
    devices: Sequence[Device],
    options: CompileOptions,
    host_callbacks: Sequence[Any],
) -> LoadedExecutable:
    """Compiles and loads a StableHLO module, releasing the GIL; for devices of a topology, which can't run programs, it isn't loaded."""
    if is_compile_only(client):
        return compile_only(module, devices, options)
    return client.compile_and_load(
        module, _jax.DeviceList(tuple(devices)), options, list(host_callbacks)
    )


def is_compile_only(client: Client) -> bool:
    """Whether a client has devices of a topology only, for which programs can be compiled but not run."""
    return isinstance(client, _jax.CompileOnlyPyClient)


def compile_only(module: Any, devices: Sequence[Device], options: CompileOptions) -> Any:
    """Compiles a StableHLO module for devices that can't run programs; doesn't load the executable."""
    return devices[0].client.compile(module, _jax.DeviceList(tuple(devices)), options)


_A_FLAG = b"xla_cpu_enable_fast_math"
_FLAGS_AROUND = 1 << 17
"""Number of bytes before and after a flag's name within which the names of all flags are found (about 30 kB)."""


@functools.cache
def flag_names() -> frozenset[str]:
    """Names of XLA's flags, which are valid compiler options.

    XLA has no list of them, so they are read from the protobuf descriptor in the library file (0.2 s).
    """
    library = pathlib.Path(_jax.__file__).with_name("libjax_common.so")
    try:
        with (
            library.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory,
        ):
            flags: set[bytes] = set()
            at = memory.find(_A_FLAG)
            while at >= 0:
                around = memory[max(at - _FLAGS_AROUND, 0) : at + _FLAGS_AROUND]
                flags = max(flags, set(re.findall(rb"\bxla_[a-z0-9_]{3,70}", around)), key=len)
                at = memory.find(_A_FLAG, at + _FLAGS_AROUND)
    except OSError:
        return frozenset()
    return frozenset(name.decode() for name in flags)


def deserialize(
    client: Client,
    data: bytes,
    devices: Sequence[Device],
    options: CompileOptions,
    host_callbacks: Sequence[Any],
) -> LoadedExecutable:
    """Loads a serialized executable. Loading executes code: the bytes must be trusted."""
    return client.deserialize_executable(
        data, _jax.DeviceList(tuple(devices)), options, host_callbacks=list(host_callbacks)
    )


def _handler_takes_skip_checks() -> bool:
    return "_skip_checks" in (_jax.array_result_handler.__doc__ or "")


if _handler_takes_skip_checks():

    def result_handler(aval: Any, sharding: Any, committed: bool) -> Any:
        """A handler that makes an array of each result's shards."""
        return _jax.array_result_handler(aval, sharding, committed, _skip_checks=True)

else:

    def result_handler(aval: Any, sharding: Any, committed: bool) -> Any:
        """A handler that makes an array of each result's shards."""
        return _jax.array_result_handler(aval, sharding, committed)


_MAX_FLOPS_IN_CALL = 500


def runs_in_call(loaded: LoadedExecutable) -> bool:
    """Whether a program with ready arguments has finished when its call returns.

    XLA's CPU client runs a program of one device and fewer than 1000 flops in the calling thread.
    """
    if loaded.client.platform != "cpu" or len(loaded.local_devices()) > 1:
        return False
    return 0 <= loaded.cost_analysis().get("flops", 0) < _MAX_FLOPS_IN_CALL


def allocated_bytes(loaded: LoadedExecutable) -> int:
    """Bytes that a run of a program allocates on each device; 0 if the platform doesn't report it."""
    try:
        stats = loaded.get_compiled_memory_stats()
    except JaxRuntimeError:
        return 0
    return peak_bytes(stats) - stats.argument_size_in_bytes


def peak_bytes(stats: Any) -> int:
    """Bytes of device memory that a run needs: arguments, results, temporaries.

    The sum of XLA's buffer assignment without constants. Temporaries are one allocation with the size of the buffers
    that are live at the same time. On CPU, `stats.peak_memory_in_bytes` omits them.
    """
    return (
        stats.argument_size_in_bytes
        + stats.output_size_in_bytes
        + stats.temp_size_in_bytes
        - stats.alias_size_in_bytes
    )


def to_hlo(module: Any) -> Any:
    """The XLA computation of a StableHLO module."""
    return _jax.mlir.mlir_module_to_xla_computation(bytecode(module), False, False)


def hlo_cost(client: Client, computation: Any) -> dict[str, float]:
    """XLA's estimates of flops, bytes and more for a computation."""
    return module_cost(client, computation.get_hlo_module())


def module_cost(client: Client, module: Any) -> dict[str, float]:
    """XLA's estimates of flops, bytes and more for an HLO module."""
    return dict(_jax.hlo_module_cost_analysis(client, module))
