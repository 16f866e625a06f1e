"""`device_put`: values brought to other devices or memories."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

from pellucid.base import tree
from pellucid.base.errors import ArgumentTypeError, ArgumentValueError, CompilationError
from pellucid.ir.avals import ShapedArray
from pellucid.ir.primitive import Primitive
from pellucid.ir.rules import BatchAxis, BatchDim, Zero
from pellucid.primitives.padding import inserted
from pellucid.runtime import array as array_module
from pellucid.runtime.transfer import copied, move, put_host
from pellucid.sharding.memory import MemorySpace, space_of_kind
from pellucid.sharding.named_sharding import NamedSharding
from pellucid.sharding.partition_spec import PartitionSpec
from pellucid.sharding.placement import Sharding
from pellucid.sharding.single_device import make_single_device_sharding
from pellucid.tracing.trace import bind
from pellucid.tracing.values import type_of
from pellucid.xla import arrays
from pellucid.xla.arrays import ArrayImpl
from pellucid.xla.shardings import Device


class ArrayCopySemantics(enum.Enum):
    """Whether a value that already is where it should be is used again, copied, or given away."""

    REUSE_INPUT = 0
    ALWAYS_COPY = 1
    DONATE_INPUT = 2

    def __str__(self) -> str:
        return f"ArrayCopySemantics.{self.name}"

    __repr__ = __str__


class DevicePutParams(NamedTuple):
    """One entry for each operand; a destination is a device, a sharding, a memory space, or None."""

    copy_semantics: tuple[ArrayCopySemantics, ...]
    devices: tuple[Any, ...]
    srcs: tuple[Any, ...]

    def of(self, chosen: Sequence[bool]) -> DevicePutParams:
        """Params for some of the operands."""
        return DevicePutParams(*(tuple([x for x, c in zip(field, chosen, strict=True) if c]) for field in self))


class DevicePut(Primitive[DevicePutParams]):
    """The identity, to another place; outside a trace, a transfer without a compiled program."""

    name = "device_put"

    def run(self, operands: tuple[Any, ...], params: DevicePutParams) -> list[Any]:
        return [
            placed(x, destination, semantics)
            for x, destination, semantics in zip(operands, params.devices, params.copy_semantics, strict=True)
        ]

    def abstract_eval(self, avals: tuple[Any, ...], params: DevicePutParams) -> Sequence[ShapedArray]:
        return [
            aval if destination is None else aval.update(memory_space=_space(destination))
            for aval, destination in zip(avals, params.devices, strict=True)
        ]

    def jvp(
        self, primals: tuple[Any, ...], tangents: tuple[Any, ...], params: DevicePutParams
    ) -> tuple[Any, Any]:
        results = bind(self, *primals, params=params)
        nonzero = [type(t) is not Zero for t in tangents]
        given = [t for t in tangents if type(t) is not Zero]
        moved = iter(bind(self, *given, params=params.of(nonzero)))
        return results, [
            next(moved) if nz else Zero(type_of(y).tangent()) for nz, y in zip(nonzero, results, strict=True)
        ]

    def transpose(
        self, cotangents: tuple[Any, ...], operands: tuple[Any, ...], params: DevicePutParams
    ) -> Sequence[Any]:
        nonzero = [type(ct) is not Zero for ct in cotangents]
        _, devices, srcs = params.of(nonzero)
        back = DevicePutParams((ArrayCopySemantics.ALWAYS_COPY,) * len(devices), srcs, devices)
        given = [ct for ct in cotangents if type(ct) is not Zero]
        moved = iter(bind(self, *given, params=back) if given else ())
        return [next(moved) if nz else Zero(x.aval) for nz, x in zip(nonzero, operands, strict=True)]

    def batch(
        self, axis: BatchAxis, operands: tuple[Any, ...], dims: tuple[BatchDim, ...], params: DevicePutParams
    ) -> tuple[Sequence[Any], Sequence[BatchDim]]:
        devices, srcs = (
            tuple([_batched_place(place, dim) for place, dim in zip(places, dims, strict=True)])
            for places in (params.devices, params.srcs)
        )
        return bind(self, *operands, params=params._replace(devices=devices, srcs=srcs)), dims

    def lower(self, ctx: Any, operands: Sequence[Any], params: DevicePutParams) -> Sequence[Any]:
        for destination in params.devices:
            several = isinstance(destination, Sharding) and len(destination.device_set) > 1
            if several or _kind(destination) not in (None, "device"):
                raise CompilationError(
                    f"device_put to {destination} is not supported inside a compiled function.",
                    do="Use `with_sharding_constraint` there, or put the result outside.",
                )
        return operands


device_put_p = DevicePut()


def _kind(destination: Any) -> str | None:
    """The memory kind that a destination asks for."""
    return getattr(destination, "memory_kind", None)


def _space(destination: Any) -> MemorySpace | None:
    return space_of_kind(_kind(destination))


def _batched_place(place: Any, dim: BatchDim) -> Any:
    """The place of a batch whose elements go to `place`."""
    if not isinstance(place, NamedSharding) or dim is None:
        return place
    axes = tuple(place.spec) + (None,) * (dim - len(place.spec))
    return place.with_spec(PartitionSpec(*inserted(axes, dim, None)))


def placed(x: Any, destination: Any, semantics: ArrayCopySemantics) -> Any:
    """`x` at its destination, moved now."""
    aval: Any = type_of(x)
    if type(x) is not ArrayImpl:
        sharding = array_module.default_sharding() if destination is None else _sharding(destination, None)
        return put_host(x, aval, sharding, committed=destination is not None)
    array_module.check_not_deleted(x)
    if destination is None:
        return copied(x) if semantics is ArrayCopySemantics.ALWAYS_COPY else x
    sharding = _sharding(destination, x)
    if sharding == x.sharding:
        if semantics is ArrayCopySemantics.ALWAYS_COPY:
            x = copied(x)
        return x if x.committed else arrays.assemble(x.aval, sharding, arrays.shards_of(x), committed=True)
    moved = move(x, sharding, committed=True)
    if semantics is ArrayCopySemantics.DONATE_INPUT:
        x.delete()
    return moved


def _sharding(destination: Any, x: Any) -> Any:
    """The sharding that a destination means for array `x` (None: a host value)."""
    if isinstance(destination, MemorySpace):
        old = array_module.default_sharding() if x is None else x.sharding
        kind = destination.memory_kind
        return old if kind is None else old.with_memory_kind(kind)
    if isinstance(destination, Sharding):
        return destination
    return make_single_device_sharding(destination)


def device_put(
    x: Any,
    device: Any = None,
    *,
    src: Any = None,
    donate: bool | Any = False,
    may_alias: bool | None | Any = None,
) -> Any:
    """`x`, a tree of arrays, on a device, laid out as a sharding, or in a memory space.

    `device`, `src`, `donate` and `may_alias` may be trees that are prefixes of `x`. Without a device, what is on
    the host goes to the default device and the rest stays. `may_alias=False` copies in any case, `donate` gives
    the memory of `x` away. `src` says where a value is, where a trace can't know it: there its cotangent goes.

    >>> device_put({"a": 1.5})
    {'a': Array(1.5, dtype=float32, weak_type=True)}
    """
    leaves, structure = tree.tree_flatten(x)

    def for_each(prefix: Any) -> list[Any]:
        if prefix is None or not isinstance(prefix, (dict, list, tuple)):
            return [prefix] * len(leaves)
        return tree.broadcast_prefix(prefix, x, is_leaf=lambda node: node is None)

    devices = for_each(device)
    for destination in devices:
        if destination is not None and not isinstance(destination, (Device, Sharding, MemorySpace)):
            raise ArgumentTypeError(
                "device_put needs a device, a sharding or a memory space as destination.",
                got=f"got {type(destination).__name__}",
            )
    semantics = [_semantics(d, a) for d, a in zip(for_each(donate), for_each(may_alias), strict=True)]
    params = DevicePutParams(tuple(semantics), tuple(devices), tuple(for_each(src)))
    return structure.unflatten(bind(device_put_p, *leaves, params=params) if leaves else ())


def _semantics(donate: bool, may_alias: bool | None) -> ArrayCopySemantics:
    if donate and may_alias:
        raise ArgumentValueError("device_put can't both donate a value and let the result share its memory.")
    if donate:
        return ArrayCopySemantics.DONATE_INPUT
    return ArrayCopySemantics.ALWAYS_COPY if may_alias is False else ArrayCopySemantics.REUSE_INPUT


__all__ = ["ArrayCopySemantics", "device_put", "device_put_p"]
