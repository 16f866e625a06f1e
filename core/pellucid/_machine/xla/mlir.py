"""MLIR contexts with the dialects of programs, element types, locations from captured stacks."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
from jaxlib import _jax
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir._mlir_libs import _chlo, _jax_mlir_ext, _sdy, _stablehlo

__all__ = ["ir", "new_context", "element_types", "location_cache", "PassManager", "MLIRError"]

PassManager = passmanager.PassManager
MLIRError = ir.MLIRError
sdy = _sdy
stablehlo = _stablehlo

dialects = ir.DialectRegistry()
"""Dialects that contexts may load."""
_jax_mlir_ext.register_dialects(dialects)


def new_context() -> ir.Context:
    """A new context for each lowering, so that interned objects are not kept forever.

    Takes 1 ms, instead of 4.5 ms with all dialects: others are only loaded when parsed text uses them.

    >>> with new_context():
    ...     print(ir.Type.parse("tensor<2xf32>"))
    tensor<2xf32>
    """
    context = ir.Context()
    context.append_dialect_registry(dialects)
    _stablehlo.register_dialect(context)
    _chlo.register_dialect(context)
    _sdy.register_dialect(context)
    context.get_dialect_descriptor("func")
    context.enable_multithreading(False)
    return context


def operation_classes(dialect: str) -> ModuleType:
    """The operation classes of `dialect`, such as "func"; once loaded, operations are instances of them."""
    return importlib.import_module(f"jaxlib.mlir.dialects.{dialect}")


ADVANCE = ir.WalkResult.ADVANCE
PRE_ORDER = ir.WalkOrder.PRE_ORDER


def bytecode_without_locations(module: ir.Module) -> bytes:
    """The module as MLIR bytecode without locations."""
    with module.context:
        copy = ir.Module.parse(bytecode(module))
        PassManager.parse("builtin.module(strip-debuginfo)").run(copy.operation)
    return bytecode(copy)


_lasting_context: list[ir.Context] = []
_lasting_modules: list[ir.Module] = []


def lasting_copy(module: ir.Module) -> ir.Module:
    """A copy of `module` that lives as long as the process, for users who may keep its operations.

    Reading an operation after its module was destroyed crashes the process, and an operation doesn't keep its module
    alive. All copies share one context, so that only their operations need memory.
    """
    if not _lasting_context:
        _lasting_context.append(new_context())
    copy = ir.Module.parse(bytecode(module), _lasting_context[0])
    _lasting_modules.append(copy)
    return copy


def run_passes(module: ir.Module, passes: str) -> None:
    """Runs passes, given in the syntax of MLIR's command line, which modify `module`.

    The module isn't verified between passes: Shardy's debugging annotations wouldn't pass.

    Raises: RuntimeError for a pass that fails or that there isn't.
    """
    with module.context:
        try:
            manager = PassManager.parse(f"builtin.module({passes})")
            manager.enable_verifier(False)
            manager.run(module.operation)
        except (MLIRError, ValueError) as error:
            raise RuntimeError(str(error)) from error


def bytecode(module: ir.Module) -> bytes:
    """The module as MLIR bytecode."""
    buffer = io.BytesIO()
    module.operation.write_bytecode(file=buffer)
    return buffer.getvalue()


serialize_artifact = _jax.mlir.serialize_portable_artifact
hlo_to_stablehlo = _jax.mlir.hlo_to_stablehlo
refine_shapes = _jax.mlir.refine_polymorphic_shapes


def portable_artifact(module: ir.Module) -> bytes:
    """The module in the StableHLO version of four weeks before this release, readable by earlier and later releases.

    Raises: RuntimeError where it has operations that StableHLO can't keep stable.
    """
    stablehlo.register_stablehlo_passes()
    with module.context:
        copy = ir.Module.parse(bytecode(module))
        # If sizes are dynamic, the first pass computes with shapes in a separate dialect.
        passes = "chlo-legalize-to-stablehlo,shape-legalize-to-stablehlo"
        run_passes(copy, f"func.func({passes})")
    version = stablehlo.get_version_from_compatibility_requirement(
        stablehlo.StablehloCompatibilityRequirement.WEEK_4
    )
    return serialize_artifact(copy, version, True)


def module_of_artifact(data: bytes, context: ir.Context) -> ir.Module:
    """Deserializes a portable artifact.

    Raises: RuntimeError for other bytes, or for a newer version than this release can read.
    """
    try:
        return _jax.mlir.deserialize_portable_artifact(data, context)
    except (MLIRError, ValueError) as error:
        raise RuntimeError(str(error)) from error


def with_static_shapes(module: ir.Module, argument_types: Sequence[ir.Type]) -> ir.Module:
    """Refines a module whose `main` takes arrays of dynamic shapes to the static shapes of `argument_types`.

    Raises: RuntimeError if these don't match the module's shapes, or if it can't be refined.
    """
    stablehlo.register_stablehlo_passes()
    with module.context:
        copy = ir.Module.parse(bytecode(module))
        types = ",".join(map(str, argument_types))
        run_passes(copy, f"stablehlo-refine-arguments{{types={types}}}")
        try:
            refined = refine_shapes(bytecode(copy), True, True, True)
        except ValueError as error:
            raise RuntimeError(str(error)) from error
        return ir.Module.parse(refined)


def _integer(width: int, signed: bool) -> Callable[[], ir.Type]:
    get = ir.IntegerType.get_signless if signed else ir.IntegerType.get_unsigned
    return lambda: get(width)


element_types: dict[np.dtype, Callable[[], ir.Type]] = {
    np.dtype(bool): _integer(1, True),
    np.dtype(np.float16): ir.F16Type.get,
    np.dtype(np.float32): ir.F32Type.get,
    np.dtype(np.float64): ir.F64Type.get,
    np.dtype(ml_dtypes.bfloat16): ir.BF16Type.get,
    np.dtype(np.complex64): lambda: ir.ComplexType.get(ir.F32Type.get()),
    np.dtype(np.complex128): lambda: ir.ComplexType.get(ir.F64Type.get()),
}
"""For each NumPy dtype, a function that makes the MLIR element type (in the current context)."""

for _width in (2, 4, 8, 16, 32, 64):
    for _prefix, _signed in (("int", True), ("uint", False)):
        _name = f"{_prefix}{_width}"
        _scalar = getattr(np, _name, None) or getattr(ml_dtypes, _name, None)
        if _scalar is not None:
            element_types[np.dtype(_scalar)] = _integer(_width, _signed)

for _name, _mlir_name in {
    "float8_e3m4": "Float8E3M4Type",
    "float8_e4m3": "Float8E4M3Type",
    "float8_e4m3b11fnuz": "Float8E4M3B11FNUZType",
    "float8_e4m3fn": "Float8E4M3FNType",
    "float8_e4m3fnuz": "Float8E4M3FNUZType",
    "float8_e5m2": "Float8E5M2Type",
    "float8_e5m2fnuz": "Float8E5M2FNUZType",
    "float8_e8m0fnu": "Float8E8M0FNUType",
    "float4_e2m1fn": "Float4E2M1FNType",
    "float6_e2m3fn": "Float6E2M3FNType",
    "float6_e3m2fn": "Float6E3M2FNType",
}.items():
    if hasattr(ml_dtypes, _name) and hasattr(ir, _mlir_name):
        element_types[np.dtype(getattr(ml_dtypes, _name))] = getattr(ir, _mlir_name).get


def location_cache(
    code_to_file: Callable[[Any], str | None], frame_limit: int, context: ir.Context
) -> Any:
    """`.get(traceback)` returns an MLIR location with the frames for which `code_to_file` returns a file."""
    return _jax_mlir_ext.TracebackToLocationCache(code_to_file, frame_limit, context)
