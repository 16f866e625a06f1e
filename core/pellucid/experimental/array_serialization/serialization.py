"""Arrays in files of tensorstore: each shard is written by itself, and any sharding reads what it needs.

The formats are tensorstore's (zarr by default, or OCDBT), which other programs read, too. tensorstore is an optional
dependency: `pip install pellucid[checkpoints]`. Of an array over several processes each writes and reads its own shards,
in a folder that all of them see.
"""

from __future__ import annotations

import abc
import asyncio
import importlib
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid._machine.base.errors import ArgumentTypeError, ArgumentValueError, UnsupportedError
from pellucid._machine.base.functional import strict_zip
from pellucid._machine.base.typing import Shape
from pellucid._machine.higher_order.shape_dtype_struct import ShapeDtypeStruct
from pellucid._machine.runtime.assembly import make_array_from_callback
from pellucid._machine.runtime.distributed.initialize import barrier
from pellucid._machine.runtime.extended import ExtendedArray
from pellucid._machine.runtime.platforms import process_index
from pellucid._machine.sharding.layout import Format
from pellucid._machine.sharding.placement import Sharding

_DRIVERS = ("zarr", "zarr3")
_DEFAULT_CONCURRENT_GB = 32


def _tensorstore() -> Any:
    try:
        return importlib.import_module("tensorstore")
    except ImportError:
        raise UnsupportedError(
            "arrays are read and written by tensorstore, which isn't installed.",
            do="pip install 'pellucid[checkpoints]'",
        ) from None


def get_tensorstore_spec(
    ckpt_path: str | os.PathLike[str],
    *,
    ocdbt: bool = False,
    process_idx: int | None = None,
    arr: Any = None,
    driver: str = "zarr",
) -> dict[str, Any]:
    """The description by which tensorstore finds the array at `ckpt_path`: a folder, or a URL such as gs://bucket/path.

    With `ocdbt` arrays of one parent folder share a database in it, or in its part of process `process_idx`; the last
    part of the path names the array. With `arr` the description says how it is stored.

    Raises: ArgumentValueError for a relative path, and for an unknown driver.

    >>> get_tensorstore_spec("/checkpoints/7/weights")["kvstore"]
    {'driver': 'file', 'path': '/checkpoints/7/weights'}
    """
    if driver not in _DRIVERS:
        raise ArgumentValueError(
            f"arrays must be stored by one of {', '.join(_DRIVERS)}.", got=f"driver={driver!r}"
        )
    path = os.fspath(ckpt_path).rstrip("/")
    scheme, is_url, rest = path.partition("://")
    if not is_url and not os.path.isabs(path):
        raise ArgumentValueError(
            "the path of an array must be absolute.",
            got=repr(path),
            do="`os.path.abspath(path)`.",
        )
    folder, _, name = path.rpartition("/")
    if ocdbt:
        if process_idx is not None:
            folder = f"{folder}/ocdbt.process_{process_idx}"
        base: Any = f"{folder}/" if is_url else {"driver": "file", "path": folder}
        kvstore: dict[str, Any] = {"driver": "ocdbt", "base": base, "path": name}
    elif is_url:
        bucket, _, inner = rest.partition("/")
        kvstore = {"driver": {"gs": "gcs"}.get(scheme, scheme), "bucket": bucket, "path": inner}
    else:
        kvstore = {"driver": "file", "path": path}
    spec = {"driver": driver, "kvstore": kvstore}
    return spec if arr is None else _with_array_metadata(spec, arr)


def _with_array_metadata(spec: dict[str, Any], array: Any) -> dict[str, Any]:
    """`spec` with shape, dtype and chunks of `array`: a chunk holds one shard."""
    chunks = [max(n, 1) for n in array.sharding.shard_shape(array.shape)]
    chunk_layout = {"chunk": {"shape": chunks}} if chunks else {}
    schema = {"domain": {"shape": list(array.shape)}, "chunk_layout": chunk_layout}
    return {**spec, "dtype": array.dtype.name, "schema": schema}


