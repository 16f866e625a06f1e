"""A program whose operands are laid out over eight devices computes what it computes on one."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from rotation import runs_whole

import pellucid
from pellucid._machine.primitives.sharding_constraint import with_sharding_constraint
from pellucid.sharding import Mesh, NamedSharding, PartitionSpec
from tests.laws.compare import assert_close
from tests.laws.evaluation import Evaluated
from tests.laws.sample import Sample, all_samples

AXES = ({"x": 8}, {"x": 4, "y": 2}, {"x": 2, "y": 4})
"""Sizes of mesh axes, tried in turn for each row. All have the same devices: rows are compiled together."""


def mesh_over(axes: dict[str, int]) -> Mesh:
    return Mesh(np.array(pellucid.devices()).reshape(*axes.values()), tuple(axes))


def mesh_of(sample: Sample) -> Mesh:
    """A mesh that splits some operand of the row evenly; which is tried first depends on the row."""
    first = zlib.crc32(str(sample).encode()) % len(AXES)
    for axes in (*AXES[first:], *AXES[:first]):
        mesh = mesh_over(axes)
        if any(layout(mesh, x, i).axis_names for i, x in enumerate(sample.arguments)):
            break
    return mesh


def layout(mesh: Mesh, x: Any, i: int) -> PartitionSpec:
    """A layout for operand number `i`: mesh axes on dimensions that they split evenly, in turns."""
    return over_dims(mesh, x, i, lambda size, parts: size % parts == 0)


def uneven_layout(mesh: Mesh, x: Any, i: int) -> PartitionSpec:
    """A layout for operand number `i` whose parts differ in size, where it has such dimensions."""
    return over_dims(mesh, x, i, lambda size, parts: size > 1 and size % parts != 0)


def over_dims(mesh: Mesh, x: Any, i: int, fits: Callable[[int, int], bool]) -> PartitionSpec:
    entries: list[Any] = [None] * np.ndim(x)
    for axis in mesh.axis_names if i % 2 == 0 else mesh.axis_names[::-1]:
        for dim, size in enumerate(np.shape(x)):
            if size and entries[dim] is None and fits(size, mesh.shape[axis]):
                entries[dim] = axis
                break
    return PartitionSpec(*entries)


SIGNS_OF_ZERO = "lax.top_k(x, 3) float32[2,5]"
"""The row whose result depends on signs of zeros, which devices don't keep when they exchange uneven parts."""


def placed(sample: Sample, mesh: Mesh, specs: list[PartitionSpec], operands: Sequence[Any]) -> Any:
    """Results of a row whose operands are laid out over `mesh`."""
    return sample.function(
        *(
            with_sharding_constraint(x, NamedSharding(mesh, spec)) if np.ndim(x) else x
            for x, spec in zip(operands, specs, strict=True)
        )
    )


def ways(sample: Sample) -> list[tuple[Mesh, list[PartitionSpec]]]:
    """Meshes and layouts of the operands: parts of one size, and in a run that takes all of the row of several sizes.

    Parts of several sizes are padded to one: what they are padded with must not show.
    """
    mesh = mesh_of(sample)
    found = [(mesh, [layout(mesh, x, i) for i, x in enumerate(sample.arguments)])]
    if str(sample) != SIGNS_OF_ZERO and runs_whole(str(sample)):
        mesh = mesh_over({"x": 4, "y": 2})
        found.append((mesh, [uneven_layout(mesh, x, i) for i, x in enumerate(sample.arguments)]))
    return found


def task(sample: Sample) -> Any:
    """Results of a row in all ways, one after another."""
    everyone = ways(sample)

    def sharded(*operands: Any) -> list[Any]:
        return [r for mesh, specs in everyone for r in placed(sample, mesh, specs, operands)]

    return sharded, sample.arguments


@pytest.mark.parametrize("sample", all_samples(), ids=str)
def test_sharded_equals_single_device(sample: Sample, compiled: Evaluated, together: Any) -> None:
    found = together(task, lambda s: s.needs_x64)
    expected = compiled.results
    assert len(found) == len(expected) * len(ways(sample))
    for i, got in enumerate(found):
        way, result = divmod(i, len(expected))
        what = f"{('even', 'uneven')[way]} parts, result {result}"
        assert_close(got, expected[result], sample.tolerance, what)
