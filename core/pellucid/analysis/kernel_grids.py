"""Records of kernels' grids: the blocks that each program accesses, the data transfers, and errors in them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import PellucidError, by_tool, source, tree_flatten
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.higher_order.stages import make_jaxpr
from pellucid._machine.ir import ClosedJaxpr, Equation, Jaxpr, Literal, Values, called_program
from pellucid._machine.ir.rewriting import inline_programs
from pellucid._machine.tracing import name_of, replay
from pellucid.introspect import schema
from pellucid.introspect.bodies import programs_within
from pellucid.introspect.kernel_steps import is_kernel
from pellucid.introspect.program import read_jaxpr
from pellucid.introspect.spans import source_record
from pellucid.kernels.mappings import BlockMapping, positions_of
from pellucid.kernels.programs import GridKernel
from pellucid.kernels.specs import (
    Blocked,
    BoundedSlice,
    Element,
    padding_of,
    step_of,
)
from pellucid.kernels.windows import Cells, Windows

from .costs import jaxpr_costs
from .kernel_accesses import Access, accesses
from .kernel_operands import (
    MAX_PROGRAMS,
    Operand,
    Reading,
    has_symbols,
    is_gathered,
    is_symbolic,
    moves_of,
    operands_of,
    windows_of,
)

MAX_KERNELS = 32
MAX_CELLS = 4096
"""Maximum number of cells of a raster, and of entries in a table of numbers."""
MAX_EXPANDED = 1 << 22
"""Maximum number of cells of an array as a matrix, before they are merged."""
_SIDE = 64
_UNSEEN, _SHARED, _OUTSIDE = 1, 2, 4


@by_tool
def kernel_grids(function: Callable[..., Any], *args: Any) -> schema.KernelGridsRecord:
    """The kernels that `function` calls for these arguments, with the blocks that their programs access; no kernel
    runs.

    Arguments may be ShapeDtypeStructs, unless index maps read prefetched scalars: these are computed. Where a kernel is refused
    because of its grid, the record has that one, with the reason.

    >>> from pellucid.experimental.pallas import BlockSpec, pallas_call
    >>> def double(x_ref, o_ref):
    ...     o_ref[...] = x_ref[...] * 2
    >>> block, x = BlockSpec((2,), lambda i: (i,)), np.zeros(8, np.float32)
    >>> [kernel] = kernel_grids(pallas_call(double, x, grid=4, in_specs=[block], out_specs=block), x).kernels
    >>> kernel.program_count, kernel.moved_bytes, kernel.least_bytes, kernel.idle_count
    (4, 64, 64, 0)
    """
    try:
        if hasattr(function, "trace"):
            closed = function.trace(*args).jaxpr  # pyright: ignore[reportFunctionMemberAccess]  # a jitted function has it
        else:
            closed = make_jaxpr(function)(*args)
    except PellucidError as error:
        if error.refused_kernel is None:
            raise
        refused = kernel_record(error.refused_kernel, refusal=str(error))
        return schema.KernelGridsRecord(name=name_of(function), kernels=[refused], hidden_count=0)
    values = _OperandValues(closed, args)
    calls = [e for each in programs_within(values.jaxpr) for e in each.equations if is_kernel(e)]
    kernels: list[schema.GridKernelRecord] = []
    for equation in calls[:MAX_KERNELS]:
        kernel = equation.params.kernel
        n_bounds = kernel.grid.count(None)
        n_first = n_bounds + len(kernel.scalars)
        # Operands are the sizes of the grid that are traced, the prefetched scalars, then the inputs; constants may stand in front.
        n_consts = len(equation.operands) - n_first - len(kernel.inputs)
        atoms = equation.operands[n_consts : n_consts + n_first]
        first = None if has_symbols(kernel) else values.of(equation, atoms)
        kernels.append(
            kernel_record(
                kernel,
                bounds=None if first is None else first[:n_bounds],
                scalars=None if first is None else first[n_bounds:],
                call=equation.source,
                is_derived=not equation.params.is_own,
            )
        )
    return schema.KernelGridsRecord(
        name=name_of(function), kernels=kernels, hidden_count=max(0, len(calls) - MAX_KERNELS)
    )


@by_tool
def kernel_grid(
    kernel: GridKernel,
    bounds: Sequence[Any] | None = None,
    scalars: Sequence[Any] | None = None,
) -> schema.KernelGridsRecord:
    """The record of one kernel; `bounds` and `scalars` are values of its call's operands, None if unknown."""
    record = kernel_record(kernel, bounds=bounds, scalars=scalars)
    return schema.KernelGridsRecord(name=kernel.name, kernels=[record], hidden_count=0)


