"""Grids of kernels: what programs see and move, beside loops over the grid, and mistakes that were planted."""

import math

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid.analysis import kernel_grids
from pellucid.experimental import pallas
from pellucid.experimental.pallas import (
    BlockSpec,
    BoundedSlice,
    Element,
    Squeezed,
    pallas_call,
    tpu,
    triton,
)
from pellucid.kernels import windows

F32 = np.float32


def like(*shape):
    return pl.ShapeDtypeStruct(shape, F32)


def reading(spec, grid, *, scalars=0):
    """A function whose kernel reads a block of `spec`, and writes one element of the result for each program."""

    def body(*refs):
        x_ref, o_ref = refs[-2:]
        o_ref[...] = jnp.full(o_ref.shape, x_ref[...].sum())

    out = BlockSpec((1,) * len(grid), lambda *ids: ids[: len(grid)])
    grid_spec = tpu.PrefetchScalarGridSpec(scalars, grid, [spec], out)
    return pallas_call(body, like(*grid), grid_spec=grid_spec)


def number(record, program, grid):
    """The number that a record has for a program, as the front end reads it."""
    position = np.unravel_index(program, grid)
    if not record.values:
        return record.offset + sum(
            c * i for c, i in zip(record.coefficients, position, strict=True)
        )
    if not record.axes:
        return record.values[program // record.step]
    at = [position[a] for a in record.axes]
    return record.values[np.ravel_multi_index(at, [grid[a] for a in record.axes])]


def expanded(raster, counts, shape):
    """Counts of a raster for each element of an array."""
    rows = np.repeat(np.arange(len(raster.row_edges) - 1), np.diff(raster.row_edges))
    columns = np.repeat(np.arange(len(raster.column_edges) - 1), np.diff(raster.column_edges))
    table = np.array(counts).reshape(len(raster.row_edges) - 1, -1)
    return table[rows][:, columns].reshape(shape)


class Loop:
    """What a loop over the grid counts: `slices` gives for a position the part of the array, and how large its block is."""

    def __init__(self, shape, grid, slices):
        self.visits, self.moves = np.zeros(shape or (1,), int), np.zeros(shape or (1,), int)
        self.moved = self.stays = inside = total = 0
        self.parts, before = [], None
        for position in np.ndindex(*grid):
            bounds, size = slices(*position)
            part = tuple([slice(max(a, 0), max(b, 0)) for a, b in bounds])
            self.parts.append(bounds)
            self.visits[part] += 1
            count = self.visits[part].size
            inside, total = inside + count, total + size
            if bounds != before:
                self.moves[part] += 1
                self.moved, self.stays = self.moved + count, self.stays + 1
            before = bounds
        self.beyond = 1 - inside / total if total else 0


def agrees(operand, loop, shape, grid, item=4):
    assert operand.fetch_count == loop.stays
    assert operand.block_count == len(set(map(tuple, loop.parts)))
    assert operand.moved_bytes == loop.moved * item
    assert operand.least_bytes == int((loop.visits > 0).sum()) * item
    assert operand.beyond_share == pytest.approx(loop.beyond)
    for program, bounds in enumerate(loop.parts):
        starts = [number(dim.start, program, grid) for dim in operand.dims]
        lengths = [number(dim.length, program, grid) for dim in operand.dims]
        assert [(a, a + n) for a, n in zip(starts, lengths, strict=True)] == list(bounds)
    np.testing.assert_array_equal(
        expanded(operand.raster, operand.raster.visits, loop.visits.shape), loop.visits
    )
    np.testing.assert_array_equal(
        expanded(operand.raster, operand.raster.moves, loop.moves.shape), loop.moves
    )


def blocked(index, *sizes):
    """Bounds of a block whose index is counted in blocks."""
    return [(i * n, (i + 1) * n) for i, n in zip(index, sizes, strict=True)]


SPECS = {
    # name: (shape, grid, spec, bounds of the block of a position)
    "blocks that divide": (
        (4, 6), (2, 3), BlockSpec((2, 2), lambda i, j: (i, j)), lambda i, j: blocked((i, j), 2, 2),
    ),
    "edges": (
        (5, 7), (3, 3), BlockSpec((2, 3), lambda i, j: (i, j)), lambda i, j: blocked((i, j), 2, 3),
    ),
    "kept": (
        (4, 6), (2, 3), BlockSpec((2, 6), lambda i, j: (i, 0)), lambda i, j: blocked((i, 0), 2, 6),
    ),
    "fetched again": (
        (6,), (2, 3), BlockSpec((2,), lambda i, j: (j,)), lambda i, j: blocked((j,), 2),
    ),
    "not affine": (
        (6, 4), (4, 3), BlockSpec((2, 2), lambda i, j: ((i + j) % 3, i // 2)),
        lambda i, j: blocked(((i + j) % 3, i // 2), 2, 2),
    ),
    "parts of the array": (
        (8, 8), (2,), BlockSpec((2, 4), lambda i: (2 * i, 1)), lambda i: blocked((2 * i, 1), 2, 4),
    ),
    "squeezed": (
        (3, 4, 5), (3, 2), BlockSpec((None, 2, 5), lambda i, j: (i, j, 0)),
        lambda i, j: blocked((i, j, 0), 1, 2, 5),
    ),
    "squeezed by name": (
        (3, 4), (2, 3), BlockSpec((Squeezed(), 2), lambda i, j: (j, i)),
        lambda i, j: blocked((j, i), 1, 2),
    ),
    "rows within planes": (
        (4, 4, 3), (2, 2), BlockSpec((2, 2, 3), lambda i, j: (i, j, 0)),
        lambda i, j: blocked((i, j, 0), 2, 2, 3),
    ),
    "elements": (
        (9,), (4,), BlockSpec((Element(3),), lambda i: (2 * i,)), lambda i: [(2 * i, 2 * i + 3)],
    ),
    "elements with padding": (
        (8, 4), (4, 2), BlockSpec((Element(4, (1, 1)), 2), lambda i, j: (2 * i, j)),
        lambda i, j: [(2 * i - 1, 2 * i + 3), *blocked((j,), 2)],
    ),
    "bounded": (
        (9, 2), (4,), BlockSpec((BoundedSlice(3), 2), lambda i: (pallas.ds(2 * i, 2), 0)),
        lambda i: [(2 * i, 2 * i + 2), (0, 2)],
    ),
    "whole": ((4, 3), (2, 2), BlockSpec(), lambda i, j: [(0, 4), (0, 3)]),
    "of rank 0": ((), (3,), BlockSpec(), lambda i: []),
    "of rank 4": (
        (2, 3, 4, 5), (2, 3, 2, 2), BlockSpec((1, None, 2, 4), lambda *ids: ids),
        lambda *ids: blocked(ids, 1, 1, 2, 4),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SPECS)
def test_counts_are_those_of_a_loop_over_the_grid(name):
    shape, grid, spec, bounds = SPECS[name]
    sizes = [dim if isinstance(dim, int) else 1 for dim in spec.block_shape or shape]
    if "elements" in name or name == "bounded":
        sizes[0] = {"elements": 3, "elements with padding": 4}.get(name, 0)
    size = math.prod(sizes)

    def slices(*position):
        found = bounds(*position)
        return found, math.prod(b - a for a, b in found) if name == "bounded" else size

    loop = Loop(shape, grid, slices)
    [kernel] = kernel_grids(reading(spec, grid), like(*shape)).kernels
    if shape == ():
        operand = kernel.operands[0]
        assert (operand.fetch_count, operand.moved_bytes, operand.least_bytes) == (1, 4, 4)
        assert operand.raster.visits == [3]
        return
    agrees(kernel.operands[0], loop, shape, grid)
    assert kernel.program_count == math.prod(grid)
    out = kernel.operands[1]
    assert (out.write_count, out.moved_bytes, out.unseen_elements) == (
        math.prod(grid),
        4 * math.prod(grid),
        0,
    )
    assert sum(kernel.cells.moved_bytes) == kernel.moved_bytes == operand_sum(kernel)
    assert kernel.least_bytes == sum(each.least_bytes for each in kernel.operands)


@pytest.mark.parametrize("seed", range(8))
def test_random_grids_are_counted_as_a_loop_counts_them(seed):
    rng = np.random.default_rng(seed)
    rank, n_axes = rng.integers(1, 4), rng.integers(1, 4)
    grid = tuple(rng.integers(1, 5, n_axes).tolist())
    shape = tuple(rng.integers(3, 9, rank).tolist())
    sizes = tuple(rng.integers(1, 4, rank).tolist())
    # Each dimension in blocks, or in elements with padding; its index is a sum of positions, modulo what there is.
    padding = [tuple(rng.integers(0, 2, 2).tolist()) for _ in shape]
    by_element = rng.integers(0, 2, rank).tolist()
    factors, offsets = (
        rng.integers(0, 3, (rank, n_axes)).tolist(),
        rng.integers(0, 3, rank).tolist(),
    )
    limits = [
        n + sum(pad) - size + 1 if element else -(-n // size)
        for n, pad, size, element in zip(shape, padding, sizes, by_element, strict=True)
    ]

    def index(*ids):
        sums = [
            sum(f * i for f, i in zip(row, ids, strict=True)) + offset
            for row, offset in zip(factors, offsets, strict=True)
        ]
        return tuple([s % limit for s, limit in zip(sums, limits, strict=True)])

    dims = [
        Element(size, pad) if element else size
        for size, pad, element in zip(sizes, padding, by_element, strict=True)
    ]

    def slices(*position):
        firsts = [
            i - pad[0] if element else i * size
            for i, pad, size, element in zip(
                index(*position), padding, sizes, by_element, strict=True
            )
        ]
        return [(a, a + n) for a, n in zip(firsts, sizes, strict=True)], math.prod(sizes)

    loop = Loop(shape, grid, slices)
    [kernel] = kernel_grids(reading(BlockSpec(tuple(dims), index), grid), like(*shape)).kernels
    agrees(kernel.operands[0], loop, shape, grid)


def operand_sum(kernel):
    return sum(each.moved_bytes for each in kernel.operands)


def test_blocks_that_data_choose_are_those_of_the_arguments():
    rows = np.array([3, 1, 1, 0, 3], np.int32)
    spec = BlockSpec((1, 4), lambda i, rows: (rows[i], 0))
    call = reading(spec, (5,), scalars=1)
    loop = Loop((4, 4), (5,), lambda i: (blocked((int(rows[i]), 0), 1, 4), 4))
    [kernel] = kernel_grids(call, rows, like(4, 4)).kernels
    agrees(kernel.operands[0], loop, (4, 4), (5,))
    # They may be computed by the program; one scalar of 4 bytes for each row is prefetched.
    [computed] = kernel_grids(lambda r, x: call(r + 1, x), rows - 1, like(4, 4)).kernels
    agrees(computed.operands[0], loop, (4, 4), (5,))
    assert kernel.moved_bytes == operand_sum(kernel) + 20
    # Without values nothing is claimed.
    [unknown] = kernel_grids(call, pl.ShapeDtypeStruct((5,), np.int32), like(4, 4)).kernels
    assert unknown.operands[0].note
    assert unknown.operands[0].raster is None
    assert unknown.least_bytes is None
    assert "aren't counted" in unknown.note


def test_sizes_of_the_grid_may_be_arguments():
    def call(n, x):
        block = BlockSpec((2,), lambda i: (i,))
        return pallas_call(
            lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...]), like(8), grid=(n,),
            in_specs=[block], out_specs=block, input_output_aliases={0: 0},
        )(x)  # fmt: skip

    [kernel] = kernel_grids(call, 3, like(8)).kernels
    assert kernel.grid == [3]
    assert [each.moved_bytes for each in kernel.operands] == [24, 24]
    [unknown] = kernel_grids(call, pl.ShapeDtypeStruct((), np.int32), like(8)).kernels
    assert unknown.program_count == 0
    assert "known only when it runs" in unknown.note


# What bodies do -----------------------------------------------------------------------------------------


def test_branches_say_which_programs_are_idle():
    def body(x_ref, o_ref):
        i, j = pallas.program_id(0), pallas.program_id(1)

        @pallas.when(j <= i)
        def _():
            o_ref[...] = x_ref[...]

    spec = BlockSpec((2, 2), lambda i, j: (i, j))
    call = pallas_call(body, like(6, 6), grid=(3, 3), in_specs=[spec], out_specs=spec)
    [kernel] = kernel_grids(call, like(6, 6)).kernels
    assert kernel.idle_count == 3
    assert kernel.cells.idle == [0, 1, 1, 0, 0, 1, 0, 0, 0]
    activity = kernel.operands[1].activity
    assert [number(activity, p, (3, 3)) for p in range(9)] == [2, 0, 0, 2, 2, 0, 2, 2, 2]


def test_masks_say_which_elements_are_left_out():
    n = 20

    def body(x_ref, o_ref):
        index = pallas.program_id(0) * 8 + jnp.arange(8)
        x = triton.load(x_ref.at[index], mask=index < n, other=0)
        triton.store(o_ref.at[index], x * 2, mask=index < n)

    call = pallas_call(body, like(n), grid=4)
    [kernel] = kernel_grids(call, like(n)).kernels
    for operand in kernel.operands:
        # 32 elements are addressed, 20 are there; the last program has none of them.
        assert operand.masked_share == pytest.approx(12 / 32)
        assert operand.moved_bytes == operand.least_bytes == 4 * n
        assert [dim.rule for dim in operand.dims] == ["accessed"]
        starts = [number(operand.dims[0].start, p, (4,)) for p in range(3)]
        lengths = [number(operand.dims[0].length, p, (4,)) for p in range(4)]
        assert (starts, lengths) == ([0, 8, 16], [8, 8, 4, 0])
    assert kernel.idle_count == 1


def test_what_data_choose_counts_as_done_and_is_said():
    def body(x_ref, o_ref):
        o_ref[...] = jnp.zeros(o_ref.shape)

        @pallas.when(x_ref[0] > 0)
        def _():
            o_ref[...] = triton.load(x_ref.at[:], mask=x_ref[...] > 1, other=0)

    block = BlockSpec((2,), lambda i: (i,))
    call = pallas_call(body, like(4), grid=2, in_specs=[block], out_specs=block)
    [kernel] = kernel_grids(call, like(4)).kernels
    assert kernel.idle_count == 0
    assert "count as taken" in kernel.note
    assert not kernel.operands[0].is_masked_exactly


def test_results_that_are_read_are_fetched():
    def body(x_ref, o_ref):
        o_ref[...] += x_ref[...]

    block = BlockSpec((2,), lambda i, j: (i,))
    twice = BlockSpec((2,), lambda i, j: (j,), pallas.Buffered(2, revisit=pallas.RevisitMode.ANY))
    first = pallas_call(body, like(4), grid=(2, 3), in_specs=[block], out_specs=block)
    # A block that stays needs no fetch; one that is left and visited again does, but for the first time.
    assert kernel_grids(first, like(4)).kernels[0].operands[1].fetch_count == 0
    again = pallas_call(body, like(4), grid=(3, 2), in_specs=[twice], out_specs=twice)
    [kernel] = kernel_grids(again, like(4)).kernels
    assert (kernel.operands[1].fetch_count, kernel.operands[1].write_count) == (4, 6)
    aliased = pallas_call(
        body, like(4), grid=(2,), in_specs=[BlockSpec((2,), lambda i: (i,))],
        out_specs=BlockSpec((2,), lambda i: (i,)), input_output_aliases={0: 0},
    )  # fmt: skip
    [kernel] = kernel_grids(aliased, like(4)).kernels
    assert kernel.operands[1].aliased == "x_ref"
    assert (kernel.operands[1].fetch_count, kernel.operands[1].least_bytes) == (2, 32)


def test_operations_and_what_the_user_states():
    def body(x_ref, o_ref):
        o_ref[...] = jnp.exp(x_ref[...]) + x_ref[...]

    block = BlockSpec((2,), lambda i: (i,))
    call = pallas_call(
        body, like(8), grid=4, in_specs=[block], out_specs=block,
        cost_estimate=pallas.CostEstimate(flops=5, transcendentals=0, bytes_accessed=7),
    )  # fmt: skip
    [kernel] = kernel_grids(call, like(8)).kernels
    assert (kernel.flops, kernel.transcendentals) == (8, 8)
    assert (kernel.stated_flops, kernel.stated_bytes) == (5, 7)


# Mistakes -----------------------------------------------------------------------------------------------


def copying(out_spec, grid=(4,), **options):
    def body(x_ref, o_ref):
        o_ref[...] = jnp.zeros(o_ref.shape) + x_ref[0]

    return pallas_call(
        body, like(8), grid=grid, in_specs=[BlockSpec()], out_specs=out_spec, **options
    )


def test_a_race_is_marked_and_says_why_the_kernel_is_refused():
    parallel = tpu.CompilerParams(dimension_semantics=("parallel",))
    call = copying(BlockSpec((4,), lambda i: (i // 2,)), compiler_params=parallel)
    [kernel] = kernel_grids(pl.jit(call), like(8)).kernels
    assert kernel.refusal.startswith("pallas_call of `body`: programs along the parallel axis 0")
    assert kernel.sharing_count == 4
    assert kernel.cells.marks == [2] * 4
    assert kernel.operands[1].shared_elements == 8
    with pytest.raises(ValueError, match="parallel axis"):
        call(np.zeros(8, F32))


def test_races_of_overlapping_blocks_are_marked():
    parallel = tpu.CompilerParams(dimension_semantics=("parallel",))
    spec = BlockSpec((Element(3),), lambda i: (2 * i,))
    [kernel] = kernel_grids(copying(spec, (3,), compiler_params=parallel), like(8)).kernels
    # Programs write [0, 3), [2, 5), [4, 7): elements 2 and 4 twice, and element 7 never.
    out = kernel.operands[1]
    assert expanded(out.raster, out.raster.marks, (8,)).tolist() == [0, 0, 2, 0, 2, 0, 0, 1]
    assert (out.shared_elements, out.unseen_elements, kernel.sharing_count) == (2, 1, 3)
    # In order they may.
    [kernel] = kernel_grids(copying(spec, (3,)), like(8)).kernels
    assert (kernel.operands[1].shared_elements, kernel.sharing_count) == (0, 0)


def test_only_programs_that_share_are_marked():
    parallel = tpu.CompilerParams(dimension_semantics=("parallel",))
    spec = BlockSpec((Element(2),), lambda i: (jnp.minimum(3 * i, 6),))
    [kernel] = kernel_grids(copying(spec, (4,), compiler_params=parallel), like(8)).kernels
    assert kernel.cells.marks == [0, 0, 2, 2]


def test_blocks_that_are_never_written_are_marked():
    [kernel] = kernel_grids(copying(BlockSpec((2,), lambda i: (i,)), (3,)), like(8)).kernels
    assert "no program writes block (3,)" in kernel.refusal
    out = kernel.operands[1]
    assert out.unseen_elements == 2
    assert expanded(out.raster, out.raster.marks, (8,)).tolist() == [0] * 6 + [1] * 2


def test_blocks_outside_are_marked():
    [kernel] = kernel_grids(copying(BlockSpec((2,), lambda i: (i + 1,))), like(8)).kernels
    assert "lies outside" in kernel.refusal
    assert (kernel.outside_count, kernel.cells.marks) == (1, [0, 0, 0, 4])
    rows = np.array([0, 5, 1], np.int32)
    call = reading(BlockSpec((1,), lambda i, rows: (rows[i],)), (3,), scalars=1)
    [kernel] = kernel_grids(call, rows, like(4)).kernels
    assert kernel.operands[0].outside_count == 1
    assert kernel.cells.marks == [0, 4, 0]


def test_kernels_without_known_sizes_or_programs_say_so():
    block = BlockSpec((2,), lambda i: (i,))

    def double(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    (n,) = pl.export.symbolic_shape("n", constraints=["n >= 2"])
    whole = pallas_call(double, pl.ShapeDtypeStruct((n,), F32))
    [kernel] = kernel_grids(whole, pl.ShapeDtypeStruct((n,), F32)).kernels
    assert "symbols" in kernel.note
    assert kernel.cells is None
    [kernel] = kernel_grids(
        pallas_call(double, like(0), grid=0, in_specs=[block], out_specs=block), like(0)
    ).kernels
    assert kernel.program_count == 0
    assert [each.note for each in kernel.operands] == ["there is no program"] * 2


def test_other_errors_pass():
    with pytest.raises(ValueError, match="as many dimensions"):
        kernel_grids(copying(BlockSpec((2, 2), lambda i: (i, 0))), like(8))


# Where kernels stand, and how many programs they have ------------------------------------------------------


def test_kernels_are_found_in_calls_loops_and_branches():
    block = BlockSpec((2,), lambda i: (i,))

    def square(x_ref, o_ref):
        o_ref[...] = x_ref[...] ** 2

    call = pallas_call(square, like(8), grid=4, in_specs=[block], out_specs=block)

    def f(x):
        x = pl.jit(call)(x)
        x = pl.lax.fori_loop(0, 3, lambda i, x: call(x), x)
        return pl.lax.cond(x[0] > 0, call, lambda x: x, x)

    kernels = kernel_grids(f, np.zeros(8, F32)).kernels
    assert [k.name for k in kernels] == ["square"] * 3
    assert kernel_grids(lambda x: x + 1, 1.0).kernels == []


def test_a_batch_of_a_kernel_is_said_to_be_one():
    call = copying(BlockSpec((3,), lambda i: (i,)), (3,))
    [kernel] = kernel_grids(pl.vmap(call), np.zeros((2, 8), F32)).kernels
    assert "a derivative or a batch" in kernel.note


def test_a_million_programs_are_counted_and_the_record_stays_small():
    n = 100

    def body(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    call = pallas_call(
        body, like(n, n), grid=(n, n, n),
        in_specs=[BlockSpec((1, 1), lambda i, j, k: (i, k)), BlockSpec((1, 1), lambda i, j, k: (k, (i * j) % n))],
        out_specs=BlockSpec((1, 1), lambda i, j, k: (i, j)),
    )  # fmt: skip
    [kernel] = kernel_grids(call, like(n, n), like(n, n)).kernels
    assert kernel.program_count == sum(kernel.cells.programs) == n**3
    assert kernel.operands[0].fetch_count == n**3
    assert kernel.operands[2].write_count == n**2
    assert kernel.operands[0].moved_bytes == 4 * n**3
    # A map that isn't affine, and depends on too much for a table, is sampled.
    samples = kernel.operands[1].dims[1].start
    assert samples.step == 245
    assert len(samples.values) <= 4096
    assert max(len(each.raster.visits) for each in kernel.operands) <= 4096
    assert len(str(kernel.to_dict())) < 400_000


@pytest.mark.parametrize(
    ("grid", "cells"),
    [((), (1, 1)), ((5,), (1, 5)), ((4096,), (64, 64)), ((3, 50), (3, 50)), ((2, 2000), (63, 64)), ((200, 300), (50, 60)), ((5000,), (40, 64))],
)  # fmt: skip
def test_programs_are_laid_out_as_a_matrix(grid, cells):
    def body(o_ref):
        o_ref[...] = jnp.zeros(o_ref.shape)

    spec = BlockSpec((1,) * len(grid), lambda *ids: ids)
    [kernel] = kernel_grids(pallas_call(body, like(*grid), grid=grid, out_specs=spec)).kernels
    found = kernel.cells
    assert (found.rows, found.columns) == cells
    programs = np.zeros((found.rows, found.columns), int)
    for p in range(math.prod(grid)):
        programs[p // found.width // found.row_step, p % found.width // found.column_step] += 1
    assert programs.ravel().tolist() == found.programs


@pytest.mark.parametrize(("begin", "masked"), [(0, 0.5), (4, 0.75)])
def test_elements_of_masked_stores_beyond_the_end_are_not_used(begin, masked):
    def body(x_ref, o_ref):
        at, chosen = jnp.arange(8) + 2, jnp.arange(8) // 4 * 4 == begin
        o_ref[at] = jnp.where(chosen, x_ref[...], o_ref[at])

    [kernel] = kernel_grids(pallas_call(body, like(8)), like(8)).kernels
    assert (kernel.operands[1].masked_share, kernel.operands[1].is_masked_exactly) == (masked, True)


def test_a_store_where_data_choose_is_an_upper_bound():
    def body(x_ref, o_ref):
        o_ref[x_ref[...].astype(np.int32)] = x_ref[...]

    [kernel] = kernel_grids(pallas_call(body, like(8)), like(8)).kernels
    assert not kernel.operands[1].is_masked_exactly


def test_nothing_is_counted_over_a_grid_of_unknown_size():
    (n,) = pl.export.symbolic_shape("n")
    row = BlockSpec((None, 4), lambda i: (i, 0))

    def over_rows(x):
        return pallas_call(doubled, x, grid=x.shape[0], in_specs=[row], out_specs=row)(x)

    def over_argument(x, m):
        return pallas_call(doubled, x, grid=m)(x)

    def doubled(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    [symbolic] = kernel_grids(over_rows, like(n, 4)).kernels
    [unknown] = kernel_grids(over_argument, like(8), pl.ShapeDtypeStruct((), np.int32)).kernels
    for kernel in (symbolic, unknown):
        assert (kernel.flops, kernel.grid, kernel.program_count) == (None, [], 0)
        assert "known only when it runs" in kernel.note


def test_races_that_are_not_looked_for_are_said_to_be(monkeypatch):
    parallel = tpu.CompilerParams(dimension_semantics=("parallel",))
    call = copying(BlockSpec((Element(3),), lambda i: (2 * i,)), (3,), compiler_params=parallel)
    monkeypatch.setattr(windows, "MAX_CELLS", 4)
    [kernel] = kernel_grids(call, like(8)).kernels
    assert kernel.operands[1].shared_elements is None
    assert "races for o_ref aren't looked for" in kernel.note
