"""Selection of the `shard_map` position, and of one lane per batch, whose values a session shows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid.introspect.errors import ArgumentValueError
from pellucid.introspect.lanes import (
    Lane,
    batch_sizes,
    batches_before,
    lane_index,
    program_batch_sizes,
)
from pellucid.introspect.mesh_positions import MeshPosition, of_auto_axes
from pellucid_kernel.debug.equation_stacks import EquationStacks
from pellucid_kernel.debug.stepper import Level

LaneIndices = list[int | None]
"""Selected lane of each batch, outermost first; None for all lanes."""


class Choice:
    """The selected position and lanes. They apply to inner programs, and to outer ones as far as these have the same
    axes.
    """

    def __init__(self) -> None:
        self._position: tuple[Any, MeshPosition] | None = None  # (all positions, selected position)
        self._lane: list[tuple[int, int | None]] = []  # (size, selected lane) of each batch

    def choose_position(self, frame: Any, index: int | None) -> None:
        """Selects a position of the `shard_map` around a frame, or all if None."""
        positions = frame.positions
        if positions is None or index is None:
            self._position = None
        else:
            self._position = positions, positions.all()[index]

    def position_in(self, frame: Any) -> int | None:
        """Index of the selected position among a frame's positions. An enclosing `shard_map` has the corresponding
        position.
        """
        if frame.positions is None or self._position is None:
            return None
        chosen, position = self._position
        levels = frame.positions.levels
        pairs = zip(levels, chosen.levels, strict=False)
        if len(levels) > len(chosen.levels) or any(a.params is not b.params for a, b in pairs):
            return None
        coordinates = position.coordinates[: len(frame.positions.axes)]
        return next(p.index for p in frame.positions.all() if p.coordinates == coordinates)

    def choose_lane(self, level: Level, lane: Sequence[int | None]) -> None:
        """Selects a lane of each batch around the next equation of a level, or all lanes if None.

        Raises: ArgumentValueError if there is no such lane.
        """
        sizes = sizes_at(level)
        is_there = [i is None or 0 <= i < n for i, n in zip(lane, sizes, strict=False)]
        if len(lane) > len(sizes) or not all(is_there):
            raise ArgumentValueError(
                "there is no such lane here.",
                got=", ".join("*" if i is None else str(i) for i in lane),
                do=f"Name a number below {', and one below '.join(map(str, sizes))}."
                if sizes
                else "Go to a line that `vmap` batches before.",
            )
        self._lane = [*zip(sizes, lane, strict=False)]

    def lane_in(self, level: Level) -> LaneIndices:
        """Selected lanes of the batches around the next equation of a level, up to the first batch that differs; empty
        if no lane is selected.
        """
        if all(index is None for _, index in self._lane):
            return []
        pairs = zip(self._lane, sizes_at(level), strict=False)
        same = itertools.takewhile(lambda pair: pair[0][0] == pair[1], pairs)
        return [index for (_, index), _ in same]

    def lanes_text(self, level: Level) -> str:
        """Text with the lanes of batches around the next equation of a level; empty if it isn't batched."""
        sizes, lane = sizes_at(level), self.lane_in(level)
        if not any(index is not None for index in lane):
            return f"({' × '.join(map(str, sizes))} lanes)" if sizes else ""
        pairs = itertools.zip_longest(sizes, lane)
        texts = [f"{n} lanes" if i is None else str(Lane(i, n)) for n, i in pairs]
        return f"({', '.join(texts)})"

    def values_to_show(
        self, level: Level, atoms: Sequence[Any], n_batches: int | None = None
    ) -> list[Any]:
        """Values of a level at the selected position, in the selected lanes of the outermost `n_batches` (default:
        all).
        """
        frame = level.frame
        values = frame.user_values(atoms, self.position_in(frame))
        lane = self.lane_in(level)[:n_batches]
        if not lane:
            return values
        return [
            _lane_of(x, _lane_index(level, a, lane, np.ndim(x)))
            for a, x in zip(atoms, values, strict=True)
        ]

    def part(
        self, level: Level, variable: Any, n_batches: int | None
    ) -> tuple[Any, Callable[[Any], Any]]:
        """(value of a variable in the selected lane and position, function that replaces this part of the value).

        If no position is selected, it is the first one; the function returns the value at that position.
        """
        [whole] = level.frame.user_values([variable], self.position_in(level.frame) or 0)
        lane = self.lane_in(level)[:n_batches]
        index = _lane_index(level, variable, lane, np.ndim(whole))
        if not index:
            return whole, lambda part: part
        return _lane_of(whole, index), of_auto_axes(whole).at[index].set


def _lane_of(value: Any, index: tuple[Any, ...]) -> Any:
    return of_auto_axes(value)[index] if index else value


def sizes_at(level: Level) -> list[int]:
    """Batch sizes around the next equation of a level, outermost first."""
    jaxpr, equation = level.frame.jaxpr, _equation_at(level)
    return [] if equation is None else batch_sizes(jaxpr, equation)


def _equation_at(level: Level) -> Any:
    """The next equation of a level, or the last one at its end; None for a program without equations."""
    frame = level.frame
    return frame.equation or (frame.jaxpr.equations[-1] if frame.jaxpr.equations else None)


def n_batches_of(level: Level) -> int:
    """Number of batches in which the program of a level runs as a whole."""
    return len(program_batch_sizes(level.frame.jaxpr))


def n_batches_around(places: EquationStacks, level: Level, depth: int) -> int:
    """Number of batches around the function at `depth` in a level's stack: those common to all of its equations."""
    jaxpr, equation = level.frame.jaxpr, level.frame.equation
    here = () if equation is None else places.stack(equation)
    if depth >= len(here):
        return len(sizes_at(level))
    counts = []
    for each in jaxpr.equations:
        stack = places.stack(each)
        is_within = len(stack) > depth and stack[:depth] == here[:depth]
        if is_within and stack[depth].function == here[depth].function:
            counts.append(len(batch_sizes(jaxpr, each)))
    return min(counts)


def _lane_index(level: Level, atom: Any, lane: Sequence[int | None], ndim: int) -> tuple[Any, ...]:
    """Index of the selected lanes in a value, after leading dimensions for positions; empty if the value isn't batched."""
    equation = _equation_at(level)
    if equation is None or hasattr(atom, "val") or not lane:
        return ()
    n = len(atom.aval.shape)
    index = lane_index(batches_before(level.frame.jaxpr, equation, atom), lane, n, ndim - n)
    return index if any(type(i) is int for i in index) else ()
