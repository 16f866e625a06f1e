"""`custom_jvp`: a function whose forward derivative the user defines.

A call meets each trace through `Trace.custom_call`. Evaluated at once, the Python function runs; when it is
differentiated, the user's rule runs instead; only a staging trace makes an equation of it, which keeps the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, NamedTuple

from pellucid.base import (
    ArgumentTypeError,
    DerivativeRuleError,
    Function,
    dtypes,
    shown_path,
    strict_zip,
    tree_map,
)
from pellucid.ir import (
    Avals,
    BatchAxis,
    BatchDim,
    ClosedJaxpr,
    DebugInfo,
    Dims,
    Operands,
    Values,
    Zero,
)
from pellucid.primitives.conversion import stop_gradient
from pellucid.tracing import Tracer, context, name_of, type_of, types_of
from pellucid.transforms.arguments import check_callable, structure_lines
from pellucid.transforms.derived import stage_open
from pellucid.transforms.transpose import backward_pass
from pellucid.transforms.vmap import batch_flat
from pellucid.transforms.zeros import add_tangents, instantiate, nonzero
from pellucid.xla.pytree import flatten, flatten_with_path

from .custom_rules import (
    CustomFunction,
    DerivativeCall,
    FlatCall,
    ResultPlaces,
    SymbolicZero,
    as_pair,
    as_rule_argument,
    batch_with_zeros,
    calling,
    debug_of,
    refuse_captured,
)

PrimalsAndTangents = tuple[list[Any], list[Any]]


class CustomJvpCall(NamedTuple):
    """A function of flat values and its derivative: `rule(primals, tangents)` gives (results, tangents).

    Tangents may be `Zero` on both sides.
    """

    name: str
    function: Callable[..., Sequence[Any]]
    rule: Callable[[Operands, Operands], PrimalsAndTangents]
    rule_name: str
    symbolic_zeros: bool
    debug: DebugInfo
    has_forward_mode: bool = True

    def bind(self, operands: Operands) -> Values:
        """Results under the current trace."""
        return context.trace.custom_call(self, operands)

    def staged(self, trace: Any, operands: Operands) -> Values:
        """Results of an equation of `trace` that calls this."""
        program, consts = stage_open(self.function, types_of(operands), self.debug)
        params = CustomJvpParams(
            program, self.rule, self.rule_name, self.name, len(consts), self.symbolic_zeros
        )
        return trace.interpret(custom_jvp_call_p, (*consts, *operands), params)

    def batched(
        self, axis: BatchAxis, dims: Dims, tag: object = None
    ) -> tuple[CustomJvpCall, list[BatchDim]]:
        """The call on whole batches; the list gets the batch axes of its results when it has run.

        `tag` is that of the BatchTrace whose values the function and its rule may capture.
        """
        places = ResultPlaces(self.name, axis, dims)

        def function(*operands):
            return places.place(*batch_flat(self.function, axis, operands, dims, tag))

        def rule(primals: Operands, tangents: Operands) -> PrimalsAndTangents:
            def run(*values):
                results, out_tangents = self.rule(values[: len(primals)], values[len(primals) :])
                return [*results, *out_tangents]

            operands, operand_dims = (*primals, *tangents), (*dims, *dims)
            values, value_dims = batch_with_zeros(run, axis, operands, operand_dims, tag)
            n = len(values) // 2
            results = places.place(values[:n], value_dims[:n], value_dims[n:])
            out_tangents = places.moved(values[n:], value_dims[n:])
            return results, [
                Zero(type_of(y).tangent()) if type(t) is Zero else t
                for y, t in strict_zip(results, out_tangents)
            ]

        return self._replace(function=function, rule=rule), places.dims


class CustomJvpParams(NamedTuple):
    """`call_jaxpr` has no constants: its first `num_consts` inputs are what the function closes over."""

    call_jaxpr: ClosedJaxpr
    jvp: Function
    jvp_name: str
    name: str
    num_consts: int
    symbolic_zeros: bool


class CustomJvpCallPrimitive(DerivativeCall[CustomJvpParams]):
    """A staged call of a `custom_jvp` function."""

    name = "custom_jvp_call"

    def call_of(self, params: CustomJvpParams) -> CustomJvpCall:
        n, jaxpr = params.num_consts, params.call_jaxpr.jaxpr

        def rule(primals: Operands, tangents: Operands) -> PrimalsAndTangents:
            refuse_captured(params.name, nonzero(tangents[:n]))
            return params.jvp(primals[n:], tangents[n:])

        return CustomJvpCall(
            params.name, calling(jaxpr), rule, params.jvp_name, params.symbolic_zeros, debug_of(jaxpr)
        )  # fmt: skip

    def transpose(self, cotangents, operands, params):
        return backward_pass(params.call_jaxpr.jaxpr, (), cotangents, operands)

    def restricted(self, params: CustomJvpParams, used) -> CustomJvpParams:
        def rule(primals: Operands, tangents: Operands) -> PrimalsAndTangents:
            results, out_tangents = params.jvp(primals, tangents)
            return list(compress(results, used)), list(compress(out_tangents, used))

        return params._replace(jvp=rule)


custom_jvp_call_p = CustomJvpCallPrimitive()

# The class users see -------------------------------------------------------------------------------------


class custom_jvp(CustomFunction):
    """Decorator for a function whose forward derivative you define with `defjvp` or `defjvps`.

    The rule gets tuples of primals and tangents and gives (result, tangent of the result). Arguments at
    `nondiff_argnums` (or `nondiff_argnames`) are not differentiated: the rule gets them first, as they are.

    Raises: DerivativeRuleError for a call without a rule, and for a rule whose result or tangent has another structure,
    shape or dtype than the function's result.

    >>> from pellucid import jvp
    >>> @custom_jvp
    ... def f(x):
    ...     return x * x
    >>> @f.defjvp
    ... def f_jvp(primals, tangents):
    ...     return f(*primals), 10.0 * tangents[0]
    >>> jvp(f, (3.0,), (1.0,))
    (9.0, 10.0)
    """

    definitions = "defjvp or defjvps"
    jvp: Function | None = None

    def defjvp(self, jvp: Function, symbolic_zeros: bool = False) -> Function:
        """Define the derivative: `jvp(primals, tangents)` gives (result, tangent).

        With `symbolic_zeros`, tangents known to be zero are `SymbolicZero`s instead of arrays.
        """
        check_callable(jvp, "defjvp")
        self.jvp, self.is_defined = jvp, True
        self.symbolic_zeros = symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Function | None) -> None:
        """Define the derivative one argument at a time: `jvps[i](tangent, result, *primals)`, or None for zero."""
        if self.nondiff_argnums:
            raise ArgumentTypeError("defjvps can't be used with nondiff_argnums.", do="Use defjvp.")

        def rule(primals, tangents):
            result = self(*primals)
            leaves, tree = flatten(result)
            total: Values = [Zero(type_of(x).tangent()) for x in leaves]
            for t, jvp in strict_zip(tangents, jvps):
                if jvp is not None:
                    terms = tree.flatten_up_to(jvp(t, result, *primals))
                    total = [add_tangents(a, b) for a, b in strict_zip(total, terms)]
            return result, tree.unflatten([instantiate(t) for t in total])

        self.defjvp(rule)

    def _bound(self, call):
        call.others = tree_map(
            lambda x: stop_gradient(x) if isinstance(x, Tracer) else x, call.others
        )
        return CustomJvpCall(
            call.name, call.function, lambda *args: self._differentiated(call, *args), name_of(self.jvp),  # pyright: ignore[reportArgumentType]
            self.symbolic_zeros, DebugInfo(call.name),
        )  # fmt: skip

    def _differentiated(
        self, call: FlatCall, primals: Operands, tangents: Operands
    ) -> PrimalsAndTangents:
        """Flat results and tangents of the user's rule."""
        arguments = [as_rule_argument(t, self.symbolic_zeros) for t in tangents]
        trees = [call.in_tree.unflatten(leaves) for leaves in (primals, arguments)]
        rule = call.rule_name("jvp", self.jvp)
        pair = self.jvp(*call.others, *trees)  # pyright: ignore[reportOptionalCall]
        result, tangent = as_pair(pair, rule, "result, tangent")
        results = call.rule_results(rule, result)
        return results, _checked_tangents(rule, tangent, call.out_tree, types_of(results))


def _checked_tangents(rule: str, tangent, tree, avals: Avals) -> Values:
    """Leaves of a tangent that a rule returned; raises DerivativeRuleError where it doesn't fit the result."""
    pairs, tangent_tree = flatten_with_path(tangent, lambda path, x: isinstance(x, SymbolicZero))
    if tangent_tree != tree:
        raise DerivativeRuleError(
            f"{rule} returned a tangent of another structure than the result.",
            got=structure_lines("tangent", tree, tangent_tree),
        )
    checked: Values = []
    for (path, t), aval in strict_zip(pairs, avals):
        expected, tangent_aval = aval.tangent(), type_of(t)
        if tangent_aval.shape != expected.shape or tangent_aval.dtype != expected.dtype:
            raise DerivativeRuleError(
                f"{rule} returned a tangent of another type than the result.",
                got=f"{shown_path('tangent', path)}: got {tangent_aval.text()}, expected {expected.text()}",
            )
        is_zero = isinstance(t, SymbolicZero) or expected.dtype == dtypes.float0
        checked.append(Zero(expected) if is_zero else t)
    return checked
