"""device_put, device_get and their kin."""

import ml_dtypes
import numpy as np
import pytest

import pellucid
from pellucid._machine.base import config
from pellucid._machine.base.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    DeletedArrayError,
    IntegerRangeError,
    OutOfMemoryError,
)
from pellucid._machine.base.events import TransferFinished, counting
from pellucid._machine.base.tree import TreeStructureError
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.primitives.movement import broadcast_in_dim
from pellucid._machine.runtime import platforms
from pellucid._machine.runtime.memory import described_live_arrays, live_arrays, memory_of
from pellucid._machine.runtime.transfer import (
    block_until_ready,
    copy_to_host_async,
    device_get,
    device_put,
    device_put_replicated,
    device_put_sharded,
)
from pellucid._machine.sharding.errors import ShardingArgumentError
from pellucid._machine.sharding.layout import Format
from pellucid.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding


@pytest.fixture
def devices():
    return platforms.devices()


def over(devices, shape, names, *spec):
    return NamedSharding(Mesh(np.array(devices).reshape(shape), names), PartitionSpec(*spec))


def test_a_tree_keeps_its_structure():
    put = device_put({"a": 1, "b": (2.0, None, [True])})
    assert repr(put) == (
        "{'a': Array(1, dtype=int32, weak_type=True), "
        "'b': (Array(2., dtype=float32, weak_type=True), None, [Array(True, dtype=bool)])}"
    )


def test_devices_may_be_a_prefix_of_the_tree(devices):
    put = device_put({"a": 1, "b": (2, 3)}, {"a": devices[1], "b": devices[2]})
    assert [put["a"].device, put["b"][0].device, put["b"][1].device] == [
        devices[1],
        *devices[2:3] * 2,
    ]


def test_none_in_a_prefix_leaves_arrays_where_they_are(devices):
    x = device_put(np.ones(2, np.float32), devices[3])
    put = device_put([x, np.ones(1, np.float32)], [None, None])
    assert put[0] is x
    assert not put[1].committed


def test_only_a_stated_device_commits(devices):
    assert not device_put(1).committed
    assert device_put(1, devices[0]).committed
    assert device_put(device_put(1, devices[1])).device == devices[1]


def test_an_array_already_there_is_shared_unless_told_otherwise(devices):
    x = device_put(np.ones(4, np.float32))
    assert device_put(x) is x
    shared = device_put(x, devices[0])
    assert shared.committed
    assert shared.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    copy = device_put(x, devices[0], may_alias=False)
    assert copy.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()


