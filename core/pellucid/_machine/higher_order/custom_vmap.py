"""`custom_vmap`: functions with user-defined batching; `sequential_vmap`; values of `vmap_method`."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from pellucid._machine.base import (
    ArgumentValueError,
    BatchingRuleError,
    CallbackBatchingError,
    Function,
    TreeError,
    broadcast_prefix_to,
    merge_by_mask,
    strict_zip,
)
from pellucid._machine.ir import (
    BatchAxis,
    BatchDim,
    ClosedJaxpr,
    Dims,
    Linearized,
    Mask,
    Operands,
    Primitive,
    Results,
    Shown,
    Values,
    is_linear,
    rearrange_program,
)
from pellucid._machine.primitives import (
    aligned_at,
    broadcast,
    index_in_dim,
    instantiate,
    move_axis,
    stack,
)
from pellucid._machine.tracing import (
    Captured,
    as_rule_operands,
    bind,
    context,
    name_of,
    traced_values_in,
    type_of,
    types_of,
)
from pellucid._machine.transforms import (
    Derived,
    batch_flat,
    batched_aval,
    check_callable,
    cotangents_of,
    flat_arguments,
    jvp_flat,
    jvp_jaxpr,
    linear_parts,
    nonzero,
    nonzero_mask,
    result_leaves,
    split_tangents,
    spread,
    structure_lines,
    transpose_jaxpr,
)
from pellucid._machine.xla import flatten

from .bodies import trace_program
from .custom_rules import CustomCall, ForwardsDefinitions, Signature, as_pair
from .loop_primitives import transposed_flat
from .loops import map as sequential_map

FlatResults = tuple[list[Any], list[bool]]
"""(results, which of them are batched)."""
FlatRule = Callable[[int, Sequence[bool], Operands], FlatResults]
"""A batching rule: takes (batch size, which operands are batched, operands)."""


class CustomVmapParams(NamedTuple):
    """`call` has no constants: values that the function closes over are its first `num_consts` operands."""

    call: ClosedJaxpr
    num_consts: int
    in_tree: Any
    out_tree: Any
    rule: FlatRule
    rule_name: str

    def derived_params(self, program: Derived, rule: FlatRule) -> CustomVmapParams:
        """Params of a call of a program derived from this one, with its batching rule."""
        n_consts = len(program.consts) + self.num_consts
        return self._replace(call=program.program, num_consts=n_consts, rule=rule)


class CustomVmapCall(Linearized, Shown, CustomCall[CustomVmapParams]):
    """A call with a custom batching rule, from which the rules of its derivatives are made."""

    name = "custom_vmap_call"
    program_field = "call"
    rule_params = ("rule",)

    def batch(self, axis, operands, dims, params):
        # Operands: `n` captured values, then arguments; the rule gets arguments alone, each batched at axis 0 or not at all.
        n = params.num_consts
        captured = [x for x, d in strict_zip(operands[:n], dims[:n]) if d is not None]
        refuse_batched_captures(params.rule_name, captured)
        batched = [d is not None for d in dims[n:]]
        inputs = aligned_at(axis, operands[n:], dims[n:], _dims(batched))
        results, flags = params.rule(axis.size, batched, as_rule_operands(inputs))
        return results, _dims(flags)

    def jvp(self, primals, tangents, params):
        mask = nonzero_mask(tangents)
        derived = jvp_jaxpr(params.call.jaxpr, mask, False)
        rule = _derivative_rule(params.rule, mask, params.num_consts, derived.mask)
        results = bind(
            self, *derived.consts, *primals, *nonzero(tangents), params=params.derived_params(derived, rule)
        )  # fmt: skip
        return split_tangents(results, derived.mask)

    def linearize(self, trace, primals, tangents, params):
        # The tangents are a separate call with its own batching rule, which takes the primals again.
        mask = nonzero_mask(tangents)
        results = bind(self, *primals, params=params)
        derived = jvp_jaxpr(params.call.jaxpr, mask, False)
        n = len(derived.mask)
        both = _derivative_rule(params.rule, mask, params.num_consts, derived.mask)

        def rule(size: int, flags: Mask, operands: Operands) -> FlatResults:
            # `both` gives (`n` results, their nonzero tangents); of the linear call only the tangents are results.
            values, out_flags = both(size, flags, operands)
            return values[n:], out_flags[n:]

        out_tangents: Results = ()
        if any(derived.mask):
            program = derived.program
            n_inputs, n_results = len(program.in_avals), len(program.out_avals)
            # Results before: results, tangents. After: tangents.
            program = rearrange_program(program, range(n_inputs), range(n, n_results))
            linear = params.derived_params(derived._replace(program=program), rule)
            operands = (*derived.consts, *primals, *nonzero(tangents))
            out_tangents = trace.stage_linear(self, operands, linear)
        return split_tangents([*results, *out_tangents], derived.mask)

    def transpose(self, cotangents, operands, params):
        linear, avals, residuals = linear_parts(operands, cotangents)
        linear_avals = [x.aval if is_linear(x) else None for x in operands]
        # Takes (consts, operands that aren't linear, nonzero cotangents), gives a cotangent for each linear operand.
        derived = transpose_jaxpr(params.call.jaxpr, linear, avals, True)
        rule = _transposed_rule(
            params.rule, linear_avals[params.num_consts :], nonzero_mask(cotangents)
        )
        results = bind(
            self, *derived.consts, *residuals, *nonzero(cotangents), params=params.derived_params(derived, rule)
        )  # fmt: skip
        return cotangents_of(operands, results, itertools.repeat(True))

    def printed_params(self, equation):
        params = equation.params
        return {
            "call": params.call,
            "in_tree": params.in_tree,
            "out_tree": params.out_tree,
            "rule": params.rule_name,
        }


custom_vmap_call_p = CustomVmapCall()


def refuse_batched_captures(rule_name: str, values: Operands) -> None:
    """Raises BatchingRuleError if there are batched `values`, captured by a function or its rule."""
    if values:
        raise BatchingRuleError(
            f"`{rule_name}`: the function, or this batching rule, closes over a value that an outer vmap batches.",
            got=type_of(values[0]).text(),
            do="Pass the value as an argument: the rule sees arguments only.",
        )


def _dims(batched: Mask) -> list[BatchDim]:
    """Batch axes of values: 0 for those that are `batched`, else None."""
    return [0 if b else None for b in batched]


def _derivative_rule(rule: FlatRule, nonzero: Mask, n_consts: int, mask: Mask) -> FlatRule:
    """The batching rule of the function of values and tangents: the derivative of `rule`.

    An operand counts as batched for `rule` if both its primal and its tangent are. If only one of them is batched, and
    no operand counts as batched, `rule` is mapped over these; otherwise the other one is broadcast. `nonzero` has an
    entry for all operands, of which the rule doesn't get the first `n_consts`.
    """
    if any(nonzero[:n_consts]):
        return _refuse_captured_tangents
    nonzero = nonzero[n_consts:]
    n = len(nonzero)

    def jvp_rule(size: int, batched: Mask, operands: Operands) -> FlatResults:
        # Operands: `n` primals, then the nonzero tangents; `batched` has a flag for each.
        axis = BatchAxis(size)
        primal_flags = list(batched[:n])
        # One flag per primal: that of its tangent, or its own where that is zero.
        tangent_flags = merge_by_mask(nonzero, batched[n:], primal_flags)

        def both(flags: Mask, values: Operands) -> FlatResults:
            """Results, then tangents, of `rule` for operands batched according to `flags`."""
            tangents = spread(values[n:], nonzero, types_of(values[:n]))
            out_flags: list[bool] = []

            def run(*primals):
                results, out_flags[:] = rule(size, flags, primals)
                return results, ()

            results, out_tangents, _ = jvp_flat(run, values[:n], tangents)
            dense_tangents = map(instantiate, itertools.compress(out_tangents, mask))
            return [*results, *dense_tangents], [*out_flags, *itertools.compress(out_flags, mask)]

        if not any(map(operator.and_, primal_flags, tangent_flags)):
            element_flags: list[bool] = []

            def one(*elements):
                values, element_flags[:] = both([False] * n, elements)
                return values

            values, dims = batch_flat(one, axis, operands, _dims(batched))
            if not any(element_flags):
                out_flags = [d is not None for d in dims]
                return aligned_at(axis, values, dims, _dims(out_flags)), out_flags
        # Flags per primal, then for all operands: which `rule` gets batched, and which of these have to be broadcast.
        joined = list(map(operator.or_, primal_flags, tangent_flags))
        needed = [*joined, *itertools.compress(joined, nonzero)]
        present = [b or not needs for b, needs in strict_zip(batched, needed)]
        values, flags = both(joined, aligned_at(axis, operands, _dims(present)))
        if joined != primal_flags:  # whether results are batched doesn't depend on tangents
            results, result_flags = rule(size, primal_flags, operands[:n])
            values[: len(mask)], flags[: len(mask)] = results, result_flags
        return values, flags

    return jvp_rule


def _transposed_rule(rule: FlatRule, linear: Sequence[Any], nonzero: Mask) -> FlatRule:
    """The batching rule of the transposed function: the transpose of the rule, with every operand batched.

    `linear` has the types of linear operands, and None for others.
    """

    def transpose_rule(size: int, batched: Mask, operands: Operands) -> FlatResults:
        # Operands: residuals, then cotangents; `residuals` has one entry per operand of the function, None where it is linear.
        axis = BatchAxis(size)
        values = iter(aligned_at(axis, operands, _dims(batched)))
        residuals = [next(values) if aval is None else None for aval in linear]
        cotangents = list(values)

        def run(*tangents):
            inputs = merge_by_mask([aval is not None for aval in linear], tangents, residuals)
            results, flags = rule(size, [True] * len(inputs), inputs)
            return list(itertools.compress(aligned_at(axis, results, _dims(flags)), nonzero))

        avals = [batched_aval(aval, axis, 0) for aval in linear if aval is not None]
        cts = [instantiate(ct) for ct in transposed_flat(run, avals, cotangents)]
        return cts, [True] * len(cts)

    return transpose_rule


def _refuse_captured_tangents(size: int, batched: Mask, operands: Operands) -> NoReturn:
    raise BatchingRuleError(
        "a function with its own batching rule captures a value by which it is differentiated.",
        do="Pass the value as an argument: the rule is one of arguments.",
    )


class custom_vmap(ForwardsDefinitions):
    """Decorator for a function whose batching is defined with `def_vmap`.

    The rule is called with (batch size, flags for each leaf of each argument: whether it is batched, arguments with
    batch axes in front) and returns (result, whether its leaves are batched).

    Raises: BatchingRuleError for a call without a rule, and for a rule that returns no such pair, another structure than
    the function, or a batched result without a batch axis in front.

    >>> from pellucid import vmap
    >>> @custom_vmap
    ... def f(x):
    ...     return x + 1
    >>> @f.def_vmap
    ... def f_rule(axis_size, in_batched, x):
    ...     return x + 2, in_batched[0]
    >>> vmap(f)(np.arange(2))
    array([2, 3], dtype=int32)
    """

    def __init__(self, fun: Function) -> None:
        super().__init__(fun)
        self.signature = Signature(fun)
        self.vmap_rule: Function | None = None

    def def_vmap(self, vmap_rule: Function) -> Function:
        """Defines the batching rule; returns it, so that it can be used as a decorator."""
        check_callable(vmap_rule, "def_vmap")
        self.vmap_rule = vmap_rule
        return vmap_rule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.vmap_rule is None:
            raise BatchingRuleError(
                f"`{self.signature.name}` is a custom_vmap, but no rule was given to it.",
                do="Define it with def_vmap.",
            )
        args = self.signature.positional(args, kwargs)
        leaves, tree = flat_arguments(tuple(args), "custom_vmap", self.fun, args)
        avals = types_of(leaves)
        body = trace_program(self.fun, tree, avals, "custom_vmap")
        rule, program = _flat_rule(self, self.vmap_rule, tree, body.out_tree), body.program
        n, rule_name = len(body.consts), name_of(self.vmap_rule)
        tracers = () if context.trace.is_eager else traced_values_in(self.vmap_rule)
        if tracers:
            rule = _with_captured_values(rule, Captured(self, tracers), rule_name)
            n_inputs, n_results = len(program.in_avals), len(program.out_avals)
            # After the constants, values that only the rule uses.
            inputs = [*range(n), *types_of(tracers), *range(n, n_inputs)]
            program = rearrange_program(program, inputs, range(n_results))
        params = CustomVmapParams(program, n, tree, body.out_tree, rule, rule_name)
        return body.out_tree.unflatten(
            bind(custom_vmap_call_p, *body.consts, *tracers, *leaves, params=params)
        )


def _with_captured_values(rule: FlatRule, captured: Captured, name: str) -> FlatRule:
    """The rule with the values that it captured as additional leading operands."""

    def flat(size: int, batched: Mask, operands: Operands) -> FlatResults:
        (of_captured, own), (values, rest) = map(captured.split, (batched, operands))
        refuse_batched_captures(name, list(itertools.compress(values, of_captured)))
        return captured.run(rule, values, size, own, rest)

    return flat


def _flat_rule(custom: custom_vmap, rule: Function, in_tree, out_tree) -> FlatRule:
    """The user's rule on flat values, with checks of its results."""
    what = f"the batching rule `{name_of(rule)}` of `{custom.signature.name}`"

    def flat(size: int, batched: Mask, operands: Operands) -> FlatResults:
        pair = rule(size, list(in_tree.unflatten(batched)), *in_tree.unflatten(operands))
        result, batched_result = as_pair(
            pair, what, "result, whether it is batched", BatchingRuleError
        )
        results, tree = result_leaves(result, "custom_vmap", rule)
        if tree != out_tree:
            raise BatchingRuleError(
                f"{what} returned another structure than the function.",
                got=structure_lines("result", out_tree, tree),
            )
        try:
            flags = broadcast_prefix_to(batched_result, out_tree)
        except TreeError as error:
            raise BatchingRuleError(
                f"{what} must say for each result whether it is batched.",
                got=str(error).splitlines(),
            ) from None
        for x, is_batched in strict_zip(results, flags):
            shape = type_of(x).shape
            if is_batched and (not shape or shape[0] != size):
                raise BatchingRuleError(
                    f"{what} calls a result batched that isn't.",
                    got=f"{type_of(x).text()}; its first axis should be the batch, of length {size}",
                )
        return results, [bool(b) for b in flags]

    return flat


