"""Private names that libraries import, below `jax._src`."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any


def __getattr__(name: str) -> Any:
    if importlib.util.find_spec(f"{__name__}.{name}") is None:
        raise AttributeError(f"module 'jax._src' has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")
