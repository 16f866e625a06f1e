"""A search for fast placements of a function's arguments that fit into device memory."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator

from pellucid._machine.base import ArgumentValueError, by_tool
from pellucid._machine.sharding import AbstractMesh
from pellucid._machine.sharding.errors import ShardingError

from .what_if import Dims, Estimate, Placement, Search, WhatIf, parts_of


@by_tool
def fastest(
    what_if: WhatIf,
    start: Placement,
    memory_limit_bytes: int | None = None,
    count: int = 5,
    seconds: float = 10.0,
) -> Search:
    """The `count` fastest placements, with as many devices as `start` has, that fit into the memory of a device.

    Candidates are all sizes of the axes of `start` with its specs, most similar to `start` first. For the fastest ones,
    each axis is also removed from all arguments, or added to the largest unpartitioned dimension of every argument with
    at least a thousandth of all bytes. The search stops after `seconds`.

    Raises: ArgumentValueError for a limit, count or time that isn't positive; errors of estimating `start`.

    >>> what_if = WhatIf(lambda x: x * 2.0, pl.ShapeDtypeStruct((64, 64), "float32"))
    >>> start = what_if.placement({"rows": 2, "columns": 4}, {"x": pl.P("rows", "columns")})
    >>> len(fastest(what_if, start, count=3).best)
    3
    """
    limit = what_if.machine.memory_bytes if memory_limit_bytes is None else memory_limit_bytes
    for name, amount in (("memory_limit_bytes", limit), ("count", count), ("seconds", seconds)):
        if amount <= 0:
            raise ArgumentValueError(f"what_if: `{name}` must be positive.", got=f"got {amount}")
    deadline = time.monotonic() + seconds
    estimates = {start: what_if.estimate(start)}
    excluded: set[Placement] = set()
    remaining: set[Placement] = set()

    def examine(candidates: Iterator[Placement]) -> None:
        for placement in candidates:
            if placement in estimates or placement in excluded:
                continue
            if not _divides(what_if, placement) or what_if.argument_bytes(placement) > limit:
                excluded.add(placement)
            elif time.monotonic() > deadline:
                remaining.add(placement)
            else:
                try:
                    estimates[placement] = what_if.estimate(placement)
                except ShardingError:  # a sharding constraint of the function doesn't fit this mesh
                    excluded.add(placement)

    def ranking() -> list[Estimate]:
        fitting = [each for each in estimates.values() if each.peak_bytes <= limit]
        return sorted(fitting, key=lambda each: each.seconds)

    examine(_shapes(start))
    # If no placement fits into memory yet, partitioning arguments further may help.
    seeds = [each.placement for each in ranking()[:3]] or [start]
    for placement in seeds:
        examine(_variants(what_if, placement))
    return Search(ranking()[:count], len(estimates), len(excluded), len(remaining), limit)


def _shapes(start: Placement) -> Iterator[Placement]:
    """All sizes of the mesh's axes with the same number of devices, most similar to its own first."""
    mesh = start.mesh

    def distance(sizes: tuple[int, ...]) -> float:
        return sum(abs(math.log(a / b)) for a, b in zip(sizes, mesh.axis_sizes, strict=True))

    for sizes in sorted(_factorizations(mesh.size, len(mesh.axis_names)), key=distance):
        yield Placement(AbstractMesh(sizes, mesh.axis_names, mesh.axis_types), start.dims)


def _factorizations(number: int, count: int) -> Iterator[tuple[int, ...]]:
    """All ways to write `number` as a product of `count` factors.

    >>> sorted(_factorizations(4, 2))
    [(1, 4), (2, 2), (4, 1)]
    """
    if count == 1:
        yield (number,)
        return
    for factor in range(1, number + 1):
        if number % factor == 0:
            yield from ((factor, *rest) for rest in _factorizations(number // factor, count - 1))


def _variants(what_if: WhatIf, start: Placement) -> Iterator[Placement]:
    """`start` with one axis removed, and with one axis added to further arguments."""
    for axis in [str(name) for name, size in start.mesh.shape.items() if size > 1]:
        yield Placement(start.mesh, tuple(_without(dims, axis) for dims in start.dims))
        yield Placement(
            start.mesh,
            tuple(itertools.starmap(_With(what_if, start.mesh, axis), enumerate(start.dims))),
        )


def _without(dims: Dims, axis: str) -> Dims:
    return tuple(tuple(each for each in axes if each != axis) for axes in dims)


class _With:
    """Adds an axis to the largest unpartitioned dimension of an argument, if the argument is large."""

    def __init__(self, what_if: WhatIf, mesh: AbstractMesh, axis: str) -> None:
        self.arguments = what_if.arguments
        self.least_bytes = sum(each.nbytes for each in self.arguments) / 1000
        self.axis = axis
        self.size = mesh.shape[axis]

    def __call__(self, place: int, dims: Dims) -> Dims:
        argument = self.arguments[place]
        if argument.nbytes < self.least_bytes or any(self.axis in axes for axes in dims):
            return dims
        free = [
            dim
            for dim, (axes, size) in enumerate(zip(dims, argument.shape, strict=True))
            if not axes and size % self.size == 0
        ]
        largest = max(free, key=lambda dim: argument.shape[dim], default=None)
        return tuple((self.axis,) if dim == largest else axes for dim, axes in enumerate(dims))


def _divides(what_if: WhatIf, placement: Placement) -> bool:
    """Whether all dimensions are divided evenly."""
    return all(
        size % parts_of((axes,), placement.mesh) == 0
        for argument, dims in zip(what_if.arguments, placement.dims, strict=True)
        for size, axes in zip(argument.shape, dims, strict=True)
    )
