"""A kernel as a program on values: a batch over axes whose programs write distinct blocks, a loop over the others."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import ArgumentTypeError, Shape, dtypes, replace_axis_size, strict_zip
from pellucid._machine.base.dims import Symbol
from pellucid._machine.checks.errors import CheckSite, OOBError
from pellucid._machine.higher_order.cond import cond_p
from pellucid._machine.higher_order.loops import fori_loop
from pellucid._machine.ir import (
    Avals,
    ClosedJaxpr,
    Jaxpr,
    Lineage,
    Literal,
    Operands,
    ShapedArray,
    Values,
    called_program,
    programs_of,
    remove_dead_equations,
    values_of,
)
from pellucid._machine.primitives import (
    broadcast_in_dim,
    concatenate,
    dynamic_slice,
    dynamic_update_slice,
    iota,
    reshape,
    select_n,
    slice as static_slice,
    zeros,
)
from pellucid._machine.tracing import Tracer, bind, discharge_program, replay, type_of, use_lineage
from pellucid._machine.tracing.current import ensure_compile_time_eval
from pellucid._machine.transforms import stage_open
from pellucid._machine.transforms.vmap import vmap
from pellucid.numpy import argmax, asarray, take

from .failures import Layout, first_in_batch, first_of
from .mappings import INT32, Along, BlockMapping
from .specs import Blocked, BoundedSlice, Indirect, Squeezed, padding_of, size_of

UNDEFINED = Lineage("undefined", ())
"""The lineage of equations that create uninitialized elements."""
_MAX_BYTES = 1 << 29
"""Programs run at once as long as the largest value within them, for all of them, is no larger."""


@dataclass(frozen=True, eq=False)
class GridKernel:
    """A kernel over a grid. `body` takes `consts`, the position in the grid, the bounds that are traced, and references: to
    prefetched scalars, to blocks of inputs and of results, and to scratch.
    """

    name: str
    grid: tuple[int | None, ...]
    """Numbers of programs along the grid's axes; None for those that are operands."""
    body: ClosedJaxpr
    consts: Values
    scalars: Avals
    inputs: tuple[BlockMapping, ...]
    results: tuple[BlockMapping, ...]
    scratch: Avals
    counters: frozenset[int]
    """Positions of scratch that begins at 0: semaphores."""
    aliases: dict[int, int]
    """The input, scalars included, that each aliased result begins as."""
    parallel: frozenset[int]
    """Axes whose programs the user declares to be independent."""
    cost: Any = None
    layout: Layout = field(default=Layout(0, 0))
    """Layout of the vector that records its failure."""
    sites: tuple[CheckSite, ...] = ()
    """The checks in the body, which then takes a reference to the failure vector as its last argument."""
    compiler_params: Any = None
    """Parameters for the compiler of a device."""
    spaces: tuple[Any, ...] = ()
    """The memory space of each scratch; None where none is stated."""
    within_block: frozenset[int] | None = None
    """Axes whose programs run in one block of a GPU, so that scratch begins anew where all of them are at 0; None where it lasts."""
    thread_axis: int | None = None
    """The axis whose programs are threads of one block, beside each other."""
    written: frozenset[int] = field(init=False)
    """Positions of the references that the body writes."""

    def __post_init__(self) -> None:
        written = discharge_program(self.body.jaxpr).written
        object.__setattr__(self, "written", frozenset([i - self.n_front for i in written]))

    @functools.cached_property
    def guarded(self) -> list[int]:
        """Positions of the references whose blocks may lie outside of their arrays, for all that is known before it runs.

        None where `CompilerParams(disable_bounds_checks=True)` states that none does.
        """
        if getattr(self.compiler_params, "disable_bounds_checks", False):
            return []
        return [
            i
            for i, m in enumerate(self.mappings)
            if m is not None and m.indices is None and any(known != 0 for known in m.known)
        ]

    @functools.cached_property
    def all_sites(self) -> tuple[CheckSite, ...]:
        """All that may fail: in the body, then blocks outside of their arrays, in the order of `guarded`."""
        outside = []
        for i in self.guarded:
            mapping: Any = self.mappings[i]
            source = mapping.spec.source
            message = functools.partial(_lies_outside, self.name, mapping)
            outside.append(self.layout.site(OOBError, message, source))
        return (*self.sites, *outside)

    @property
    def n_references(self) -> int:
        """Number of references to scalars, inputs, results and scratch."""
        return len(self.mappings)

    @property
    def reference_names(self) -> list[str]:
        """The names of the body's references to scalars, inputs, results and scratch; empty texts where they are unknown."""
        debug, front, n = self.body.jaxpr.debug, self.n_front, self.n_references
        names = [] if debug is None else [*(debug.arg_names or ())]
        # Constants may have no names.
        first = front if len(names) >= front + n else front - len(self.consts)
        return [name or "" for name in [*names[first:], *[""] * n][:n]]

    @property
    def n_front(self) -> int:
        """Number of inputs of the body that aren't references."""
        return len(self.consts) + len(self.grid) + self.grid.count(None)

    @property
    def mappings(self) -> list[BlockMapping | None]:
        """The mapping of each reference; None for scalars and scratch, which are whole."""
        n, m = len(self.scalars), len(self.scratch)
        return [*[None] * n, *self.inputs, *self.results, *[None] * m]

    @property
    def has_edges(self) -> bool:
        """Whether blocks of floating numbers reach beyond their arrays."""
        return any(
            is_some(before) or is_some(behind)
            for m in (*self.inputs, *self.results)
            if dtypes.is_inexact(m.aval.dtype)
            for before, behind in m.padding()
        )

    def run(
        self,
        *operands: Any,
        edge: Callable[[ShapedArray], Any] | None = None,
        sweep: type[Sweep] | None = None,
        consts: Operands | None = None,
    ) -> Values:
        """The results of the kernel and, if it may fail, its failure; `operands` are dynamic bounds, scalars, then
        inputs.

        `edge` gives what stands beyond the edges of arrays, by default undefined elements. `sweep` is how it goes over the grid, by
        default with as many programs at once as may be; `consts` stand for the constants.
        """
        sweep, consts = sweep or Sweep, self.consts if consts is None else consts
        # `operands` are the traced sizes of the grid, in the order of its axes, then scalars and inputs (`given`).
        rest = iter(operands)
        bounds = [next(rest) for n in self.grid if n is None]
        given: Values = [*rest]
        n_given = len(given)
        # One value per reference of the body: scalars, inputs, results, scratch. Positions are counted in this list.
        values: Values = [*given]
        for i, mapping in enumerate(self.results):
            value = given[self.aliases[i]] if i in self.aliases else undefined(mapping.aval)
            values.append(value)
        for i, aval in enumerate(self.scratch):
            values.append(zeros(aval) if i in self.counters else undefined(aval))
        mappings = self.mappings
        values = [
            x if m is None else padded(x, m, edge or undefined)
            for x, m in strict_zip(values, mappings)
        ]
        if self.all_sites:
            values.append(zeros(self.layout.aval))
        # Without a program the results stay as they begin.
        if 0 not in self.grid:
            finals = sweep(self, consts, bounds, given[: len(self.scalars)]).finals(values)
            values = [finals.get(i, x) for i, x in enumerate(values)]
        results = [
            unpadded(x, m)
            # Of the references, only the results are returned.
            for x, m in strict_zip(values[n_given : n_given + len(self.results)], self.results)
        ]
        return [*results, first_in_batch(values[-1])] if self.all_sites else results


