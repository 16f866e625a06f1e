"""Errors about meshes, PartitionSpecs, placements, and explicitly sharded types."""

from __future__ import annotations

from typing import Any

from pellucid._machine.base import PellucidError, Shape, is_static


class ShardingError(PellucidError, ValueError):
    """An invalid sharding, mesh or layout."""


class MeshError(ShardingError):
    """Devices, names, sizes and types of mesh axes are inconsistent."""


class PartitionSpecError(ShardingError):
    """A PartitionSpec doesn't fit its mesh or the value it is applied to."""


class DuplicateAxisError(PartitionSpecError):
    """A PartitionSpec uses a mesh axis twice."""


class IndivisibleError(ShardingError):
    """A dimension isn't divisible by the mesh axes that shard it."""


class MemoryKindError(ShardingError):
    """A memory kind that the devices don't have."""


class LayoutError(ShardingError):
    """A layout doesn't fit the value or the devices."""


class ShardingArgumentError(ShardingError, TypeError):
    """An argument isn't a mesh, PartitionSpec, device or sharding."""


class MissingMeshError(ShardingError, RuntimeError):
    """A PartitionSpec was given without a mesh, and no mesh is current."""


class AbstractPlacementError(ShardingError):
    """A property of devices was requested from a sharding over an AbstractMesh, which has none."""


def updated_fields(caller: str, fields: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`fields` updated with `changes`.

    Raises: ShardingArgumentError for a change of something that is no field.
    """
    unknown = changes.keys() - fields.keys()
    if unknown:
        raise ShardingArgumentError(
            f"{caller} takes no argument {min(unknown)!r}.", do=f"It takes {', '.join(fields)}."
        )
    return fields | changes


def indivisible_error(got: str, shape: Shape, dim: int, count: int, over: str) -> IndivisibleError:
    """The error for dimension `dim` of `shape`, which isn't divisible into `count` parts over the mesh axes `over`."""
    parts = f"{count} parts over {over}" if over else f"{count} parts"
    if is_static((shape[dim],)):
        remedy = f"Pad it to {-(-shape[dim] // count) * count}, or shard another dimension."
    else:
        remedy = f"State it as a multiple, such as `{count}*n`, or shard another dimension."
    return IndivisibleError(
        f"dimension {dim} of size {shape[dim]} can't be split evenly into {parts}.",
        got=got,
        do=remedy,
    )


class LayoutAssertionError(ShardingError, AssertionError):
    """A value doesn't have the asserted sharding."""


class ShardingTypeError(PellucidError, TypeError):
    """The sharding of a result can't be derived unambiguously from explicitly sharded operands."""
