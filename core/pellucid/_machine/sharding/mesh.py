"""Mesh and AbstractMesh: devices (or only their number) in an array with named axes."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, Self, TypeAlias

import numpy as np

from pellucid._machine.base import Ints, Shape, strict_zip
from pellucid._machine.base.narrowing import is_iterable
from pellucid._machine.xla import Device, DeviceList

from . import mesh_context
from .errors import (
    AbstractPlacementError,
    MeshError,
    ShardingArgumentError,
    ShardingError,
    updated_fields,
)
from .interning import Interned, InternTable, set_attributes
from .partition_spec import AxisName, AxisNames


class AxisType(enum.Enum):
    """Who decides the sharding of values over a mesh axis.

    >>> for axis_type in (AxisType.Explicit, AxisType.Auto):
    ...     mesh = pl.make_mesh((2,), ("i",), axis_type)
    ...     print(pl.typeof(pl.device_put(np.ones(4), pl.NamedSharding(mesh, pl.P("i")))))
    float32[4@i]
    float32[4]
    """

    Auto = enum.auto()
    """The compiler decides."""
    Explicit = enum.auto()
    """Types decide: each value's type has its sharding."""
    Manual = enum.auto()
    """The user's code decides, which runs once for each position along the axis (`shard_map`)."""

    def __repr__(self) -> str:
        return self.name


@dataclasses.dataclass(frozen=True, slots=True)
class AbstractDevice:
    """The kind of devices that a mesh is made of.

    >>> AbstractDevice("NVIDIA H100", None, "gpu")
    AbstractDevice(device_kind=NVIDIA H100, num_cores=None, platform=gpu)
    """

    device_kind: str
    num_cores: int | None
    platform: str

    def __repr__(self) -> str:
        return (
            f"AbstractDevice(device_kind={self.device_kind}, num_cores={self.num_cores}, "
            f"platform={self.platform})"
        )


def _axes_of_type(axis_type: AxisType) -> functools.cached_property[AxisNames]:
    """A property with the names of a mesh's axes of one type."""
    return functools.cached_property(
        lambda mesh: tuple(n for n, t in mesh.axis_type_by_name.items() if t is axis_type)
    )


def _all_axes_are(axis_type: AxisType) -> functools.cached_property[bool]:
    """A property: whether a mesh has axes and all of them have type `axis_type`."""
    return functools.cached_property(
        lambda mesh: not mesh.empty and all(t is axis_type for t in mesh.axis_types)
    )


def _refuse_attribute(attribute: str) -> Any:
    """A property that raises AbstractPlacementError, for attributes that an AbstractMesh lacks."""

    def refuse(mesh: AbstractMesh) -> NoReturn:
        raise AbstractPlacementError(
            f"an AbstractMesh has no {attribute}: it stands for any mesh of its shape.",
            got=repr(mesh),
            do=f"Ask the Mesh of devices for `{attribute}`.",
        )

    return property(refuse)


class _NamedAxes(Interned):
    """Named, sized and typed axes: the base of meshes and abstract meshes.

    Meshes are interned: equal meshes are one object, so they compare and hash by identity.
    """

    axis_names: AxisNames
    """Names of the axes, major first."""
    axis_sizes: Shape
    """Number of devices along each axis."""
    axis_types: tuple[AxisType, ...]
    """Type of each axis: who decides shardings over it."""
    size: int
    """Number of devices."""

    @property
    def empty(self) -> bool:
        """Whether there are no devices."""
        return self.size == 0

    @functools.cached_property
    def shape(self) -> OrderedDict[AxisName, int]:
        """Sizes of the axes by name."""
        return OrderedDict(self.shape_tuple)

    @functools.cached_property
    def shape_tuple(self) -> tuple[tuple[AxisName, int], ...]:
        """(name, size) of each axis."""
        return tuple(strict_zip(self.axis_names, self.axis_sizes))

    @functools.cached_property
    def axis_type_by_name(self) -> dict[AxisName, AxisType]:
        """Types of the axes by name."""
        return dict(strict_zip(self.axis_names, self.axis_types))

    def parts_of(self, axes: Iterable[AxisName]) -> int:
        """Number of parts into which `axes` together divide a dimension."""
        return math.prod(self.shape[axis] for axis in axes)

    auto_axes = _axes_of_type(AxisType.Auto)
    """Names of the axes of type Auto."""
    explicit_axes = _axes_of_type(AxisType.Explicit)
    """Names of the axes of type Explicit."""
    manual_axes = _axes_of_type(AxisType.Manual)
    """Names of the axes of type Manual."""
    are_all_axes_auto = _all_axes_are(AxisType.Auto)
    """Whether all axes are of type Auto."""
    are_all_axes_explicit = _all_axes_are(AxisType.Explicit)
    """Whether all axes are of type Explicit."""
    are_all_axes_manual = _all_axes_are(AxisType.Manual)
    """Whether all axes are of type Manual."""

    def _axes_text(self) -> str:
        axes = ", ".join(f"{name!r}: {size}" for name, size in self.shape_tuple)
        return f"{axes or '()'}, axis_types={self.axis_types}"


