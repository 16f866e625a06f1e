"""`remat_opt`: a forward function that becomes the function itself where no residual is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pellucid._machine.ir import ClosedJaxpr, DebugInfo, Operands, Results, Values
from pellucid._machine.tracing import bind, types_of
from pellucid._machine.transforms import batch_jaxpr, stage_open

from .calls import ClosedCallParams, Defined, closed_call_p
from .structured import with_common_consts


class RematOptParams(NamedTuple):
    """`fwd_jaxpr` returns results and residuals, `fun_jaxpr` only the results, the first `num_out`."""

    fwd_jaxpr: ClosedJaxpr
    fun_jaxpr: ClosedJaxpr
    num_out: int

    def as_call(self) -> ClosedCallParams:
        """Params of a call of the forward pass."""
        return ClosedCallParams(self.fwd_jaxpr)


class RematOpt(Defined[RematOptParams]):
    """A call of the forward pass, or of the function if the residuals turn out to be dead."""

    name = "remat_opt"
    definition = closed_call_p

    def called(self, params):
        return None

    def batch(self, axis, operands, dims, params):
        n = params.num_out
        forward = batch_jaxpr(params.fwd_jaxpr.jaxpr, axis, dims)
        # `forward.mask` has an entry per result, then per residual; both programs must agree on the results.
        batched_results = [d is not None for d in forward.mask[:n]]
        function = batch_jaxpr(params.fun_jaxpr.jaxpr, axis, dims, batched_results)
        if function.mask != forward.mask[:n]:  # the forward pass forgets the batch
            return super().batch(axis, operands, dims, params)
        (fwd, fun), consts = with_common_consts([forward, function])
        results = bind(self, *consts, *operands, params=RematOptParams(fwd, fun, n))
        return results, forward.mask

    def dead_code(self, used, equation):
        n = equation.params.num_out
        # A residual is used: keep the forward pass.
        if any(used[n:]):
            return [True] * len(equation.operands), equation
        call = equation.replace(
            primitive=closed_call_p,
            params=ClosedCallParams(equation.params.fun_jaxpr),
            results=equation.results[:n],
        )
        return closed_call_p.dead_code(used[:n], call)


remat_opt_p = RematOpt()


def optimized_results(
    forward: Callable[..., Results],
    function: Callable[..., Results],
    operands: Operands,
    name: str,
) -> Values:
    """Results and residuals of `forward`; `function` runs instead if no residual is needed.

    Both are functions of flat values; the results of `function` are the first ones of `forward`.
    """
    avals, debug = types_of(operands), DebugInfo("optimize_remat", name)
    opened = [stage_open(f, avals, debug) for f in (function, forward)]
    # Both programs take the values that either closes over, without duplicates, then the operands.
    (fwd, fun), consts = with_common_consts(opened[::-1])
    params = RematOptParams(fwd, fun, len(fun.out_avals))
    return bind(remat_opt_p, *consts, *operands, params=params)
