"""jaxlib's array class, transfers and guards, with one interface for every supported release."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxlib import _jax

from .shardings import Device, DeviceLayout, DeviceList

if TYPE_CHECKING:

    class Array:  # noqa: PLW1641  (arrays compare by element)
        """An array or a tracer, with the operators of NumPy arrays."""

        shape: tuple[int, ...]
        dtype: np.dtype
        ndim: int
        size: int
        nbytes: int

        def __getattr__(self, name: str) -> Any: ...
        def __getitem__(self, index: Any) -> Array: ...
        def __iter__(self) -> Iterator[Array]: ...
        def __len__(self) -> int: ...
        def __bool__(self) -> bool: ...
        def __int__(self) -> int: ...
        def __index__(self) -> int: ...
        def __float__(self) -> float: ...
        def __complex__(self) -> complex: ...
        def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray: ...
        def __buffer__(self, flags: int, /) -> memoryview: ...
        def __neg__(self) -> Array: ...

        __pos__ = __abs__ = __invert__ = __neg__

        def __add__(self, other: Any, /) -> Array: ...

        __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __add__
        __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __add__
        __matmul__ = __rmatmul__ = __and__ = __rand__ = __or__ = __ror__ = __xor__ = __add__
        __rxor__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __add__
        __lt__ = __le__ = __gt__ = __ge__ = __add__

        def __eq__(self, other: Any, /) -> Array: ...
        def __ne__(self, other: Any, /) -> Array: ...
        def __divmod__(self, other: Any, /) -> tuple[Array, Array]: ...

        __rdivmod__ = __divmod__

    class ArrayImpl(Array):
        """An array on devices. Other packages add its remaining attributes."""

        aval: Any
        """Type of the array, a ShapedArray."""
        _sharding: Any
        """Its Sharding, a C++ class whose methods are added by `pellucid.sharding`."""
        _committed: bool
        _arrays: list[ArrayImpl]
        _npy_value: np.ndarray | None
        """Contents on the host, cached after the first read."""
        _pjrt_layout: DeviceLayout
        traceback: Any
        weak_type: bool
        _taken_by: Any
        """The function to which its buffer was donated."""
        _memory: Any
        """Facts about its memory, which other arrays may share; made on first use."""

        def is_deleted(self) -> bool: ...
        def is_ready(self) -> bool: ...
        def block_until_ready(self) -> ArrayImpl: ...
        def delete(self) -> None: ...
        def clone(self) -> ArrayImpl: ...
        def platform(self) -> str: ...
        def on_device_size_in_bytes(self) -> int: ...
        def unsafe_buffer_pointer(self) -> int: ...

else:
    Array = _jax.Array
    Array.__module__, Array.__name__, Array.__qualname__ = "pellucid", "Array", "Array"
    Array.__doc__ = """An array or a tracer: the class for `isinstance` and annotations, with the methods that both have.

    >>> isinstance(jnp.ones(2), pl.Array), pl.Array.sum(jnp.ones(2))
    (True, Array(2., dtype=float32))
    """
    ArrayImpl = _jax.ArrayImpl
HostBufferSemantics = _jax.HostBufferSemantics
set_tracer_class: Callable[[type], None] = _jax.set_tracer_class


class ExtendedArray(_jax.Array):
    """An array of an extended dtype: the elements of `words`, an array of its base dtype, interpreted by `aval`.

    It is a separate class because the C++ call path only compares arrays by shape and base dtype. Its attributes are in
    `runtime.extended`. `uses` are the records of keys followed by `debug_key_reuse`.

    >>> isinstance(pl.random.key(0), ExtendedArray)
    True
    """

    __slots__ = ("aval", "uses", "words", "__weakref__")

    def __init__(self, aval: Any, words: Any) -> None:
        self.aval = aval
        self.uses: Any = None
        self.words = words


ARRAY_TYPES = frozenset((ArrayImpl, ExtendedArray))
"""Types of values on devices."""


def put(
    aval: Any,
    sharding: Any,
    shards: Sequence[Any],
    devices: Sequence[Device],
    committed: bool,
    *,
    may_alias: bool = False,
) -> ArrayImpl:
    """An array made of one host or device shard per device; host data is copied, unless it `may_alias`.

    jaxlib would alias an aligned host array, so that later writes to it would show. With its option to always copy, it
    fails (bad_function_call) if shards share memory. So if there are several shards, those that it could alias are
    copied here to memory that it then aliases; it copies other large ones in threads, which this function waits for.
    """
    if len(shards) > 1:
        copies = shards if may_alias else _own_copies(shards)
        result = _jax.batched_device_put(
            aval, sharding, copies, devices, committed, enable_x64=True
        )
        if not may_alias and any(
            isinstance(x, np.ndarray) and x is copy for x, copy in zip(shards, copies, strict=True)
        ):
            result.block_until_ready()
        return result
    return put_one(aval, sharding, shards, devices, committed)


put_one: Any = functools.partial(
    _jax.batched_device_put,
    host_buffer_semantics=HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL,
    enable_x64=True,
)
"""`put` for a single shard, without a Python frame: (aval, sharding, [shard], [device], committed)."""


_ALIGNMENT = 64
"""Alignment in bytes of host memory that a device can use directly."""

LARGE = 1 << 16
"""Minimum number of bytes for which an additional copy costs more than avoiding it."""

_WORTH_THREADS = 1 << 22
"""Minimum number of bytes to copy in several threads."""


def _own_copies(shards: Sequence[Any]) -> list[Any]:
    """`shards` with NumPy arrays copied, except those that jaxlib copies itself."""
    if sum(x.nbytes for x in shards if not _is_copied_anyway(x)) < _WORTH_THREADS:
        return list(map(_own_copy, shards))
    with ThreadPoolExecutor(min(len(shards), os.cpu_count() or 1)) as threads:
        return list(threads.map(_own_copy, shards))


def _is_copied_anyway(x: Any) -> bool:
    """Whether `x` is no host array, or a large one that jaxlib can't alias: strided or unaligned."""
    return not isinstance(x, np.ndarray) or (
        x.nbytes >= LARGE and bool(not x.flags.forc or x.ctypes.data % _ALIGNMENT)
    )


