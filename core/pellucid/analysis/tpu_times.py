"""Modelled times of kernels on TPUs: what moves in whole tiles, what the matrix unit does in whole passes, and the overhead of each program.

A model, made to compare settings of one kernel, not to foretell seconds: of what a compiler does nothing is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.higher_order.cond import cond_p
from pellucid._machine.higher_order.loop_primitives import scan_p
from pellucid._machine.ir import Equation, Jaxpr, programs_of
from pellucid._machine.primitives.contraction import dot_general_p
from pellucid._machine.transforms.vmap import vmap
from pellucid.introspect.bodies import programs_within
from pellucid.introspect.schema import GridKernelRecord
from pellucid.kernels.buffering import Copied, emit_pipeline_p, index_at, number_of_programs
from pellucid.kernels.copies import dma_start_p
from pellucid.kernels.mosaic_tpu.checks import parts_of
from pellucid.kernels.mosaic_tpu.tiles import LANES, ROWS, bits_of, tile_of
from pellucid.kernels.programs import GridKernel
from pellucid.kernels.targets import TPU_CHIPS

PROGRAM_SECONDS = 0.35e-6
"""Overhead of a program of the grid: its position, the starts of its copies, and its waits. About right; nothing here has measured it."""
_MOST_PROGRAMS = 1 << 16
"""Programs of a pipeline whose blocks are looked at one by one."""
_TERA, _GIGA = 10**12, 10**9


class MatrixUnit(NamedTuple):
    """The arithmetic of a TensorCore: the published peak, and a clock that is about right."""

    side: int
    """Rows and columns of a matrix unit."""
    flops_per_second: int
    """Of all its matrix units, with elements of 16 bits."""
    clock: float
    """Cycles a second."""

    @property
    def elements_per_second(self) -> float:
        """Elements that the vector unit computes: four registers of 8 rows and 128 lanes a cycle."""
        return 4 * ROWS * LANES * self.clock


MATRIX_UNITS = {
    "v4": MatrixUnit(128, 137 * _TERA, 1.05 * _GIGA),
    "v5e": MatrixUnit(128, 197 * _TERA, 1.5 * _GIGA),
    "v5p": MatrixUnit(128, 229 * _TERA, 1.75 * _GIGA),
    "v6e": MatrixUnit(256, 918 * _TERA, 1.75 * _GIGA),
    "tpu7x": MatrixUnit(256, 1150 * _TERA, 2.2 * _GIGA),
}
"""Of one TensorCore of each chip of `TPU_CHIPS`."""


class Work(NamedTuple):
    """What a program of the grid computes. Elements and flops of the matrix unit are those of whole tiles and passes."""

    flops: float = 0.0
    """Flops of products, those of wide elements in several passes."""
    unit_flops: float = 0.0
    """The same with all that whole tiles add: what the matrix unit has time for meanwhile."""
    elements: float = 0.0
    """Elements of whole tiles that the vector unit computes."""

    def times(self, n: float) -> Work:
        """The work of `n` such programs."""
        return Work(self.flops * n, self.unit_flops * n, self.elements * n)

    def plus(self, other: Work) -> Work:
        """Both."""
        return Work(*[a + b for a, b in zip(self, other, strict=True)])


def work_of(jaxpr: Jaxpr, side: int) -> Work:
    """The work of a program on matrix units with `side` rows and columns; of branches that with the most, and loops of unknown length once."""
    return _work_of_all(jaxpr.equations, side)


def _work_of_all(equations: Sequence[Equation], side: int) -> Work:
    total = Work()
    for equation in equations:
        total = total.plus(_work(equation, side))
    return total


def _work(equation: Equation, side: int) -> Work:
    params: Any = equation.params
    if equation.primitive is dot_general_p:
        return _product(equation, side)
    programs = [work_of(getattr(p, "jaxpr", p), side) for p in programs_of(equation)]
    if programs:
        if equation.primitive is cond_p:
            return max(programs, key=lambda work: (work.unit_flops, work.elements))
        total = Work()
        for work in programs:
            total = total.plus(work)
        return total.times(params.length) if equation.primitive is scan_p else total
    avals: list[Any] = [r.aval for r in equation.results]
    return Work(elements=sum([_padded(a.shape, a.dtype) for a in avals if getattr(a, "ndim", 0)]))


def _padded(shape: Any, dtype: Any) -> float:
    """Number of elements in whole tiles."""
    if not all(isinstance(n, int) for n in shape):
        return 0.0
    tile = tile_of(shape, dtype)
    front = shape[: len(shape) - len(tile)]
    return math.prod([*front, *[-(-n // t) * t for n, t in zip(shape[len(front) :], tile, strict=True)]])  # fmt: skip


def _product(equation: Equation, side: int) -> Work:
    """A product of matrices of (m, k) and (k, n), `batch` times."""
    avals: list[Any] = [a.aval for a in equation.operands[:2]]
    lhs, rhs = avals
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = equation.params.dimension_numbers
    sizes = [
        math.prod([lhs.shape[i] for i in lhs_batch]),
        math.prod([n for i, n in enumerate(lhs.shape) if i not in (*lhs_batch, *lhs_contract)]),
        math.prod([lhs.shape[i] for i in lhs_contract]),
        math.prod([n for i, n in enumerate(rhs.shape) if i not in (*rhs_batch, *rhs_contract)]),
    ]
    batch, m, k, n = sizes
    # Wide elements are products of several parts of 16 bits each.
    passes = 1 if max(bits_of(lhs.dtype), bits_of(rhs.dtype)) <= 16 else 3
    whole = 2.0 * batch * _up(m, ROWS) * _up(k, side) * _up(n, side)
    return Work(2.0 * batch * m * k * n * passes, whole * passes, 0.0)


def _up(size: int, unit: int) -> int:
    """The least multiple of `unit` that is no smaller than `size`."""
    return -(-size // unit) * unit


class TpuTime(NamedTuple):
    """The modelled time of a kernel on a chip, and its parts, in seconds."""

    seconds: float
    copy_seconds: float
    """Moves of blocks, in whole tiles, at the bandwidth of the memory."""
    compute_seconds: float
    program_seconds: float
    """Overhead of all programs of the grid."""
    matrix_unit_use: float | None
    """Share of the matrix unit that products use while they run; None without products."""
    tile_use: float
    """Share of what is moved that isn't beyond the edges of blocks, in whole tiles."""


