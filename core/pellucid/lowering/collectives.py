"""Collectives in StableHLO: which devices take part, and the operations by which they exchange values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid.base.errors import AxisNameError
from pellucid.lowering.context import LoweringContext
from pellucid.xla.mlir import ir

Groups = tuple[tuple[int, ...], ...]

_CHANNEL = "#stablehlo.channel_handle<handle = 1, type = 1>"


class ManualRegion(NamedTuple):
    """The part of a program that runs once for each position along the `manual` axes of a mesh."""

    mesh: Any
    manual: frozenset[Any]

    @property
    def is_full(self) -> bool:
        """Whether every axis of the mesh is manual."""
        return self.manual.issuperset(self.mesh.axis_names)


def region_of(ctx: LoweringContext, axes: Sequence[Any]) -> ManualRegion:
    """The manual region being lowered, which must bind `axes`."""
    region = ctx.manual
    for axis in axes:
        if region is None or axis not in region.manual:
            raise AxisNameError(
                f"axis {axis!r} has no devices where the program is compiled.",
                do="Call the function under `shard_map` over a mesh with that axis, or under `vmap` with axis_name.",
            )
    return region


def device_groups(
    ctx: LoweringContext, axes: Sequence[Any], within: Groups | None = None
) -> np.ndarray:
    """Rows of positions in the device assignment: those that differ only along `axes`, in the order of `axes`.

    `within` splits each row further, by positions along the axes; shorter groups are padded with -1.
    """
    mesh = region_of(ctx, axes).mesh
    positions = np.arange(mesh.size).reshape(mesh.axis_sizes)
    dims = [mesh.axis_names.index(axis) for axis in axes]
    others = [i for i in range(positions.ndim) if i not in dims]
    size = math.prod(mesh.axis_sizes[i] for i in dims)
    rows = positions.transpose(*others, *dims).reshape(-1, size)
    if within is None:
        return rows
    longest = max(map(len, within))
    padded = np.full((len(within), longest), -1)
    for i, group in enumerate(within):
        padded[i, : len(group)] = group
    return np.where(padded < 0, -1, rows[:, padded]).reshape(-1, longest)


def group_attributes(ctx: LoweringContext, groups: np.ndarray) -> dict[str, Any]:
    """The attributes by which a collective names its groups of devices."""
    return {
        "replica_groups": ctx.int_matrix(np.ascontiguousarray(groups)),
        "channel_handle": ctx.attribute(_CHANNEL),
    }


def global_attributes(ctx: LoweringContext, groups: np.ndarray) -> dict[str, Any]:
    """The attributes of collectives that could also speak of replicas: these speak of devices."""
    return group_attributes(ctx, groups) | {"use_global_device_ids": ir.UnitAttr.get()}


def all_reduce(ctx: LoweringContext, x: Any, aval: Any, op: str, groups: np.ndarray) -> Any:
    """`x` of type `aval` combined by the StableHLO operation `op` over each group."""
    attributes = global_attributes(ctx, groups)
    reduction = ctx.op("stablehlo.all_reduce", [ctx.type(aval)], [x], attributes, regions=1)
    ctx.scalar_body(reduction.regions[0], op, aval.dtype)
    return reduction.result
