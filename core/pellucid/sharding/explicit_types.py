"""Sharded types: shapes whose dimensions say over which Explicit mesh axes they are sharded."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from pellucid.base import Shape, exact_quotient, inserted

from .errors import PartitionSpecError, ShardingArgumentError, ShardingTypeError, indivisible_error
from .mesh import AbstractMesh, AnyMesh, AxisName, AxisType
from .named_sharding import NamedSharding, check_spec
from .partition_spec import (
    NO_AXES,
    AxisSet,
    PartitionSpec,
    axes_text,
    rank_error,
)


class Operand(NamedTuple):
    """A sharded type as the rules see it: a shape and a spec with one entry for each dimension."""

    shape: Shape
    spec: PartitionSpec
    dtype: str = ""

    @property
    def axes_per_dim(self) -> tuple[tuple[AxisName, ...], ...]:
        """For each dimension the mesh axes that shard it."""
        return self.spec.axes_per_dim

    def __str__(self) -> str:
        return type_text(self.dtype, self.shape, self.spec)


def operand_of(aval: Any) -> Operand:
    """The sharded type of `aval`, which has a shape, a dtype and the sharding it shows, or None."""
    sharding = aval.shown_sharding
    spec = PartitionSpec() if sharding is None else sharding.spec
    return Operand(aval.shape, spec.padded(len(aval.shape)), str(aval.dtype))


def type_text(
    dtype: str,
    shape: Iterable[object],
    spec: PartitionSpec | None,
    varying: AxisSet = NO_AXES,
) -> str:
    """A sharded type, of values that differ over the axes `varying`, as programs show it.

    >>> type_text("float32", (8, 4), PartitionSpec(("x", "y"), None))
    'float32[8@(x,y),4]'
    >>> type_text("float32", (8,), PartitionSpec("x", unreduced={"z"}))
    'float32[8@x]{U:z}'
    >>> type_text("float32", (8,), None, frozenset("xy"))
    'float32[8]{V:(x,y)}'
    """
    dims = list(map(str, shape))
    spec = PartitionSpec() if spec is None else spec
    for i, axes in enumerate(spec.axes_per_dim):
        if axes:
            dims[i] += f"@{_names(axes)}"
    marks = [
        f"{letter}:{_names(sorted_axes(axes))}"
        for letter, axes in (("V", varying), ("U", spec.unreduced), ("R", spec.reduced))
        if axes
    ]
    return f"{dtype}[{','.join(dims)}]" + ("{" + ",".join(marks) + "}" if marks else "")


def _names(axes: Sequence[AxisName]) -> str:
    names = ",".join(map(str, axes))
    return f"({names})" if len(axes) > 1 else names


def in_words(operand: Operand, mesh: AbstractMesh) -> str:
    """How `operand` is laid out over `mesh`, for messages.

    >>> in_words(Operand((8, 4), PartitionSpec("x", None)), AbstractMesh((2,), ("x",)))
    "dimension 0 is sharded over 'x' (2 parts)"
    """
    parts = [
        f"dimension {dim} is sharded over {axes_text(axes)} ({parts_of(axes, mesh)} parts)"
        for dim, axes in enumerate(operand.axes_per_dim)
        if axes
    ]
    if operand.spec.unreduced:
        parts.append(f"devices along {axes_text(operand.spec.unreduced)} hold addends")
    if operand.spec.reduced:
        parts.append(f"reduced over {axes_text(operand.spec.reduced)}")
    return "; ".join(parts) or "every device has all of it"


def sorted_axes(axes: Iterable[AxisName]) -> list[AxisName]:
    """Mesh axes of a set in an order that does not change from run to run."""
    return sorted(axes, key=repr)


def parts_of(axes: Iterable[AxisName], mesh: AnyMesh) -> int:
    """Into how many parts `axes` together split a dimension."""
    return math.prod(mesh.shape[axis] for axis in axes)


def sharding_type_error(
    name: str,
    what: str,
    operands: Sequence[Operand],
    mesh: AbstractMesh,
    do: str | None = None,
) -> ShardingTypeError:
    """The error for operation `name` on `operands`, with the layout of each in words."""
    got = [
        f"operand {i}: {operand}: {in_words(operand, mesh)}" for i, operand in enumerate(operands)
    ]
    return ShardingTypeError(f"{name}: {what}", got=got, do=do)


def check_divisible(shape: Shape, spec: PartitionSpec, mesh: AnyMesh, what: str = "") -> None:
    """Raise IndivisibleError, which begins its facts with `what`, if the mesh axes of a dimension do not divide its size."""
    for dim, (size, axes) in enumerate(zip(shape, spec.axes_per_dim, strict=False)):
        count = parts_of(axes, mesh)
        if exact_quotient(size, count) is None:
            got = f"{what}{type_text('', shape, spec)} over {mesh}"
            raise indivisible_error(got, shape, dim, count, axes_text(axes))


def checked_out_spec(
    name: str, out_sharding: NamedSharding, shape: Shape, mesh: AbstractMesh
) -> PartitionSpec:
    """The spec that `out_sharding` asks for, with one entry for each dimension of the result's `shape`.

    Raises: PartitionSpecError where it does not fit the shape, or names an axis that is not Explicit;
    IndivisibleError where it does not split evenly; ShardingArgumentError where it is over another mesh.
    """
    if out_sharding.mesh.shape_tuple != mesh.shape_tuple:
        raise ShardingArgumentError(
            f"{name}: `out_sharding` is over another mesh than the operands.",
            got=[f"out_sharding: {out_sharding.mesh}", f"operands: {mesh}"],
        )
    spec = out_sharding.spec
    if len(spec) > len(shape):
        raise rank_error(spec, len(shape), f"{name}: a result of shape {shape}")
    check_spec(mesh, spec)
    for axis in sorted_axes(spec.axis_names):
        if mesh.axis_type_by_name[axis] is not AxisType.Explicit:
            raise PartitionSpecError(
                f"{name}: `out_sharding` names Explicit mesh axes; {axis!r} is "
                f"{mesh.axis_type_by_name[axis]!r}.",
                got=[f"out_sharding: {spec!r}", str(mesh)],
                do=f"Use with_sharding_constraint for {axis!r}.",
            )
    check_divisible(shape, spec, mesh, f"{name}: ")
    return spec.padded(len(shape))


def explicit_part(spec: PartitionSpec, mesh: AnyMesh, ndim: int) -> PartitionSpec:
    """The part of `spec` that types show: one entry for each dimension, with the Explicit axes alone.

    >>> mesh = AbstractMesh((2, 2), ("x", "y"), (AxisType.Explicit, AxisType.Auto))
    >>> explicit_part(PartitionSpec(("x", "y")), mesh, 2)
    P('x', None)
    """
    padded = spec.padded(ndim)
    explicit = frozenset(mesh.explicit_axes)
    if explicit >= padded.axis_names and PartitionSpec.UNCONSTRAINED not in padded.partitions:
        return padded
    return padded.update(
        partitions=[tuple(a for a in axes if a in explicit) for axes in padded.axes_per_dim]
    )


def type_sharding(sharding: Any, ndim: int) -> NamedSharding | None:
    """The sharding in the type of a value of `ndim` dimensions that is placed by `sharding`.

    None where the placement is not by a mesh, or uses no Explicit axis.
    """
    if not isinstance(sharding, NamedSharding) or not sharding.mesh.explicit_axes:
        return None
    mesh = sharding.mesh.abstract_mesh
    return shown_sharding(mesh, explicit_part(sharding.spec, mesh, ndim))


def shown_sharding(mesh: AbstractMesh, spec: PartitionSpec) -> NamedSharding | None:
    """The sharding in a type that `spec` over `mesh` describes; None for a value that is whole everywhere.

    So a value without a mesh, and one that every device of a mesh holds in full, have one type.
    """
    if not (spec.axis_names or spec.unreduced or spec.reduced):
        return None
    return NamedSharding(mesh, spec)


def sharding_with_dim(aval: Any, dim: int, like: NamedSharding | None) -> NamedSharding | None:
    """The sharding of a value of type `aval` repeated along a new dimension `dim`, which is cut as that of `like` is.

    None where `like` doesn't cut it.
    """
    entry = None if like is None else like.spec.partitions[dim]
    if like is None or entry is None:
        return None
    entries = aval.sharding.spec.partitions
    return NamedSharding(like.mesh, PartitionSpec(*inserted(entries, dim, entry)))


def cotangent_sharding(
    aval: Any, order: Iterable[int], factors: Iterable[Any]
) -> NamedSharding | None:
    """The sharding of axes `order` of the cotangent of an operand of type `aval`; None without Explicit mesh axes.

    It is stated for a product of arrays of types `factors`, so that addends on several devices are summed as needed.
    """
    shown = [a.shown_sharding for a in (aval, *factors) if a.shown_sharding is not None]
    if not shown:
        return None
    spec = operand_of(aval).spec.to_ct_spec()
    return NamedSharding(shown[0].mesh, spec.update([spec.partitions[i] for i in order]))
