"""Copies between references, on this device and to others, that are started and waited for.

In a program that runs by itself nothing happens beside it, so a copy is made when it starts, and none reaches another device. The
simulator and lowerings to devices read the operands of the primitives instead.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import ArgumentTypeError
from pellucid._machine.higher_order.calls import JitParams
from pellucid._machine.higher_order.cond import switch
from pellucid._machine.ir import Jaxpr, Values, programs_of
from pellucid._machine.refs.access import addupdate, get, set as set_part
from pellucid._machine.refs.primitives import OfReference
from pellucid.numpy import asarray

from .devices import logical_device, only_elsewhere
from .inside import run_scoped
from .parts import Parts
from .semaphores import OnParts, bound, get_barrier_semaphore_p
from .specs import DeviceIdType, SemaphoreType


class SelectedRef(NamedTuple):
    """One of several references to arrays of one type, which one is known when the kernel runs; copies take it."""

    index: Any
    refs: tuple[Any, ...]


def select_ref(idx: Any, *refs: Any) -> SelectedRef:
    """The reference number `idx` of `refs`, or of views, for a copy to read or to write.

    Raises: ArgumentTypeError for references to arrays of different types.

    >>> from pellucid._machine.refs.access import new_ref
    >>> x, y, target = [new_ref(np.full(2, i, np.float32)) for i in range(3)]
    >>> async_copy(select_ref(np.int32(1), x, y), target, None).wait()
    >>> target
    Ref([1., 1.], dtype=float32)
    """
    kinds = {(ref.shape, np.dtype(ref.dtype)) for ref in refs}
    if len(kinds) != 1:
        raise ArgumentTypeError(
            "select_ref takes references to arrays of one type.",
            got=", ".join([f"{np.dtype(dtype)}{list(shape)}" for shape, dtype in kinds]),
        )
    return SelectedRef(asarray(idx), refs)


class CopyParams(NamedTuple):
    """`parts` are the source, the target, the semaphore of the sender and that of the receiver. Behind them comes the number of the
    device that has the target, if it `has_device`; then the sender's semaphore is signalled when the source is read, the receiver's
    when the target is written. Without, the receiver's alone is.
    """

    add: bool
    priority: int
    has_device: bool
    jaxpr: Any = None
    n_consts: int = 0
    parts: Parts = Parts(0, ())

    def as_call(self) -> JitParams:
        """Params of a call that does the same in a program that runs by itself."""
        return JitParams("dma_start", self.jaxpr)


class CopyStart(OnParts):
    """Starts a copy from one part of a reference to another."""

    name = "dma_start"
    traits = OfReference.traits.replace(returns_list=True)


dma_start_p = CopyStart()


class CopyWaitParams(NamedTuple):
    """`parts` are the semaphore and the target, or for the sender's semaphore the source, whose size says how much is waited for."""

    of_sender: bool
    jaxpr: Any = None
    n_consts: int = 0
    parts: Parts = Parts(0, ())

    def as_call(self) -> JitParams:
        """Params of a call that does the same in a program that runs by itself: nothing."""
        return JitParams("dma_wait", self.jaxpr)


class CopyWait(OnParts):
    """Waits until as much is copied as a part of a reference is large."""

    name = "dma_wait"
    traits = OfReference.traits.replace(returns_list=True)


dma_wait_p = CopyWait()


def _start(src: Any, dst: Any, sems: tuple[Any, Any], device: Any, params: CopyParams) -> None:
    """Start a copy; of selected references, that of the one which the run selects."""
    if isinstance(src, SelectedRef):
        starts = [functools.partial(_start, x, dst, sems, device, params) for x in src.refs]
        switch(src.index, starts)
        return
    if isinstance(dst, SelectedRef):
        starts = [functools.partial(_start, src, x, sems, device, params) for x in dst.refs]
        switch(dst.index, starts)
        return

    def define(views: Values, others: Values) -> Values:
        value = get(views[0])
        if others:
            value = only_elsewhere("make_async_remote_copy", value)
        addupdate(views[1], ..., value) if params.add else set_part(views[1], ..., value)
        return []

    others = [] if device is None else [device]
    bound(dma_start_p, params, "async_copy", [src, dst, *sems], others, define)


def _wait(sem: Any, ref: Any, *, of_sender: bool) -> None:
    if sem is None:
        return
    ref = ref.refs[0] if isinstance(ref, SelectedRef) else ref
    nothing = lambda views, others: []
    bound(dma_wait_p, CopyWaitParams(of_sender), "async_copy", [sem, ref], [], nothing)