class _OperandValues:
    """Operand values of kernels, computed from the arguments of the program that calls them."""

    def __init__(self, closed: ClosedJaxpr, args: Sequence[Any]) -> None:
        def body_of(equation: Equation) -> ClosedJaxpr | None:
            program = called_program(equation.primitive, equation.params)
            return ClosedJaxpr(program) if isinstance(program, Jaxpr) else program

        self.jaxpr, consts = inline_programs(
            closed.jaxpr, lambda e: None if is_kernel(e) else body_of(e)
        )
        leaves = tree_flatten(args)[0]
        self._given: dict[Any, Any] = {}
        if len(leaves) == len(self.jaxpr.invars):
            concrete = [
                (v, x) for v, x in zip(self.jaxpr.invars, leaves, strict=True) if _is_value(x)
            ]
            self._given = dict(concrete)
            self._given |= dict(zip(self.jaxpr.constvars, [*closed.consts, *consts], strict=True))
        self._outer = set(self.jaxpr.equations)

    def of(self, equation: Equation, atoms: Sequence[Any]) -> Values | None:
        """The values of some operands; None if they are unknown before the program runs."""
        if not atoms:
            return []
        if equation not in self._outer:
            return None
        wanted = {a for a in atoms if type(a) is not Literal}
        needed: list[Equation] = []
        for each in reversed(self.jaxpr.equations):
            if not wanted.isdisjoint(each.results):
                if each.effects:
                    return None
                needed.insert(0, each)
                wanted |= {a for a in each.operands if type(a) is not Literal}
        made = {r for each in needed for r in each.results}
        inputs = [v for v in wanted if v not in made]
        if not all(v in self._given for v in inputs):
            return None
        part = self.jaxpr.replace(
            constvars=(), invars=tuple(inputs), outvars=tuple(atoms), equations=tuple(needed)
        )
        results = jit(lambda *xs: replay(part, (), *xs))(*[self._given[v] for v in inputs])
        return [np.asarray(x) for x in results]


def _is_value(x: Any) -> bool:
    return isinstance(x, (bool, int, float, complex, np.ndarray, np.generic)) or (
        type(x).__name__ == "ArrayImpl"
    )


# One kernel ---------------------------------------------------------------------------------------------


def kernel_record(
    kernel: GridKernel,
    *,
    bounds: Sequence[Any] | None = None,
    scalars: Sequence[Any] | None = None,
    call: Any = None,
    refusal: str = "",
    is_derived: bool = False,
) -> schema.GridKernelRecord:
    """The record of a kernel.

    `bounds` are the sizes of the grid that are operands, `scalars` the values of its prefetched scalars, None if unknown; `call`
    is the captured source of its call.
    """
    notes: list[str] = []
    if is_derived:
        notes.append("what runs is a derivative or a batch of this kernel, as an ordinary program")
    known = iter(bounds or ())
    grid = [next(known, None) if n is None else n for n in kernel.grid]
    sizes = [max(int(n), 0) for n in grid if n is not None]
    is_known = len(sizes) == len(grid)
    sizes = sizes if is_known else []
    count = math.prod(sizes) if is_known else 0
    operands = operands_of(kernel)
    if not is_known:
        notes.append("the sizes of its grid are known only when it runs")
    elif count > MAX_PROGRAMS:
        notes.append(
            f"grids of more than {MAX_PROGRAMS:,} programs aren't looked at program by program"
        )
    is_symbolic_kernel = has_symbols(kernel)
    if is_symbolic_kernel:
        notes.append("sizes of its arrays are symbols")
    if not is_known or is_symbolic_kernel or not 0 < count <= MAX_PROGRAMS:
        is_empty = is_known and count == 0
        reason = "there is no program" if is_empty else "nothing is known of its blocks"
        reading = Reading([], [], {}, np.zeros(0, bool))
        rows = [operand_record(kernel, each, reading, reason) for each in operands]
        nothing = _ProgramMarks(np.zeros(0, np.int64), np.zeros(0, np.int64))
        return _record(kernel, sizes, rows, reading, nothing, notes, refusal, call)
    ids = positions_of(sizes).reshape(len(sizes), count)
    found = accesses(kernel, ids, bounds or (), scalars)
    writes = [a.active & (a.used > 0) for a in found if a.is_written]
    is_idle = ~np.any(writes, axis=0) if writes else np.ones(count, bool)
    reading = Reading(sizes, found, {}, is_idle)
    for each in operands:
        windows = windows_of(kernel, each, reading, ids, scalars)
        if windows is not None:
            reading.windows[each.reference] = windows
    missing = [each.name for each in operands if each.reference not in reading.windows]
    rows = [operand_record(kernel, each, reading, _reason(each.mapping)) for each in operands]
    if missing:
        notes.append(f"the bytes of {', '.join(missing)} aren't counted, as data choose the blocks")
    uncounted = [row.name for row in rows if row.role == "result" and row.shared_elements is None]
    if uncounted and not missing:
        notes.append(
            f"races for {', '.join(uncounted)} aren't looked for: its blocks overlap in too many ways"
        )
    if any(not a.is_exact for a in found):
        notes.append("branches and masks that data choose count as taken and as used")
    marks = _program_marks(kernel, operands, reading, rows)
    return _record(kernel, sizes, rows, reading, marks, notes, refusal, call)