class AbstractMesh(_NamedAxes):
    """A mesh without devices: only names, sizes and types of axes.

    Sufficient for types, tracing and lowering. A program traced under it works on every mesh of that shape.

    Raises: MeshError where names, sizes and types do not fit together.

    >>> AbstractMesh((4, 2), ("x", "y"))
    AbstractMesh('x': 4, 'y': 2, axis_types=(Auto, Auto))
    """

    abstract_device: AbstractDevice | None
    """The kind of device, where it is known."""

    def __new__(  # noqa: PYI034 - one object for one value, so no subclasses
        cls,
        axis_sizes: Ints,
        axis_names: str | Sequence[AxisName],
        axis_types: AxisType | Sequence[AxisType] | None = None,
        *,
        abstract_device: AbstractDevice | None = None,
    ) -> AbstractMesh:
        names, types = _canonical_axes("AbstractMesh", axis_names, axis_types)
        sizes = tuple(int(size) for size in axis_sizes)
        key = (sizes, names, types, abstract_device)
        mesh = _abstract_meshes.get(key)
        if mesh is not None:
            return mesh
        if len(sizes) != len(names):
            raise MeshError(
                "AbstractMesh: each axis needs one size and one name.",
                got=f"{len(sizes)} sizes {sizes}, {len(names)} names {names}",
            )
        if any(size < 1 for size in sizes):
            raise MeshError("AbstractMesh: sizes of axes must be at least 1.", got=f"sizes {sizes}")
        mesh = set_attributes(
            object.__new__(cls),
            axis_sizes=sizes,
            axis_names=names,
            axis_types=types,
            abstract_device=abstract_device,
            size=math.prod(sizes) if sizes else 0,
        )
        return _abstract_meshes.add(key, mesh)

    def __repr__(self) -> str:
        device = self.abstract_device
        kind = "" if device is None else ", " + repr(device)[len("AbstractDevice(") : -1]
        return f"AbstractMesh({self._axes_text()}{kind})"

    def __reduce__(self) -> Any:
        make = functools.partial(AbstractMesh, abstract_device=self.abstract_device)
        return make, (self.axis_sizes, self.axis_names, self.axis_types)

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """This mesh."""
        return self

    def update(
        self,
        axis_sizes: Ints | None = None,
        axis_names: Sequence[AxisName] | None = None,
        axis_types: Sequence[AxisType] | None = None,
        **changes: AbstractDevice | None,
    ) -> AbstractMesh:
        """This mesh with some parts replaced; `abstract_device` may be among `changes`."""
        fields = {
            "axis_sizes": self.axis_sizes if axis_sizes is None else axis_sizes,
            "axis_names": self.axis_names if axis_names is None else axis_names,
            "axis_types": self.axis_types if axis_types is None else axis_types,
            "abstract_device": self.abstract_device,
        }
        return AbstractMesh(**updated_fields("AbstractMesh.update", fields, changes))

    def update_axis_types(self, name_to_type: Mapping[AxisName, AxisType]) -> AbstractMesh:
        """This mesh with other types for the axes named.

        >>> AbstractMesh((4, 2), ("x", "y")).update_axis_types({"x": AxisType.Manual})
        AbstractMesh('x': 4, 'y': 2, axis_types=(Manual, Auto))
        """
        for name in name_to_type:
            if name not in self.axis_type_by_name:
                raise axis_not_in_mesh_error("AbstractMesh.update_axis_types", name, self)
        return self.update(
            axis_types=[name_to_type.get(n, t) for n, t in self.axis_type_by_name.items()]
        )

    devices = _refuse_attribute("devices")
    device_ids = _refuse_attribute("device_ids")
    local_devices = _refuse_attribute("local_devices")
    local_mesh = _refuse_attribute("local_mesh")
    is_multi_process = _refuse_attribute("is_multi_process")

    @property
    def _internal_device_list(self) -> DeviceList | None:
        return None

    def __enter__(self) -> NoReturn:
        raise MeshError(
            "an AbstractMesh can't be entered itself.", do="Write `with use_abstract_mesh(mesh):`."
        )

    __exit__ = __enter__


