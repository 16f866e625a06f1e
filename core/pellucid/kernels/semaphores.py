"""Semaphores and copies between references, of a program that runs by itself: nothing happens beside it, so copies are made when they begin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import ArgumentTypeError, UnsupportedError
from pellucid._machine.checks.errors import FailedCheckError
from pellucid._machine.refs.access import addupdate, get, set as set_part
from pellucid.numpy import asarray, clip, where

from .failures import fail_where
from .specs import DeviceIdType


def _counting(caller: str, sem: Any) -> None:
    if getattr(sem, "dtype", None) != np.int32:
        raise ArgumentTypeError(
            f"{caller} takes a semaphore that counts.",
            got=f"got {sem!r:.60}",
            do="Scratch of the type `SemaphoreType.REGULAR`; those of copies are for copies alone.",
        )


def semaphore_signal(
    sem_or_view: Any,
    inc: Any = 1,
    *,
    device_id: Any = None,
    device_id_type: DeviceIdType = DeviceIdType.MESH,
    core_index: Any = None,
) -> None:
    """Add `inc` to a semaphore of this program.

    Raises: UnsupportedError for the semaphore of another device or core.
    """
    _counting("semaphore_signal", sem_or_view)
    if device_id is not None or core_index is not None:
        raise UnsupportedError(
            "semaphore_signal: kernels can't signal to other devices or cores yet.",
            got=f"device_id: {device_id!r:.40}, core_index: {core_index!r:.40}",
        )
    addupdate(sem_or_view, ..., np.int32(inc) if isinstance(inc, int) else inc)


def semaphore_wait(sem_or_view: Any, value: Any = 1, *, decrement: bool = True) -> None:
    """Wait until a semaphore has at least `value`, and take that away again.

    Raises: CheckError, when the kernel runs, where it has less: a program runs by itself, so nothing would ever signal to it.
    """
    _counting("semaphore_wait", sem_or_view)
    has = get(sem_or_view)
    fail_where(has < value, FailedCheckError, _waits_forever, [has, asarray(value)])
    if decrement:
        addupdate(sem_or_view, ..., np.int32(-value) if isinstance(value, int) else -value)


def _waits_forever(ids: tuple[int, ...], values: Sequence[int]) -> str:
    program = f" in program {ids}" if ids else ""
    return f"semaphore_wait{program} would wait forever: the semaphore has {values[0]}, and waits for {values[1]}."


def semaphore_read(sem_or_view: Any) -> Any:
    """The value of a semaphore, an int32."""
    _counting("semaphore_read", sem_or_view)
    return get(sem_or_view)


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


def read_whole(ref: Any) -> Any:
    """The value of a reference, or of a selected one."""
    if not isinstance(ref, SelectedRef):
        return get(ref)
    value = get(ref.refs[0])
    for i, each in enumerate(ref.refs[1:]):
        value = where(ref.index > i, get(each), value)
    return value


def write_whole(ref: Any, value: Any) -> None:
    """Let a reference, or a selected one, hold `value`."""
    if not isinstance(ref, SelectedRef):
        set_part(ref, ..., value)
        return
    last = len(ref.refs) - 1
    for i, each in enumerate(ref.refs):
        is_chosen = clip(ref.index, 0, last) == i
        set_part(each, ..., where(is_chosen, value, get(each)))


def copied(src_ref: Any, dst_ref: Any, *, add: bool) -> None:
    """Copy the value of one reference, or of a selected one, to another; with `add` in addition to what it holds."""
    value = read_whole(src_ref)
    if not add:
        write_whole(dst_ref, value)
    elif isinstance(dst_ref, SelectedRef):
        write_whole(dst_ref, read_whole(dst_ref) + value)
    else:
        addupdate(dst_ref, ..., value)


class AsyncCopy(NamedTuple):
    """A copy from one reference to another, which is made when it starts; `wait` has nothing to wait for."""

    src_ref: Any
    dst_ref: Any
    sem: Any

    def start(self, priority: int = 0, *, add: bool = False) -> None:
        """Make the copy; with `add` it is added to what the target holds."""
        copied(self.src_ref, self.dst_ref, add=add)

    def wait(self) -> None:
        """Wait until the copy is made."""


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
