"""Transfers between host and devices, and between devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    DeviceError,
    IntegerRangeError,
    Shape,
    TransferStarted,
    cached,
    capture,
    config,
    dtypes,
    is_own_constant,
    on,
    publish,
    shown_path,
    strict_zip,
    tree_flatten,
    tree_flatten_with_path,
    tree_map,
)
from pellucid._machine.base.late import late
from pellucid._machine.ir import Described, Operands, ShapedArray, aval_at, physical, shaped_array
from pellucid._machine.sharding import (
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
    make_single_device_sharding,
)
from pellucid._machine.sharding.errors import LayoutError, ShardingError
from pellucid._machine.sharding.layout import AutoLayout, Layout
from pellucid._machine.sharding.memory import MemorySpace
from pellucid._machine.sharding.named_sharding import is_unreduced, sharding_of_sum
from pellucid._machine.sharding.placement import addressable_parts
from pellucid._machine.sharding.stated import check_fits, leaves_to_put, sharding_for, stated_layout
from pellucid._machine.tracing import (
    Tracer,
    as_operand,
    context,
    note_scalar,
    type_of,
    type_of_numpy,
    types_of,
)
from pellucid._machine.xla import (
    ARRAY_TYPES,
    ArrayImpl,
    Device,
    DeviceLayout,
    ExtendedArray,
    JaxRuntimeError,
    arrays,
    extend,
)

from . import donation, guards, peers
from .array import (
    check_not_deleted,
    default_sharding,
    is_exported,
    note_donation,
    share_memory,
    wait_for,
)
from .failures import raise_runtime_error
from .host import fetch, value_of
from .tokens import Token

_host_to_device = config.transfer_guard_host_to_device.state


# Host to device -------------------------------------------------------------------------------------


def from_host(
    value: Any,
    *,
    weak_type: bool = False,
    sharding: Sharding | None = None,
    dtype: np.dtype | None = None,
) -> ArrayImpl:
    """An array with the contents of a NumPy array or scalar, on `sharding` or the default device.

    `dtype` is one that the user requested: it may have 64 bits while default dtypes have 32.
    """
    aval = type_of(value)
    aval = shaped_array(aval.shape, aval.dtype if dtype is None else dtype, weak_type)
    committed = sharding is not None
    return put_host(value, aval, sharding or default_sharding(), committed)


def put_everywhere(
    value: Any, aval: ShapedArray, sharding: Sharding | None, *, explicit: bool = False
) -> ArrayImpl:
    """`put_host` for a value that each process of `sharding` has, committed to it; without `sharding` on the default
    device.

    Raises: AgreementError if processes have different values.
    """
    target = sharding or default_sharding()
    if not target.is_fully_addressable:
        _check_equal_everywhere(value, aval, target)
    return put_host(
        value, aval_at(aval, target), target, committed=sharding is not None, explicit=explicit
    )


def put_host(
    value: Any, aval: ShapedArray, sharding: Sharding, committed: bool, *, explicit: bool = False
) -> ArrayImpl:
    """An array of type `aval` with `sharding` and the contents of host value `value`; NumPy zeros for float0.

    `explicit` tells transfer guards that the user requested the transfer. Implicit transfers of Python numbers, which
    C++ makes in cached calls, are guarded but not published. Under a trace there are no implicit transfers, because
    host values are constants of the program; constants of library code don't count either.

    Raises: IntegerRangeError for a Python integer that is out of the dtype's range.
    """
    if aval.dtype == dtypes.float0:
        zeros: Any = np.zeros(aval.shape, dtypes.float0)  # devices can't represent float0
        return zeros
    if is_unreduced(sharding):
        cut = sharding_of_sum(sharding)
        whole = put_host(value, aval_at(aval, cut), cut, committed, explicit=explicit)
        return late("relaid")(whole, sharding)
    dtype = physical(aval).dtype
    is_ready = type(value) is np.ndarray and value.dtype == dtype
    data = value if is_ready else _as_numpy(value, dtype)
    may_alias = False
    if type(sharding) is SingleDeviceSharding:
        shards, devices = [data], [sharding._device]
    else:
        devices, indices = addressable_parts(sharding, data.shape)
        may_alias = data.nbytes < arrays.LARGE
        # One host copy, slices of which devices may alias.
        parts = np.array(data) if may_alias else data
        shards = [parts[index] for index in indices]
    put = lambda: arrays.put(aval, sharding, shards, devices, committed, may_alias=may_alias)
    is_free = not explicit and (not context.trace.is_eager or is_own_constant(value))
    asked = None if is_free else explicit
    if not explicit and type(value) in (bool, int, float, complex):
        with guards.guard_transfer("host_to_device", aval, sharding, explicit=asked):
            array = put()
    else:
        array = guards.run_transfer(
            "host_to_device", data.nbytes, aval, sharding, put, explicit=asked
        )
    if data.ndim == 0:
        note_scalar(array, data[()], value)  # a NumPy scalar is immutable, unlike an array
    return array


def _as_numpy(value, dtype) -> np.ndarray:
    if isinstance(value, Described) and not hasattr(value, "__array__"):
        # NumPy would take any object for a bool.
        raise ArgumentTypeError(
            "a function that runs needs the values of an array, not its description.",
            got=f"got {value!r}"[:200],
            do="Pass an array; `pl.eval_shape`, `pl.make_jaxpr` and `lower` of jitted functions take descriptions.",
        )
    try:
        return np.asarray(value, dtype=dtype)
    except OverflowError:
        raise out_of_range(value, dtype) from None


def out_of_range(value: Any, dtype: Any) -> IntegerRangeError:
    """The error for a Python integer that is out of range of `dtype`."""
    limits = np.iinfo(dtype)
    return IntegerRangeError(
        f"a Python integer is too large for {dtype}.",
        got=f"{value}; {dtype} holds {limits.min} to {limits.max}",
        do="Switch on 64 bits with the option `jax_enable_x64`, or give the dtype: `np.uint32(...)`."
        if dtype.itemsize < 8
        else None,
    )


def put_shards(
    aval: ShapedArray, sharding: Sharding, shards: Operands, devices: Sequence[Device]
) -> ArrayImpl:
    """The committed array of type `aval` made from host values, one for each of `devices`."""
    put = lambda: arrays.put(aval, sharding, shards, devices, True)
    n_bytes = sum(shard.nbytes for shard in shards)
    return guards.run_transfer("host_to_device", n_bytes, aval, sharding, put, explicit=True)


# Device to device -----------------------------------------------------------------------------------


NUMPY_TYPES = frozenset(
    (
        np.ndarray,
        *(dtype.type for dtype in map(np.dtype, dtypes.SUPPORTED) if dtype.kind in "biufc"),
    )
)
"""NumPy array and scalar types that C++ accepts; it rejects subclasses."""


def shard_argument(x: Any, sharding: Sharding, layout: Any = None) -> Any:
    """`x` with `sharding`, in the form that an executable takes."""
    if type(x) is ArrayImpl:
        check_not_deleted(x)
        current = x._sharding
        if current is sharding or current == sharding or current.is_equivalent_to(sharding, x.ndim):
            return x
        return move(x, sharding, committed=x._committed)
    if type(x) in NUMPY_TYPES and type(sharding) is SingleDeviceSharding:
        # Does what `put_host` does in few steps, because compiled calls come here for each NumPy argument.
        aval: Any = type_of_numpy(x)
        dtype = aval.dtype
        if dtype.isbuiltin and _host_to_device.value == "allow" and not on.transfer_finished:
            data = x if x.dtype is dtype else np.asarray(x, dtype)
            if on.transfer_started:
                publish(TransferStarted("host_to_device", data.nbytes))
            try:
                return arrays.put_one(aval, sharding, [data], [sharding._device], False)
            except JaxRuntimeError as error:
                raise_runtime_error("device_put", error)
    if type(x) is ExtendedArray:
        return shard_argument(x.words, sharding)
    if type(x) is Token:
        return shard_argument(x.buffer, sharding)
    operand = as_operand(x)
    if operand is not x:
        return shard_argument(operand, sharding)
    aval = type_of(x)
    if aval.dtype == dtypes.float0:
        aval = physical(aval)
        x = np.zeros(aval.shape, aval.dtype)
    return put_host(x, aval, sharding, committed=False)


def order_as(x: ArrayImpl, pjrt_layout: DeviceLayout | None) -> ArrayImpl:
    """Array `x` with the memory layout that an executable requires; None for the device's default."""
    if pjrt_layout is None:
        return x if _is_row_major(x._pjrt_layout) else late("relaid")(x, x._sharding)
    if same_order(x._pjrt_layout, pjrt_layout):
        return x
    return late("relaid")(x, x._sharding, Layout.from_pjrt_layout(pjrt_layout))


