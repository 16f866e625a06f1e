"""Programs of these tests are freed in time: each step compiles some."""

from __future__ import annotations

import gc
import pathlib
from collections.abc import Iterator

import pytest

import pellucid

MAPS = pathlib.Path("/proc/self/maps")
MAX_MAPS = 20_000
"""Number of memory maps at which programs are freed. Each takes about three; Linux allows 65,530, beyond which the compiler crashes."""


@pytest.fixture(autouse=True)
def _free_programs() -> Iterator[None]:
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MAX_MAPS:
        pellucid.clear_caches()
        gc.collect()