@pytest.mark.parametrize("size", [64, 1 << 16, 1 << 20])
@pytest.mark.parametrize("offset", [0, 16], ids=["aligned", "not aligned"])
@pytest.mark.parametrize("spec", [("x",), ()], ids=["cut", "everywhere"])
def test_later_writes_to_a_host_array_show_nowhere(devices, size, offset, spec):
    memory = np.zeros(4 * size + 128, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    host = memory[start : start + 4 * size].view(np.float32)
    x = device_put(host, over(devices, 8, ("x",), *spec))
    host[:] = 7.0
    for shard in x.addressable_shards:
        np.testing.assert_array_equal(shard.data, 0.0)


def test_waiting_for_a_deleted_array_among_others_says_so(devices):
    live, gone = device_put(np.ones(2, np.float32)), device_put(np.ones(3, np.float32))
    gone.delete()
    with pytest.raises(DeletedArrayError, match=r"f32\[3\]"):
        block_until_ready([live, gone])


def test_donating_to_another_device_deletes_the_source(devices):
    x = device_put(np.arange(4, dtype=np.float32))
    moved = device_put(x, devices[1], donate=True)
    assert moved.tolist() == [0, 1, 2, 3]
    assert x.is_deleted()
    with pytest.raises(DeletedArrayError, match="was donated to `device_put`"):
        np.asarray(x)


def test_donating_to_the_same_device_shares(devices):
    x = device_put(np.arange(4, dtype=np.float32))
    assert device_put(x, devices[0], donate=True).tolist() == x.tolist()


def test_donate_and_may_alias_exclude_each_other():
    with pytest.raises(ArgumentValueError, match="can't both be True"):
        device_put(1.0, donate=True, may_alias=True)


def test_src_is_checked(devices):
    x = device_put(1.0, devices[1])
    assert device_put(x, devices[2], src=devices[1]).device == devices[2]
    with pytest.raises(ArgumentValueError, match="`src` is not where the array is"):
        device_put(x, devices[2], src=devices[3])


LAYOUTS = {
    "one device": lambda d: SingleDeviceSharding(d[2]),
    "rows": lambda d: over(d[:4], (4,), ("x",), "x"),
    "columns": lambda d: over(d[:4], (4,), ("x",), None, "x"),
    "both": lambda d: over(d[:4], (2, 2), ("x", "y"), "x", "y"),
    "partly replicated": lambda d: over(d[:4], (2, 2), ("x", "y"), "y"),
    "replicated": lambda d: over(d[:4], (4,), ("x",)),
    "other devices": lambda d: over(d[4:], (4,), ("x",), "x"),
    "all replicated": lambda d: over(d, (8,), ("x",)),
}


@pytest.mark.parametrize("start", LAYOUTS)
@pytest.mark.parametrize("end", LAYOUTS)
def test_every_placement_can_become_every_other(start, end, devices):
    values = np.arange(32, dtype=np.float32).reshape(4, 8)
    first, last = LAYOUTS[start](devices), LAYOUTS[end](devices)
    x = device_put(device_put(values, first), last)
    assert x.sharding == last
    assert (np.asarray(x) == values).all()
    for shard in x.addressable_shards:
        assert (np.asarray(shard.data) == values[shard.index]).all()
        assert shard.data.devices() == {shard.device}


@pytest.mark.parametrize("kind", ["pinned_host", "unpinned_host", "device"])
def test_memory_kinds(kind, devices):
    x = device_put(np.ones(3, np.float32))
    there = device_put(x, SingleDeviceSharding(devices[0], memory_kind=kind))
    assert there.sharding.memory_kind == kind
    assert there.tolist() == [1, 1, 1]
    assert device_put(there, devices[1]).sharding.memory_kind == "device"


def test_a_format_without_layout_is_its_sharding(devices):
    sharding = SingleDeviceSharding(devices[1])
    assert device_put(1.0, Format(None, sharding)).device == devices[1]


def test_what_is_no_place_is_refused():
    with pytest.raises(ShardingArgumentError, match="needs a device, a sharding, a format or None"):
        device_put(1, "cpu")
    with pytest.raises(TreeStructureError, match="expected dict with keys 'b'"):
        device_put({"a": 1}, {"b": platforms.devices()[0]})


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"w": [1, "a"]}, r'x\["w"\]\[1\]: str'),
        ([np.array(["a"])], r"x\[0\]: ndarray of dtype <U1"),
        (np.array([None]), "x: ndarray of dtype object"),
        (np.datetime64(0, "s"), "x: datetime64 of dtype datetime64"),
        (object(), "x: object"),
    ],
)
def test_leaves_that_are_no_arrays_are_named(value, shown):
    with pytest.raises(ArgumentTypeError, match=shown):
        device_put(value)


def test_a_python_integer_must_fit():
    for function in (device_put, jit(lambda x: x)):
        with pytest.raises(IntegerRangeError, match="1099511627776; int32 holds"):
            function(2**40)
        assert function(2**31 - 1).tolist() == 2**31 - 1


def test_a_python_integer_must_fit_on_the_call_path_too():
    function = jit(lambda x: x)
    assert function(1).tolist() == 1
    assert function(2).tolist() == 2
    with pytest.raises(OverflowError, match=r"x: 2199023255552; int32 holds"):
        function(2**41)
    assert function(3).tolist() == 3


