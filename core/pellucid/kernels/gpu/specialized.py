"""Pipelines whose copies one thread of a block makes, for the others, which compute.

It is defined by a loop over the grid in each thread that computes, one thread after another. On GPUs, and in the simulator, it has buffers in
shared memory, and barriers: blocks that are there, blocks that are consumed, results that are written, results that have gone.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import ArgumentValueError, Function, JAXTypeError
from pellucid._machine.higher_order.loops import fori_loop
from pellucid._machine.ir import Values
from pellucid._machine.parallel.axes import axis_index, axis_size
from pellucid._machine.refs.access import new_ref
from pellucid._machine.tracing import types_of
from pellucid._machine.transforms import check_callable, stage_open
from pellucid.kernels.buffering import Staged, run_pipeline
from pellucid.kernels.grid import current_position
from pellucid.kernels.inside import load, run_scoped, store, when
from pellucid.kernels.parts import parts_of
from pellucid.kernels.programs import position

from .barriers import barrier_arrive, barrier_wait
from .copies import copy_gmem_to_smem, copy_smem_to_gmem
from .fences import commit_smem, set_max_registers, wait_smem_to_gmem, wgmma_wait
from .memory import Barrier, Memory
from .pipeline import PipelineGrid, carry_loop, grid_of

_TRUE = np.bool_(True)
_REGISTERS = 512
"""Registers of a multiprocessor for each of 128 threads; each gets a multiple of 8."""


class PipelinePipeline(enum.Enum):
    """Where a pipeline stands in a succession of them."""

    START = 0
    STEADY = 1
    STOP = 2


class _Threads(NamedTuple):
    """The threads of a pipeline: the axis along which they are, how many compute, which one copies; how the compute ones run."""

    axis: Any
    n_compute: int
    memory_index: int
    registers: int
    body: Function
    context: Function | None
    has_barriers: bool


class WarpSpecializedPipeline:
    """A pipeline whose copies one thread makes: a function of references in the memory of the device."""

    def __init__(self, grid: PipelineGrid, threads: _Threads) -> None:
        self._grid, self._threads = grid, threads

    def get_allocations(self, *refs: Any) -> Any:
        """Types of the buffers and barriers that it needs, for `run_scoped(..., collective_axes=wg_axis)`."""
        grid, n = self._grid, self._grid.n_slots
        grid.check(refs)
        # Buffers, then where there are inputs a barrier for what is there and those for what is consumed, then two for each result.
        types = [grid.buffer(k, ref, n) for k, ref in enumerate(refs)]
        if grid.inputs:
            n_consumed = len(grid.inputs) if self._threads.has_barriers else 1
            types.append(Barrier(num_arrivals=len(grid.inputs), num_barriers=n))
            types += [Barrier(num_arrivals=self._threads.n_compute, num_barriers=n)] * n_consumed
        for _ in grid.results:
            types.append(Barrier(num_arrivals=self._threads.n_compute, num_barriers=n))
            types.append(Barrier(num_barriers=n))
        return tuple(types)

    def __call__(self, *refs: Any, allocations: Any = None) -> None:
        """Run the pipeline on references, with the buffers and barriers of `allocations` if they are made before."""
        grid, threads = self._grid, self._threads
        grid.check(refs)
        where = current_position()
        if where is None or where.thread_name != threads.axis:
            raise JAXTypeError(
                "emit_pipeline_warp_specialized has a meaning only in a kernel whose threads lie along `wg_axis`.",
                got=f"wg_axis={threads.axis!r}",
                do="State them: `mosaic_gpu.kernel(…, num_threads=…, thread_name=…)`.",
            )
        if axis_size(threads.axis) != threads.n_compute + 1:
            raise ArgumentValueError(
                "emit_pipeline_warp_specialized: there is one thread more than those that compute.",
                got=f"num_compute_wgs={threads.n_compute}, {axis_size(threads.axis)} threads",
            )
        own = axis_index(threads.axis)
        computes = own != np.int32(threads.memory_index)

        def in_order(*views: Any) -> None:
            when(computes)(lambda: _compute(threads, lambda carry: _in_order(grid, threads, views, carry)))  # fmt: skip

        parts, operands = parts_of(grid.caller, refs)

        def run(*operands: Any) -> Values:
            views = parts.views(operands)

            def with_buffers(*held: Any) -> None:
                shared = _Shared(grid, threads, views, held)
                when(~computes)(shared.memory)
                when(computes)(shared.compute)

            if allocations is not None:
                with_buffers(*allocations)
            else:
                run_scoped(with_buffers, *self.get_allocations(*refs), collective_axes=threads.axis)
            return []

        program, consts = stage_open(run, types_of(operands), None)
        run_pipeline(in_order, Staged(program, consts), refs, must_have_buffers=True)


def _compute(threads: _Threads, run: Callable[[Any], Any]) -> None:
    if threads.context is None:
        run(None)
    else:
        threads.context(run)


def emit_pipeline_warp_specialized(
    body: Function,
    *,
    grid: tuple[Any, ...],
    memory_registers: int,
    in_specs: Any = (),
    out_specs: Any = (),
    max_concurrent_steps: int = 2,
    wg_axis: Any,
    num_compute_wgs: int,
    pipeline_state: Any = None,
    manual_consumed_barriers: bool = False,
    compute_context: Function | None = None,
    memory_thread_idx: int | None = None,
) -> WarpSpecializedPipeline:
    """A function of references in the memory of the device that runs `body` once for each point of a grid in each of `num_compute_wgs` threads, for which one more thread copies blocks.

    All threads call it. `body` takes the position, then references to blocks of inputs and of results in shared memory, which the computing threads have in common; with
    `manual_consumed_barriers` then a barrier for each input, at which each computing thread arrives when it has read the block. With a `compute_context`, which gets
    the pipeline as a function of the first carry, `body` takes and returns a carry. The thread for copies is number `memory_thread_idx`, by default the last, and keeps
    `memory_registers` registers. Every pipeline runs to its end, whatever its `pipeline_state`.

    Raises: ArgumentTypeError, ArgumentValueError for threads, references and blocks that a pipeline can't have.

    >>> from pellucid import lax
    >>> from pellucid.experimental.pallas import mosaic_gpu
    >>> block = mosaic_gpu.BlockSpec((2,), lambda i: (i,))
    >>> def body(x_ref, o_ref):
    ...     def double(position, x_ref, o_ref):
    ...         i = lax.axis_index("wg")
    ...         o_ref[i] = x_ref[i] * 2
    ...     emit_pipeline_warp_specialized(
    ...         double, grid=(2,), memory_registers=40, in_specs=[block], out_specs=[block], wg_axis="wg", num_compute_wgs=2
    ...     )(x_ref, o_ref)
    >>> x = np.arange(4, dtype=np.float32)
    >>> mosaic_gpu.kernel(body, x, num_threads=3, thread_name="wg")(x)
    Array([0., 2., 4., 6.], dtype=float32)
    """
    caller = "emit_pipeline_warp_specialized"
    check_callable(body, caller)
    found = grid_of(caller, grid, in_specs, out_specs, max_concurrent_steps)
    n = num_compute_wgs
    index = n if memory_thread_idx is None else memory_thread_idx
    if isinstance(n, bool) or not isinstance(n, int) or n < 1 or not 0 <= index <= n:
        raise ArgumentValueError(
            f"{caller}: at least one thread computes, and `memory_thread_idx` is a thread.",
            got=f"num_compute_wgs={n!r:.20}, memory_thread_idx={memory_thread_idx!r:.20}",
        )
    threads = _Threads(
        wg_axis, n, index, memory_registers, body, compute_context, bool(manual_consumed_barriers)
    )
    return WarpSpecializedPipeline(found, threads)


def _body(grid: PipelineGrid, threads: _Threads, t: Any, blocks: Sequence[Any], carry: Any) -> Any:
    has_carry = threads.context is not None
    ids = tuple(position(t, grid.sizes))
    # A carry is passed by position, as the last argument.
    carry = threads.body(ids, *blocks, *([carry] if has_carry else []))
    return carry if has_carry else None


def _in_order(grid: PipelineGrid, threads: _Threads, refs: Sequence[Any], carry: Any) -> Any:
    """All programs of one thread, each with copies of its blocks."""
    n = len(grid.inputs)

    def step(t: Any, carry: Any) -> Any:
        blocks = []
        for k, ref in enumerate(refs):
            value = load(grid.part(k, ref, t), mask=_TRUE, outside=0 if k < n else None)
            kind = grid.buffer(k, ref, 1)
            kind = Memory(kind.inner_aval.update(shape=value.shape), kind.memory_space, kind.transforms)  # fmt: skip
            blocks.append(new_ref(value, memory_space=kind, kind=kind))

        def run(*barriers: Any) -> Any:
            held = [*blocks[:n], *blocks[n:], *[barrier.at[0] for barrier in barriers]]
            return _body(grid, threads, t, held, carry)

        after = run_scoped(run, *[Barrier()] * n) if threads.has_barriers else run()
        for k, block in enumerate(blocks[n:], n):
            store(grid.part(k, refs[k], t), block[...], mask=_TRUE)
        return after

    return carry_loop(grid.total, step, carry)


def _if(condition: Any, function: Callable[[], None]) -> None:
    when(condition)(function)


class _Shared(NamedTuple):
    """A run of a pipeline with buffers and barriers that its threads have in common."""

    grid: PipelineGrid
    threads: _Threads
    refs: Sequence[Any]
    held: Sequence[Any]

    @property
    def n_inputs(self) -> int:
        """The number of inputs."""
        return len(self.grid.inputs)

    @property
    def full(self) -> Any:
        """The barriers at which copies of inputs arrive, one for each slot."""
        return self.held[len(self.refs)]

    @property
    def consumed(self) -> Sequence[Any]:
        """The barriers at which threads arrive that need a slot no more: one for each slot, or one for each input and slot."""
        n = self.n_inputs if self.threads.has_barriers else 1
        first = len(self.refs) + 1
        return self.held[first : first + n] if self.n_inputs else ()

    def written(self, i: int) -> Any:
        """The barriers at which threads arrive that have written their part of result number `i`."""
        return self.held[len(self.held) - 2 * len(self.grid.results) + 2 * i]

    def gone(self, i: int) -> Any:
        """The barriers that say that a block of result number `i` has gone."""
        return self.held[len(self.held) - 2 * len(self.grid.results) + 2 * i + 1]

    def slot(self, t: Any) -> Any:
        """The slot of program, or of a block of a result, number `t`."""
        return t % np.int32(self.grid.n_slots)

    def is_first(self, k: int, t: Any) -> Any:
        """Whether program `t` is the first of some in succession that see one block."""
        return (t == 0) | ~self.grid.is_same(k, t, t - 1)

    def is_last(self, k: int, t: Any) -> Any:
        """Whether program `t` is the last of them."""
        return (t == self.grid.total - 1) | ~self.grid.is_same(k, t, t + 1)

    # The thread for copies --------------------------------------------------------------------------------------

    def memory(self) -> None:
        """Copy blocks for the others."""
        grid, n_slots = self.grid, self.grid.n_slots
        set_max_registers(self.threads.registers, action="decrease")
        visits = [np.int32(0)] * len(grid.results)
        behind = np.int32(n_slots - 1)

        def step(t: Any, visits: Any) -> Any:
            _if(t < grid.total, lambda: self.fetch(t))
            # Results of the oldest program whose inputs are in a slot.
            return [self.send(i, t - behind, v) for i, v in enumerate(visits)]

        total = np.int32(grid.total) if isinstance(grid.total, int) else grid.total
        fori_loop(np.int32(0), total + behind, step, visits)

        def wait(t: Any, _: Any) -> None:
            for barrier in self.consumed:
                barrier_wait(barrier.at[self.slot(t)])

        # What the last programs have consumed, so that the barriers may be used again.
        left = total - np.int32(n_slots)
        fori_loop(np.int32(max(left, 0)) if type(total) is np.int32 else left * (left > 0), total, wait, None)  # fmt: skip
        if grid.results:
            wait_smem_to_gmem(0)

    def fetch(self, t: Any) -> None:
        """Let the blocks of the inputs of program `t` come, when their slot is free."""
        slot = self.slot(t)
        for k in range(self.n_inputs):
            if k < len(self.consumed):
                _if(t >= self.grid.n_slots, lambda k=k: barrier_wait(self.consumed[k].at[slot]))
            part = self.grid.part(k, self.refs[k], t)
            copy_gmem_to_smem(part, self.held[k].at[slot], self.full.at[slot])

    def send(self, i: int, t: Any, visits: Any) -> Any:
        """Let the block of result number `i` go that program `t` is the last to write; gives how many have gone."""
        k, slot = self.n_inputs + i, self.slot(visits)
        goes = (t >= 0) & (t < self.grid.total) & self.is_last(k, t)

        def copy() -> None:
            barrier_wait(self.written(i).at[slot])
            copy_smem_to_gmem(self.held[k].at[slot], self.grid.part(k, self.refs[k], t))
            wait_smem_to_gmem(0, wait_read_only=True)
            barrier_arrive(self.gone(i).at[slot])

        _if(goes, copy)
        return visits + goes.astype(np.int32)

    # Threads that compute ---------------------------------------------------------------------------------------

    def compute(self) -> None:
        """Run the body for all programs."""
        # What all threads have when they begin is what they can have together.
        n = self.threads.n_compute
        whole = (n + 1) * (_REGISTERS // (n + 1) // 8 * 8)
        free = (whole - self.threads.registers) // n // 8 * 8
        set_max_registers(min(free, 256), action="increase")
        _compute(self.threads, self.programs)

    def programs(self, carry: Any) -> Any:
        """Run the body for all programs, from a carry to the last one."""
        grid, n, delay = self.grid, self.n_inputs, self.grid.delay

        def step(t: Any, carried: Any) -> Any:
            carry, visits = carried
            slot = self.slot(t)
            if n:
                barrier_wait(self.full.at[slot])
            slots = [slot] * n + [self.slot(v) for v in visits]
            for i, v in enumerate(visits):
                is_taken = self.is_first(n + i, t) & (v >= grid.n_slots)
                _if(is_taken, lambda i=i: barrier_wait(self.gone(i).at[slots[n + i]]))
            blocks = [self.held[k].at[slots[k]] for k in range(len(self.refs))]
            own = [x.at[slot] for x in self.consumed] if self.threads.has_barriers else []
            carry = _body(grid, self.threads, t, [*blocks, *own], carry)
            if n and not own:
                # With a delay, the blocks of an earlier program.
                _if(t >= delay, lambda: barrier_arrive(self.consumed[0].at[self.slot(t - np.int32(delay))]))  # fmt: skip
            return carry, [self.finish(i, t, v) for i, v in enumerate(visits)]

        visits = [np.int32(0)] * len(grid.results)
        carry, visits = carry_loop(grid.total, step, (carry, visits))
        if n and not self.threads.has_barriers:
            if delay:
                wgmma_wait(0)  # products that may still read the blocks of the last programs
            for back in range(delay, 0, -1):
                last = np.int32(grid.total - back) if isinstance(grid.total, int) else grid.total - back  # fmt: skip
                _if(grid.total >= back, lambda last=last: barrier_arrive(self.consumed[0].at[self.slot(last)]))  # fmt: skip
        # Until the last blocks have gone, so that the barriers may be used again.
        for i, v in enumerate(visits):
            for back in range(grid.n_slots, 0, -1):
                _if(v >= back, lambda i=i, v=v, back=back: barrier_wait(self.gone(i).at[self.slot(v - np.int32(back))]))  # fmt: skip
        return carry

    def finish(self, i: int, t: Any, visits: Any) -> Any:
        """State that this thread has written its part of result number `i`, if the next program has another block; gives how many are written."""
        is_last = self.is_last(self.n_inputs + i, t)

        def arrive() -> None:
            commit_smem()
            barrier_arrive(self.written(i).at[self.slot(visits)])

        _if(is_last, arrive)
        return visits + is_last.astype(np.int32)
