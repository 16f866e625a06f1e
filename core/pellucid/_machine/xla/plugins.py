"""PJRT plugins: GPUs and TPUs through the libraries in installed wheels.

The Python side of these wheels imports `jax`, so it is never run: the library is found through the wheel's list of
files, and loaded here.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import importlib.util
import os
import pathlib
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from jaxlib import _jax

from . import ffi_targets, lapack, partitioner
from .client import Client
from .gpu_targets import GpuTarget
from .profiling import register_plugin_profiler

_CUDA_VERSIONS = ("13", "12")
# In the order of their dependencies.
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
        library = file_of(f"jax-cuda{version}-pjrt", "xla_cuda_plugin.so")
        if library is not None:
            return CudaPlugin(version, library)
    return None


def tpu_library() -> pathlib.Path | None:
    """The library of the installed TPU plugin, or None."""
    configured = os.environ.get("TPU_LIBRARY_PATH")
    return pathlib.Path(configured) if configured else file_of("libtpu", "libtpu.so")


class NamedPlugin(NamedTuple):
    """A registered plugin: its library or the capsule of its C interface, and options of its client."""

    library: pathlib.Path | None
    options: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None = None
    interface: Any = None


PRIORITIES = {"tpu": 300, "cuda": 200, "cpu": 0}
"""Priorities of platforms: the highest one starts first and is the default. Others come before the CPU."""
_registered: dict[str, NamedPlugin] = {}


def rank(platform: str) -> int:
    """Sort key of a platform: the platform with the lowest value comes first."""
    return -PRIORITIES.get(platform, 100)


def register(name: str, plugin: NamedPlugin, priority: int) -> None:
    """Registers a plugin for the platform `name`, unless that platform already has one."""
    if name not in _registered:
        _registered[name] = plugin
        PRIORITIES[name] = priority


def named_plugins(report: Callable[..., None] | None = None) -> dict[str, NamedPlugin]:
    """Registered plugins, and those in PJRT_NAMES_AND_LIBRARY_PATHS, as `name:path,name:path`.

    With `report`, installed plugins are discovered first.
    """
    if report is not None:
        discover(report)
    text = os.environ.get("PJRT_NAMES_AND_LIBRARY_PATHS", "")
    pairs = (entry.split(":", 1) for entry in text.split(",") if ":" in entry)
    stated = {name.strip(): NamedPlugin(pathlib.Path(path.strip())) for name, path in pairs}
    return _registered | stated


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
    load_cuda_plugin(plugin)
    chosen = {"platform_name": "cuda", **_memory_options(), **(options or {})}
    return _jax.get_c_api_client("cuda", chosen, distributed_client)


_MOSAIC_RUNTIME = "MOSAIC_GPU_RUNTIME_LIB_PATH"


def name_mosaic_runtime(version: str) -> pathlib.Path | None:
    """The library that kernels of Mosaic for GPUs call on the host, in the wheel `jax-cuda*-plugin`; the compiler finds it by a variable, which is set
    unless the user has. None if it isn't installed.
    """
    library = file_of(f"jax-cuda{version}-plugin", "libmosaic_gpu_runtime.so")
    if library is not None:
        os.environ.setdefault(_MOSAIC_RUNTIME, str(library))
    return library


_GPUS_OF_A_HOST = 8


def compile_only_gpus(target: GpuTarget, count: int) -> list[Any]:
    """Placeholder devices for `count` GPUs of one kind, for which programs can be compiled but not run.

    Raises: PluginMissingError if no plugin is installed.
    """
    if cuda_plugin() is None:
        raise PluginMissingError("no CUDA plugin is installed (pip install jax-cuda13-pjrt)")
    hosts = count // _GPUS_OF_A_HOST if count % _GPUS_OF_A_HOST == 0 else 1
    options = {"target_config": target.text, "topology": f"1x{hosts}x{count // hosts}"}
    return topology_devices("cuda", "", options)


def topology_devices(platform: str, name: str, options: dict[str, Any]) -> list[Any]:
    """Devices of a plugin's topology, for which programs can be compiled but not run.

    Raises: PluginMissingError if no plug-in of the platform that has topologies is installed; JaxRuntimeError for a topology
    that it doesn't know.
    """
    if platform == "tpu" and (library := tpu_library()) is not None:
        interface = load_plugin("tpu", library)
    elif platform in ("cuda", "gpu") and (plugin := cuda_plugin()) is not None:
        interface = load_cuda_plugin(plugin)
    else:
        raise PluginMissingError(f"no plug-in of {platform} has topologies")
    return _jax.get_c_api_topology(interface, name, options)._make_compile_only_devices()


def triton_compiler() -> Any:
    """The module that compiles Triton programs without a GPU; None if the installed CUDA plugin has none."""
    plugin = cuda_plugin()
    if plugin is None:
        return None
    try:
        module = importlib.import_module(
            f"jax_cuda{plugin.cuda_version}_plugin.cuda_plugin_extension"
        )
    except ImportError:
        return None
    return module if hasattr(module, "compile_triton_to_asm") else None


class Assembly(NamedTuple):
    """A GPU program as PTX, and the shared memory needed by a block of threads."""

    text: str
    shared_bytes: int


def triton_assembly(module: bytes, architecture: str, num_warps: int, num_stages: int) -> Assembly:
    """Compiles a module in Triton's dialect, given as bytecode, for an architecture such as "9.0".

    Raises: PluginMissingError if nothing installed compiles it; JaxRuntimeError if it can't be compiled.
    """
    compiler, plugin = triton_compiler(), cuda_plugin()
    if compiler is None or plugin is None:
        raise PluginMissingError(
            "no compiler of Triton is installed (pip install 'pellucid[gpu-aot]', for jaxlib 0.10)"
        )
    interface = load_plugin("cuda", plugin.library)
    found = compiler.compile_triton_to_asm(
        interface, module, architecture, num_warps, 1, num_stages
    )
    return Assembly(found.asm, found.smem_bytes)


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
    """A client of a platform that was registered, or is listed in PJRT_NAMES_AND_LIBRARY_PATHS.

    Raises: PluginMissingError if its library isn't there.
    """
    plugin = named_plugins()[platform]
    if plugin.library is not None and not plugin.library.exists():
        raise PluginMissingError(f"the library of the plug-in, {plugin.library}, doesn't exist")
    load_plugin(platform, plugin.library, plugin.interface)
    defaults = plugin.options() if callable(plugin.options) else plugin.options
    return _jax.get_c_api_client(platform, {**(defaults or {}), **(options or {})})


_loaded: dict[str, Any] = {}


def load_plugin(platform: str, library: pathlib.Path | None, interface: Any = None) -> Any:
    """Loads a PJRT plugin from a file, or by its C interface; returns the capsule of that, the same for every call."""
    if platform not in _loaded:
        path = None if library is None else str(library)
        _loaded[platform] = _jax.load_pjrt_plugin(platform, path, interface)
        _jax.initialize_pjrt_plugin(platform)
        register_plugin_profiler(_loaded[platform])
        partitioner.register(_loaded[platform])
    return _loaded[platform]


@functools.cache
def load_cuda_plugin(plugin: CudaPlugin) -> Any:
    """Loads the CUDA plugin with the targets of custom calls that its wheels have; returns the capsule of its interface.

    Programs for GPUs that aren't there need them, too: XLA looks for a target when it compiles a call of it.
    """
    name_mosaic_runtime(plugin.cuda_version)
    interface = load_plugin("cuda", plugin.library)
    _register_cuda_targets(plugin.cuda_version, interface)
    return interface


@functools.cache
def _metadata_folders(_paths: tuple[str, ...]) -> dict[str, str]:
    """Metadata folder of each distribution installed in a folder of `sys.path`, by its name in file names.

    Takes a tenth of the time of importing `importlib.metadata`.
    """
    folders: dict[str, str] = {}
    for path in _paths:
        try:
            entries = os.scandir(path or ".")
        except OSError:
            continue
        with entries:
            for entry in entries:
                if entry.name.endswith((".dist-info", ".egg-info")):
                    name = re.sub(r"[-_.]+", "_", entry.name.partition("-")[0]).lower()
                    folders.setdefault(name, entry.path)
    return folders


_GROUP = "jax_plugins"
_OWN = ("xla_cuda",)
"""Name prefixes of plugin modules that are skipped: their libraries are loaded directly."""
_discovered: list[str] = []


def discover(report: Callable[..., None]) -> None:
    """Initializes the installed plugins, once; calls `report(text, *values)` for each that fails.

    They are the modules of a namespace package, and the entry points of a group.
    """
    if _discovered:
        return
    _discovered.append(_GROUP)
    for name, load in {**dict(_modules()), **dict(_entry_points())}.items():
        if name.rpartition(".")[2].startswith(_OWN):
            continue
        try:
            load().initialize()
        except Exception as error:  # other platforms work, whatever a plugin raises
            report(
                "the plug-in %s could not be initialized, so its platform is missing (%s: %s)",
                name, type(error).__name__, error,
            )  # fmt: skip


def _modules() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yields (name, function that imports it) for the modules of the namespace package."""
    spec = importlib.util.find_spec(_GROUP)
    paths = None if spec is None else spec.submodule_search_locations
    for module in pkgutil.iter_modules([*(paths or ())]):
        name = f"{_GROUP}.{module.name}"
        yield name, functools.partial(importlib.import_module, name)


