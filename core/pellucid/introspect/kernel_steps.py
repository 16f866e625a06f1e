"""Kernels in the form in which debuggers step through them: a call of the kernel's body for each program of the grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pellucid._machine.base.narrowing import is_tuple
from pellucid._machine.ir import Equation, Jaxpr, with_programs
from pellucid.kernels.kernel_call import pallas_call_p
from pellucid.kernels.programs import GridKernel
from pellucid.kernels.steps import (
    BlockPlace,
    in_steps,
    number_of,
    places_of,
    position_of,
)

from .bodies import programs_within
from .simulation import is_simulated

__all__ = [
    "BlockPlace",
    "GridKernel",
    "block_names",
    "block_places",
    "is_kernel",
    "kernel_of",
    "number_of",
    "position_of",
    "with_kernels_in_steps",
]

_COPIED = ("lanes", "batched")
"""Keys of `Jaxpr.memo` that a program made from another copies from it, so that its lines are found."""


def with_kernels_in_steps(jaxpr: Jaxpr) -> Jaxpr:
    """The program with each kernel replaced by a loop over the programs of its grid, also in programs within it;
    cached.
    """
    if "kernels in steps" not in jaxpr.memo:
        has_kernels = any(
            e.primitive is pallas_call_p for p in programs_within(jaxpr) for e in p.equations
        )
        jaxpr.memo["kernels in steps"] = _in_steps(jaxpr) if has_kernels else jaxpr
    return jaxpr.memo["kernels in steps"]


def _in_steps(jaxpr: Jaxpr) -> Jaxpr:
    equations = [*map(_replace_call, jaxpr.equations)]
    new = jaxpr.replace(equations=equations, effects=jaxpr.effects)
    new.memo |= {key: jaxpr.memo[key] for key in _COPIED if key in jaxpr.memo}
    return new


def _replace_call(equation: Equation) -> Equation:
    params: Any = equation.params
    if equation.primitive is pallas_call_p and params.is_own and not _has_many(params.jaxpr.jaxpr):
        program = in_steps(params.kernel, equation)
        if program is not None:
            return equation.replace(params=params._replace(jaxpr=program, smooth=None))
    if not is_tuple(params):
        return equation
    new: tuple[Any, ...] = with_programs(params, with_kernels_in_steps)
    is_new = any(a is not b for a, b in zip(new, params, strict=True))
    return equation.replace(params=new) if is_new else equation


def _has_many(jaxpr: Jaxpr) -> bool:
    """Whether a kernel is simulated on several devices, cores or threads, which debuggers step through in the simulator."""
    simulated = [e.params.simulation for e in jaxpr.equations if is_simulated(e)]
    return any(
        each.is_joint
        or each.core_axes
        or each.params.num_cores_or_threads > 1
        or each.kernel.thread_axis is not None
        for each in simulated
    )


def is_kernel(equation: Equation) -> bool:
    """Whether an equation calls a kernel."""
    return equation.primitive is pallas_call_p


def kernel_of(jaxpr: Jaxpr) -> GridKernel | None:
    """The kernel whose body a program runs, with one run per program of the grid; None for other programs."""
    return jaxpr.memo.get("kernel")


def block_names(kernel: GridKernel) -> list[str]:
    """Names of the inputs, then of the results: the names of the body's arguments, or else of their block specs."""
    jaxpr = kernel.body.jaxpr
    names = () if jaxpr.debug is None else jaxpr.debug.argument_names
    # The body's arguments are references, in the order scalars, inputs, results, scratch. Constants may have no names.
    mappings = (*kernel.inputs, *kernel.results)
    first = kernel.n_front + len(kernel.scalars) - (len(jaxpr.invars) - len(names))
    chosen = names[first : first + len(mappings)] if names else [""] * len(mappings)
    return [name or m.name for name, m in zip(chosen, mappings, strict=True)]


def block_places(kernel: GridKernel, number: int) -> Sequence[tuple[str, BlockPlace | None]]:
    """The position of the block that program `number` accesses, by name of the body's argument; None if it depends on
    data.
    """
    return [*zip(block_names(kernel), places_of(kernel, number), strict=True)]
