"""A core's way through its part of the grid: which programs it runs, the blocks that they see, and what they leave in the arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base.source import describe
from pellucid._machine.checks.errors import CheckError, error_of
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.tracing import replay
from pellucid._machine.tracing.current import ensure_compile_time_eval
from pellucid.kernels.mappings import BlockMapping, buffers_of, positions_of
from pellucid.kernels.programs import GridKernel
from pellucid.kernels.specs import BoundedSlice, Indirect, MemorySpace, padding_of, size_of, step_of
from pellucid.kernels.tpu import MemorySpace as DeviceMemory

from . import memory
from .clocks import note_access
from .copying import copy_steps
from .evaluate import Run, made, run
from .machine import Core, Machine, unused
from .memory import Box, Buffer

_DIRECT = (MemorySpace.ANY, MemorySpace.HOST, DeviceMemory.HBM)
"""Memories whose arrays programs see themselves, and no copies of blocks."""


class Block(NamedTuple):
    """Where the block of a program lies: the first element along each dimension, or for an `Indirect` one all positions, and how many elements
    there are along bounded dimensions, -1 along others.
    """

    starts: tuple[Any, ...]
    bounds: tuple[int, ...]


class Sweep:
    """The programs of a kernel on one device, for operands as NumPy arrays: traced sizes of the grid, scalars, inputs."""

    array_space = "hbm"
    """The name of the memory that operands and results lie in."""

    def __init__(
        self,
        machine: Machine,
        kernel: GridKernel,
        device: int,
        operands: Sequence[np.ndarray],
        positions: dict[Any, int],
        core_axes: tuple[Any, ...] = (),
    ) -> None:
        self.machine, self.kernel, self.device = machine, kernel, device
        self.params, self.positions, self.core_axes = machine.params, positions, core_axes
        rest = iter(operands)
        self.bounds = [np.int32(next(rest)) for n in kernel.grid if n is None]
        sizes = iter(self.bounds)
        self.grid = tuple([int(next(sizes)) if n is None else n for n in kernel.grid])
        self.given = [np.array(x) for x in rest]
        self.names = kernel.reference_names
        arrays = [
            self.given[kernel.aliases[i]] if i in kernel.aliases else unused(m.aval, self.params)
            for i, m in enumerate(kernel.results)
        ]
        self.arrays = [*self.given, *arrays]
        """An array per reference to scalars, inputs and results, by position."""
        self.aliased = set(kernel.aliases.values())
        self.left: dict[Buffer, list[tuple[memory.Region, str]]] = {}
        """What programs have written to arrays that are inputs, too: the region, and which program."""
        n_programs = math.prod(self.grid)
        self.places = [None if m is None else self._places(m, n_programs) for m in kernel.mappings]

    def start(self) -> None:
        """Let cores begin with their programs."""
        machine, device = self.machine, self.device
        n_cores = self.params.num_cores_or_threads
        rows = self._order()
        for k in range(n_cores):
            core = Core(machine, device, k)
            mine = [t for t, part in rows if part == k]
            # Made now, so that other devices find them whenever they come.
            core.run = self.programs(core, mine, self.references(core))

    def results(self) -> list[np.ndarray]:
        """The arrays of the results, when all cores have come to their ends."""
        n = len(self.given)
        for i in range(len(self.kernel.results)):
            buffer = self.machine.shared.get((self.device, None, ("ref", n + i)))
            if buffer is not None and buffer.counts is not None:
                for position, sem in buffer.counts.by_position.items():
                    buffer.array[position] = sem.count
        return self.arrays[n:]

    # Order ----------------------------------------------------------------------------------------------------

    def _order(self) -> list[tuple[int, int]]:
        """(number of a program, its core) in the order in which they run: parallel axes may have any, and cores share them."""
        grid, parallel = self.grid, sorted(self.kernel.parallel)
        rng = (
            None
            if self.params.random_seed is None
            else np.random.default_rng(self.params.random_seed)
        )
        orders = [
            rng.permutation(n)
            if rng is not None and a in parallel and not self.core_axes
            else np.arange(n)
            for a, n in enumerate(grid)
        ]
        if not grid:
            return [(0, 0)]
        numbers = np.arange(math.prod(grid)).reshape(grid)[np.ix_(*orders)].ravel()
        # The place of each program along the parallel axes, row by row in the order in which they run.
        places = np.zeros(grid, np.int64)
        for a in parallel:
            along = np.arange(grid[a]).reshape([-1 if k == a else 1 for k in range(len(grid))])
            places = places * grid[a] + along
        total = max(math.prod([grid[a] for a in parallel]), 1)
        cores = (places * self.params.num_cores_or_threads // total).ravel()
        return [*zip(numbers.tolist(), cores.tolist(), strict=True)]

    # Blocks ---------------------------------------------------------------------------------------------------

    def _places(self, mapping: BlockMapping, n_programs: int) -> list[Block]:
        """The block of each program, by its number."""
        if not n_programs:
            return []
        before = [padding_of(dim)[0] for dim in mapping.dims]
        bounded = [i for i, dim in enumerate(mapping.dims) if type(dim) is BoundedSlice]
        if mapping.indices is not None and len(mapping.program.jaxpr.outvars) == len(mapping.dims):
            steps = np.array([step_of(dim) for dim in mapping.dims], np.int64)
            starts = mapping.indices * steps - np.array(before, np.int64)
            none = (-1,) * len(mapping.dims)
            return [Block(tuple(row), none) for row in starts.tolist()]
        blocks = []
        program, units = mapping.program.jaxpr, mapping.units
        with ensure_compile_time_eval():
            call = jit(lambda *xs: replay(program, (), *xs))
            for ids in positions_of(self.grid).T:
                found = [np.asarray(x) for x in call(*ids, *self.given[: len(self.kernel.scalars)])]
                starts = [
                    x - b if x.shape else int(x) * unit - b
                    for x, unit, b in zip(found, units, before, strict=False)
                ]
                bounds = [-1] * len(starts)
                for i, x in zip(bounded, found[len(starts) :], strict=False):
                    bounds[i] = int(x)
                blocks.append(Block(tuple(starts), tuple(bounds)))
        return blocks

    def _check_inside(
        self, mapping: BlockMapping, position: int, block: Block, ids: tuple[int, ...]
    ) -> None:
        """Raise CheckError for a block, chosen by data, that lies outside of its array."""
        guarded = self.kernel.guarded
        if position not in guarded:
            return
        shown, is_outside = [], False
        padding = mapping.padding()
        for dim, start, n, (before, behind) in zip(
            mapping.dims, block.starts, mapping.aval.shape, padding, strict=True
        ):
            if type(dim) is Indirect:
                wrong = start[(start < 0) | (start >= n)]
                shown.append(int(wrong[0]) if len(wrong) else int(start[0]) if len(start) else 0)
                is_outside |= bool(len(wrong))
                continue
            at = start + padding_of(dim)[0]
            shown.append(at)
            is_outside |= at < 0 or at > n + before + behind - size_of(dim)
        if is_outside:
            sites, layout = self.kernel.all_sites, self.kernel.layout
            code = len(self.kernel.sites) + guarded.index(position) + 1
            vector = np.array([code, *ids, *shown, *[0] * (layout.n_values - len(shown))], np.int32)
            error_of(np.int32(code), [vector] * len(sites), sites).throw()

    # Programs -------------------------------------------------------------------------------------------------

    def program_text(self, ids: tuple[int, ...]) -> str:
        """The position in the grid, for messages."""
        return f" in program {ids}" if ids and not self.core_axes else ""

    def programs(self, core: Core, numbers: Sequence[int], refs: list[Any]) -> Run:
        """Run these programs one after another."""
        kernel, recorder = self.kernel, self.params.grid_point_recorder
        held: dict[int, Block] = {}
        copies = BlockCopies(core)
        for t in numbers:
            copies.begin_program()
            ids = tuple([int(i) for i in np.unravel_index(t, self.grid)]) if self.grid else ()
            core.positions = self.positions | dict(zip(self.core_axes, ids, strict=False))
            core.program = self.program_text(ids)
            if recorder is not None:
                place = tuple(map(np.int32, ids)), np.int32(core.core)
                core.machine.once(lambda place=place: recorder(*place))
            for i, mapping in enumerate(kernel.mappings):
                places = self.places[i]
                if mapping is None or places is None or refs[i] is self._array(core, i):
                    continue
                block = places[t]
                if i in held and _same(held[i], block):
                    continue
                self._leave(copies, i, held.pop(i, None), refs[i])
                core.source = mapping.spec.source or getattr(self.machine.call, "source", None)
                self._check_inside(mapping, i, block, ids)
                core.replaces(refs[i])
                refs[i].array[...] = self._block(copies, i, block, refs[i])
                held[i] = block
            copies.wait_for_fetches()
            failure = [np.zeros(kernel.layout.aval.shape, np.int32)] if kernel.sites else []
            inputs = [*kernel.consts, *map(np.int32, ids), *self.bounds, *refs, *failure]
            yield from run(kernel.body.jaxpr, inputs, core, ids)
        for i, block in held.items():
            self._leave(copies, i, block, refs[i])
        copies.wait_for_writes()
        return []

    def references(self, core: Core) -> list[Any]:
        """What the references of the kernel are on a core: arrays of the device, buffers for blocks, scratch."""
        kernel, machine = self.kernel, self.machine
        refs = []
        n_scalars, n_arrays = len(kernel.scalars), len(self.arrays)
        for i, mapping in enumerate(kernel.mappings):
            name = self.names[i] or f"reference {i}"
            if i < n_scalars:
                refs.append(machine.buffer(name, "smem", self.arrays[i], core, ("ref", i)))
            elif i < n_arrays and mapping is not None:
                array = self._array(core, i)
                if (
                    mapping.spec.memory_space in _DIRECT
                    and mapping.block_aval.shape == mapping.aval.shape
                ):
                    refs.append(array)
                    continue
                space = str(mapping.spec.memory_space or "vmem")
                block = unused(mapping.block_aval, self.params)
                refs.append(machine.buffer(name, space, block, core, ("block", i)))
            else:
                k = i - n_arrays
                space = kernel.spaces[k] if k < len(kernel.spaces) else None
                refs.append(made(core, name, space, kernel.scratch[k], ("scratch", k)))
        return refs

    def _array(self, core: Core, i: int) -> Buffer:
        """The array of a reference in the memory of the device; those that are aliased are one."""
        n = len(self.given)
        at = self.kernel.aliases.get(i - n, i) if i >= n else i
        found = self.machine.shared.get((self.device, None, ("ref", at)))
        if found is None:
            name = self.names[i] or f"reference {i}"
            found = self.machine.buffer(
                name, self.array_space, self.arrays[i], core, ("ref", at), shared=True
            )
        return found

    def _block(self, copies: BlockCopies, i: int, block: Block, ref: Buffer) -> np.ndarray:
        """A block for `ref`, from the array; elements beyond its edges are undefined."""
        core = copies.core
        mapping: Any = self.kernel.mappings[i]
        buffer = self._array(core, i)
        target, source = _slices(mapping, block)
        if self.machine.finds_races:
            region = _region(source, buffer.shape)
            note_access(buffer, region, core, is_write=False)
            if i in self.aliased:
                self._check_kept(core, buffer, region, mapping.name)
        values = unused(mapping.aval.update(shape=mapping.sizes), self.params)
        values[target] = buffer.array[source]
        if i < len(self.given):
            copies.fetch(buffer, ref, values[target].nbytes, buffers_of(mapping))
        return values.reshape(mapping.block_aval.shape)

    def _leave(self, copies: BlockCopies, i: int, block: Block | None, ref: Buffer) -> None:
        """Write a block that programs write back to its array."""
        core = copies.core
        if block is None or i not in self.kernel.written:
            return
        mapping: Any = self.kernel.mappings[i]
        buffer = self._array(core, i)
        core.source = mapping.spec.source or getattr(self.machine.call, "source", None)
        target, source = _slices(mapping, block)
        if self.machine.finds_races:
            region = _region(source, buffer.shape)
            note_access(buffer, region, core, is_write=True)
            self.left.setdefault(buffer, []).append((region, core.program))
        part = ref.array.reshape(mapping.sizes)[target]
        buffer.array[source] = part
        copies.write(ref, buffer, part.nbytes, buffers_of(mapping))

    def _check_kept(self, core: Core, buffer: Buffer, region: memory.Region, name: str) -> None:
        """Raise CheckError for a block of an input that an earlier program has changed, by the result with which it is aliased."""
        for written, program in self.left.get(buffer, ()):
            if memory.overlap(region, written, buffer.shape):
                raise CheckError(
                    f"the kernel `{self.kernel.name}` reads a block of an input that was changed before, by a result that is aliased with it.",
                    got=f"{name}: {core.text()} reads {region.text()}, of which{program} has written {written.text()}",
                    where=describe(core.source),
                    do="A device fetches blocks ahead, before or after that. Let each program read the blocks that it writes, or leave `input_output_aliases` out.",
                )


class BlockCopies:
    """The times of the copies of blocks on a core: with two buffers a block is fetched while the program before runs, and written while the next one does."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._begins = self._began_before = core.time
        """When the program begins, and when that before it began, before they waited."""
        self._fetches: list[tuple[float, str, Any]] = []
        """What the program waits for: (the end of a copy, its buffer, its line)."""
        self._writes: dict[Buffer, list[tuple[float, str, Any]]] = {}
        """Copies in flight out of each buffer, in the order of their starts."""

    def begin_program(self) -> None:
        """Let the next program begin, as far as its blocks are there."""
        self._began_before, self._begins = self._begins, self.core.time

    def fetch(self, source: Buffer, target: Buffer, n_bytes: int, n_buffers: int) -> None:
        """Let a block of that many bytes be copied for the program that begins."""
        start = self._began_before if n_buffers > 1 else self._begins
        self._fetches.append(self._copy(source, target, n_bytes, start, target))

    def write(self, source: Buffer, target: Buffer, n_bytes: int, n_buffers: int) -> None:
        """Let the block that a buffer holds be copied to its array, and wait until another buffer is free."""
        writes = self._writes.setdefault(source, [])
        writes.append(self._copy(source, target, n_bytes, self.core.time, source))
        self._wait(writes, n_buffers - 1)

    def wait_for_fetches(self) -> None:
        """Wait for the blocks of the program that begins."""
        self._wait(self._fetches, 0)

    def wait_for_writes(self) -> None:
        """Wait for all blocks that are written."""
        for writes in self._writes.values():
            self._wait(writes, 0)

    def _copy(
        self, source: Buffer, target: Buffer, n_bytes: int, start: float, held: Buffer
    ) -> tuple[float, str, Any]:
        core = self.core
        end = start + copy_steps(n_bytes)
        core.machine.note_copy(core, core.source, core.program, source, target, n_bytes, start, end)
        return end, f"block `{held.name}`", core.source

    def _wait(self, copies: list[tuple[float, str, Any]], n_left: int) -> None:
        """Wait for the first copies, until `n_left` are in flight."""
        while len(copies) > n_left:
            end, what, self.core.source = copies.pop(0)
            self.core.waits_until(end, what)


