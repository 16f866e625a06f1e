"""Arrays made of parts."""

from __future__ import annotations

import numpy as np
import pytest
from message_checks import check_message

import pellucid as pl
from pellucid._machine.base.errors import ArgumentTypeError, ArgumentValueError
from pellucid._machine.base.events import CompilationFinished, counting
from pellucid.experimental.layout import Format, Layout
from pellucid.sharding import Mesh, NamedSharding, PartitionSpec as P

X = np.arange(32, dtype=np.float32).reshape(8, 4)


@pytest.fixture(scope="module")
def over():
    mesh = Mesh(np.array(pl.devices()[:8]).reshape(4, 2), ("x", "y"))
    return lambda *spec: NamedSharding(mesh, P(*spec))


def test_a_callback_is_asked_once_for_each_part(over):
    requests = []

    def part(index):
        requests.append(index)
        return X[index]

    x = pl.make_array_from_callback(X.shape, over("x"), part)
    np.testing.assert_array_equal(x, X)
    assert (x.sharding, x.committed, len(requests)) == (over("x"), True, 4)


def test_parts_fit_their_places_and_the_stated_dtype(over):
    check_message(
        lambda: pl.make_array_from_callback(X.shape, over("x"), lambda i: X[i], np.float16),
        ArgumentValueError, "part: f32[2,4]", "needed: f16[2,4]",
    )  # fmt: skip
    check_message(
        lambda: pl.make_array_from_callback(X.shape, over("x"), lambda i: X), ArgumentValueError,
        "part: f32[8,4]", "needed: f32[2,4]",
    )  # fmt: skip


def test_parts_on_devices_become_one_array_without_a_copy(over):
    parts = [shard.data for shard in pl.device_put(X, over("x", "y")).addressable_shards]
    x = pl.make_array_from_single_device_arrays(X.shape, over("x", "y"), parts[::-1])
    np.testing.assert_array_equal(x, X)
    assert x.addressable_data(0).unsafe_buffer_pointer() == parts[0].unsafe_buffer_pointer()
    name = "make_array_from_single_device_arrays"
    make = getattr(pl, name)
    check_message(
        lambda: make(X.shape, over("x", "y"), parts[:3]), ArgumentValueError, "3 on 3 devices"
    )
    check_message(
        lambda: make((8, 8), over("x", "y"), parts), ArgumentValueError, "needed: f32[2,4]"
    )
    check_message(lambda: make(X.shape, over("x"), [X]), ArgumentTypeError, "arrays[0]: ndarray")
    assert make(X.shape, over("x", "y"), parts, dtype=np.float32).shape == X.shape


def test_all_data_of_one_process_is_the_whole_array(over):
    tree = pl.make_array_from_process_local_data(over("x"), {"a": X, "b": X[:, 0]})
    np.testing.assert_array_equal(tree["a"], X)
    assert tree["b"].sharding is over("x")
    same = pl.make_array_from_process_local_data(over("x"), X, (8, None))
    np.testing.assert_array_equal(same, X)
    check_message(
        lambda: pl.make_array_from_process_local_data(over("x"), X, (16, 4)),
        ArgumentValueError,
        "dimension 0",
    )


def test_shards_are_counted_and_indexed(over):
    x = pl.device_put(X, over("x"))
    assert [s.replica_id for s in x.addressable_shards] == [0, 1] * 4
    assert x.addressable_shards[2].index == (slice(2, 4), slice(None))
    assert len(x.global_shards) == 8
    np.testing.assert_array_equal(x.addressable_data(2), X[2:4])
    assert not x.is_fully_replicated
    assert x.is_fully_addressable


def test_large_arrays_are_laid_out_anew_by_their_devices(over):
    large = np.arange(1 << 19, dtype=np.float32).reshape(1 << 10, 512)
    with counting(CompilationFinished) as compiled:
        for _ in range(2):
            x = pl.device_put(pl.device_put(large, over("x")), over(None, "y"))
    np.testing.assert_array_equal(x, large)
    assert (x.sharding, x.committed, compiled.count) == (over(None, "y"), True, 1)


def test_arrays_of_keys_are_made_of_parts():
    keys = pl.random.split(pl.random.key(0), 8)
    words = pl.random.key_data(keys)
    mesh = Mesh(np.array(pl.devices()[:8]), ("x",))
    sharding = NamedSharding(mesh, P("x"))
    parts = [pl.device_put(keys[i : i + 1], d) for i, d in enumerate(mesh.devices)]
    for x in (
        pl.make_array_from_callback((8,), sharding, lambda i: keys[i]),
        pl.make_array_from_callback((8,), sharding, lambda i: keys[i], dtype=keys.dtype),
        pl.make_array_from_single_device_arrays((8,), sharding, parts),
        pl.make_array_from_process_local_data(sharding, keys),
        pl.make_array_from_process_local_data(sharding, keys, (8,)),
    ):
        assert (x.shape, x.dtype, x.sharding) == ((8,), keys.dtype, sharding)
        np.testing.assert_array_equal(pl.random.key_data(x), words)
    with pytest.raises(ArgumentValueError, match="needed: key<fry>"):
        pl.make_array_from_callback((8,), sharding, lambda i: keys)


def test_traced_parts_and_layouts_of_the_compiler_are_refused(over):
    with pytest.raises(pl.errors.UnexpectedTracerError, match="make_array_from_callback"):
        pl.jit(lambda x: pl.make_array_from_callback((8,), over("x"), lambda i: x[i]))(np.ones(8))
    one = pl.sharding.SingleDeviceSharding(pl.devices()[0])
    with pytest.raises(ValueError, match="needs arrays on devices"):
        pl.jit(lambda x: pl.make_array_from_single_device_arrays((8,), one, [x]))(np.ones(8))
    with pytest.raises(TypeError, match="order of elements"):
        pl.make_array_from_callback((8,), Format(Layout.AUTO, over("x")), lambda i: np.ones(8)[i])
