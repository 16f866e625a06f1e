"""Where a program runs, found from its arguments, from what it names itself, and from the current mesh."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
"""Where each of several values must be; None where the compiler may choose."""


class ExecutionPlacement(NamedTuple):
    """Where a program runs: its devices in order, and their client; or only an abstract mesh."""

    client: Any
    devices: tuple[Device, ...]
    abstract_mesh: AbstractMesh | None = None
    """The mesh of a program that is lowered without devices, which can't be compiled."""

    @property
    def platform(self) -> str:
        if self.abstract_mesh is None:
            return platform_of(self.client)
        device = self.abstract_mesh.abstract_device
        name = platforms.default_platform() if device is None else device.platform
        return (
            "cuda" if name == "gpu" else name
        )  # as `platform_of`; GPUs that are known by kind are NVIDIA's

    @property
    def size(self) -> int:
        """Number of devices."""
        return len(self.devices) if self.abstract_mesh is None else self.abstract_mesh.size

    @property
    def device_list(self) -> DeviceList | None:
        """The devices as a list of C++; None where they are not known."""
        return _device_list(self.devices) if self.devices else None


class ResolvedPlacement(NamedTuple):
    """Where the arguments of one call, and its program, say that it runs."""

    placement: ExecutionPlacement
    committed: bool
    shardings: Shardings
    """For each argument, where it must be."""
    mesh: AnyMesh | None = None
    """The mesh whose axes name placements, if there is one."""


@cached(256)
def _device_list(devices: tuple[Device, ...]) -> DeviceList:
    return DeviceList(devices)


def placements_in(jaxpr: Jaxpr) -> tuple[Any, ...]:
    """Meshes, shardings and devices that equations of `jaxpr` name, also those of inner programs; remembered."""
    return jaxpr.remembered(
        "placements",
        lambda: tuple(
            {x: None for e in jaxpr.equations for x in placements_of(e.primitive, e.params)}
        ),
    )


def placements_of(primitive: Primitive[Any], params: Any) -> Results:
    """Meshes, shardings and devices that one operation names, also within the programs among its params."""
    placements = primitive.placed(params) if isinstance(primitive, Placed) else ()
    if isinstance(primitive, HigherOrderPrimitive):
        for inner in subjaxprs(params):
            placements = (*placements, *placements_in(inner))
    return placements


Names = Callable[[], Sequence[str]]
"""Function that returns a name for each argument, called for messages only."""


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
    """Where a program on `operands` runs.

    That is where committed arrays lie, and on the devices of what the program names (`program_places`: meshes,
    shardings, devices), of the placements `requested` for its arguments, and of the mesh of `set_mesh`, which must
    all agree; else on the first single device that the program names, as `device_put(x, device)` does, which gives
    way to all others; else on the default device. `closed_over` are arrays that count where they have several devices.

    Raises: DeviceError where devices differ, or an array is committed to another placement than asked.
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
    # One of Explicit axes is named first: types of results speak of it.
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
    """The answer of `where` for arguments that all are on one device, in its own memory; else None."""
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
    """A requirement on where the program runs: its devices, or, by an abstract mesh, only their number."""

    devices: Any
    mesh: Any
    origin: str | int
    """Where it comes from, for messages: the index of an argument, or words."""
    shown: Any = None
    """The type of an array or the place that messages quote, if one is to be quoted."""

    def text(self, names: Sequence[str]) -> str:
        """The origin in words."""
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
    """Where an argument must be; None where the compiler may choose."""
    current = x._sharding if type(x) in ARRAY_TYPES else getattr(x, "sharding", None)
    current = over_devices(current, placement)
    if current is not None and type(x) not in ARRAY_TYPES:
        # Arrays are cut evenly; what only describes one may not be.
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
    """`sharding`, over the devices of a program where it is over an abstract mesh."""
    if not getattr(sharding, "is_abstract", False):
        return sharding
    return sharding.update(mesh=mesh_over_devices(sharding.mesh, placement))


def mesh_over_devices(mesh: AnyMesh, placement: ExecutionPlacement) -> AnyMesh:
    """`mesh` with the devices of a program in their order; as it is where they aren't known, or not as many."""
    if len(placement.devices) != mesh.size:
        return mesh
    devices = np.array(placement.devices, dtype=object).reshape(mesh.axis_sizes)
    return Mesh(devices, mesh.axis_names, mesh.axis_types)


def _is_copied(current, requested) -> bool:
    """Whether devices that hold all of an array are asked to give it to others in full, which changes no layout."""
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
    """The error for claims of which some differ; it shows what says the same only once."""
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
