"""The forward pass of a `custom_vjp` function that becomes the function itself where no residual is wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pellucid.higher_order.calls import Call, ClosedCallParams, closed_call_p
from pellucid.ir.facets import Shown
from pellucid.ir.jaxpr import ClosedJaxpr, DebugInfo, Equation
from pellucid.ir.rules import BatchAxis, BatchDim, Operands
from pellucid.tracing.trace import bind
from pellucid.tracing.values import type_of
from pellucid.transforms.derived import stage_open
from pellucid.transforms.vmap import batch_jaxpr


class RematOptParams(NamedTuple):
    """`fwd_jaxpr` gives results and residuals, `fun_jaxpr` the first `num_out` of these results alone.

    The first `num_consts_fun` operands belong to the function alone, the next `num_consts_fwd` to the forward pass.
    """

    fwd_jaxpr: ClosedJaxpr
    fun_jaxpr: ClosedJaxpr
    num_consts_fun: int
    num_consts_fwd: int
    num_out: int

    @property
    def jaxpr(self) -> ClosedJaxpr:
        """The program that is called."""
        return self.fwd_jaxpr

    def of_forward(self, values: Operands) -> list[Any]:
        """Those of things given for each operand that the forward pass takes."""
        return list(values[self.num_consts_fun :])

    def of_function(self, values: Operands) -> list[Any]:
        """Those of things given for each operand that the function takes."""
        n = self.num_consts_fun
        return [*values[:n], *values[n + self.num_consts_fwd :]]


class RematOpt(Shown, Call[RematOptParams]):
    """A call of the forward pass; when residuals turn out to be dead, of the function."""

    name = "remat_opt"

    def called(self, params):
        return None

    def jvp(self, primals, tangents, params):
        return closed_call_p.jvp(
            tuple(params.of_forward(primals)), tuple(params.of_forward(tangents)),
            ClosedCallParams(params.fwd_jaxpr),
        )  # fmt: skip

    def linearize(self, trace, primals, tangents, params):
        return closed_call_p.linearize(
            trace, tuple(params.of_forward(primals)), tuple(params.of_forward(tangents)),
            ClosedCallParams(params.fwd_jaxpr),
        )  # fmt: skip

    def batch(self, axis, operands, dims, params):
        forward, more, out_dims = batch_jaxpr(params.fwd_jaxpr.jaxpr, axis, params.of_forward(dims))
        want = [d is not None for d in out_dims[: params.num_out]]
        function, others, found = batch_jaxpr(
            params.fun_jaxpr.jaxpr, axis, params.of_function(dims), want
        )
        if list(found) != list(out_dims[: params.num_out]):  # the forward pass forgets the batch
            results = bind(
                closed_call_p, *more, *params.of_forward(operands), params=ClosedCallParams(forward)
            )
            return results, out_dims
        n, m = params.num_consts_fun, params.num_consts_fwd
        new = RematOptParams(forward, function, len(others) + n, len(more) + m, params.num_out)
        given = [*others, *operands[:n], *more, *operands[n:]]
        return bind(self, *given, params=new), out_dims

    def lower(self, ctx, operands, params):
        return ctx.inline(params.fwd_jaxpr.jaxpr, (), params.of_forward(operands))

    def dead_code(self, used, equation):
        params: RematOptParams = equation.params
        n = params.num_out
        if any(used[n:]):
            return [True] * len(equation.operands), equation
        call = equation.replace(
            primitive=closed_call_p, params=ClosedCallParams(params.fun_jaxpr),
            operands=params.of_function(equation.operands), results=equation.results[:n],
        )  # fmt: skip
        needed, remaining = closed_call_p.dead_code(used[:n], call)
        positions = params.of_function(range(len(equation.operands)))
        kept = {i for i, u in zip(positions, needed, strict=True) if u}
        return [i in kept for i in range(len(equation.operands))], remaining

    def printed_params(self, equation):
        return equation.params._asdict()


remat_opt_p = RematOpt()


def optimized(
    forward: Callable[..., Sequence[Any]],
    function: Callable[..., Sequence[Any]],
    operands: Operands,
    name: str,
) -> list[Any]:
    """Results and residuals of `forward`, in whose place `function` runs where no residual is wanted.

    Both are functions of flat values; the results of `function` are the first of those of `forward`.
    """
    avals = [type_of(x) for x in operands]
    fun, fun_consts = stage_open(function, avals, DebugInfo(name))
    fwd, fwd_consts = stage_open(forward, avals, DebugInfo(name))
    n_out = len(fun.out_avals)
    params = RematOptParams(fwd, fun, len(fun_consts), len(fwd_consts), n_out)
    return bind(remat_opt_p, *fun_consts, *fwd_consts, *operands, params=params)
