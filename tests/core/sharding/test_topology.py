"""Orders of devices with coordinates; those of the reference are compared elsewhere."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pellucid._machine.sharding import topology
from pellucid._machine.sharding.errors import MeshError
from pellucid._machine.sharding.topology import create_device_mesh, create_hybrid_device_mesh


def grid_devices(shape: tuple[int, ...], kind: str = "TPU v4") -> list[Any]:
    places = itertools.product(*map(range, reversed(shape)))
    return [
        SimpleNamespace(
            id=i,
            coords=tuple(reversed(place)),
            core_on_chip=0,
            device_kind=kind,
            process_index=i // 4,
            slice_index=0,
        )
        for i, place in enumerate(places)
    ]


def are_linked(a: Any, b: Any) -> bool:
    return sum(abs(x - y) for x, y in zip(a.coords, b.coords, strict=True)) == 1


@pytest.mark.parametrize("shape", [(2, 2, 1), (4, 2, 1), (4, 4, 1), (3, 4, 1), (2, 2, 2)])
def test_neighbours_in_a_ring_are_linked(shape: tuple[int, int, int]) -> None:
    grid = topology.grid_of(grid_devices(shape))
    ring = topology.ring(grid if shape[2] > 1 else grid[:, :, 0])
    assert sorted(device.id for device in ring) == list(range(math.prod(shape)))
    assert all(are_linked(a, b) for a, b in itertools.pairwise([*ring, ring[0]]))


def test_an_odd_plane_has_no_ring() -> None:
    with pytest.raises(MeshError, match="odd number of rows"):
        topology.ring(topology.grid_of(grid_devices((4, 3, 1)))[:, :, 0])


@settings(deadline=None, max_examples=100)
@given(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=3, max_size=3).map(tuple), st.data())
def test_every_device_has_one_place(shape: tuple[int, ...], data: Any) -> None:
    devices = grid_devices(shape)
    sizes, left = [], math.prod(shape)
    for _ in range(data.draw(st.integers(0, 2))):
        sizes.append(data.draw(st.sampled_from([n for n in range(1, left + 1) if left % n == 0])))
        left //= sizes[-1]
    array = create_device_mesh([*sizes, left], devices, allow_split_physical_axes=True)
    assert array.shape == (*sizes, left)
    assert sorted(device.id for device in array.flat) == list(range(len(devices)))


def test_an_assignment_is_found_where_the_greedy_one_fails() -> None:
    # Greedily the last axis would take both grid axes of size 2, and 4x4 would remain for 8 and 2.
    array = create_device_mesh((2, 8, 4), grid_devices((2, 2, 4, 4)))
    assert sorted(device.id for device in array.flat) == list(range(64))


def test_processes_get_boxes() -> None:
    devices = grid_devices((4, 4, 4))
    array = create_device_mesh((16, 4), devices, contiguous_submeshes=True)
    processes = np.vectorize(lambda device: device.process_index)(array)
    for process in range(16):
        rows, columns = np.nonzero(processes == process)
        assert (np.ptp(rows) + 1) * (np.ptp(columns) + 1) == 4
    scattered = grid_devices((2, 2, 1))
    for device in scattered:
        device.process_index = device.id in (0, 3)
    with pytest.raises(MeshError, match="one box for each process"):
        create_device_mesh((2, 2), scattered, contiguous_submeshes=True)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: create_device_mesh((2, 32), grid_devices((4, 4, 4))), "2x32 can't be laid"),
        (lambda: create_device_mesh((3,), grid_devices((2, 2, 1))[:3]), "do not fill a box"),
        (lambda: create_hybrid_device_mesh((4,), (1, 1), grid_devices((2, 2, 1))), "same number"),
        (lambda: create_hybrid_device_mesh((4,), (2,), grid_devices((2, 2, 1))), "2 granules"),
        (lambda: create_hybrid_device_mesh((4,), (1,), [SimpleNamespace()] * 4), "no slice_index"),
    ],
)
def test_impossible_arrangements_are_refused(make: Any, text: str) -> None:
    with pytest.raises(MeshError, match=text):
        make()


def test_devices_without_coordinates_keep_their_order(devices: list[Any]) -> None:
    array = create_device_mesh((4, 2), devices[::-1])
    assert [device.id for device in array.flat] == [7, 6, 5, 4, 3, 2, 1, 0]