class Sweep:
    """One run of a kernel over its grid."""

    def __init__(
        self, kernel: GridKernel, consts: Operands, bounds: Operands, scalars: Operands
    ) -> None:
        self.kernel, self.consts, self.bounds, self.scalars = kernel, consts, bounds, scalars
        self.body = discharge_program(kernel.body.jaxpr)
        # The failure is after all references: written by every program, and by the body if it has sites.
        self.failure = kernel.n_references if kernel.all_sites else None
        self.mappings = [*kernel.mappings, *([] if self.failure is None else [None])]
        # Positions of the references that programs write, and so hand on to the next one.
        self.carried = sorted(kernel.written.union(() if self.failure is None else [self.failure]))
        # Axes of the grid: programs along `batched` run in parallel (vmap), those along `loops` sequentially.
        self.batched = self.axes()
        self.loops = [a for a in range(len(kernel.grid)) if a not in self.batched]
        # For each reference, by dimension, how it is cut into blocks for the batched axes.
        self.splits = [
            {} if m is None else _splits(m, self.batched, kernel.grid) for m in self.mappings
        ]

    def axes(self) -> tuple[int, ...]:
        """The axes along which programs run at once."""
        return batched_axes(self.kernel)

    def body_results(self, inputs: Values) -> Values:
        """The results of the body for its inputs."""
        return replay(self.body.program.jaxpr, (), *inputs)

    def finals(self, values: Values) -> dict[int, Any]:
        """The final contents of the written references, by position, given the initial contents of all."""
        # Per reference its value with cut dimensions, and for each batched axis the dimension that its vmap takes.
        cut = [self._cut(x, splits) for x, splits in strict_zip(values, self.splits)]
        places = [_places(labels, self.batched) for _, labels in cut]
        function: Callable[..., Any] = self._program
        n_ids = len(self.batched)
        # One vmap per batched axis; the one for the first axis is applied last, so it is the outermost.
        for level in reversed(range(n_ids)):
            # Operands are the position along each batched axis, then the references.
            in_axes = [0 if k == level else None for k in range(n_ids)]
            in_axes += [place[level] for place in places]
            # Scratch is each program's own; everything else that is carried is cut along every batched axis.
            out_axes = [places[i][level] or 0 for i in self._kept]
            function = vmap(function, in_axes=tuple(in_axes), out_axes=out_axes)
        ids = [iota(INT32, self.kernel.grid[a] or 0) for a in self.batched]
        results = function(*ids, *[x for x, _ in cut])
        return {
            i: self._joined(result, values[i], self.splits[i])
            for i, result in strict_zip(self._kept, results)
        }

    @functools.cached_property
    def _kept(self) -> list[int]:
        """The carried references that outlive the programs."""
        return [i for i in self.carried if self.mappings[i] is not None or i == self.failure]

    def _cut(self, x: Any, splits: dict[int, BlockedDimension]) -> tuple[Any, list[int | None]]:
        """`x` with dimensions cut into (blocks, block), and the batched axis of each dimension of the result."""
        # `limits`: the ends of the blocks. Elements after these are left out; `_joined` puts them back.
        shape, labels, limits = [], [], list(type_of(x).shape)
        for dim, n in enumerate(type_of(x).shape):
            if dim in splits:
                axis, count, size = splits[dim]
                limits[dim] = count * size
                shape += [count, size]
                labels += [axis, None]
            else:
                shape.append(n)
                labels.append(None)
        if not splits:
            return x, labels
        if tuple(limits) != type_of(x).shape:
            x = static_slice(x, [0] * len(limits), limits)
        return reshape(x, shape), labels

    def _joined(self, x: Any, before: Any, splits: dict[int, BlockedDimension]) -> Any:
        """The inverse of `_cut`: elements after the last block are those from before."""
        if not splits:
            return x
        shape = list(type_of(before).shape)
        for dim, (_, count, size) in splits.items():
            shape[dim] = count * size
        whole = reshape(x, shape)
        if tuple(shape) == type_of(before).shape:
            return whole
        return dynamic_update_slice(before, whole, [np.int32(0)] * len(shape))

    def _program(self, *operands: Any) -> Values:
        """Values of the kept references after a loop over the axes that are not batched."""
        # Operands are the position along each batched axis, then one value per reference.
        n = len(self.batched)
        batched_ids, values = operands[:n], list(operands[n:])
        # Sizes of the axes of the loop. Batched axes have known sizes, so all traced ones (`bounds`) belong here.
        sizes = [self.kernel.grid[a] for a in self.loops]
        bounds = iter(self.bounds)
        sizes = [next(bounds) if n is None else n for n in sizes]

        def step(t: Any, carried: Values) -> Values:
            # The position along all axes of the grid, from those along batched axes and the turn of the loop.
            ids: Values = [None] * len(self.kernel.grid)
            for axis, i in strict_zip(self.batched, batched_ids):
                ids[axis] = i
            for axis, i in strict_zip(self.loops, position(t, sizes)):
                ids[axis] = i
            # Contents of written references, by position; the others keep their initial contents.
            now = dict(strict_zip(self.carried, carried))
            return self._step(ids, [now.get(i, x) for i, x in enumerate(values)])

        carried = [values[i] for i in self.carried]
        if all(isinstance(n, int) for n in sizes):
            total = math.prod(sizes)
            if total == 1:
                carried = step(np.int32(0), carried)
            else:
                carried = fori_loop(np.int32(0), np.int32(total), step, carried)
        else:
            total = functools.reduce(lambda a, b: a * b, [_as_int32(n) for n in sizes])
            carried = fori_loop(np.int32(0), total, step, carried)
        # Scratch is dropped: it isn't visible after the programs.
        return [x for i, x in strict_zip(self.carried, carried) if i in self._kept]

    def _step(self, ids: Values, values: Values) -> Values:
        """The contents of the carried references after the program at `ids`, given the contents of all before it."""
        values = self._begun(ids, values)
        views = [
            None if m is None else _view(m, splits, ids, self.scalars)
            for m, splits in strict_zip(self.mappings, self.splits)
        ]
        blocks = [x if v is None else v.read(x) for x, v in strict_zip(values, views)]
        bounds = [_as_int32(n) for n in self.bounds]
        failures = [] if self.failure is None else [self._failure(ids, values, views)]
        if self.kernel.sites:
            blocks[-1] = failures[0]
            # What may fail may be in a program that only devices run; then the body leaves it alone.
            if self.failure in self.kernel.written:
                failures = []
        # The body takes its constants, the position, traced sizes, then one block per reference.
        inputs = [*self.body.consts, *self.consts, *ids, *bounds, *blocks]
        inputs = inputs[: len(self.body.program.jaxpr.invars)]
        # Returns the new blocks of the written references in the order of `carried`, including the failure vector.
        results = [*self.body_results(inputs), *failures]
        after = []
        for i, new in strict_zip(self.carried, results):
            view = views[i]
            after.append(new if view is None else view.written(values[i], new))
        return after

    def _begun(self, ids: Values, values: Values) -> Values:
        """The contents of all references, those that count being 0 where a block begins."""
        kernel = self.kernel
        if kernel.within_block is None or not kernel.counters:
            return values
        begins: Any = np.bool_(True)
        for axis in sorted(kernel.within_block - {kernel.thread_axis}):
            begins = begins & (ids[axis] == 0)
        thread = kernel.thread_axis
        of_block = begins if thread is None else begins & (ids[thread] == 0)
        first = kernel.n_references - len(kernel.scratch)
        values = list(values)
        for k in kernel.counters:
            x = values[first + k]
            # What isn't shared, as registers, begins anew in each thread.
            own = begins if getattr(kernel.spaces[k], "is_of_thread", False) else of_block
            nothing = zeros(type_of(x))
            values[first + k] = nothing if type(own) is np.bool_ else select_n(own, x, nothing)
        return values

    def _failure(self, ids: Values, values: Values, views: Sequence[_View | None]) -> Any:
        """The failure before the program at `ids`, or that one of its blocks lies outside of its array."""
        failure, layout = values[-1], self.kernel.layout
        for k, i in enumerate(self.kernel.guarded):
            view = views[i]
            has_failed = None if view is None else view.is_outside(values[i])
            if view is not None and has_failed is not None:
                code = len(self.kernel.sites) + k + 1
                shown = [_farthest(start) for start in view.starts]
                failure = first_of(failure, has_failed, layout.vector(code, ids, shown))
        return failure


