"""Errors about meshes, PartitionSpecs, placements, and explicitly sharded types."""

from __future__ import annotations

from typing import Any

from pellucid._machine.base import PellucidError, Shape, is_static


class ShardingError(PellucidError, ValueError):
    """A description of placement that can't be right."""


class MeshError(ShardingError):
    """Devices, names, sizes and types of mesh axes that do not fit together."""


class PartitionSpecError(ShardingError):
    """A PartitionSpec that does not fit its mesh or the value it is applied to."""


class DuplicateAxisError(PartitionSpecError):
    """A PartitionSpec that uses one mesh axis twice."""


class IndivisibleError(ShardingError):
    """A dimension that the mesh axes assigned to it do not divide evenly."""


class MemoryKindError(ShardingError):
    """A kind of memory that the devices do not have."""


class LayoutError(ShardingError):
    """A layout that does not fit the value or the devices."""


class ShardingArgumentError(ShardingError, TypeError):
    """An argument that is no mesh, no PartitionSpec, no device or no sharding."""


class MissingMeshError(ShardingError, RuntimeError):
    """A PartitionSpec without a mesh where no mesh is current."""


class AbstractPlacementError(ShardingError):
    """A question about devices asked of a sharding over an AbstractMesh, which has none."""


def updated(caller: str, fields: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`fields` with `changes`.

    Raises: ShardingArgumentError for a change of something that is no field.
    """
    unknown = changes.keys() - fields.keys()
    if unknown:
        raise ShardingArgumentError(
            f"{caller} takes no argument {min(unknown)!r}.", do=f"It takes {', '.join(fields)}."
        )
    return fields | changes


def indivisible_error(got: str, shape: Shape, dim: int, count: int, over: str) -> IndivisibleError:
    """The error for dimension `dim` of `shape`, which `count` parts over the mesh axes `over` do not divide."""
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
    """A value that is not laid out as the program says it is."""


class ShardingTypeError(PellucidError, TypeError):
    """Explicitly sharded operands whose result has no unambiguous sharding."""