def _check_array(array: Any) -> None:
    if isinstance(array, ExtendedArray) or not hasattr(array, "addressable_shards"):
        raise ArgumentTypeError(
            "only arrays of numbers are written to files.",
            got=f"got {type(array).__name__}",
            do="Write the words of a key: `random.key_data(key)`.",
        )


async def async_serialize(
    arr_inp: Any,
    tensorstore_spec: dict[str, Any],
    commit_future: list[Any] | None = None,
    *,
    replica_id: int = 0,
    transaction: Any = None,
) -> None:
    """Write the shards of an array whose number among its replicas is `replica_id`; what is there is replaced.

    Of an array over several processes each writes its own shards, over those of an array of the same shape and dtype
    that may be there; the array is complete when all processes have returned (`multihost_utils.sync_global_devices`).

    With `commit_future`, a list, it returns when the array is copied, so that it may change, and appends what waits
    for the files; else when the files are there.

    Raises: ArgumentTypeError for anything that isn't an array; UnsupportedError without tensorstore; ValueError of tensorstore for an
    array over several processes where another array is stored.
    """
    _check_array(arr_inp)
    ts = _tensorstore()
    spec = tensorstore_spec if "schema" in tensorstore_spec else _with_array_metadata(tensorstore_spec, arr_inp)  # fmt: skip
    is_whole = arr_inp.is_fully_addressable  # otherwise this process would delete what others write
    store = await ts.open(
        ts.Spec(spec),
        create=True,
        open=not is_whole,
        delete_existing=is_whole,
        transaction=transaction,
    )
    writes = [
        store[shard.index].write(np.asarray(shard.data))
        for shard in arr_inp.addressable_shards
        if shard.replica_id == replica_id
    ]
    for write in writes:
        await write.copy
    if commit_future is None:
        for write in writes:
            await write.commit
    else:
        commit_future += [write.commit for write in writes]


