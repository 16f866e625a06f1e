"""The dialects of Mosaic's programs for GPUs, to which kernels are lowered. Importing it loads the classes of their operations."""

from __future__ import annotations

import hashlib
import importlib
from typing import Any, NamedTuple

from .kernel_dialects import arith, ir, math, scf
from .mlir import PassManager, bytecode, dialects

__all__ = [
    "FloatType", "MemRefType", "Serialized", "VectorType", "arith", "func", "gpu", "ir", "llvm", "math", "memref", "new_mosaic_gpu_context",
    "nvvm", "scf", "serialized", "vector",
]  # fmt: skip

# jaxlib's stubs don't list these.
FloatType: Any = getattr(ir, "FloatType")  # noqa: B009
MemRefType: Any = getattr(ir, "MemRefType")  # noqa: B009
VectorType: Any = getattr(ir, "VectorType")  # noqa: B009


def _dialect(name: str) -> Any:
    """The classes of a dialect's operations."""
    return importlib.import_module(f"jaxlib.mlir.dialects.{name}")


func, gpu, llvm, memref, nvvm, vector = map(
    _dialect, ("func", "gpu", "llvm", "memref", "nvvm", "vector")
)
_dialect("builtin")
_mosaic: Any = importlib.import_module("jaxlib.mosaic.python.mosaic_gpu")
# The import makes MLIR look for classes of operations in the package `jax`, which must not be loaded.
_places = _dialect("_ods_common")._cext.globals
_places.dialect_search_modules = [
    place for place in _places.dialect_search_modules if place.partition(".")[0] != "jax"
]


class Serialized(NamedTuple):
    """A module as Mosaic takes it, and the hash by which it keeps what it compiled."""

    body: bytes
    digest: bytes
    """32 bytes."""


def new_mosaic_gpu_context() -> ir.Context:
    """A fresh context with the dialects of programs for GPUs.

    >>> with new_mosaic_gpu_context():
    ...     print(ir.Type.parse("!llvm.ptr<3>"))
    !llvm.ptr<3>
    """
    context = ir.Context()
    context.append_dialect_registry(dialects)
    _mosaic.register_dialect(context)
    context.load_all_available_dialects()
    context.enable_multithreading(False)
    return context


def serialized(module: ir.Module) -> Serialized:
    """The module in Mosaic's versioned form, which later releases of the compiler read, too."""
    context = module.context
    with context, ir.Location.unknown():
        copy = ir.Module.parse(bytecode(module))
        # The versioned form has names of operations that no dialect knows.
        context.allow_unregistered_dialects = True
        try:
            PassManager.parse("builtin.module(mosaic_gpu-serde{serialize=true})").run(
                copy.operation
            )
            body = bytecode(copy)
        finally:
            context.allow_unregistered_dialects = False
    return Serialized(body, hashlib.sha256(body).digest())