class Moves(NamedTuple):
    """What a grid copies between memories, in bytes; `padded` ones are those of whole tiles."""

    n_bytes: float
    padded: float
    """Of copies that run beside programs."""
    ends: float
    """Of them those of the first blocks and the last ones, which nothing hides."""
    waited: float
    """Of copies that a program waits for, padded."""
    n_copies: int

    def plus(self, other: Moves) -> Moves:
        """Both."""
        return Moves(
            self.n_bytes + other.n_bytes,
            self.padded + other.padded,
            self.ends + other.ends,
            self.waited + other.waited,
            self.n_copies + other.n_copies,
        )


def tpu_time(kernel: GridKernel, record: GridKernelRecord, chip: str) -> TpuTime | None:
    """The modelled time of a kernel, whose grid has this record; None where data choose its blocks, or it copies by itself.

    Copies run beside computation, so the longer of the two counts, and the first block and the last one, which nothing hides. Pipelines
    (`emit_pipeline`) are grids of their own, one after another.
    """
    pipelines = pipelines_of(kernel)
    if pipelines is None or any(operand.note for operand in record.operands):
        return None
    inner = [moves_of(copied) for copied in pipelines]
    padding = {p.name: p.n_bytes / p.needed_bytes for p in parts_of(kernel) if p.needed_bytes}
    moved = padded = ends = 0.0
    for mapping, operand in zip((*kernel.inputs, *kernel.results), record.operands, strict=True):
        if pipelines and mapping.name not in padding:  # it stays where it is
            continue
        factor = padding.get(mapping.name, 1.0)
        moved += operand.moved_bytes
        padded += operand.moved_bytes * factor
        ends += operand.block_bytes * factor
    side = MATRIX_UNITS[chip].side
    own = [e for e in kernel.body.jaxpr.equations if e.primitive is not emit_pipeline_p]
    n = record.program_count
    total = _time(Moves(moved, padded, ends, 0.0, 0), _work_of_all(own, side).times(n), n, chip)
    for copied, moves in zip(pipelines, inner, strict=True):
        if moves is None:
            return None
        count = number_of_programs(copied.grid.sizes)
        work = work_of(copied.body, side).times(count)
        total = total.plus(_time(moves, work, count, chip).times(n))
    return total.ended()


class _Times(NamedTuple):
    """Sums over grids that run one after another."""

    seconds: float
    copies: float
    compute: float
    programs: float
    flops: float
    unit_flops: float
    moved: float
    padded: float

    def times(self, n: float) -> _Times:
        return _Times(*[a * n for a in self])

    def plus(self, other: _Times) -> _Times:
        return _Times(*[a + b for a, b in zip(self, other, strict=True)])

    def ended(self) -> TpuTime:
        use = self.flops / self.unit_flops if self.unit_flops else None
        tiles = self.moved / self.padded if self.padded else 1.0
        return TpuTime(self.seconds, self.copies, self.compute, self.programs, use, tiles)


