"""Loops of kernels on TPUs: those of every device, with what is known of the numbers that they count by."""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid._machine.higher_order.loop_primitives import scan_p, while_p
from pellucid.kernels.lowering.programs import COMMON

from .bounds import carried
from .lowering import Lowering, rule


def _note(ctx: Lowering, jaxpr: Any, n_consts: int, first: Any, runs: int | None) -> None:
    """Note what is known of the integers that a loop carries; `first` are those that it begins with."""
    variables = jaxpr.invars[n_consts:]
    for atom, variable, result in zip(first, variables, jaxpr.outvars, strict=False):
        aval = variable.aval
        if getattr(aval, "shape", None) == () and np.dtype(aval.dtype) == np.int32:
            ctx.facts[variable] = carried(ctx, atom, variable, jaxpr, result, runs)


@rule(scan_p)
def _scan(ctx: Lowering, equation, operands):
    params = equation.params
    consts, carry, _ = params.split(equation.operands)
    _note(ctx, params.jaxpr.jaxpr, len(consts), carry, params.length)
    return COMMON[scan_p](ctx, equation, operands)


@rule(while_p)
def _while(ctx: Lowering, equation, operands):
    params = equation.params
    _, consts, carry = params.split(equation.operands)
    _note(ctx, params.body_jaxpr.jaxpr, len(consts), carry, None)
    return COMMON[while_p](ctx, equation, operands)
