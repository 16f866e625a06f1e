"""`linear_call`: a linear function whose transpose the user defines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pellucid.base.errors import DerivativeRuleError
from pellucid.base.functional import strict_zip
from pellucid.higher_order.bodies import body_of, differing_types
from pellucid.higher_order.calls import ClosedCallParams, closed_call_p
from pellucid.higher_order.custom_rules import CustomCall
from pellucid.higher_order.structured import with_common_consts, with_common_inputs
from pellucid.ir.jaxpr import ClosedJaxpr
from pellucid.ir.rules import Results, Zero, is_linear
from pellucid.primitives.broadcasting import brought_to
from pellucid.tracing.function import name_of
from pellucid.tracing.trace import bind, type_of, types_of
from pellucid.transforms.arguments import check_callable, checked_leaves
from pellucid.transforms.vmap import batch_jaxpr
from pellucid.transforms.zeros import add_tangents, cotangents_of, instantiate, nonzero_mask
from pellucid.xla.pytree import flatten, treedef_tuple


class LinearCallParams(NamedTuple):
    """`callee` maps (residuals, linear operands) to results, `transpose` (residuals, cotangents) to cotangents.

    Neither has constants; what the functions close over are the first of the `num_res` residuals.
    """

    callee: ClosedJaxpr
    transpose: ClosedJaxpr
    num_res: int


class LinearCall(CustomCall[LinearCallParams]):
    """A call that is linear in the operands behind the residuals."""

    name = "linear_call"
    program_field = "callee"

    def with_slots(self, params, slots):
        added = slots.operands[0].size - len(params.callee.in_avals)
        callee = slots.programs[0].program
        transpose = with_common_inputs(params.transpose, (), callee.in_avals[:added])
        return LinearCallParams(callee, transpose, params.num_res + added)

    def jvp(self, primals, tangents, params):
        n = params.num_res
        residual_tangents, linear_tangents = tangents[:n], tangents[n:]
        out: Results = [Zero(a.tangent()) for a in params.callee.out_avals]
        if any(nonzero_mask(linear_tangents)):
            out = bind(self, *primals[:n], *map(instantiate, linear_tangents), params=params)
        if not any(nonzero_mask(residual_tangents)):
            return bind(self, *primals, params=params), out
        constant = [Zero(t.aval if type(t) is Zero else type_of(t)) for t in linear_tangents]
        results, by_residuals = closed_call_p.jvp(
            primals, (*residual_tangents, *constant), ClosedCallParams(params.callee)
        )
        return results, [add_tangents(a, b) for a, b in strict_zip(out, by_residuals)]

    def transpose(self, cotangents, operands, params):
        n = params.num_res
        linear = [x.aval.text() for x in operands[:n] if is_linear(x)]
        if linear:
            raise DerivativeRuleError(
                "linear_call is linear in its linear arguments only, not in its residuals.",
                got=", ".join(linear),
            )
        transposed = LinearCallParams(params.transpose, params.callee, n)
        cts = bind(self, *operands[:n], *map(instantiate, cotangents), params=transposed)
        linear_cts = [ct for x, ct in strict_zip(operands[n:], cts) if is_linear(x)]
        return cotangents_of(operands, linear_cts, [True] * len(linear_cts))

    def batch(self, axis, operands, dims, params):
        n, n_results = params.num_res, len(params.callee.out_avals)
        linear = [brought_to(axis, x, d, 0) for x, d in strict_zip(operands[n:], dims[n:])]
        derived = [
            batch_jaxpr(program.jaxpr, axis, [*dims[:n], *[0] * size], True)
            for program, size in ((params.callee, len(linear)), (params.transpose, n_results))
        ]
        (callee, transpose), consts = with_common_consts(
            [d.program for d in derived], [d.consts for d in derived]
        )
        batched = LinearCallParams(callee, transpose, len(consts) + n)
        return bind(self, *consts, *operands[:n], *linear, params=batched), [0] * n_results


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
        [*residuals, *operands], "linear_call", fun, (residual_args, linear_args)
    )
    avals = types_of(leaves)
    n = len(residuals)
    callee, consts, out_tree = body_of(
        fun, treedef_tuple([residual_tree, linear_tree]), avals, "linear_call"
    )
    cotangent_avals = [a.tangent() for a in callee.out_avals]
    transpose = body_of(
        fun_transpose,
        treedef_tuple([residual_tree, out_tree]),
        [*avals[:n], *cotangent_avals],
        "linear_call",
    )
    linear_avals, ct_avals = avals[n:], transpose.out_avals
    if transpose.out_tree != linear_tree or differing_types(linear_avals, ct_avals):
        raise DerivativeRuleError(
            f"linear_call: `{name_of(fun_transpose)}` must return cotangents of the linear arguments.",
            got=[
                f"linear_args: {linear_tree.unflatten([a.text() for a in linear_avals])}",
                f"returned: {transpose.out_tree.unflatten([a.text() for a in ct_avals])}",
            ],
        )
    (program, transposed), common = with_common_consts(
        [callee, transpose.program], [consts, transpose.consts]
    )
    params = LinearCallParams(program, transposed, len(common) + n)
    return out_tree.unflatten(bind(linear_call_p, *common, *leaves, params=params))