class AsyncCopy(NamedTuple):
    """A copy from one reference to another, to be started and waited for; to one of another device if `device_id` isn't None."""

    src_ref: Any
    dst_ref: Any
    sem: Any
    send_sem: Any = None
    device_id: Any = None
    device_id_type: DeviceIdType = DeviceIdType.MESH

    @property
    def is_remote(self) -> bool:
        """Whether the target is on a device that is named, which may be this one."""
        return self.device_id is not None

    def start(self, priority: int = 0, *, add: bool = False) -> None:
        """Start the copy; with `add` it is added to what the target holds."""
        if self.is_remote and add:
            raise ArgumentTypeError("start: a copy to another device can't add.")
        device = logical_device("make_async_remote_copy", self.device_id, self.device_id_type)
        params = CopyParams(add, priority, self.is_remote)
        _start(self.src_ref, self.dst_ref, (self.send_sem, self.sem), device, params)

    def wait(self) -> None:
        """Wait until the copy is made, on this device as a sender and as a receiver."""
        if self.is_remote:
            self.wait_send()
        self.wait_recv()

    def wait_send(self) -> None:
        """Wait until the source is read, so that it may be written again.

        Raises: ArgumentTypeError for a copy within this device.
        """
        if not self.is_remote:
            raise ArgumentTypeError(
                "wait_send: a copy within a device has one semaphore.", do="Call `wait()`."
            )
        _wait(self.send_sem, self.src_ref, of_sender=True)

    def wait_recv(self) -> None:
        """Wait until the target on this device is written: by the copy that another device has started with the same semaphore."""
        _wait(self.sem, self.dst_ref, of_sender=False)


def make_async_copy(src_ref: Any, dst_ref: Any, sem: Any) -> AsyncCopy:
    """A copy of what `src_ref` holds to `dst_ref`, to be started and waited for.

    >>> from pellucid._machine.refs.access import new_ref
    >>> target = new_ref(np.zeros(2, np.float32))
    >>> copy = make_async_copy(new_ref(np.ones(2, np.float32)), target, None)
    >>> copy.start()
    >>> copy.wait()
    >>> target
    Ref([1., 1.], dtype=float32)
    """
    return AsyncCopy(src_ref, dst_ref, sem)


def async_copy(
    src_ref: Any, dst_ref: Any, sem: Any, *, priority: int = 0, add: bool = False
) -> AsyncCopy:
    """Like `make_async_copy`, started; with `add` it is added to what `dst_ref` holds.

    >>> from pellucid._machine.refs.access import new_ref
    >>> target = new_ref(np.zeros(2, np.float32))
    >>> async_copy(new_ref(np.ones(2, np.float32)), target, None).wait()
    >>> target
    Ref([1., 1.], dtype=float32)
    """
    copy = make_async_copy(src_ref, dst_ref, sem)
    copy.start(priority, add=add)
    return copy


def make_async_remote_copy(
    src_ref: Any,
    dst_ref: Any,
    send_sem: Any,
    recv_sem: Any,
    device_id: Any,
    device_id_type: DeviceIdType = DeviceIdType.MESH,
) -> AsyncCopy:
    """A copy of what `src_ref` holds here to `dst_ref` of the same kernel on the device `device_id`, to be started and waited for.

    `send_sem` is signalled here when the source is read, `recv_sem` there when the target is written. A device is named as in
    `semaphore_signal`. It needs `interpret=tpu.InterpretParams()`, or a TPU.
    """
    return AsyncCopy(src_ref, dst_ref, recv_sem, send_sem, device_id, device_id_type)


def async_remote_copy(
    src_ref: Any,
    dst_ref: Any,
    send_sem: Any,
    recv_sem: Any,
    device_id: Any,
    device_id_type: DeviceIdType = DeviceIdType.MESH,
) -> AsyncCopy:
    """Like `make_async_remote_copy`, started."""
    copy = make_async_remote_copy(src_ref, dst_ref, send_sem, recv_sem, device_id, device_id_type)
    copy.start()
    return copy


def has_copies(jaxpr: Jaxpr) -> bool:
    """Whether a program, or one within it, starts copies or uses semaphores."""
    return any(
        isinstance(e.primitive, OnParts)
        or e.primitive is get_barrier_semaphore_p
        or any(has_copies(getattr(p, "jaxpr", p)) for p in programs_of(e))
        for e in jaxpr.equations
    )


def sync_copy(src_ref: Any, dst_ref: Any, *, add: bool = False) -> None:
    """Copy what one reference holds to another, and wait for it; with `add` it is added to what that holds.

    >>> from pellucid._machine.refs.access import new_ref
    >>> target = new_ref(np.zeros(2, np.float32))
    >>> sync_copy(new_ref(np.ones(2, np.float32)), target)
    >>> target
    Ref([1., 1.], dtype=float32)
    """
    run_scoped(lambda sem: async_copy(src_ref, dst_ref, sem, add=add).wait(), SemaphoreType.DMA)