class Mesh(_NamedAxes, contextlib.ContextDecorator):
    """Devices in an array with named axes.

    `devices` is an array (or nested lists) of devices with one dimension per name; `axis_types` tells who decides
    shardings over each axis (default: the compiler, `AxisType.Auto`). As a context manager, a mesh resolves bare
    PartitionSpecs; new code should use `set_mesh`, which does more.

    Raises: MeshError where devices, names and types do not fit together.

    >>> dict(Mesh(np.array(pl.devices()[:1]), ("x",)).shape)
    {'x': 1}
    """

    devices: np.ndarray
    """The devices, one dimension for each axis; read-only."""

    def __new__(  # noqa: PYI034 - one object for one value, so no subclasses
        cls,
        devices: np.ndarray | Sequence[Any] | Device,
        axis_names: str | Sequence[AxisName],
        axis_types: AxisType | Sequence[AxisType] | None = None,
    ) -> Mesh:
        array = np.array(devices, dtype=object)
        names, types = _canonical_axes("Mesh", axis_names, axis_types)
        if array.ndim != len(names):
            raise MeshError(
                "Mesh: `devices` needs one dimension for each axis name.",
                got=f"devices of shape {array.shape}, {len(names)} names {names}",
                do="Reshape: np.reshape(devices, sizes), with one size for each name.",
            )
        flat = tuple(array.flat)
        if not flat or flat == (None,):
            return empty_mesh
        key = (flat, array.shape, names, types)
        mesh = _meshes.get(key)
        if mesh is not None:
            return mesh
        for item in flat:
            if not hasattr(item, "id"):
                raise ShardingArgumentError(
                    "Mesh: `devices` must hold devices.",
                    got=f"{item!r} of type {type(item).__name__}",
                    do="Take them from `devices()`, or write `make_mesh(sizes, names)`.",
                )
        if len(set(flat)) != len(flat):
            twice = next(device for i, device in enumerate(flat) if device in flat[:i])
            raise MeshError(
                "Mesh: a device may have only one place in a mesh.",
                got=f"{twice!r} {flat.count(twice)} times among {len(flat)} devices",
            )
        return _meshes.add(key, _new_mesh(array, names, types))

    def __repr__(self) -> str:
        if self.empty:
            return "Mesh(axis_sizes=(), axis_names=())"
        return (
            f"Mesh(axis_sizes={self.axis_sizes}, axis_names={self.axis_names}, "
            f"axis_types={self.axis_types})"
        )

    def __str__(self) -> str:
        return "Mesh()" if self.empty else f"Mesh({self._axes_text()})"

    def __reduce__(self) -> Any:
        return Mesh, (self.devices, self.axis_names, self.axis_types)

    def update(
        self,
        devices: np.ndarray | Sequence[Any] | None = None,
        axis_names: str | Sequence[AxisName] | None = None,
        axis_types: AxisType | Sequence[AxisType] | None = None,
    ) -> Mesh:
        """This mesh with some parts replaced."""
        return Mesh(
            self.devices if devices is None else devices,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )

    @property
    def is_scalar(self) -> bool:
        """Whether it is one device without axes."""
        return self.devices.ndim == 0 and not self.empty

    @functools.cached_property
    def device_ids(self) -> np.ndarray:
        """Numbers of the devices, in the shape of the mesh."""
        ids = [device.id for device in self.devices.flat] if not self.empty else []
        return np.array(ids, dtype=np.int64).reshape(self.devices.shape if ids else (0,))

    @functools.cached_property
    def _internal_device_list(self) -> DeviceList | None:
        """The devices in order, as a list of C++; None for the empty mesh."""
        return None if self.empty else DeviceList(tuple(self.devices.flat))

    @functools.cached_property
    def local_devices(self) -> list[Device]:
        """The devices that belong to this process, in order."""
        devices = () if self.empty else self.devices.flat
        return [d for d in devices if d.process_index == d.client.process_index()]

    @functools.cached_property
    def is_multi_process(self) -> bool:
        """Whether some devices belong to other processes."""
        return len(self.local_devices) != self.size

    @functools.cached_property
    def local_mesh(self) -> Mesh:
        """The part of this mesh whose devices belong to this process.

        Raises: MeshError if those devices do not fill a box of the mesh.
        """
        if not self.is_multi_process:
            return self
        local = set(self.local_devices)
        is_local = np.vectorize(local.__contains__, otypes=[bool])(self.devices)
        positions = np.nonzero(is_local)
        box = self.devices[np.ix_(*map(np.unique, positions))]
        if box.size != len(local):
            raise MeshError(
                "Mesh.local_mesh: this process's devices do not fill a box of the mesh.",
                got=f"{len(local)} local devices in a box of shape {box.shape} of {self}",
                do="Order the devices so that each process has a box; make_mesh does.",
            )
        return Mesh(box, self.axis_names, self.axis_types)

    @functools.cached_property
    def abstract_mesh(self) -> AbstractMesh:
        """This mesh without its devices."""
        if self.empty:
            return empty_abstract_mesh
        device = self.devices.flat[0]
        kind = AbstractDevice(
            device.device_kind, getattr(device, "num_cores", None), device.platform
        )
        return AbstractMesh(self.axis_sizes, self.axis_names, self.axis_types, abstract_device=kind)

    def __enter__(self) -> Self:
        mesh_context.enter(self)
        return self

    def __exit__(self, *exception: object) -> None:
        mesh_context.leave()


