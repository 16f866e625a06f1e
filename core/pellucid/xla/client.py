"""Clients of platforms: CPU with virtual devices, GPUs and TPUs through PJRT plugins."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.metadata
import os
import pathlib
import re
from typing import Any

import numpy as np
from jaxlib import _jax

from pellucid.xla import bootstrap

Client = _jax.Client
Device = _jax.Device
DeviceList = _jax.DeviceList
Memory = _jax.Memory
JaxRuntimeError = _jax.JaxRuntimeError

_FLAG = re.compile(r"--xla_force_host_platform_device_count=(\d+)")


def cpu_device_count(asked: int) -> int:
    """Virtual CPU devices to make: as asked (if positive), else as XLA_FLAGS says, else one."""
    if asked > 0:
        return asked
    found = _FLAG.findall(os.environ.get("XLA_FLAGS", ""))
    return int(found[-1]) if found else 1


def make_cpu_client(n_devices: int, **distributed: Any) -> Client:
    """A CPU client with `n_devices` virtual devices.

    With more devices than threads, collectives of programs in flight starve each other and hang; the
    number of threads can only be set here, before the client starts.
    """
    threads = str(max(os.cpu_count() or 1, 2 * n_devices))
    if "NPROC" not in os.environ:
        os.environ.setdefault("PJRT_NPROC", threads)
    return _jax.get_tfrt_cpu_client(asynchronous=True, num_devices=n_devices, **distributed)


def answer_lookups(client: Client, aval_of: Any, sharding_of: Any, make_array: Any) -> None:
    """Make C++ remember our aval class where it would import `jax` to find one.

    `aval_of(shape, dtype, weak_type)` and `sharding_of(device, memory_kind=None)` answer for `jax`;
    `make_array()` gives an array over two devices, whose shards trigger the look-up.
    """

    class ShapedArray:
        def __new__(cls, shape: Any, dtype: Any, weak_type: bool = False) -> Any:
            return aval_of(tuple(shape), np.dtype(dtype), weak_type)

    if len(client.local_devices()) < 2:
        return
    bootstrap.with_lookups_answered(
        {
            "jax": {},
            "jax._src": {},
            "jax.core": {"ShapedArray": ShapedArray},
            "jax._src.sharding_impls": {"make_single_device_sharding": sharding_of},
            "jax._src.named_sharding": {"check_pspec": lambda mesh, spec: None},
            "jax._src.literals": {"TypedNdArray": type("TypedNdArray", (), {})},
        },
        lambda: make_array()._arrays,
    )


# PJRT plugins -----------------------------------------------------------------------------------

_NVIDIA_LIBRARIES = (
    "libcudart.so", "libnvrtc.so", "libnvJitLink.so", "libcublasLt.so", "libcublas.so", "libcupti.so",
    "libcusparse.so", "libcusolver.so", "libcufft.so", "libnccl.so", "libcudnn.so", "libnvshmem_host.so",
)  # fmt: skip


def _distribution_file(distribution: str, suffix: str) -> pathlib.Path | None:
    try:
        files = importlib.metadata.distribution(distribution).files or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if str(file).endswith(suffix):
            return pathlib.Path(str(file.locate()))
    return None


def cuda_plugin() -> tuple[str, pathlib.Path] | None:
    """(CUDA version of the installed plugin, its library), or None. The plugin's Python isn't run."""
    for version in ("13", "12"):
        library = _distribution_file(f"jax-cuda{version}-pjrt", "xla_cuda_plugin.so")
        if library is not None and library.exists():
            return version, library
    return None


def tpu_library() -> pathlib.Path | None:
    """The library of the installed TPU plugin, or None."""
    library = _distribution_file("libtpu", "libtpu.so")
    return library if library is not None and library.exists() else None


def load_plugin(platform: str, library: pathlib.Path) -> Any:
    """Load a PJRT plugin from a file, once; the capsule of its C interface."""
    if _jax.pjrt_plugin_loaded(platform):
        return _loaded.get(platform)
    capsule = _jax.load_pjrt_plugin(platform, str(library), None)
    _jax.initialize_pjrt_plugin(platform)
    _loaded[platform] = capsule
    return capsule


_loaded: dict[str, Any] = {}


def _load_nvidia_libraries() -> None:
    """Load the CUDA libraries of the nvidia wheels, so that the plugin finds them."""
    folders: list[pathlib.Path] = []
    for distribution in importlib.metadata.distributions():
        name = (distribution.metadata["Name"] or "").lower()
        if name.startswith("nvidia-"):
            root = pathlib.Path(str(distribution.locate_file("nvidia")))
            folders += [p for p in root.glob("**/lib") if p.is_dir()] if root.exists() else []
            break
    for wanted in _NVIDIA_LIBRARIES:
        for folder in folders:
            for library in sorted(folder.glob(f"{wanted}.*")):
                with contextlib.suppress(OSError):
                    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
                break


def make_cuda_client(options: dict[str, Any] | None = None) -> Client:
    """A CUDA client through the installed plugin; raises JaxRuntimeError if there is no usable GPU."""
    plugin = cuda_plugin()
    if plugin is None:
        raise FileNotFoundError("no CUDA plugin is installed (pip install jax-cuda13-plugin[with-cuda])")
    version, library = plugin
    _load_nvidia_libraries()
    capsule = load_plugin("cuda", library)
    client = _jax.get_c_api_client("cuda", {"platform_name": "cuda", **(options or {})})
    _register_cuda_handlers(version, capsule)
    return client


def _register_cuda_handlers(version: str, capsule: Any) -> None:
    """Make the CUDA custom calls (solvers, random bits, Triton kernels) known to the client."""
    try:
        extension = importlib.import_module(f"jax_cuda{version}_plugin.cuda_plugin_extension")
    except ImportError:
        return
    register = _jax.register_custom_call_target

    def handler(name: str, function: Any, platform: str, api_version: int = 0, traits: int = 0) -> None:
        extension.register_custom_call_target(capsule, name, function, platform, api_version, traits)

    del register
    for name, target in extension.ffi_types().items():
        _jax.register_custom_type(name, target, platform="CUDA") if hasattr(
            _jax, "register_custom_type"
        ) else None
    for name, target in extension.ffi_handlers().items():
        handler(name, target, "CUDA", 1, 0)
    for module_name in ("gpu_solver", "gpu_linalg", "gpu_prng", "gpu_sparse"):
        module = importlib.import_module(f"jaxlib.{module_name}")
        for platform, targets in module.registrations().items():
            if platform == "CUDA":
                for name, target, api_version in targets:
                    handler(name, target, "CUDA", api_version)


def make_tpu_client() -> Client:
    """A TPU client through the installed library."""
    library = tpu_library()
    if library is None:
        raise FileNotFoundError("no TPU library is installed (pip install libtpu)")
    load_plugin("tpu", library)
    return _jax.get_c_api_client("tpu", {})


def make_plugin_client(platform: str, options: dict[str, Any] | None = None) -> Client:
    """A client of a platform whose plugin is already loaded."""
    return _jax.get_c_api_client(platform, options or {})
