"""Inputs and results of kernels: the blocks that programs see, and when these are moved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base.dims import Symbol
from pellucid._machine.ir import axis_names_of
from pellucid.introspect.kernel_steps import block_names
from pellucid.kernels.mappings import BlockMapping, indices_with, positions_of
from pellucid.kernels.programs import GridKernel
from pellucid.kernels.specs import BoundedSlice, Indirect, padding_of, step_of
from pellucid.kernels.windows import Windows

from .kernel_accesses import Access, accessed_references, accesses

MAX_PROGRAMS = 1 << 20
"""Maximum number of programs of a grid that are examined one by one."""


class Operand(NamedTuple):
    """An input or result of a kernel."""

    name: str
    reference: int
    """Index among the references of the body."""
    mapping: BlockMapping
    is_result: bool
    aliased: str


class Reading(NamedTuple):
    """Accesses, blocks and idleness of all programs of a grid."""

    grid: list[int]
    accesses: list[Access]
    windows: dict[int, Windows]
    """The blocks by index of the reference."""
    is_idle: np.ndarray

    @property
    def n_programs(self) -> int:
        """Number of programs."""
        return math.prod(self.grid)

    def of(self, operand: Operand) -> list[Access]:
        """The loads and stores of an operand."""
        return [a for a in self.accesses if a.reference == operand.reference]


def operands_of(kernel: GridKernel) -> list[Operand]:
    """The inputs of a kernel, then its results."""
    names = block_names(kernel)
    n_scalars, n_inputs = len(kernel.scalars), len(kernel.inputs)
    operands: list[Operand] = []
    for i, mapping in enumerate((*kernel.inputs, *kernel.results)):
        is_result = i >= n_inputs
        aliased = ""
        if is_result and i - n_inputs in kernel.aliases:
            # Alias numbers of inputs include the prefetched scalars before them.
            number = kernel.aliases[i - n_inputs] - n_scalars
            aliased = names[number] if number >= 0 else "a prefetched scalar"
        operands.append(Operand(names[i], n_scalars + i, mapping, is_result, aliased))
    return operands


def has_symbols(kernel: GridKernel) -> bool:
    """Whether some size that a kernel sees is a symbol."""
    return any(is_symbolic(m) for m in (*kernel.inputs, *kernel.results))


def is_symbolic(mapping: BlockMapping) -> bool:
    """Whether sizes of an array or its blocks are symbols."""
    return any(isinstance(n, Symbol) for n in (*mapping.aval.shape, *mapping.sizes))


def is_gathered(mapping: BlockMapping) -> bool:
    """Whether the elements of blocks lie at positions of their own."""
    return any(type(dim) is Indirect for dim in mapping.dims)


def windows_of(
    kernel: GridKernel,
    operand: Operand,
    reading: Reading,
    ids: np.ndarray,
    scalars: Sequence[Any] | None,
) -> Windows | None:
    """The blocks of an operand that all programs access; None if unknown."""
    mapping, count = operand.mapping, reading.n_programs
    if is_symbolic(mapping) or is_gathered(mapping):
        return None
    bounded = [i for i, dim in enumerate(mapping.dims) if type(dim) is BoundedSlice]
    indices, lengths = mapping.indices, np.zeros((count, 0), np.int32)
    if indices is None or bounded:
        reads_scalars = len(mapping.program.jaxpr.invars) > len(kernel.grid)
        if indices is None and reads_scalars and scalars is None:
            return None
        values = scalars
        if values is None:  # unused: the indices are known without them
            values = [np.zeros(a.shape, a.dtype) for a in kernel.scalars]
        found, lengths = indices_with(mapping, reading.grid, values)
        indices = found if indices is None else indices
    steps = np.array([step_of(dim) for dim in mapping.dims], np.int64)
    before = np.array([padding_of(dim)[0] for dim in mapping.dims], np.int64)
    starts = indices.astype(np.int64) * steps - before
    sizes = np.array(mapping.sizes, np.int64)[None]
    if lengths.shape[1]:
        sizes = np.repeat(sizes, count, axis=0)
        for i, column in zip(bounded, lengths.T, strict=False):
            sizes[:, i] = np.clip(column, 0, mapping.sizes[i])
    if mapping.spec.block_shape is None:
        parts = _accessed_parts(mapping.aval.shape, reading.of(operand), count)
        if parts is not None:
            return Windows(mapping.aval.shape, *parts, are_kept=False)
    return Windows(mapping.aval.shape, starts, sizes)


def _accessed_parts(
    shape: Sequence[int], found: Sequence[Access], count: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """(first elements, numbers of elements) of the part of a whole array that each program accesses; None if that is
    all of it.
    """
    low = np.full((count, len(shape)), np.iinfo(np.int32).max, np.int64)
    high = np.zeros((count, len(shape)), np.int64)
    for access in found:
        is_some = access.active & (access.used > 0)
        for i, (first, end) in enumerate(zip(access.low, access.high, strict=True)):
            begins = 0 if first is None else np.minimum(first, low[:, i])
            low[:, i] = np.where(is_some, begins, low[:, i])
            ends = shape[i] if end is None else np.maximum(end, high[:, i])
            high[:, i] = np.where(is_some, ends, high[:, i])
    is_empty = (high <= low).any(axis=1)
    low[is_empty], high[is_empty] = 0, 0
    if not found or ((high - low) == np.asarray(shape)).all():
        return None
    return low, high - low


def moves_of(
    operand: Operand, windows: Windows, is_read: bool, is_written: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """For each program, whether it (fetches a block, writes a block back); None if the operand is never fetched, or
    written.
    """
    begins = windows.begins_stay
    if not operand.is_result:
        return begins, None
    fetched = None
    if is_read:
        fetched = begins
        if not operand.aliased:  # without an alias, a block has no value before it is written
            is_first = np.zeros(windows.count, bool)
            is_first[windows.first_programs] = True
            fetched = begins & ~is_first
    return fetched, begins if is_written else None


def moved_bytes(kernel: GridKernel) -> int | None:
    """Bytes that the programs of a kernel move between arrays and their blocks; None where data choose blocks or sizes,
    for symbolic sizes and for too many programs; cached.
    """
    memo = kernel.body.jaxpr.memo
    if "moved bytes" not in memo:
        memo["moved bytes"] = _moved_bytes(kernel)
    return memo["moved bytes"]


def chooses_parts(kernel: GridKernel) -> bool:
    """Whether a kernel sees whole arrays, and may choose parts of them itself."""
    return any(each.mapping.spec.block_shape is None for each in operands_of(kernel))


def _moved_bytes(kernel: GridKernel) -> int | None:
    grid = [n for n in kernel.grid if n is not None]
    count = math.prod(grid)
    if len(grid) < len(kernel.grid) or count > MAX_PROGRAMS or has_symbols(kernel):
        return None
    if count == 0:
        return 0
    ids = positions_of(grid).reshape(len(grid), count)
    operands = operands_of(kernel)
    # The body is looked at program by program only where it chooses parts of whole arrays itself.
    has_parts = chooses_parts(kernel)
    if has_parts and axis_names_of(kernel.body.jaxpr):
        return None  # which parts depends on the position among devices
    found = accesses(kernel, ids, (), None) if has_parts else []
    reading = Reading(grid, found, {}, np.zeros(0, bool))
    read, _ = accessed_references(kernel)
    total = 0
    for each in operands:
        windows = windows_of(kernel, each, reading, ids, None)
        if windows is None:
            return None
        is_written = each.is_result and each.reference in kernel.written
        item = each.mapping.aval.dtype.itemsize
        for does in moves_of(each, windows, each.reference in read, is_written):
            total += 0 if does is None else int(windows.inside[does].sum()) * item
    return total + sum([math.prod(a.shape) * a.dtype.itemsize for a in kernel.scalars])
