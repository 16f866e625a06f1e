"""Copies between the memory of the device and shared memory, which run beside the threads until they are waited for.

In a program that runs by itself a copy is made when it starts.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import ArgumentTypeError, ArgumentValueError
from pellucid._machine.higher_order.calls import JitParams
from pellucid._machine.ir import Values
from pellucid._machine.refs.access import RefView, addupdate, set as set_part
from pellucid._machine.refs.index import RefIndex, compose
from pellucid._machine.refs.primitives import OfReference
from pellucid._machine.tracing import type_of
from pellucid.kernels.inside import load, store
from pellucid.kernels.parts import Parts
from pellucid.kernels.semaphores import OnParts, bound

from .barriers import barrier_of
from .memory import (
    ACC,
    Barrier,
    Memory,
    MemorySpace,
    check_kind,
    check_reference,
    kind_of,
    refuse_clusters,
    text_of,
)

_TRUE = np.bool_(True)
REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda old, new: old + new,
    "min": jnp.minimum,
    "max": jnp.maximum,
    "and": jnp.bitwise_and,
    "or": jnp.bitwise_or,
    "xor": jnp.bitwise_xor,
}


class OOBFillMode(enum.Enum):
    """What a copy to shared memory writes for elements outside of its source."""

    UNDEFINED = 0
    PROMISE_IN_BOUNDS = 1
    ZEROS = 2


class ToSharedParams(NamedTuple):
    """`parts` are the source, the target, the barrier at which the copy arrives once when it is made, which counts to `num_arrivals`."""

    num_arrivals: int
    oob_mode: OOBFillMode
    jaxpr: Any = None
    n_consts: int = 0
    parts: Parts = Parts(0, ())

    def as_call(self) -> JitParams:
        """Params of a call that does the same in a program that runs by itself."""
        return JitParams("copy_gmem_to_smem", self.jaxpr)


class CopyToShared(OnParts):
    """Starts a copy from the memory of the device to shared memory."""

    name = "copy_gmem_to_smem"
    traits = OfReference.traits.replace(returns_list=True)


class FromSharedParams(NamedTuple):
    """`parts` are the source and the target. Behind them comes whether the copy is made, if it `has_predicate`.

    With `commit_group` it makes a group, with those before that belong to none. With a `reduction` the target is combined with the source.
    """

    commit_group: bool
    reduction: str | None
    has_predicate: bool
    jaxpr: Any = None
    n_consts: int = 0
    parts: Parts = Parts(0, ())

    def as_call(self) -> JitParams:
        """Params of a call that does the same in a program that runs by itself."""
        return JitParams("copy_smem_to_gmem", self.jaxpr)


class CopyFromShared(OnParts):
    """Starts a copy from shared memory to the memory of the device."""

    name = "copy_smem_to_gmem"
    traits = OfReference.traits.replace(returns_list=True)


copy_gmem_to_smem_p, copy_smem_to_gmem_p = CopyToShared(), CopyFromShared()


def _check_ends(caller: str, device: Any, shared: Any) -> None:
    """Raise ArgumentTypeError unless one reference lies in the memory of the device, one in shared memory, of one type."""
    check_reference(caller, device)
    kind = kind_of(device)
    if isinstance(kind, (Barrier, ACC)) or getattr(kind, "memory_space", None) in (MemorySpace.SMEM, MemorySpace.REGS):  # fmt: skip
        raise ArgumentTypeError(
            f"{caller}: one end of the copy lies in the memory of the device, GMEM.",
            got=f"got {text_of(device)}",
        )
    check_kind(caller, shared, Memory, "a reference to shared memory, SMEM")
    if kind_of(shared).memory_space is not MemorySpace.SMEM:
        raise ArgumentTypeError(
            f"{caller}: one end of the copy lies in shared memory, SMEM.",
            got=f"got {text_of(shared)}",
        )
    a, b = (device.shape, np.dtype(device.dtype)), (shared.shape, np.dtype(shared.dtype))
    if a != b:
        raise ArgumentTypeError(
            f"{caller}: both ends of a copy have one shape and dtype.",
            got=f"{a[1].name}{list(a[0])} in GMEM, {b[1].name}{list(b[0])} in SMEM",
        )


def _with_one_index(ref: Any) -> Any:
    """`ref` with a part of a part as one index, so that positions count as outside which the whole array doesn't have."""
    while type(ref) is RefView and len(ref.steps) > 1:
        (first, operands), (second, more), *rest = ref.steps
        if type(second) is not RefIndex:
            break
        found = compose(first, operands, second, more, moves=False)
        if found is None:
            break
        ref = RefView(ref.ref, ((found[0], tuple(found[1])), *rest))
    return ref


