"""A control-flow primitive as CONTRIBUTING describes one: its params, its class, its function, and no registry elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid import lax
from pellucid._machine.higher_order.calls import Defined, JitParams
from pellucid._machine.ir.avals import shaped_array
from pellucid._machine.ir.jaxpr import ClosedJaxpr
from pellucid._machine.ir.slots import (
    Role,
    Slot,
    SlotGroup,
    Slots,
)
from pellucid._machine.lowering.loops import while_loop as lowered_loop
from pellucid._machine.lowering.module import ordered_effects_of
from pellucid._machine.tracing.operands import type_of
from pellucid._machine.tracing.staging import replay
from pellucid._machine.tracing.trace import bind
from pellucid._machine.transforms.derived import cache_on_program, stage_open

BOOL = shaped_array((), np.dtype(bool))


class RepeatUntilParams(NamedTuple):
    """Operands are constants of the predicate, constants of the body, and the initial carry."""

    body_jaxpr: ClosedJaxpr
    body_nconsts: int
    until_jaxpr: ClosedJaxpr
    until_nconsts: int

    def split(self, values: Sequence[Any]) -> tuple[Any, Any, Any]:
        """(constants of the predicate, constants of the body, carry) among things given for each operand."""
        n, m = self.until_nconsts, self.until_nconsts + self.body_nconsts
        return values[:n], values[n:m], values[m:]

    def as_call(self) -> JitParams:
        """Params of a call that runs the body once, then in a `while_loop`."""
        body, until = self.body_jaxpr.jaxpr, self.until_jaxpr.jaxpr

        def run(*operands: Any) -> Sequence[Any]:
            tested, consts, carry = self.split(operands)
            return lax.while_loop(
                lambda carry: lax.bitwise_not(replay(until, (), *tested, *carry)[0]),
                lambda carry: replay(body, (), *consts, *carry),
                replay(body, (), *consts, *carry),
            )

        avals = [*until.in_avals[: self.until_nconsts], *body.in_avals]
        key = ("repeat until", until, self.until_nconsts)
        program = cache_on_program(body, key, lambda: stage_open(run, avals, body.debug)[0])
        return JitParams("repeat_until", program)


class RepeatUntil(Defined[RepeatUntilParams]):
    """`repeat: carry = body(carry) until predicate(carry)`."""

    name = "repeat_until"

    def slots(self, params: RepeatUntilParams) -> Slots:
        carry = SlotGroup(Role.CARRY, len(params.body_jaxpr.jaxpr.outvars))
        constants = [
            SlotGroup(Role.CONSTANT, n) for n in (params.until_nconsts, params.body_nconsts)
        ]
        return Slots(
            (*constants, carry),
            (carry,),
            (Slot(params.until_jaxpr, (0, 2), ()), Slot(params.body_jaxpr, (1, 2), (0,))),
            None,
            ends=True,
        )

    def lower(self, ctx: Any, operands: Sequence[Any], params: RepeatUntilParams) -> Sequence[Any]:
        tested, consts, carry = params.split(operands)
        until, body = params.until_jaxpr.jaxpr, params.body_jaxpr.jaxpr
        if ordered_effects_of(until.effects | body.effects):
            return super().lower(ctx, operands, params)

        def step(values: list[Any]) -> list[Any]:
            new = ctx.inline(body, (), [*consts, *values[1:]])
            [ends] = ctx.inline(until, (), [*tested, *new])
            return [ctx.op1("stablehlo.not", BOOL, [ends]), *new]

        avals = [BOOL, *body.in_avals[params.body_nconsts :]]
        initial = [ctx.constant(np.bool_(True)), *carry]
        return lowered_loop(ctx, avals, initial, lambda values: values[0], step)[1:]


repeat_until_p = RepeatUntil()


def repeat_until(body: Callable[[Any], Any], predicate: Callable[[Any], Any], initial: Any) -> Any:
    """The array that `body` makes of `initial`, then of its own results until `predicate` holds of one.

    >>> repeat_until(lambda x: x * 2, lambda x: x > 10, 3)
    Array(12, dtype=int32, weak_type=True)
    """
    avals = [type_of(initial)]
    until, tested = stage_open(lambda x: [predicate(x)], avals, None)
    step, consts = stage_open(lambda x: [body(x)], avals, None)
    params = RepeatUntilParams(step, len(consts), until, len(tested))
    return bind(repeat_until_p, *tested, *consts, initial, params=params)[0]
