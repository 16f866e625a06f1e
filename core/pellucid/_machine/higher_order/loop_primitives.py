"""The primitives `scan` and `while` with all their rules."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, compress
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    EffectsError,
    IrreversibleLoopError,
    Symbol,
    Unary,
    exact_quotient,
    is_static,
    merge_by_mask,
    strict_zip,
)
from pellucid._machine.base.late import late
from pellucid._machine.ir import (
    Avals,
    ClosedJaxpr,
    Jaxpr,
    Linearized,
    LinearOperand,
    Literal,
    Mask,
    Operands,
    Results,
    Role,
    Slot,
    SlotGroup,
    Slots,
    Values,
    Zero,
    consecutive,
    is_linear,
    rearrange_program,
    remove_dead_equations,
    shaped_array,
    with_variables_as_inputs,
)
from pellucid._machine.lowering.loops import (
    counter_dtype,
    element_at,
    while_loop,
    with_element_at,
)
from pellucid._machine.lowering.module import ordered_effects_of
from pellucid._machine.primitives import (
    add_tangents,
    aligned_at,
    instantiate,
    move_axis,
    reduce_or,
    zeros,
)
from pellucid._machine.tracing import bind, replay, type_of
from pellucid._machine.transforms import (
    WORTH_AN_EQUATION,
    Derived,
    Source,
    Worth,
    batch_jaxpr,
    cache_on_program,
    cotangents_of,
    jvp_jaxpr,
    linearize_flat,
    linearize_jaxpr,
    nonzero,
    nonzero_mask,
    split_tangents,
    stage_open,
    transpose_jaxpr,
    without_names,
)

from .bodies import check_batched_effects, has_guards
from .calls import select_rows
from .structured import (
    Structured,
    batch_on_values,
    remembered_on_program,
    uses_state,
    with_linear_part,
    with_settled_carry,
)


class ScanParams(NamedTuple):
    """Operands are constants, the initial carry and the stacked inputs; `jaxpr` is the program of one step."""

    jaxpr: ClosedJaxpr
    length: int
    num_carry: int
    num_consts: int
    reverse: bool
    unroll: int

    def split(self, values: Operands) -> tuple[Any, Any, Any]:
        """Splits a list with an entry per operand into (constants, carry, stacked inputs)."""
        n, m = self.num_consts, self.num_consts + self.num_carry
        return values[:n], values[n:m], values[m:]


def stacked_type(aval: Any, length: int) -> Any:
    """Type of `length` values of type `aval`, stacked along a new leading axis."""
    return aval.with_dim(0, length)


def element_type(aval: Any) -> Any:
    """Type of one element along the leading axis."""
    return aval.without_dim(0)


class Scan(Linearized, Structured[ScanParams]):
    """A loop with a known number of steps."""

    name = "scan"

    def abstract_eval(self, avals, params):
        out, n = params.jaxpr.out_avals, params.num_carry
        return [*out[:n], *(stacked_type(a, params.length) for a in out[n:])]

    def effects(self, avals, params):
        return params.jaxpr.effects

    def slots(self, params):
        # Operand groups 0, 1, 2 are consts, carry, xs; result groups 0, 1 are carry, ys. Those of the body are the
        # same.
        jaxpr, n, m = params.jaxpr.jaxpr, params.num_consts, params.num_carry
        carry = SlotGroup(Role.CARRY, m)
        return Slots(
            (
                SlotGroup(Role.CONSTANT, n),
                carry,
                SlotGroup(Role.STACKED, len(jaxpr.invars) - n - m),
            ),
            (carry, SlotGroup(Role.STACKED, len(jaxpr.outvars) - m)),
            (Slot(params.jaxpr, (0, 1, 2), (0, 1)),),
            params.length,
            params.reverse,
        )

    def with_slots(self, params, slots):
        [body], (consts, carry, _) = slots.programs, slots.operands
        return params._replace(jaxpr=body.program, num_consts=consts.size, num_carry=carry.size)

    # Derivatives ----------------------------------------------------------------------------------

    def jvp(self, primals, tangents, params):
        consts, carry, xs = params.split(primals)
        t_consts, t_carry, t_xs = params.split(tangents)
        masks = map(nonzero_mask, (t_consts, t_carry, t_xs))
        # `carried` marks carries with a tangent, including those whose tangent becomes nonzero in a later step.
        body, carried = _jvp_body(params.jaxpr.jaxpr, *masks)
        t_consts = nonzero(t_consts)
        t_carry = map(instantiate, compress(t_carry, carried))
        # Operands: each group's values, then its tangents; constants of the derived body come first.
        n_consts = len(body.consts) + len(consts) + len(t_consts)
        n, n_tangents, n_ys = params.num_carry, sum(carried), len(body.mask) - params.num_carry
        results = bind(
            self, *body.consts, *consts, *t_consts, *carry, *t_carry, *xs, *nonzero(t_xs),
            params=params._replace(jaxpr=body.program, num_consts=n_consts, num_carry=n + n_tangents),
        )  # fmt: skip
        # `results` are carry, its tangents, ys, their tangents; afterwards (carry, ys), then both kinds of tangents.
        ys = results[n + n_tangents :]
        tangents = [*results[n : n + n_tangents], *ys[n_ys:]]
        return split_tangents([*results[:n], *ys[:n_ys], *tangents], body.mask)

    def linearize(self, trace, primals, tangents, params):
        parts = split_scan(params, tuple(nonzero_mask(tangents)))
        consts, carry, xs = params.split(primals)
        constants = [*parts.consts, *consts]
        # Residuals that are equal in all steps are computed once, before the loop.
        hoisted = replay(parts.hoisted, (), *constants) if parts.hoisted.outvars else []
        results = bind(
            self, *constants, *hoisted, *carry, *xs,
            params=params._replace(jaxpr=parts.primal, num_consts=len(constants) + len(hoisted)),
        )  # fmt: skip
        sources = {
            # `results` are carry, ys, then residuals stacked over the steps.
            "const": constants, "hoisted": hoisted, "xs": xs, "result": results,
            "constant": parts.constants,
        }  # fmt: skip
        fixed = [sources[place.kind][place.index] for place in parts.fixed]
        per_step = [sources[place.kind][place.index] for place in parts.per_step]
        t_consts, t_carry, t_xs = params.split(tangents)
        # The linear scan's consts are `fixed` and the tangents of consts; its xs are `per_step` and the tangents of xs.
        fixed += nonzero(t_consts)
        t_carry = [*map(trace.linear_value, compress(t_carry, parts.carried))]
        linear = params._replace(jaxpr=parts.linear, num_consts=len(fixed), num_carry=len(t_carry))
        operands = (*fixed, *t_carry, *per_step, *nonzero(t_xs))
        return with_linear_part(trace, self, results, parts.mask, operands, linear)

    def split_at(self, params, split):
        forward, again, chosen = split(params.jaxpr.jaxpr)
        if not chosen:
            return None
        # Further results of a step are stacked, as are further operands.
        known = ClosedJaxpr(forward.replace(outvars=[*forward.outvars, *chosen], debug=None))
        again = ClosedJaxpr(with_variables_as_inputs(again, [*chosen], again.outvars))
        rows = [(stacked_type(v.aval, params.length), how) for v, how in chosen.items()]
        return params._replace(jaxpr=known), params._replace(jaxpr=again), rows

    def transpose(self, cotangents, operands, params):
        # One flag per operand: `is_operand` marks linear operands, `linear` also carries that depend on them.
        is_operand = [*map(is_linear, operands)]
        linear = _linear_operands(params, is_operand)
        if not all(params.split(linear)[1]):
            return _transpose_by_parts(self, cotangents, operands, params)
        # The carry's cotangents keep their initial types, weak or not.
        out_avals: Any = params.jaxpr.out_avals
        ct_avals = [
            None if type(ct) is Zero else a.tangent().update(weak_type=type_of(ct).weak_type)
            for ct, a in strict_zip(cotangents, out_avals)
        ]
        program, more, mask = transposed_body(params, linear, tuple(ct_avals))
        consts, _, xs = params.split(operands)
        # `mask` has a flag per linear operand (consts, then all carries, then xs): whether it has a cotangent.
        residual_consts, residual_xs = _residuals(consts), _residuals(xs)
        linear_consts = [x for x in consts if is_linear(x)]
        # Each step adds its cotangent of a const to a sum, which the reversed loop carries, starting from zeros.
        sums = [zeros(x.aval) for x in compress(linear_consts, mask)]
        n = params.num_carry
        carry_cts = compress(cotangents[:n], mask[len(linear_consts) :])
        carry_cts = [*map(instantiate, carry_cts)]
        results = bind(
            # Consts: residual consts. Carry: sums, cotangents of the carry. Xs: cotangents of ys, residual xs.
            self, *more, *residual_consts, *sums, *carry_cts, *nonzero(cotangents[n:]), *residual_xs,
            params=ScanParams(
                program, params.length, len(sums) + len(carry_cts), len(more) + len(residual_consts),
                not params.reverse, params.unroll,
            ),
        )  # fmt: skip
        # `results` are sums, cotangents of the carry, cotangents of xs: one for each flag set in `mask`.
        # Carries that start with a constant also have cotangents, which are dropped.
        as_operands = [
            LinearOperand(type_of(x)) if m and not i else x
            for x, i, m in strict_zip(operands, is_operand, linear)
        ]
        cts = cotangents_of(as_operands, results, mask)
        return [ct if i else None for ct, i in strict_zip(cts, is_operand)]

    # Batches --------------------------------------------------------------------------------------

    def batch(self, axis, operands, dims, params):
        consts, carry, xs = params.split(operands)
        const_dims, carry_dims, xs_dims = params.split(dims)
        # Axis 0 of xs is that of steps, which the body doesn't see; a batch there is moved to axis 1 below.
        inner_xs_dims = [None if d is None else max(d - 1, 0) for d in xs_dims]
        n = params.num_carry
        n_ys = len(params.jaxpr.jaxpr.outvars) - n
        (program, more, out_dims), batched = with_settled_carry(
            lambda batched: batch_jaxpr(
                params.jaxpr.jaxpr,
                axis,
                # Consts, carry, xs. The carry must have the same batching before and after a step.
                [*const_dims, *(0 if b else None for b in batched), *inner_xs_dims],
                [*batched, *[False] * n_ys],
            ),
            [d is not None for d in carry_dims],
        )
        carry = aligned_at(axis, carry, carry_dims, [0 if b else None for b in batched])
        xs = [move_axis(x, 0, 1) if d == 0 else x for x, d in strict_zip(xs, xs_dims)]
        results = bind(
            self, *more, *consts, *carry, *xs,
            params=params._replace(jaxpr=program, num_consts=len(more) + params.num_consts),
        )  # fmt: skip
        # The body returns ys with the batch at axis 0; stacked, axis 0 is that of steps, and the batch follows.
        return results, [*out_dims[:n], *(None if d is None else 1 for d in out_dims[n:])]

    # Running --------------------------------------------------------------------------------------

    def lower(self, ctx, operands, params):
        jaxpr, length, n = params.jaxpr.jaxpr, params.length, params.num_carry
        consts, carry, xs = params.split(operands)
        _, _, xs_avals = params.split(ctx.avals_in)
        ys_avals = ctx.avals_out[n:]
        dtype = counter_dtype(length)
        counter = shaped_array((), dtype)

        def advance(i: Any, by: int) -> Any:
            with ctx.named("", "add"):
                return ctx.op1("stablehlo.add", counter, [i, ctx.constant(dtype.type(by))])

        def steps(first: Any, values: Operands, count: int) -> Values:
            """Carry and outputs after `count` steps, starting with step `first`."""
            # `values` are the carry, then all of ys, of which each step writes one element.
            carry, ys = values[:n], values[n:]
            for k in range(count):
                i = advance(first, k) if k else first
                if params.reverse:
                    last = ctx.constant(length - 1, dtype)
                    with ctx.named("", "sub"):
                        i = ctx.op1("stablehlo.subtract", counter, [last, i])
                # The body takes one element of each of xs, and returns (carry, one element for each of ys).
                elements = [
                    element_at(ctx, x, a, i, element_type(a)) for x, a in strict_zip(xs, xs_avals)
                ]
                with ctx.named("closed_call/"):
                    results = ctx.inline(jaxpr, (), [*consts, *carry, *elements])
                carry = results[:n]
                ys = [
                    with_element_at(ctx, y, a, i, x, element_type(a))
                    for y, a, x in strict_zip(ys, ys_avals, results[n:])
                ]
            return [*carry, *ys]

        with ctx.named("", "broadcast_in_dim"):
            # Ys are initialized with zeros, and filled with one element per step.
            values = [*carry, *map(ctx.zeros, ys_avals)]
        unroll = _steps_per_trip(params)
        # `trips` iterations of a while loop with `unroll` steps each, then `rest` steps after it.
        trips, rest = divmod(length, unroll) if unroll else (0, 0)
        zero = dtype.type(0)
        if trips == 1:
            values = steps(ctx.constant(zero), values, unroll)
        elif isinstance(trips, Symbol) or trips:
            limit = trips * unroll

            def condition(values):
                with ctx.named("", "lt"):
                    return ctx.compare(values[0], ctx.constant(limit, dtype), "LT", counter)

            def body(values):
                i, *before = values
                after = steps(i, before, unroll)
                return [advance(i, unroll), *after]

            # Values carried by the while loop: the counter, the carry, ys.
            avals = [counter, *params.split(jaxpr.in_avals)[1], *ys_avals]
            initial = [ctx.constant(zero), *values]
            values = while_loop(
                ctx, avals, initial, condition, body, ordered_effects_of(jaxpr.effects)
            )[1:]
        if rest:
            values = steps(ctx.constant(dtype.type(length - rest)), values, rest)
        return values


scan_p = Scan()


def _steps_per_trip(params: ScanParams) -> int:
    """Steps per iteration of the compiled loop; 1 if their total number is symbolic, and may be no multiple of
    `params.unroll`.
    """
    unroll, length = params.unroll, params.length
    if isinstance(length, Symbol):
        return unroll if unroll and exact_quotient(length, unroll) is not None else 1
    return min(unroll, length) if unroll else length


def _residuals(operands: Operands) -> Values:
    return [x for x in operands if not is_linear(x)]


# Forward mode -----------------------------------------------------------------------------------------


def _jvp_body(jaxpr: Jaxpr, consts: Mask, carry: list[bool], xs: Mask = ()) -> tuple[Derived, Mask]:
    """(body of values and tangents, mask of carries with tangents).

    Its inputs and results are (values, tangents) within each of their groups.
    """
    n = len(carry)
    n_ys = len(jaxpr.outvars) - n
    derived, carried = with_settled_carry(
        lambda carried: jvp_jaxpr(jaxpr, [*consts, *carried, *xs], [*carried, *[False] * n_ys]),
        carry,
    )
    # Inputs before: consts of the derived body, values (consts, carry, xs), tangents (consts, carry, xs).
    first = len(derived.consts)
    # After: consts, their tangents, carry, its tangents, xs, their tangents.
    inputs = [*range(first), *_interleaved_indices(first, consts, carried, xs)]
    # Results before: carry, ys, tangents of both. After: carry, its tangents, ys, their tangents.
    results = _interleaved_indices(0, carried, derived.mask[n:]) if n_ys else None
    program = rearrange_program(derived.program, inputs, results)
    return derived._replace(program=program), carried


def _interleaved_indices(start: int, *masks: Mask) -> list[int]:
    """For each group, the indices of its values, then of its tangents, in a list of all values (from `start`), then all
    tangents.

    The mask of a group marks the values with tangents.
    """
    order = []
    # Start of the next group, among values and among tangents.
    value, tangent = start, start + sum(map(len, masks))
    for mask in masks:
        n, n_tangents = len(mask), sum(mask)
        order += [*range(value, value + n), *range(tangent, tangent + n_tangents)]
        value, tangent = value + n, tangent + n_tangents
    return order


# Linearize --------------------------------------------------------------------------------------------


class ScanParts(NamedTuple):
    """A linearized scan.

    `primal` takes (`consts`, the loop's constants, `hoisted` values, carry, inputs) and returns (carry, outputs,
    residuals of each step). `hoisted` computes once, from (`consts`, the loop's constants), the residuals that are
    equal in all steps. `linear` takes (residuals `fixed` for the loop, tangents of constants, tangents of the carry,
    residuals `per_step`, tangents of inputs). Residuals are of kind "const", "hoisted", "xs", "result" or "constant".
    `mask` marks results with tangents, `carried` carries with tangents.
    """

    primal: ClosedJaxpr
    consts: Values
    hoisted: Jaxpr
    linear: ClosedJaxpr
    fixed: list[Source]
    per_step: list[Source]
    constants: Values
    mask: Mask
    carried: Mask


@remembered_on_program
def split_scan(params: ScanParams, nonzero: Mask) -> ScanParts:
    """The primal and linear part of a scan whose operands have tangents marked by `nonzero`."""
    # Residuals are saved once per step, so fewer bytes are worth recomputing an equation.
    length = params.length if is_static((params.length,)) else 1
    worth = Worth(-(-WORTH_AN_EQUATION // max(length, 1)), by_kernel=False)
    consts_nz, carried, xs_nz = params.split([*nonzero])
    n_carry = params.num_carry
    n_ys = len(params.jaxpr.jaxpr.outvars) - n_carry
    # The mask of the carry's tangents must be equal before and after a step: repeat until `carried` is stable.
    parts, carried = with_settled_carry(
        lambda carried: linearize_jaxpr(
            params.jaxpr.jaxpr,
            [*consts_nz, *carried, *xs_nz],
            [*carried, *[False] * n_ys],
            recompute=worth,
        ),
        carried,
    )
    body = parts.primal.jaxpr
    # `body` takes (`parts.consts`, consts, carry, xs), returns (carry, ys, residuals that are neither inputs nor
    # results).
    n_consts, n_results = len(parts.consts) + params.num_consts, n_carry + n_ys
    invariant = _invariant_atoms(body, n_consts)
    inputs: dict[Any, int] = {v: i for i, v in enumerate(body.invars)}
    outputs = body.outvars[n_carry:n_results]
    # Variables of `body` that `place` finds to be needed: computed before the loop, and stacked as additional ys.
    hoisted: Values = []
    stacked_atoms: Values = []

    def place(source: Source) -> Source:
        """Where a residual is available; records what must be hoisted or stacked for it."""
        if source.kind == "constant":
            return source
        is_input = source.kind == "input"
        atom = (
            body.invars[len(parts.consts) + source.index]
            if is_input
            else body.outvars[source.index]
        )
        if atom in invariant:
            if atom in inputs:
                return Source("const", inputs[atom])
            return Source("hoisted", _index_of(atom, hoisted))
        # An element of xs: the linear loop takes that array, too.
        if inputs.get(atom, -1) >= n_consts + n_carry:
            return Source("xs", inputs[atom] - n_consts - n_carry)
        # An element of ys is stacked already. Others (the carry, intermediate values) are stacked additionally.
        if atom in outputs:
            return Source("result", n_carry + outputs.index(atom))
        return Source("result", n_results + _index_of(atom, stacked_atoms))

    places = [place(source) for source in parts.sources]
    primal, hoist = _hoist_program(
        body, n_consts, [*body.outvars[:n_results], *stacked_atoms], hoisted
    )
    # Residual indices: those that are equal in all steps, and those that differ between steps.
    is_fixed = [p.kind in ("const", "hoisted", "constant") for p in places]
    fixed = [i for i, f in enumerate(is_fixed) if f]
    per_step = [i for i, f in enumerate(is_fixed) if not f]
    n_inputs = len(parts.linear.jaxpr.invars)
    first_xs = len(places) + sum(consts_nz) + sum(carried)
    # Before: residuals, tangents (consts, carry, xs). After: `fixed`, tangents (consts, carry), `per_step`, tangents (xs).
    order = [*fixed, *range(len(places), first_xs), *per_step, *range(first_xs, n_inputs)]
    return ScanParts(
        primal, parts.consts, hoist, rearrange_program(parts.linear, order),
        [places[i] for i in fixed], [places[i] for i in per_step],
        parts.constants, parts.nonzero_out, carried,
    )  # fmt: skip


def _invariant_atoms(body: Jaxpr, n_consts: int) -> set[Any]:
    """The variables of `body` that only depend on its first `n_consts` inputs."""
    # Built in the order of equations, so that the operands of an equation come first.
    invariant: set[Any] = set(body.invars[:n_consts])
    for equation in body.equations:
        if not equation.effects and all(
            type(a) is Literal or a in invariant for a in equation.operands
        ):
            invariant.update(equation.results)
    return invariant


def _index_of(atom, atoms: Values) -> int:
    """The index of `atom` in `atoms`, to which it is added if it is missing."""
    if atom not in atoms:
        atoms.append(atom)
    return atoms.index(atom)


def _hoist_program(
    body: Jaxpr, n_consts: int, results: Results, hoisted: Operands
) -> tuple[ClosedJaxpr, Jaxpr]:
    """(body with `results` and with `hoisted` as additional constants, program that computes these)."""
    consts, n = body.invars[:n_consts], len(body.invars)
    pure = [e for e in body.equations if not e.effects]
    hoist, _ = remove_dead_equations(
        Jaxpr((), consts, pure, hoisted, debug=without_names(body.debug)), keep_inputs=True
    )
    primal = with_variables_as_inputs(body, hoisted, results)
    # `with_variables_as_inputs` has the hoisted values after all inputs; as constants of the loop, they move after its consts.
    order = [*range(n_consts), *range(n, len(primal.invars)), *range(n_consts, n)]
    return rearrange_program(ClosedJaxpr(primal), order), hoist


# Transpose --------------------------------------------------------------------------------------------


def _linear_operands(params: ScanParams, is_operand: Mask) -> Mask:
    """The operands in which the loop is linear: those marked as linear operands, and carries that depend on them.

    Such a carry starts with a constant, which is zero because the loop is linear.
    """
    jaxpr, n_carry = params.jaxpr.jaxpr, params.num_carry
    consts, carry, xs = params.split(list(is_operand))
    while True:
        # Variables of the body that depend on a linear input.
        reached = {v for v, m in strict_zip(jaxpr.invars, [*consts, *carry, *xs]) if m}
        for equation in jaxpr.equations:
            if any(a in reached for a in equation.operands if type(a) is not Literal):
                reached.update(equation.results)
        out = jaxpr.outvars[:n_carry]
        # A carry whose next value depends on a linear input is linear; repeated until there is no further one.
        more = [m or (type(a) is not Literal and a in reached) for m, a in strict_zip(carry, out)]
        if more == carry:
            return (*consts, *carry, *xs)
        carry = more


@remembered_on_program
def transposed_body(params: ScanParams, linear: Mask, ct_avals: Avals) -> Derived:
    """The body of the reversed loop, for operands marked `linear`; `ct_avals` are types of cotangents, None for zeros.

    It takes (`consts`, residual constants, sums of cotangents of the linear constants, cotangents of the carry and of
    the outputs, residual inputs) and returns (sums, cotangents of the carry and of the linear inputs). Its mask marks
    the linear operands that have a cotangent.
    """
    jaxpr, n_carry = params.jaxpr.jaxpr, params.num_carry
    # Flags of consts, carry, xs; all carries are linear here.
    consts_linear, _, xs_linear = params.split(linear)
    n_consts, n_xs = sum(consts_linear), sum(xs_linear)
    # Carries with a nonzero cotangent: `ct_avals` are types for (carry, ys), None for zero.
    carry_mask = tuple([a is not None for a in ct_avals[:n_carry]])
    ys_avals = ct_avals[n_carry:]
    carry_avals = [
        o.tangent() if a is None else a for a, o in strict_zip(ct_avals, jaxpr.out_avals)
    ][:n_carry]
    consts_in, _, xs_in = params.split(jaxpr.in_avals)
    while True:
        # Flags of linear inputs. A carry must have a cotangent both before and after a reversed step.
        want = [*[False] * n_consts, *carry_mask, *[False] * n_xs]
        avals = [a if m else None for a, m in strict_zip(carry_avals, carry_mask)]
        derived = transpose_jaxpr(
            jaxpr, linear, [*avals, *ys_avals], want, [*consts_in, *carry_avals, *xs_in]
        )
        out_mask = derived.mask[n_consts : n_consts + n_carry]
        if out_mask == carry_mask:
            break
        carry_mask = out_mask
    n_sums, transposed = sum(derived.mask[:n_consts]), derived.program
    residual_avals = [a for a, is_linear in strict_zip(jaxpr.in_avals, linear) if not is_linear]
    n_residual_consts = params.num_consts - n_consts
    # Types of the new body's inputs by group, without the last one, residual xs.
    groups = [
        transposed.in_avals[: len(derived.consts)], residual_avals[:n_residual_consts],
        transposed.out_avals[:n_sums], [a for a in (*avals, *ys_avals) if a is not None],
    ]  # fmt: skip

    def body(*arguments):
        consts, residual_consts, sums, cts, residual_xs = consecutive(map(len, groups), arguments)
        # `transposed` takes all residuals together, then cotangents, and returns cotangents of consts, carry, xs.
        cts = replay(transposed.jaxpr, (), *consts, *residual_consts, *residual_xs, *cts)
        return [*map(add_tangents, sums, cts[:n_sums]), *cts[n_sums:]]

    avals = [*chain(*groups), *residual_avals[n_residual_consts:]]
    # Names follow their inputs to these places.
    n_kept = len(derived.consts) + n_residual_consts
    first_ct = len(derived.consts) + len(residual_avals)
    places = [
        *range(n_kept), *[None] * n_sums, *range(first_ct, len(transposed.in_avals)),
        *range(n_kept, first_ct),
    ]  # fmt: skip
    debug = transposed.jaxpr.debug
    debug = debug and debug.rearranged(len(transposed.in_avals), places)
    program, consts = stage_open(body, avals, debug)
    return Derived(program, [*consts, *derived.consts], derived.mask)


def _transpose_by_parts(
    scan: Scan, cotangents: Operands, operands: Operands, params: ScanParams
) -> Results:
    """Transposes a loop that also carries nonlinear values, such as a counter."""

    def run(*linear):
        # Linear operands from the arguments, the others unchanged.
        return bind(scan, *merge_by_mask(map(is_linear, operands), linear, operands), params=params)

    avals = [x.aval for x in operands if is_linear(x)]
    cts = transposed_flat(run, avals, cotangents)
    return cotangents_of(operands, cts, [True] * len(avals))


def transposed_flat(function: Callable[..., Results], avals: Avals, cotangents: Operands) -> Values:
    """Cotangents of the arguments, of types `avals`, of a linear function of flat values: the transpose of its
    derivative at zero.
    """
    at_zero = [*map(zeros, avals)]
    _, program, _ = linearize_flat(lambda *xs: (function(*xs), ()), at_zero, [True] * len(at_zero))
    return program.pulled_back(cotangents)


# while ----------------------------------------------------------------------------------------------


class WhileParams(NamedTuple):
    """Operands are constants of the condition, constants of the body, and the initial carry."""

    body_jaxpr: ClosedJaxpr
    body_nconsts: int
    cond_jaxpr: ClosedJaxpr
    cond_nconsts: int

    def split(self, values: Operands) -> tuple[Any, Any, Any]:
        """Splits a list with an entry per operand into (constants of the condition, constants of the body, carry)."""
        n, m = self.cond_nconsts, self.cond_nconsts + self.body_nconsts
        return values[:n], values[n:m], values[m:]


class While(Linearized, Structured[WhileParams]):
    """`while condition(carry): carry = body(carry)`."""

    name = "while"

    def abstract_eval(self, avals, params):
        return params.body_jaxpr.out_avals

    def effects(self, avals, params):
        return params.body_jaxpr.effects | params.cond_jaxpr.effects

    def slots(self, params):
        # Operand groups: 0 consts of the condition, 1 consts of the body, 2 carry. The only result group is the carry.
        carry = SlotGroup(Role.CARRY, len(params.body_jaxpr.jaxpr.outvars))
        constants = [
            SlotGroup(Role.CONSTANT, n) for n in (params.cond_nconsts, params.body_nconsts)
        ]
        return Slots(
            (*constants, carry),
            (carry,),
            (Slot(params.cond_jaxpr, (0, 2), ()), Slot(params.body_jaxpr, (1, 2), (0,))),
            None,
        )

    def with_slots(self, params, slots):
        (condition, body), (tested, consts, _) = slots.programs, slots.operands
        return WhileParams(body.program, consts.size, condition.program, tested.size)

    # Derivatives ----------------------------------------------------------------------------------

    def jvp(self, primals, tangents, params):
        operands, both, carried = _differentiate(params, primals, tangents, instantiate)
        return split_tangents(bind(self, *operands, params=both), carried)

    def linearize(self, trace, primals, tangents, params):
        if uses_state(self.effects((), params)):
            raise EffectsError(
                "reverse mode and `linearize` can't go through a `while_loop` with references: it would run twice.",
                do="Use `scan`, or `fori_loop` with bounds that are Python ints; forward mode (jvp) works as it is.",
            )
        results = bind(self, *primals, params=params)
        # The number of steps is unknown, so residuals can't be stored: the linear loop recomputes everything.
        # `both` carries values and tangents; only the tangents of its results are linear, so the values are dropped.
        operands, both, carried = _differentiate(params, primals, tangents, trace.linear_value)
        out_tangents: Results = ()
        if any(carried):
            out_tangents = trace.stage_linear(self, operands, both)[len(results) :]
        return split_tangents([*results, *out_tangents], carried)

    def transpose(self, cotangents, operands, params):
        raise IrreversibleLoopError(
            "reverse mode can't go through a loop whose number of steps is known only when it runs.",
            got="a `while_loop`, or a `fori_loop` with traced bounds",
            do="Use `scan`, or `fori_loop` with bounds that are Python ints, or state the derivative: `custom_vjp`; forward mode (jvp, jacfwd) works as it is.",
        )

    # Batches --------------------------------------------------------------------------------------

    def batch(self, axis, operands, dims, params):
        cond_dims, body_dims, carry_dims = params.split(dims)
        cond_consts, body_consts, carry = params.split(operands)
        # One flag per carry: batched initially, by the body, or because elements end separately; repeated until stable.
        carry_batched = [d is not None for d in carry_dims]
        while True:
            inner = [0 if b else None for b in carry_batched]
            condition = batch_jaxpr(params.cond_jaxpr.jaxpr, axis, [*cond_dims, *inner])
            body = batch_jaxpr(params.body_jaxpr.jaxpr, axis, [*body_dims, *inner], carry_batched)
            # The condition differs between elements: some continue while others have ended.
            ends_apart = condition.mask[0] is not None
            out_batched = [ends_apart or d is not None for d in body.mask]
            if out_batched == carry_batched:
                break
            carry_batched = out_batched
        if ends_apart and uses_state(self.effects((), params)):
            return batch_on_values(self, axis, operands, dims, params)
        if ends_apart and has_guards(self.effects((), params)):
            return late("batched guards")(self, axis, operands, dims, params)
        carry = aligned_at(axis, carry, carry_dims, inner)
        if ends_apart:
            cond_consts = [*condition.consts, *cond_consts]
            # The body also tests which elements continue, so it takes the operands of the condition first.
            body_consts = [*cond_consts, *body.consts, *body_consts]
            condition, body = _ending_apart(params, condition, body)
        cond_consts = [*condition.consts, *cond_consts]
        body_consts = [*body.consts, *body_consts]
        new = WhileParams(body.program, len(body_consts), condition.program, len(cond_consts))
        results = bind(self, *cond_consts, *body_consts, *carry, params=new)
        return results, inner

    # Running --------------------------------------------------------------------------------------

    def lower(self, ctx, operands, params):
        cond_consts, body_consts, carry = params.split(operands)
        cond_jaxpr, body_jaxpr = params.cond_jaxpr.jaxpr, params.body_jaxpr.jaxpr
        avals = body_jaxpr.in_avals[params.body_nconsts :]
        effects = ordered_effects_of(cond_jaxpr.effects | body_jaxpr.effects)

        def condition(values):
            return ctx.inline(cond_jaxpr, (), [*cond_consts, *values])[0]

        def body(values):
            return ctx.inline(body_jaxpr, (), [*body_consts, *values])

        if not ordered_effects_of(cond_jaxpr.effects):
            return while_loop(ctx, avals, carry, condition, body, effects)
        # A condition can't return tokens, so one with ordered effects is computed in the body, for the next step.
        go_on = condition(list(carry))

        def step(values):
            # `values` are whether to continue, then the carry.
            new = body(values[1:])
            return [condition(new), *new]

        return while_loop(
            ctx, [_BOOL, *avals], [go_on, *carry], lambda values: values[0], step, effects
        )[1:]


while_p = While()
_BOOL = shaped_array((), np.dtype(bool))


def _differentiate(
    params: WhileParams, primals: Operands, tangents: Operands, as_value: Unary
) -> tuple[Values, WhileParams, Mask]:
    """(operands and params of the loop over values and tangents, mask of carries with tangents).

    Constants and carries are followed by their tangents; `as_value` converts a carried tangent to an array.
    """
    # `tested` are consts of the condition, which only depends on values, so their tangents are dropped.
    tested, consts, carry = params.split(primals)
    _, t_consts, t_carry = params.split(tangents)
    body, carried = _jvp_body(
        params.body_jaxpr.jaxpr, nonzero_mask(t_consts), nonzero_mask(t_carry)
    )
    t_carry = map(as_value, compress(t_carry, carried))
    constants = [*body.consts, *consts, *nonzero(t_consts)]
    tangent_avals = [a.tangent() for a in compress(params.body_jaxpr.out_avals, carried)]
    # Inputs before: its consts, the carry. After: the same, then the carried tangents, which it ignores.
    condition = rearrange_program(
        params.cond_jaxpr, [*range(len(params.cond_jaxpr.jaxpr.invars)), *tangent_avals]
    )
    both = WhileParams(body.program, len(constants), condition, params.cond_nconsts)
    return [*tested, *constants, *carry, *t_carry], both, carried


def _ending_apart(
    params: WhileParams, condition: Derived, body: Derived
) -> tuple[Derived, Derived]:
    """Condition and body of a loop over a batch whose elements end after different numbers of steps.

    It continues while any element does; ended elements keep their values. The body takes the constants of the
    condition, then its own.
    """
    check_batched_effects("while_loop", while_p.effects((), params))
    tested, jaxpr = condition.program.jaxpr, body.program.jaxpr

    def any_goes_on() -> Derived:
        run = lambda *values: [reduce_or(replay(tested, (), *values)[0], (0,))]
        return Derived(*stage_open(run, tested.in_avals, tested.debug), (None,))

    def guarded_step() -> Derived:
        # Both programs take (own consts, carry); `step` takes consts of the condition, of the body, then the carry.
        n_carry = len(jaxpr.outvars)
        n_tested = len(tested.invars) - n_carry

        def step(*values):
            carry = values[len(values) - n_carry :]
            [goes_on] = replay(tested, (), *values[:n_tested], *carry)
            new = replay(jaxpr, (), *values[n_tested:])
            # False selects the first case: ended elements keep their carry.
            return [select_rows(goes_on, x, y) for x, y in strict_zip(carry, new)]

        avals = [*tested.in_avals[:n_tested], *jaxpr.in_avals]
        return Derived(*stage_open(step, avals, jaxpr.debug), body.mask)

    return (
        cache_on_program(jaxpr, ("any goes on", tested), any_goes_on),
        cache_on_program(jaxpr, ("step of those that go on", tested), guarded_step),
    )
