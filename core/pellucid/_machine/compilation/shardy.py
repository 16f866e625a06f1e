"""Conversion of shardings to Shardy attributes for the compiler, and back from an executable's shardings."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import DeviceError, Ints, strict_zip
from pellucid._machine.ir import Avals, ShapedArray, abstract_token, element_shape
from pellucid._machine.sharding import Mesh, NamedSharding, PartitionSpec, Sharding
from pellucid._machine.sharding.mesh import AnyMesh
from pellucid._machine.sharding.named_sharding import sharding_of_tiles
from pellucid._machine.sharding.placement import GSPMDSharding
from pellucid._machine.sharding.shardy import (
    MeshDescription,
    ShardingDescription,
    describe,
    describe_mesh,
)
from pellucid._machine.xla import Device, DeviceList, HloSharding, OpSharding
from pellucid._machine.xla.mlir import ir


class ShardyAttributes:
    """Writes the shardings of a module as Shardy attributes, and declares the meshes that they use."""

    def __init__(self, devices: DeviceList | None, size: int, mesh: AnyMesh | None = None) -> None:
        self.mesh = mesh
        """The mesh over which the program is sharded, if there is one."""
        self.size = size
        """Number of devices on which the program runs."""
        self._devices = devices
        """The program's devices in order; None if unknown."""
        self._symbols: dict[MeshDescription, str] = {}
        self._attributes: dict[Any, ir.Attribute] = {}

    def declare_meshes(self, ctx: Any) -> None:
        """Start with the module of `ctx`. A mesh is declared when an attribute first uses it."""
        self._ctx = ctx
        self._symbols.clear()
        self._attributes.clear()

    def positions(self, mesh: AnyMesh) -> np.ndarray:
        """For each device of `mesh`, in row-major order, its position among the program's devices."""
        ids = describe_mesh(mesh, self._devices).device_ids
        return np.arange(mesh.size) if ids is None else np.array(ids)

    def attribute(self, sharding: Sharding, aval: ShapedArray, **options: Any) -> ir.Attribute:
        """`#sdy.sharding<@mesh, [{"x"}, {}]>` for a value of type `aval`; options as in `describe`.

        Raises: ShardingError if some of its devices aren't among the program's.
        """
        key = (sharding, aval.ndim, element_shape(aval), *options)
        attribute = self._attributes.get(key)
        if attribute is None:
            description = describe(sharding, aval.ndim, self._devices, **options)
            attribute = self._attributes[key] = self._attribute(aval, description)
        return attribute

    def per_value(self, shardings: Sequence[Any], avals: Avals, **options: Any) -> ir.Attribute:
        """`#sdy.sharding_per_value<[…]>` for values of types `avals`; options as in `describe`."""
        texts = [
            self._text(aval, describe(sharding, aval.ndim, self._devices, **options))
            for sharding, aval in strict_zip(shardings, avals)
        ]
        return self._ctx.attribute(f"#sdy.sharding_per_value<[{', '.join(texts)}]>")

    def everywhere(self, aval: ShapedArray) -> ir.Attribute:
        """`#sdy.sharding<…>` for a replicated value of type `aval`."""
        mesh = MeshDescription((("devices", self.size),))
        return self._attribute(aval, ShardingDescription(mesh, ["{}"] * aval.ndim))

    def whole_along(self, aval: ShapedArray, whole: Ints) -> ir.Attribute:
        """`#sdy.sharding<…>` for a value that isn't partitioned along the dimensions `whole`; the others are open.

        If the program isn't sharded over a single mesh, the value is replicated.
        """
        if self.mesh is None:
            return self.everywhere(aval)
        dims = ["{}" if i in whole else "{?}" for i in range(aval.ndim)]
        shown, addends = aval.shown_sharding, ""
        if shown is not None:
            spec = PartitionSpec(unreduced=shown.spec.unreduced)
            addends = describe(shown.with_spec(spec), 0).axis_sets
        mesh = describe_mesh(self.mesh, self._devices)
        return self._attribute(aval, ShardingDescription(mesh, dims, addends))

    def uneven_dims(self, aval: ShapedArray, along: Callable[[Iterable[bool]], bool]) -> list[int]:
        """Dimensions of a value of type `aval` that `all` or `any` axes of the program's mesh divide unevenly."""
        counts = [] if self.mesh is None else [n for n in self.mesh.axis_sizes if n > 1]
        return [
            dim
            for dim, size in enumerate(aval.shape)
            if counts and size > 1 and along(size % n != 0 for n in counts)
        ]

    def dims_in_few_rows(self, aval: ShapedArray, dims: Iterable[int]) -> list[int]:
        """Those of `dims` whose parts, one for each device of the program's mesh, can't be cut once more into as many."""
        n = 1 if self.mesh is None else math.prod(self.mesh.axis_sizes)
        return [dim for dim in dims if aval.shape[dim] % n**2]

    def on_one_device(self, n_results: int, device: Device | None) -> ir.Attribute:
        """The attribute of an operation that one device performs for all, such as a host call; by default the first
        device.

        Raises: DeviceError if the program doesn't run on `device`.
        """
        devices = () if self._devices is None else tuple(self._devices)
        if device is not None and devices and device not in devices:
            raise DeviceError(
                "a callback can't run on a device that its program doesn't run on.",
                got=f"sharding: device {device.id}; the program runs on {', '.join(str(d.id) for d in devices)}",
                do="Leave `sharding` out, or choose one of these devices.",
            )
        position = devices.index(device) if device in devices else 0
        symbol = self._symbol(MeshDescription((), (position,)))
        texts = ", ".join([f"<{symbol}, []>"] * n_results)
        return self._ctx.attribute(f"#sdy.sharding_per_value<[{texts}]>")

    def _attribute(self, aval: ShapedArray, description: ShardingDescription) -> ir.Attribute:
        return self._ctx.attribute(f"#sdy.sharding{self._text(aval, description)}")

    def _text(self, aval: ShapedArray, description: ShardingDescription) -> str:
        words = ["{}"] * len(element_shape(aval))
        dims = ", ".join([*description.dims, *words])
        return f"<{self._symbol(description.mesh)}, [{dims}]{description.axis_sets}>"

    def _symbol(self, mesh: MeshDescription) -> str:
        symbol = self._symbols.get(mesh)
        if symbol is None:
            ctx = self._ctx
            symbol = self._symbols[mesh] = ctx.unique_name("mesh")
            start = ir.InsertionPoint.at_block_begin(ctx.module.body)
            with start, ir.Location.unknown(ctx.context):
                ir.Operation.create(
                    "sdy.mesh",
                    attributes={"sym_name": ctx.string(symbol), "mesh": ctx.attribute(_mesh_text(mesh))},
                )  # fmt: skip
        return f"@{symbol}"


