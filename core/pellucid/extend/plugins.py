"""Plug-ins of PJRT that other distributions bring: found when the first device is used, and registered by themselves.

A plug-in is a module of the namespace package `jax_plugins`, or the target of an entry point of the group `jax_plugins`; its
function `initialize()` calls `register_plugin`, which it knows as `jax._src.xla_bridge.register_plugin`.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from pellucid._machine.base import logger
from pellucid._machine.base.errors import ArgumentValueError
from pellucid._machine.xla import plugins


def register_plugin(
    plugin_name: str,
    *,
    priority: int = 400,
    library_path: str | None = None,
    options: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None = None,
    c_api: Any = None,
) -> None:
    """Add the platform `plugin_name`, whose PJRT library is the file `library_path`, or has the C interface `c_api`.

    Nothing is loaded before devices are used. Of the platforms that can be started, that of the highest `priority` is the
    default one: TPUs have 300, CUDA 200, the CPU 0. `options` are those of the client, or a function that gives them.

    Raises: ArgumentValueError without a library, and with two. A library that isn't there is an error where devices of the
    platform are asked for.

    >>> register_plugin("abacus")
    Traceback (most recent call last):
        ...
    pellucid.errors.ArgumentValueError: register_plugin needs either `library_path` or `c_api`.
      plugin 'abacus': library_path=None, c_api=None
    """
    if (library_path is None) == (c_api is None):
        raise ArgumentValueError(
            "register_plugin needs either `library_path` or `c_api`.",
            got=f"plugin {plugin_name!r}: library_path={library_path!r}, c_api={c_api!r}",
        )
    path = None if library_path is None else pathlib.Path(library_path)
    plugins.register(plugin_name, plugins.NamedPlugin(path, options or {}, c_api), priority)


def discover() -> None:
    """Initialize the installed plug-ins, once, as the first use of a device does.

    >>> discover()
    """
    plugins.discover(logger.warning)


__all__ = ["discover", "register_plugin"]
