"""`custom_jvp`: functions with user-defined forward derivatives.

Traces interpret a call through `Trace.custom_call`. Evaluated eagerly, the Python function runs; differentiated, the
user's rule runs instead; only a staging trace makes an equation of it, which keeps the rule.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress
from typing import Any, NamedTuple

from pellucid._machine.base import (
    ArgumentTypeError,
    DerivativeRuleError,
    Function,
    dtypes,
    leaf_paths,
    shown_path,
    strict_zip,
    tree_map,
)
from pellucid._machine.ir import (
    Avals,
    BatchAxis,
    BatchDim,
    ClosedJaxpr,
    DebugInfo,
    Dims,
    Operands,
    Results,
    Values,
    Zero,
)
from pellucid._machine.primitives import add_tangents, instantiate, stop_gradient, zero_of
from pellucid._machine.tracing import Captured, Tracer, context, name_of, type_of, types_of
from pellucid._machine.transforms import (
    backward_pass,
    batch_flat,
    check_callable,
    nonzero,
    nonzero_mask,
    stage_open,
    structure_lines,
)
from pellucid._machine.xla import flatten, flatten_tangents, unflatten_tangents

from .custom_rules import (
    CustomFunction,
    DerivativeCall,
    FlatCall,
    ResultPlaces,
    SymbolicZero,
    UserRule,
    as_pair,
    as_rule_argument,
    batch_with_zeros,
    call_rule,
    calling,
    refuse_captured_tangents,
    refuse_tangents,
)

PrimalsAndTangents = tuple[list[Any], list[Any]]


class CustomJvpCall(NamedTuple):
    """A function of flat values with its derivative: `rule(primals, tangents)` returns (results, tangents).

    Input and output tangents may be `Zero`.
    """

    name: str
    function: Callable[..., Results]
    rule: Callable[[Operands, Operands], PrimalsAndTangents]
    rule_name: str
    symbolic_zeros: bool
    has_forward_mode: bool = True

    def with_captured_values(self, captured: Captured) -> CustomJvpCall:
        """The call with the values captured by the rule as additional leading operands.

        The rule has no derivatives for these: results must not depend on them, unless the function uses them, too.
        """
        function = captured.in_function(self.function)

        def rule(primals: Operands, tangents: Operands) -> PrimalsAndTangents:
            # Both lists have an entry per captured value, then one per operand of the user's function.
            (values, rest), (of_captured, own) = map(captured.split, (primals, tangents))
            refuse_tangents(captured, function, primals, nonzero_mask(of_captured))
            # Only captured values have a tangent.
            if not any(nonzero_mask(own)):
                results = context.trace.custom_call(converted, primals)
                return results, [*map(zero_of, results)]
            return captured.run(self.rule, values, rest, own)

        converted = self._replace(function=function, rule=rule)
        return converted

    def stage(self, trace: Any, operands: Operands) -> Values:
        """Stages an equation that calls this into `trace`, and returns its results."""
        debug = DebugInfo("custom_jvp fun", self.name)
        program, consts = stage_open(self.function, types_of(operands), debug)
        # Values that the function closes over are the leading operands; `num_consts` is their number.
        params = CustomJvpParams(
            program, self.rule, self.rule_name, self.name, len(consts), self.symbolic_zeros
        )
        return trace.interpret(custom_jvp_call_p, (*consts, *operands), params)

    def call_on_batches(
        self, axis: BatchAxis, dims: Dims, tag: object = None
    ) -> tuple[CustomJvpCall, list[BatchDim]]:
        """(the call on whole batches, list that receives the batch axes of its results when it runs).

        `tag` is that of the BatchTrace whose values the function and its rule may capture.
        """
        places = ResultPlaces(self.name, axis, dims, tag)

        def function(*operands):
            return places.place(*batch_flat(self.function, axis, operands, dims, tag))

        rule = UserRule(
            _BatchedJvp.results_and_tangents, _BatchedJvp(self.rule, axis, tuple(dims), places)
        )
        return self._replace(function=function, rule=rule), places.dims


class _BatchedJvp(NamedTuple):
    """The rule of a call on whole batches, from that of the call on one element."""

    rule: Callable[[Operands, Operands], PrimalsAndTangents]
    axis: BatchAxis
    dims: Dims
    places: ResultPlaces

    def results_and_tangents(self, primals: Operands, tangents: Operands) -> PrimalsAndTangents:
        """Results and their tangents, with the same batch axes."""

        def run(*values):
            results, out_tangents = self.rule(values[: len(primals)], values[len(primals) :])
            return [*results, *out_tangents]

        # A tangent has the batch axis of its primal.
        operands, operand_dims = (*primals, *tangents), (*self.dims, *self.dims)
        values, value_dims = batch_with_zeros(
            run, self.axis, operands, operand_dims, self.places.tag
        )
        n = len(values) // 2  # results, then as many tangents
        # Results get a batch axis if they or their tangents have one; tangents get the same axis.
        results = self.places.place(values[:n], value_dims[:n], value_dims[n:])
        out_tangents = self.places.move_batch_axes(values[n:], value_dims[n:])
        return results, [
            zero_of(y) if type(t) is Zero else t for y, t in strict_zip(results, out_tangents)
        ]


class CustomJvpParams(NamedTuple):
    """`call_jaxpr` has no constants: its first `num_consts` inputs are values that the function closes over."""

    call_jaxpr: ClosedJaxpr
    jvp: Function
    jvp_name: str
    name: str
    num_consts: int
    symbolic_zeros: bool


class CustomJvpCallPrimitive(DerivativeCall[CustomJvpParams]):
    """A staged call of a `custom_jvp` function."""

    name = "custom_jvp_call"
    rule_params = ("jvp",)

    def call_of(self, params: CustomJvpParams) -> CustomJvpCall:
        n, name, jvp, jaxpr = params.num_consts, params.name, params.jvp, params.call_jaxpr.jaxpr

        def rule(primals: Operands, tangents: Operands) -> PrimalsAndTangents:
            # The first `n` operands are closed over: the rule only handles the others.
            refuse_captured_tangents(name, nonzero(tangents[:n]))
            return jvp(primals[n:], tangents[n:])

        return CustomJvpCall(
            name, calling(jaxpr), rule if n else jvp, params.jvp_name, params.symbolic_zeros
        )  # fmt: skip

    def call_of_functions(self, fun, jvp, symbolic_zeros: bool = False) -> CustomJvpCall:
        def rule(primals: Operands, tangents: Operands) -> PrimalsAndTangents:
            arguments = [as_rule_argument(t, symbolic_zeros) for t in tangents]
            # The rule returns results, then as many tangents.
            values = jvp.call_wrapped(*primals, *arguments)
            n = len(values) // 2
            out_tangents = [
                Zero(type_of(x).tangent()) if isinstance(t, SymbolicZero) else t
                for x, t in strict_zip(values[:n], values[n:])
            ]
            return list(values[:n]), out_tangents

        return CustomJvpCall(self.name, fun.call_wrapped, rule, "jvp", symbolic_zeros)

    def transpose(self, cotangents, operands, params):
        return backward_pass(params.call_jaxpr.jaxpr, (), cotangents, operands)

    def restrict(self, params: CustomJvpParams, used) -> CustomJvpParams:
        def rule(primals: Operands, tangents: Operands) -> PrimalsAndTangents:
            # Both lists have one entry per result; unused ones are dropped.
            results, out_tangents = params.jvp(primals, tangents)
            return list(compress(results, used)), list(compress(out_tangents, used))

        return params._replace(jvp=rule)


custom_jvp_call_p = CustomJvpCallPrimitive()

# The class users see -------------------------------------------------------------------------------------


class custom_jvp(CustomFunction):
    """Decorator for a function whose forward derivative is defined with `defjvp` or `defjvps`.

    The rule is called with tuples of primals and tangents, and returns (result, tangent of the result). Arguments at
    `nondiff_argnums` (or `nondiff_argnames`) are not differentiated, and are the rule's first arguments.

    Raises: DerivativeRuleError for a call without a rule, and for a rule whose result or tangent has another structure,
    shape or dtype than the function's result.

    >>> from pellucid import jvp
    >>> @custom_jvp
    ... def f(x):
    ...     return x * x
    >>> @f.defjvp
    ... def f_jvp(primals, tangents):
    ...     return f(*primals), 10.0 * tangents[0]
    >>> value, tangent = jvp(f, (3.0,), (1.0,))
    >>> float(value), float(tangent)
    (9.0, 10.0)
    """

    definitions = "defjvp or defjvps"
    jvp: Function | None = None

    def defjvp(self, jvp: Function, symbolic_zeros: bool = False) -> Function:
        """Defines the derivative: `jvp(primals, tangents)` returns (result, tangent).

        With `symbolic_zeros`, tangents known to be zero are `SymbolicZero`s instead of arrays.
        """
        check_callable(jvp, "defjvp")
        self.jvp, self.is_defined = jvp, True
        self.symbolic_zeros = symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Function | None) -> None:
        """Defines the derivative for each argument separately: `jvps[i](tangent, result, *primals)`, or None for zero."""
        if self.nondiff_argnums:
            raise ArgumentTypeError("defjvps can't be used with nondiff_argnums.", do="Use defjvp.")

        def rule(primals, tangents):
            result = self(*primals)
            leaves, tree = flatten(result)
            # One sum over the arguments for each leaf of the result.
            total: Values = [*map(zero_of, leaves)]
            for t, jvp in strict_zip(tangents, jvps):
                if jvp is not None:
                    terms = tree.flatten_up_to(jvp(t, result, *primals))
                    total = [add_tangents(a, b) for a, b in strict_zip(total, terms)]
            return result, tree.unflatten([instantiate(t) for t in total])

        self.defjvp(rule)

    def _rules(self):
        return (self.jvp,)

    def _bound_call(self, call):
        call.others = tree_map(
            lambda x: stop_gradient(x) if isinstance(x, Tracer) else x, call.others
        )
        return CustomJvpCall(
            call.name, call.function, UserRule(custom_jvp._differentiate, call), name_of(self.jvp),  # pyright: ignore[reportArgumentType]
            self.symbolic_zeros,
        )  # fmt: skip

    @staticmethod
    def _differentiate(call: FlatCall, primals: Operands, tangents: Operands) -> PrimalsAndTangents:
        """Flat results and tangents of the user's rule."""
        self: Any = call.custom
        arguments = [as_rule_argument(t, self.symbolic_zeros) for t in tangents]
        tree, rule = call.in_tree, call.rule_name("jvp", self.jvp)
        given = tree.unflatten(primals), unflatten_tangents(tree, arguments)
        pair = call_rule(self.jvp, *call.others, *given)
        result, tangent = as_pair(pair, rule, "result, tangent")
        results = call.rule_results(rule, result)
        return results, _checked_tangents(rule, tangent, call.out_tree, types_of(results))


def _checked_tangents(rule: str, tangent, tree, avals: Avals) -> Values:
    """Leaves of a tangent returned by a rule; raises DerivativeRuleError if it doesn't match the result."""
    # One tangent per leaf of the result, in both lists; known zeros become `Zero`.
    leaves, tangent_tree = flatten_tangents(tree, tangent, lambda x: isinstance(x, SymbolicZero))
    if tangent_tree != tree:
        raise DerivativeRuleError(
            f"{rule} returned a tangent of another structure than the result.",
            got=structure_lines("tangent", tree, tangent_tree),
        )
    checked: Values = []
    for i, (t, aval) in enumerate(strict_zip(leaves, avals)):
        expected, tangent_aval = aval.tangent(), type_of(t)
        if tangent_aval.shape != expected.shape or tangent_aval.dtype != expected.dtype:
            raise DerivativeRuleError(
                f"{rule} returned a tangent of another type than the result.",
                got=f"{shown_path('tangent', leaf_paths(tree)[i])}: got {tangent_aval.text()}, expected {expected.text()}",
            )
        is_zero = isinstance(t, SymbolicZero) or expected.dtype == dtypes.float0
        checked.append(Zero(expected) if is_zero else t)
    return checked
