"""PJRT plugins: GPUs and TPUs through the libraries of installed wheels.

The Python side of these wheels imports `jax`, so it is never run: the library is found by the wheel's list
of files and loaded here.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import pathlib
import sys
from typing import Any, NamedTuple

from jaxlib import _jax

from . import ffi_targets, partitioner
from .client import Client
from .gpu_targets import GpuTarget
from .profiling import register_plugin_profiler

_CUDA_VERSIONS = ("13", "12")
# In the order in which they depend on each other.
_NVIDIA_LIBRARIES = (
    "libcudart", "libnvrtc", "libnvJitLink", "libcublasLt", "libcublas", "libcupti", "libcusparse",
    "libcusolver", "libcufft", "libnccl", "libcudnn", "libnvshmem_host",
)  # fmt: skip


class PluginMissingError(FileNotFoundError):
    """No plugin for a platform is installed."""


class CudaPlugin(NamedTuple):
    """An installed CUDA plugin."""

    cuda_version: str
    library: pathlib.Path


def cuda_plugin() -> CudaPlugin | None:
    """The installed CUDA plugin, or None."""
    for version in _CUDA_VERSIONS:
        library = _file_of(f"jax-cuda{version}-pjrt", "xla_cuda_plugin.so")
        if library is not None:
            return CudaPlugin(version, library)
    return None


def tpu_library() -> pathlib.Path | None:
    """The library of the installed TPU plugin, or None."""
    configured = os.environ.get("TPU_LIBRARY_PATH")
    return pathlib.Path(configured) if configured else _file_of("libtpu", "libtpu.so")


def named_plugins() -> dict[str, pathlib.Path]:
    """Plugins that PJRT_NAMES_AND_LIBRARY_PATHS names, as `name:path,name:path`."""
    text = os.environ.get("PJRT_NAMES_AND_LIBRARY_PATHS", "")
    pairs = (entry.split(":", 1) for entry in text.split(",") if ":" in entry)
    return {name.strip(): pathlib.Path(path.strip()) for name, path in pairs}


def make_cuda_client(
    options: dict[str, Any] | None = None, distributed_client: Any = None
) -> Client:
    """A CUDA client through the installed plugin.

    Raises: PluginMissingError if no plugin is installed; JaxRuntimeError if it finds no usable GPU.
    """
    plugin = cuda_plugin()
    if plugin is None:
        raise PluginMissingError(
            "no CUDA plugin is installed (pip install 'jax-cuda13-plugin[with-cuda]')"
        )
    _load_nvidia_libraries()
    interface = load_plugin("cuda", plugin.library)
    chosen = {"platform_name": "cuda", **_memory_options(), **(options or {})}
    client = _jax.get_c_api_client("cuda", chosen, distributed_client)
    _register_cuda_targets(plugin.cuda_version, interface)
    return client


_GPUS_OF_A_HOST = 8


def compile_only_gpus(target: GpuTarget, count: int) -> list[Any]:
    """Devices that stand for `count` GPUs of one kind: one can compile for them, nothing runs.

    Raises: PluginMissingError if no plugin is installed.
    """
    if cuda_plugin() is None:
        raise PluginMissingError("no CUDA plugin is installed (pip install jax-cuda13-pjrt)")
    hosts = count // _GPUS_OF_A_HOST if count % _GPUS_OF_A_HOST == 0 else 1
    options = {"target_config": target.text, "topology": f"1x{hosts}x{count // hosts}"}
    return topology_devices("cuda", "", options)


def topology_devices(platform: str, name: str, options: dict[str, Any]) -> list[Any]:
    """Devices of a topology of a plug-in: one can compile for them, nothing runs.

    Raises: PluginMissingError if no plug-in of the platform that has topologies is installed; JaxRuntimeError for a topology
    that it doesn't know.
    """
    if platform == "tpu" and (library := tpu_library()) is not None:
        interface = load_plugin("tpu", library)
    elif platform in ("cuda", "gpu") and (plugin := cuda_plugin()) is not None:
        interface = load_plugin("cuda", plugin.library)
    else:
        raise PluginMissingError(f"no plug-in of {platform} has topologies")
    return _jax.get_c_api_topology(interface, name, options)._make_compile_only_devices()


def make_tpu_client(options: dict[str, Any] | None = None) -> Client:
    """A TPU client through the installed library.

    Raises: PluginMissingError if it isn't installed; JaxRuntimeError if it finds no TPU.
    """
    library = tpu_library()
    if library is None:
        raise PluginMissingError("no TPU library is installed (pip install libtpu)")
    load_plugin("tpu", library)
    return _jax.get_c_api_client("tpu", options or {})


def make_named_client(platform: str, options: dict[str, Any] | None = None) -> Client:
    """A client of a platform that PJRT_NAMES_AND_LIBRARY_PATHS names."""
    load_plugin(platform, named_plugins()[platform])
    return _jax.get_c_api_client(platform, options or {})


_loaded: dict[str, Any] = {}


def load_plugin(platform: str, library: pathlib.Path) -> Any:
    """Load a PJRT plugin from a file; the capsule of its C interface, the same for every call."""
    if platform not in _loaded:
        _loaded[platform] = _jax.load_pjrt_plugin(platform, str(library), None)
        _jax.initialize_pjrt_plugin(platform)
        register_plugin_profiler(_loaded[platform])
        partitioner.register(_loaded[platform])
    return _loaded[platform]


def _file_of(distribution: str, suffix: str) -> pathlib.Path | None:
    """The file of an installed distribution whose path ends with `suffix`, if it exists."""
    metadata = importlib.import_module("importlib.metadata")  # slow to import, and seldom needed
    try:
        files = metadata.distribution(distribution).files or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        if str(file).endswith(suffix):
            path = pathlib.Path(str(file.locate()))
            return path if path.exists() else None
    return None


def _load_nvidia_libraries() -> None:
    """Load the CUDA libraries of the `nvidia-*` wheels, so that the plugin finds them.

    Those that aren't installed, or don't load, are left to the system's own search.
    """
    folders = [
        folder
        for entry in sys.path
        for folder in sorted(pathlib.Path(entry, "nvidia").glob("*/lib"))
    ]
    for name in _NVIDIA_LIBRARIES:
        libraries = [file for folder in folders for file in sorted(folder.glob(f"{name}.so.*"))]
        if libraries:
            with contextlib.suppress(OSError):
                ctypes.CDLL(str(libraries[0]), mode=ctypes.RTLD_GLOBAL)


def _memory_options() -> dict[str, Any]:
    """How the GPU's allocator works, by the environment variables that XLA's users know."""
    options: dict[str, Any] = {}
    allocator = os.environ.get("XLA_PYTHON_CLIENT_ALLOCATOR", "default").lower()
    options["allocator"] = allocator
    fraction = os.environ.get("XLA_CLIENT_MEM_FRACTION") or os.environ.get(
        "XLA_PYTHON_CLIENT_MEM_FRACTION"
    )
    if fraction:
        options["memory_fraction"] = float(fraction)
    preallocate = os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE")
    if preallocate:
        options["preallocate"] = preallocate.lower() not in ("0", "false")
    return options


def _register_cuda_targets(version: str, interface: Any) -> None:
    """Make the CUDA wheels' custom calls (solvers, random bits, kernels) known to the plugin.

    The wheel that holds them, `jax-cuda*-plugin`, is optional: without it those calls are unknown.
    """
    try:
        extension = importlib.import_module(f"jax_cuda{version}_plugin.cuda_plugin_extension")
    except ImportError:
        return
    for name, type_id in extension.ffi_types().items():
        extension.register_custom_type(interface, name, type_id)
    targets = [(name, target, 1) for name, target in extension.ffi_handlers().items()]
    for module in ("gpu_solver", "gpu_linalg", "gpu_prng", "gpu_sparse"):
        targets += importlib.import_module(f"jaxlib.{module}").registrations().get("CUDA", [])
    for name, target, api_version in targets:
        extension.register_custom_call_target(interface, name, target, "CUDA", api_version, 0)
    ffi_targets.cuda_loaded(extension, interface)
