"""Placements under the names of `jax.interpreters.pxla`."""

from __future__ import annotations

from typing import Any

from pellucid.sharding import mesh_context
from pellucid.sharding.mesh import Mesh, empty_mesh
from pellucid.xla.shardings import HloSharding, OpSharding

Index = tuple[slice, ...]
"""The part of an array that a device holds."""
MeshAxisName = Any


class _Resources:
    """The mesh that a `with` block or `set_mesh` made current."""

    @property
    def physical_mesh(self) -> Mesh:
        """The current mesh of devices, without axes where there is none."""
        return mesh_context.concrete.value or empty_mesh


class _ThreadResources:
    """Resources of the calling thread."""

    env = _Resources()


thread_resources = _ThreadResources()


def is_hlo_sharding_replicated(hc: HloSharding) -> bool:
    """Whether all devices of a compiler's sharding hold the whole value.

    >>> from pellucid.sharding import PartitionSpec as P
    >>> sharding = pl.NamedSharding(pl.make_mesh((2,), ("a",)), P("a"))
    >>> is_hlo_sharding_replicated(sharding._to_xla_hlo_sharding(1))
    False
    """
    return hc.is_replicated() or (hc.is_tiled() and _has_one_tile(hc))


def _has_one_tile(hc: HloSharding) -> bool:
    n_groups = 1 if hc.replicate_on_last_tile_dim() else len(hc.subgroup_types())
    dims = hc.tile_assignment_dimensions()
    return all(n == 1 for n in dims[: len(dims) - n_groups])


def are_hlo_shardings_equal(hc1: Any, hc2: Any) -> bool:
    """Whether two shardings of the compiler place values alike.

    >>> from pellucid.xla.shardings import HloSharding
    >>> are_hlo_shardings_equal(HloSharding.replicate(), HloSharding.replicate())
    True
    """
    first, second = (
        HloSharding.from_proto(x) if isinstance(x, OpSharding) else x for x in (hc1, hc2)
    )
    if is_hlo_sharding_replicated(first) and is_hlo_sharding_replicated(second):
        return True
    return first == second


__all__ = [
    "Index", "MeshAxisName", "are_hlo_shardings_equal", "is_hlo_sharding_replicated", "thread_resources",
]  # fmt: skip
