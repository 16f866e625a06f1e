"""Placement: `device_put`, which moves values to devices, shardings and memories."""

from __future__ import annotations

import enum
from itertools import compress
from typing import Any, NamedTuple

from pellucid._machine.base import (
    ArgumentValueError,
    insert_at,
    strict_zip,
)
from pellucid._machine.ir import (
    MOVEMENT,
    BatchDim,
    Placed,
    Primitive,
    Runs,
    Values,
    Zero,
    aval_at,
)
from pellucid._machine.sharding import (
    NamedSharding,
    Sharding,
)
from pellucid._machine.sharding.memory import MemorySpace, space_of_kind
from pellucid._machine.sharding.stated import (
    check_no_manual_axis,
    leaves_to_put,
    sharding_for,
)
from pellucid._machine.tracing import bind, bottom, context
from pellucid._machine.xla import ArrayImpl, Device

from .families import zero_of


class ArrayCopySemantics(enum.Enum):
    """Whether `device_put` reuses or copies a value that has the requested placement already, or donates one that moves."""

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


class DevicePut(Placed, Runs, Primitive[DevicePutParams]):
    """The identity, to another place; outside a trace, a transfer without a compiled program."""

    name = statement = "device_put"
    traits = MOVEMENT
    types_are_laid_out = True

    def run(self, operands, params):
        return [
            bottom().put(
                x, destination, donate=semantics is ArrayCopySemantics.DONATE_INPUT,
                may_alias=False if semantics is ArrayCopySemantics.ALWAYS_COPY else None,
            )
            for x, destination, semantics in strict_zip(operands, params.devices, params.copy_semantics)
        ]  # fmt: skip

    def abstract_eval(self, avals, params):
        return [
            aval if destination is None else _type_at(aval, destination)
            for aval, destination in strict_zip(avals, params.devices)
        ]

    def jvp(self, primals, tangents, params):
        results = bind(self, *primals, params=params)
        # The placement of concrete arrays is known, so cotangents return there.
        srcs = [
            x.sharding if src is None and isinstance(x, ArrayImpl) else src
            for x, src in strict_zip(primals, params.srcs)
        ]
        moved = self._move(tangents, params._replace(srcs=tuple(srcs)))
        return results, [zero_of(y) if t is None else t for t, y in strict_zip(moved, results)]

    def transpose(self, cotangents, operands, params):
        _, devices, srcs = params
        back = DevicePutParams((ArrayCopySemantics.ALWAYS_COPY,) * len(devices), srcs, devices)
        moved = self._move(cotangents, back)
        return [Zero(x.aval) if ct is None else ct for ct, x in strict_zip(moved, operands)]

    def _move(self, tangents, params: DevicePutParams) -> Values:
        """`tangents`, or cotangents, moved to their placements; None for known zeros."""
        nonzero = [type(t) is not Zero for t in tangents]
        chosen = DevicePutParams(*(tuple(compress(field, nonzero)) for field in params))
        moved = iter(bind(self, *compress(tangents, nonzero), params=chosen))
        return [next(moved) if nz else None for nz in nonzero]

    def batch(self, axis, operands, dims, params):
        devices, srcs = (
            tuple([_batched_place(place, dim) for place, dim in strict_zip(places, dims)])
            for places in (params.devices, params.srcs)
        )
        return bind(self, *operands, params=params._replace(devices=devices, srcs=srcs)), dims

    def placements(self, params):
        return [place for place in params.devices if isinstance(place, (Device, Sharding))]

    def lower(self, ctx, operands, params):
        return [
            _lower_put(ctx, x, aval, destination)
            for x, aval, destination in strict_zip(operands, ctx.avals_in, params.devices)
        ]


def _type_at(aval, destination):
    """The type of a value of type `aval` at `destination`."""
    if isinstance(destination, Sharding):
        destination.check_compatible_aval(aval.shape)
        return aval_at(aval, destination)
    return aval.update(memory_space=_space(destination))


def _lower_put(ctx, x, aval, destination):
    """A value of type `aval` at `destination` within a program."""
    if isinstance(destination, Sharding) and destination.num_devices > 1:
        x = ctx.constrain(x, destination, aval)
    if isinstance(destination, Sharding) and _space(destination) is aval.memory_space:
        return x
    return _move_to_memory(ctx, x, aval, _kind(destination))


device_put_p = DevicePut()


def _move_to_memory(ctx, x, aval, kind: str | None):
    """`x` in memory of a kind.

    On the CPU all memories are one, so only results of a program can be of a kind; their types say it.
    """
    if kind is None or ctx.platform == "cpu":
        return x
    placement = ctx.string(kind)
    return ctx.op1(
        "stablehlo.custom_call",
        aval,
        [x],
        {
            "call_target_name": "annotate_device_placement",
            "has_side_effect": True,
            "mhlo.frontend_attributes": ctx.dictionary({"_xla_buffer_placement": placement}),
        },
    )


def _kind(destination) -> str | None:
    """The memory kind of a destination; None if it has none."""
    return getattr(destination, "memory_kind", None)


def _space(destination) -> MemorySpace | None:
    return space_of_kind(_kind(destination))


def _batched_place(place, dim: BatchDim):
    """The place of a batch whose elements go to `place`."""
    if not isinstance(place, NamedSharding) or dim is None:
        return place
    spec = place.spec.padded(max(dim, len(place.spec.partitions)))
    return place.with_spec(spec.update(partitions=insert_at(spec.partitions, dim, None)))


def device_put(
    x: Any,
    device: Any = None,
    *,
    src: Any = None,
    donate: bool | Any = False,
    may_alias: bool | Any | None = None,
) -> Any:
    """`x`, a tree of arrays, on a device, laid out as a sharding, or in a memory space.

    `device`, `src`, `donate` and `may_alias` may be trees that are prefixes of `x`. Without a device, what is on
    the host goes to the default device and the rest stays. `may_alias=False` copies in any case, `donate` gives
    the memory of `x` away. `src` says where `x` is; a trace can't know it, and cotangents go there.

    >>> device_put({"a": 1.5})
    {'a': Array(1.5, dtype=float32, weak_type=True)}
    """
    if context.trace.is_eager:
        return bottom().put_tree(x, device, src=src, donate=donate, may_alias=may_alias)
    leaves, structure, places = leaves_to_put(x, device, src, donate, may_alias)
    if not leaves:
        return x
    devices, srcs = (tuple([_checked_place(place[i]) for place in places]) for i in (0, 1))
    semantics = tuple([_semantics(donate, may_alias) for _, _, donate, may_alias in places])
    return structure.unflatten(
        bind(device_put_p, *leaves, params=DevicePutParams(semantics, devices, srcs))
    )


def _checked_place(place):
    """`place` in the form of a param; raises for anything that isn't a placement."""
    if isinstance(place, (MemorySpace, Device)):
        return place
    sharding = sharding_for(place)
    check_no_manual_axis("device_put", sharding)
    return sharding


def _semantics(donate: bool, may_alias: bool | None) -> ArrayCopySemantics:
    if donate and may_alias:
        raise ArgumentValueError("device_put: `donate` and `may_alias` can't both be True.")
    if donate:
        return ArrayCopySemantics.DONATE_INPUT
    return ArrayCopySemantics.ALWAYS_COPY if may_alias is False else ArrayCopySemantics.REUSE_INPUT
