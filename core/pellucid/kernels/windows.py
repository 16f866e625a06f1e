"""Counts of visits, transfers and bytes of an array, computed from the blocks that a grid's programs access."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

MAX_CELLS = 1 << 24
"""Maximum number of cells, in compressed coordinates, on which overlapping blocks are counted."""


class Cells(NamedTuple):
    """An array divided along all block boundaries; `counts` has a number for each cell."""

    edges: list[np.ndarray]
    """For each dimension, the first element of each cell, then the end of the array."""
    counts: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """Numbers of elements of the cells."""
        return _products([np.diff(edges) for edges in self.edges])


class Windows:
    """The blocks of an array that programs access, in the order in which the programs run.

    `starts` are first elements `[programs, dims]`, `sizes` numbers of elements `[programs or 1, dims]`; parts outside of the array
    don't count. `are_kept` says whether a block stays where it is until the next one is another; otherwise each program moves its own.

    >>> windows = Windows((4,), np.array([[0], [0], [2]]), np.array([[2]]))
    >>> windows.stay_count, windows.block_count, windows.moved_elements, windows.seen_elements
    (2, 2, 4, 4)
    """

    def __init__(
        self,
        shape: Sequence[int],
        starts: np.ndarray,
        sizes: np.ndarray,
        *,
        are_kept: bool = True,
    ) -> None:
        if not shape:  # a scalar, treated as an array of one element
            count = len(starts)
            shape, starts, sizes = (1,), np.zeros((count, 1), np.int64), np.ones((1, 1), np.int64)
        limits = np.asarray(shape, np.int64)
        self.shape, self.are_kept = tuple(shape), are_kept
        self.starts, self.sizes = starts, sizes
        self.low = np.clip(starts, 0, limits).astype(np.int64)
        self.high = np.maximum(np.clip(starts + sizes, 0, limits).astype(np.int64), self.low)

    @property
    def count(self) -> int:
        """Number of programs."""
        return len(self.starts)

    @cached_property
    def inside(self) -> np.ndarray:
        """For each program, the number of elements of its block within the array."""
        return np.prod(self.high - self.low, axis=1, dtype=np.int64)

    @cached_property
    def _numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """(for each program the number of its block, for each block the first program that accesses it)."""
        numbers, limit = np.zeros(self.count, np.int64), 1
        for column in (*self.starts.T, *np.broadcast_to(self.sizes, self.starts.shape).T):
            steps = column - column.min(initial=0)
            unit = int(np.gcd.reduce(steps))
            if unit == 0:  # the same everywhere
                continue
            steps = steps // unit
            span = int(steps.max()) + 1
            if limit * span > np.iinfo(np.int64).max:
                numbers = np.unique(numbers, return_inverse=True)[1]
                limit = int(numbers.max()) + 1
            numbers, limit = numbers * span + steps, limit * span
        if limit > MAX_CELLS:
            _, first, blocks = np.unique(numbers, return_index=True, return_inverse=True)
            return blocks, first
        # The first program of each number. Written in reverse, so that the first program's write is the last one; faster than sorting.
        table = np.full(limit, -1)
        table[numbers[::-1]] = np.arange(self.count)[::-1]
        is_there = table >= 0
        blocks, first = (np.cumsum(is_there) - 1)[numbers], table[is_there]
        return blocks, first

    @property
    def blocks(self) -> np.ndarray:
        """For each program, the number of its block; equal blocks have equal numbers."""
        return self._numbers[0]

    @property
    def first_programs(self) -> np.ndarray:
        """For each block, the first program that accesses it."""
        return self._numbers[1]

    @property
    def block_count(self) -> int:
        """Number of distinct blocks."""
        return len(self.first_programs)

    @cached_property
    def begins_stay(self) -> np.ndarray:
        """For each program, whether its block is transferred: by default if it differs from the previous program's."""
        if not self.are_kept:
            return self.inside > 0
        return np.concatenate([[True], self.blocks[1:] != self.blocks[:-1]])[: self.count]

    @property
    def stay_count(self) -> int:
        """Number of block transfers, if a block isn't transferred again while it stays the same."""
        return int(self.begins_stay.sum())

    @property
    def moved_elements(self) -> int:
        """Number of elements that block transfers move, without those outside of the array."""
        return int(self.inside[self.begins_stay].sum())

    @cached_property
    def stays(self) -> np.ndarray:
        """For each block, the number of its transfers."""
        return np.bincount(self.blocks[self.begins_stay], minlength=self.block_count)

    def cell_weights(self, weights: np.ndarray) -> Cells | None:
        """For each cell of the array, the sum of the weights of the blocks that cover it; None for too many cells.

        `weights` has a number for each block.
        """
        low, high = self.low[self.first_programs], self.high[self.first_programs]
        edges = [
            np.unique(np.concatenate([low[:, i], high[:, i], [0, n]]))
            for i, n in enumerate(self.shape)
        ]
        if math.prod([len(e) for e in edges]) > MAX_CELLS:
            return None
        places = [self._cells_of(edges[i], low[:, i], high[:, i]) for i in range(len(self.shape))]
        # Differences at the corners of each block, which cumulative sums along all dimensions turn into counts.
        differences = np.zeros([len(e) for e in edges], np.int64)
        is_some = (high > low).all(axis=1)
        for corner in itertools.product((0, 1), repeat=len(self.shape)):
            at = tuple([place[side] for place, side in zip(places, corner, strict=True)])
            np.add.at(differences, at, np.where(is_some, weights, 0) * (-1) ** sum(corner))
        for axis in range(len(self.shape)):
            np.cumsum(differences, axis=axis, out=differences)
        return Cells(edges, differences[tuple([slice(0, -1)] * len(self.shape))])

    @staticmethod
    def _cells_of(
        edges: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        return np.searchsorted(edges, low), np.searchsorted(edges, high)

    @cached_property
    def visits(self) -> Cells | None:
        """For each cell, the number of programs that access it."""
        return self.cell_weights(np.bincount(self.blocks, minlength=self.block_count))

    @cached_property
    def moves(self) -> Cells | None:
        """For each cell, the number of its transfers."""
        return self.cell_weights(self.stays)

    @property
    def seen_elements(self) -> int | None:
        """Number of elements that at least one program accesses; None if unknown."""
        if self.visits is None:
            return None
        return int(self.visits.sizes[self.visits.counts > 0].sum())

    def shared_cells(self, ids: np.ndarray) -> Cells | None:
        """For each cell, 1 if programs with different `ids` access it, else 0; None if that takes too long."""
        single = self.cell_weights(np.ones(self.block_count, np.int64))
        if single is None:
            return None
        if single.counts.size == 0 or single.counts.max() <= 1:
            # If blocks don't overlap, each is shared if the programs that access it differ in `ids`.
            least = np.full(self.block_count, np.iinfo(np.int64).max)
            most = np.full(self.block_count, -1)
            np.minimum.at(least, self.blocks, ids)
            np.maximum.at(most, self.blocks, ids)
            cells = self.cell_weights((most > least).astype(np.int64))
            return None if cells is None else cells._replace(counts=np.minimum(cells.counts, 1))
        values = np.unique(ids)
        if len(values) * single.counts.size > MAX_CELLS:
            return None
        seen = np.zeros_like(single.counts)
        for value in values:
            chosen = np.zeros(self.block_count, np.int64)
            chosen[self.blocks[ids == value]] = 1
            painted = self.cell_weights(chosen)
            assert painted is not None  # it has the same cells as `single`
            seen += painted.counts > 0
        return Cells(single.edges, (seen > 1).astype(np.int64))

    def touching(self, cells: Cells) -> np.ndarray:
        """For each program, whether its block contains a cell with a nonzero count."""
        low, high = self.low[self.first_programs], self.high[self.first_programs]
        # Cumulative sums up to each corner; the sum over a block is a difference of these.
        sums = np.pad((cells.counts != 0).astype(np.int64), [(1, 0)] * len(self.shape))
        for axis in range(len(self.shape)):
            np.cumsum(sums, axis=axis, out=sums)
        places = [
            self._cells_of(edges, low[:, i], high[:, i]) for i, edges in enumerate(cells.edges)
        ]
        total = np.zeros(self.block_count, np.int64)
        for corner in itertools.product((0, 1), repeat=len(self.shape)):
            at = tuple([place[side] for place, side in zip(places, corner, strict=True)])
            total += sums[at] * (-1) ** (len(self.shape) - sum(corner))
        return (total > 0)[self.blocks]


def _products(factors: Sequence[np.ndarray]) -> np.ndarray:
    """The products of one factor for each dimension."""
    result = np.ones([], np.int64)
    for factor in factors:
        result = result[..., None] * factor
    return result
