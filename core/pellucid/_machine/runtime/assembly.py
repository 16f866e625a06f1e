"""Assembly of arrays over several devices, from a callback, single-device arrays or process-local data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ArrayConversionError,
    Ints,
    Shape,
    Unary,
    UnexpectedTracerError,
    broadcast_prefix,
    dtypes,
    expecting,
    ints,
    is_none,
    strict_zip,
    tree_flatten,
)
from pellucid._machine.ir import Operands, aval_at, physical, shaped_array
from pellucid._machine.sharding import Sharding
from pellucid._machine.sharding.layout import AutoLayout
from pellucid._machine.sharding.placement import tiles
from pellucid._machine.sharding.stated import check_fits, sharding_for, stated_layout
from pellucid._machine.tracing import Tracer, refuse_masked_array, type_of, types_of
from pellucid._machine.xla import ARRAY_TYPES, ArrayImpl, ExtendedArray, assemble

from .array import check_not_deleted
from .extended import of_words
from .transfer import put_shards


def make_array_from_callback(
    shape: Ints,
    sharding: Sharding,
    data_callback: Callable[[tuple[slice, ...]], Any],
    dtype: Any = None,
) -> ArrayImpl:
    """The array of `shape`, placed by `sharding`, whose part at `index` is `data_callback(index)`.

    `index` is a tuple of slices. The callback is asked once for each part that this process's devices hold,
    however many of them hold it. `dtype`, that of all parts, is needed only where this process holds none.

    Raises: ArgumentValueError for a part of another shape or dtype than its place needs.

    >>> mesh = pl.sharding.Mesh(np.array(pl.devices()).reshape(-1), ("x",))
    >>> whole = np.arange(16)
    >>> make_array_from_callback((16,), pl.NamedSharding(mesh, pl.P("x")), whole.__getitem__)[:3]
    Array([0, 1, 2], dtype=int32)
    """
    name = "make_array_from_callback"
    if not callable(data_callback):
        raise ArgumentTypeError(
            f"{name} needs a function of the index of a part.",
            got=f"data_callback: {type(data_callback).__name__}",
        )
    sharding = _checked_sharding(name, sharding)
    return _from_callback(
        name, _checked_shape(name, shape, sharding), sharding, data_callback, dtype
    )


def _from_callback(
    name: str, shape: Shape, sharding: Sharding, data_callback: Unary, dtype
) -> ArrayImpl:
    data_by_index, parts = {}, []
    for index in sharding.addressable_devices_indices_map(shape).values():
        key = tuple((s.start, s.stop) for s in index)
        if key not in data_by_index:
            data_by_index[key] = data = data_callback(index)
            if isinstance(data, Tracer):
                raise UnexpectedTracerError(
                    f"{name} makes an array of values, which a traced function has not.",
                    got=f"the part at {index}: {data!r}",
                    do="Make the array outside, and pass it as an argument.",
                )
        parts.append(data_by_index[key])
    aval = _checked_parts(name, shape, sharding, parts, dtype)
    devices = list(sharding._internal_device_list.addressable_device_list)
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        words = [np.asarray(part.words) for part in parts]
        return of_words(aval.dtype, put_shards(physical(aval), sharding, words, devices))
    return put_shards(aval, sharding, [np.asarray(p, aval.dtype) for p in parts], devices)


def make_array_from_single_device_arrays(
    shape: Ints,
    sharding: Sharding,
    arrays: Sequence[Any],  # name in the reference
    *,
    dtype: Any = None,
) -> ArrayImpl:
    """The array of `shape` made of `arrays`, one on each of this process's devices of `sharding`; nothing is copied.

    The arrays may come in any order; their devices determine their places. Where the process holds no part,
    `arrays` is empty and the dtype must be given.

    Raises: ArgumentValueError if the devices, shapes or dtypes of the arrays don't fit.

    >>> sharding = pl.NamedSharding(pl.make_mesh((2,), ("i",)), pl.P("i"))
    >>> parts = [pl.device_put(np.full(2, i, np.int32), pl.devices()[i]) for i in range(2)]
    >>> make_array_from_single_device_arrays((4,), sharding, parts)
    Array([0, 0, 1, 1], dtype=int32)
    """
    name = "make_array_from_single_device_arrays"
    sharding = _checked_sharding(name, sharding)
    shape = _checked_shape(name, shape, sharding)
    if not isinstance(arrays, (list, tuple)):
        raise ArgumentTypeError(
            f"{name} needs a list of arrays.", got=f"arrays: {type(arrays).__name__}"
        )
    for i, x in enumerate(arrays):
        if type(x) not in ARRAY_TYPES:
            error = ArrayConversionError if isinstance(x, Tracer) else ArgumentTypeError
            raise error(
                f"{name} needs arrays on devices.",
                got=f"arrays[{i}]: {type(x).__name__}",
                do="Put it on its device first, with `device_put`.",
            )
        if x._sharding.num_devices != 1:
            raise ArgumentValueError(
                f"{name} needs arrays that each are on one device.",
                got=f"arrays[{i}]: {x.aval.text()} on {x._sharding.num_devices} devices",
            )
        check_not_deleted(x)
    by_device = {x._sharding._device: x for x in arrays}
    devices = list(sharding._internal_device_list.addressable_device_list)
    if set(by_device) != set(devices) or len(arrays) != len(devices):
        raise ArgumentValueError(
            f"{name} needs one array for each device of the sharding.",
            got=[
                f"the sharding: {len(devices)} devices of this process, first {devices[0]}",
                f"arrays: {len(arrays)} on {len(by_device)} devices",
            ],
        )
    parts = [by_device[device] for device in devices]
    aval = _checked_parts(name, shape, sharding, parts, dtype)
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        words = assemble(physical(aval), sharding, [part.words for part in parts], True)
        return of_words(aval.dtype, words)
    return assemble(aval, sharding, parts, True)


def make_array_from_process_local_data(
    sharding: Sharding, local_data: Any, global_shape: Any = None
) -> Any:
    """The array placed by `sharding` of which this process has `local_data`.

    Trees of data give trees of arrays, and `sharding` may be a tree of shardings that is a prefix of them.
    `global_shape` is the shape of the whole array, or a tree of shapes; dimensions in which `local_data` is as
    large are taken as whole there. Without it, or where it has None, each dimension is as large as all
    processes' parts together.

    Raises: ArgumentValueError where `local_data` is no part of such an array.

    >>> sharding = pl.NamedSharding(pl.make_mesh((2,), ("i",)), pl.P("i"))
    >>> x = make_array_from_process_local_data(sharding, np.arange(4, dtype=np.int32))
    >>> x.shape, x.addressable_shards[1].data
    ((4,), Array([2, 3], dtype=int32))
    """
    name = "make_array_from_process_local_data"
    leaves, tree = tree_flatten(local_data)
    shardings = broadcast_prefix(
        sharding, local_data, is_none, caller=f"{name}: sharding", name="local_data"
    )
    shapes = broadcast_prefix(
        global_shape, local_data, _is_shape, caller=f"{name}: global_shape", name="local_data"
    )
    return tree.unflatten(
        [
            _from_local(_checked_sharding(name, where), x, shape)
            for where, x, shape in strict_zip(shardings, leaves, shapes)
        ]
    )


def _is_shape(shape) -> bool:
    return shape is None or (
        isinstance(shape, (tuple, list))
        and all(size is None or hasattr(size, "__index__") for size in shape)
    )


def _from_local(sharding: Sharding, data, global_shape) -> ArrayImpl:
    name = "make_array_from_process_local_data"
    if isinstance(data, np.ma.MaskedArray):
        refuse_masked_array(data)
    if type(data) is ExtendedArray:
        shape = global_shape and (*global_shape, *data.dtype.element_shape)
        return of_words(data.dtype, _from_local(sharding, data.words, shape))
    data = np.asarray(data)
    aval = type_of(data)
    data = np.asarray(data, aval.dtype)  # 32 bits if 64 are disabled
    sizes = (None,) * data.ndim if global_shape is None else tuple(global_shape)
    if len(sizes) != data.ndim:
        raise ArgumentValueError(
            f"{name}: `global_shape` must have one size for each dimension of the data.",
            got=f"data of shape {data.shape}, global_shape {sizes}",
        )
    sharding.check_compatible_aval(data.shape)
    tiling = tiles(sharding, data.ndim)
    devices = list(sharding._internal_device_list)
    local = [i for i, d in enumerate(devices) if d.process_index == d.client.process_index()]
    local_tiles = [sorted({*tiling.positions[local, dim].tolist()}) for dim in range(data.ndim)]
    shape = []
    for dim, (size, stated) in enumerate(strict_zip(data.shape, sizes)):
        whole = size * tiling.counts[dim] // max(len(local_tiles[dim]), 1)
        if stated not in (None, whole, size):
            raise ArgumentValueError(
                f"{name}: the data is neither this process's part nor all of it.",
                got=f"dimension {dim}: data of size {size}, `global_shape` has {stated}",
                do=f"Give {whole} or None there, or data of size {stated * len(local_tiles[dim]) // tiling.counts[dim]}.",
            )
        shape.append(whole if stated is None else stated)

    def part(index: tuple[slice, ...]) -> Any:
        places = strict_zip(index, shape, data.shape, local_tiles, tiling.counts)
        return data[tuple([_local_slice(*place) for place in places])]

    check_fits(name, "an array", sharding, tuple(shape))
    return _from_callback(name, tuple(shape), sharding, part, data.dtype)


def _local_slice(
    index: slice, size: int, local_size: int, local_tiles: list[int], count: int
) -> slice:
    """Position of the tile at `index` of a dimension of `size`, within data that contain the `local_tiles` of `count`."""
    if size == local_size or index.start is None:
        return index
    width = size // count
    first = local_tiles.index(index.start // width) * width
    return slice(first, first + width)


def _checked_sharding(name: str, sharding: Sharding) -> Sharding:
    checked = sharding_for(sharding, name)
    if checked is None:
        raise ArgumentTypeError(f"{name} needs a sharding.", got=f"sharding: {sharding!r}")
    if isinstance(stated_layout(sharding), AutoLayout):
        raise ArgumentTypeError(
            f"{name} can't leave the order of elements to the compiler: it compiles nothing.",
            got=f"sharding: {sharding}",
        )
    return checked


def _checked_shape(name: str, shape, sharding: Sharding) -> Shape:
    """`shape` as a tuple of sizes that `sharding` divides evenly."""
    with expecting(f"{name}: `shape` must be a sequence of integers", shape):
        sizes = ints(shape)
    check_fits(name, "an array", sharding, sizes)
    return sizes


def _checked_parts(name: str, shape: Shape, sharding: Sharding, parts: Operands, dtype):
    """The type of the array assembled from `parts`.

    Raises: ArgumentValueError for parts that don't fit together, and for no parts without a `dtype`.
    """
    if not parts and dtype is None:
        raise ArgumentValueError(f"{name} needs `dtype` where this process holds no part.")
    avals = types_of(parts)
    part_shape = sharding.shard_shape(shape)
    dtype = avals[0].dtype if dtype is None else dtypes.canonicalize_dtype(dtype, True)
    for aval in avals:
        if (aval.shape, aval.dtype) != (part_shape, dtype):
            raise ArgumentValueError(
                f"{name}: a part has another shape or dtype than its place.",
                got=[
                    f"part: {aval.text()}",
                    f"needed: {shaped_array(part_shape, dtype).text()}, for {shape} placed by {sharding}",
                ],
            )
    return aval_at(shaped_array(shape, dtype), sharding)
