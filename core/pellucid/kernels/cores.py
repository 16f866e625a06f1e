"""What the cores of a device do together."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pellucid._machine.base import Function
from pellucid._machine.parallel.axes import axis_index, axis_size

from .inside import when
from .semaphores import semaphore_signal, semaphore_wait


def core_barrier(sem, *, core_axis_name: str) -> None:
    """Wait until all cores along an axis of a mesh of cores have come here, by a semaphore `sem` that each of them has.

    One core alone doesn't wait. Several are there on TPUs and in the simulator; elsewhere cores run one after another, and the call raises
    UnsupportedError when it is compiled.
    """
    n, here = axis_size(core_axis_name), axis_index(core_axis_name)
    if n == 1:
        return
    for core in range(n):

        @when(here != core)
        def _(core: int = core) -> None:
            semaphore_signal(sem, 1, core_index=core)

    semaphore_wait(sem, np.int32(n - 1))


def run_on_first_core(core_axis_name: str) -> Callable[[Function], None]:
    """A decorator that runs a function without arguments, which writes to references, on the first core along an axis.

    >>> import pellucid.experimental.pallas as pallas
    >>> ref = pl.new_ref(np.zeros(2, np.int32))
    >>> @pallas.core_map(pallas.tpu.create_tensorcore_mesh("core", num_cores=2))
    ... def _():
    ...     @run_on_first_core("core")
    ...     def _():
    ...         ref[0] += 1
    >>> ref[...]
    Array([1, 0], dtype=int32)
    """
    return when(axis_index(core_axis_name) == 0)
