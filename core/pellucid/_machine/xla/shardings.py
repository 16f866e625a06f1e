"""jaxlib's side of shardings: device lists, HLO shardings, layouts and the C++ sharding classes.

An HLO sharding is a tile assignment: an array of logical device numbers whose leading dimensions divide the dimensions
of the value, and whose trailing ones (subgroups) contain devices with the same tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from jaxlib import _hlo, _jax  # isort: skip

T = TypeVar("T")

if TYPE_CHECKING:
    from enum import Enum

    class Memory:
        """A memory that a device can access."""

        kind: str

    class Device:
        """A device of a client."""

        id: int
        process_index: int
        platform: str
        device_kind: str
        client: Any
        local_hardware_id: int

        def memory_stats(self) -> dict[str, int] | None: ...
        def addressable_memories(self) -> list[Memory]: ...
        def default_memory(self) -> Memory: ...

    class DeviceList(Sequence[Device]):
        """An ordered list of devices; hashable, compared by content."""

        memory_kinds: tuple[str, ...]
        default_memory_kind: str | None
        is_fully_addressable: bool
        addressable_device_list: DeviceList
        process_indices: set[int]

        def __init__(self, devices: tuple[Device, ...]) -> None: ...
        def __len__(self) -> int: ...
        def __getitem__(self, i: Any) -> Any: ...

    class OpSharding:
        """An HLO sharding as a protobuf message."""

        class Type(Enum):
            """How the devices of a subgroup share a tile."""

            REPLICATED = 0
            MANUAL = 1
            UNREDUCED = 2
            MAXIMAL = 3

        type: Type

        def SerializeToString(self) -> bytes: ...
        def ParseFromString(self, data: bytes) -> None: ...

    class HloSharding:
        """A tile assignment; hashable, compared by content."""

        @staticmethod
        def replicate() -> HloSharding: ...
        @staticmethod
        def manual() -> HloSharding: ...
        @staticmethod
        def unreduced() -> HloSharding: ...
        @staticmethod
        def from_proto(message: OpSharding) -> HloSharding: ...
        @staticmethod
        def iota_tile(
            dims: Sequence[int],
            reshape_dims: Sequence[int],
            transpose_perm: Sequence[int],
            subgroup_types: Sequence[OpSharding.Type],
        ) -> HloSharding: ...
        def v3_to_v2_sharding(self) -> HloSharding: ...
        def is_replicated(self) -> bool: ...
        def is_manual(self) -> bool: ...
        def is_unreduced(self) -> bool: ...
        def is_tiled(self) -> bool: ...
        def replicate_on_last_tile_dim(self) -> bool: ...
        def subgroup_types(self) -> list[OpSharding.Type]: ...
        def tile_assignment_dimensions(self) -> list[int]: ...
        def tile_assignment_devices(self) -> list[int]: ...
        def to_proto(self) -> OpSharding: ...

    class Sharding:
        """Base class of all shardings, known to C++."""

        _memory_kind: str | None

    class SingleDeviceSharding(Sharding):
        """The whole value on one device."""

        _device: Device

        def __init__(self, device: Device, *, memory_kind: str | None = None) -> None: ...

    class GSPMDSharding(Sharding):
        """A tile assignment over a list of devices."""

        _hlo_sharding: HloSharding

        def __init__(
            self,
            devices: DeviceList | Sequence[Device],
            op_sharding: HloSharding | OpSharding,
            memory_kind: str | None = None,
        ) -> None: ...

    class XlaLayout:
        """Order and tiling of elements, in XLA's representation."""

        def __init__(
            self,
            minor_to_major: Sequence[int],
            tiling: Sequence[tuple[int, ...]] = ...,
            element_size_in_bits: int = ...,
        ) -> None: ...
        def minor_to_major(self) -> tuple[int, ...]: ...
        def tiling(self) -> list[tuple[int, ...]]: ...
        def element_size_in_bits(self) -> int: ...
        def to_string(self) -> str: ...

    class DeviceLayout:
        """The layout of a value on a device, as reported by an executable."""

        def _xla_layout(self) -> XlaLayout: ...

else:
    XlaLayout = _hlo.Layout
    DeviceLayout = _jax.PjRtLayout
    Device = _jax.Device
    DeviceList = _jax.DeviceList
    OpSharding = _hlo.OpSharding
    HloSharding = _hlo.HloSharding
    Sharding = _jax.Sharding
    SingleDeviceSharding = _jax.SingleDeviceSharding
    GSPMDSharding = _jax.GSPMDSharding

REPLICATED = OpSharding.Type.REPLICATED
MANUAL = OpSharding.Type.MANUAL
MAXIMAL = OpSharding.Type.MAXIMAL
UNREDUCED = OpSharding.Type.UNREDUCED


def op_sharding_of_bytes(message: bytes) -> OpSharding:
    """Parses a serialized HLO sharding to a protobuf message."""
    op_sharding = OpSharding()
    op_sharding.ParseFromString(message)
    return op_sharding


def hlo_sharding_of_bytes(message: bytes) -> HloSharding:
    """Parses a serialized tile assignment."""
    return HloSharding.from_proto(op_sharding_of_bytes(message))


def bytes_of_hlo_sharding(sharding: HloSharding) -> bytes:
    """Serializes a tile assignment."""
    return sharding.to_proto().SerializeToString()


def extend(cls: type, source: type) -> None:
    """Adds the methods and properties defined by the Python class `source` to the C++ class `cls`.

    They are also available on instances made by C++ itself, unlike those of a Python subclass.
    """
    for name, attribute in vars(source).items():
        if name not in ("__module__", "__dict__", "__weakref__", "__doc__", "__qualname__"):
            setattr(cls, name, attribute)


def extending(cls: Any) -> Callable[[type[T]], type[T]]:
    """Decorator that adds the methods and the docstring of a Python class to the C++ class `cls` (see `extend`), and
    replaces it by `cls`.
    """

    def extend_class(source: type[T]) -> type[T]:
        extend(cls, source)
        cls.__doc__ = source.__doc__
        return cls

    return extend_class
