"""`custom_vmap`: a function whose batching the user defines; `sequential_vmap`."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pellucid.base.errors import BatchingRuleError
from pellucid.base.tree import TreeError, broadcast_prefix_to, structure_differences
from pellucid.higher_order.bodies import traced, types_of
from pellucid.higher_order.custom_jvp import CustomCall, ForwardsDefinitions, Signature
from pellucid.higher_order.loops import map as sequential_map
from pellucid.ir.facets import Linearized, Shown
from pellucid.ir.jaxpr import ClosedJaxpr, Equation
from pellucid.ir.rewriting import rearranged
from pellucid.ir.rules import BatchAxis, BatchDim, LinearOperand, Operands, Zero
from pellucid.primitives.broadcasting import brought_to
from pellucid.tracing.function import name_of
from pellucid.tracing.trace import bind
from pellucid.tracing.values import type_of
from pellucid.transforms.arguments import check_callable, checked_leaves, described, result_leaves
from pellucid.transforms.jvp import jvp_flat, jvp_jaxpr
from pellucid.transforms.linearize import linearize_flat
from pellucid.transforms.transpose import backward_pass, transpose_jaxpr
from pellucid.transforms.vmap import batch_flat, batched_aval
from pellucid.transforms.zeros import instantiate, spread, zeros
from pellucid.xla.pytree import flatten

FlatRule = Callable[[int, Sequence[bool], Sequence[Any]], tuple[list[Any], list[bool]]]
"""From (length of the batch, which operands are batched, operands) to results and which of them are batched."""


class CustomVmapParams(NamedTuple):
    """`call_jaxpr` has no constants: what the function closes over are its first `num_consts` operands."""

    call_jaxpr: ClosedJaxpr
    num_consts: int
    in_tree: Any
    out_tree: Any
    rule: FlatRule
    rule_name: str


class CustomVmapCall(Shown, Linearized, CustomCall[CustomVmapParams]):
    """A call with its own batching rule, from which the rules of its derivatives are made."""

    name = "custom_vmap_call"

    def batch(self, axis, operands, dims, params):
        n = params.num_consts
        if any(d is not None for d in dims[:n]):
            raise BatchingRuleError(
                f"`{params.rule_name}` is the batching rule of a function that captures a batched value.",
                got=type_of(
                    next(x for x, d in zip(operands, dims, strict=False) if d is not None)
                ).text(),
                do="Pass the value as an argument: the rule only speaks of arguments.",
            )
        given = [
            x if d is None else brought_to(axis, x, d, 0)
            for x, d in zip(operands[n:], dims[n:], strict=True)
        ]
        results, batched = params.rule(axis.size, [d is not None for d in dims[n:]], given)
        return results, [0 if b else None for b in batched]

    def jvp(self, primals, tangents, params):
        nonzero = [type(t) is not Zero for t in tangents]
        program, consts, mask = jvp_jaxpr(params.call_jaxpr.jaxpr, nonzero, False)
        live = [t for t in tangents if type(t) is not Zero]
        rule = _differentiated(params.rule, nonzero, params.num_consts, mask)
        n_consts = len(consts) + params.num_consts
        results = bind(
            self, *consts, *primals, *live,
            params=params._replace(call_jaxpr=program, num_consts=n_consts, rule=rule),
        )  # fmt: skip
        n = len(mask)
        return results[:n], spread(results[n:], mask, params.call_jaxpr.out_avals)

    def linearize(self, trace, primals, tangents, params):
        # The tangents are a call of their own, with their own batching rule, that takes the primals again.
        nonzero = [type(t) is not Zero for t in tangents]
        results = bind(self, *primals, params=params)
        program, consts, mask = jvp_jaxpr(params.call_jaxpr.jaxpr, nonzero, False)
        if not any(mask):
            return results, spread([], mask, params.call_jaxpr.out_avals)
        n = len(mask)
        tangents_only = rearranged(
            program, range(len(program.in_avals)), range(n, len(program.out_avals))
        )
        both = _differentiated(params.rule, nonzero, params.num_consts, mask)

        def rule(size: int, batched: Sequence[bool], operands: Operands) -> Any:
            found, flags = both(size, batched, operands)
            return found[n:], flags[n:]

        live = [t for t in tangents if type(t) is not Zero]
        n_consts = len(consts) + params.num_consts
        linear = params._replace(call_jaxpr=tangents_only, num_consts=n_consts, rule=rule)
        out = trace.stage_linear(self, (*consts, *primals, *live), linear)
        return results, spread(out, mask, params.call_jaxpr.out_avals)

    def transpose(self, cotangents, operands, params):
        linear = [type(x) is LinearOperand for x in operands]
        wanted = [x.aval if type(x) is LinearOperand else None for x in operands]
        avals = [None if type(ct) is Zero else type_of(ct) for ct in cotangents]
        program, consts, _ = transpose_jaxpr(params.call_jaxpr.jaxpr, linear, avals, True)
        n_consts = len(consts) + params.num_consts
        rule = _transposed(params.rule, wanted[params.num_consts :], [a is not None for a in avals])
        given = [x for x, is_linear in zip(operands, linear, strict=True) if not is_linear]
        given += [ct for ct in cotangents if type(ct) is not Zero]
        found = iter(
            bind(
                self, *consts, *given,
                params=params._replace(call_jaxpr=program, num_consts=n_consts, rule=rule),
            )
        )  # fmt: skip
        return [next(found) if is_linear else None for is_linear in linear]

    def dead_code(self, used, equation):
        remaining = equation if any(used) or equation.effects else None
        return [remaining is not None] * len(equation.operands), remaining

    def printed_params(self, equation):
        params = equation.params
        return {
            "call": params.call_jaxpr,
            "in_tree": params.in_tree,
            "out_tree": params.out_tree,
            "rule": params.rule_name,
        }


custom_vmap_call_p = CustomVmapCall()


def _differentiated(
    rule: FlatRule, nonzero: Sequence[bool], n_consts: int, mask: Sequence[bool]
) -> FlatRule:
    """The batching rule of the function of values and tangents: the derivative of `rule`.

    An operand counts as batched for `rule` if both its primal and its tangent are. Where only one of them is,
    and no operand counts as batched, `rule` is mapped over these; else the other one is broadcast. `nonzero` is for
    all operands, the first `n_consts` of which the rule doesn't get.
    """
    if any(nonzero[:n_consts]):
        return _refuse_captured
    nonzero = nonzero[n_consts:]

    def of_both(
        size: int, batched: Sequence[bool], operands: Operands
    ) -> tuple[list[Any], list[bool]]:
        n = len(nonzero)
        axis = BatchAxis(size)
        primal_flags = list(batched[:n])
        rest = iter(batched[n:])
        tangent_flags = [
            next(rest) if nz else b for nz, b in zip(nonzero, primal_flags, strict=True)
        ]

        def both(flags: Sequence[bool], values: Operands) -> tuple[list[Any], list[bool]]:
            """Results, then tangents, of `rule` for operands that are batched as `flags` say."""
            live = iter(values[n:])
            tangents = [
                next(live) if nz else Zero(type_of(x).tangent())
                for x, nz in zip(values, nonzero, strict=False)
            ]
            found: list[bool] = []

            def run(*primals: Any) -> Any:
                results, found[:] = rule(size, flags, primals)
                return results, ()

            results, out_tangents, _ = jvp_flat(run, values[:n], tangents)
            wanted = [instantiate(t) for t, m in zip(out_tangents, mask, strict=True) if m]
            return [*results, *wanted], [*found, *itertools.compress(found, mask)]

        if not any(map(operator.and_, primal_flags, tangent_flags)):
            claimed: list[bool] = []

            def one(*elements: Any) -> list[Any]:
                values, claimed[:] = both([False] * n, elements)
                return values

            values, dims = batch_flat(one, axis, operands, [0 if b else None for b in batched])
            if not any(claimed):
                placed = [
                    x if d is None else brought_to(axis, x, d, 0)
                    for x, d in zip(values, dims, strict=True)
                ]
                return placed, [d is not None for d in dims]
        wanted = list(map(operator.or_, primal_flags, tangent_flags))
        all_wanted = [*wanted, *itertools.compress(wanted, nonzero)]
        values, flags = both(
            wanted,
            [
                brought_to(axis, x, None, 0) if w and not b else x
                for x, b, w in zip(operands, batched, all_wanted, strict=True)
            ],
        )
        if wanted != primal_flags:  # tangents say nothing about the results
            results, result_flags = rule(size, primal_flags, operands[:n])
            values[: len(mask)], flags[: len(mask)] = results, result_flags
        return values, flags

    return of_both


def _transposed(rule: FlatRule, linear: Sequence[Any], nonzero: Sequence[bool]) -> FlatRule:
    """The rule of the transposed function: the transpose of the rule, with every operand batched.

    `linear` has the types of the operands in which the function is linear, and None for the others.
    """

    def of_cotangents(
        size: int, batched: Sequence[bool], operands: Operands
    ) -> tuple[list[Any], list[bool]]:
        axis = BatchAxis(size)
        given = iter(
            [
                x if b else brought_to(axis, x, None, 0)
                for x, b in zip(operands, batched, strict=True)
            ]
        )
        fixed = [next(given) if aval is None else None for aval in linear]
        cotangents = list(given)

        def run(*tangents: Any) -> Any:
            values = iter(tangents)
            full = [next(values) if x is None else x for x in fixed]
            results, flags = rule(size, [True] * len(full), full)
            placed = [
                x if b else brought_to(axis, x, None, 0)
                for x, b in zip(results, flags, strict=True)
            ]
            return [x for x, nz in zip(placed, nonzero, strict=True) if nz], ()

        at_zero = [zeros(batched_aval(aval, axis, 0)) for aval in linear if aval is not None]
        _, program, _ = linearize_flat(run, at_zero, [True] * len(at_zero))
        live = [ct for ct, nz in zip(cotangents, program.nonzero_out, strict=True) if nz]
        wanted = [LinearOperand(v.aval) for v in program.jaxpr.invars]  # pyright: ignore[reportArgumentType]
        found = backward_pass(program.jaxpr, program.residuals, wanted, live)
        return [instantiate(ct) for ct in found], [True] * len(found)

    return of_cotangents


def _refuse_captured(size: int, batched: Sequence[bool], operands: Operands) -> Any:
    raise BatchingRuleError(
        "a function with its own batching rule captures a value by which it is differentiated.",
        do="Pass the value as an argument: the rule only speaks of arguments.",
    )


class custom_vmap(ForwardsDefinitions):
    """Decorator for a function whose batching you define with `def_vmap`.

    The rule gets (length of the batch, a tuple that says for each leaf of the arguments whether it is batched, the
    arguments with batch axes in front) and gives (result, whether its leaves are batched).

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

    def __init__(self, fun: Callable[..., Any]) -> None:
        check_callable(fun, "custom_vmap")
        self.fun = fun
        self.signature = Signature(fun, (), ())
        self.vmap_rule: Callable[..., Any] | None = None
        self.__wrapped__ = fun
        self.__name__ = name_of(fun)
        self.__doc__ = getattr(fun, "__doc__", None)

    def def_vmap(self, vmap_rule: Callable[..., Any]) -> Callable[..., Any]:
        """Define the batching rule; returns it, so that this may be a decorator."""
        check_callable(vmap_rule, "def_vmap")
        self.vmap_rule = vmap_rule
        return vmap_rule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.vmap_rule is None:
            raise BatchingRuleError(f"`{self.__name__}` is a custom_vmap, but no rule was given to it.",
                                    do="Define it with def_vmap.")  # fmt: skip
        args = self.signature.positional(args, kwargs)
        leaves, tree = flatten(tuple(args))
        leaves = checked_leaves(leaves, "custom_vmap", self.fun, args, {})
        avals = types_of(leaves)
        body = traced(self.fun, tree, avals, "custom_vmap")
        rule = _flat_rule(self, self.vmap_rule, tree, body.out_tree)
        params = CustomVmapParams(
            body.program, len(body.consts), tree, body.out_tree, rule, name_of(self.vmap_rule)
        )
        return body.out_tree.unflatten(
            bind(custom_vmap_call_p, *body.consts, *leaves, params=params)
        )


