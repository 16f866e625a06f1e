"""Records of where arrays lie."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import introspect
from pellucid.introspect.errors import ArgumentTypeError
from pellucid.sharding import AbstractMesh, Mesh


@pytest.fixture
def mesh() -> Mesh:
    return Mesh(np.array(pl.devices()).reshape(2, 4), ("data", "model"))


def parts(record):
    """For each device the part that it holds, as slices."""
    ndim = len(record.shape)
    bounds = np.array([record.tile_starts, record.tile_stops]).reshape(2, -1, ndim)
    return [tuple(map(slice, *bounds[:, tile].tolist())) for tile in record.device_tiles]


@pytest.mark.parametrize(
    ("shape", "spec"),
    [((8, 12), ("data", "model")), ((8, 12), ("model",)), ((16,), (("model", "data"),)),
     ((4, 2, 8), (None, "data", "model")), ((8, 4), ())],
)  # fmt: skip
def test_the_record_says_what_each_device_holds(mesh, shape, spec):
    x = pl.device_put(jnp.zeros(shape), pl.NamedSharding(mesh, pl.P(*spec)))
    record = introspect.sharding(x)
    expected = x.sharding.devices_indices_map(shape)
    full = {device: tuple(slice(*s.indices(n)[:2]) for s, n in zip(index, shape, strict=True))
            for device, index in expected.items()}  # fmt: skip
    assert parts(record) == [full[device] for device in mesh.devices.flat]
    assert (record.type, record.item_bytes) == (f"f32[{','.join(map(str, shape))}]", 4.0)


def test_an_array_on_one_device_is_one_part():
    record = introspect.sharding(jnp.zeros((3, 2)))
    assert (record.device_tiles, record.tile_stops) == ([0], [3, 2])
    assert record.mesh.device_ids == [0]


def test_uneven_parts_end_with_the_array():
    mesh = AbstractMesh((4,), ("x",))
    record = introspect.sharding(pl.NamedSharding(mesh, pl.P("x")), shape=(10,))
    assert (record.tile_starts, record.tile_stops) == ([0, 3, 6, 9], [3, 6, 9, 10])


def test_a_mesh_is_one_element_on_each_device(mesh):
    record = introspect.sharding(mesh)
    assert record.type == "mesh"
    assert (record.shape, record.device_tiles, record.item_bytes) == ([2, 4], list(range(8)), 0)


def test_what_lies_nowhere_is_refused():
    with pytest.raises(ArgumentTypeError, match="needs an array, a sharding or a mesh"):
        introspect.sharding(np.zeros(3))