def layout_of(pjrt_layout: DeviceLayout | None) -> Layout | None:
    """The layout that C++ reports; None for None."""
    return None if pjrt_layout is None else Layout.from_pjrt_layout(pjrt_layout)


def same_order(a: DeviceLayout, b: DeviceLayout) -> bool:
    """Whether two layouts of jaxlib order elements in the same way."""
    return a == b or _order(a) == _order(b)


@cached(1024)
def _order(pjrt_layout: DeviceLayout) -> tuple[Any, Any]:
    """The order of elements, without their size, which arrays and programs report differently for sub-byte types."""
    layout = Layout.from_pjrt_layout(pjrt_layout)
    return layout.major_to_minor, layout.tiling


def move(x: ArrayImpl, sharding: Sharding, *, committed: bool, explicit: bool = False) -> ArrayImpl:
    """A copy of array `x` with `sharding`."""
    check_not_deleted(x)
    move = lambda: _move_to_sharding(x, sharding, committed)
    return guards.run_transfer(
        "device_to_device", x.nbytes, x.aval, sharding, move, explicit=explicit
    )


_MIN_BYTES_FOR_EXCHANGE = 1 << 20
"""Minimum size of an array whose shards devices exchange with a compiled program rather than through the host."""


def _is_row_major(pjrt_layout: DeviceLayout) -> bool:
    order, _ = _order(pjrt_layout)
    return order == tuple(range(len(order)))


