"""DLPack: arrays of other libraries over the same memory, in both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pellucid._machine.base import ArgumentTypeError, ArgumentValueError, dtypes
from pellucid._machine.sharding import make_single_device_sharding
from pellucid._machine.tracing import refuse_masked_array
from pellucid._machine.xla import Device, JaxRuntimeError, arrays, extend

from . import platforms
from .array import ArrayImpl, check_not_deleted, shared_memory_of
from .transfer import copy_array, device_put

_CPU, _CUDA, _CUDA_HOST, _ROCM = 1, 2, 3, 10  # DLDeviceType
_PLATFORM_OF = {_CPU: "cpu", _CUDA: "cuda", _CUDA_HOST: "cpu", _ROCM: "rocm"}
_TYPE_OF = {"cpu": _CPU, "cuda": _CUDA, "rocm": _ROCM}
_SUPPORTED_KINDS = "biufc"


class DLPackError(BufferError, ValueError):
    """An array can't be shared through DLPack as requested."""


def is_supported_dtype(dtype: Any) -> bool:
    """Whether arrays of `dtype` can be shared through DLPack.

    >>> is_supported_dtype("bfloat16"), is_supported_dtype("int4")
    (True, False)
    """
    if isinstance(dtype, dtypes.ExtendedDType):
        return False
    dtype = np.dtype(dtype)
    return dtype.name == "bfloat16" or (dtype.isbuiltin == 1 and dtype.kind in _SUPPORTED_KINDS)


def _device_of(array: ArrayImpl) -> Device:
    devices = array._sharding._internal_device_list
    if len(devices) != 1:
        raise DLPackError(
            f"DLPack shares arrays on one device; this one, {array.aval.text()}, is on {len(devices)}. "
            "Share its `addressable_shards` one by one."
        )
    return devices[0]


def _device_for(kind: int, index: int) -> Device:
    platform = _PLATFORM_OF.get(kind)
    if platform is None:
        raise DLPackError(f"DLPack's device type {kind} is no platform that arrays can be on.")
    devices = platforms.client(platform).local_devices()
    if platform == "cpu":
        return devices[0]
    for device in devices:
        if device.local_hardware_id == index:
            return device
    raise DLPackError(f"there is no {platform} device {index}.")


def from_dlpack(external_array: Any, device: Any = None, copy: bool | None = None) -> Any:
    """An array over the memory of another library's array, which must not be written to any more.

    The memory is copied if `device` (a device or a sharding of one) is another one, if `copy` is True, or
    where it can't be read as it is (64 bits while they are off).

    Raises: ArgumentTypeError for an object without DLPack's methods; DLPackError for memory that can't be
    shared, or only by a copy where `copy` is False.

    >>> from_dlpack(np.arange(3, dtype=np.int32))
    Array([0, 1, 2], dtype=int32)
    """
    if not (hasattr(external_array, "__dlpack__") and hasattr(external_array, "__dlpack_device__")):
        raise ArgumentTypeError(
            "from_dlpack needs an array with the methods `__dlpack__` and `__dlpack_device__`.",
            got=f"external_array: {type(external_array).__name__}",
        )
    if isinstance(external_array, np.ma.MaskedArray):
        refuse_masked_array(external_array)
    target = _single_device(device)
    kind, index = external_array.__dlpack_device__()
    source = _device_for(int(kind), int(index))
    stays = target is None or target is source
    if copy is False and not stays:
        raise DLPackError(f"an array on {source} can't be on {target} without a copy.")
    try:
        capsule = external_array.__dlpack__()
        array = arrays.from_dlpack(capsule, source, None, False if copy is False else None)
    except JaxRuntimeError as error:
        raise DLPackError(f"the memory can't be shared: {str(error).splitlines()[0]}") from None
    array = _canonical(array, may_copy=copy is not False)
    if not stays:
        return device_put(array, target)
    # jaxlib's `copy=True` shares the memory nevertheless.
    return copy_array(array) if copy else array


def _single_device(device) -> Device | None:
    if not hasattr(device, "device_set"):
        return device
    if len(device.device_set) != 1:
        raise ArgumentValueError(
            "from_dlpack makes an array on one device.", got=f"device: {device}"
        )
    [only] = device.device_set
    return only


def _canonical(array: ArrayImpl, *, may_copy: bool) -> ArrayImpl:
    """`array`, with 32 bits if 64 are disabled."""
    dtype = dtypes.canonicalize(array.dtype)
    if dtype == array.dtype:
        sharding = make_single_device_sharding(_device_of(array))
        return arrays.rewrap(array, array.aval, sharding)
    if not may_copy:
        raise DLPackError(
            f"{array.dtype} needs 64 bits, which are off; reading it as {dtype} is a copy."
        )
    return device_put(np.asarray(array._value).astype(dtype), _device_of(array))


class _Methods(ArrayImpl if TYPE_CHECKING else object):
    """Attributes of arrays with which other libraries share their memory."""

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's (device type, device number) of the array."""
        check_not_deleted(self)
        device = _device_of(self)
        platform = platforms.platform_of(device.client)
        kind = _TYPE_OF.get(platform)
        if kind is None:
            raise DLPackError(f"DLPack has no number for platform {platform!r}.")
        return kind, 0 if kind == _CPU else device.local_hardware_id

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule over the array's memory, for `from_dlpack` of another library.

        `dl_device` asks for memory of a certain device; `copy` True for memory of its own, False for none.
        """
        array, here = self, self.__dlpack_device__()
        if not is_supported_dtype(array.dtype):
            raise DLPackError(f"DLPack can't describe arrays of dtype {array.dtype}.")
        target = here if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
        if target != here:
            if copy is False:
                raise DLPackError(
                    f"an array on device {here} can't be on device {target} without a copy."
                )
            array = device_put(array, _device_for(*target))
        elif copy:
            array = copy_array(array)
        else:
            shared_memory_of(array).is_exported = True
        return arrays.to_dlpack(
            array, stream, max_version=max_version, copied=bool(copy) or target != here
        )


extend(ArrayImpl, _Methods)
