"""What a user chooses about a simulation: `InterpretParams`."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Literal

from pellucid._machine.base import ArgumentValueError, UnsupportedError
from pellucid._machine.base.config import simulated_kernels

_CHOICES = {
    "out_of_bounds_reads": ("raise", "uninitialized"),
    "uninitialized_memory": ("nan", "zero"),
    "dma_execution_mode": ("on_wait", "eager"),
    "buffer_bounds": ("logical",),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class InterpretParams:
    """Let a kernel run in a simulator of the memories, semaphores and copies of a TPU: `pallas_call(..., interpret=InterpretParams())`.

    Copies happen beside the program: "on_wait" as late as a wait allows, "eager" when they start. `detect_races` raises where two
    accesses to one element, one of which writes, aren't ordered. Reads out of bounds raise, or are "uninitialized": NaN, the least integer,
    0, False, or with "zero" 0. With a `random_seed` the programs along parallel axes run in a random order, and devices take turns in one.
    `grid_point_recorder` is called with each position in the grid and the core. Parallel axes are shared by `num_cores_or_threads`.

    >>> InterpretParams(detect_races=True).dma_execution_mode
    'on_wait'
    """

    detect_races: bool = False
    out_of_bounds_reads: Literal["raise", "uninitialized"] = "raise"
    skip_floating_point_ops: bool = False
    uninitialized_memory: Literal["nan", "zero"] = "nan"
    num_cores_or_threads: int = 1
    vector_clock_size: int | None = None
    logging_mode: Any = None
    dma_execution_mode: Literal["on_wait", "eager"] = "on_wait"
    random_seed: int | None = None
    grid_point_recorder: Callable[[tuple[Any, ...], Any], Any] | None = None
    allow_hbm_allocation_in_run_scoped: bool = False
    buffer_bounds: Literal["logical", "padded"] = "logical"

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if name == "buffer_bounds" and value == "padded":
                raise UnsupportedError(
                    "InterpretParams: buffers end where their arrays do; `buffer_bounds` is 'logical'.",
                    got="buffer_bounds='padded'",
                )
            if value not in choices:
                raise ArgumentValueError(
                    f"InterpretParams: `{name}` must be one of {', '.join(map(repr, choices))}.",
                    got=f"got {value!r:.60}",
                )
        if self.skip_floating_point_ops or self.logging_mode is not None:
            raise UnsupportedError(
                "InterpretParams: floating point operations aren't skipped, and nothing is logged.",
                do="Leave `skip_floating_point_ops` and `logging_mode` out.",
            )
        n = self.num_cores_or_threads
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ArgumentValueError(
                "InterpretParams: `num_cores_or_threads` must be a number of cores, from 1 on.",
                got=f"got {n!r:.60}",
            )

    @property
    def num_cores_per_device(self) -> int:
        """The number of cores of each device."""
        return self.num_cores_or_threads

    def get_vector_clock_size(self, num_devices: int) -> int:
        """The number of clocks that one of the reference's has; ours grow as they need."""
        return self.vector_clock_size or 2 * num_devices * self.num_cores_or_threads


@dataclasses.dataclass(frozen=True, kw_only=True)
class GpuInterpretParams(InterpretParams):
    """Let a kernel run in a simulator of the blocks of a GPU, one after another: of shared memory, barriers, copies, products, and threads.

    What runs beside a thread happens as late as a wait allows, or with "eager" when it starts. `detect_races` raises where two accesses to one element,
    one of which writes, aren't ordered, between threads, copies, products and blocks. With a `random_seed` threads take turns in a random order. The other
    parameters are as in `tpu.InterpretParams`; `num_tma_threads_per_device` changes nothing, as each copy has a clock of its own.

    >>> GpuInterpretParams(detect_races=True).uninitialized_memory
    'nan'
    """

    num_tma_threads_per_device: int = 1


def gpu_simulation_of(interpret: Any) -> InterpretParams | None:
    """How a kernel for GPUs is simulated whose call states `interpret`; None if it runs compiled."""
    return interpret if isinstance(interpret, InterpretParams) else None


def simulation_of(interpret: Any) -> InterpretParams | None:
    """How a kernel is simulated whose call states `interpret`; None if it runs compiled."""
    if isinstance(interpret, InterpretParams):
        return interpret
    return None if interpret else simulated_kernels.value


@contextlib.contextmanager
def force_tpu_interpret_mode(params: InterpretParams = InterpretParams()) -> Iterator[None]:
    """A context in which kernels run in the simulator whose call states no `interpret`.

    >>> with force_tpu_interpret_mode(InterpretParams(detect_races=True)):
    ...     simulation_of(False).detect_races
    True
    """
    with simulated_kernels(params):
        yield


def set_tpu_interpret_mode(params: InterpretParams | None = InterpretParams()) -> None:
    """Let kernels run in the simulator whose call states no `interpret`, from now on; with None, let them not.

    >>> set_tpu_interpret_mode(InterpretParams(random_seed=3))
    >>> simulation_of(False).random_seed
    3
    >>> set_tpu_interpret_mode(None)
    """
    simulated_kernels.set(params)


def reset_tpu_interpret_mode_state() -> None:
    """Forget what an error has left in the simulator: nothing is left.

    >>> reset_tpu_interpret_mode_state()
    """
