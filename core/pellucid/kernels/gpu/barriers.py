"""Arrivals at barriers of a block, and waits for their phases.

A barrier's reference counts the arrivals that no wait has taken away, in a program that runs by itself, where a wait that nobody would ever end fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import ArgumentTypeError
from pellucid._machine.checks.errors import FailedCheckError
from pellucid._machine.higher_order.calls import JitParams
from pellucid._machine.ir import Values
from pellucid._machine.refs.access import addupdate, get
from pellucid._machine.refs.primitives import OfReference
from pellucid.kernels.failures import fail_where
from pellucid.kernels.parts import Parts
from pellucid.kernels.semaphores import OnParts, bound

from .memory import Barrier, check_kind

_ONE = np.int32(1)


class BarrierParams(NamedTuple):
    """`parts` has the barrier, which completes a phase after `num_arrivals` arrivals."""

    num_arrivals: int
    jaxpr: Any = None
    n_consts: int = 0
    parts: Parts = Parts(0, ())

    def as_call(self) -> JitParams:
        """Params of a call that does the same in a program that runs by itself."""
        return JitParams("barrier", self.jaxpr)


class BarrierArrive(OnParts):
    """Arrives at a barrier, once for this thread."""

    name = "barrier_arrive"
    traits = OfReference.traits.replace(returns_list=True)


class BarrierWait(OnParts):
    """Waits until a barrier has completed the phase after the one that this thread has waited for last."""

    name = "barrier_wait"
    traits = OfReference.traits.replace(returns_list=True)


class BarrierTest(OnParts):
    """Whether a barrier has completed the phase after the one that this thread has waited for last."""

    name = "barrier_test"


barrier_arrive_p, barrier_wait_p, barrier_test_p = BarrierArrive(), BarrierWait(), BarrierTest()


def barrier_of(caller: str, barrier: Any) -> Barrier:
    """The type of a barrier. Raises: ArgumentTypeError for another reference, or for several barriers."""
    kind = check_kind(caller, barrier, Barrier, "a barrier, scratch of the type `Barrier(…)`")
    if int(np.prod(barrier.shape, dtype=np.int64)) != 1:
        raise ArgumentTypeError(
            f"{caller} takes one barrier.",
            got=f"{list(barrier.shape)} barriers",
            do="Name one: `barrier.at[i]`.",
        )
    return kind


def barrier_arrive(barrier: Any) -> None:
    """Arrive at a barrier, once for this thread (a warpgroup, or within `warp_map` one of its warps).

    Raises: ArgumentTypeError for what isn't one barrier.
    """
    params = BarrierParams(barrier_of("barrier_arrive", barrier).num_arrivals)

    def define(views: Values, others: Values) -> Values:
        addupdate(views[0], ..., _ONE)
        return []

    bound(barrier_arrive_p, params, "barrier_arrive", [barrier], [], define)


def barrier_wait(barrier: Any) -> None:
    """Wait until a barrier has completed the phase after the one that this thread has waited for last, at first the first one.

    Raises: ArgumentTypeError for what isn't one barrier; CheckError, when the kernel runs, for a wait that nobody would ever end.
    """
    n = barrier_of("barrier_wait", barrier).num_arrivals

    def define(views: Values, others: Values) -> Values:
        has = get(views[0]).reshape(())
        values = [has, np.int32(n)]
        fail_where(has < n, FailedCheckError, _waits_forever, values)
        addupdate(views[0], ..., np.int32(-n))
        return []

    bound(barrier_wait_p, BarrierParams(n), "barrier_wait", [barrier], [], define)


def barrier_test(barrier: Any) -> Any:
    """Whether `barrier_wait` would end at once: a bool. It is no wait: the next phase to wait for stays the same."""
    n = barrier_of("barrier_test", barrier).num_arrivals
    define = lambda views, _: [get(views[0]).reshape(()) >= n]
    [found] = bound(barrier_test_p, BarrierParams(n), "barrier_test", [barrier], [], define)
    return found


def _waits_forever(ids: tuple[int, ...], values: Sequence[int]) -> str:
    program = f" in program {ids}" if ids else ""
    return f"barrier_wait{program} would wait forever: the barrier has {values[0]} arrivals, and waits for {values[1]}."
