"""Determines where a program runs, from its arguments, from shardings that it specifies, and from the current mesh."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import DeviceError, cached
from pellucid._machine.ir import (
    HigherOrderPrimitive,
    Jaxpr,
    Operands,
    Placed,
    Primitive,
    Results,
    ShapedArray,
    subjaxprs,
)
from pellucid._machine.runtime import platforms
from pellucid._machine.runtime.platforms import platform_of
from pellucid._machine.sharding import (
    AbstractMesh,
    Mesh,
    Sharding,
    SingleDeviceSharding,
    make_single_device_sharding,
    mesh_context,
)
from pellucid._machine.sharding.mesh import AnyMesh
from pellucid._machine.sharding.placement import same_devices
from pellucid._machine.sharding.stated import check_fits, placement_text
from pellucid._machine.tracing import type_of
from pellucid._machine.xla import ARRAY_TYPES, Device, DeviceList

Shardings = tuple[Any, ...]
"""The required sharding of each of several values; None if the compiler may choose."""


class ExecutionPlacement(NamedTuple):
    """The devices of a program in order, with their client; or only an abstract mesh."""

    client: Any
    devices: tuple[Device, ...]
    abstract_mesh: AbstractMesh | None = None
    """The mesh of a program that is lowered without devices, and can't be compiled."""

    @property
    def platform(self) -> str:
        if self.abstract_mesh is None:
            return platform_of(self.client)
        device = self.abstract_mesh.abstract_device
        name = platforms.default_platform() if device is None else device.platform
        # As in `platform_of`; known GPU kinds are NVIDIA's.
        return "cuda" if name == "gpu" else name

    @property
    def size(self) -> int:
        """Number of devices."""
        return len(self.devices) if self.abstract_mesh is None else self.abstract_mesh.size

    @property
    def device_list(self) -> DeviceList | None:
        """The devices as a C++ list; None if unknown."""
        return _device_list(self.devices) if self.devices else None


class ResolvedPlacement(NamedTuple):
    """The placement that results from the arguments of a call and from its program."""

    placement: ExecutionPlacement
    committed: bool
    shardings: Shardings
    """The required sharding of each argument."""
    mesh: AnyMesh | None = None
    """The mesh whose axes name shardings, if there is one."""


@cached(256)
def _device_list(devices: tuple[Device, ...]) -> DeviceList:
    return DeviceList(devices)


def placements_in(jaxpr: Jaxpr) -> tuple[Any, ...]:
    """Meshes, shardings and devices that equations of `jaxpr` specify, also within inner programs; cached."""
    return jaxpr.remembered(
        "placements",
        lambda: tuple(
            {x: None for e in jaxpr.equations for x in placements_of(e.primitive, e.params)}
        ),
    )


def placements_of(primitive: Primitive[Any], params: Any) -> Results:
    """Meshes, shardings and devices that one operation specifies, also within programs in its params."""
    placements = primitive.placements(params) if isinstance(primitive, Placed) else ()
    if isinstance(primitive, HigherOrderPrimitive):
        for inner in subjaxprs(params):
            placements = (*placements, *placements_in(inner))
    return placements


def has_several_devices(places: Iterable[Any]) -> bool:
    """Whether one of `places` has several devices: shardings, meshes and arrays; anything else has none."""
    for place in places:
        if isinstance(place, (Mesh, AbstractMesh)):
            size = place.size
        else:
            sharding = (
                place._sharding if type(place) in ARRAY_TYPES else getattr(place, "sharding", place)
            )
            size = sharding.num_devices if isinstance(sharding, Sharding) else 1
        if size > 1:
            return True
    return False


Names = Callable[[], Sequence[str]]
"""A function that returns a name for each argument; called only for messages."""


