"""Whether the threads of a block wait for each other, so that they can't run one after another."""

from __future__ import annotations

from pellucid._machine.ir import Jaxpr, programs_of
from pellucid._machine.refs.primitives import new_ref_p
from pellucid.kernels.programs import GridKernel
from pellucid.kernels.semaphores import semaphore_wait_p
from pellucid.kernels.specs import SharedScratch

from .barriers import barrier_arrive_p, barrier_test_p, barrier_wait_p
from .copies import copy_gmem_to_smem_p

_WAITING = (barrier_arrive_p, barrier_test_p, barrier_wait_p, copy_gmem_to_smem_p, semaphore_wait_p)


def waits_for_threads(kernel: GridKernel) -> bool:
    """Whether a kernel has threads that use barriers, or scratch that they make together."""
    axis = kernel.thread_axis
    return axis is not None and kernel.grid[axis] != 1 and _waits(kernel.body.jaxpr)


def _waits(jaxpr: Jaxpr) -> bool:
    for equation in jaxpr.equations:
        if equation.primitive in _WAITING:
            return True
        if equation.primitive is new_ref_p and isinstance(equation.params.memory_space, SharedScratch):  # fmt: skip
            return True
        if any(_waits(getattr(p, "jaxpr", p)) for p in programs_of(equation)):
            return True
    return False
