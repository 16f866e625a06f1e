"""What is found wrong with the blocks of a grid: some lie outside of their array, are never written, or are written again. Where
data choose them, the last of these is found when the program runs.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import ArgumentValueError, Shape, strict_zip
from pellucid._machine.base.dims import Symbol
from pellucid._machine.checks.errors import FailedCheckError
from pellucid._machine.checks.guard import guard
from pellucid._machine.ir import Values
from pellucid._machine.primitives import convert_element_type, select_n
from pellucid._machine.tracing import replay
from pellucid._machine.transforms.vmap import vmap

from .failures import Layout
from .mappings import INT32, MAX_PROGRAMS, Along, BlockMapping, positions_of
from .specs import (
    Blocked,
    BoundedSlice,
    Element,
    RevisitMode,
    Squeezed,
    block_dims,
    padding_of,
    step_of,
)
from .windows import Windows


def check_inside(caller: str, mapping: BlockMapping, grid: Sequence[int | None]) -> None:
    """Raise ArgumentValueError if a program sees a block that lies wholly outside of its array."""
    table = mapping.indices
    if table is None:
        return
    n_blocks = np.array(mapping.n_blocks, INT32)
    limits = np.maximum(n_blocks, 1)  # an axis without elements has one block, of none
    bad = (table < 0) | (table >= limits)
    if not bad.any():
        return
    program, dim = np.unravel_index(int(np.argmax(bad)), bad.shape)
    size = f"array of shape {mapping.aval.shape}, blocks of {mapping.sizes}"
    if any(_counts_elements(mapping)):
        first = tuple(_starts(mapping)[program].tolist())
        got = [size, f"program {_position(program, grid)} asks for the one that begins at {first}"]
    else:
        block = tuple(table[program].tolist())
        got = [
            f"{size}: {mapping.n_blocks} of them",
            f"program {_position(program, grid)} asks for block {block}",
        ]
    raise ArgumentValueError(
        f"{caller}: a block of {mapping.name} lies outside of its array.",
        got=got,
        where=mapping.spec.line,
        do=_fitting(mapping, int(dim), grid),
    )


def _fitting(mapping: BlockMapping, dim: int, grid: Sequence[int | None]) -> str:
    """Advice for a dimension along which some block lies outside: a shape that fits the grid, or a grid that fits."""
    known, n_blocks = mapping.known[dim], mapping.n_blocks[dim]
    if _counts_elements(mapping)[dim]:
        last = mapping.aval.shape[dim] + sum(padding_of(mapping.dims[dim])) - 1
        return f"Let the index map give 0 to {last} for dimension {dim}."
    if type(known) is Along and type(mapping.dims[dim]) is Blocked:
        size = -(-mapping.aval.shape[dim] // (grid[known.axis] or 1))
        shape = [*mapping.sizes]
        shape[dim] = size
        grid_size = f"a grid of {n_blocks} along axis {known.axis}"
        return f"A block of {tuple(shape)} fits the grid, or {grid_size} these blocks."
    return f"Let the index map give 0 to {n_blocks - 1} for dimension {dim}."


def _counts_elements(mapping: BlockMapping) -> list[bool]:
    """For each dimension, whether the user's index map gives elements of it, and not blocks."""
    dims = block_dims(mapping.name, mapping.spec, mapping.aval.shape)
    return [type(dim) in (Element, BoundedSlice) for dim in dims]


def _starts(mapping: BlockMapping) -> np.ndarray:
    """The first element of each program's block, `[programs, dims]`; negative ones are padding."""
    assert mapping.indices is not None
    steps = np.array([step_of(dim) for dim in mapping.dims], np.int64)
    before = np.array([padding_of(dim)[0] for dim in mapping.dims], np.int64)
    return mapping.indices * steps - before


def _position(program: Any, grid: Sequence[int | None]) -> tuple[int, ...]:
    return tuple([int(i) for i in np.unravel_index(int(program), [n or 1 for n in grid])])


