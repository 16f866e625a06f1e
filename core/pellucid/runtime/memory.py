"""Memory: live arrays and what devices report."""

from __future__ import annotations

from typing import Any

from pellucid.runtime import platforms


def live_arrays(platform: str | None = None) -> list[Any]:
    """All arrays of this process that hold memory on `platform` (by default, the default one)."""
    return [x for x in platforms.client(platform).live_arrays() if not x.is_deleted()]


def largest_live_arrays(n: int = 5) -> list[str]:
    """The `n` largest live arrays, in words."""
    found = [x for client in platforms.started_clients() for x in client.live_arrays()]
    found = [x for x in found if not x.is_deleted()]
    found.sort(key=lambda x: -x.nbytes)
    return [f"live: {x.aval.text()}, {x.nbytes / 2**20:.1f} MiB" for x in found[:n]]