def _time(moves: Moves, work: Work, count: float, chip: str) -> _Times:
    """The time of a grid of `count` programs."""
    unit, bandwidth = MATRIX_UNITS[chip], TPU_CHIPS[chip].hbm_bandwidth
    copies, waited = moves.padded / bandwidth, moves.waited / bandwidth
    compute = work.unit_flops / unit.flops_per_second + work.elements / unit.elements_per_second
    programs = count * PROGRAM_SECONDS
    unhidden = min(moves.ends / bandwidth, copies)
    seconds = max(copies - unhidden, compute) + unhidden + waited + programs
    padded = moves.padded + moves.waited
    return _Times(
        seconds,
        copies + waited,
        compute,
        programs,
        work.flops,
        work.unit_flops,
        moves.n_bytes,
        padded,
    )


def pipelines_of(kernel: GridKernel) -> list[Copied] | None:
    """The pipelines that each program of a kernel runs, one after another; None where it copies in other ways, too.

    Also None for pipelines over references that aren't in slow memory, or that are in branches and loops.
    """
    body = kernel.body.jaxpr
    stay = names_in_slow_memory(kernel)
    slow = {
        body.invars[kernel.n_front + len(kernel.scalars) + i]
        for i, mapping in enumerate((*kernel.inputs, *kernel.results))
        if mapping.name in stay
    }
    found: list[Copied] = []
    for equation in body.equations:
        params: Any = equation.params
        if equation.primitive is not emit_pipeline_p:
            if equation.primitive is dma_start_p or any(_copies(p) for p in programs_of(equation)):
                return None
            continue
        copied = params.held.staged.copied
        first = params.held.places[-params.parts.n_operands]
        refs = equation.operands[first : first + params.parts.n_refs]
        if copied is None or _copies(copied.body) or not slow.issuperset(refs):
            return None
        found.append(copied)
    return found


def names_in_slow_memory(kernel: GridKernel) -> frozenset[str]:
    """The arrays of a kernel that have no buffers of their own."""
    fast = {part.name for part in parts_of(kernel)}
    return frozenset([m.name for m in (*kernel.inputs, *kernel.results) if m.name not in fast])


def _copies(program: Any) -> bool:
    return any(
        equation.primitive in (dma_start_p, emit_pipeline_p)
        for each in programs_within(getattr(program, "jaxpr", program))
        for equation in each.equations
    )


def moves_of(copied: Copied) -> Moves | None:
    """What a pipeline copies: inputs for each program, results where the block changes; None where only the run knows the blocks."""
    total = number_of_programs(copied.grid.sizes)
    if not isinstance(total, int) or not 0 < total <= _MOST_PROGRAMS:
        return None
    moves = Moves(0.0, 0.0, 0.0, 0.0, 0)
    n = copied.grid.n_inputs
    for k, (spec, aval) in enumerate(zip(copied.grid.specs, copied.blocks, strict=True)):
        plain = aval.size * bits_of(aval.dtype) / 8
        padded = _padded(aval.shape, aval.dtype) * bits_of(aval.dtype) / 8
        count = total if k < n else _changes(spec, copied.grid.sizes)
        if count is None:
            return None
        if k < n or copied.streams[k - n]:
            more = Moves(plain * count, padded * count, padded, 0.0, count)
        else:  # read when the block changes, and written before it changes again
            more = Moves(2 * plain * count, 0.0, 0.0, 2 * padded * count, 2 * count)
        moves = moves.plus(more)
    return moves


def _changes(spec: Any, sizes: Any) -> int | None:
    """How many blocks follow each other along a grid, in its order; None where the index map needs what only the run knows."""
    if spec.index_map is None:
        return 1
    positions = np.arange(number_of_programs(sizes), dtype=np.int32)
    ids = [x.astype(np.int32) for x in np.unravel_index(positions, sizes)]
    # An index map is any function; one that needs values of the kernel around it fails here.
    try:
        found = vmap(lambda *ids: index_at(spec, ids))(*ids)
        rows = np.stack([np.broadcast_to(np.asarray(x), positions.shape) for x in found], -1)
    except Exception:
        return None
    return 1 + int((rows[1:] != rows[:-1]).any(-1).sum())
