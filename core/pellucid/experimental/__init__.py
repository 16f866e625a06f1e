"""Modules and functions under the names of `jax.experimental`."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from pellucid._machine.callbacks.io import io_callback
from pellucid._machine.runtime.extended import ExtendedArray as EArray
from pellucid.experimental.hijax import cur_qdd
from pellucid.experimental.tangent_dtypes import primal_tangent_dtype

__all__ = ["EArray", "cur_qdd", "io_callback", "primal_tangent_dtype"]


def __getattr__(name: str) -> ModuleType:
    """Imports a submodule of this package on its first use as an attribute."""
    path = f"{__name__}.{name}"
    if name.startswith("_") or importlib.util.find_spec(path) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(path)
