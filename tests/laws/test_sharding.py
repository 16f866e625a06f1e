"""A program whose operands are laid out over eight devices computes what it computes on one."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pellucid
from pellucid.primitives.sharding_constraint import with_sharding_constraint
from pellucid.sharding import Mesh, NamedSharding, PartitionSpec
from tests.laws.compare import assert_close
from tests.laws.sample import Sample, all_samples

AXES = ({"x": 8}, {"x": 4, "y": 2}, {"x": 2, "y": 4}, {"x": 4}, {"x": 2})
"""Sizes of mesh axes that are tried in turn for each row: meshes of one axis and of two."""


def mesh_over(axes: dict[str, int]) -> Mesh:
    devices = np.array(pellucid.devices()[: np.prod(list(axes.values()))])
    return Mesh(devices.reshape(*axes.values()), tuple(axes))


def mesh_of(sample: Sample) -> Mesh:
    """A mesh that splits some operand of the row evenly; which is tried first depends on the row."""
    first = zlib.crc32(str(sample).encode()) % 3
    for axes in (*AXES[first:], *AXES[:first]):
        mesh = mesh_over(axes)
        if any(layout(mesh, x, i).axis_names for i, x in enumerate(sample.arguments)):
            return mesh
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


def task(sample: Sample, mesh: Mesh, layout: Callable[[Mesh, Any, int], PartitionSpec]) -> Any:
    specs = [layout(mesh, x, i) for i, x in enumerate(sample.arguments)]

    def sharded(*operands: Any) -> Any:
        placed = [
            with_sharding_constraint(x, NamedSharding(mesh, spec)) if np.ndim(x) else x
            for x, spec in zip(operands, specs, strict=True)
        ]
        return sample.function(*placed)

    return sharded, sample.arguments


def evenly(sample: Sample) -> Any:
    return task(sample, mesh_of(sample), layout)


def unevenly(sample: Sample) -> Any:
    """Parts are padded to one size: what they are padded with must not show."""
    return task(sample, mesh_over({"x": 4, "y": 2}), uneven_layout)


def check(found: list[Any], sample: Sample, compiled: list[Any]) -> None:
    for i, (got, want) in enumerate(zip(found, compiled, strict=True)):
        assert_close(got, want, sample.tolerance, f"result {i}")


@pytest.mark.parametrize("sample", all_samples(), ids=str)
def test_sharded_equals_single_device(sample: Sample, compiled: list[Any], together: Any) -> None:
    check(together(evenly, lambda s: s.needs_x64), sample, compiled)


SIGNS_OF_ZERO = "lax.top_k(x, 3) float32[2,5]"
"""The row whose result depends on signs of zeros, which devices don't keep when they exchange uneven parts."""


@pytest.mark.parametrize("sample", [s for s in all_samples() if str(s) != SIGNS_OF_ZERO], ids=str)
def test_unevenly_sharded_equals_single_device(
    sample: Sample, compiled: list[Any], together: Any
) -> None:
    check(together(unevenly, lambda s: s.needs_x64), sample, compiled)