def _move_to_sharding(x: ArrayImpl, sharding: Sharding, committed: bool) -> ArrayImpl:
    if not _is_row_major(x._pjrt_layout):
        x = late("relaid")(x, x._sharding)  # jaxlib copies bytes and loses their layout
    old, aval = x._sharding, aval_at(x.aval, sharding)
    has_addends = is_unreduced(old) or is_unreduced(sharding)
    if old == sharding or (not has_addends and _has_same_parts(old, sharding, x.shape)):
        return arrays.assemble(aval, sharding, _copies(x, sharding), committed)
    same_devices = old._internal_device_list == sharding._internal_device_list
    is_exchanged = has_addends or x.nbytes >= _MIN_BYTES_FOR_EXCHANGE or not x.is_fully_addressable
    if same_devices and is_exchanged:
        return late("relaid")(x, sharding)
    if is_unreduced(old):
        raise DeviceError(
            "an array of addends can be laid out anew on its own devices only.",
            got=f"{x.aval.text()} from {old} to {sharding}",
            do="Sum the addends first: device_put(x, NamedSharding(mesh, spec)) with a spec that isn't unreduced.",
        )
    if is_unreduced(sharding):
        return late("relaid")(_move_to_sharding(x, sharding_of_sum(sharding), committed), sharding)
    if old.is_fully_replicated and old.is_fully_addressable and sharding.is_fully_replicated:
        whole = _arrays_per_device(x)[0]
        devices: Any = sharding._internal_device_list.addressable_device_list  # type: ignore[union-attr]
        copies = [_copy_to(whole, device, sharding.memory_kind) for device in devices]
        return arrays.assemble(aval, sharding, copies, committed)
    if not x.is_fully_addressable:
        raise DeviceError(
            "an array that spans processes can be laid out anew on its own devices only.",
            got=f"{aval.text()} from {old} to {sharding}",
            do="Use a mesh of the same devices in the same order.",
        )
    return put_host(value_of(x), aval, sharding, committed, explicit=True)


def _has_same_parts(old: Sharding, new: Sharding, shape: Shape) -> bool:
    """Whether both divide an array into the same parts, for devices in the same order."""
    if type(old) is type(new) is SingleDeviceSharding:
        return True
    return len(old._internal_device_list) == len(new._internal_device_list) and list(
        old.devices_indices_map(shape).values()
    ) == list(new.devices_indices_map(shape).values())


