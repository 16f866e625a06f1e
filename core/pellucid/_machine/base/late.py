"""Calls from a lower layer into a higher one, by the name under which `wiring` lists what is called."""

from __future__ import annotations

import importlib
from typing import Any

origins: dict[str, str] = {}
"""`module:attribute` of each late binding, by its name; filled by `wiring`, which `import pellucid` loads."""
_loaded: dict[str, Any] = {}


def late(name: str) -> Any:
    """The object that `wiring` lists as `name`; its module is imported by the first call.

    >>> late("devices")()[0].platform
    'cpu'
    """
    target = _loaded.get(name)
    if target is None:
        module, _, attribute = origins[name].partition(":")
        target = _loaded[name] = getattr(importlib.import_module(module), attribute)
    return target


def is_loaded(name: str) -> bool:
    """Whether `late(name)` was called before."""
    return name in _loaded
