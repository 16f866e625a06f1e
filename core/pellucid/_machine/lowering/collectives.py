"""Collectives in StableHLO: groups of devices, and the operations that exchange data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import AxisNameError, strict_zip
from pellucid._machine.ir import Operands, ShapedArray, shaped_array
from pellucid._machine.sharding import NamedSharding, PartitionSpec
from pellucid._machine.sharding.shardy import axis_texts
from pellucid._machine.xla.mlir import ir

from .faults import SUMMED_COMPLEX_CONSTANT
from .module import LoweringContext
from .operations import Attributes

Groups = tuple[tuple[int, ...], ...]

_INDEX = np.dtype(np.int32)
_CHANNEL = "#stablehlo.channel_handle<handle = 1, type = 1>"


class ManualRegion(NamedTuple):
    """A part of a program that runs once for each position along the `manual` axes of a mesh."""

    mesh: Any
    manual: frozenset[Any]

    @property
    def is_full(self) -> bool:
        """Whether every axis of the mesh is manual."""
        return self.manual.issuperset(self.mesh.axis_names)


def region_of(ctx: LoweringContext, axes: Sequence[Any]) -> ManualRegion:
    """The manual region being lowered, which must bind `axes`."""
    region = ctx.manual
    for axis in axes:
        if region is None or axis not in region.manual:
            raise AxisNameError(
                f"axis {axis!r} has no devices where the program is compiled.",
                do="Call the function under `shard_map` over a mesh with that axis, or under `vmap` with axis_name.",
            )
    return region


def device_groups(
    ctx: LoweringContext, axes: Sequence[Any], within: Groups | None = None
) -> np.ndarray:
    """Groups of devices that differ only along `axes`, as rows of indices in the device assignment, in the order of
    `axes`.

    `within` divides each row further, by position along the axes; shorter groups are padded with -1.
    """
    mesh = region_of(ctx, axes).mesh
    positions = ctx.sharding_attributes.positions(mesh).reshape(mesh.axis_sizes)
    dims = [mesh.axis_names.index(axis) for axis in axes]
    others = [i for i in range(positions.ndim) if i not in dims]
    size = math.prod(mesh.axis_sizes[i] for i in dims)
    rows = positions.transpose(*others, *dims).reshape(-1, size)
    if within is None:
        return rows
    longest = max(map(len, within))
    padded = np.array([[*group, *[-1] * (longest - len(group))] for group in within])
    return np.where(padded < 0, -1, rows[:, padded]).reshape(-1, longest)


def group_attributes(ctx: LoweringContext, groups: np.ndarray) -> Attributes:
    """Attributes that specify the device groups of a collective."""
    return {
        "replica_groups": ctx.int_matrix(groups),
        "channel_handle": ctx.attribute(_CHANNEL),
    }


def global_attributes(ctx: LoweringContext, groups: np.ndarray) -> Attributes:
    """Attributes of a collective whose groups contain global device ids, rather than replicas."""
    return group_attributes(ctx, groups) | {"use_global_device_ids": ir.UnitAttr.get()}


def all_reduce(ctx: LoweringContext, x: Any, aval: Any, op: str, groups: np.ndarray) -> Any:
    """Reduces `x`, of type `aval`, over each group with the StableHLO operation `op`."""
    if groups.shape[1] == 1:
        return x
    is_complex_sum = aval.dtype.kind == "c" and op == "stablehlo.add"
    if is_complex_sum and ctx.has_fault(SUMMED_COMPLEX_CONSTANT):
        part = aval.update(dtype=np.dtype(f"float{4 * aval.dtype.itemsize}"))
        parts = [ctx.op1(f"stablehlo.{name}", part, [x]) for name in ("real", "imag")]
        sums = [all_reduce(ctx, y, part, op, groups) for y in parts]
        return ctx.op1("stablehlo.complex", aval, sums)
    attributes = global_attributes(ctx, groups)
    reduction = ctx.op("stablehlo.all_reduce", [ctx.type(aval)], [x], attributes, regions=1)
    ctx.scalar_body(reduction.regions[0], op, aval.dtype)
    return reduction.result


def position_along(ctx: LoweringContext, axes: Sequence[Any]) -> Any:
    """Index of the running device along `axes`, an int32 scalar; the last axis varies fastest."""
    region = region_of(ctx, axes)
    if all(region.mesh.shape[axis] == 1 for axis in axes):
        return ctx.constant(_INDEX.type(0))
    if not region.is_full:
        # The partition id equals the position only if every axis is manual.
        rest = frozenset(region.mesh.axis_names) - region.manual
        scalar = shaped_array((), _INDEX)
        none, one = Parts((), (), ()), Parts((PartitionSpec(),), (scalar,), (scalar,))
        [position] = manual_computation(
            ctx, region.mesh, rest, none, one, [], lambda _: [position_along(ctx, axes)]
        )
        return position
    mesh = region.mesh
    places = np.argsort(ctx.sharding_attributes.positions(mesh)).reshape(-1)
    along = np.unravel_index(places, mesh.axis_sizes)
    dims = [mesh.axis_names.index(axis) for axis in axes]
    table = np.ravel_multi_index(
        tuple([along[int(d)] for d in dims]), [mesh.axis_sizes[d] for d in dims]
    )
    number = ctx.op1("stablehlo.partition_id", shaped_array((), np.dtype(np.uint32)), [])
    part = ctx.op1(
        "stablehlo.dynamic_slice", shaped_array((1,), _INDEX), [ctx.constant(table.astype(_INDEX)), number],
        {"slice_sizes": (1,)},
    )  # fmt: skip
    return ctx.reshape(part, shaped_array((), _INDEX))


class Parts(NamedTuple):
    """Values at the boundary of a manual region: specs, global types, and per-device types."""

    specs: Sequence[Any]
    whole: Sequence[Any]
    local: Sequence[Any]


def manual_computation(
    ctx: LoweringContext, mesh: Any, axes: frozenset[Any], inputs: Parts, outputs: Parts, operands: Operands,
    body: Callable[[list[Any]], Sequence[Any]],
) -> list[Any]:  # fmt: skip
    """Runs `body` on each device's parts of `operands`, and returns the global values made of its results.

    `axes` of `mesh` become manual. Over other axes, values are sharded as the per-device types show, or as the compiler
    decides. Source: Shardy, operation `sdy.manual_computation`.
    """
    outer = ctx.manual
    region = ManualRegion(mesh, axes if outer is None else axes | outer.manual)
    # Axes of size 1 divide nothing: the only part is the whole value.
    if all(mesh.shape[axis] == 1 for axis in axes):
        ctx.manual = region
        results = body(list(operands))
        ctx.manual = outer
        return list(results)
    names = [f'"{text}"' for name, text in axis_texts(mesh).items() if name in axes]

    def placements(parts: Parts) -> Any:
        shardings = [
            NamedSharding(mesh, _with_shown_axes(spec, local, region.manual))
            for spec, local in strict_zip(parts.specs, parts.local)
        ]
        return ctx.sharding_attributes.per_value(
            shardings, parts.whole, leave_auto_open=not region.is_full
        )

    computation = ctx.op(
        "sdy.manual_computation",
        ctx.types(outputs.whole),
        operands,
        {
            "in_shardings": placements(inputs),
            "out_shardings": placements(outputs),
            "manual_axes": ctx.attribute(f"#sdy<manual_axes{{{', '.join(names)}}}>"),
        },
        regions=1,
    )
    ctx.manual = region
    with ctx.inside(computation.regions[0], inputs.local) as parts:
        ctx.op("sdy.return", [], body(parts))
    ctx.manual = outer
    return list(computation.results)


def _with_shown_axes(
    spec: PartitionSpec, local: ShapedArray, manual: frozenset[Any]
) -> PartitionSpec:
    """`spec` extended by the non-manual axes over which parts of type `local` are sharded."""
    shown: NamedSharding | None = getattr(local, "shown_sharding", None)
    if shown is None:
        return spec
    cut = strict_zip(spec.padded(local.ndim).axes_per_dim, shown.spec.axes_per_dim)
    return spec.update(
        partitions=[(*axes, *(a for a in more if a not in manual)) or None for axes, more in cut]
    )