def _reason(mapping: BlockMapping) -> str:
    """Why the blocks of an operand are unknown."""
    if is_symbolic(mapping):
        return "its sizes are symbols"
    if is_gathered(mapping):
        return "its blocks are gathered from several positions"
    return "data choose its blocks, and aren't known before the program runs"


def _outside(operand: Operand, windows: Windows) -> np.ndarray:
    """For each program, whether its block lies entirely outside of the array."""
    mapping = operand.mapping
    if not windows.are_kept:
        return np.zeros(windows.count, bool)
    is_outside = np.zeros(windows.count, bool)
    for i, (dim, n) in enumerate(zip(mapping.dims, mapping.aval.shape, strict=True)):
        before, behind = padding_of(dim)
        starts = windows.starts[:, i] + before
        n_blocks = max(mapping.n_blocks[i], 1)
        is_outside |= (starts < 0) | (starts >= n_blocks * max(step_of(dim), 1))
        if mapping.indices is None and type(dim) is not Blocked:
            # Data-dependent blocks aren't padded: they lie entirely inside, or count as outside.
            is_outside |= starts > before + n + behind - mapping.sizes[i]
    return is_outside


# Operands -----------------------------------------------------------------------------------------------


def operand_record(
    kernel: GridKernel, operand: Operand, reading: Reading, reason: str
) -> schema.GridOperandRecord:
    """The record of an operand; `reason` is why its blocks are unknown, if they are."""
    mapping, found = operand.mapping, reading.of(operand)
    windows = reading.windows.get(operand.reference)
    item = mapping.aval.dtype.itemsize
    is_read = any(a.is_read for a in found)
    is_written = operand.is_result and operand.reference in kernel.written
    loaded = sum([_times(a, a.size * a.active.astype(np.int64)) for a in found])
    used = sum([_times(a, np.minimum(a.used, a.size) * a.active) for a in found])
    frame = source.user_frame(mapping.spec.source)
    record = schema.GridOperandRecord(
        name=operand.name,
        spec=mapping.name,
        role="result" if operand.is_result else "input",
        type=mapping.aval.text(),
        dims=[],
        activity=_encode_integers(_activity(found, reading.n_programs), reading.grid),
        is_read=is_read,
        is_written=is_written,
        aliased=operand.aliased,
        block_bytes=0 if is_symbolic(mapping) else math.prod(mapping.sizes) * item,
        block_count=0,
        fetch_count=0,
        write_count=0,
        moved_bytes=0,
        least_bytes=None,
        beyond_share=0.0,
        masked_share=1 - used / loaded if loaded else None,
        is_masked_exactly=all(a.is_exact for a in found),
        unseen_elements=None,
        shared_elements=None,
        outside_count=0,
        raster=None,
        source=None if frame is None else source_record(frame.file, (frame.line, frame.end_line)),
        line=0 if frame is None else frame.line,
        note="" if windows is not None else reason,
    )
    if windows is None:
        return record
    fetched, written = moves_of(operand, windows, is_read, is_written)
    seen = windows.seen_elements
    shared, is_shared_known = _shared_part(kernel, operand, windows, reading.grid)
    unseen = None
    if operand.is_result and not operand.aliased and seen is not None:
        unseen = math.prod(mapping.aval.shape) - seen
    total = _total(windows)
    directions = int(written is not None) + int(
        not operand.is_result or (is_read and operand.aliased != "")
    )
    inside = windows.inside
    return dataclasses.replace(
        record,
        dims=_dims(mapping, windows, reading.grid),
        block_count=windows.block_count,
        fetch_count=0 if fetched is None else int(fetched.sum()),
        write_count=0 if written is None else int(written.sum()),
        moved_bytes=sum([int(inside[x].sum()) for x in (fetched, written) if x is not None]) * item,
        least_bytes=None if seen is None else seen * item * directions,
        beyond_share=1 - int(inside.sum()) / total if total else 0.0,
        unseen_elements=unseen,
        shared_elements=_shared_count(shared) if is_shared_known else None,
        outside_count=int(_outside(operand, windows).sum()),
        raster=_raster(windows, shared, has_value=not operand.is_result or operand.aliased != ""),
    )


