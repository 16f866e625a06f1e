"""`cudnn_fusion`: a function that NVIDIA GPUs compute as one kernel, of cuDNN."""

from __future__ import annotations

from typing import Any, NamedTuple

from pellucid._machine.base import EffectsError, Function, tree_flatten, wrapping
from pellucid._machine.higher_order.bodies import trace_program
from pellucid._machine.higher_order.calls import Defined, JitParams
from pellucid._machine.ir import ClosedJaxpr
from pellucid._machine.tracing import bind, name_of, types_of
from pellucid._machine.transforms import check_callable, checked_leaves
from pellucid._machine.xla.mlir import ir

TARGET = "__cudnn$fusion"


class CudnnFusionParams(NamedTuple):
    name: str
    jaxpr: ClosedJaxpr

    def as_call(self) -> JitParams:
        """Params of a call of the function."""
        return JitParams(self.name, self.jaxpr)


class CudnnFusion(Defined[CudnnFusionParams]):
    """A call of a function that NVIDIA GPUs compute as one kernel; elsewhere, and transformed, a call of the function."""

    name = "cudnn_fusion"

    def lower(self, ctx, operands, params):
        if ctx.platform != "cuda" or ctx.dimensions:
            return ctx.call(params.jaxpr.jaxpr, params.name, operands)
        function = ir.FlatSymbolRefAttr.get(ctx.symbol_of(params.jaxpr.jaxpr, params.name))
        stated = {
            "call_target_name": TARGET,
            "called_computations": ir.ArrayAttr.get([function]),
        }
        values = [*ctx.globals, *operands]
        return list(ctx.op("stablehlo.custom_call", ctx.types(ctx.avals_out), values, stated).results)  # fmt: skip


cudnn_fusion_p = CudnnFusion()


def cudnn_fusion(function: Function) -> Function:
    """`function` as one kernel of cuDNN on NVIDIA GPUs; on other platforms a function as others.

    cuDNN takes a product of matrices with elementwise operations before and after it. XLA measures its kernel against others of one kernel,
    and fails where there is none of either kind.
    Arguments and results are trees of arrays. Derivatives and batches are those of the function, without the kernel.

    Raises: EffectsError for a function with side effects.

    >>> product = cudnn_fusion(lambda x, y: x @ y + 1)
    >>> product(jnp.ones((2, 3)), jnp.ones((3, 2)))
    Array([[4., 4.],
           [4., 4.]], dtype=float32)
    """
    check_callable(function, "cudnn_fusion")

    @wrapping(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, in_tree = tree_flatten((args, kwargs))
        operands = checked_leaves(leaves, "cudnn_fusion", function, (args, kwargs))
        body = trace_program(
            lambda args, kwargs: function(*args, **kwargs), in_tree, types_of(operands), "cudnn_fusion"
        )  # fmt: skip
        if body.program.effects:
            raise EffectsError(
                "cudnn_fusion: the function has side effects.",
                got=", ".join(map(repr, body.program.effects)),
            )
        params = CudnnFusionParams(name_of(function), body.program)
        return body.out_tree.unflatten(bind(cudnn_fusion_p, *body.consts, *operands, params=params))

    return call


__all__ = ["cudnn_fusion", "cudnn_fusion_p"]