def _entry_points() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yields (name, function that loads it) for the entry points of the group, in all installed distributions."""
    for folder in _metadata_folders(tuple(sys.path)).values():
        with contextlib.suppress(OSError), open(f"{folder}/entry_points.txt", "rb") as file:
            if b"[%s]" % _GROUP.encode() in file.read():
                metadata = importlib.import_module("importlib.metadata")
                for point in metadata.entry_points(group=_GROUP):
                    yield point.value, point.load
                return


def file_of(distribution: str, suffix: str) -> pathlib.Path | None:
    """The file of an installed distribution whose path ends with `suffix`, if it exists."""
    if distribution.replace("-", "_") not in _metadata_folders(tuple(sys.path)):
        return None
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
    """Loads the CUDA libraries of the `nvidia-*` wheels, so that the plugin finds them.

    Those that are missing or fail to load are left to the system's search path.
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


@functools.cache
def cudnn_version() -> tuple[int, int, int] | None:
    """The version (major, minor, patch) of the cuDNN that the CUDA plugin finds; None if there is none."""
    _load_nvidia_libraries()
    for name in ("libcudnn.so.9", "libcudnn.so"):
        with contextlib.suppress(OSError):
            number = ctypes.CDLL(name).cudnnGetVersion
            number.restype = ctypes.c_size_t
            version = number()
            # From version 9 on, major * 10000 + minor * 100 + patch; before, major * 1000.
            thousands = 10000 if version >= 90000 else 1000
            return version // thousands, version % thousands // 100, version % 100
    return None


def _memory_options() -> dict[str, Any]:
    """Options of the GPU allocator, from XLA's environment variables."""
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
    """Registers the CUDA wheels' custom calls (solvers, random bits, kernels) with the plugin.

    The wheel that contains them, `jax-cuda*-plugin`, is optional: without it those calls are unknown.
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
    lapack.register_gpu_batches(interface)
    ffi_targets.cuda_loaded(extension, interface)
