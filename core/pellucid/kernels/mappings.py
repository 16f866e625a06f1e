"""Index maps as programs: which block each program of a grid sees, and what can be said of that before anything runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import ArgumentTypeError, ArgumentValueError, Shape, strict_zip
from pellucid._machine.base.dims import Size, Symbol
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.ir import (
    Avals,
    ClosedJaxpr,
    DebugInfo,
    Literal,
    Operands,
    ShapedArray,
    Values,
    remove_dead_equations,
    shaped_array,
)
from pellucid._machine.primitives import convert_element_type
from pellucid._machine.primitives.dslice import Slice
from pellucid._machine.refs.access import RefView, get
from pellucid._machine.tracing import discharge_program, is_reference, replay, source_of, type_of
from pellucid._machine.tracing.current import ensure_compile_time_eval
from pellucid._machine.transforms import stage_open
from pellucid._machine.transforms.vmap import vmap

from .specs import (
    Blocked,
    BlockSpec,
    BoundedSlice,
    Buffered,
    Element,
    Indirect,
    Squeezed,
    block_dims,
    padding_of,
    size_of,
    step_of,
)

INT32 = np.dtype(np.int32)
INDEX = shaped_array((), INT32)
MAX_PROGRAMS = 1 << 20
"""Maximum size of a grid that is checked program by program before it runs."""


class Along(NamedTuple):
    """A block index that is the position along this axis of the grid."""

    axis: int


class BlockMapping(NamedTuple):
    """Which block of an array of type `aval` the programs of a grid see: `dims` of the block, and its index.

    `program` takes the position in the grid and the prefetched scalars, and gives an index for each dimension, for an `Indirect`
    one an array of them, then a size for each `BoundedSlice`. `known` has for each dimension what is known of its index: a number, an `Along`, or None. `indices`
    are those of all programs of the grid, row by row, where none depends on data.
    """

    name: str
    spec: BlockSpec
    aval: ShapedArray
    dims: tuple[Any, ...]
    program: ClosedJaxpr
    known: tuple[Any, ...]
    on_references: ClosedJaxpr
    """`program` as the user wrote it: with references to the prefetched scalars."""
    indices: np.ndarray | None = None

    @property
    def sizes(self) -> Shape:
        """Sizes of the block along all dimensions of the array."""
        return tuple([size_of(dim) for dim in self.dims])

    @property
    def block_aval(self) -> ShapedArray:
        """Type of the block as the kernel sees it."""
        kept = [size_of(dim) for dim in self.dims if type(dim) is not Squeezed]
        return shaped_array(tuple(kept), self.aval.dtype)

    @property
    def n_blocks(self) -> Shape:
        """Number of blocks along each dimension, of positions where the index is one of an element."""
        pairs = strict_zip(self.dims, self.aval.shape)
        return tuple([-(-(n + sum(padding_of(d))) // max(step_of(d), 1)) for d, n in pairs])

    @property
    def units(self) -> Shape:
        """For each dimension the number of elements that an index counts which `program` gives: blocks, or elements where the
        user's dimension is an `Element`, also if all of these are found to be blocks.
        """
        return tuple([step_of(d) for d in block_dims(self.name, self.spec, self.aval.shape)])

    def starts(self, ids: Operands, scalars: Operands) -> tuple[Values, Values]:
        """(first elements of the block of the program at `ids`, of `Indirect` dimensions all positions; sizes for each
        `BoundedSlice`).
        """
        results: Values = [None] * len(self.dims)
        bounds: Values = []
        # The index map runs only if some index is unknown, or if it also returns sizes.
        if any(k is None for k in self.known) or len(self.program.jaxpr.outvars) > len(self.dims):
            results = replay(self.program.jaxpr, (), *ids, *scalars)
            results, bounds = results[: len(self.dims)], results[len(self.dims) :]
        starts = []
        for dim, known, index, unit in strict_zip(self.dims, self.known, results, self.units):
            if type(known) is Along:
                index, unit = ids[known.axis], step_of(dim)
            if isinstance(known, int):
                starts.append(known * step_of(dim))
            else:
                starts.append(index if unit == 1 else index * np.int32(unit))
        return starts, bounds

    def padding(self) -> list[tuple[int, int]]:
        """Numbers of elements without a value that the array gets in front and behind, so that all blocks are whole."""
        config = []
        for i, (dim, n) in enumerate(strict_zip(self.dims, self.aval.shape)):
            size, (before, behind) = size_of(dim), padding_of(dim)
            if type(dim) is Blocked:
                behind = _behind(n, size)
            elif type(dim) not in (Squeezed, Indirect):
                # A block may begin at the last element, unless the table specifies the last start.
                last = n + before + behind - 1
                if self.indices is not None and len(self.indices):
                    last = int(self.indices[:, i].max())
                behind += max(0, last + size - (n + before + behind))
            config.append((before, behind))
        return config


def _behind(n: Size, size: Size) -> Size:
    """Number of elements after the `n` elements of an axis, so that blocks of `size` are whole; there is at least one block."""
    if n == size or (not isinstance(size, Symbol) and size == 0):
        return 0
    rest = -n % size
    if isinstance(
        n, Symbol
    ):  # at most; the exact number is no size that is known to be large enough
        largest: Any = size
        return 0 if rest == 0 else largest - 1
    return rest if n else size


def mapping_of(
    name: str, spec: BlockSpec, aval: ShapedArray, n_axes: int, scalars: Avals, scalar_tree: Any
) -> BlockMapping:
    """The block mapping that `spec` states for an array of type `aval`.

    Raises: ArgumentTypeError, ArgumentValueError for an index map that doesn't give an integer for each dimension, or an
    array of them for an `Indirect` one.
    """
    dims = block_dims(name, spec, aval.shape)
    avals = [*[INDEX] * n_axes, *scalars]
    index_map = spec.index_map

    def indices(*args: Any) -> Values:
        # The position in the grid, then the prefetched scalars in the tree of the user's arguments.
        given = (*args[:n_axes], *scalar_tree.unflatten(args[n_axes:]))
        result = (0,) * len(dims) if index_map is None else index_map(*given)
        entries = list(result) if isinstance(result, (tuple, list)) else [result]
        if len(entries) != len(dims):
            raise ArgumentValueError(
                f"{name}: an index map gives one index for each dimension of the block.",
                got=f"{len(entries)} for block {spec.block_shape} of an array of shape {aval.shape}",
                where=spec.line,
            )
        starts, sizes = [], []
        for dim, entry in strict_zip(dims, entries):
            if type(dim) is BoundedSlice and isinstance(entry, Slice):
                entry, bound = entry.start, entry.size
                sizes.append(_integer(name, spec, bound))
            shape = (dim.block_size,) if type(dim) is Indirect else ()
            starts.append(_integer(name, spec, entry, shape))
        return [*starts, *sizes]

    of_map = "index map" if index_map is None else source_of(index_map)
    debug = DebugInfo("pallas_call index_map", of_map)
    try:
        opened, consts = stage_open(indices, avals, debug)
    except TypeError as error:
        if isinstance(error, ArgumentTypeError) or "positional argument" not in str(error):
            raise
        raise ArgumentTypeError(
            f"{name}: an index map takes one argument for each of the grid's axes"
            + (", then one for each prefetched argument." if scalars else "."),
            got=f"{error}; the grid has {n_axes} axes"
            + (", and arguments are prefetched" if scalars else ""),
            where=spec.line,
        ) from None
    if consts:
        raise ArgumentValueError(
            f"{name}: the index map uses arrays from outside.",
            got=", ".join([type_of(x).text() for x in consts]),
            where=spec.line,
            do="Pass them as prefetched scalars: `PrefetchScalarGridSpec(num_scalar_prefetch=…)`.",
        )
    body = discharge_program(opened.jaxpr)
    if body.written:
        raise ArgumentValueError(
            f"{name}: the index map writes to a prefetched scalar.", where=spec.line
        )
    inputs = opened.jaxpr.invars
    program = ClosedJaxpr(body.program.jaxpr)
    # Inputs: indices of the grid's `n_axes` axes, then prefetched scalars. Results: a start for each of `dims`, then sizes of bounded ones.
    variables = program.jaxpr.invars[: len(inputs)]
    known = [_known(atom, variables[:n_axes]) for atom in program.jaxpr.outvars[: len(dims)]]
    return BlockMapping(name, spec, aval, dims, program, tuple(known), opened)


def _integer(name: str, spec: BlockSpec, index: Any, shape: Shape = ()) -> Any:
    """An index, or an array of them of this `shape`, as int32."""
    if shape and (is_reference(index) or type(index) is RefView):
        index = get(index)
    aval = None if isinstance(index, (bool, np.bool_, Slice)) else type_of(index)
    if aval is None or aval.shape != shape or aval.dtype.kind not in "iu":
        kinds = (
            f"an array of {shape[0]} integers for an Indirect dimension" if shape else "integers"
        )
        raise ArgumentTypeError(
            f"{name}: an index map gives {kinds}.",
            got=f"got {index!r:.60}" if aval is None else f"got {aval.text()}",
            where=spec.line,
        )
    return index if aval.dtype == INT32 else convert_element_type(index, INT32)  # pyright: ignore[reportArgumentType]  # no slice: it has a type


def _known(atom: Any, ids: Sequence[Any]) -> Any:
    if type(atom) is Literal:
        return int(atom.val)
    return Along(ids.index(atom)) if atom in ids else None


# Looking at the whole grid --------------------------------------------------------------------------------


def with_indices(
    mappings: Sequence[BlockMapping], grid: Sequence[int | None]
) -> list[BlockMapping]:
    """The mappings with the indices of all programs of a grid, where these follow from the grid alone."""
    n_axes = len(grid)
    total = math.prod([n or 0 for n in grid])
    if None in grid or not 0 < total <= MAX_PROGRAMS:
        return list(mappings)
    ids = positions_of(grid)

    def looked_at(mapping: BlockMapping) -> bool:
        if any(isinstance(n, Symbol) for n in (*mapping.aval.shape, *mapping.sizes)):
            return False
        if any(type(dim) is Indirect for dim in mapping.dims):
            return False
        used = remove_dead_equations(mapping.program.jaxpr)[1]
        return not any(used[n_axes:])

    # `free` depend on no scalar; of these, `asked` have an index that isn't known without running the map.
    free = [m for m in mappings if looked_at(m)]
    asked = [m for m in free if None in m.known]
    columns: dict[int, Values] = {}
    if asked:

        def all_indices(*position: Any) -> list[Values]:
            return [
                replay(
                    m.program.jaxpr,
                    (),
                    *position,
                    *[np.zeros(a.shape, a.dtype) for a in m.program.in_avals[n_axes:]],
                )
                for m in asked
            ]

        with ensure_compile_time_eval():
            found = jit(vmap(all_indices, axis_size=total))(*ids)
        columns = {id(m): x for m, x in strict_zip(asked, found)}
    result = []
    for mapping in mappings:
        if not any(mapping is m for m in free):
            result.append(mapping)
            continue
        # A row per program, a column per dimension of the array.
        table = np.empty((total, len(mapping.dims)), INT32)
        for i, known in enumerate(mapping.known):
            if type(known) is Along:
                table[:, i] = ids[known.axis]
            else:
                table[:, i] = columns[id(mapping)][i] if known is None else known
        result.append(_looked_at(mapping, table, ids))
    return result


def indices_with(
    mapping: BlockMapping, grid: Sequence[int], scalars: Sequence[Any]
) -> tuple[np.ndarray, np.ndarray]:
    """(indices `[programs, dims]`, sizes `[programs, bounded dims]`) of the blocks of all programs of a grid, row by row.

    `scalars` are the values of the prefetched scalars.
    """
    ids, n_dims = positions_of(grid), len(mapping.dims)

    def run(*position: Any) -> Values:
        return replay(mapping.program.jaxpr, (), *position, *scalars)

    total = ids.shape[1]
    with ensure_compile_time_eval():
        results = jit(vmap(run, axis_size=total))(*ids) if mapping.program.jaxpr.outvars else []
    columns = [np.broadcast_to(np.asarray(x), (total,)) for x in results]
    # A column for each dimension's start, then for each bounded dimension's size.
    empty = np.zeros((total, 0), INT32)
    table = np.stack(columns[:n_dims], axis=1) if n_dims else empty
    return table, np.stack(columns[n_dims:], axis=1) if columns[n_dims:] else empty


def positions_of(grid: Sequence[int | None]) -> np.ndarray:
    """The positions of all programs of a grid, row by row: one row for each axis."""
    sizes = [n or 0 for n in grid]
    return np.indices(sizes, dtype=INT32).reshape(len(sizes), math.prod(sizes))


def _looked_at(mapping: BlockMapping, table: np.ndarray, ids: np.ndarray) -> BlockMapping:
    """`mapping` with its table of indices, and with what that shows."""
    dims, known = list(mapping.dims), list(mapping.known)
    for i, dim in enumerate(dims):
        # Elements at multiples of the block's size are blocks by number.
        if (
            type(dim) is Element
            and dim.padding == (0, 0)
            and dim.block_size
            and not (table[:, i] % dim.block_size).any()
        ):
            table[:, i] //= dim.block_size
            dims[i], known[i] = Blocked(dim.block_size), None
        # The table may show what the map didn't: one index in all programs, or the position along an axis.
        if known[i] is None and (table[:, i] == table[0, i]).all():
            known[i] = int(table[0, i])
        axes = [
            a for a in range(len(ids)) if known[i] is None and np.array_equal(table[:, i], ids[a])
        ]
        if axes:
            known[i] = Along(axes[0])
    return mapping._replace(dims=tuple(dims), known=tuple(known), indices=table)


def buffers_of(mapping: BlockMapping) -> int:
    """Number of buffers of a block: one for what never moves, else two unless the user says otherwise."""
    mode = mapping.spec.pipeline_mode
    if isinstance(mode, Buffered):
        return mode.buffer_count
    return 1 if all(isinstance(known, int) for known in mapping.known) else 2
