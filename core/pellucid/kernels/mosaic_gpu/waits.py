"""Arrivals of threads at barriers, waits for their phases, and how threads share registers and pipelines."""

from __future__ import annotations

import numpy as np

from pellucid._machine.xla.mosaic_gpu import arith, ir, nvvm
from pellucid.kernels.buffering import emit_pipeline_p
from pellucid.kernels.gpu.barriers import barrier_arrive_p, barrier_test_p, barrier_wait_p
from pellucid.kernels.gpu.fences import max_registers_p

from .barriers import BarrierArray
from .lowering import Lowering, load, rule, store
from .views import parts_of

_TICKS = 10_000_000
"""Nanoseconds that a wait sleeps at most before it looks again."""


@rule(barrier_arrive_p)
def _arrive(ctx: Lowering, equation, operands):
    [barrier], _ = parts_of(ctx, equation, operands)
    ctx.meet()  # what threads did before is seen by who waits
    with ctx.only_if(ctx.is_first_thread()):
        nvvm.mbarrier_arrive(barrier.pointer(ctx), results=[ir.IntegerType.get_signless(64)])
    return []


@rule(barrier_wait_p)
def _wait(ctx: Lowering, equation, operands):
    [barrier], _ = parts_of(ctx, equation, operands)
    wait_for(ctx, barrier)
    return []


def wait_for(ctx: Lowering, barrier: BarrierArray) -> None:
    """Wait for the phase of one barrier after the one that was waited for last."""
    parity = parity_of(ctx, barrier)
    nvvm.mbarrier_try_wait_parity(barrier.pointer(ctx), parity, ctx.int32(_TICKS))
    number, one = barrier.number(ctx), ctx.int32(1)
    phases = load(ctx.element(np.int32), barrier.phases, 4)
    store(arith.xori(phases, arith.shli(one, number)), barrier.phases, 4)


def parity_of(ctx: Lowering, barrier: BarrierArray) -> ir.Value:
    """The parity of the phase of one barrier that a thread waits for next."""
    phases = load(ctx.element(np.int32), barrier.phases, 4)
    return arith.andi(arith.shrui(phases, barrier.number(ctx)), ctx.int32(1))


@rule(max_registers_p)
def _max_registers(ctx: Lowering, equation, operands):
    params = equation.params
    action = nvvm.SetMaxRegisterAction
    nvvm.setmaxregister(params.n, action.increase if params.increases else action.decrease)
    return []


@rule(emit_pipeline_p)
def _pipeline(ctx: Lowering, equation, operands):
    program, own, reason = equation.params.with_buffers(operands)
    if program is None:
        raise ctx.unsupported(reason)
    return ctx.inline(program.jaxpr, own, equation.params.with_buffers(equation.operands)[1])


@rule(barrier_test_p)
def _test(ctx: Lowering, equation, operands):
    [barrier], _ = parts_of(ctx, equation, operands)
    parity = parity_of(ctx, barrier)
    return [nvvm.mbarrier_test_wait(barrier.pointer(ctx), parity, results=[ctx.element(np.bool_)])]