def _times(access: Access, counts: np.ndarray) -> int:
    """The sum of `counts` over programs, times the number of runs of an access."""
    return int(counts.sum()) * (1 if access.runs is None else access.runs)


def _total(windows: Windows) -> int:
    """Number of elements of all programs' blocks, including those outside of the array."""
    sizes = np.prod(windows.sizes, axis=1, dtype=np.int64)
    return int(np.broadcast_to(sizes, (windows.count,)).sum())


def _activity(found: Sequence[Access], count: int) -> np.ndarray:
    """For each program, 1 if it reads, plus 2 if it writes."""
    activity = np.zeros(count, np.int64)
    for access in found:
        does = access.active & (access.used > 0)
        activity |= np.where(does, access.is_read + 2 * access.is_written, 0)
    return activity


def _shared_part(
    kernel: GridKernel, operand: Operand, windows: Windows, grid: Sequence[int]
) -> tuple[Cells | None, bool]:
    """(the parts of a result that several programs along a parallel axis access, None if there are none; whether they are known, which
    they aren't if there are too many cells to count them).

    A block that all programs share is scratch memory, as in library kernels.
    """
    if not operand.is_result or (windows.are_kept and math.prod(operand.mapping.n_blocks) == 1):
        return None, True
    ids = positions_of(grid).reshape(len(grid), windows.count)
    found: Cells | None = None
    for axis in sorted(kernel.parallel):
        cells = windows.shared_cells(ids[axis])
        if cells is None:
            return None, False
        found = cells if found is None else cells._replace(counts=cells.counts | found.counts)
    return found, True


def _shared_count(cells: Cells | None) -> int:
    """Number of elements in the marked cells."""
    return 0 if cells is None else int(cells.sizes[cells.counts > 0].sum())


def _dims(
    mapping: BlockMapping, windows: Windows, grid: Sequence[int]
) -> list[schema.GridDimensionRecord]:
    sizes = np.broadcast_to(windows.sizes, windows.starts.shape)
    rules: dict[Any, Any] = {Blocked: "blocked", Element: "element", BoundedSlice: "bounded"}
    return [
        schema.GridDimensionRecord(
            size=n,
            block=mapping.sizes[i],
            rule=rules.get(type(dim), "squeezed") if windows.are_kept else "accessed",
            start=_encode_integers(windows.starts[:, i], grid),
            length=_encode_integers(sizes[:, i], grid),
        )
        for i, (dim, n) in enumerate(zip(mapping.dims, mapping.aval.shape, strict=True))
    ]