def sequential_vmap(f: Function) -> custom_vmap:
    """`f`, whose batched form computes one element after another.

    >>> from pellucid import vmap
    >>> vmap(sequential_vmap(lambda x: x + 1))(np.arange(2))
    Array([1, 2], dtype=int32)
    """
    sequential = custom_vmap(f)

    @sequential.def_vmap
    def rule(axis_size: int, in_batched: Values, *args: Any) -> Any:
        leaves, tree = flatten(args)
        flags = flatten(tuple(in_batched))[0]
        batched = list(itertools.compress(leaves, flags))

        def one(elements):
            return f(*tree.unflatten(merge_by_mask(flags, elements, leaves)))

        result = sequential_map(one, batched)
        out_tree = flatten(result)[1]
        return result, out_tree.unflatten([True] * out_tree.num_leaves)

    return sequential


# How vmap treats calls of functions that are no programs --------------------------------------------


VMAP_METHODS = (
    "sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized", None,
)  # fmt: skip


def check_vmap_method(caller: str, method: Any) -> None:
    """Raises ArgumentValueError for an unknown `vmap_method`."""
    if method not in VMAP_METHODS:
        raise ArgumentValueError(
            f"{caller} doesn't know this vmap_method.",
            got=repr(method),
            do=f"Choose one of {', '.join(map(repr, VMAP_METHODS))}.",
        )