class _BytesInFlight:
    """Limits the bytes that are being read: waits while others have the budget."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.changed = asyncio.Condition()

    async def take(self, n: int) -> None:
        n = min(n, self.limit)
        async with self.changed:
            await self.changed.wait_for(lambda: self.used + n <= self.limit)
            self.used += n

    async def give_back(self, n: int) -> None:
        async with self.changed:
            self.used -= min(n, self.limit)
            self.changed.notify_all()


async def async_deserialize(
    in_type: Any,
    tensorstore_spec: Any,
    global_shape: Shape | None = None,
    dtype: Any = None,
    byte_limiter: _BytesInFlight | None = None,
) -> Any:
    """The array that `tensorstore_spec` describes, with the sharding `in_type`; each device's part is read by itself.

    `in_type` is a sharding, a Format, or a ShapeDtypeStruct with a sharding, whose shape and dtype count. A
    `global_shape` other than the stored one cuts the array, or fills it with zeros. `dtype` converts.

    Raises: ArgumentTypeError for anything that isn't a sharding; ValueError of tensorstore where there is no such array.
    """
    sharding = in_type
    if isinstance(in_type, ShapeDtypeStruct):
        sharding, global_shape, dtype = in_type.sharding, in_type.shape, in_type.dtype
    if isinstance(sharding, Format):
        sharding = sharding.sharding
    if not isinstance(sharding, Sharding):
        raise ArgumentTypeError(
            "an array can only be read into a sharding, a Format or a ShapeDtypeStruct that has one.",
            got=f"got {type(in_type).__name__}",
        )
    ts = _tensorstore()
    store = await ts.open(ts.Spec(tensorstore_spec), open=True, read=True)
    shape = tuple(store.shape if global_shape is None else global_shape)
    if len(shape) != len(store.shape):
        raise ArgumentValueError(
            "a stored array must be read with as many dimensions as it has.",
            got=f"global_shape {shape}, stored {tuple(store.shape)}",
        )
    part_dtype = np.dtype(store.dtype.numpy_dtype if dtype is None else dtype)
    parts: dict[Any, np.ndarray] = {}

    async def read(index: tuple[slice, ...]) -> None:
        bounds = [s.indices(n)[:2] for s, n in strict_zip(index, shape)]
        part = np.zeros([stop - start for start, stop in bounds], part_dtype)
        stored = tuple(
            slice(start, max(start, min(stop, n)))
            for (start, stop), n in strict_zip(bounds, store.shape)
        )
        if byte_limiter is not None:
            await byte_limiter.take(part.nbytes)
        try:
            there = np.asarray(await store[stored].read()) if part.size else part
            part[tuple(slice(0, n) for n in there.shape)] = there
        finally:
            if byte_limiter is not None:
                await byte_limiter.give_back(part.nbytes)
        parts[_key(index)] = part

    indices = {_key(i): i for i in sharding.addressable_devices_indices_map(shape).values()}
    await asyncio.gather(*map(read, indices.values()))
    return make_array_from_callback(shape, sharding, lambda index: parts[_key(index)])


def _key(index: Any) -> tuple[Any, ...]:
    return tuple((s.start, s.stop) for s in index)


def run_serialization(arrays: Sequence[Any], tensorstore_specs: Sequence[dict[str, Any]]) -> None:
    """Write arrays to files, at once, and wait for them.

    >>> import tempfile
    >>> spec = get_tensorstore_spec(f"{tempfile.mkdtemp()}/x")
    >>> run_serialization([pl.numpy.arange(4)], [spec])
    >>> run_deserialization([pl.numpy.arange(4).sharding], [spec])
    [Array([0, 1, 2, 3], dtype=int32)]
    """

    async def write() -> None:
        await asyncio.gather(*map(async_serialize, arrays, tensorstore_specs))

    _check_counts(arrays, tensorstore_specs)
    asyncio.run(write())


def run_deserialization(
    shardings: Sequence[Any],
    tensorstore_specs: Sequence[Any],
    global_shapes: Sequence[Shape] | None = None,
    dtypes: Sequence[Any] | None = None,
    concurrent_gb: int = _DEFAULT_CONCURRENT_GB,
) -> list[Any]:
    """Arrays read from files, with these shardings; at most `concurrent_gb` gigabytes are read at a time.

    >>> import tempfile
    >>> spec = get_tensorstore_spec(f"{tempfile.mkdtemp()}/x")
    >>> run_serialization([pl.numpy.ones(2)], [spec])
    >>> run_deserialization([pl.numpy.ones(2).sharding], [spec], global_shapes=[(3,)])
    [Array([1., 1., 0.], dtype=float32)]
    """
    _check_counts(shardings, tensorstore_specs)
    nothing = [None] * len(shardings)

    async def read() -> list[Any]:
        limiter = _BytesInFlight(concurrent_gb * 10**9)
        calls = strict_zip(
            shardings, tensorstore_specs, global_shapes or nothing, dtypes or nothing
        )
        return await asyncio.gather(*[async_deserialize(*call, limiter) for call in calls])

    return asyncio.run(read())


def _check_counts(values: Sequence[Any], specs: Sequence[Any]) -> None:
    if len(values) != len(specs):
        raise ArgumentValueError(
            "each array needs one description of its place.",
            got=f"{len(values)} arrays or shardings, {len(specs)} descriptions",
        )


class GlobalAsyncCheckpointManagerBase(abc.ABC):
    """Interface of managers that write arrays in the background."""

    @abc.abstractmethod
    def check_for_errors(self) -> None:
        """Raise the error of a write that has ended, if there is one."""

    @abc.abstractmethod
    def wait_until_finished(self) -> None:
        """Wait until the files are written, and raise the error of writing, if there is one."""

    @abc.abstractmethod
    def serialize(
        self, arrays: Any, tensorstore_specs: Any, *, on_commit_callback: Callable[[], None]
    ) -> None:
        """Copy arrays, and write them in the background; the callback is called when their files are there."""

    @abc.abstractmethod
    def deserialize(
        self,
        shardings: Sequence[Any],
        tensorstore_specs: Sequence[Any],
        global_shapes: Sequence[Shape] | None = None,
        dtypes: Sequence[Any] | None = None,
    ) -> Any:
        """Arrays read from files."""


class AsyncManager:
    """A thread that waits for files; `timeout_secs` bounds each wait."""

    def __init__(self, timeout_secs: int = 300) -> None:
        self.timeout_secs = timeout_secs
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def _start(
        self, futures: Sequence[Any], on_commit: Callable[[], None] | None, is_of_job: bool
    ) -> None:
        def wait() -> None:
            try:
                for future in futures:
                    future.result(timeout=self.timeout_secs)
                if is_of_job:
                    barrier("array_serialization", self.timeout_secs)
                if on_commit is not None and (not is_of_job or process_index() == 0):
                    on_commit()
            except BaseException as error:
                self._error = error

        self._thread = threading.Thread(target=wait, name="pellucid checkpoint")
        self._thread.start()

    def check_for_errors(self) -> None:
        """Raise the error of the last write, if it ended with one."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def wait_until_finished(self) -> None:
        """Wait for the files of the last write, and raise its error, if there is one."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.check_for_errors()


class GlobalAsyncCheckpointManager(AsyncManager, GlobalAsyncCheckpointManagerBase):
    """A manager that writes arrays in the background, one group of arrays after another.

    >>> import tempfile
    >>> manager, path, written = GlobalAsyncCheckpointManager(), f"{tempfile.mkdtemp()}/x", []
    >>> manager.serialize_with_paths([pl.numpy.ones(2)], [path], on_commit_callback=lambda: written.append(path))
    >>> manager.wait_until_finished()
    >>> written == [path]
    True
    """

    def serialize(
        self,
        arrays: Sequence[Any],
        tensorstore_specs: Sequence[dict[str, Any]],
        *,
        on_commit_callback: Callable[[], None] | None = None,
        transaction: Any = None,
    ) -> None:
        """Copy arrays, and write them in the background, after those of the last call.

        With arrays over several processes, each process calls this; they wait for each other's files, and the callback is
        called in process 0.
        """
        self.wait_until_finished()
        _check_counts(arrays, tensorstore_specs)
        futures: list[Any] = []

        async def copy() -> None:
            await asyncio.gather(
                *[
                    async_serialize(x, spec, futures, transaction=transaction)
                    for x, spec in strict_zip(arrays, tensorstore_specs)
                ]
            )

        asyncio.run(copy())
        is_of_job = not all(x.is_fully_addressable for x in arrays)
        self._start(futures, on_commit_callback, is_of_job)

    def serialize_with_paths(
        self,
        arrays: Sequence[Any],
        paths: Sequence[str],
        *,
        on_commit_callback: Callable[[], None] | None = None,
        transaction: Any = None,
    ) -> None:
        """`serialize` to folders."""
        specs = [get_tensorstore_spec(path) for path in paths]
        self.serialize(
            arrays, specs, on_commit_callback=on_commit_callback, transaction=transaction
        )

    def deserialize(
        self,
        shardings: Sequence[Any],
        tensorstore_specs: Sequence[Any],
        global_shapes: Sequence[Shape] | None = None,
        dtypes: Sequence[Any] | None = None,
        concurrent_gb: int = _DEFAULT_CONCURRENT_GB,
    ) -> list[Any]:
        """Arrays read from files, once the last write has ended."""
        self.wait_until_finished()
        return run_deserialization(
            shardings, tensorstore_specs, global_shapes, dtypes, concurrent_gb
        )

    def deserialize_with_paths(
        self,
        shardings: Sequence[Any],
        paths: Sequence[str],
        global_shapes: Sequence[Shape] | None = None,
        dtypes: Sequence[Any] | None = None,
        concurrent_gb: int = _DEFAULT_CONCURRENT_GB,
    ) -> list[Any]:
        """`deserialize` from folders."""
        specs = [get_tensorstore_spec(path) for path in paths]
        return self.deserialize(shardings, specs, global_shapes, dtypes, concurrent_gb)


__all__ = [
    "AsyncManager", "GlobalAsyncCheckpointManager", "GlobalAsyncCheckpointManagerBase", "async_deserialize",
    "async_serialize", "get_tensorstore_spec", "run_deserialization", "run_serialization",
]  # fmt: skip