def test_64_bits_are_kept_when_they_are_on():
    with config.enable_x64(True):
        assert device_put(2**40).tolist() == 2**40
        assert device_put(np.array([1.5])).dtype == np.float64
        with pytest.raises(IntegerRangeError, match="too large for int64"):
            device_put(2**80)
    assert device_put(np.array([2**40 + 5])).tolist() == [5]


@pytest.mark.parametrize("dtype", ["float64", "int64", "uint64", "complex128"])
def test_64_bits_are_halved_when_they_are_off(dtype):
    assert device_put(np.ones(2, dtype)).dtype.itemsize * 2 == np.dtype(dtype).itemsize


@pytest.mark.parametrize("name", ["bfloat16", "int4", "uint2", "float8_e4m3fn", "float4_e2m1fn"])
def test_small_dtypes_travel_both_ways(name):
    values = np.array([0, 1, 1, 0]).astype(getattr(ml_dtypes, name))
    back = np.asarray(device_put(values))
    assert back.dtype == values.dtype
    assert back.tolist() == values.tolist()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1, 1)])
def test_odd_shapes(shape, devices):
    x = device_put(np.zeros(shape, np.float32), devices[1])
    assert device_put(x, devices[2]).shape == shape
    assert np.asarray(x).shape == shape


def test_odd_memory_orders():
    values = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    for view in (
        values.T,
        values[:, ::-1],
        values[::2],
        np.asfortranarray(values),
        values.astype(">i4").astype("<i4"),
    ):
        assert (np.asarray(device_put(view)) == view).all()


def test_device_get_leaves_traced_values_as_they_are():
    def f(x, y):
        got = device_get({"x": x, "y": y})
        assert got["x"] is x
        return got["x"] + got["y"]

    assert jit(f)(1.0, 2.0) == 3.0
    assert pellucid.grad(f)(1.0, 2.0) == 1.0


def test_device_get_takes_any_leaf():
    x = device_put(np.arange(2, dtype=np.float32))
    got = device_get({"a": x, "b": 1, "c": "text", "d": np.ones(1)})
    assert type(got["a"]) is np.ndarray
    assert got["a"].tolist() == [0, 1]
    assert (got["b"], got["c"]) == (1, "text")


def test_waiting_and_fetching_take_any_leaf():
    tree = {"a": device_put(1.0), "b": 3, "c": "s"}
    assert block_until_ready(tree) is tree
    assert copy_to_host_async(tree) is tree


def test_one_shard_for_each_device(devices):
    shards = [{"w": np.full(3, i, np.float32)} for i in range(4)]
    x = device_put_sharded(shards, devices[:4])["w"]
    assert x.shape == (4, 3)
    assert [s.device for s in x.addressable_shards] == devices[:4]
    assert np.asarray(x)[:, 0].tolist() == [0, 1, 2, 3]
    with pytest.raises(ArgumentValueError, match="3 shards, 4 devices"):
        device_put_sharded(shards[:3], devices[:4])
    with pytest.raises(ArgumentValueError, match="one shape and dtype"):
        device_put_sharded([np.ones(1), np.ones(2)], devices[:2])
    with pytest.raises(ArgumentTypeError, match="sequence of shards"):
        device_put_sharded({"w": 1}, devices[:1])


def test_a_copy_for_each_device(devices):
    x = device_put_replicated([1.5, np.ones((2,), np.int32)], devices[:3])
    assert [a.shape for a in x] == [(3,), (3, 2)]
    assert x[0].tolist() == [1.5] * 3
    with pytest.raises(ArgumentValueError, match="at least one device"):
        device_put_replicated(1.0, [])