def _arrays_per_device(x: ArrayImpl) -> list[ArrayImpl]:
    return [x] if len(x._sharding._internal_device_list) == 1 else arrays.shards_of(x)


def _copies(x: ArrayImpl, sharding: Sharding) -> list[ArrayImpl]:
    """Copies of this process's shards of `x` on the devices of `sharding`, which has the same parts."""
    devices = sharding._internal_device_list
    if devices.is_fully_addressable:
        return _arrays_per_device(arrays.copy_to_devices(x, devices, sharding))
    pairs = strict_zip(_arrays_per_device(x), devices.addressable_device_list)
    return [_copy_to(part, device, sharding.memory_kind) for part, device in pairs]


def _copy_to(x: ArrayImpl, device: Device, memory_kind: str | None) -> ArrayImpl:
    sharding = make_single_device_sharding(device, memory_kind=memory_kind)
    return arrays.copy_to_devices(x, sharding._internal_device_list, sharding)


def copy_array(x: ArrayImpl | ExtendedArray) -> Any:
    """A copy of array `x` in memory of its own, with the same sharding and memory layout."""
    if type(x) is ExtendedArray:
        return ExtendedArray(x.aval, copy_array(x.words))
    check_not_deleted(x)
    sharding = x._sharding
    if not _is_row_major(x._pjrt_layout):
        return late("relaid")(x, sharding, x.format.layout)
    if not sharding.is_fully_addressable:
        return arrays.assemble(x.aval, sharding, _copies(x, sharding), x._committed)
    with guards.guard_transfer(
        "device_to_device", x.aval, sharding, explicit=None
    ):  # no other device
        result = arrays.copy_to_devices(x, sharding._internal_device_list, sharding)
    return arrays.rewrap(result, x.aval, sharding) if result.aval is not x.aval else result


# device_put -----------------------------------------------------------------------------------------


def device_put(
    x: Any, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: Any = None
) -> Any:
    """`x`, a tree of arrays, with every leaf on `device`.

    `device` is a device, a sharding, a format, a memory space, None (the default device for host values;
    arrays stay where they are), or a tree of these that is a prefix of `x`. So may be `donate` (the leaves'
    memory may be reused: a leaf that leaves its device is deleted) and `may_alias` (False: never the memory
    of an array that is already there). `src` is where the leaves are now, and is only checked. Arrays put on a
    stated device are committed to it.

    Raises: ArgumentTypeError for leaves that aren't arrays; TreeStructureError where a tree is no prefix.

    >>> device_put({"w": np.ones(2, np.float32)})
    {'w': Array([1., 1.], dtype=float32)}
    """
    leaves, tree, places = leaves_to_put(x, device, src, donate, may_alias)
    try:
        results = [put_leaf(leaf, *place) for leaf, place in strict_zip(leaves, places)]
    except (ArgumentTypeError, ShardingError):
        _check_leaves("device_put", "x", x)
        _check_places(x, places)
        raise
    return tree.unflatten(results)


def put_leaf(
    x: Any, device: Any = None, src: Any = None, donate: bool = False, may_alias: bool | None = None
) -> Any:
    """`device_put` for one array."""
    x = as_operand(x)
    if donate and may_alias:
        raise ArgumentValueError("device_put: `donate` and `may_alias` can't both be True.")
    if isinstance(device, MemorySpace):
        device = _sharding_in_space(x, device)
    layout = stated_layout(device)
    if isinstance(layout, AutoLayout):
        raise LayoutError(
            "device_put can't leave the order of elements to the compiler: it compiles nothing.",
            got=f"device: {device}",
            do="Give a Layout, or None for the device's own order.",
        )
    if layout is not None:
        layout.check_compatible_aval(np.shape(x))
        placed = put_leaf(x, device.sharding, src, donate, may_alias)
        if placed.format.layout == layout:
            return placed
        return late("relaid")(placed, device.sharding, layout)
    sharding = sharding_for(device)
    if type(x) is ExtendedArray:
        if sharding is not None:
            check_fits("device_put", "x", sharding, x.shape)
        words = put_leaf(x.words, device, src, donate, may_alias)
        return ExtendedArray(aval_at(x.aval, words._sharding), words)
    if type(x) is not ArrayImpl:
        return put_everywhere(x, type_of(x), sharding, explicit=True)
    check_not_deleted(x)
    _check_source(x, src)
    target = sharding or x._sharding
    if not target.is_fully_addressable and x.is_fully_addressable:
        _check_equal_everywhere(x, x.aval, target)
    if target is x._sharding or target.is_equivalent_to(x._sharding, x.ndim):
        result = _here(x, target, x._committed or sharding is not None, may_alias)
    else:
        result = move(x, target, committed=True, explicit=True)
        if donate and not is_exported(x):
            donation.add(x.aval, donation.Donor("device_put", "x", capture()))
            result.block_until_ready()  # the copy reads memory that is deleted next
            note_donation(x, "device_put")
    return result


