"""Lowering, under the names of `jax.extend.lowering`."""

from pellucid._machine.lowering.module import LoweringContext as LoweringRuleContext
from pellucid._machine.xla.mlir import dialects as upstream_dialects, ir

JaxIrContext = ir.Context
"""The class of MLIR contexts; `interpreters.mlir.make_ir_context` makes one with the dialects of programs."""

__all__ = ["JaxIrContext", "LoweringRuleContext", "upstream_dialects"]
