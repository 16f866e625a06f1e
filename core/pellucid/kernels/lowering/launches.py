"""How a grid is launched on GPUs, whose programs run at once: its axes on the device, a program's position, and the blocks that it sees."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import strict_zip
from pellucid._machine.ir import Var
from pellucid._machine.refs.primitives import swap_p
from pellucid._machine.xla.kernel_dialects import arith, ir
from pellucid.kernels.mappings import Along, BlockMapping, positions_of
from pellucid.kernels.programs import GridKernel
from pellucid.kernels.specs import step_of

from .programs import Lowering, Scope

_MAX_GRID = (2**31 - 1, 2**16 - 1, 2**16 - 1)


def is_shared(mapping: BlockMapping) -> bool:
    """Whether several programs see one block of an array."""
    table = mapping.indices
    return table is not None and len(np.unique(table, axis=0)) < len(table)


def is_shared_by_blocks(kernel: GridKernel, mapping: BlockMapping) -> bool:
    """Whether several blocks of threads see one block of an array; programs of one run one after another."""
    table, within = mapping.indices, kernel.within_block
    if table is None or not within:
        return is_shared(mapping)
    # Beside each program's index the position of its block of threads.
    places = positions_of(kernel.grid)
    outer = places[[a for a in range(len(places)) if a not in within]].T
    pairs = np.concatenate([table, outer], axis=1)
    return len(np.unique(pairs, axis=0)) > len(np.unique(table, axis=0))


def launch_grid(grid: Sequence[int]) -> tuple[int, int, int]:
    """Programs along the three axes that a GPU has: the last axes of the grid first, or all of them along one."""
    sizes = [*reversed(grid)]
    if len(sizes) <= 3 and all(n <= m for n, m in zip(sizes, _MAX_GRID, strict=False)):
        x, y, z = [*sizes, 1, 1, 1][:3]
        return x, y, z
    return math.prod(sizes), 1, 1


def position(
    ctx: Lowering, grid: Sequence[int], number_along: Callable[[int], ir.Value]
) -> Sequence[ir.Value]:
    """The position of the program along each axis of the grid, from its `number_along` an axis of the device."""
    if launch_grid(grid)[1:] != (1, 1) or len(grid) <= 1:
        ids = [number_along(axis) for axis in range(len(grid))]
        return ids[::-1]
    number = number_along(0)
    found: list[ir.Value] = []
    for n in reversed(grid[1:]):
        found.append(arith.remsi(number, ctx.int32(n)))
        number = arith.divsi(number, ctx.int32(n))
    return [number, *reversed(found)]


def beginnings(kernel: GridKernel) -> list[int]:
    """The inputs whose values results start with. Each is passed once more, so that the kernel can still read the
    unchanged input.
    """
    return [kernel.aliases[o] for o in sorted(kernel.aliases)]


def read_references(kernel: GridKernel) -> set[int]:
    """Positions of the references that the body reads; all those that it passes to inner programs count as read."""
    jaxpr = kernel.body.jaxpr
    places = {v: i for i, v in enumerate(jaxpr.invars[kernel.n_front :])}
    found = set()
    for equation in jaxpr.equations:
        if equation.primitive is not swap_p or equation.results[0] in Scope(jaxpr).first_uses:
            found.update(places[a] for a in equation.operands if type(a) is Var and a in places)
    return found


def block_starts(ctx: Lowering, mapping: BlockMapping, ids: Sequence[ir.Value]) -> tuple[Any, ...]:
    """For each dimension of an array the first element of the block that the program at `ids` sees."""
    indices: list[Any] = [None] * len(mapping.dims)
    if None in mapping.known:
        indices = ctx.inline(mapping.program.jaxpr, ids)
    starts: list[Any] = []
    rows = strict_zip(mapping.dims, mapping.known, indices[: len(mapping.dims)], mapping.units)
    for dim, known, x, unit in rows:
        if isinstance(known, int):
            starts.append(known * step_of(dim))
            continue
        if type(known) is Along:
            x, unit = ids[known.axis], step_of(dim)
        starts.append(x if unit == 1 else arith.muli(x, ctx.int32(unit)))
    return tuple(starts)
