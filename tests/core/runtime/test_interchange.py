"""DLPack, both ways."""

import ml_dtypes
import numpy as np
import pytest

from pellucid import jit
from pellucid._machine.base import config
from pellucid._machine.base.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    DeletedArrayError,
    DeviceError,
    PlatformError,
)
from pellucid._machine.runtime import platforms
from pellucid._machine.runtime.interchange import DLPackError, from_dlpack, is_supported_dtype
from pellucid._machine.runtime.transfer import device_put
from pellucid.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

DTYPES = ("bool", "int8", "int16", "int32", "uint8", "uint32", "float16", "float32", "complex64")


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_reads_our_memory(dtype):
    x = device_put(np.array([[1, 0], [1, 1]], dtype))
    view = np.from_dlpack(x)
    assert view.dtype == dtype
    assert view.tolist() == x.tolist()
    assert view.ctypes.data == x.unsafe_buffer_pointer()


@pytest.mark.parametrize("dtype", DTYPES)
def test_we_read_numpy_s_memory(dtype):
    values = np.array([[1, 0], [1, 1]], dtype)
    x = from_dlpack(values)
    assert (x.shape, x.dtype, x.weak_type) == (values.shape, values.dtype, False)
    assert x.tolist() == values.tolist()


def test_our_own_arrays_share_memory():
    x = device_put(np.arange(16, dtype=np.float32))
    y = from_dlpack(x)
    assert y.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    assert from_dlpack(x, copy=True).unsafe_buffer_pointer() != x.unsafe_buffer_pointer()
    y.delete()
    assert x.tolist() == list(range(16))


def test_exported_memory_is_not_deleted_under_its_holder():
    devices = platforms.devices()
    x = device_put(np.arange(16, dtype=np.float32))
    alias, clone = device_put(x, devices[0]), x.clone()
    view = np.from_dlpack(x)
    for array in (x, alias, clone):
        with pytest.raises(DeviceError, match="shared through DLPack can't be deleted"):
            array.delete()
    moved = device_put(x, devices[1], donate=True)
    assert not x.is_deleted()
    assert moved.tolist() == view.tolist() == list(range(16))


def test_memory_that_its_holder_has_dropped_is_donated():
    x = device_put(np.arange(16, dtype=np.float32))
    np.from_dlpack(x)
    jit(lambda x: x + 1, donate_argnums=0)(x)
    with pytest.raises(DeletedArrayError, match="was donated to"):
        jit(lambda x: x * 2)(x)


def test_bfloat16_travels_between_our_arrays():
    x = device_put(np.ones(3, ml_dtypes.bfloat16))
    assert from_dlpack(x).dtype == ml_dtypes.bfloat16


def test_strided_memory_is_read():
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert from_dlpack(values.T).tolist() == values.T.tolist()


def test_64_bits_are_copied_where_they_are_off():
    with config.enable_x64(True):
        wide = device_put(np.arange(3, dtype=np.float64))
        assert from_dlpack(wide).dtype == np.float64
    assert from_dlpack(wide).dtype == np.float32
    with pytest.raises(DLPackError, match="needs 64 bits"):
        from_dlpack(wide, copy=False)


def test_another_device_is_a_copy():
    device = platforms.devices()[2]
    values = np.arange(3, dtype=np.float32)
    assert from_dlpack(values, device).device == device
    assert from_dlpack(values, SingleDeviceSharding(device)).device == device
    with pytest.raises(DLPackError, match="without a copy"):
        from_dlpack(values, device, copy=False)


def test_a_capsule_may_be_asked_to_be_a_copy():
    x = device_put(np.arange(16, dtype=np.float32))
    copied = np.from_dlpack(x, copy=True)
    assert copied.ctypes.data != x.unsafe_buffer_pointer()
    assert np.from_dlpack(x, device="cpu", copy=False).ctypes.data == x.unsafe_buffer_pointer()


def test_what_can_t_be_shared_is_refused():
    devices = platforms.devices()
    mesh = Mesh(np.array(devices[:2]), ("x",))
    sharded = device_put(np.ones(4, np.float32), NamedSharding(mesh, PartitionSpec("x")))
    with pytest.raises(BufferError, match=r"this one, f32\[4\], is on 2"):
        np.from_dlpack(sharded)
    with pytest.raises(DLPackError, match="dtype int4"):
        device_put(np.ones(2, ml_dtypes.int4)).__dlpack__()
    with pytest.raises(PlatformError, match="platform 'cuda' is not available"):
        device_put(1.0).__dlpack__(dl_device=(2, 0))
    with pytest.raises(DLPackError, match="device type 99"):
        device_put(1.0).__dlpack__(dl_device=(99, 0))
    with pytest.raises(ArgumentTypeError, match="with the methods `__dlpack__`"):
        from_dlpack([1, 2])
    with pytest.raises(ArgumentValueError, match="one device"):
        from_dlpack(np.ones(2, np.float32), sharded.sharding)
    with pytest.raises(BufferError):
        from_dlpack(np.array(["a"], dtype=object))


def test_supported_dtypes():
    assert [is_supported_dtype(d) for d in ("float32", "bool", "complex64", "int64")] == [True] * 4
    assert not is_supported_dtype(ml_dtypes.float8_e4m3fn)


def test_the_shared_memory_outlives_its_first_owner():
    def make():
        return from_dlpack(np.arange(1000, dtype=np.int32))

    x = make()
    np.full(1000, 7, np.int32)
    assert x.tolist() == list(range(1000))
