"""Peak rates of the default device, measured: matrix multiplication and memory bandwidth."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import pellucid as pl
from pellucid import numpy as jnp
from pellucid.introspect.traps import own_settings

MATRIX_SIZE = 768
"""Number of rows and columns of the matrices whose product is timed."""
BANDWIDTH_BYTES = 1 << 27
"""Size of the array that is updated in place: larger than caches."""
N_RUNS = 8
"""Number of repetitions, of which the fastest counts; the others may have been interrupted."""


class Peaks(NamedTuple):
    """Peak rates of a device in single precision, measured or computed from a GPU's data.

    >>> Peaks("cpu", 1e9, 1e9).share(flops=1e6, n_bytes=2e6, seconds=0.004)
    0.5
    """

    device_kind: str
    flops_per_second: float
    bytes_per_second: float
    """Memory bandwidth, counting bytes read and bytes written."""

    def share(self, flops: float, n_bytes: float, seconds: float) -> float:
        """Fraction of the roofline reached: the minimum time for this work, at peak arithmetic or bandwidth, over
        `seconds`.
        """
        fastest = max(flops / self.flops_per_second, n_bytes / self.bytes_per_second)
        return fastest / seconds if seconds > 0 else 0.0


@own_settings()
def measure_peaks(*, keep: bool = True) -> Peaks:
    """Measures the default device's peak rates with float32, in about a second, and stores them for later profiles on
    this machine.

    With `keep`, they are stored in the folder `pellucid` of the user's cache (`XDG_CACHE_HOME`).

    >>> measure_peaks(keep=False).flops_per_second > 0
    True
    """

    def square(x: pl.Array) -> pl.Array:
        return jnp.matmul(x, x, precision="default")

    def scale(x: pl.Array) -> pl.Array:
        return x * 1.0001

    product = pl.jit(square)
    in_place = pl.jit(scale, donate_argnums=0)
    matrix = jnp.full((MATRIX_SIZE, MATRIX_SIZE), 1 / MATRIX_SIZE, np.float32)
    array = [jnp.ones(BANDWIDTH_BYTES // 4, np.float32)]

    def update() -> Any:
        array[0] = in_place(array[0])
        return array[0]

    peaks = Peaks(
        _device_kind(),
        2.0 * MATRIX_SIZE**3 / _fastest(lambda: product(matrix)),
        2.0 * BANDWIDTH_BYTES / _fastest(update),
    )
    if keep:
        path = _path()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([*_read(path), peaks]))
    return peaks


def measured_peaks() -> Peaks | None:
    """The stored peaks of this machine's default device; None if they were never measured."""
    kind = _device_kind()
    return next((each for each in reversed(_read(_path())) if each.device_kind == kind), None)


def _fastest(run: Callable[[], Any]) -> float:
    run().block_until_ready()
    seconds: list[float] = []
    for _ in range(N_RUNS):
        start = time.perf_counter()
        run().block_until_ready()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def _device_kind() -> str:
    return f"{pl.devices()[0].device_kind}, {os.cpu_count()} cores"


def _path() -> Path:
    folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(folder) / "pellucid" / "peaks.json"


def _read(path: Path) -> list[Peaks]:
    try:
        return [Peaks(*row) for row in json.loads(path.read_text())][-8:]
    except (OSError, ValueError, TypeError):
        return []  # only a cache: an unreadable file counts as empty
