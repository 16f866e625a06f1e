"""The primitive `while`: a loop whose number of steps is known only when it runs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from pellucid.base import EffectsError, IrreversibleLoopError, strict_zip
from pellucid.ir import (
    ClosedJaxpr,
    Group,
    Linearized,
    Operands,
    Results,
    Role,
    Slot,
    Slots,
    StateEffect,
    rearranged,
    shaped_array,
)
from pellucid.lowering.loops import while_loop as lowered_while
from pellucid.lowering.module import ordered
from pellucid.primitives.logical import select_n
from pellucid.primitives.movement import broadcast_in_dim, brought_to
from pellucid.primitives.reduction import reduce_or
from pellucid.tracing import bind, replay, type_of
from pellucid.transforms.derived import Derived, remembered, stage_open
from pellucid.transforms.jvp import jvp_jaxpr
from pellucid.transforms.vmap import batch_jaxpr
from pellucid.transforms.zeros import instantiate, nonzero, nonzero_mask, paired

from .bodies import check_batched_effects
from .scan import interleaved
from .structured import Structured


class WhileParams(NamedTuple):
    """Operands are constants of the condition, constants of the body, and the initial carry."""

    body_jaxpr: ClosedJaxpr
    body_nconsts: int
    cond_jaxpr: ClosedJaxpr
    cond_nconsts: int

    def split(self, values: Operands) -> tuple[Any, Any, Any]:
        """(constants of the condition, constants of the body, carry) among things given for each operand."""
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
        carry = Group(Role.CARRY, len(params.body_jaxpr.jaxpr.outvars))
        constants = [Group(Role.CONSTANT, n) for n in (params.cond_nconsts, params.body_nconsts)]
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
        loop = _DifferentiatedLoop(params, tangents)
        results = bind(self, *loop.operands(primals, instantiate), params=loop.params)
        return paired(results, loop.carried)

    def linearize(self, trace, primals, tangents, params):
        if any(isinstance(effect, StateEffect) for effect in self.effects((), params)):
            raise EffectsError(
                "reverse mode can't go through a `while_loop` that uses references: it would run twice.",
                do="Use `scan`, or `fori_loop` with bounds that are Python ints; forward mode (jvp) works as it is.",
            )
        results = bind(self, *primals, params=params)
        loop = _DifferentiatedLoop(params, tangents)
        out_tangents: Results = ()
        if any(loop.carried):
            # The number of steps is not known, so residuals have no size: the linear loop computes all again.
            operands = loop.operands(primals, trace.linear_value)
            out_tangents = trace.stage_linear(self, operands, loop.params)[len(results) :]
        return paired([*results, *out_tangents], loop.carried)

    def transpose(self, cotangents, operands, params):
        raise IrreversibleLoopError(
            "reverse mode can't go through a loop whose number of steps is known only when it runs.",
            got="a `while_loop`, or a `fori_loop` with traced bounds",
            do="Use `scan`, or `fori_loop` with bounds that are Python ints; forward mode (jvp, jacfwd) works as it is.",
        )

    # Batches --------------------------------------------------------------------------------------

    def batch(self, axis, operands, dims, params):
        cond_dims, body_dims, carry_dims = params.split(dims)
        cond_consts, body_consts, carry = params.split(operands)
        carry_batched = [d is not None for d in carry_dims]
        while True:
            inner = [0 if b else None for b in carry_batched]
            condition = batch_jaxpr(params.cond_jaxpr.jaxpr, axis, [*cond_dims, *inner])
            body = batch_jaxpr(params.body_jaxpr.jaxpr, axis, [*body_dims, *inner], carry_batched)
            ends_apart = condition.mask[0] is not None
            out_batched = [ends_apart or d is not None for d in body.mask]
            if out_batched == carry_batched:
                break
            carry_batched = out_batched
        carry = [
            brought_to(axis, x, d, 0) if b else x
            for x, d, b in strict_zip(carry, carry_dims, carry_batched)
        ]
        if ends_apart:
            cond_consts = [*condition.consts, *cond_consts]
            body_consts = [*cond_consts, *body.consts, *body_consts]
            condition, body = _ending_apart(params, condition, body)
        cond_consts = [*condition.consts, *cond_consts]
        body_consts = [*body.consts, *body_consts]
        new = WhileParams(body.program, len(body_consts), condition.program, len(cond_consts))
        results = bind(self, *cond_consts, *body_consts, *carry, params=new)
        return results, [0 if b else None for b in carry_batched]

    # Running --------------------------------------------------------------------------------------

    def lower(self, ctx, operands, params):
        cond_consts, body_consts, carry = params.split(operands)
        cond_jaxpr, body_jaxpr = params.cond_jaxpr.jaxpr, params.body_jaxpr.jaxpr
        avals = body_jaxpr.in_avals[params.body_nconsts :]
        effects = ordered(cond_jaxpr.effects | body_jaxpr.effects)

        def condition(values):
            return ctx.inline(cond_jaxpr, (), [*cond_consts, *values])[0]

        def body(values):
            return ctx.inline(body_jaxpr, (), [*body_consts, *values])

        if not ordered(cond_jaxpr.effects):
            return lowered_while(ctx, avals, carry, condition, body, effects)
        # A condition gives no tokens on, so one with ordered effects is computed in the body, for the next step.
        go_on = condition(list(carry))

        def step(values):
            new = body(values[1:])
            return [condition(new), *new]

        return lowered_while(
            ctx, [_BOOL, *avals], [go_on, *carry], lambda values: values[0], step, effects
        )[1:]


while_p = While()
_BOOL = shaped_array((), np.dtype(bool))


class _DifferentiatedLoop:
    """The loop over values and tangents: constants and carries are followed by their tangents."""

    def __init__(self, params: WhileParams, tangents: Operands) -> None:
        jaxpr = params.body_jaxpr.jaxpr
        self.source = params
        _, consts, carry = params.split(nonzero_mask(tangents))
        while True:
            derived = jvp_jaxpr(jaxpr, [*consts, *carry], carry)
            if list(derived.mask) == list(carry):
                break
            carry = derived.mask
        self.carried = list(carry)
        self.tangents = params.split(tangents)
        self.consts = derived.consts
        n_consts, n_carry, first = params.body_nconsts, len(jaxpr.outvars), len(derived.consts)
        sizes, tangent_sizes = [n_consts, n_carry], [sum(consts), sum(carry)]
        inputs = [*range(first), *interleaved(first, sizes, tangent_sizes)]
        tangent_avals = [a.tangent() for a, c in strict_zip(jaxpr.out_avals, carry) if c]
        tested = range(len(params.cond_jaxpr.jaxpr.invars))
        self.params = WhileParams(
            rearranged(derived.program, inputs), first + n_consts + sum(consts),
            rearranged(params.cond_jaxpr, [*tested, *tangent_avals]), params.cond_nconsts,
        )  # fmt: skip

    def operands(self, primals: Operands, carried: Callable[[Any], Any]) -> tuple[Any, ...]:
        """Operands of the loop; `carried` makes an array of a tangent that the loop carries."""
        cond_consts, body_consts, carry = self.source.split(primals)
        _, const_tangents, carry_tangents = self.tangents
        return (
            *cond_consts, *self.consts, *body_consts, *nonzero(const_tangents), *carry,
            *map(carried, compress(carry_tangents, self.carried)),
        )  # fmt: skip


def _ending_apart(
    params: WhileParams, condition: Derived, body: Derived
) -> tuple[Derived, Derived]:
    """Condition and body of a loop over a batch whose elements end at different steps.

    It continues while one of them does; elements that have ended keep their values. The body takes the constants of
    the condition, then its own.
    """
    check_batched_effects("while_loop", while_p.effects((), params))
    jaxpr = body.program.jaxpr
    test = remembered(
        jaxpr, ("any goes on", condition.program.jaxpr), lambda: _any_goes_on(condition)
    )
    step = remembered(
        jaxpr,
        ("step of those that go on", condition.program.jaxpr),
        lambda: _guarded_step(condition, body),
    )
    return test, step


def _any_goes_on(condition: Derived) -> Derived:
    jaxpr = condition.program.jaxpr
    program, consts = stage_open(
        lambda *values: [reduce_or(replay(jaxpr, (), *values)[0], (0,))],
        jaxpr.in_avals,
        jaxpr.debug,
    )
    return Derived(program, consts, (None,))


def _guarded_step(condition: Derived, body: Derived) -> Derived:
    cond_jaxpr, body_jaxpr = condition.program.jaxpr, body.program.jaxpr
    n_carry = len(body_jaxpr.outvars)
    n_cond = len(cond_jaxpr.invars) - n_carry

    def step(*values):
        carry = values[len(values) - n_carry :]
        [goes_on] = replay(cond_jaxpr, (), *values[:n_cond], *carry)
        new = replay(body_jaxpr, (), *values[n_cond:])
        return [_chosen(goes_on, x, y) for x, y in strict_zip(carry, new)]

    avals = [*cond_jaxpr.in_avals[:n_cond], *body_jaxpr.in_avals]
    program, consts = stage_open(step, avals, body_jaxpr.debug)
    return Derived(program, consts, body.mask)


def _chosen(goes_on, old, new):
    """`new` for the elements of a batch that go on, `old` for the others."""
    shape = type_of(new).shape
    return select_n(broadcast_in_dim(goes_on, shape, (0,)) if len(shape) > 1 else goes_on, old, new)
