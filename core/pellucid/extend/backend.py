"""Clients of platforms, under the names of `jax.extend.backend`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid._machine.base.caching import clear_caches
from pellucid._machine.base.functional import copy_with_name
from pellucid._machine.runtime.platforms import (
    client,
    default_device,
    platform_of,
    register_platform,
    started_clients,
    stop_all,
)
from pellucid._machine.xla.client import Client
from pellucid._machine.xla.compile import compile_options

clear_in_memory_compilation_cache = copy_with_name(
    clear_caches, "clear_in_memory_compilation_cache", __name__
)
get_backend = copy_with_name(client, "get_backend", __name__)
get_default_device = copy_with_name(default_device, "get_default_device", __name__)

_caches: list[Any] = []


def backends() -> dict[str, Client]:
    """The clients of all platforms that are running, by name; the default one is started.

    >>> "cpu" in backends()
    True
    """
    get_backend()
    return {platform_of(client): client for client in started_clients()}


def backend_xla_version(platform: str | None = None) -> int | None:
    """The version of a plug-in's compiler interface; None for platforms that are part of jaxlib.

    >>> backend_xla_version("cpu") is None
    True
    """
    return getattr(get_backend(platform), "xla_version", None)


def register_backend_cache(cache: Any, for_what: str) -> None:
    """Register `cache`, whose `cache_clear()` is called by `clear_backends`; `for_what` describes its contents.

    >>> import functools
    >>> register_backend_cache(functools.lru_cache(pl.devices), "devices")
    """
    _caches.append(cache)


def clear_backends() -> None:
    """Drops all compiled programs and all clients; the next use creates new ones.

    Arrays on their devices stay usable.

    >>> clear_backends.__name__
    'clear_backends'
    """
    clear_in_memory_compilation_cache()
    for cache in _caches:
        cache.cache_clear()
    stop_all()


def register_backend_factory(
    name: str, factory: Callable[[], Client | None], *, priority: int = 0, **_: Any
) -> None:
    """Add a platform, whose client is created by `factory()` when it is first needed.

    It is the default platform where the option `platforms` names it first; `priority` and other keywords change nothing.

    >>> register_backend_factory("abacus", lambda: get_backend("cpu"))
    """
    register_platform(name, factory)  # pyright: ignore[reportArgumentType]  # None fails where it is started


def get_compile_options(
    num_replicas: int,
    num_partitions: int,
    device_assignment: Any = None,
    env_options_overrides: dict[str, Any] | None = None,
    fdo_profile: bytes | None = None,
    detailed_logging: bool = True,
    backend: Client | None = None,
) -> Any:
    """Options of XLA for a program of so many replicas and partitions, on these device ids [replica, partition].

    >>> get_compile_options(1, 2, [[0, 1]]).num_partitions
    2
    """
    ids = (
        np.arange(num_replicas * num_partitions) if device_assignment is None else device_assignment
    )
    by_id = {device.id: device for device in (backend or get_backend()).devices()}
    devices: Sequence[Any] = [by_id[int(i)] for i in np.ravel(ids)]
    overrides = tuple((env_options_overrides or {}).items())
    options = compile_options(devices, overrides, is_partitioned=num_partitions > 1)
    build = options.executable_build_options
    options.num_replicas = build.num_replicas = num_replicas
    options.num_partitions = build.num_partitions = num_partitions
    if fdo_profile is not None:
        build.fdo_profile = fdo_profile
    return options


__all__ = [
    "backend_xla_version", "backends", "clear_backends", "clear_in_memory_compilation_cache", "get_backend",
    "get_compile_options", "get_default_device", "register_backend_cache", "register_backend_factory",
]  # fmt: skip
