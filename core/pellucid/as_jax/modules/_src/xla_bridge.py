"""Clients as `jax._src.xla_bridge`."""

from __future__ import annotations

from typing import Any

from pellucid.extend.backend import get_backend, register_backend_factory
from pellucid.extend.plugins import discover as discover_pjrt_plugins, register_plugin
from pellucid.runtime.platforms import platform_of, started_clients

__all__ = ["discover_pjrt_plugins", "get_backend", "register_backend_factory", "register_plugin"]


def __getattr__(name: str) -> Any:
    if name == "_backends":
        return {platform_of(client): client for client in started_clients()}
    raise AttributeError(f"module 'jax._src.xla_bridge' has no attribute {name!r}")