def _check_equal_everywhere(x, aval: ShapedArray, sharding: Sharding) -> None:
    """Raise AgreementError if processes put different values; each provides the shards on its own devices."""
    contents = peers.digest([_as_numpy(x, physical(aval).dtype)])
    peers.agree(
        "device_put over several processes of a value that each of them has",
        f"{aval.text()}, contents {contents}",
        sorted(sharding._internal_device_list.process_indices),
    )


def _here(x: ArrayImpl, sharding: Sharding, committed: bool, may_alias: bool | None) -> ArrayImpl:
    """`x` on its current devices."""
    if may_alias is False:
        x = copy_array(x)
    if sharding is x._sharding and committed == x._committed:
        return x
    aval = aval_at(x.aval, sharding)
    return share_memory(arrays.assemble(aval, sharding, _arrays_per_device(x), committed), x)


def _sharding_in_space(x, space: MemorySpace) -> Sharding | None:
    """The sharding of `x` in a memory space; None if it needn't be moved."""
    if space.memory_kind is None:
        return None
    return (x._sharding if type(x) in ARRAY_TYPES else default_sharding()).with_memory_kind(
        space.memory_kind
    )


def _check_source(x: ArrayImpl, src) -> None:
    source = sharding_for(src)
    if source is not None and not source.is_equivalent_to(x._sharding, x.ndim):
        raise ArgumentValueError(
            "device_put: `src` is not where the array is.",
            got=[f"src: {source}", f"the array's sharding: {x._sharding}"],
        )


def _check_leaves(caller: str, name: str, tree) -> None:
    """Raise ArgumentTypeError if `tree`, the argument `name`, has leaves that aren't arrays; it lists them."""
    wrong = []
    for path, leaf in tree_flatten_with_path(tree)[0]:
        try:
            type_of(leaf)
        except ArgumentTypeError:
            kind = f" of dtype {leaf.dtype}" if isinstance(leaf, (np.ndarray, np.generic)) else ""
            wrong.append(f"{shown_path(name, path)}: {type(leaf).__name__}{kind}")
    if wrong:
        raise ArgumentTypeError(
            f"{caller} needs a tree of arrays and Python numbers.", got=wrong[:5]
        ) from None


def _check_places(x, places: Sequence[tuple[Any, Any, Any, Any]]) -> None:
    """Raise ShardingError if an array of the tree `x` can't be placed as requested; it names the first."""
    for (path, leaf), (place, *_) in strict_zip(tree_flatten_with_path(x)[0], places):
        sharding = None if isinstance(place, MemorySpace) else sharding_for(place)
        if sharding is not None:
            check_fits("device_put", shown_path("x", path), sharding, np.shape(leaf))