def test_the_default_device_is_of_the_thread(devices):
    with config.default_device(devices[2]):
        assert device_put(1).device == devices[2]
        assert jit(lambda: broadcast_in_dim(np.float32(1), (2,), ()))().device == devices[2]
    with config.default_device("cpu"):
        assert device_put(1).device == devices[0]
    with pytest.raises(ValueError, match=r"expected a device, a platform's name \(.*\) or None"):
        config.default_device(3).__enter__()


def test_transfers_are_published_with_their_seconds(devices):
    with counting(TransferFinished) as seen:
        x = device_put(np.ones(1 << 16, np.float32))
        y = device_put(x, devices[1])
        np.asarray(y._value)
    assert [(e.direction, e.n_bytes) for e in seen.events] == [
        ("host_to_device", 1 << 18), ("device_to_device", 1 << 18), ("device_to_host", 1 << 18),
    ]  # fmt: skip
    assert all(0 < e.seconds < 5 for e in seen.events)


def test_live_arrays_are_listed_with_what_they_hold(devices):
    x = device_put(np.ones((1000, 37), np.float32))
    assert any(y is x for y in live_arrays())
    [actual] = [live for live in described_live_arrays() if live.array is x]
    assert (actual.type, actual.n_bytes) == ("f32[1000,37]", 148000)
    assert actual.device_bytes == {devices[0]: 148000}
    assert "test_transfer.py" in actual.source
    x.delete()
    assert not any(y is x for y in live_arrays())


def test_replicated_arrays_count_on_each_device(devices):
    x = device_put(np.ones(1000, np.float32), over(devices[:2], (2,), ("x",)))
    [actual] = [live for live in described_live_arrays() if live.array is x]
    assert actual.n_bytes == 8000
    assert actual.device_bytes == dict.fromkeys(devices[:2], 4000)


def test_memory_of_a_device_without_statistics_is_what_arrays_hold(devices):
    before = memory_of(devices[5])
    x = device_put(np.ones(1000, np.float32), devices[5])
    after = memory_of(devices[5])
    assert after.in_use_bytes - before.in_use_bytes == x.nbytes
    assert not after.is_measured
    assert (after.peak_bytes, after.limit_bytes) == (None, None)


def test_out_of_memory_names_the_function_that_was_called():
    for function in (pellucid.numpy.zeros, pellucid.numpy.ones):
        with pytest.raises(OutOfMemoryError, match=f"^`{function.__name__}` needs more memory"):
            function((1 << 45,))


def test_out_of_memory_names_the_largest_live_arrays():
    big = device_put(np.ones((1 << 20,), np.float32))
    function = jit(lambda x: broadcast_in_dim(x, (1 << 40,), ()))
    for _ in range(2):
        with pytest.raises(OutOfMemoryError) as caught:
            function(np.float32(1))
        text = str(caught.value)
        assert "needs more memory than the device has" in text
        assert "allocating 4 TiB" in text
        assert "live: f32[1048576], 4 MiB, made in test_transfer.py" in text
    assert isinstance(caught.value, MemoryError)
    assert big.tolist()[0] == 1


@pytest.mark.parametrize(
    "value",
    [
        np.arange(1 << 20, dtype=np.float32).reshape(1024, 1024),
        np.asfortranarray(np.arange(1 << 16, dtype=np.float32).reshape(256, 256)),
        np.arange(1 << 16, dtype=np.float32).reshape(256, 256)[::2, ::-1],
        np.arange(1 << 17, dtype=np.int8).reshape(512, 256),
    ],
    ids=["rows", "columns", "strides", "bytes"],
)
@pytest.mark.parametrize("spec", [("x", "y"), (("x", "y"),), (None, "x"), ()], ids=str)
def test_large_host_arrays_are_copied_however_they_are_cut(value, spec, devices):
    mesh = Mesh(np.array(devices[:8]).reshape(4, 2), ("x", "y"))
    inputs = value.copy(order="K")
    placed = device_put(inputs, NamedSharding(mesh, PartitionSpec(*spec)))
    inputs[...] = 0
    np.testing.assert_array_equal(placed, value)
