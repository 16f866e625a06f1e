"""Attributes and texts of arrays, and their conversions."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest
from corpus import arrays as corpus

import pellucid as pl
from pellucid._machine.base.errors import (
    ArrayConversionError,
    DeletedArrayError,
    IndexingError,
    UnsupportedError,
)
from pellucid._machine.runtime import platforms
from pellucid._machine.runtime.array import ArrayImpl
from pellucid._machine.runtime.transfer import device_put
from pellucid._machine.sharding.layout import Format, Layout
from pellucid.sharding import Mesh, NamedSharding, PartitionSpec


@pytest.fixture
def devices():
    return platforms.devices()


@pytest.fixture
def sharded(devices):
    mesh = Mesh(np.array(devices[:4]), ("x",))
    return device_put(np.arange(8, dtype=np.float32), NamedSharding(mesh, PartitionSpec("x")))


@pytest.fixture
def halves(devices):
    """An array cut over one mesh axis and replicated over the other."""
    mesh = Mesh(np.array(devices[:4]).reshape(2, 2), ("x", "y"))
    return device_put(np.arange(4, dtype=np.int32), NamedSharding(mesh, PartitionSpec("x")))


@pytest.mark.oracle
def test_texts_are_the_reference_s(oracle):
    assert corpus.texts_of(device_put) == oracle.call(corpus.texts)


@pytest.mark.oracle
def test_conversions_are_the_reference_s(oracle):
    ours = corpus.conversions_of(device_put)
    for (actual, classes), (expected, reference) in zip(
        ours, oracle.call(corpus.conversions), strict=True
    ):
        assert actual == expected
        # Our errors inherit the builtin that the reference raises.
        assert not reference or reference[0] in classes, actual


def test_a_weakly_typed_array_says_so():
    assert repr(device_put(1.5)) == "Array(1.5, dtype=float32, weak_type=True)"


def test_shards_say_where_they_are(sharded, devices):
    shards = sharded.addressable_shards
    assert [s.device for s in shards] == devices[:4]
    assert [s.index for s in shards] == [(slice(i, i + 2, None),) for i in range(0, 8, 2)]
    assert [s.data.tolist() for s in shards] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert repr(shards[1]) == (
        f"Shard(device={devices[1]!r}, index=(slice(2, 4, None),), replica_id=0, data=[2. 3.])"
    )
    assert [s.device for s in sharded.global_shards] == devices[:4]


def test_replicas_are_numbered(halves):
    assert [s.replica_id for s in halves.addressable_shards] == [0, 1, 0, 1]


def test_a_shard_is_an_array_with_a_type(sharded):
    data = sharded.addressable_data(1)
    assert (data.shape, data.dtype, data.tolist()) == ((2,), np.float32, [2.0, 3.0])


def test_a_shard_that_is_not_there_is_refused(sharded):
    with pytest.raises(IndexingError, match="there is no shard 4"):
        sharded.addressable_data(4)


def test_place_of_an_array(sharded, devices):
    single = device_put(np.ones(3, np.float32))
    assert single.device == devices[0]
    assert single.devices() == {devices[0]}
    assert not single.committed
    assert sharded.device is sharded.sharding
    assert sharded.devices() == set(devices[:4])
    assert sharded.committed
    assert sharded.is_fully_addressable
    assert not sharded.is_fully_replicated


def test_format_is_layout_and_sharding(sharded):
    assert sharded.format == Format(Layout((0,), (), 0), sharded.sharding)


def test_sizes_count_all_shards(sharded, halves):
    assert (sharded.nbytes, sharded.on_device_size_in_bytes()) == (32, 32)
    assert (halves.nbytes, halves.on_device_size_in_bytes()) == (16, 32)


def test_a_sharded_array_becomes_one_numpy_array(sharded, halves):
    assert np.asarray(sharded).tolist() == list(range(8))
    assert np.asarray(halves).tolist() == list(range(4))
    assert not np.asarray(sharded).flags.writeable


def test_a_copy_keeps_its_place_and_has_memory_of_its_own(sharded):
    for copied in (copy.copy(sharded), copy.deepcopy(sharded)):
        assert copied.sharding == sharded.sharding
        assert copied.aval is sharded.aval
        copied.delete()
    assert sharded.tolist() == list(range(8))


def test_a_clone_shares_memory():
    x = device_put(np.ones(3, np.float32))
    assert x.clone().unsafe_buffer_pointer() == x.unsafe_buffer_pointer()


def test_pickles_keep_values_and_weak_types(sharded):
    assert pickle.loads(pickle.dumps(sharded)).tolist() == list(range(8))
    assert pickle.loads(pickle.dumps(device_put(1.5))).weak_type


def test_arrays_can_be_referred_to_weakly():
    x = device_put(np.ones(3, np.float32))
    reference = weakref.ref(x)
    del x
    gc.collect()
    assert reference() is None


def test_an_array_is_ready_and_stays_itself():
    x = device_put(np.ones(3, np.float32))
    assert x.block_until_ready() is x
    assert x.is_ready()


def test_to_device_moves(devices):
    moved = device_put(np.ones(3, np.float32)).to_device(devices[2])
    assert moved.device == devices[2]
    with pytest.raises(UnsupportedError, match="takes no stream"):
        moved.to_device(devices[1], stream=1)


def test_a_deleted_array_still_has_a_type():
    x = device_put(np.ones(3, np.float32))
    x.delete()
    x.delete()
    assert x.is_deleted()
    assert (x.shape, x.dtype, x.nbytes) == ((3,), np.float32, 12)
    assert repr(x) == str(x) == "Array(shape=(3,), dtype=float32, deleted)"


USES = {
    "numpy": np.asarray,
    "device": lambda x: x.device,
    "devices": lambda x: x.devices(),
    "format": lambda x: x.format,
    "wait": lambda x: x.block_until_ready(),
    "ready": lambda x: x.is_ready(),
    "platform": lambda x: x.platform(),
    "clone": lambda x: x.clone(),
    "copy": copy.copy,
    "size": lambda x: x.on_device_size_in_bytes(),
    "pointer": lambda x: x.unsafe_buffer_pointer(),
    "to host": lambda x: x.copy_to_host_async(),
    "shards": lambda x: x.addressable_shards,
    "shard": lambda x: x.addressable_data(0),
    "dlpack": lambda x: x.__dlpack__(),
    "dlpack device": lambda x: x.__dlpack_device__(),
    "item": lambda x: x.item(),
    "bool": bool,
    "pickle": pickle.dumps,
    "put": device_put,
    "to_device": lambda x: x.to_device(platforms.devices()[1]),
    "replicated shard": lambda x: x._fully_replicated_shard(),
}


@pytest.mark.parametrize("use", USES)
def test_no_use_of_a_deleted_array_ends_the_process(use):
    x = device_put(np.ones(1, np.float32))
    x.delete()
    with pytest.raises(DeletedArrayError, match=r"an array of type f32\[1\] was deleted"):
        USES[use](x)


@pytest.mark.parametrize("use", USES)
def test_no_use_of_a_deleted_sharded_array_ends_the_process(use, sharded):
    sharded.delete()
    with pytest.raises((DeletedArrayError, ArrayConversionError)):
        USES[use](sharded)


def test_the_buffer_protocol_reads_without_a_copy():
    x = device_put(np.arange(3, dtype=np.int32))
    view = np.asarray(memoryview(x))
    assert view.ctypes.data == x.unsafe_buffer_pointer()
    del view


def test_every_attribute_that_the_class_was_given_has_a_docstring():
    names = (
        "addressable_shards", "global_shards", "format", "device", "devices", "committed", "itemsize",
        "block_until_ready", "is_ready", "platform", "copy_to_host_async", "item", "tolist", "tobytes",
        "unsafe_buffer_pointer", "on_device_size_in_bytes", "addressable_data", "to_device",
    )  # fmt: skip
    for name in names:
        member = ArrayImpl.__dict__[name]
        documented = member.fget if isinstance(member, property) else member
        assert documented.__doc__, name


@pytest.mark.parametrize("size", [(), (3,), (100_000,)])
@pytest.mark.parametrize(
    "read",
    [np.asarray, repr, str, pl.device_get, lambda x: x.tolist(), lambda x: x.sum().item(), lambda x: x._value],
    ids=["asarray", "repr", "str", "device_get", "tolist", "item", "value"],
)  # fmt: skip
def test_what_was_read_goes_with_its_array(size, read):
    array = pl.device_put(np.zeros(size, np.float32))
    remaining = weakref.ref(array)
    read(array)
    del array
    gc.collect()
    assert remaining() is None