def device_put_sharded(shards: Operands, devices: Sequence[Device]) -> Any:
    """A tree of arrays that have one part for each of `devices`: `shards[i]`, a tree, on `devices[i]`.

    Each leaf's first dimension numbers the devices.

    >>> device_put_sharded([np.zeros(2, np.float32)], [device_put(0).device]).shape
    (1, 2)
    """
    if not isinstance(shards, Sequence) or isinstance(shards, str):
        raise ArgumentTypeError(
            "device_put_sharded needs a sequence of shards.", got=type(shards).__name__
        )
    sharding = _first_dimension_over("device_put_sharded", devices)
    if len(shards) != len(devices):
        raise ArgumentValueError(
            "device_put_sharded needs one shard for each device.",
            got=f"{len(shards)} shards, {len(devices)} devices",
        )
    _check_leaves("device_put_sharded", "shards", shards)

    def stack_shards(*leaves):
        avals = types_of(leaves)
        if len({(aval.shape, aval.dtype) for aval in avals}) != 1:
            raise ArgumentValueError(
                "device_put_sharded: the shards of one array must have one shape and dtype.",
                got=[aval.text() for aval in dict.fromkeys(avals)],
            )
        return put_leaf(np.stack([np.asarray(leaf, avals[0].dtype) for leaf in leaves]), sharding)

    return tree_map(stack_shards, *shards)


def device_put_replicated(x: Any, devices: Sequence[Device]) -> Any:
    """The tree `x` of arrays, copied to each of `devices`; a new first dimension numbers the copies.

    >>> device_put_replicated(np.float32(3.0), [device_put(0).device])
    Array([3.], dtype=float32)
    """
    _first_dimension_over("device_put_replicated", devices)
    _check_leaves("device_put_replicated", "x", x)
    return device_put_sharded([x] * len(devices), devices)


def _first_dimension_over(caller: str, devices: Sequence[Device]) -> NamedSharding:
    """The sharding that puts element i along dimension 0 on `devices[i]`.

    Raises: ArgumentTypeError, ArgumentValueError unless `devices` is a non-empty sequence.
    """
    if not isinstance(devices, Sequence):
        raise ArgumentTypeError(
            f"{caller} needs a sequence of devices.",
            got=f"devices: {type(devices).__name__}",
            do="Write a list, for example `local_devices()`.",
        )
    if not devices:
        raise ArgumentValueError(f"{caller} needs at least one device.")
    name = "_devices"
    return NamedSharding(Mesh(np.array(list(devices), dtype=object), (name,)), PartitionSpec(name))


# Waiting and reading --------------------------------------------------------------------------------


def device_get(x: Any) -> Any:
    """The tree `x` with every array as a NumPy array; traced values and other leaves are left as they are.

    >>> device_get({"a": device_put(1.5), "name": "net"})
    {'a': array(1.5, dtype=float32), 'name': 'net'}
    """
    copy_to_host_async(x)
    return tree_map(_got, x)


def _got(leaf):
    if type(leaf) is ArrayImpl:
        return fetch(leaf, explicit=True)
    if type(leaf) is ExtendedArray or isinstance(leaf, Tracer):
        return leaf
    return np.asarray(leaf) if hasattr(leaf, "__array__") else leaf


def copy_to_host_async(x: Any) -> Any:
    """Start copying every array of the tree `x` to the host, and return `x`; a later `device_get` waits less.

    >>> x = copy_to_host_async({"w": jnp.arange(3)})
    >>> pl.device_get(x)
    {'w': array([0, 1, 2], dtype=int32)}
    """
    _call_method(tree_flatten(x)[0], "copy_to_host_async")
    return x


def block_until_ready(x: Any) -> Any:
    """Wait until every array of the tree `x` is computed, and return `x`; raises what computing them raised.

    >>> block_until_ready([device_put(1.5), "anything else"])
    [Array(1.5, dtype=float32, weak_type=True), 'anything else']
    """
    if type(x) is ArrayImpl:
        return x.block_until_ready()
    leaves = tree_flatten(x)[0]
    of_device = [leaf for leaf in leaves if type(leaf) is ArrayImpl]
    wait_for(of_device)
    if len(of_device) < len(leaves):
        _call_method(leaves, "block_until_ready")
    return x


def _call_method(leaves: Operands, name: str) -> None:
    """Call the method `name` of all leaves that have it."""
    for leaf in leaves:
        if callable(method := getattr(leaf, name, None)):
            method()


class _Methods(ArrayImpl if TYPE_CHECKING else object):
    """Attributes of arrays that move or copy them."""

    def __copy__(self) -> Any:
        return copy_array(self)

    def __deepcopy__(self, memo: object) -> Any:
        return copy_array(self)


extend(ArrayImpl, _Methods)