def resolved_placement(
    operands: Operands,
    name: str,
    program_places: Sequence[Any] = (),
    *,
    device: Any = None,
    requested: Sequence[Any] | None = None,
    closed_over: Operands = (),
    names: Names = tuple,
) -> ResolvedPlacement:
    """The placement of a program called with `operands`.

    It runs on the devices of committed arrays, of places that the program specifies (`program_places`: meshes,
    shardings, devices), of requested shardings of arguments, and of the mesh of `set_mesh`, which must all agree.
    Without any, it runs on the first single device that the program specifies, as in `device_put(x, device)`, which has
    lower priority; else on the default device. `closed_over` are arrays that count only if they have several devices.

    Raises: DeviceError if devices differ, or if an array is committed to another placement than the requested one.
    """
    current = mesh_context.concrete.value
    if current is device is requested is None and not program_places and not closed_over:
        only = _one_device(operands)
        if only is not None:
            return only
    claims = list(_claims(operands, program_places, device, requested, closed_over, current))
    if not claims:
        wishes = [place for place in program_places if isinstance(place, Device)]
        claims = [_claim(place, _NAMED, place) for place in wishes[:1]]
    concrete = [c for c in claims if c.devices is not None]
    abstract = [c for c in claims if c.devices is None]
    if any(claim.devices != concrete[0].devices for claim in concrete):
        raise _different_devices(name, names(), concrete)
    meshes = [c.mesh for c in concrete or abstract if c.mesh is not None]
    # A mesh with Explicit axes comes first, because types of results refer to it.
    mesh = next((m for m in meshes if m.explicit_axes), meshes[0] if meshes else None)
    if abstract and not concrete:
        placement = ExecutionPlacement(None, (), mesh)
    else:
        chosen = tuple(concrete[0].devices) if concrete else (platforms.default_device(),)
        placement = ExecutionPlacement(chosen[0].client, chosen)
    for claim in abstract:
        if claim.mesh.size != placement.size:
            raise DeviceError(
                f"`{name}` names a mesh of another number of devices than it runs on.",
                got=[f"{claim.mesh} of {claim.mesh.size} devices", f"the program runs on {placement.size}"],
                do="Use one mesh, or an AbstractMesh of its shape, for all placements of a program.",
            )  # fmt: skip
    devices = placement.device_list
    shardings = tuple(
        _argument_sharding(i, x, requested and requested[i], placement, devices, name, names)
        for i, x in enumerate(operands)
    )
    return ResolvedPlacement(placement, bool(claims), shardings, mesh)


def _one_device(operands: Operands) -> ResolvedPlacement | None:
    """The placement if all arguments are on one device, in its default memory; else None."""
    committed: Any = None
    for x in operands:
        if type(x) in ARRAY_TYPES:
            sharding = x._sharding
            if type(sharding) is not SingleDeviceSharding or sharding._memory_kind not in (
                None,
                "device",
            ):
                return None
            if x._committed:
                if committed is not None and committed is not sharding._device:
                    return None
                committed = sharding._device
        elif getattr(x, "sharding", None) is not None:
            return None
    device = committed if committed is not None else platforms.default_device()
    shardings = (make_single_device_sharding(device),) * len(operands)
    return ResolvedPlacement(
        ExecutionPlacement(device.client, (device,)), committed is not None, shardings
    )


# Claims ---------------------------------------------------------------------------------------------


class _Claim(NamedTuple):
    """A requirement on where the program runs: its devices or, for an abstract mesh, only their number."""

    devices: Any
    mesh: Any
    origin: str | int
    """The origin of the requirement, for messages: the index of an argument, or a text."""
    shown: Any = None
    """The type of an array, or the place, that messages quote, if any."""

    def text(self, names: Sequence[str]) -> str:
        """The origin as a text."""
        origin = self.origin if isinstance(self.origin, str) else _argument_text(names, self.origin)
        if self.shown is None:
            return origin
        is_type = isinstance(self.shown, ShapedArray)
        return f"{origin}: {self.shown.text() if is_type else placement_text(self.shown)}"


_NAMED = "named in the program"


def _claims(
    operands: Operands,
    program_places: Sequence[Any],
    device,
    requested: Sequence[Any] | None,
    closed_over: Operands,
    current: Mesh | None,
) -> Iterator[_Claim]:
    for i, x in enumerate(operands):
        if type(x) in ARRAY_TYPES:
            if x._committed and not (requested and _is_copied(x._sharding, requested[i])):
                yield _claim(x._sharding, i, x.aval)
        elif isinstance(sharding := getattr(x, "sharding", None), Sharding):
            yield _claim(sharding, i, x.aval)
    for sharding in requested or ():
        if sharding is not None:
            yield _claim(sharding, "in_shardings")
    if device is not None:
        yield _claim(device, "jit's `device`")
    for x in closed_over:
        if type(x) in ARRAY_TYPES and x._committed and x._sharding.num_devices > 1:
            yield _claim(x._sharding, "closed over", x.aval)
    for place in program_places:
        if not isinstance(place, Device):
            yield _claim(place, _NAMED, place)
    if current is not None:
        yield _claim(current, "the mesh of `set_mesh`")


