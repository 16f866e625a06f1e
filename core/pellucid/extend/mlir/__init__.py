"""StableHLO modules as bytes, under the names of `jax.extend.mlir`."""

from __future__ import annotations

import sys
from typing import Any

from pellucid._machine.base.errors import ArgumentValueError
from pellucid._machine.base.typing import Function
from pellucid._machine.lowering.module import LoweringContext
from pellucid._machine.xla import mlir
from pellucid._machine.xla.mlir import MLIRError, ir, passmanager

sys.modules |= {f"{__name__}.ir": ir, f"{__name__}.passmanager": passmanager}


def _convert(function: Function, what: str, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except (MLIRError, ValueError, RuntimeError) as error:
        raise ArgumentValueError(f"{what}.", got=str(error)[:600]) from error


def serialize_portable_artifact(
    mlir_module: ir.Module, target: str, use_mixed_serialization: bool = False
) -> bytes:
    r"""A module as a portable artifact of the StableHLO version `target`, as "1.9.0".

    Raises: ArgumentValueError for a module or a version that has none.

    >>> module = pl.jit(lambda x: x + 1).lower(1.0).compiler_ir()
    >>> serialize_portable_artifact(module, "1.9.0")[:4]
    b'ML\xefR'
    """
    return _convert(
        mlir.serialize_artifact, "the module has no portable artifact of this version",
        mlir_module, target, use_mixed_serialization,
    )  # fmt: skip


def deserialize_portable_artifact(mlir_module: bytes, context: ir.Context | None = None) -> Any:
    """The module that a portable artifact holds; its context is a new one if there is none.

    Raises: ArgumentValueError for bytes that are no portable artifact, or of a newer version.

    >>> module = pl.jit(lambda x: x + 1).lower(1.0).compiler_ir()
    >>> artifact = serialize_portable_artifact(module, "1.9.0")
    >>> "stablehlo.add" in str(deserialize_portable_artifact(artifact))
    True
    """
    return _convert(
        mlir.module_of_artifact, "these bytes are no portable artifact that this jaxlib reads",
        mlir_module, context or mlir.new_context(),
    )  # fmt: skip


def hlo_to_stablehlo(computation: bytes) -> bytes:
    r"""The StableHLO module, as MLIR bytecode, of a serialized HloModuleProto.

    Raises: ArgumentValueError for other bytes.

    >>> hlo = pl.jit(lambda x: x + 1).lower(np.float32(1)).compiler_ir("hlo")
    >>> hlo_to_stablehlo(hlo.as_serialized_hlo_module_proto())[:4]
    b'ML\xefR'
    """
    return _convert(
        mlir.hlo_to_stablehlo, "these bytes are no module that has a form in StableHLO", computation
    )


def refine_polymorphic_shapes(
    mlir_module: bytes,
    enable_shape_assertions: bool = True,
    validate_static_shapes: bool = True,
    enable_shardy: bool = False,
) -> bytes:
    r"""A module, as MLIR bytecode, whose sizes are computed from those of the arguments of its `main`.

    Raises: ArgumentValueError where some can't be, if `validate_static_shapes`, and for assertions on shapes that don't hold, if
    `enable_shape_assertions`.

    >>> from pellucid.interpreters.mlir import module_to_bytecode
    >>> module = pl.jit(lambda x: x + 1).lower(1.0).compiler_ir()
    >>> refine_polymorphic_shapes(module_to_bytecode(module))[:4]
    b'ML\xefR'
    """
    return _convert(
        mlir.refine_shapes, "the shapes of the module can't be refined",
        mlir_module, enable_shape_assertions, validate_static_shapes, enable_shardy,
    )  # fmt: skip


def lower_with_sharding_in_types(ctx: LoweringContext, op: ir.Value, aval: Any) -> ir.Value:
    """The MLIR value `op` of type `aval`, with the sharding over Explicit mesh axes in its type.

    >>> from pellucid.extend.core import Primitive
    >>> from pellucid.interpreters import mlir as rules
    >>> p = Primitive("same")
    >>> _ = p.def_abstract_eval(lambda x: x)
    >>> _ = rules.register_lowering(p, lambda ctx, x: [lower_with_sharding_in_types(ctx, x, *ctx.avals_out)])
    >>> pl.jit(p.bind)(np.float32(2))
    Array(2., dtype=float32)
    """
    return op if ctx.sharding_attributes is None else ctx.as_typed(op, aval)


__all__ = [
    "deserialize_portable_artifact",
    "hlo_to_stablehlo",
    "lower_with_sharding_in_types",
    "refine_polymorphic_shapes",
    "serialize_portable_artifact",
]
