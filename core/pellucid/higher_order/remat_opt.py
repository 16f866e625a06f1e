"""The forward pass of a `custom_vjp` function that becomes the function itself where no residual is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pellucid.ir import ClosedJaxpr, DebugInfo, Operands, Values
from pellucid.tracing import bind, types_of
from pellucid.transforms.derived import stage_open
from pellucid.transforms.vmap import batch_jaxpr

from .calls import ClosedCallParams, Defined, closed_call_p
from .structured import with_common_consts


class RematOptParams(NamedTuple):
    """`fwd_jaxpr` gives results and residuals, `fun_jaxpr` the first `num_out` of these results alone."""

    fwd_jaxpr: ClosedJaxpr
    fun_jaxpr: ClosedJaxpr
    num_out: int

    def as_call(self) -> ClosedCallParams:
        """Params of a call of the forward pass."""
        return ClosedCallParams(self.fwd_jaxpr)


class RematOpt(Defined[RematOptParams]):
    """A call of the forward pass; when residuals turn out to be dead, of the function."""

    name = "remat_opt"
    definition = closed_call_p

    def called(self, params):
        return None

    def batch(self, axis, operands, dims, params):
        n = params.num_out
        forward = batch_jaxpr(params.fwd_jaxpr.jaxpr, axis, dims)
        batched_results = [d is not None for d in forward.mask[:n]]
        function = batch_jaxpr(params.fun_jaxpr.jaxpr, axis, dims, batched_results)
        if function.mask != forward.mask[:n]:  # the forward pass forgets the batch
            return super().batch(axis, operands, dims, params)
        (fwd, fun), consts = with_common_consts(
            [forward.program, function.program], [forward.consts, function.consts]
        )
        results = bind(self, *consts, *operands, params=RematOptParams(fwd, fun, n))
        return results, forward.mask

    def dead_code(self, used, equation):
        n = equation.params.num_out
        if any(used[n:]):
            return [True] * len(equation.operands), equation
        call = equation.replace(
            primitive=closed_call_p,
            params=ClosedCallParams(equation.params.fun_jaxpr),
            results=equation.results[:n],
        )
        return closed_call_p.dead_code(used[:n], call)


remat_opt_p = RematOpt()


def optimized(
    forward: Callable[..., Sequence[Any]],
    function: Callable[..., Sequence[Any]],
    operands: Operands,
    name: str,
) -> Values:
    """Results and residuals of `forward`, in whose place `function` runs where no residual is needed.

    Both are functions of flat values; the results of `function` are the first of those of `forward`.
    """
    avals, debug = types_of(operands), DebugInfo(name)
    fun, fun_consts = stage_open(function, avals, debug)
    fwd, fwd_consts = stage_open(forward, avals, debug)
    (fwd, fun), consts = with_common_consts([fwd, fun], [fwd_consts, fun_consts])
    params = RematOptParams(fwd, fun, len(fun.out_avals))
    return bind(remat_opt_p, *consts, *operands, params=params)