def _mesh_text(mesh: MeshDescription) -> str:
    axes = ", ".join(f'"{name}"={size}' for name, size in mesh.axes)
    ids = "" if mesh.device_ids is None else f", device_ids={list(mesh.device_ids)}"
    return f"#sdy.mesh<[{axes}]{ids}>"


# Back -----------------------------------------------------------------------------------------------


def chosen_shardings(
    messages: Sequence[OpSharding],
    memory_kinds: Sequence[str | None],
    avals: Avals,
    devices: DeviceList,
    mesh: Mesh | None,
) -> list[Any]:
    """The shardings that the compiler chose for values of types `avals`.

    `messages` are HLO shardings of an executable. They are converted to axes of `mesh` if possible, else to tile
    assignments.
    """
    return [
        _sharding_of_tiles(
            HloSharding.from_proto(message), kind, aval, devices, _typed_mesh(mesh, aval)
        )
        for message, kind, aval in strict_zip(messages, memory_kinds, avals)
    ]


def _typed_mesh(mesh: Mesh | None, aval: ShapedArray) -> Mesh | None:
    """`mesh` with the axis types in the type `aval`."""
    shown = getattr(aval, "shown_sharding", None)
    if shown is None or mesh is None or shown.mesh.shape_tuple != mesh.shape_tuple:
        return mesh
    return mesh.update(axis_types=shown.mesh.axis_types)


def sharding_inside(tiles: HloSharding, aval: ShapedArray, replicated: Any) -> Any:
    """The sharding that the partitioner chose for a value of type `aval` within a program.

    `replicated` is the program's sharding for replicated values.
    """
    devices: Any = replicated._internal_device_list
    mesh: Any = replicated.mesh if isinstance(replicated, NamedSharding) else None
    return _sharding_of_tiles(tiles, None, aval, devices, mesh)


def _sharding_of_tiles(
    tiles: HloSharding, kind: str | None, aval: ShapedArray, devices: DeviceList, mesh: Mesh | None
):
    if mesh is None or aval is abstract_token:
        return GSPMDSharding(devices, tiles, kind)
    # Dimensions of extended dtypes are followed by those of their words, which are never sharded.
    sharding = sharding_of_tiles(tiles, mesh, aval.ndim + len(element_shape(aval)), kind)
    sharding = _without_trailing(sharding)
    if isinstance(sharding, NamedSharding) and mesh.explicit_axes:
        return sharding.with_spec(sharding.spec.padded(aval.ndim))  # in the form that types have
    return sharding


def _without_trailing(sharding: Sharding) -> Sharding:
    """`sharding` without trailing Nones in its spec."""
    if type(sharding) is not NamedSharding:
        return sharding
    entries = list(sharding.spec.partitions)
    while entries and entries[-1] is None:
        entries.pop()
    return sharding.with_spec(sharding.spec.update(partitions=entries))


def as_arguments(
    chosen: Sequence[Any], avals: Avals, argument_shardings: Sequence[Any], in_avals: Avals
) -> list[Any]:
    """The shardings `chosen` for results, each in the notation of the first argument of its rank with an equal
    sharding.

    So the results of a training step have shardings in the notation of its arguments. Explicit axes are in types
    already.
    """
    ranks = [getattr(aval, "ndim", None) for aval in in_avals]
    written = dict.fromkeys(strict_zip(argument_shardings, ranks))

    @functools.cache
    def canonical_sharding(sharding: Any, ndim: int) -> Any:
        if not isinstance(sharding, NamedSharding) or sharding.mesh.explicit_axes:
            return sharding
        for other, rank in written:
            is_alike = rank == ndim and getattr(other, "mesh", None) == sharding.mesh
            if is_alike and other.is_equivalent_to(sharding, ndim):
                return other
        return sharding

    return [
        canonical_sharding(sharding, aval.ndim) if hasattr(aval, "ndim") else sharding
        for sharding, aval in strict_zip(chosen, avals)
    ]
