"""Modelled times of kernels on TPUs: what moves in whole tiles, what the matrix unit does in whole passes, and the overhead of each program.

A model, made to compare settings of one kernel, not to foretell seconds: of what a compiler does nothing is known.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from pellucid._machine.higher_order.cond import cond_p
from pellucid._machine.higher_order.loop_primitives import scan_p
from pellucid._machine.ir import Equation, Jaxpr, programs_of
from pellucid._machine.primitives.contraction import dot_general_p
from pellucid.introspect.bodies import programs_within
from pellucid.introspect.schema import GridKernelRecord
from pellucid.kernels.buffering import emit_pipeline_p
from pellucid.kernels.copies import dma_start_p
from pellucid.kernels.mosaic_tpu.checks import parts_of
from pellucid.kernels.mosaic_tpu.tiles import LANES, ROWS, bits_of, tile_of
from pellucid.kernels.programs import GridKernel
from pellucid.kernels.targets import TPU_CHIPS

PROGRAM_SECONDS = 0.35e-6
"""Overhead of a program of the grid: its position, the starts of its copies, and its waits. About right; nothing here has measured it."""
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
    total = Work()
    for equation in jaxpr.equations:
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


def tpu_time(kernel: GridKernel, record: GridKernelRecord, chip: str) -> TpuTime | None:
    """The modelled time of a kernel, whose grid has this record; None where data choose its blocks, or it copies by itself.

    Copies run beside computation, so the longer of the two counts, and the first block and the last one, which nothing hides.
    """
    unit, bandwidth = MATRIX_UNITS[chip], TPU_CHIPS[chip].hbm_bandwidth
    if any(operand.note for operand in record.operands) or any(
        equation.primitive in (dma_start_p, emit_pipeline_p)
        for program in programs_within(kernel.body.jaxpr)
        for equation in program.equations
    ):
        return None
    padding = {p.name: p.n_bytes / p.needed_bytes for p in parts_of(kernel) if p.needed_bytes}
    moved = padded = ends = 0.0
    for mapping, operand in zip((*kernel.inputs, *kernel.results), record.operands, strict=True):
        factor = padding.get(mapping.name, 1.0)
        moved += operand.moved_bytes
        padded += operand.moved_bytes * factor
        ends += operand.block_bytes * factor
    work = work_of(kernel.body.jaxpr, unit.side).times(record.program_count)
    copies = padded / bandwidth
    compute = work.unit_flops / unit.flops_per_second + work.elements / unit.elements_per_second
    programs = record.program_count * PROGRAM_SECONDS
    unhidden = min(ends / bandwidth, copies)
    seconds = max(copies - unhidden, compute) + unhidden + programs
    use = work.flops / work.unit_flops if work.unit_flops else None
    return TpuTime(seconds, copies, compute, programs, use, moved / padded if padded else 1.0)
