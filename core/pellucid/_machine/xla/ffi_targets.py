"""Native functions called by name, for CPUs and, once their plugin is loaded, for CUDA GPUs."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import jaxlib
from jaxlib import _jax

Buffer = _jax.ffi.Buffer
"""Memory of a running program, as an array."""
ExecutionContext = _jax.ffi.ExecutionContext
ExecutionStage = _jax.ffi.ExecutionStage
CPU, CUDA = "Host", "CUDA"
PLATFORMS = {"cpu": CPU, "Host": CPU, "gpu": CUDA, "cuda": CUDA, "CUDA": CUDA}
"""XLA's platform for each name used by users."""
_Registration = Callable[[Any, Any], None]
_for_cuda: list[_Registration] = []
"""Registrations to make when the CUDA plugin is loaded, as functions of its extension module and C interface."""
_cuda: list[tuple[Any, Any]] = []
"""The CUDA plugin's (extension module, C interface), once it is loaded."""


def register_target(name: str, target: Any, platform: str, api_version: int, traits: int) -> None:
    """Registers a native function with the compiler of `platform`, one of `PLATFORMS`.

    `target` is a capsule with its address, or with one address for each stage by name; `api_version` is 1 for handlers
    of the typed interface and 0 for functions of the older one.
    """
    if PLATFORMS[platform] == CPU:
        _jax.register_custom_call_target(name, target, CPU, api_version, traits)
    else:
        _on_cuda(
            lambda extension, interface: extension.register_custom_call_target(
                interface, name, target, CUDA, api_version, traits
            )
        )


def register_type(name: str, registration: dict[str, Any], platform: str) -> None:
    """Registers a type of handler state with the runtime of `platform`, one of `PLATFORMS`."""
    if PLATFORMS[platform] == CPU:
        _jax.register_custom_type(name, registration)
    else:
        _on_cuda(
            lambda extension, interface: extension.register_custom_type(
                interface, name, registration
            )
        )


def register_as_batch_partitionable(name: str) -> None:
    """Lets XLA shard calls of `name` along the leading axes counted by `num_batch_dims` in their metadata."""
    _jax.register_custom_call_as_batch_partitionable(name)
    _on_cuda(
        lambda _, interface: _jax.register_custom_call_as_batch_partitionable(name, c_api=interface)
    )


def _on_cuda(registration: _Registration) -> None:
    _for_cuda.append(registration)
    for extension, interface in _cuda:
        registration(extension, interface)


def cuda_loaded(extension: Any, interface: Any) -> None:
    """Registers pending functions with the CUDA plugin, which was loaded."""
    _cuda.append((extension, interface))
    for registration in _for_cuda:
        registration(extension, interface)


def include_folder() -> pathlib.Path:
    """The folder of the C++ headers that come with jaxlib."""
    return pathlib.Path(jaxlib.__path__[0], "include")
