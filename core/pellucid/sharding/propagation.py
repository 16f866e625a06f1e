"""Explicit-sharding type rules that families of primitives share.

Each rule takes shapes with specs over one abstract mesh and gives the spec of the result, padded to its
rank. A rule never hides communication: where a result could be laid out in several ways, or where devices
would have to exchange data, it raises ShardingTypeError with the layouts of all operands in words, unless
the user said what is wanted (`out_sharding`). The few places where the reference moves data anyway are said.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import Any

from pellucid.sharding.errors import ShardingTypeError
from pellucid.sharding.explicit_types import (
    Operand,
    Shape,
    checked_out_spec,
    operand_of,
    parts_of,
    result_spec,
    sharding_type_error,
)
from pellucid.sharding.mesh import AbstractMesh, AxisName
from pellucid.sharding.named_sharding import NamedSharding
from pellucid.sharding.partition_spec import NO_AXES, Entry, PartitionSpec, axes_text
from pellucid.sharding.reshape_rule import reshape

OutSharding = PartitionSpec | NamedSharding | None


class Linearity(enum.Enum):
    """In which operands an operation is linear; decides what it may do with unreduced ones."""

    NONE = enum.auto()
    """In none: exp, max."""
    JOINT = enum.auto()
    """In all together: add, neg, a sum, a movement of elements."""
    PRODUCT = enum.auto()
    """In each for itself: mul."""
    FIRST = enum.auto()
    """In the first: div."""


def operands_and_mesh(name: str, avals: Iterable[Any]) -> tuple[list[Operand], AbstractMesh]:
    """The sharded types of `avals` and their common mesh; an aval without a sharding is whole everywhere.

    Raises: ShardingTypeError if their meshes differ; ValueError if no aval has a sharding.
    """
    avals = list(avals)
    operands = [operand_of(aval) for aval in avals]
    meshes = {i: a.shown_sharding.mesh for i, a in enumerate(avals) if a.shown_sharding is not None}
    if not meshes:
        raise ValueError(f"{name}: no operand has a sharding")
    first, *others = dict.fromkeys(meshes.values())
    if others:
        raise ShardingTypeError(
            f"{name}: the operands are sharded over different meshes.",
            got=[f"operand {i}: {operands[i]} over {mesh}" for i, mesh in meshes.items()],
            do="Bring them to one mesh with reshard(operand, NamedSharding(mesh, spec)).",
        )
    return operands, first


def elementwise(
    name: str,
    operands: Sequence[Operand],
    mesh: AbstractMesh,
    linearity: Linearity = Linearity.NONE,
) -> PartitionSpec:
    """Operands of one shape, or with dimensions of size 1 (or no dimensions) where others have more.

    Each dimension is sharded as in the operands that shard it, which must agree.
    """
    ndim = max(len(operand.shape) for operand in operands)
    ranked = [operand for operand in operands if len(operand.shape) == ndim]
    shape = [max(sizes) for sizes in zip(*(operand.shape for operand in ranked), strict=True)]
    entries: list[Entry] = []
    for dim, size in enumerate(shape):
        sharded = [o.spec[dim] for o in ranked if o.spec[dim] is not None and o.shape[dim] == size]
        distinct = list(dict.fromkeys(sharded))
        if len(distinct) > 1:
            raise sharding_type_error(
                name,
                f"dimension {dim} is sharded differently in different operands.",
                operands,
                mesh,
                "Bring one operand to the other's layout: reshard(operand, PartitionSpec(...)).",
            )
        entries.append(distinct[0] if distinct else None)
    unreduced = _unreduced_of_result(name, operands, mesh, linearity)
    reduced = _reduced_of_result(name, operands, mesh) - unreduced
    return result_spec(name, operands, mesh, entries, unreduced=unreduced, reduced=reduced)


def broadcast_in_dim(
    operand: Operand,
    shape: Shape,
    broadcast_dimensions: Sequence[int],
    mesh: AbstractMesh,
    out_sharding: OutSharding = None,
) -> PartitionSpec:
    """Dimensions keep their axes at their new places; new and expanded ones are whole."""
    if out_sharding is not None:
        return checked_out_spec("broadcast_in_dim", out_sharding, shape, mesh)
    entries: list[Entry] = [None] * len(shape)
    for dim, new_dim in enumerate(broadcast_dimensions):
        if operand.shape[dim] == shape[new_dim]:
            entries[new_dim] = operand.spec.partitions[dim]
    return operand.spec.update(partitions=entries)


def transpose(operand: Operand, permutation: Sequence[int]) -> PartitionSpec:
    """Axes move with their dimensions."""
    return operand.spec.update(partitions=[operand.spec.partitions[dim] for dim in permutation])


def reduction(
    name: str, operand: Operand, dims: Iterable[int], mesh: AbstractMesh, *, is_sum: bool
) -> PartitionSpec:
    """Reduced dimensions vanish with their axes; devices exchange what they have, which is meant here.

    An unreduced operand may be summed, and stays unreduced.
    """
    if not is_sum:
        _refuse_unreduced(name, [operand], mesh)
    return _without_dims(operand, dims)


def squeeze(operand: Operand, dims: Iterable[int]) -> PartitionSpec:
    """Dimensions of size 1 vanish."""
    return _without_dims(operand, dims)


def expand_dims(operand: Operand, dims: Iterable[int]) -> PartitionSpec:
    """New dimensions, at positions `dims` of the result, are whole."""
    entries = list(operand.spec.partitions)
    for dim in sorted(dims):
        entries.insert(dim, None)
    return operand.spec.update(partitions=entries)


def along_dims(
    name: str,
    operand: Operand,
    dims: Iterable[int],
    mesh: AbstractMesh,
    linearity: Linearity = Linearity.NONE,
) -> PartitionSpec:
    """An operation that needs whole dimensions `dims`: sort, top_k, cumulative sums.

    Raises: ShardingTypeError if one of them is sharded.
    """
    for dim in dims:
        if operand.axes_per_dim[dim]:
            entries = [None if i == dim else e for i, e in enumerate(operand.spec.partitions)]
            raise sharding_type_error(
                name,
                f"dimension {dim}, along which it works, must not be sharded.",
                [operand],
                mesh,
                f"Gather it first: reshard(x, {operand.spec.update(partitions=entries)!r}).",
            )
    if linearity is Linearity.NONE:
        _refuse_unreduced(name, [operand], mesh)
    return operand.spec


def resized(
    name: str, operand: Operand, shape: Shape, mesh: AbstractMesh, out_sharding: OutSharding = None
) -> PartitionSpec:
    """An operation that changes sizes of dimensions but not their roles: slice, pad, windows.

    Each dimension keeps its axes; those of changed size must still be split evenly. Devices exchange edges.

    Raises: ShardingTypeError where a sharded dimension gets a size that its axes do not divide.
    """
    if out_sharding is not None:
        return checked_out_spec(name, out_sharding, shape, mesh)
    for dim, (old, new) in enumerate(zip(operand.shape, shape, strict=True)):
        axes = operand.axes_per_dim[dim]
        if old != new and new % parts_of(axes, mesh):
            raise sharding_type_error(
                name,
                f"dimension {dim} would have size {new}, which {axes_text(axes)} "
                f"({parts_of(axes, mesh)} parts) does not divide.",
                [operand],
                mesh,
                f"Gather dimension {dim} first: reshard(x, PartitionSpec(...)) with None there.",
            )
    return operand.spec


def concatenate(
    name: str, operands: Sequence[Operand], dim: int, mesh: AbstractMesh
) -> PartitionSpec:
    """Operands must be laid out alike; devices exchange parts if the joined dimension is sharded."""
    require_same_layout(name, operands, mesh)
    spec = operands[0].spec
    size = sum(operand.shape[dim] for operand in operands)
    parts = parts_of(spec.axes_per_dim[dim], mesh)
    if size % parts:
        raise sharding_type_error(
            name,
            f"dimension {dim} would have size {size}, which its {parts} parts do not divide.",
            operands,
            mesh,
        )
    return spec


def require_same_layout(name: str, operands: Sequence[Operand], mesh: AbstractMesh) -> None:
    """Raise ShardingTypeError unless all operands have the same spec."""
    if any(operand.spec is not operands[0].spec for operand in operands):
        raise sharding_type_error(
            name,
            "the operands must be laid out alike.",
            operands,
            mesh,
            f"For example reshard(operand, {operands[0].spec!r}).",
        )


def select(
    name: str, which: Operand, cases: Sequence[Operand], mesh: AbstractMesh
) -> PartitionSpec:
    """As elementwise; `which` may have no dimensions, and unreduced cases stay unreduced."""
    _refuse_unreduced(name, [which], mesh)
    spec = elementwise(name, cases, mesh, Linearity.JOINT)
    if not which.shape:
        return spec
    chosen = Operand(cases[0].shape, spec.update(unreduced=NO_AXES, reduced=NO_AXES))
    plain = Operand(which.shape, which.spec.update(reduced=NO_AXES))
    merged = elementwise(name, [plain, chosen], mesh)
    return result_spec(
        name,
        [which, *cases],
        mesh,
        merged.partitions,
        unreduced=spec.unreduced,
        reduced=spec.reduced,
    )


def creation(
    name: str, shape: Shape, mesh: AbstractMesh, out_sharding: OutSharding = None
) -> PartitionSpec:
    """Values made from nothing are whole everywhere unless `out_sharding` says otherwise."""
    if out_sharding is None:
        return PartitionSpec().padded(len(shape))
    return checked_out_spec(name, out_sharding, shape, mesh)


def dot_general(
    lhs: Operand,
    rhs: Operand,
    contracting: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]],
    mesh: AbstractMesh,
    out_sharding: OutSharding = None,
) -> PartitionSpec:
    """Batch dimensions first, then the free ones of `lhs`, then those of `rhs`, each with its axes.

    Batch dimensions have the axes of `lhs`, as in the reference, also where only `rhs` is sharded. A
    contracting dimension may be sharded in one operand; the other's is then sharded too, or the parts are gathered.
    Where it is sharded in both, products of parts are addends, and `out_sharding` must say whether they are
    summed or left unreduced.

    Raises: ShardingTypeError where dimensions that belong together are sharded differently, or it is not said.
    """
    name, operands = "dot_general", [lhs, rhs]
    _refuse_unreduced(name, operands, mesh)
    contracted = [
        [o.spec.partitions[d] for d in dims] for o, dims in zip(operands, contracting, strict=True)
    ]
    free = [
        [d for d in range(len(o.shape)) if d not in c and d not in b]
        for o, c, b in zip(operands, contracting, batch, strict=True)
    ]
    if out_sharding is not None:
        shape = tuple(
            [lhs.shape[d] for d in (*batch[0], *free[0])] + [rhs.shape[d] for d in free[1]]
        )
        spec = checked_out_spec(name, out_sharding, shape, mesh)
        if spec.unreduced:
            _check_unreduced_product(operands, contracted, spec, mesh)
        return spec.update(reduced=NO_AXES)
    for i, j in zip(*batch, strict=True):
        _agreed_entry(name, "batch dimensions", lhs, i, rhs, j, mesh)
    for i, j in zip(*contracting, strict=True):
        _agreed_entry(name, "contracting dimensions", lhs, i, rhs, j, mesh)
        if lhs.axes_per_dim[i] and rhs.axes_per_dim[j]:
            raise sharding_type_error(
                name,
                "both operands' contracting dimensions are sharded; devices would hold addends.",
                operands,
                mesh,
                "Give out_sharding=PartitionSpec(...) to have them summed, with "
                f"unreduced={{{axes_text(lhs.axes_per_dim[i])}}} to keep them.",
            )
    entries = [lhs.spec.partitions[d] for d in (*batch[0], *free[0])]
    entries += [rhs.spec.partitions[d] for d in free[1]]
    return result_spec(name, operands, mesh, entries)


def convolution(
    lhs: Operand,
    rhs: Operand,
    shape: Shape,
    lhs_dims: Sequence[int],
    out_dims: Sequence[int],
    mesh: AbstractMesh,
    out_sharding: OutSharding = None,
) -> PartitionSpec:
    """A whole kernel carries the layout of the batch and space of `lhs`; anything else needs `out_sharding`.

    `lhs_dims` and `out_dims` hold the batch, feature and space dimensions of the operand and the result.
    """
    name = "conv_general_dilated"
    if out_sharding is not None:
        return checked_out_spec(name, out_sharding, shape, mesh)
    batch, feature, *space = lhs_dims
    if not rhs.is_whole or lhs.axes_per_dim[feature]:
        raise _needs_out_sharding(name, [lhs, rhs], mesh)
    _refuse_unreduced(name, [lhs], mesh)
    entries: list[Entry] = [None] * len(shape)
    sizes = list(shape)
    for dim, out_dim in zip((batch, *space), (out_dims[0], *out_dims[2:]), strict=True):
        entries[out_dim] = lhs.spec.partitions[dim]
        sizes[out_dim] = lhs.shape[dim]
    spec = lhs.spec.update(partitions=entries)
    return resized(name, Operand(tuple(sizes), spec, lhs.dtype), shape, mesh)


def gather(
    operand: Operand,
    indices: Operand,
    shape: Shape,
    whole_dims: Iterable[tuple[int, int]],
    batch_dims: Iterable[tuple[int, int, int]],
    mesh: AbstractMesh,
    out_sharding: OutSharding = None,
) -> PartitionSpec:
    """A dimension that is taken whole keeps its axes; no other may be sharded, nor the indices.

    `whole_dims` pairs dimensions of the operand that every slice takes whole with those of the result;
    `batch_dims` lists (operand, indices, result) dimensions that run together, and may be sharded alike.
    """
    name = "gather"
    if out_sharding is not None:
        return checked_out_spec(name, out_sharding, shape, mesh)
    _refuse_unreduced(name, [operand, indices], mesh)
    entries: list[Entry] = [None] * len(shape)
    explained = [set[int](), set[int]()]
    for dim, out_dim in whole_dims:
        entries[out_dim] = operand.spec.partitions[dim]
        explained[0].add(dim)
    for dim, index_dim, out_dim in batch_dims:
        entries[out_dim] = _agreed_entry(
            name, "batch dimensions", operand, dim, indices, index_dim, mesh
        )
        explained[0].add(dim)
        explained[1].add(index_dim)
    if _is_sharded_outside(operand, explained[0]) or _is_sharded_outside(indices, explained[1]):
        raise _needs_out_sharding(name, [operand, indices], mesh)
    return result_spec(name, [operand, indices], mesh, entries, reduced=operand.spec.reduced)


def scatter(
    operand: Operand,
    indices: Operand,
    updates: Operand,
    whole_dims: Iterable[tuple[int, int]],
    batch_dims: Iterable[tuple[int, int, int]],
    mesh: AbstractMesh,
    out_sharding: OutSharding = None,
) -> PartitionSpec:
    """The operand's layout, provided that it is sharded only along dimensions that updates cover whole.

    `whole_dims` pairs such dimensions with those of `updates`, which must be sharded alike or not at all. So must
    the (operand, indices, updates) dimensions in `batch_dims`, which run together; no others may be sharded.
    """
    name, operands = "scatter", [operand, indices, updates]
    if out_sharding is not None:
        return checked_out_spec(name, out_sharding, operand.shape, mesh)
    _refuse_unreduced(name, operands, mesh)
    pairs, together = list(whole_dims), list(batch_dims)
    for dim, update_dim in pairs:
        _agreed_entry(name, "dimensions written whole", operand, dim, updates, update_dim, mesh)
    for dim, index_dim, update_dim in together:
        _agreed_entry(name, "batch dimensions", operand, dim, indices, index_dim, mesh)
        _agreed_entry(name, "batch dimensions", operand, dim, updates, update_dim, mesh)
    sharded = [bool(axes) for axes in operand.axes_per_dim]
    if (
        _is_sharded_outside(operand, [i for i, *_ in (*pairs, *together)])
        or _is_sharded_outside(updates, [j for i, *_, j in (*pairs, *together) if sharded[i]])
        or _is_sharded_outside(indices, [j for i, j, _ in together if sharded[i]])
    ):
        raise _needs_out_sharding(name, operands, mesh)
    return operand.spec


def or_out_sharding(
    name: str,
    operands: Sequence[Operand],
    shape: Shape,
    mesh: AbstractMesh,
    out_sharding: OutSharding = None,
) -> PartitionSpec:
    """An operation without a rule of its own: whole operands give a whole result.

    Raises: ShardingTypeError if an operand is sharded and `out_sharding` is not given.
    """
    if out_sharding is None and not all(operand.is_whole for operand in operands):
        raise _needs_out_sharding(name, operands, mesh)
    return creation(name, shape, mesh, out_sharding)


def _needs_out_sharding(
    name: str, operands: Sequence[Operand], mesh: AbstractMesh
) -> ShardingTypeError:
    return sharding_type_error(
        name,
        "it is ambiguous how the result is sharded, or devices would have to exchange data.",
        operands,
        mesh,
        "Say how to lay out the result: `out_sharding=PartitionSpec(...)`.",
    )


def _is_sharded_outside(operand: Operand, dims: Iterable[int]) -> bool:
    """Whether a dimension other than `dims` is sharded."""
    inside = set(dims)
    return any(axes and dim not in inside for dim, axes in enumerate(operand.axes_per_dim))


def _without_dims(operand: Operand, dims: Iterable[int]) -> PartitionSpec:
    gone = set(dims)
    kept = [entry for i, entry in enumerate(operand.spec.partitions) if i not in gone]
    return operand.spec.update(partitions=kept)


def _agreed_entry(
    name: str, what: str, a: Operand, i: int, b: Operand, j: int, mesh: AbstractMesh
) -> Entry:
    """The entry of paired dimensions: that of the operand which is sharded; both must agree."""
    entry_a, entry_b = a.spec.partitions[i], b.spec.partitions[j]
    if entry_a is not None and entry_b is not None and entry_a != entry_b:
        raise sharding_type_error(
            name,
            f"{what} {i} and {j} are sharded differently.",
            [a, b],
            mesh,
            "Bring one operand to the other's layout: reshard(operand, PartitionSpec(...)).",
        )
    return entry_b if entry_a is None else entry_a


def _check_unreduced_product(
    operands: Sequence[Operand],
    contracted: Sequence[Sequence[Entry]],
    spec: PartitionSpec,
    mesh: AbstractMesh,
) -> None:
    """Raise unless each device's product is an addend over exactly the axes that `spec` leaves unreduced."""
    axes = {axis for entry in contracted[0] for axis in PartitionSpec(entry).axis_names}
    if contracted[0] == contracted[1] and axes == spec.unreduced:
        return
    raise sharding_type_error(
        "dot_general",
        f"the result can't be unreduced over {axes_text(spec.unreduced)}: both operands' "
        "contracting dimensions must be sharded over just those axes.",
        operands,
        mesh,
    )


