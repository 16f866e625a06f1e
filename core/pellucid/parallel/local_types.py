"""Types of whole values and of the parts that one position along manual mesh axes has, as specs relate them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pellucid.base import UnsupportedError, inserted
from pellucid.ir import ShapedArray
from pellucid.primitives.varying import Marks, marked, marks_of
from pellucid.sharding.errors import indivisible_error
from pellucid.sharding.explicit_types import explicit_part, shown_sharding
from pellucid.sharding.mesh import AnyMesh, AxisType
from pellucid.sharding.named_sharding import NamedSharding
from pellucid.sharding.partition_spec import AxisSet, PartitionSpec, axes_text, rank_error

REPLICATED = PartitionSpec()
"""The spec of a value that every position has in full."""


def part_counts(mesh: AnyMesh, spec: PartitionSpec) -> list[int]:
    """Into how many parts `spec` cuts each of its dimensions."""
    return [math.prod(mesh.shape[axis] for axis in axes) for axes in spec.axes_per_dim]


def check_is_array(aval: Any, path: str) -> None:
    """Raise UnsupportedError for a reference or a token, of which devices can't have parts."""
    if not isinstance(aval, ShapedArray):
        raise UnsupportedError(
            "shard_map takes arrays, no references or tokens.", got=f"{path}: {aval.text()}",
            do="Make references inside the function, or pass them as arguments.",
        )  # fmt: skip


def checked_local_type(
    aval: Any,
    mesh: AnyMesh,
    spec: PartitionSpec,
    manual: AxisSet,
    checked: bool,
    path: str,
) -> ShapedArray:
    """`local_type`, for a value that a user passed as `path`.

    Raises: PartitionSpecError for a spec longer than the rank, IndivisibleError for a size that isn't a multiple.
    """
    check_is_array(aval, path)
    if len(spec) > aval.ndim:
        error = rank_error(spec, aval.ndim)
        raise type(error)(
            f"shard_map: in_specs give {spec!r} to an argument of rank {aval.ndim}.",
            got=f"{path}: {aval.text()}", do=error.do,
        )  # fmt: skip
    for dim, parts in enumerate(part_counts(mesh, spec)):
        if aval.shape[dim] % parts:
            axes = axes_text(spec.axes_per_dim[dim])
            raise indivisible_error(
                f"{path}: {aval.text()}, {spec!r}", aval.shape, dim, parts, axes
            )
    return local_type(aval, mesh, spec, manual, checked)


def local_type(
    aval: ShapedArray,
    mesh: AnyMesh,
    spec: PartitionSpec,
    manual: AxisSet,
    checked: bool,
) -> ShapedArray:
    """Type of one position's part, along the axes `manual`, of a value.

    Where types are `checked`, it varies over the axes of `spec`. What it shows of other axes stays.
    """
    shape = list(aval.shape)
    for dim, parts in enumerate(part_counts(mesh, spec)):
        shape[dim] //= parts
    varying = aval.varying | spec.axis_names if checked else aval.varying
    shown = aval.shown_sharding
    local = aval.update(shape=tuple(shape), varying=varying, shown_sharding=None)
    marks = Marks(spec.unreduced, spec.reduced)
    if not any(marks):
        if shown is None or shown.mesh.shape_tuple != mesh.shape_tuple:
            return local
        return local.update(shown_sharding=_without(shown, manual))
    inside = dict.fromkeys(spec.unreduced | spec.reduced, AxisType.Manual)
    return marked(local, marks, mesh.abstract_mesh.update_axis_types(inside))


def _without(sharding: NamedSharding, manual: AxisSet) -> NamedSharding | None:
    """The part of `sharding` that a type still shows where the axes `manual` are Manual."""
    rest = [[a for a in axes if a not in manual] for axes in sharding.spec.axes_per_dim]
    mesh = sharding.mesh.abstract_mesh.update_axis_types(dict.fromkeys(manual, AxisType.Manual))
    return shown_sharding(mesh, PartitionSpec(*[tuple(axes) or None for axes in rest]))


def whole_type(
    aval: ShapedArray, mesh: AnyMesh, spec: PartitionSpec, manual: AxisSet
) -> ShapedArray:
    """Type of the value that the positions along the axes `manual` have parts of."""
    shape = list(aval.shape)
    for dim, parts in enumerate(part_counts(mesh, spec)):
        shape[dim] *= parts
    shown = aval.shown_sharding
    if any(marks_of(aval)):
        shown = None  # the spec says it
    whole, over = spec.padded(len(shape)), mesh.abstract_mesh
    if shown is not None:
        entries = zip(whole.axes_per_dim, shown.spec.axes_per_dim, strict=True)
        whole = PartitionSpec(*[(*axes, *others) or None for axes, others in entries])
        types = {axis: mesh.axis_type_by_name[axis] for axis in manual}
        over = shown.mesh.abstract_mesh.update_axis_types(types)
    sharding = shown_sharding(over, explicit_part(whole, over, len(shape)))
    return aval.update(shape=tuple(shape), varying=aval.varying - manual, shown_sharding=sharding)


def with_batch_dim(spec: PartitionSpec, dim: int, entry: Any) -> PartitionSpec:
    """`spec` with `entry` for a new dimension at `dim`."""
    entries = list(spec) + [None] * (dim - len(spec))
    return PartitionSpec(*inserted(entries, dim, entry))


def leading_spec(mesh: AnyMesh, axes: Sequence[Any] | AxisSet) -> PartitionSpec:
    """The spec that joins the parts of all positions along `axes` at the first dimension."""
    names = tuple([name for name in mesh.axis_names if name in axes])
    return PartitionSpec(names) if names else REPLICATED