def _flat_rule(
    custom: custom_vmap, rule: Callable[..., Any], in_tree: Any, out_tree: Any
) -> FlatRule:
    """The user's rule on flat values, with its answers checked."""
    what = f"the batching rule `{name_of(rule)}` of `{custom.__name__}`"

    def flat(
        size: int, batched: Sequence[bool], operands: Operands
    ) -> tuple[list[Any], list[bool]]:
        pair = rule(size, list(in_tree.unflatten(batched)), *in_tree.unflatten(operands))
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise BatchingRuleError(f"{what} must return a pair (result, whether it is batched).",
                                    got=f"it returned {described(pair)}")  # fmt: skip
        results, tree = result_leaves(pair[0], "custom_vmap", rule)
        if tree != out_tree:
            raise BatchingRuleError(
                f"{what} returned another structure than the function.",
                got=[d.text("result") for d in structure_differences(out_tree, tree)[:3]],
            )
        try:
            flags = broadcast_prefix_to(pair[1], out_tree)
        except TreeError as error:
            raise BatchingRuleError(
                f"{what} must say for each result whether it is batched.",
                got=str(error).splitlines(),
            ) from None
        for x, is_batched in zip(results, flags, strict=True):
            shape = type_of(x).shape
            if is_batched and (not shape or shape[0] != size):
                raise BatchingRuleError(
                    f"{what} calls a result batched that isn't.",
                    got=f"{type_of(x).text()}; its first axis should be the batch, of length {size}",
                )
        return results, [bool(b) for b in flags]

    return flat


def sequential_vmap(f: Callable[..., Any]) -> custom_vmap:
    """`f`, whose batched form computes one element after another.

    >>> from pellucid import vmap
    >>> vmap(sequential_vmap(lambda x: x + 1))(np.arange(2))
    Array([1, 2], dtype=int32)
    """
    sequential = custom_vmap(f)

    @sequential.def_vmap
    def rule(axis_size: int, in_batched: list[Any], *args: Any) -> Any:
        leaves, tree = flatten(args)
        flags = flatten(tuple(in_batched))[0]
        batched = [x for x, b in zip(leaves, flags, strict=True) if b]

        def one(elements: list[Any]) -> Any:
            given = iter(elements)
            return f(
                *tree.unflatten(
                    [next(given) if b else x for x, b in zip(leaves, flags, strict=True)]
                )
            )

        result = sequential_map(one, batched)
        return result, flatten(result)[1].unflatten([True] * flatten(result)[1].num_leaves)

    return sequential
