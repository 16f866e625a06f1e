"""Shardings in Shardy's notation: value layouts, declared meshes, axes and parts of axes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.sharding import PartitionSpec
from pellucid._machine.sharding.shardy import name_in
from pellucid._machine.xla.mlir import sdy

Sizes = Mapping[str, int]
"""Maps each axis of a mesh to its size."""


class DeclaredMesh(NamedTuple):
    """A mesh that a module declares.

    >>> DeclaredMesh({"data": 2, "model": 4}).size
    8
    """

    sizes: Sizes
    device_ids: tuple[int, ...] = ()
    """The program's device at each mesh position, in row-major order; empty if they are 0, 1, 2, …"""

    @property
    def size(self) -> int:
        """Number of devices."""
        return math.prod(self.sizes.values())

    def is_same(self, other: DeclaredMesh) -> bool:
        """Whether another mesh has the same axes in the same order, and the same devices."""
        axes, others = (tuple(each.sizes.items()) for each in (self, other))
        return axes == others and self.device_ids == other.device_ids

    def places(self, devices: np.ndarray) -> np.ndarray:
        """The mesh positions of the given devices."""
        return np.argsort(self.device_ids)[devices] if self.device_ids else devices


class ValueLayout(NamedTuple):
    """A sharding: for each dimension its mesh axes, major first; `x:(2)4` is a part of the axis `x`."""

    dims: tuple[tuple[str, ...], ...]
    unreduced: tuple[str, ...] = ()
    mesh: str = ""
    """Name of the mesh in the module; empty for a fully replicated value."""

    @property
    def axes(self) -> tuple[str, ...]:
        """All axes that occur, in the order in which the type prints them."""
        return (*[axis for dim in self.dims for axis in dim], *self.unreduced)

    def parts(self, meshes: Mapping[str, DeclaredMesh]) -> int:
        """Number of parts into which the value is partitioned."""
        return math.prod(
            size_of(axis, meshes[self.mesh].sizes) for dim in self.dims for axis in dim
        )

    @property
    def text(self) -> str:
        """The sharding in the user's notation.

        >>> ValueLayout((("data",), (), ("x", "y"))).text
        "P('data', None, ('x', 'y'))"
        """
        entries = [dim[0] if len(dim) == 1 else dim or None for dim in self.dims]
        while entries and entries[-1] is None:
            entries.pop()
        return str(PartitionSpec(*entries, unreduced=frozenset(self.unreduced)))


# Axes -----------------------------------------------------------------------------------------------

AXIS = r'"[^"]*"(?::\(\d+\)\d+)?'
"""A pattern for an axis, or a part of one, in the text of an attribute."""
_SUB_AXIS = re.compile(r"(.*):\((\d+)\)(\d+)", re.DOTALL)


def axis_part(axis: str, sizes: Sizes) -> tuple[int, int]:
    """(size of the parts before this one, its own size) for an axis or a part of one.

    >>> axis_part("x", {"x": 8}), axis_part("x:(2)4", {"x": 8})
    ((1, 8), (2, 4))
    """
    part = None if axis in sizes else _SUB_AXIS.fullmatch(axis)
    return (1, sizes[axis]) if part is None else (int(part.group(2)), int(part.group(3)))


def size_of(axis: str, sizes: Sizes) -> int:
    """Number of positions of an axis or a part of one."""
    return axis_part(axis, sizes)[1]


def whole_axis(axis: str, sizes: Sizes) -> str:
    """The axis that `axis` is or is a part of."""
    part = None if axis in sizes else _SUB_AXIS.fullmatch(axis)
    return axis if part is None else part.group(1)


def axes_in(text: str) -> list[str]:
    """The axes, and parts of axes, in the text of an attribute.

    >>> axes_in('[{"x"}, {"y":(2)4}]')
    ['x', 'y:(2)4']
    """
    return [strip_quotes(axis) for axis in re.findall(AXIS, text)]


def strip_quotes(axis: str) -> str:
    """An axis, or a part of one, without the quotes around its name."""
    name, _, part = axis.rpartition('"')
    return name_in(name[1:]) + part


# Attributes -----------------------------------------------------------------------------------------


def meshes_in(module: Any) -> dict[str, DeclaredMesh]:
    """The meshes that a module declares, by name."""
    meshes: dict[str, DeclaredMesh] = {}
    for op in module.body.operations:
        if op.operation.name == "sdy.mesh":
            mesh = sdy.MeshAttr(op.operation.attributes["mesh"])
            sizes = {name_in(axis.name): axis.size for axis in map(sdy.MeshAxisAttr, mesh.axes)}
            name = op.operation.attributes["sym_name"].value
            meshes[name] = DeclaredMesh(sizes, tuple(mesh.device_ids))
    return meshes


def layout_of(attribute: Any) -> ValueLayout:
    """The layout that a sharding attribute specifies."""
    sharding = sdy.TensorShardingAttr(attribute)
    dims = tuple(
        tuple(_axis_text(axis) for axis in sdy.DimensionShardingAttr(dim).axes)
        for dim in sharding.dimension_shardings
    )
    unreduced = tuple(map(_axis_text, sharding.unreduced_axes))
    return ValueLayout(dims, unreduced, mesh_of(attribute) if any(dims) or unreduced else "")


def mesh_of(attribute: Any) -> str:
    """The name of the mesh in a sharding attribute."""
    return getattr(sdy.TensorShardingAttr(attribute).mesh_or_ref, "value", "")


def _axis_text(attribute: Any) -> str:
    axis = sdy.AxisRefAttr(attribute)
    part = axis.sub_axis_info
    if part is None:
        return name_in(axis.name)
    part = sdy.SubAxisInfoAttr(part)
    return f"{name_in(axis.name)}:({part.pre_size}){part.size}"


def per_value(attribute: Any) -> list[Any]:
    """The shardings in an attribute that contains one per value."""
    return list(sdy.TensorShardingPerValueAttr(attribute).shardings)