def batched_call(
    primitive: Primitive,
    axis: BatchAxis,
    operands: Operands,
    dims: Dims,
    params: Any,
    with_batch: Callable[[Mask], Any],
    described: str,
) -> tuple[Values, Sequence[int]]:
    """Batching rule of a call whose params have `vmap_method`: (results, their dims, which are 0).

    `with_batch(mask)` returns the params of one call for the whole batch, in which results and the operands marked by
    the mask have a leading batch axis. `described` names the call in errors.

    Raises: CallbackBatchingError where `vmap_method` is None.
    """
    method = params.vmap_method
    if method is None:
        raise CallbackBatchingError(
            f"vmap of {primitive.name} needs to know how its function treats batches.",
            got=f"{described} with vmap_method=None",
            do='Give vmap_method: "sequential" calls the function for each element; "broadcast_all" and '
            '"expand_dims" call it once, with a new leading axis.',
        )
    if method.startswith("sequential"):
        unrolled = method == "sequential_unrolled"
        results = each_element(primitive, axis, operands, dims, params, unrolled=unrolled)
        return results, [0] * len(results)
    mask = [d is not None or method != "legacy_vectorized" for d in dims]
    size = axis.size if method == "broadcast_all" else 1
    inputs: Values = []
    for x, dim, has_axis in strict_zip(operands, dims, mask):
        if dim is not None:
            x = move_axis(x, dim, 0)
        elif has_axis:
            x = broadcast(x, (size,))
        inputs.append(x)
    results = list(bind(primitive, *inputs, params=with_batch(mask)))
    return results, [0] * len(results)


def each_element(
    primitive: Primitive,
    axis: BatchAxis,
    operands: Operands,
    dims: Dims,
    params: Any,
    *,
    unrolled: bool,
) -> Values:
    """Runs the equation for each element of a batch in turn; results are stacked along a leading axis."""
    batched = [move_axis(x, d, 0) for x, d in strict_zip(operands, dims) if d is not None]

    def one(elements: Operands) -> Values:
        chosen = merge_by_mask([d is not None for d in dims], elements, operands)
        return list(bind(primitive, *chosen, params=params))

    if unrolled:
        results = [one([index_in_dim(x, i, 0, False) for x in batched]) for i in range(axis.size)]
        return [stack(parts, 0) for parts in strict_zip(*results)]
    return sequential_map(one, batched)
