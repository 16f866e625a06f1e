"""The module `jax` as libraries import it. The other files are submodules of `jax` that no public module of pellucid provides."""

from __future__ import annotations

import importlib
from typing import Any

from pellucid.as_jax.identity import show_as
from pellucid.as_jax.modules.version import (
    __version__ as __version__,
    __version_info__ as __version_info__,
)

__pellucid__ = True
"""Mark of a `jax` that is pellucid, which set-up code reads."""


def __getattr__(name: str) -> Any:
    if name == "_src":
        return importlib.import_module("jax._src")
    value = getattr(importlib.import_module("pellucid"), name)
    if __name__ == "jax":  # not where pellucid's own tools read this module
        show_as(value, "jax" if getattr(value, "__qualname__", None) == name else None)
    return value


def __dir__() -> list[str]:
    return dir(importlib.import_module("pellucid"))