def _claim(place, origin: str | int, shown: Any = None) -> _Claim:
    if isinstance(place, Device):
        return _Claim(_device_list((place,)), None, origin, shown)
    mesh = place if isinstance(place, (Mesh, AbstractMesh)) else getattr(place, "mesh", None)
    return _Claim(place._internal_device_list, mesh, origin, shown)


def _argument_sharding(
    i: int,
    x,
    requested,
    placement: ExecutionPlacement,
    devices: DeviceList | None,
    name: str,
    names: Names,
):
    """The required sharding of an argument; None if the compiler may choose."""
    current = x._sharding if type(x) in ARRAY_TYPES else getattr(x, "sharding", None)
    current = over_devices(current, placement)
    if current is not None and type(x) not in ARRAY_TYPES:
        # Arrays are divided evenly, but a ShapeDtypeStruct may not be.
        check_fits(f"`{name}`", _argument_text(names(), i), current, x.shape)
    is_committed = current is not None and getattr(x, "_committed", True)
    if requested is not None:
        if is_committed and not (
            _is_copied(current, requested) or requested.is_equivalent_to(current, type_of(x).ndim)
        ):
            raise DeviceError(
                f"`{name}` got an array that is placed otherwise than its `in_shardings` say.",
                got=[f"{_argument_text(names(), i)}: {type_of(x).text()} is placed as {placement_text(current)}",
                     f"in_shardings: {placement_text(requested)}"],
                do="Put it there first, `device_put(x, sharding)`, or leave its in_shardings out (None).",
            )  # fmt: skip
        return requested
    if current is not None and same_devices(current._internal_device_list, devices):
        return current
    if placement.size == 1 and placement.devices:
        return make_single_device_sharding(placement.devices[0])
    return None


def over_devices(sharding: Any, placement: ExecutionPlacement) -> Any:
    """`sharding`, with an abstract mesh replaced by one of the program's devices."""
    if not getattr(sharding, "is_abstract", False):
        return sharding
    return sharding.update(mesh=mesh_over_devices(sharding.mesh, placement))


def mesh_over_devices(mesh: AnyMesh, placement: ExecutionPlacement) -> AnyMesh:
    """`mesh` with the program's devices in order; unchanged if they are unknown or don't match its size."""
    if len(placement.devices) != mesh.size:
        return mesh
    devices = np.array(placement.devices, dtype=object).reshape(mesh.axis_sizes)
    return Mesh(devices, mesh.axis_names, mesh.axis_types)


def _is_copied(current, requested) -> bool:
    """Whether an array that is replicated is to be replicated on other devices, which doesn't change the partition."""
    return (
        requested is not None
        and current.is_fully_replicated
        and requested.is_fully_replicated
        and current.memory_kind == requested.memory_kind
    )


def _argument_text(names: Sequence[str], i: int) -> str:
    return names[i] if i < len(names) else f"argument {i}"


# Messages -------------------------------------------------------------------------------------------


def _different_devices(name: str, names: Sequence[str], claims: Sequence[_Claim]) -> DeviceError:
    """The error for conflicting claims; equal claims are shown only once."""
    shown = list(
        dict.fromkeys(f"{claim.text(names)} on {devices_text(claim.devices)}" for claim in claims)
    )
    if (n_more := len(shown) - 3) > 0:
        shown[3:] = [f"and {n_more} more"]
    if len({frozenset(claim.devices) for claim in claims}) == 1:
        do = "The order of devices differs: use one mesh for all placements of a program."
    elif any(len(claim.devices) > 1 for claim in claims):
        do = (
            "Put all arrays on the devices of one mesh: `device_put(x, NamedSharding(mesh, spec))`."
        )
    else:
        do = "Move them to one place with `device_put`."
    return DeviceError(
        f"`{name}` got arrays that are committed to different devices."
        if all(isinstance(claim.origin, int) for claim in claims)
        else f"`{name}` can't run on several sets of devices at once.",
        got=shown,
        do=do,
    )


def devices_text(devices: DeviceList | Sequence[Device]) -> str:
    """A few devices by name, for messages."""
    ids = ", ".join(str(d.id) for d in list(devices)[:8]) + (", …" if len(devices) > 8 else "")
    return (
        str(devices[0])
        if len(devices) == 1
        else f"{len(devices)} {devices[0].platform} devices ({ids})"
    )
