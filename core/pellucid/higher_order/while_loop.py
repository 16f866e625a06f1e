"""The primitive `while`: a loop whose number of steps is known only when it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid.base.errors import EffectsError, IrreversibleLoopError
from pellucid.higher_order.bodies import check_batched_effects
from pellucid.higher_order.scan import interleaved
from pellucid.ir.avals import shaped_array
from pellucid.ir.effects import Effects, StateEffect
from pellucid.ir.facets import Linearized, OnReferences
from pellucid.ir.jaxpr import ClosedJaxpr, Equation, Var
from pellucid.ir.primitive import Programs
from pellucid.ir.rewriting import rearranged, remove_dead_equations
from pellucid.ir.rules import BatchAxis, BatchDim, Operands, Zero
from pellucid.ir.slots import Group, Role, Slot, Slots
from pellucid.ir.traits import CONTROL
from pellucid.lowering.loops import while_loop as lowered_while
from pellucid.lowering.module import ordered
from pellucid.primitives.broadcasting import broadcast_in_dim, brought_to
from pellucid.primitives.logical import select_n
from pellucid.primitives.reduction import reduce_or
from pellucid.tracing.discharge import discharged, held
from pellucid.tracing.replay import replay
from pellucid.tracing.trace import bind
from pellucid.tracing.values import type_of
from pellucid.transforms.derived import Derived, remembered, stage_open
from pellucid.transforms.jvp import jvp_jaxpr
from pellucid.transforms.vmap import batch_jaxpr
from pellucid.transforms.zeros import instantiate, spread


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


class While(Linearized, OnReferences, Programs[WhileParams]):
    """`while condition(carry): carry = body(carry)`."""

    name = "while"
    traits = CONTROL

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

    # Derivatives ----------------------------------------------------------------------------------

    def jvp(self, primals, tangents, params):
        loop = _DifferentiatedLoop(params, tangents)
        results = bind(self, *loop.operands(primals, instantiate), params=loop.params)
        n = len(params.body_jaxpr.out_avals)
        return results[:n], spread(results[n:], loop.carried, [type_of(x) for x in results[:n]])

    def linearize(self, trace, primals, tangents, params):
        if any(isinstance(effect, StateEffect) for effect in self.effects((), params)):
            raise EffectsError(
                "reverse mode can't go through a `while_loop` that uses references: it would run twice.",
                do="Use `scan`, or `fori_loop` with bounds that are Python ints; forward mode (jvp) works as it is.",
            )
        results = bind(self, *primals, params=params)
        loop = _DifferentiatedLoop(params, tangents)
        out: Operands = ()
        if any(loop.carried):
            # The number of steps is not known, so nothing of them can be kept: the linear loop computes all again.
            operands = loop.operands(primals, trace.linear_value)
            out = trace.stage_linear(self, operands, loop.params)[len(results) :]
        return results, spread(out, loop.carried, [type_of(x) for x in results])

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
            found = [ends_apart or d is not None for d in body.mask]
            if found == carry_batched:
                break
            carry_batched = found
        carry = [
            brought_to(axis, x, d, 0) if b else x
            for x, d, b in zip(carry, carry_dims, carry_batched, strict=True)
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

    # References -----------------------------------------------------------------------------------

    def discharge(self, operands, params):
        # References that the body writes are carried, in front; the condition reads them from there.
        n, m = params.cond_nconsts, params.body_nconsts
        condition = discharged(params.cond_jaxpr.jaxpr, (*operands[:n], *operands[n + m :]))
        body = discharged(params.body_jaxpr.jaxpr, operands[n:])
        if condition.written:
            raise EffectsError(
                "the condition of a while_loop can't write to a reference.",
                got=", ".join(params.cond_jaxpr.in_avals[i].text() for i in condition.written),
                do="Write to it in the body.",
            )
        written = [operands[n + i] for i in body.written]
        carried = {id(cell): i for i, cell in enumerate(written)}
        fixed = [i for i in range(n + m) if id(operands[i]) not in carried]
        n_fixed, n_written = len(fixed), len(written)

        def given(first: int, stop: int, values: Operands) -> list[Any]:
            """What operands `first` to `stop` are in a step that has `values`: those fixed, then the carry."""
            held_now = dict(zip(fixed, values, strict=False))
            return [
                held_now[i] if i in held_now else values[n_fixed + carried[id(operands[i])]]
                for i in range(first, stop)
            ]

        def test(*values: Any) -> list[Any]:
            rest = values[n_fixed + n_written :]
            inputs = (*condition.consts, *given(0, n, values), *rest)
            return replay(condition.program.jaxpr, (), *inputs)

        def step(*values: Any) -> list[Any]:
            rest = values[n_fixed + n_written :]
            inputs = (*body.consts, *given(n, n + m, values), *rest)
            found = replay(body.program.jaxpr, (), *inputs)
            n_results = len(found) - n_written
            return [*found[n_results:], *found[:n_results]]

        values = held(operands)
        carry = [*(cell.value for cell in written), *values[n + m :]]
        avals = [type_of(x) for x in (*(values[i] for i in fixed), *carry)]
        new_condition, cond_consts = stage_open(test, avals, params.cond_jaxpr.jaxpr.debug)
        new_body, body_consts = stage_open(step, avals, params.body_jaxpr.jaxpr.debug)
        cond_consts = [*cond_consts, *(values[i] for i in fixed)]
        body_consts = [*body_consts, *(values[i] for i in fixed)]
        new = WhileParams(new_body, len(body_consts), new_condition, len(cond_consts))
        found = bind(self, *cond_consts, *body_consts, *carry, params=new)
        for cell, value in zip(written, found, strict=False):
            cell.value = value
        return found[n_written:]

    # Running --------------------------------------------------------------------------------------

    def lower(self, ctx, operands, params):
        cond_consts, body_consts, carry = params.split(operands)
        cond_jaxpr, body_jaxpr = params.cond_jaxpr.jaxpr, params.body_jaxpr.jaxpr
        avals = body_jaxpr.in_avals[params.body_nconsts :]
        effects = ordered(cond_jaxpr.effects | body_jaxpr.effects)

        def condition(values: list[Any]) -> Any:
            return ctx.inline(cond_jaxpr, (), [*cond_consts, *values])[0]

        def body(values: list[Any]) -> Any:
            return ctx.inline(body_jaxpr, (), [*body_consts, *values])

        if not ordered(cond_jaxpr.effects):
            return lowered_while(ctx, avals, carry, condition, body, effects)
        # A condition gives no tokens on, so one with ordered effects is computed in the body, for the next step.
        go_on = condition(list(carry))

        def step(values: list[Any]) -> list[Any]:
            new = body(values[1:])
            return [condition(new), *new]

        return lowered_while(
            ctx, [_BOOL, *avals], [go_on, *carry], lambda values: values[0], step, effects
        )[1:]

    def dead_code(self, used, equation):
        if not any(used) and not equation.effects:
            return [False] * len(equation.operands), None
        program, body, used_inputs, carried = _pruned_loop(equation.params, tuple(used))
        keep = lambda items, flags: [x for x, u in zip(items, flags, strict=True) if u]
        n, m = equation.params.cond_nconsts, equation.params.body_nconsts
        params = WhileParams(body, sum(used_inputs[n : n + m]), program, sum(used_inputs[:n]))
        remaining = equation.replace(
            operands=keep(equation.operands, used_inputs),
            results=keep(equation.results, carried),
            params=params,
        )
        return used_inputs, remaining


while_p = While()
_BOOL = shaped_array((), np.dtype(bool))


class _DifferentiatedLoop:
    """The loop over values and tangents: constants and carries are followed by their tangents."""

    def __init__(self, params: WhileParams, tangents: Operands) -> None:
        jaxpr = params.body_jaxpr.jaxpr
        self.source = params
        _, consts, carry = params.split([type(t) is not Zero for t in tangents])
        while True:
            derived = jvp_jaxpr(jaxpr, [*consts, *carry], carry)
            if list(derived.mask) == list(carry):
                break
            carry = derived.mask
        self.carried = list(carry)
        self.tangents = params.split(tangents)
        self.consts = derived.consts
        n_consts, n_carry, first = params.body_nconsts, len(jaxpr.outvars), len(derived.consts)
        inputs = [
            *range(first),
            *interleaved(first, [n_consts, n_carry], [sum(consts), sum(carry)]),
        ]
        body = rearranged(derived.program, inputs, range(n_carry + sum(carry)))
        tangent_avals = [a.tangent() for a, c in zip(jaxpr.out_avals, carry, strict=True) if c]
        condition = _with_more_inputs(params.cond_jaxpr, tuple(tangent_avals))
        self.params = WhileParams(
            body, first + n_consts + sum(consts), condition, params.cond_nconsts
        )

    def operands(self, primals: Operands, carried: Callable[[Any], Any]) -> tuple[Any, ...]:
        """Operands of the loop; `carried` makes an array of a tangent that the loop carries."""
        cond_consts, body_consts, carry = self.source.split(primals)
        _, const_tangents, carry_tangents = self.tangents
        return (
            *cond_consts, *self.consts, *body_consts, *(t for t in const_tangents if type(t) is not Zero), *carry,
            *(carried(t) for t, c in zip(carry_tangents, self.carried, strict=True) if c),
        )  # fmt: skip


def _with_more_inputs(program: ClosedJaxpr, avals: tuple[Any, ...]) -> ClosedJaxpr:
    """The program with further inputs, of types `avals`, that it doesn't use."""
    if not avals:
        return program
    jaxpr = program.jaxpr
    key = ("with more inputs", avals)
    found = jaxpr.memo.get(key)
    if found is None:
        more = jaxpr.replace(invars=[*jaxpr.invars, *map(Var, avals)])
        found = jaxpr.memo[key] = ClosedJaxpr(more)
    return found


