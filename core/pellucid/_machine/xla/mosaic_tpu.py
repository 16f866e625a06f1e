"""Mosaic's dialect of TPUs, to which their kernels are lowered. Importing it loads the classes of its operations."""

from __future__ import annotations

from typing import Any, NamedTuple

from .kernel_dialects import arith, context_with, dialect, ir, math, mosaic_dialect, scf
from .mlir import PassManager, bytecode

__all__ = [
    "MemRefType", "Serialized", "VectorType", "arith", "func", "ir", "math", "memref", "new_mosaic_context", "scf",
    "serialized", "tpu", "vector",
]  # fmt: skip

# jaxlib's stubs don't list these.
MemRefType: Any = getattr(ir, "MemRefType")  # noqa: B009
VectorType: Any = getattr(ir, "VectorType")  # noqa: B009


func, memref, vector = map(dialect, ("func", "memref", "vector"))
tpu = mosaic_dialect("tpu")


class Serialized(NamedTuple):
    """A module as Mosaic takes it, and what the call must say of it."""

    body: bytes
    communicates: bool
    """Whether it sends to other devices, or signals to them."""
    has_custom_barrier: bool


def new_mosaic_context() -> ir.Context:
    """A fresh context with Mosaic's dialect and those that its programs use.

    >>> with new_mosaic_context():
    ...     print(ir.Type.parse("memref<8x128xf32, #tpu.memory_space<vmem>>"))
    memref<8x128xf32, #tpu.memory_space<vmem>>
    """
    return context_with(tpu)


def serialized(module: ir.Module) -> Serialized:
    """The module in Mosaic's versioned form, which later releases of the compiler read, too."""
    context = module.context
    with context, ir.Location.unknown():
        communicates, has_barrier = tpu.private_has_communication(module.operation)
        copy = ir.Module.parse(bytecode(module))
        # The versioned form has names of operations that no dialect knows.
        context.allow_unregistered_dialects = True
        try:
            PassManager.parse("builtin.module(mosaic-serde{serialize=true})").run(copy.operation)
            return Serialized(bytecode(copy), communicates, has_barrier)
        finally:
            context.allow_unregistered_dialects = False
