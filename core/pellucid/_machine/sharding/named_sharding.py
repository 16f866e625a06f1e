"""NamedSharding: placement by a mesh and a PartitionSpec."""

# C++ and the sharding classes share attributes with private names.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import Any, TypeGuard

from pellucid._machine.base import Shape
from pellucid._machine.base.narrowing import is_list_or_tuple
from pellucid._machine.xla import DeviceList, HloSharding

from .errors import PartitionSpecError, ShardingArgumentError, updated_fields
from .hlo_shardings import hlo_sharding_of_spec, spec_of_hlo_sharding
from .interning import Interned, InternTable, set_attributes
from .mesh import AbstractMesh, AnyMesh, AxisType, Mesh, axis_not_in_mesh_error
from .partition_spec import (
    NO_AXES,
    UNCONSTRAINED,
    AxisSet,
    PartitionSpec,
    axes_text,
    check_axes_are_used_once,
    rank_error,
)
from .placement import WHOLE, GSPMDSharding, checked_memory_kind


class NamedSharding(GSPMDSharding):
    """Sharding of a value by `spec` over the axes of `mesh`, in memory of `memory_kind`.

    With an AbstractMesh everything but the devices is known. Equal shardings are one object, so they compare and hash
    by identity. To C++ it is a tile assignment over the mesh's devices.

    Raises: PartitionSpecError where `spec` does not fit `mesh`; MemoryKindError where the devices have no
    such memory.

    >>> NamedSharding(AbstractMesh((4, 2), ("x", "y")), PartitionSpec("x")).shard_shape((8, 3))
    (2, 3)
    """

    # A slot in place of the base class's property.
    __slots__ = ("mesh", "spec", "memory_kind", "_internal_device_list", "__weakref__")  # pyright: ignore[reportIncompatibleMethodOverride]

    mesh: AnyMesh
    spec: PartitionSpec
    memory_kind: str | None
    _internal_device_list: DeviceList | None

    def __new__(  # noqa: PYI034 - one object for one value, so no subclasses
        cls, mesh: AnyMesh, spec: PartitionSpec, memory_kind: str | None = None
    ) -> NamedSharding:
        key = (mesh, spec, memory_kind)
        try:
            sharding = _shardings.get(key)
        except TypeError:  # unhashable, for example a list instead of a spec
            _check_types(mesh, spec)
            raise
        if sharding is not None:
            return sharding
        _check_types(mesh, spec)
        check_spec(mesh, spec)
        memory_kind = checked_memory_kind(mesh._internal_device_list, memory_kind)
        parts = (mesh, spec, memory_kind)
        sharding = _shardings.get(parts)
        if sharding is None:
            sharding = GSPMDSharding.__new__(NamedSharding)
            devices = mesh._internal_device_list
            if devices is not None:
                # C++ needs the devices here; it requests the tiles through `_to_xla_hlo_sharding`, once the rank is
                # known.
                GSPMDSharding.__init__(sharding, devices, WHOLE, memory_kind)
            set_attributes(
                sharding, mesh=mesh, spec=spec, memory_kind=memory_kind, _internal_device_list=devices
            )  # fmt: skip
            sharding = _shardings.add(parts, sharding)
        # The devices' default memory kind may be given or omitted.
        return _shardings.add(key, sharding)

    def __init__(self, mesh: AnyMesh, spec: PartitionSpec, memory_kind: str | None = None) -> None:
        """Does nothing: `__new__` returns complete objects, some of them existing ones."""

    __eq__ = object.__eq__  # pyright: ignore[reportAssignmentType]
    __hash__ = object.__hash__
    # Classes from C++ allow only one base.
    __setattr__ = Interned.__setattr__
    __copy__ = Interned.__copy__
    __deepcopy__ = Interned.__deepcopy__

    def __repr__(self) -> str:
        kind = "" if self.memory_kind is None else f", memory_kind={self.memory_kind}"
        return f"NamedSharding(mesh={self.mesh}, spec={self.spec}{kind})"

    def __reduce__(self) -> Any:
        return NamedSharding, (self.mesh, self.spec, self.memory_kind)

    def update(self, **changes: Any) -> NamedSharding:
        """This sharding with another `mesh`, `spec` or `memory_kind`."""
        fields = {"mesh": self.mesh, "spec": self.spec, "memory_kind": self.memory_kind}
        return NamedSharding(**updated_fields("NamedSharding.update", fields, changes))

    def with_memory_kind(self, kind: str | None) -> NamedSharding:
        """The same parts on the same devices, in memory of another kind."""
        return NamedSharding(self.mesh, self.spec, kind)

    def with_spec(self, spec: PartitionSpec) -> NamedSharding:
        """Another spec over the same mesh."""
        return NamedSharding(self.mesh, spec, self.memory_kind)

    @property
    def num_devices(self) -> int:
        """Number of devices that hold a part of the value."""
        return self.mesh.size

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds the whole value."""
        sizes, spec = self.mesh.shape, self.spec
        return self.mesh.size == 1 or (
            not spec.unreduced and all(sizes[axis] == 1 for axis in spec.axis_names)
        )

    @property
    def replicated_axes(self) -> AxisSet:
        """Mesh axes that the spec does not mention."""
        spec = self.spec
        return frozenset(self.mesh.axis_names) - spec.axis_names - spec.unreduced - spec.reduced

    @property
    def is_abstract(self) -> bool:
        """Whether the mesh is an AbstractMesh, so that devices are unknown."""
        return self._internal_device_list is None

    def _axes_text(self, dim: int) -> str:
        return axes_text(self.spec.axes_per_dim[dim])

    def check_compatible_aval(self, aval_shape: Shape) -> None:
        """Raise PartitionSpecError if the spec has more entries than `aval_shape`."""
        if len(self.spec) > len(aval_shape):
            raise rank_error(self.spec, len(aval_shape), f"shape {aval_shape}")

    def _to_xla_hlo_sharding(self, ndim: int) -> HloSharding:
        return hlo_sharding_of_spec(self.mesh, self.spec, ndim)


_shardings: InternTable[NamedSharding] = InternTable()


def sharding_of_tiles(
    tiles: HloSharding, mesh: Mesh, ndim: int, memory_kind: str | None = None
) -> NamedSharding | GSPMDSharding:
    """The sharding that the compiler chose for a value of `ndim` dimensions on the devices of `mesh`.

    A NamedSharding over `mesh` if it can be expressed by its axes; otherwise the tile assignment itself.
    """
    spec = spec_of_hlo_sharding(tiles, mesh, ndim)
    if spec is not None and all(
        mesh.axis_type_by_name[axis] is AxisType.Explicit for axis in spec.unreduced
    ):
        return NamedSharding(mesh, spec, memory_kind)
    devices = mesh._internal_device_list
    if devices is None:
        raise ShardingArgumentError(
            "sharding_of_tiles: the mesh has no devices.", got=f"mesh: {mesh}"
        )
    return GSPMDSharding(devices, tiles, checked_memory_kind(devices, memory_kind))


def _check_types(mesh: object, spec: object) -> None:
    if not isinstance(mesh, (Mesh, AbstractMesh)):
        raise ShardingArgumentError(
            "NamedSharding: `mesh` must be a Mesh or an AbstractMesh.",
            got=f"mesh: {type(mesh).__name__}",
        )
    if not isinstance(spec, PartitionSpec):
        raise ShardingArgumentError(
            "NamedSharding: `spec` must be a PartitionSpec.",
            got=f"spec: {type(spec).__name__}",
            do="Write PartitionSpec() for a value that is on every device whole."
            if spec is None
            else f"Write PartitionSpec({', '.join(map(repr, spec))})."
            if is_list_or_tuple(spec)
            else f"Write PartitionSpec({spec!r}).",
        )


def check_spec(mesh: AnyMesh, spec: PartitionSpec) -> None:
    """Raises PartitionSpecError if `spec` is invalid for `mesh`."""
    types = mesh.axis_type_by_name
    for axes in (*spec.axes_per_dim, spec.unreduced, spec.reduced):
        for axis in axes:
            if axis not in types:
                raise axis_not_in_mesh_error(repr(spec), axis, mesh, PartitionSpecError)
    check_axes_are_used_once(spec)
    for name in ("unreduced", "reduced"):
        for axis in getattr(spec, name):
            if types[axis] is AxisType.Auto:
                raise PartitionSpecError(
                    f"{spec!r}: only an Explicit mesh axis can be {name}; {axis!r} is {types[axis]!r}.",
                    got=str(mesh),
                )
    if UNCONSTRAINED in spec.partitions and types and AxisType.Auto not in types.values():
        raise PartitionSpecError(
            f"{spec!r} leaves a dimension to the compiler, but the mesh has no Auto axis.",
            got=str(mesh),
            do="Write None for a dimension that is not sharded.",
        )


def is_unreduced(sharding: object) -> TypeGuard[NamedSharding]:
    """Whether devices hold addends of a value that is placed by `sharding`."""
    return isinstance(sharding, NamedSharding) and bool(sharding.spec.unreduced)


def sharding_of_sum(sharding: NamedSharding) -> NamedSharding:
    """The sharding of the sum of values that are unreduced in `sharding`, divided into the same parts."""
    return sharding.update(spec=sharding.spec.update(unreduced=NO_AXES))