def _ending_apart(
    params: WhileParams, condition: Derived, body: Derived
) -> tuple[Derived, Derived]:
    """Condition and body of a loop over a batch whose elements end at different steps.

    It goes on while one of them does; elements that have ended keep their values. The body takes the constants of
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

    def step(*values: Any) -> list[Any]:
        carry = values[len(values) - n_carry :]
        [goes_on] = replay(cond_jaxpr, (), *values[:n_cond], *carry)
        new = replay(body_jaxpr, (), *values[n_cond:])
        return [_chosen(goes_on, x, y) for x, y in zip(carry, new, strict=True)]

    avals = [*cond_jaxpr.in_avals[:n_cond], *body_jaxpr.in_avals]
    program, consts = stage_open(step, avals, body_jaxpr.debug)
    return Derived(program, consts, body.mask)


def _chosen(goes_on: Any, old: Any, new: Any) -> Any:
    """`new` for the elements of a batch that go on, `old` for the others."""
    shape = type_of(new).shape
    return select_n(broadcast_in_dim(goes_on, shape, (0,)) if len(shape) > 1 else goes_on, old, new)


def _pruned_loop(
    params: WhileParams, used: tuple[bool, ...]
) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool], list[bool]]:
    """(condition, body, which operands they take, which carries remain) for the `used` results."""
    condition, body = params.cond_jaxpr.jaxpr, params.body_jaxpr.jaxpr
    n, m = params.cond_nconsts, params.body_nconsts
    key = ("pruned loop", condition, used, n, m)
    found = body.memo.get(key)
    if found is None:
        pruned_condition, tested = remove_dead_equations(condition)
        carried = [u or t for u, t in zip(used, tested[n:], strict=True)]
        while True:
            pruned, needed = remove_dead_equations(body, carried)
            more = [c or d for c, d in zip(carried, needed[m:], strict=True)]
            if more == carried:
                break
            carried = more
        kept = [*tested[:n], *carried], [*needed[:m], *carried]
        programs = [
            ClosedJaxpr(
                jaxpr.replace(invars=[v for v, k in zip(full.invars, keep, strict=True) if k])
            )
            for jaxpr, full, keep in zip(
                (pruned_condition, pruned), (condition, body), kept, strict=True
            )
        ]
        found = body.memo[key] = (*programs, [*tested[:n], *needed[:m], *carried], carried)
    return found  # pyright: ignore[reportReturnType]