def _refuse_unreduced(name: str, operands: Sequence[Operand], mesh: AbstractMesh) -> None:
    for i, operand in enumerate(operands):
        if operand.spec.unreduced:
            axes = axes_text(operand.spec.unreduced)
            raise sharding_type_error(
                name,
                f"operand {i} is unreduced over {axes}, and the operation does not commute with sums.",
                operands,
                mesh,
                f"Sum it first: reshard(x, {operand.spec.update(unreduced=NO_AXES)!r}).",
            )


def _unreduced_of_result(
    name: str, operands: Sequence[Operand], mesh: AbstractMesh, linearity: Linearity
) -> frozenset[AxisName]:
    unreduced = {operand.spec.unreduced for operand in operands}
    if unreduced == {NO_AXES}:
        return NO_AXES
    if linearity is Linearity.NONE:
        _refuse_unreduced(name, operands, mesh)
    if linearity is Linearity.JOINT:
        if len(unreduced) > 1:
            raise sharding_type_error(
                name,
                "all operands must be unreduced over the same mesh axes, or none.",
                operands,
                mesh,
                "Sum the addends of the others first with reshard.",
            )
        return unreduced.pop()
    return _unreduced_of_product(name, operands, mesh, linearity)


def _unreduced_of_product(
    name: str, operands: Sequence[Operand], mesh: AbstractMesh, linearity: Linearity
) -> frozenset[AxisName]:
    """Addends times a factor that is the same on all of them, which `reduced` states, are addends."""
    holders = [i for i, operand in enumerate(operands) if operand.spec.unreduced]
    linear_in = holders[0]
    axes = operands[linear_in].spec.unreduced
    others = [operand for i, operand in enumerate(operands) if i != linear_in]
    possible = len(holders) == 1 and (linearity is Linearity.PRODUCT or linear_in == 0)
    if possible and all(other.spec.reduced == axes for other in others):
        return axes
    raise sharding_type_error(
        name,
        "an unreduced operand needs the other one to be reduced over the same mesh axes."
        if possible
        else "at most one operand may be unreduced, and the operation must be linear in it.",
        operands,
        mesh,
        f"For example reshard(operand, PartitionSpec(..., reduced={{{axes_text(axes)}}}))."
        if possible
        else "Sum the addends first with reshard.",
    )


def _reduced_of_result(
    name: str, operands: Sequence[Operand], mesh: AbstractMesh
) -> frozenset[AxisName]:
    """The axes over which all operands are reduced; scalars and unreduced operands need not be."""
    relevant = [o for o in operands if o.shape and not o.spec.unreduced]
    reduced = {operand.spec.reduced for operand in relevant} or {NO_AXES}
    if len(reduced) > 1:
        raise sharding_type_error(
            name,
            "all operands must be reduced over the same mesh axes, or none.",
            operands,
            mesh,
            "Give the others the same `reduced` with reshard.",
        )
    return reduced.pop()
