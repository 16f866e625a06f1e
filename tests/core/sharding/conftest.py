"""Virtual CPU devices for these tests."""

from __future__ import annotations

import os
from typing import Any

# Collectives deadlock on fewer threads than devices; must be set before the first client.
os.environ.setdefault("PJRT_NPROC", "16")

import numpy as np
import pytest

from pellucid._machine.runtime import platforms
from pellucid._machine.sharding.mesh import AxisType, Mesh
from pellucid._machine.xla import bootstrap as _bootstrap  # noqa: F401

from jaxlib import _jax  # isort: skip

collect_ignore = ["reference_answers.py"]  # its source runs in the process of the oracle

AXIS_TYPES = {"A": AxisType.Auto, "E": AxisType.Explicit, "M": AxisType.Manual}


@pytest.fixture(scope="session")
def devices() -> list[Any]:
    # The runtime's own: its client has told C++ where our types are, which C++ asks only once in a process.
    return platforms.devices()[:8]


@pytest.fixture(scope="session")
def many_devices() -> list[Any]:
    return _jax.get_tfrt_cpu_client(asynchronous=True, num_devices=512).devices()


@pytest.fixture
def mesh(devices: list[Any]) -> Mesh:
    return Mesh(np.reshape(devices, (4, 2)), ("x", "y"))


@pytest.fixture
def explicit_mesh(devices: list[Any]) -> Mesh:
    return Mesh(np.reshape(devices, (4, 2)), ("x", "y"), (AxisType.Explicit,) * 2)


@pytest.fixture(scope="session")
def make_mesh_of(devices: list[Any]) -> Any:
    """Meshes from sizes and letters for types: `make_mesh_of((4, 2), "AE")` has axes a and b."""

    def make(sizes: tuple[int, ...], types: str, order: list[int] | None = None) -> Mesh:
        count = int(np.prod(sizes))
        chosen = devices[:count] if order is None else [devices[i] for i in order]
        return Mesh(
            np.reshape(chosen, sizes), tuple("abcd"[: len(sizes)]), [AXIS_TYPES[t] for t in types]
        )

    return make