def check_written(
    caller: str,
    mapping: BlockMapping,
    grid: Sequence[int | None],
    parallel: Sequence[int],
    *,
    is_complete: bool,
) -> None:
    """Raise ArgumentValueError for a result of which blocks are never written, written by several programs of one of the
    `parallel` axes, or left and visited again.

    `is_complete`: whether elements of its blocks have values only if they are written.
    """
    table = mapping.indices
    if table is None:
        return
    if any(type(dim) in (Element, BoundedSlice) for dim in mapping.dims):
        _check_parts(caller, mapping, grid, parallel, is_complete=is_complete)
        return
    total = math.prod(mapping.n_blocks)
    # For each program the number of its block, counted row by row.
    numbers = np.zeros(len(table), np.int64)
    for column, n in strict_zip(table.T, mapping.n_blocks):
        numbers = numbers * max(n, 1) + column
    visited = np.unique(numbers)
    if is_complete and len(visited) < total:
        blocks = itertools.product(*map(range, mapping.n_blocks))
        seen = set(visited.tolist())
        missing = next(block for i, block in enumerate(blocks) if i not in seen)
        raise ArgumentValueError(
            f"{caller}: no program writes block {missing} of {mapping.name}.",
            got=f"array of shape {mapping.aval.shape}, blocks of {mapping.sizes}: {len(visited)} of {total} are written by "
            f"a grid of {tuple(grid)}",
            where=mapping.spec.line,
            do=_covering(mapping, grid),
        )
    ids = positions_of(grid)
    for axis in (
        parallel if total > 1 else ()
    ):  # a block shared by all programs is scratch memory, as in library kernels
        # Each (block, position along the axis) as one number: if there are more than blocks, some block has two positions.
        pairs = numbers * (grid[axis] or 1) + ids[axis]
        if len(np.unique(pairs)) > len(visited):
            _, first, counts = np.unique(numbers, return_index=True, return_counts=True)
            block = table[first[int(np.argmax(counts))]]
            raise ArgumentValueError(
                f"{caller}: programs along the parallel axis {axis} write the same block of {mapping.name}.",
                got=f"block {tuple(block.tolist())} of {mapping.sizes}, grid {tuple(grid)}",
                where=mapping.spec.line,
                do='Let the block depend on that axis, or declare it "arbitrary".',
            )
    mode = mapping.spec.pipeline_mode
    # Programs at which the block changes: with more stays than blocks, some block is left and visited again.
    runs = 1 + np.flatnonzero(numbers[1:] != numbers[:-1])
    if len(runs) + 1 > len(visited) and getattr(mode, "revisit", None) is not RevisitMode.ANY:
        starts = np.concatenate([[0], runs])
        firsts = np.unique(numbers[starts], return_index=True)[1]
        # The first stay that is not the first one at its block.
        again = starts[np.setdiff1d(np.arange(len(starts)), firsts)[0]]
        raise ArgumentValueError(
            f"{caller}: a block of {mapping.name} is left and visited again, which devices don't keep.",
            got=f"program {_position(again, grid)} comes back to block {tuple(table[again].tolist())}",
            where=mapping.spec.line,
            do="Put the axes on which the block doesn't depend last in the grid, or state `Buffered(2, revisit=RevisitMode.ANY)`.",
        )