def _own_copy(x: Any) -> Any:
    if _is_copied_anyway(x):
        return x
    if x.nbytes < LARGE:
        return np.array(x)
    memory = np.empty(x.nbytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    copy = memory[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
    np.copyto(copy, x)
    return copy


def assemble(aval: Any, sharding: Any, shards: Sequence[ArrayImpl], committed: bool) -> ArrayImpl:
    """An array from single-device arrays in the order of the sharding's devices."""
    return _jax.ArrayImpl(aval, sharding, list(shards), committed, _skip_checks=True)


def rewrap(array: ArrayImpl, aval: Any, sharding: Any) -> ArrayImpl:
    """The same buffers as `array` with another aval and sharding."""
    return array._rewrap_with_aval_and_sharding(aval, sharding)


def shards_of(array: ArrayImpl) -> list[ArrayImpl]:
    """The single-device arrays of this process's shards."""
    return array._arrays


def copy_to_devices(array: ArrayImpl, devices: DeviceList, sharding: Any) -> ArrayImpl:
    """A copy of `array` on other devices or memories, shard by shard.

    jaxlib's donating variant leaves the source in a state in which reading it crashes, so this copies; a caller that
    donates deletes the source afterwards.
    """
    [copied] = _jax.batched_copy_array_to_devices_with_sharding(
        [array], [devices], [sharding], [_jax.ArrayCopySemantics.ALWAYS_COPY]
    )
    return copied


_to_numpy: Any = getattr(
    ArrayImpl, "_to_np_array_did_copy", getattr(ArrayImpl, "_single_device_array_to_np_array_did_copy", None)
)  # fmt: skip


_SMALL_BYTES = 1024


def single_device_to_numpy(array: ArrayImpl) -> np.ndarray:
    """A read-only NumPy view or copy of a single-device array, which doesn't keep the array itself alive.

    A small one is copied: jaxlib's own function tries to import `jax` in each call (14 us).
    """
    if array.nbytes <= _SMALL_BYTES:
        with contextlib.suppress(BufferError):  # on another device, or of a dtype that NumPy lacks
            return np.array(memoryview(array))  # type: ignore[arg-type]
    return _to_numpy(array)[0]


def wait_for(arrays: Sequence[ArrayImpl]) -> None:
    """Waits until several arrays are computed; raises JaxRuntimeError for deleted ones."""
    _jax.batched_block_until_ready(arrays)


def copy_to_host_async(array: ArrayImpl) -> None:
    """Starts copying the shards of `array` to the host."""
    for shard in shards_of(array):
        shard._copy_single_device_array_to_host_async()


if "max_version" in (_jax.buffer_to_dlpack_managed_tensor.__doc__ or ""):

    def to_dlpack(
        array: ArrayImpl, stream: Any, *, max_version: tuple[int, int] | None, copied: bool
    ) -> Any:
        """A DLPack capsule that shares the buffer of a single-device array."""
        return _jax.buffer_to_dlpack_managed_tensor(
            array, stream, max_version=max_version, copied=copied
        )

else:

    def to_dlpack(
        array: ArrayImpl, stream: Any, *, max_version: tuple[int, int] | None, copied: bool
    ) -> Any:
        """A DLPack capsule, without version, that shares the buffer of a single-device array."""
        return _jax.buffer_to_dlpack_managed_tensor(array, stream)


def from_dlpack(capsule: Any, device: Device, stream: Any, copy: bool | None) -> ArrayImpl:
    """An array that uses the memory of a DLPack capsule."""
    return _jax.dlpack_managed_tensor_to_buffer(capsule, device, stream, copy=copy)
