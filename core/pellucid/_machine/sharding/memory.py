"""Memory spaces of programs, independent of platforms' own names."""

from __future__ import annotations

import enum


class MemorySpace(enum.Enum):
    """The memory that holds a value: its device's, or host memory that the device can access."""

    Device = "device"
    Host = "pinned_host"
    Any = None

    @classmethod
    def _missing_(cls, value: object) -> MemorySpace | None:
        """The member for the number stored in pickles of JAX."""
        return {1: cls.Device, 2: cls.Host, 3: cls.Any}.get(value)  # pyright: ignore[reportArgumentType]

    def __repr__(self) -> str:
        return f"MemorySpace.{self.name}"

    def __format__(self, spec: str) -> str:
        """The bare word, as types show it."""
        return format(self.name.lower(), spec)

    @property
    def memory_kind(self) -> str | None:
        """Name of this memory on platforms; None for any."""
        return self.value


MEMORY_KINDS = ("device", "pinned_host", "unpinned_host")
"""Memory kinds that are accepted while the devices are unknown."""


def space_of_kind(memory_kind: str | None) -> MemorySpace | None:
    """The memory space of a memory kind, as shown in types; None for the device's own memory."""
    return MemorySpace.Host if memory_kind in ("pinned_host", "unpinned_host") else None