def copy_gmem_to_smem(
    src: Any,
    dst: Any,
    barrier: Any,
    *,
    collective_axes: Any = None,
    leader_tracked: Any = None,
    oob_mode: OOBFillMode = OOBFillMode.ZEROS,
) -> None:
    """Start a copy from the memory of the device to shared memory; it arrives at `barrier` once when it is made.

    Until a wait for that phase of the barrier has ended, `dst` must be neither read nor written. Elements outside of the source are 0, or as `oob_mode`
    says. Raises: ArgumentTypeError for references of other memories, shapes or dtypes; UnsupportedError for copies to several blocks of a cluster.
    """
    if collective_axes not in (None, ()) or leader_tracked is not None:
        refuse_clusters("copy_gmem_to_smem: `collective_axes`, `leader_tracked`")
    _check_ends("copy_gmem_to_smem", src, dst)
    src = _with_one_index(src)
    if not isinstance(oob_mode, OOBFillMode):
        raise ArgumentTypeError(
            "copy_gmem_to_smem: `oob_mode` is an OOBFillMode, such as `OOBFillMode.ZEROS`.",
            got=f"got {oob_mode!r:.40}",
        )
    params = ToSharedParams(barrier_of("copy_gmem_to_smem", barrier).num_arrivals, oob_mode)
    is_zero = params.oob_mode is OOBFillMode.ZEROS

    def define(views: Values, others: Values) -> Values:
        source, target, at = views
        value = load(source, mask=_TRUE, outside=0 if is_zero else None)
        set_part(target, ..., value)
        addupdate(at, ..., np.int32(1))
        return []

    bound(copy_gmem_to_smem_p, params, "copy_gmem_to_smem", [src, dst, barrier], [], define)


def copy_smem_to_gmem(
    src: Any,
    dst: Any,
    predicate: Any = None,
    *,
    commit_group: bool = True,
    reduction_op: str | None = None,
) -> None:
    """Start a copy from shared memory to the memory of the device, if `predicate` holds; `wait_smem_to_gmem` waits for it.

    What this thread has written to `src` is seen after `commit_smem` only. With `commit_group` this copy, with those before that belong to no group,
    makes one. With a `reduction_op`, "add", "min", "max", "and", "or" or "xor", `dst` is combined with what is copied. Elements outside of `dst` are dropped.
    Raises: ArgumentTypeError for references of other memories, shapes or dtypes; ArgumentValueError for another reduction.
    """
    _check_ends("copy_smem_to_gmem", dst, src)
    dst = _with_one_index(dst)
    if reduction_op is not None and reduction_op not in REDUCTIONS:
        raise ArgumentValueError(
            f"copy_smem_to_gmem: `reduction_op` is one of {', '.join(map(repr, REDUCTIONS))}.",
            got=f"got {reduction_op!r:.40}",
        )
    others = []
    if predicate is not None:
        if type_of(predicate).shape or type_of(predicate).dtype != np.bool_:
            raise ArgumentTypeError(
                "copy_smem_to_gmem: the predicate is one bool.", got=type_of(predicate).text()
            )
        others = [np.bool_(predicate) if isinstance(predicate, bool) else predicate]
    params = FromSharedParams(bool(commit_group), reduction_op, bool(others))

    def define(views: Values, others: Values) -> Values:
        source, target = views
        value = source[...]
        if reduction_op is not None:
            value = REDUCTIONS[reduction_op](load(target, mask=_TRUE), value)
        store(target, value.astype(target.dtype), mask=others[0] if others else _TRUE)
        return []

    bound(copy_smem_to_gmem_p, params, "copy_smem_to_gmem", [src, dst], others, define)


def async_prefetch(ref: Any, *, collective_axes: Any = None, leader_tracked: Any = None) -> None:
    """Ask for a part of the memory of the device to be in its cache, without an effect on values; here it does nothing."""