def _same(a: Block, b: Block) -> bool:
    return a.bounds == b.bounds and all(
        np.array_equal(x, y) for x, y in zip(a.starts, b.starts, strict=True)
    )


def _slices(mapping: BlockMapping, block: Block) -> tuple[Any, Any]:
    """(the part of a block that lies in its array, the part of the array that it is), as NumPy indices."""
    inner: list[Any] = []
    outer: list[Any] = []
    for dim, start, bound, n in zip(
        mapping.dims, block.starts, block.bounds, mapping.aval.shape, strict=True
    ):
        if type(dim) is Indirect:
            inner.append(np.flatnonzero((start >= 0) & (start < n)))
            outer.append(start[inner[-1]])
            continue
        size = size_of(dim) if bound < 0 else min(bound, size_of(dim))
        first, end = max(start, 0), max(min(start + size, n), start, 0)
        inner.append(range(first - start, end - start))
        outer.append(range(first, end))
    if any(type(x) is np.ndarray for x in outer):
        return np.ix_(*inner), np.ix_(*outer)
    return tuple([slice(r.start, r.stop) for r in inner]), tuple(
        [slice(r.start, r.stop) for r in outer]
    )


def _region(index: tuple[Any, ...], shape: tuple[int, ...]) -> memory.Region:
    if all(type(x) is slice for x in index):
        return Box(tuple([range(x.start, x.stop) for x in index]))
    positions = np.arange(math.prod(shape)).reshape(shape)[index]
    return memory.points_of(positions.ravel(), shape)
