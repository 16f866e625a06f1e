"""Grids within a kernel whose blocks are copied to and from shared memory while the body runs.

The program of a pipeline of one thread is its buffers and copies, everywhere. One that threads share is defined by a loop over the grid in each
thread that computes; on GPUs, and in the simulator, the thread for memory copies for the others (`specialized.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    Function,
    strict_zip,
    tree_flatten,
    tree_leaves,
)
from pellucid._machine.higher_order.loops import fori_loop
from pellucid._machine.refs.access import RefView
from pellucid._machine.tracing import is_reference
from pellucid._machine.transforms import check_callable
from pellucid.kernels.buffering import index_at, number_of_programs
from pellucid.kernels.inside import run_scoped, when
from pellucid.kernels.pipeline import block_view
from pellucid.kernels.programs import position
from pellucid.kernels.specs import (
    Blocked,
    BlockSpec,
    Element,
    Squeezed,
    block_dims,
    padding_of,
    size_of,
)

from .barriers import barrier_wait
from .copies import copy_gmem_to_smem, copy_smem_to_gmem
from .fences import commit_smem, commit_smem_to_gmem_group, wait_smem_to_gmem
from .memory import Barrier, MemorySpace


class PipelineGrid(NamedTuple):
    """A grid of `total` programs, the specs of blocks of inputs and of results, how many steps are in flight."""

    caller: str
    sizes: tuple[Any, ...]
    total: Any
    inputs: Sequence[Any]
    results: Sequence[Any]
    n_slots: int

    @property
    def specs(self) -> list[Any]:
        """Those of inputs, then those of results."""
        return [*self.inputs, *self.results]

    @property
    def delay(self) -> int:
        """How many steps after a program its blocks are taken for another one."""
        return max([getattr(spec, "delay_release", 0) for spec in self.inputs], default=0)

    def check(self, refs: Sequence[Any]) -> None:
        """Raise ArgumentTypeError, ArgumentValueError for references or blocks that a pipeline can't have."""
        if len(refs) != len(self.specs):
            raise ArgumentValueError(
                f"{self.caller}: there is one spec for each reference.",
                got=f"{len(self.specs)} specs, {len(refs)} references",
            )
        for spec, ref in strict_zip(self.specs, refs):
            if type(ref) is not RefView and not is_reference(ref):
                raise ArgumentTypeError(
                    f"{self.caller}: the function takes references, not arrays.",
                    got=f"got {type(ref).__name__}",
                    do="Pass the reference, or a part of it: `ref.at[index]`.",
                )
            for dim in block_dims(self.caller, spec, ref.shape):
                is_plain = type(dim) in (Blocked, Squeezed, Element) and padding_of(dim) == (0, 0)
                if not is_plain:
                    raise ArgumentValueError(
                        f"{self.caller}: blocks have sizes, None or Element.",
                        got=f"{dim}",
                        where=spec.line,
                    )

    def buffer(self, k: int, ref: Any, slots: int) -> Any:
        """The type of the buffers of reference number `k`."""
        spec = self.specs[k]
        dims = block_dims(self.caller, spec, ref.shape)
        shape = tuple([size_of(dim) for dim in dims if type(dim) is not Squeezed])
        transforms = getattr(spec, "transforms", ())
        return MemorySpace.SMEM((slots, *shape), ref.dtype, transforms=transforms)

    def part(self, k: int, ref: Any, t: Any) -> Any:
        """The block of reference number `k` that program `t` sees."""
        view, _ = block_view(self.specs[k], ref, position(t, self.sizes))
        return view

    def is_same(self, k: int, t: Any, other: Any) -> Any:
        """Whether two programs see the same block of reference number `k`: a bool that is traced or known."""
        spec, same = self.specs[k], np.bool_(True)
        if spec.index_map is None:
            return same
        rows = [index_at(spec, position(x, self.sizes)) for x in (t, other)]
        for x, y in strict_zip(*rows):
            found = x == y
            same = same & (np.bool_(found) if isinstance(found, bool) else found)
        return same


def grid_of(
    caller: str, grid: Any, in_specs: Any, out_specs: Any, max_concurrent_steps: Any
) -> PipelineGrid:
    """The grid of a pipeline. Raises: ArgumentValueError for numbers of steps that are none, or fewer than blocks are kept."""
    is_leaf = lambda x: isinstance(x, BlockSpec)
    inputs, results = [tree_leaves(x, is_leaf=is_leaf) for x in (in_specs, out_specs)]
    if isinstance(max_concurrent_steps, bool) or not isinstance(max_concurrent_steps, int) or max_concurrent_steps < 1:  # fmt: skip
        raise ArgumentValueError(
            f"{caller}: `max_concurrent_steps` is a number, from 1 on.",
            got=f"got {max_concurrent_steps!r:.40}",
        )
    total = number_of_programs(grid)
    slots = max_concurrent_steps
    if isinstance(total, int):
        slots = min(slots, max(total, 1))
    found = PipelineGrid(caller, tuple(grid), total, inputs, results, slots)
    if found.delay >= max_concurrent_steps:
        raise ArgumentValueError(
            f"{caller}: blocks are kept for fewer steps than are in flight.",
            got=f"delay_release={found.delay}, max_concurrent_steps={max_concurrent_steps}",
        )
    return found._replace(n_slots=max(slots, found.delay + 1))


