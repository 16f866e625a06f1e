"""Transformations of HLO modules by Python functions, which run during XLA's compilation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from . import flags

try:
    from jaxlib import _xla as _interface
except ImportError:  # jaxlib before 0.10.2
    _interface: Any = None

_version = flags.RareFlag("pellucid_hlo_transformations", 0, in_trace_key=True)
"""Number of changes to the registered transformations, which is part of the keys of all compiled programs."""


class Transformation(NamedTuple):
    """A registered transformation; it runs before (`stage` 0) or after scheduling (1) for some platforms."""

    name: str
    stage: int
    callback: Callable[[bytes], bytes | None]
    platforms: frozenset[str]


_registered: list[Transformation] = []
is_supported = _interface is not None
"""Whether this jaxlib supports transformations."""


def any_for(platform: str) -> bool:
    """Whether a transformation is registered for `platform`."""
    return any(platform in t.platforms for t in _registered)


def register(transformation: Transformation, clients: Mapping[str, Any]) -> None:
    """Registers a transformation with the running `clients`, by platform, and with clients started later.

    Raises: RuntimeError for a client whose plugin doesn't support transformations.
    """
    name, stage, callback, platforms = transformation
    for platform in platforms & clients.keys() - {"cpu"}:
        _interface.register_xla_transform_c_api(clients[platform], name, stage, callback)
    if "cpu" in platforms:
        _interface.register_xla_transform(name, stage, callback)
    _registered.append(transformation)
    _version.set_global(_version.value + 1)


def register_with_client(platform: str, client: Any) -> None:
    """Registers the transformations for `platform` with its newly started client."""
    for name, stage, callback, platforms in _registered:
        if platform in platforms - {"cpu"}:
            _interface.register_xla_transform_c_api(client, name, stage, callback)


def clear(name: str, stage: int, platforms: frozenset[str], clients: Mapping[str, Any]) -> bool:
    """Removes the transformations called `name` at `stage` from `platforms`. Returns whether there were any."""
    matches = [t for t in _registered if (t.name, t.stage) == (name, stage)]
    registered = platforms & frozenset().union(*[t.platforms for t in matches])
    for platform in registered & clients.keys() - {"cpu"}:
        _interface.clear_xla_transform_c_api(clients[platform], name, stage)
    if "cpu" in registered:
        _interface.clear_xla_transform(name, stage)
    for t in matches:
        _registered.remove(t)
        if rest := t.platforms - platforms:
            _registered.append(t._replace(platforms=rest))
    if registered:
        _version.set_global(_version.value + 1)
    return bool(registered)