AnyMesh: TypeAlias = Mesh | AbstractMesh
"""A mesh with or without devices."""

_abstract_meshes: InternTable[AbstractMesh] = InternTable()
_meshes: InternTable[Mesh] = InternTable()


def _new_mesh(devices: np.ndarray, names: AxisNames, types: tuple[AxisType, ...]) -> Mesh:
    devices.flags.writeable = False
    return set_attributes(
        object.__new__(Mesh),
        devices=devices,
        axis_names=names,
        axis_sizes=devices.shape,
        axis_types=types,
        size=0 if devices.ndim == 0 and devices.item() is None else devices.size,
    )


def _canonical_axes(caller: str, names: Any, types: Any) -> tuple[AxisNames, tuple[AxisType, ...]]:
    """Names and types of axes as tuples; types default to Auto."""
    if isinstance(names, str):
        names = (names,)
    if not is_iterable(names):
        raise ShardingArgumentError(
            f"{caller}: `axis_names` must be a sequence of names.",
            got=f"axis_names: {type(names).__name__}",
        )
    names = tuple(names)
    if None in names:
        raise MeshError(f"{caller}: None can't name an axis.", got=f"axis_names={names}")
    for i, name in enumerate(names):
        if name in names[:i]:
            raise MeshError(
                f"{caller}: two axes are called {name!r}.",
                got=f"axis_names={names}",
                do="Give each axis its own name.",
            )
    if types is None:
        types = (AxisType.Auto,) * len(names)
    types = (types,) if isinstance(types, AxisType) else tuple(types)
    wrong = [t for t in types if not isinstance(t, AxisType)]
    if wrong:
        raise ShardingArgumentError(
            f"{caller}: `axis_types` must hold members of AxisType.",
            got=f"{wrong[0]!r} of type {type(wrong[0]).__name__}",
            do="Use AxisType.Auto, AxisType.Explicit or AxisType.Manual.",
        )
    if len(types) != len(names):
        raise MeshError(
            f"{caller}: each axis must have one type.",
            got=f"{len(names)} names {names}, {len(types)} types {types}",
        )
    return names, types


def axis_not_in_mesh_error(
    what: str, axis: AxisName, mesh: AnyMesh, error: type[ShardingError] = MeshError
) -> ShardingError:
    """The error for an axis, named in `what`, that `mesh` doesn't have."""
    axes = ", ".join(f"{name!r} ({size})" for name, size in mesh.shape_tuple) or "none"
    return error(
        f"{what} names axis {axis!r}, which the mesh does not have.",
        got=f"axes of the mesh: {axes}",
        do=f"Name one of these, or add {axis!r} to the mesh.",
    )


empty_mesh = _new_mesh(np.array(None, dtype=object), (), ())
"""The mesh without devices, which is current if no mesh is set."""
empty_abstract_mesh = AbstractMesh((), ())
"""The abstract mesh without devices."""
