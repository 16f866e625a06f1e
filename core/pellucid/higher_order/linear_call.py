"""`linear_call`: a linear function whose transpose the user defines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pellucid.base.errors import DerivativeRuleError
from pellucid.higher_order.bodies import differing_types, types_of
from pellucid.higher_order.calls import Call, ClosedCallParams, closed_call_p
from pellucid.higher_order.cond import with_common_consts
from pellucid.ir.facets import Shown
from pellucid.ir.jaxpr import ClosedJaxpr, DebugInfo, Equation
from pellucid.ir.rules import BatchAxis, BatchDim, LinearOperand, Operands, Zero
from pellucid.primitives.broadcasting import brought_to
from pellucid.tracing.function import name_of
from pellucid.tracing.trace import bind
from pellucid.tracing.values import type_of
from pellucid.transforms.arguments import check_callable, checked_leaves, result_leaves
from pellucid.transforms.derived import stage_open
from pellucid.transforms.vmap import batch_jaxpr
from pellucid.transforms.zeros import add_tangents, instantiate
from pellucid.xla.pytree import flatten, treedef_tuple


class LinearCallParams(NamedTuple):
    """`callee` maps (residuals, linear operands) to results, `transpose` (residuals, cotangents) to cotangents.

    Neither has constants; what the functions close over are the first of the `num_res` residuals.
    """

    callee: ClosedJaxpr
    transpose: ClosedJaxpr
    num_res: int

    @property
    def jaxpr(self) -> ClosedJaxpr:
        """The program that is called."""
        return self.callee

    def transposed(self) -> LinearCallParams:
        """Params of the transposed call."""
        return LinearCallParams(self.transpose, self.callee, self.num_res)


class LinearCall(Shown, Call[LinearCallParams]):
    """A call that is linear in the operands behind the residuals."""

    name = "linear_call"
    is_linearized = False

    def called(self, params):
        return None

    def jvp(self, primals, tangents, params):
        n = params.num_res
        residuals, tangents_of_linear = tangents[:n], tangents[n:]
        out: Operands = [Zero(a.tangent()) for a in params.callee.out_avals]
        if any(type(t) is not Zero for t in tangents_of_linear):
            out = bind(self, *primals[:n], *map(instantiate, tangents_of_linear), params=params)
        if all(type(t) is Zero for t in residuals):
            return bind(self, *primals, params=params), out
        fixed = [Zero(t.aval) if type(t) is Zero else Zero(type_of(t)) for t in tangents_of_linear]
        results, by_residuals = closed_call_p.jvp(
            primals, (*residuals, *fixed), ClosedCallParams(params.callee)
        )
        return results, [add_tangents(a, b) for a, b in zip(out, by_residuals, strict=True)]

    def transpose(self, cotangents, operands, params):
        n = params.num_res
        if any(type(x) is LinearOperand for x in operands[:n]):
            raise DerivativeRuleError(
                "linear_call is linear in its linear arguments only, not in its residuals.",
                got=", ".join(x.aval.text() for x in operands[:n] if type(x) is LinearOperand),
            )
        given = [instantiate(ct) for ct in cotangents]
        found = bind(self, *operands[:n], *given, params=params.transposed())
        return [
            *[None] * n,
            *(
                ct if type(x) is LinearOperand else None
                for x, ct in zip(operands[n:], found, strict=True)
            ),
        ]

    def batch(self, axis, operands, dims, params):
        n = params.num_res
        given = [brought_to(axis, x, d, 0) for x, d in zip(operands[n:], dims[n:], strict=True)]
        n_results = len(params.callee.out_avals)
        callee, more, _ = batch_jaxpr(
            params.callee.jaxpr, axis, [*dims[:n], *[0] * len(given)], True
        )
        transpose, others, _ = batch_jaxpr(
            params.transpose.jaxpr, axis, [*dims[:n], *[0] * n_results], True
        )
        (callee, transpose), consts = with_common_consts([callee, transpose], [more, others])
        batched = LinearCallParams(callee, transpose, len(consts) + n)
        return bind(self, *consts, *operands[:n], *given, params=batched), [0] * n_results

    def dead_code(self, used, equation):
        remaining = equation if any(used) or equation.effects else None
        return [remaining is not None] * len(equation.operands), remaining

    def printed_params(self, equation):
        params = equation.params
        return {"callee": params.callee, "num_res": params.num_res, "transpose": params.transpose}


linear_call_p = LinearCall()


def linear_call(
    fun: Callable[[Any, Any], Any],
    fun_transpose: Callable[[Any, Any], Any],
    residual_args: Any,
    linear_args: Any,
) -> Any:
    """`fun(residual_args, linear_args)`, which is linear in the latter, with a transpose that you define.

    `fun_transpose(residual_args, cotangent)` maps a cotangent of the result, of its structure and types, to one of
    `linear_args`. Derivatives by the residuals are those of `fun`.

    Raises: DerivativeRuleError unless the transpose gives the structure and types of `linear_args`.

    >>> from pellucid import grad
    >>> scaled = lambda r, x: x * r
    >>> grad(lambda x: linear_call(scaled, lambda r, ct: 10.0 * ct * r, 3.0, x))(1.0)
    Array(30., dtype=float32, weak_type=True)
    """
    check_callable(fun, "linear_call")
    check_callable(fun_transpose, "linear_call")
    residuals, residual_tree = flatten(residual_args)
    operands, linear_tree = flatten(linear_args)
    leaves = checked_leaves(
        [*residuals, *operands], "linear_call", fun, (residual_args, linear_args), {}
    )
    avals = types_of(leaves)
    n = len(residuals)
    trees: list[Any] = []

    def forward(*xs: Any) -> list[Any]:
        args = treedef_tuple([residual_tree, linear_tree]).unflatten(xs)
        results, tree = result_leaves(fun(*args), "linear_call", fun)
        trees.append(tree)
        return results

    callee, consts = stage_open(forward, avals, DebugInfo(name_of(fun)))
    [out_tree] = trees

    def backward(*xs: Any) -> list[Any]:
        args = treedef_tuple([residual_tree, out_tree]).unflatten(xs)
        results, tree = result_leaves(fun_transpose(*args), "linear_call", fun_transpose)
        found = types_of(results)
        if tree != linear_tree or differing_types(avals[n:], found):
            raise DerivativeRuleError(
                f"linear_call: `{name_of(fun_transpose)}` must return cotangents of the linear arguments.",
                got=[
                    f"linear_args: {linear_tree.unflatten([a.text() for a in avals[n:]])}",
                    f"returned: {tree.unflatten([a.text() for a in found])}",
                ],
            )
        return results

    cotangent_avals = [a.tangent() for a in callee.out_avals]
    transpose, others = stage_open(
        backward, [*avals[:n], *cotangent_avals], DebugInfo(name_of(fun_transpose))
    )
    (callee, transpose), common = with_common_consts([callee, transpose], [consts, others])
    params = LinearCallParams(callee, transpose, len(common) + n)
    return out_tree.unflatten(bind(linear_call_p, *common, *leaves, params=params))