def position(t: Any, sizes: Sequence[Any]) -> Values:
    """The position in a grid of `sizes` of its program number `t`, row by row."""
    ids: Values = []
    # From the last axis, which is the fastest, to the second; the first one gets what remains.
    for n in reversed(sizes[1:]):
        if isinstance(n, int) and n == 1:
            ids.append(np.int32(0))
        elif type(t) is np.int32:
            ids.append(np.int32(t % n))
            t = np.int32(t // n)
        else:
            n = _as_int32(n)
            ids.append(t % n)
            t = t // n
    return [*([t] if sizes else []), *reversed(ids)]


def _as_int32(n: Any) -> Any:
    return np.int32(n) if isinstance(n, int) else n.astype(INT32)


# Blocks -------------------------------------------------------------------------------------------------


class _View(NamedTuple):
    """The block of a program in what is left of an array after cutting it along batched axes."""

    mapping: BlockMapping
    starts: Values
    bounds: Values

    def read(self, x: Any) -> Any:
        """The block."""
        block, inside = self._block(x), self._inside(x, self.mapping.sizes)
        if inside is not None:
            block = select_n(inside, undefined(type_of(block)), block)
        return reshape(block, self.mapping.block_aval.shape)

    def _block(self, x: Any) -> Any:
        """The block with all dimensions of the array; one that lies outside is the one at the nearest place inside."""
        sizes, starts = self.mapping.sizes, self.starts
        if _is_whole(x, starts, sizes):
            return x
        if all(isinstance(start, int) for start in starts):
            return static_slice(x, starts, [a + n for a, n in strict_zip(starts, sizes)])
        block = dynamic_slice(x, *self._slice(x))
        for axis, positions in self._gathered:
            block = take(block, positions, axis, mode="clip")
        return block

    def written(self, x: Any, new: Any) -> Any:
        """`x` with another block."""
        sizes = self.mapping.sizes
        new = reshape(new, sizes)
        inside = self._inside(x, sizes)
        if inside is not None:
            # A start outside is clamped: what lies at the clamped place is written back unchanged.
            new = select_n(inside, self._block(x), new)
        if _is_whole(x, self.starts, sizes):
            return new
        starts, sizes = self._slice(x)
        if self._gathered:
            new = _scattered(dynamic_slice(x, starts, sizes), new, self._gathered)
        return dynamic_update_slice(x, new, starts)

    @property
    def _gathered(self) -> list[tuple[int, Any]]:
        """Each `Indirect` dimension with the positions of its elements."""
        pairs = strict_zip(self.mapping.dims, self.starts)
        return [(i, start) for i, (dim, start) in enumerate(pairs) if type(dim) is Indirect]

    def _slice(self, x: Any) -> tuple[Values, Shape]:
        """(first elements, sizes) of the part of the array `x` that the block is taken from: the block, with all of `Indirect` dimensions."""
        starts, sizes = [*map(_start, self.starts)], [*self.mapping.sizes]
        for axis, _ in self._gathered:
            starts[axis], sizes[axis] = np.int32(0), type_of(x).shape[axis]
        return starts, tuple(sizes)

    def is_outside(self, x: Any) -> Any:
        """Whether the block extends beyond its array, of which `x` remains; None if it is known not to."""
        outside = None
        if self.mapping.indices is None:
            for dim, start, n in strict_zip(self.mapping.dims, self.starts, type_of(x).shape):
                if type(dim) is Indirect:
                    misses = ((start < 0) | (start >= n)).any()
                    outside = misses if outside is None else outside | misses
                    continue
                size = size_of(dim)
                if type(start) is int and start == 0 and isinstance(n - size, Symbol):
                    continue  # the array is padded to whole blocks
                if not isinstance(start, int) or start > n - size:
                    misses = (start < 0) | (start > n - size)
                    outside = misses if outside is None else outside | misses
        return outside

    def _inside(self, x: Any, sizes: Shape) -> Any:
        """For each element of the block whether it has a place in the array; None where all do."""
        # Indices that depend on data weren't checked before; a block that isn't wholly inside counts as outside.
        outside = self.is_outside(x)
        inside = None if outside is None else broadcast_in_dim(~outside, sizes, ())
        # For a BoundedSlice, only as many leading elements as its size are present.
        bounded = [i for i, dim in enumerate(self.mapping.dims) if type(dim) is BoundedSlice]
        for i, bound in zip(bounded, self.bounds, strict=False):
            positions = broadcast_in_dim(iota(INT32, sizes[i]), sizes, (i,))
            inside = positions < bound if inside is None else inside & (positions < bound)
        return inside


def _farthest(start: Any) -> Any:
    """`start`, or of a vector of positions the largest as unsigned numbers: outside of the array if any is, as negative ones are large."""
    if isinstance(start, int) or not type_of(start).shape:
        return start
    return start[argmax(start.astype(np.uint32))] if type_of(start).size else np.int32(0)


def _scattered(x: Any, new: Any, gathered: Sequence[tuple[int, Any]]) -> Any:
    """`x` with `new` at the product of the positions along some axes; `gathered` has pairs (axis, positions)."""
    (axis, positions), *rest = gathered
    place = (*[slice(None)] * axis, positions)
    if rest:
        new = _scattered(take(x, positions, axis, mode="clip"), new, rest)
    return asarray(x).at[place].set(new, mode="clip")


def _is_whole(x: Any, starts: Values, sizes: Shape) -> bool:
    return type_of(x).shape == sizes and all(isinstance(s, int) and s == 0 for s in starts)


def _start(start: Any) -> Any:
    return np.int32(start) if isinstance(start, int) else start


def _view(
    mapping: BlockMapping, splits: dict[int, BlockedDimension], ids: Values, scalars: Operands
) -> _View:
    starts, bounds = mapping.starts(ids, scalars)
    # A program has only its own part of a split dimension.
    return _View(mapping, [0 if i in splits else start for i, start in enumerate(starts)], bounds)


class BlockedDimension(NamedTuple):
    """A dimension of an array that is cut into `count` blocks of `size`, one for each program along `axis`."""

    axis: int
    count: int
    size: int


def _splits(
    mapping: BlockMapping, batched: Sequence[int], grid: Sequence[Any]
) -> dict[int, BlockedDimension]:
    """For the dimensions of an array along which the block's index is the position along a batched axis, how to cut them."""
    splits: dict[int, BlockedDimension] = {}
    for i, (dim, known) in enumerate(strict_zip(mapping.dims, mapping.known)):
        # Each batched axis cuts one dimension: the first whose block index is the position along it.
        is_block = type(known) is Along and type(dim) in (Blocked, Squeezed)
        if (
            is_block
            and known.axis in batched
            and all(split.axis != known.axis for split in splits.values())
        ):
            splits[i] = BlockedDimension(known.axis, grid[known.axis], size_of(dim))
    return splits


def _places(labels: Sequence[int | None], batched: Sequence[int]) -> list[int | None]:
    """For the vmap of each batched axis, from the outermost in, its `in_axes`: counted without the dimensions that outer ones took."""
    rest, places = list(labels), []
    for axis in batched:
        place = rest.index(axis) if axis in rest else None
        if place is not None:
            del rest[place]
        places.append(place)
    return places


def undefined(aval: ShapedArray) -> Any:
    """An array in place of one without values: NaN, the least signed integer, 0, False.

    >>> undefined(pl.typeof(np.zeros(2, np.int32)))
    Array([-2147483648, -2147483648], dtype=int32)
    """
    with use_lineage(UNDEFINED):
        return broadcast_in_dim(undefined_element(aval.dtype), aval.shape, ())


def undefined_element(dtype: np.dtype) -> Any:
    """One element without a value, as a NumPy scalar."""
    if dtypes.is_inexact(dtype):
        return np.array(np.nan).astype(dtype)
    if dtypes.issubdtype(dtype, np.signedinteger):
        return np.array(int(dtypes.iinfo(dtype).min)).astype(dtype)
    if dtype.kind not in "ub" and not dtypes.issubdtype(dtype, np.integer):
        raise ArgumentTypeError("kernels take arrays of numbers.", got=f"dtype {dtype}")
    return np.zeros((), dtype)


def is_some(n: Any) -> bool:
    """Whether a number of elements may be other than 0."""
    return isinstance(n, Symbol) or n != 0


def padded(x: Any, mapping: BlockMapping, edge: Callable[[ShapedArray], Any]) -> Any:
    """`x` padded with the values of `edge`, so that all blocks are whole."""
    for axis, amounts in enumerate(mapping.padding()):
        aval = type_of(x)
        # Each a list of one part, or none.
        before, behind = [
            [edge(aval.update(shape=replace_axis_size(aval.shape, axis, n)))] if is_some(n) else []
            for n in amounts
        ]
        if before or behind:
            x = concatenate([*before, x, *behind], axis)
    return x


def unpadded(x: Any, mapping: BlockMapping) -> Any:
    """The inverse of `padded`."""
    starts = [before for before, _ in mapping.padding()]
    shape = mapping.aval.shape
    if type_of(x).shape == shape:
        return x
    return static_slice(x, starts, [a + n for a, n in strict_zip(starts, shape)])


# Which axes are batched -----------------------------------------------------------------------------------


def batched_axes(kernel: GridKernel) -> tuple[int, ...]:
    """The axes of the grid whose programs may run at once, because each writes blocks that no other one sees.

    Every array that is written is cut along them. What scratch holds must not come from another program: the first program
    of a loop over the other axes overwrites it, or the user declares that the programs are independent.
    """
    mappings = kernel.mappings
    if discharge_program(
        kernel.body.jaxpr
    ).program.effects:  # such as prints, in the order of the grid
        return ()
    # Mappings of what is written, None for scratch; a scalar is the same for all programs, so none may write it. Each program has
    # a failure of its own.
    written = [mappings[i] for i in kernel.written if i < kernel.n_references]
    if any(i < len(kernel.scalars) for i in kernel.written):
        return ()
    # Candidates; each of the following checks takes some away.
    axes = [a for a, n in enumerate(kernel.grid) if n is not None and n > 1]
    for mapping in written:
        if mapping is not None:
            cut = {split.axis for split in _splits(mapping, axes, kernel.grid).values()}
            axes = [a for a in axes if a in cut]
    if not axes:
        return ()
    if None in written and not _overwrites_scratch(kernel, axes):
        axes = [a for a in axes if a in kernel.parallel]
    while axes and _bytes_at_once(kernel, axes) > _MAX_BYTES:
        # The outermost axis goes, and becomes part of the loop around the others.
        del axes[0]
    return tuple(axes)


def _bytes_at_once(kernel: GridKernel, axes: Sequence[int]) -> int:
    """Bytes of the largest value within the programs, for all programs along `axes`."""
    n = math.prod([kernel.grid[a] or 1 for a in axes])
    return n * _largest(kernel.body.jaxpr)


def _largest(jaxpr: Jaxpr) -> int:
    sizes = [0]
    for equation in jaxpr.equations:
        sizes += [
            a.size * a.dtype.itemsize
            for r in equation.results
            if type(a := r.aval) is ShapedArray
            and hasattr(a.dtype, "itemsize")
            and not isinstance(a.size, Symbol)
        ]
        sizes += [_largest(getattr(p, "jaxpr", p)) for p in programs_of(equation)]
    return max(sizes)


def _overwrites_scratch(kernel: GridKernel, batched: Sequence[int]) -> bool:
    """Whether the first program of a loop over the axes that are not batched needs nothing that scratch held before."""
    body = discharge_program(kernel.body.jaxpr)
    n = len(kernel.consts)
    # By position among the inputs, after the body's constants: 0 for the position along each axis of the loop.
    first = {n + a: np.int32(0) for a in range(len(kernel.grid)) if a not in batched}
    avals = [a for i, a in enumerate(body.program.in_avals[len(body.consts) :]) if i not in first]

    def run(*operands: Any) -> Values:
        rest = iter(operands)
        # The inputs in their order, those in `first` known, the others from `operands`.
        inputs = [first[i] if i in first else next(rest) for i in range(len(first) + len(operands))]
        return _folded(body.program.jaxpr, [*body.consts, *inputs])

    specialised, consts = stage_open(run, avals, None)
    used = remove_dead_equations(specialised.jaxpr)[1][len(consts) :]
    flags = iter(used)
    # One flag per input again; the last ones are those of scratch.
    all_used = [i not in first and next(flags) for i in range(len(first) + len(avals))]
    # Scratch are the last references, but for that to the failure.
    end, n_scratch = len(all_used) - bool(kernel.sites), len(kernel.scratch)
    return not any(all_used[end - n_scratch : end])


def _lies_outside(
    name: str, mapping: BlockMapping, ids: tuple[int, ...], values: Sequence[int]
) -> str:
    start = tuple([n - padding_of(dim)[0] for n, dim in zip(values, mapping.dims, strict=False)])
    return (
        f"pallas_call of `{name}`: a block of {mapping.name} lies outside of its array.\n  array of shape {mapping.aval.shape}, "
        f"blocks of {mapping.sizes}: program {ids} asks for the one that begins at {start}"
    )


def _folded(jaxpr: Jaxpr, operands: Values) -> Values:
    """Results of `jaxpr`, with branches that known numbers choose, and nothing of the others."""
    values: dict[Any, Any] = dict(strict_zip(jaxpr.invars, operands))
    for equation in jaxpr.equations:
        inputs = [a.val if type(a) is Literal else values[a] for a in equation.operands]
        is_known = not any(isinstance(x, Tracer) for x in inputs)
        program = called_program(equation.primitive, equation.params)
        if equation.primitive is cond_p and not isinstance(inputs[0], Tracer):
            branch = equation.params.branches[int(inputs[0])]
            results = _folded(branch.jaxpr, inputs[1:])
        elif program is not None and not equation.effects:
            results = _folded(program, inputs)
        elif (
            is_known and not equation.effects and all(_is_scalar(r.aval) for r in equation.results)
        ):
            with ensure_compile_time_eval():
                results = bind(equation.primitive, *inputs, params=equation.params)
        else:
            results = bind(equation.primitive, *inputs, params=equation.params)
        values.update(strict_zip(equation.results, results))
    return values_of(jaxpr.outvars, values)


def _is_scalar(aval: Any) -> bool:
    return type(aval) is ShapedArray and not aval.shape