def emit_pipeline(
    body: Function,
    *,
    grid: tuple[Any, ...],
    in_specs: Any = (),
    out_specs: Any = (),
    max_concurrent_steps: int = 1,
    init_carry: Any = None,
) -> Callable[..., Any]:
    """A function of references in the memory of the device that runs `body` once for each point of a grid, with references to blocks in shared memory.

    `body` takes the position, then references to blocks of inputs and of results, and with an `init_carry` the carry, of which it returns the next one; the function gives
    the last one. Blocks of the next `max_concurrent_steps - 1` steps come meanwhile. Elements outside of a reference are 0, and dropped. A block of a result
    begins undefined, and stays as programs that follow each other write it.

    Raises: ArgumentTypeError, ArgumentValueError for references and blocks that a pipeline can't have.

    >>> from pellucid.experimental.pallas import mosaic_gpu
    >>> def double(position, x_ref, o_ref):
    ...     o_ref[...] = x_ref[...] * 2
    >>> block = mosaic_gpu.BlockSpec((2,), lambda i: (i,))
    >>> def body(x_ref, o_ref):
    ...     emit_pipeline(double, grid=(3,), in_specs=[block], out_specs=[block], max_concurrent_steps=2)(x_ref, o_ref)
    >>> x = np.arange(6, dtype=np.float32)
    >>> mosaic_gpu.kernel(body, x)(x)
    Array([ 0.,  2.,  4.,  6.,  8., 10.], dtype=float32)
    """
    check_callable(body, "emit_pipeline")
    found = grid_of("emit_pipeline", grid, in_specs, out_specs, max_concurrent_steps)

    def run(*refs: Any) -> Any:
        found.check(refs)
        types = [found.buffer(k, ref, found.n_slots) for k, ref in enumerate(refs)]
        n = len(found.inputs)
        barrier = [Barrier(num_arrivals=n, num_barriers=found.n_slots)] if n else []
        run = lambda *held: _Run(found, refs, held[: len(refs)], held[len(refs) :]).all(body, init_carry)  # fmt: skip
        return run_scoped(run, *types, *barrier)

    return run


class _Run(NamedTuple):
    """A run of a pipeline of one thread: its buffers, and a barrier for each slot."""

    grid: PipelineGrid
    refs: Sequence[Any]
    buffers: Sequence[Any]
    barriers: Sequence[Any]

    def all(self, body: Function, init_carry: Any) -> Any:
        """Run the body for each point of the grid; gives the last carry."""
        grid, n_slots, n = self.grid, self.grid.n_slots, len(self.grid.inputs)
        for k in range(n_slots):
            _if(grid.total > k, lambda k=k: self.fetch(np.int32(k)))

        def step(t: Any, carried: Any) -> Any:
            carry, visits = carried
            slot = t % np.int32(n_slots)
            if grid.inputs:
                barrier_wait(self.barriers[0].at[slot])
            if grid.results:
                # The copies that took the slots of this step last have read them.
                wait_smem_to_gmem(n_slots - 1, wait_read_only=True)
            slots = [slot] * n + [v % np.int32(n_slots) for v in visits]
            blocks = [buffer.at[s] for buffer, s in strict_zip(self.buffers, slots)]
            ids = tuple(position(t, grid.sizes))
            carry = body(ids, *blocks, *([] if init_carry is None else [carry]))
            if grid.results:
                commit_smem()
                visits = [self.send(n + i, t, blocks[n + i], v) for i, v in enumerate(visits)]
                commit_smem_to_gmem_group()
            following = t + np.int32(n_slots - grid.delay)
            is_fetched = (following < grid.total) & (t >= grid.delay)
            _if(is_fetched, lambda: self.fetch(following))
            return None if init_carry is None else carry, visits

        # For each result how many blocks of it are complete, which says what slot the next one has.
        visits = [np.int32(0)] * len(grid.results)
        carry, _ = carry_loop(grid.total, step, (init_carry, visits))
        if grid.results:
            wait_smem_to_gmem(0)
        return carry

    def fetch(self, t: Any) -> None:
        """Let the blocks of the inputs of program `t` come to its slot."""
        slot = t % np.int32(self.grid.n_slots)
        for k in range(len(self.grid.inputs)):
            part = self.grid.part(k, self.refs[k], t)
            copy_gmem_to_smem(part, self.buffers[k].at[slot], self.barriers[0].at[slot])

    def send(self, k: int, t: Any, block: Any, visits: Any) -> Any:
        """Let the block of a result go, if the next program has another one; gives how many have gone."""
        part, total = self.grid.part(k, self.refs[k], t), self.grid.total
        is_last = (t == total - 1) | ~self.grid.is_same(k, t, t + 1)
        _if(is_last, lambda: copy_smem_to_gmem(block, part, commit_group=False))
        return visits + np.int32(is_last) if isinstance(is_last, np.bool_) else visits + is_last.astype(np.int32)  # fmt: skip


def carry_loop(total: Any, step: Callable[[Any, Any], Any], carry: Any) -> Any:
    """The last carry of `step(t, carry)` for `t` from 0 to below `total`. References in a carry stay where they are.

    Raises: ArgumentValueError for a step that gives other references than it got.
    """
    leaves, tree = tree_flatten(carry)
    fixed = {i: x for i, x in enumerate(leaves) if is_reference(x)}

    def values(carried: Any) -> list[Any]:
        found, own = tree_flatten(carried)
        if own != tree or any(found[i] is not x for i, x in fixed.items()):
            raise ArgumentValueError(
                "a step of a pipeline returns a carry like the one that it gets, with the same references.",
                got=f"{own}, not {tree}" if own != tree else "other references",
            )
        return [x for i, x in enumerate(found) if i not in fixed]

    def whole(values: Any) -> Any:
        rest = iter(values)
        return tree.unflatten([fixed[i] if i in fixed else next(rest) for i in range(len(leaves))])

    n = np.int32(total) if isinstance(total, int) else total
    turn = lambda t, held: values(step(t, whole(held)))
    return whole(fori_loop(np.int32(0), n, turn, values(carry)))


def _if(condition: Any, function: Callable[[], None]) -> None:
    when(condition)(function)
