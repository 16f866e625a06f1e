"""Late-bound calls from a lower layer to a higher one, by the names in `wiring`."""

from __future__ import annotations

import importlib
from typing import Any

origins: dict[str, str] = {}
"""Maps the name of each late binding to `module:attribute`; filled by `wiring`, which `import pellucid` loads."""
_loaded: dict[str, Any] = {}


def late(name: str) -> Any:
    """The object that `wiring` lists as `name`; the first call imports its module.

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
