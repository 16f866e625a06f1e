"""The dialects of Mosaic's programs for GPUs, to which kernels are lowered. Importing it loads the classes of their operations."""

from __future__ import annotations

import functools
import hashlib
import os
import pathlib
import tempfile
import threading
from typing import Any, NamedTuple

import numpy as np

from .compile import compile_only, compile_options
from .gpu_targets import GPU_TARGETS
from .kernel_dialects import arith, context_with, dialect, ir, math, mosaic_dialect, scf
from .mlir import PassManager, bytecode, element_types, new_context
from .plugins import PluginMissingError, cuda_plugin, name_mosaic_runtime, topology_devices

__all__ = [
    "Buffer", "FloatType", "MemRefType", "Serialized", "VectorType", "arith", "compiled", "func", "gpu", "ir", "llvm", "math", "memref", "new_mosaic_gpu_context",
    "nvvm", "scf", "serialized", "vector",
]  # fmt: skip

# jaxlib's stubs don't list these.
FloatType: Any = getattr(ir, "FloatType")  # noqa: B009
MemRefType: Any = getattr(ir, "MemRefType")  # noqa: B009
VectorType: Any = getattr(ir, "VectorType")  # noqa: B009


func, gpu, llvm, memref, nvvm, vector = map(
    dialect, ("func", "gpu", "llvm", "memref", "nvvm", "vector")
)
_mosaic = mosaic_dialect("mosaic_gpu")


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
    return context_with(_mosaic)


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


class Buffer(NamedTuple):
    """The type of an array that a kernel is given."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def type(self) -> ir.Type:
        """The type in MLIR."""
        return ir.RankedTensorType.get(self.shape, element_types[self.dtype]())

    @property
    def layout(self) -> str:
        """The order of its dimensions in memory, as text."""
        order = [*reversed(range(len(self.shape)))]
        return (
            f"dense<{order}> : tensor<{len(order)}xindex>" if order else "dense<> : tensor<0xindex>"
        )


_DUMP = "MOSAIC_GPU_DUMP_TO"
_lock = threading.Lock()


# Unbounded, as what the compiler has compiled once in this process leaves no files again.
@functools.cache
def compiled(module: Serialized, buffers: tuple[Buffer, ...]) -> tuple[str, str]:
    """(PTX, what the assembler reports) of a kernel that is given `buffers`, compiled for an H100 that needn't be there.

    Raises: PluginMissingError if nothing installed compiles it; JaxRuntimeError if it can't be compiled.
    """
    plugin = cuda_plugin()
    if plugin is None or name_mosaic_runtime(plugin.cuda_version) is None:
        raise PluginMissingError(
            "no compiler of Mosaic for GPUs is installed (pip install 'pellucid[gpu-aot]')"
        )
    options = {"target_config": GPU_TARGETS["H100"].text, "topology": "1x1x1"}
    devices = topology_devices("cuda", "", options)[:1]
    with _lock, tempfile.TemporaryDirectory() as folder:
        before = os.environ.get(_DUMP)
        os.environ[_DUMP] = folder  # the compiler leaves files there
        try:
            compile_only(
                _program(module, buffers), devices, compile_options(devices, is_partitioned=False)
            )
        finally:
            if before is None:
                del os.environ[_DUMP]
            else:
                os.environ[_DUMP] = before
        texts = {path.suffix: path.read_text() for path in pathlib.Path(folder).iterdir()}
    return texts[".ptx"], texts[".ptxas"]


def _program(module: Serialized, buffers: tuple[Buffer, ...]) -> ir.Module:
    """A program that calls a kernel with all buffers but the last one, which is its result."""
    *given, result = buffers
    # Another hash than that of calls: what they have compiled would leave no files.
    digest = hashlib.sha256(module.body + b"files").digest()
    with new_context(), ir.Location.unknown():
        types = [str(b.type) for b in given]
        arguments = ", ".join([f"%{i}: {t}" for i, t in enumerate(types)])
        names = ", ".join([f"%{i}" for i in range(len(given))])
        layouts = ", ".join([b.layout for b in given])
        text = f"""module @kernel attributes {{mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32}} {{
          func.func public @main({arguments}) -> {result.type} {{
            %result = "stablehlo.custom_call"({names}) {{
              call_target_name = "mosaic_gpu_v2", api_version = 4 : i32, has_side_effect = false,
              backend_config = {{module = "{_escaped(module.body)}", kernel_hash = "{_escaped(digest)}", use_custom_barrier = false,
                uses_xla_collective_metadata = false}},
              operand_layouts = [{layouts}], result_layouts = [{result.layout}]
            }} : ({", ".join(types)}) -> {result.type}
            return %result : {result.type}
          }}
        }}"""
        return ir.Module.parse(text)


def _escaped(data: bytes) -> str:
    return "".join([f"\\{byte:02X}" for byte in data])
