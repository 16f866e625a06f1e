"""Kinds of memory that programs speak of, whatever a platform calls its own."""

from __future__ import annotations

import enum


class MemorySpace(enum.Enum):
    """Where a value lies: in its device's memory, or in memory of the host that the device can reach."""

    Device = "device"
    Host = "pinned_host"
    Any = None

    @classmethod
    def _missing_(cls, value: object) -> MemorySpace | None:
        """The member that pickles of the reference name by its number."""
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
"""Kinds of memory that values may be placed in where the devices are not known."""


def space_of_kind(memory_kind: str | None) -> MemorySpace | None:
    """The space of a memory kind, as types show it; None for the device's own memory."""
    return MemorySpace.Host if memory_kind in ("pinned_host", "unpinned_host") else None
