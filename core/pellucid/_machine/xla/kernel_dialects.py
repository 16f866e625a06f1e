"""MLIR's own dialects that kernels for devices use. Importing it loads the classes of their operations."""

from __future__ import annotations

import importlib
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import arith, math, scf

from .mlir import dialects

__all__ = ["arith", "context_with", "dialect", "ir", "math", "mosaic_dialect", "scf"]


def dialect(name: str) -> Any:
    """The classes of a dialect's operations."""
    return importlib.import_module(f"jaxlib.mlir.dialects.{name}")


def mosaic_dialect(name: str) -> Any:
    """One of Mosaic's dialects, "tpu" or "mosaic_gpu"."""
    dialect("builtin")
    found = importlib.import_module(f"jaxlib.mosaic.python.{name}")
    # The import makes MLIR look for classes of operations in the package `jax`, which must not be loaded.
    places = dialect("_ods_common")._cext.globals
    places.dialect_search_modules = [
        place for place in places.dialect_search_modules if place.partition(".")[0] != "jax"
    ]
    return found


def context_with(device_dialect: Any) -> ir.Context:
    """A fresh context with the dialect of a device and those that its programs use."""
    context = ir.Context()
    context.append_dialect_registry(dialects)
    device_dialect.register_dialect(context)
    context.load_all_available_dialects()
    context.enable_multithreading(False)
    return context