def _encode_integers(values: np.ndarray, grid: Sequence[int]) -> schema.GridNumberRecord:
    """Integers, one for each program, in the shortest form."""
    if not len(values):
        return schema.GridNumberRecord(offset=0, coefficients=[], axes=[], values=[])
    table = values.reshape(tuple(grid))
    origin = (0,) * len(grid)
    offset = int(table[origin])
    coefficients: list[int] = []
    for axis, n in enumerate(grid):
        unit = tuple([int(a == axis) for a in range(len(grid))])
        coefficients.append(int(table[unit]) - offset if n > 1 else 0)
    sums = np.asarray(offset)
    for c, n in zip(coefficients, grid, strict=True):
        sums = sums[..., None] + c * np.arange(n)
    if np.array_equal(sums, table):
        return schema.GridNumberRecord(offset=offset, coefficients=coefficients, axes=[], values=[])
    # The table omits axes along which the values don't change.
    axes = [a for a in range(len(grid)) if (table != np.take(table, [0], a)).any()]
    reduced = table[tuple([slice(None) if a in axes else 0 for a in range(len(grid))])]
    if reduced.size <= MAX_CELLS:
        return schema.GridNumberRecord(
            offset=0, coefficients=[], axes=axes, values=reduced.ravel().tolist()
        )
    step = -(-len(values) // MAX_CELLS)
    return schema.GridNumberRecord(
        offset=0, coefficients=[], axes=[], values=values[::step].tolist(), step=step
    )


# Rasters ------------------------------------------------------------------------------------------------


def _raster(
    windows: Windows, shared: Cells | None, *, has_value: bool
) -> schema.GridRasterRecord | None:
    """Counts over the array as a matrix; None for an array without elements, or with too many cells."""
    visits, moves = windows.visits, windows.moves
    if visits is None or moves is None or 0 in windows.shape:
        return None
    marks = np.zeros_like(visits.counts) if has_value else _UNSEEN * (visits.counts == 0)
    if shared is not None:
        marks = marks | _SHARED * shared.counts
    shape, edges = windows.shape, visits.edges
    leading = math.prod(shape[:-2])
    if leading * math.prod(visits.counts.shape[-2:]) > MAX_EXPANDED:
        return None
    # Each index along the dimensions before the last two has its own rows of cells.
    cells_of = [
        np.searchsorted(e, np.arange(n), "right") - 1
        for e, n in zip(edges[:-2], shape[:-2], strict=True)
    ]
    rows_of_plane = edges[-2] if len(shape) > 1 else np.array([0, 1])
    plane = shape[-2] if len(shape) > 1 else 1
    row_edges = (np.arange(leading)[:, None] * plane + rows_of_plane[:-1]).ravel()
    row_edges = np.append(row_edges, leading * plane)
    column_edges = edges[-1]

    def matrix(counts: np.ndarray) -> np.ndarray:
        for axis, places in enumerate(cells_of):
            counts = np.take(counts, places, axis)
        return counts.reshape(len(row_edges) - 1, len(column_edges) - 1)

    n_rows, n_columns = len(row_edges) - 1, len(column_edges) - 1
    columns = min(n_columns, max(_SIDE, MAX_CELLS // min(n_rows, _SIDE)))
    rows = min(n_rows, MAX_CELLS // columns)
    # Merged cells have the largest count and all marks.
    row_places = np.arange(0, n_rows, -(-n_rows // rows))
    column_places = np.arange(0, n_columns, -(-n_columns // columns))

    def join_counts(counts: np.ndarray, join: Any) -> list[int]:
        reduced = join.reduceat(join.reduceat(matrix(counts), row_places, 0), column_places, 1)
        return reduced.ravel().tolist()

    return schema.GridRasterRecord(
        row_edges=[*row_edges[row_places].tolist(), int(row_edges[-1])],
        column_edges=[*column_edges[column_places].tolist(), int(column_edges[-1])],
        visits=join_counts(visits.counts, np.maximum),
        moves=join_counts(moves.counts, np.maximum),
        marks=join_counts(marks, np.bitwise_or),
        is_exact=len(row_places) == n_rows and len(column_places) == n_columns,
    )


class _ProgramMarks(NamedTuple):
    """For each program, the bytes that it transfers, and a sum of flags `_SHARED` and `_OUTSIDE`."""

    moved: np.ndarray
    marks: np.ndarray


def _program_marks(
    kernel: GridKernel,
    operands: Sequence[Operand],
    reading: Reading,
    rows: Sequence[schema.GridOperandRecord],
) -> _ProgramMarks:
    moved, marks = np.zeros(reading.n_programs, np.int64), np.zeros(reading.n_programs, np.int64)
    for operand, record in zip(operands, rows, strict=True):
        windows = reading.windows.get(operand.reference)
        if windows is None:
            continue
        item = operand.mapping.aval.dtype.itemsize
        for does in moves_of(operand, windows, record.is_read, record.is_written):
            if does is not None:
                moved += np.where(does, windows.inside * item, 0)
        shared, _ = _shared_part(kernel, operand, windows, reading.grid)
        if shared is not None and shared.counts.any():
            marks |= _SHARED * windows.touching(shared)
        marks |= _OUTSIDE * _outside(operand, windows)
    return _ProgramMarks(moved, marks)


def _cells(reading: Reading, each: _ProgramMarks) -> schema.GridCellColumns:
    """The programs of the grid as a matrix of cells."""
    count = reading.n_programs
    sizes = [n for n in reading.grid if n > 1] or [1]
    width = sizes[-1]
    height = count // width
    if height <= _SIDE and width <= _SIDE:
        row_step, column_step = 1, 1
    elif count > MAX_CELLS and height >= 8 and width >= 8:
        row_step, column_step = -(-height // _SIDE), -(-width // _SIDE)
    else:
        # In execution order, line by line, regardless of the axes.
        row_step, column_step = 1, -(-count // MAX_CELLS)
        width = _SIDE * column_step
    numbers = np.arange(count)
    n_rows = math.ceil(math.ceil(count / width) / row_step)
    n_columns = math.ceil(min(width, count) / column_step)
    places = (numbers // width // row_step) * n_columns + numbers % width // column_step
    size = n_rows * n_columns

    def sum_cells(values: np.ndarray) -> list[int]:
        return np.bincount(places, values, size).astype(np.int64).tolist()

    joined = np.zeros(size, np.int64)
    np.bitwise_or.at(joined, places, each.marks)
    return schema.GridCellColumns(
        rows=n_rows,
        columns=n_columns,
        width=width,
        row_step=row_step,
        column_step=column_step,
        programs=np.bincount(places, minlength=size).tolist(),
        moved_bytes=sum_cells(each.moved),
        idle=sum_cells(reading.is_idle),
        marks=joined.tolist(),
    )


def _record(
    kernel: GridKernel,
    grid: list[int],
    rows: list[schema.GridOperandRecord],
    reading: Reading,
    each: _ProgramMarks,
    notes: Sequence[str],
    refusal: str,
    call: Any,
) -> schema.GridKernelRecord:
    is_known = len(grid) == len(kernel.grid)
    count = math.prod(grid) if is_known else 0
    table = jaxpr_costs(read_jaxpr(kernel.body.jaxpr))
    cost, is_least = table.total, False
    if cost.flops is None or cost.transcendentals is None:
        cost, is_least = table.least_total, True
    least = [row.least_bytes for row in rows]
    scalar_bytes = sum([math.prod(a.shape) * a.dtype.itemsize for a in kernel.scalars])
    frame = source.user_frame(call)
    return schema.GridKernelRecord(
        name=kernel.name,
        grid=grid,
        parallel_axes=sorted(kernel.parallel),
        program_count=count,
        operands=rows,
        cells=_cells(reading, each) if reading.windows else None,
        flops=cost.flops * count if is_known and cost.flops is not None else None,
        transcendentals=cost.transcendentals * count
        if is_known and cost.transcendentals is not None
        else None,
        is_least=is_least,
        stated_flops=None if kernel.cost is None else float(kernel.cost.flops),
        stated_bytes=None if kernel.cost is None else float(kernel.cost.bytes_accessed),
        moved_bytes=sum([row.moved_bytes for row in rows]) + scalar_bytes,
        least_bytes=None
        if any(n is None for n in least)
        else sum([n or 0 for n in least]) + scalar_bytes,
        idle_count=int(reading.is_idle.sum()),
        sharing_count=int((each.marks & _SHARED > 0).sum()),
        outside_count=int((each.marks & _OUTSIDE > 0).sum()),
        refusal=refusal,
        note="; ".join(notes),
        source=None if frame is None else source_record(frame.file, (frame.line, frame.end_line)),
        line=0 if frame is None else frame.line,
    )