def _covering(mapping: BlockMapping, grid: Sequence[int | None]) -> str:
    for dim, (known, n) in enumerate(strict_zip(mapping.known, mapping.n_blocks)):
        if type(known) is Along and (grid[known.axis] or 0) < n:
            if _counts_elements(mapping)[dim]:
                return f"A grid of {n} along axis {known.axis} fits these blocks."
            shape = [*mapping.sizes]
            shape[dim] = -(-mapping.aval.shape[dim] // (grid[known.axis] or 1))
            return f"A block of {tuple(shape)} fits the grid, or a grid of {n} along axis {known.axis} these blocks."
        if known is not None and type(known) is not Along and n > 1:
            return f"Let the index map count blocks along dimension {dim}, or make the block {mapping.aval.shape[dim]} long there."
    return "Let the index map reach all blocks, or alias the result with an input: `input_output_aliases`."


# Blocks that may begin anywhere ---------------------------------------------------------------------------


def _check_parts(
    caller: str,
    mapping: BlockMapping,
    grid: Sequence[int | None],
    parallel: Sequence[int],
    *,
    is_complete: bool,
) -> None:
    """`check_written` for blocks that may begin at any element, and so overlap: looks at elements.

    What is too large to be counted isn't looked at; a `BoundedSlice` counts with its largest size, and may be written by parallel
    programs.
    """
    starts = _starts(mapping)
    windows = Windows(mapping.aval.shape, starts, np.array([mapping.sizes], np.int64))
    visits = windows.visits
    if is_complete and visits is not None and (visits.sizes[visits.counts == 0] > 0).any():
        cell = np.unravel_index(int(np.argmin(visits.counts)), visits.counts.shape)
        missing = tuple([int(edges[i]) for edges, i in strict_zip(visits.edges, cell)])
        n_unseen = int(visits.sizes[visits.counts == 0].sum())
        raise ArgumentValueError(
            f"{caller}: no program writes element {missing} of {mapping.name}.",
            got=f"array of shape {mapping.aval.shape}, blocks of {mapping.sizes}: {n_unseen} elements are in none of a grid of "
            f"{tuple(grid)}",
            where=mapping.spec.line,
            do=_reaching(mapping.aval.shape, starts, mapping.sizes),
        )
    if windows.block_count == 1 or any(type(dim) is BoundedSlice for dim in mapping.dims):
        return
    ids = positions_of(grid)
    for axis in parallel:
        shared = windows.shared_cells(ids[axis])
        if shared is not None and shared.counts.any():
            cell = np.unravel_index(int(np.argmax(shared.counts)), shared.counts.shape)
            element = tuple([int(edges[i]) for edges, i in strict_zip(shared.edges, cell)])
            raise ArgumentValueError(
                f"{caller}: programs along the parallel axis {axis} write the same elements of {mapping.name}.",
                got=f"element {element}, blocks of {mapping.sizes}, grid {tuple(grid)}",
                where=mapping.spec.line,
                do='Let blocks begin at least their size apart along that axis, or declare it "arbitrary".',
            )


def _reaching(shape: Shape, starts: np.ndarray, sizes: Shape) -> str:
    """Advice for blocks that leave elements out: a size along one dimension with which they don't, if there is one."""
    for dim, n in enumerate(shape):
        firsts = np.unique(np.append(starts[:, dim], n))
        longer = [*sizes]
        longer[dim] = int(np.diff(firsts).max(initial=0))
        seen = Windows(shape, starts, np.array([longer], np.int64)).seen_elements
        if seen == math.prod(shape):
            return f"A block of {tuple(longer)} reaches all, or alias the result with an input: `input_output_aliases`."
    return "Let the blocks reach all elements, or alias the result with an input: `input_output_aliases`."


# Blocks that data choose ----------------------------------------------------------------------------------


def check_visits_when_run(
    caller: str,
    mapping: BlockMapping,
    grid: Sequence[int | None],
    parallel: Sequence[int],
    scalars: Values,
) -> None:
    """State that no block of a result is left and visited again, or written by several programs of one of the `parallel` axes,
    where prefetched scalars choose the blocks.

    A block that no program writes is no failure: kernels leave out what data call empty. Blocks that may begin anywhere, and grids of traced size, aren't
    looked at.
    """
    sizes = (*mapping.aval.shape, *mapping.sizes)
    total = math.prod([n or 0 for n in grid])
    n_blocks = 0 if any(isinstance(n, Symbol) for n in sizes) else math.prod(mapping.n_blocks)
    if (
        mapping.indices is not None
        or None in grid
        or not 1 < total <= MAX_PROGRAMS
        or not 1 < n_blocks <= MAX_PROGRAMS
        or any(type(dim) not in (Blocked, Squeezed) for dim in mapping.dims)
    ):
        return
    ids = positions_of(grid)
    run = lambda *position: replay(mapping.program.jaxpr, (), *position, *scalars)
    indices = vmap(run, axis_size=total)(*ids)[: len(mapping.dims)]
    # For each program the number of its block, counted row by row. Blocks outside of the array have another check, and are left out here.
    numbers: Any = np.zeros(total, INT32)
    is_inside: Any = np.ones(total, np.bool_)
    for index, n in strict_zip(indices, mapping.n_blocks):
        numbers = numbers * np.int32(n) + jnp.clip(index, 0, n - 1)
        is_inside = is_inside & (index >= 0) & (index < n)
    if getattr(mapping.spec.pipeline_mode, "revisit", None) is not RevisitMode.ANY:
        begins = jnp.append(True, numbers[1:] != numbers[:-1])
        # By block, the first program that sees it: another stay that begins is one too many.
        first = jnp.full(n_blocks, total, INT32).at[numbers].min(np.arange(total, dtype=INT32))
        comes_back = begins & is_inside & (first[numbers] < np.arange(total, dtype=INT32))
        message = functools.partial(_comes_back, caller, mapping, grid)
        _guard_programs(comes_back, numbers, message, mapping)
    for axis in parallel:
        position = ids[axis]
        least = jnp.full(n_blocks, total, INT32).at[numbers].min(position)
        is_shared = is_inside & (least[numbers] < position)
        message = functools.partial(_is_shared, caller, mapping, axis)
        _guard_programs(is_shared, numbers, message, mapping)


def check_traced_grid_when_run(
    caller: str,
    mapping: BlockMapping,
    grid: Sequence[int | None],
    bounds: Values,
    parallel: Sequence[int],
    *,
    is_complete: bool,
) -> None:
    """State what `check_written` finds for a grid of which some sizes, `bounds`, are traced, where index maps give positions and numbers.

    Raises: ArgumentValueError for blocks that no program writes whatever the traced sizes are. What other index maps give isn't looked at.
    """
    n_blocks = mapping.n_blocks
    if (
        None not in grid
        or None in mapping.known
        or any(isinstance(n, Symbol) for n in (*mapping.aval.shape, *mapping.sizes))
        or any(type(dim) not in (Blocked, Squeezed) for dim in mapping.dims)
        or 0 in mapping.aval.shape
    ):
        return
    traced = iter(bounds)
    sizes = [convert_element_type(next(traced), INT32) if n is None else n for n in grid]
    dim_of = {known.axis: i for i, known in enumerate(mapping.known) if type(known) is Along}
    # Along each axis as many programs as there are blocks, at least one; along other dimensions there must be one block.
    needed = [n_blocks[dim_of[axis]] if axis in dim_of else 1 for axis in range(len(grid))]
    is_free = [n > 1 and dim not in dim_of.values() for dim, n in enumerate(n_blocks)]
    # Each a condition, the axis whose size a message tells, and that.
    failures: list[tuple[Any, int, Callable[..., str]]] = []
    if is_complete:
        short = [isinstance(n, int) and n < least for n, least in strict_zip(sizes, needed)]
        if any(is_free) or any(short):
            raise ArgumentValueError(
                f"{caller}: no program writes some blocks of {mapping.name}, whatever the size of the grid is.",
                got=f"array of shape {mapping.aval.shape}, blocks of {mapping.sizes}, grid {tuple(grid)}",
                where=mapping.spec.line,
                do=_covering(mapping, grid),
            )
        for axis, least in enumerate(needed):
            if grid[axis] is None:
                failures.append((sizes[axis] < np.int32(least), axis, _leaves_out(least)))
    if math.prod(n_blocks) > 1:
        free = [axis for axis in range(len(grid)) if axis not in dim_of]
        failures += [(sizes[a] > np.int32(1), a, _shares) for a in free if a in parallel]
        if getattr(mapping.spec.pipeline_mode, "revisit", None) is not RevisitMode.ANY:
            # Along a later axis the block changes, and then the first one comes again.
            for axis in free:
                later = [sizes[a] > np.int32(1) for a in dim_of if a > axis]
                if later:
                    changes = functools.reduce(lambda x, y: x | y, later)
                    failures.append(((sizes[axis] > np.int32(1)) & changes, axis, _returns))
    # What is known to be well needs no look.
    failures = [
        row for row in failures if not (isinstance(row[0], (bool, np.bool_)) and not row[0])
    ]
    if not failures:
        return
    layout, code = Layout(0, 2), np.int32(0)
    # Of several failures the first one is told.
    for i, (has_failed, _, _) in reversed([*enumerate(failures)]):
        code = select_n(has_failed, code, np.int32(i + 1))
    values = [layout.vector(1, (), [sizes[axis], np.int32(axis)]) for _, axis, _ in failures]
    sites = [
        layout.site(FailedCheckError, _grid_message(caller, mapping, message), mapping.spec.source)
        for _, _, message in failures
    ]
    guard(code, values, sites)


def _grid_message(
    caller: str, mapping: BlockMapping, message: Callable[..., str]
) -> Callable[..., str]:
    """The message of a site, from the size along an axis, and the axis."""
    return lambda _, numbers: f"{caller}: {message(mapping, *numbers)}"


def _leaves_out(needed: int) -> Callable[..., str]:
    def message(mapping: BlockMapping, size: int, axis: int) -> str:
        return (
            f"no program writes some blocks of {mapping.name}.\n  array of shape {mapping.aval.shape}, blocks of {mapping.sizes}: "
            f"{needed} along axis {axis} of the grid, whose size is {size}\n  Alias the result with an input, where such blocks keep "
            "its values: `input_output_aliases`."
        )

    return message


def _shares(mapping: BlockMapping, size: int, axis: int) -> str:
    return (
        f"programs along the parallel axis {axis} write the same block of {mapping.name}.\n  {size} of them, blocks of "
        f"{mapping.sizes} of an array of shape {mapping.aval.shape}"
    )


def _returns(mapping: BlockMapping, size: int, axis: int) -> str:
    return (
        f"a block of {mapping.name} is left and visited again, which devices don't keep.\n  axis {axis} of the grid, on which it "
        f"doesn't depend, has {size} programs, and later axes change it; `Buffered(2, revisit=RevisitMode.ANY)` would allow it"
    )


def _guard_programs(
    has_failed: Any, numbers: Any, message: Callable[..., str], mapping: BlockMapping
) -> None:
    """Raise, when the program runs, if `has_failed` holds for a program; `message` takes its number and its block's."""
    program = jnp.argmax(has_failed)
    layout = Layout(0, 2)
    values = layout.vector(1, (), [program, numbers[program]])
    text = lambda position, numbers: message(*numbers)
    site = layout.site(FailedCheckError, text, mapping.spec.source)
    guard(jnp.any(has_failed).astype(INT32), [values], [site])


def _comes_back(
    caller: str, mapping: BlockMapping, grid: Sequence[int | None], program: int, number: int
) -> str:
    return (
        f"{caller}: a block of {mapping.name} is left and visited again, which devices don't keep.\n  program "
        f"{_position(program, grid)} comes back to block {_position(number, mapping.n_blocks)}; "
        "`Buffered(2, revisit=RevisitMode.ANY)` would allow it"
    )


def _is_shared(caller: str, mapping: BlockMapping, axis: int, program: int, number: int) -> str:
    return (
        f"{caller}: programs along the parallel axis {axis} write the same block of {mapping.name}.\n  block "
        f"{_position(number, mapping.n_blocks)} of {mapping.sizes}"
    )
