"""Sharded types, and the derivation of result shardings over Explicit mesh axes from an operation's factors.

A sharded type is a shape with, for each dimension, the Explicit mesh axes that shard it.

A factor is one loop of an operation. A rule lists, for each dimension of each operand and result, the factors that
the dimension is made of; dimensions that share a factor are cut alike. As a text, with dimensions separated by spaces
and arrays by commas:

    "i k, k j -> i j"            k is reduced, i and j are kept
    "a 1, . -> a b"              "1": a dimension of size 1 that is broadcast or removed; ".": an array of rank 0
    "(a b) c -> a (b c); a=2; b=4"    dimensions of several factors, major first; the sizes of factors that are no
                                 operand's dimension alone

A mark after a factor's name holds for the factor everywhere:

    i!   must be whole: no mesh axis may cut it
    i~   elements cross the parts that it is cut into, or its size changes
    i=   operands that have it cut it alike, also not at all; by default those that cut it agree
    i^   cut only where the first operand cuts it
    i<   cut as in the first operand that has it
    i:   beside `!`: over Auto axes XLA cuts it without an exchange

No derivation hides communication: where a result could be laid out in several ways, or where devices would have to
exchange data, it raises ShardingTypeError with the layouts of all operands in words, unless the user stated the
layout of the result. A dimension whose size changes keeps its axes where they divide the new size: devices exchange
edges, as in the reference.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pellucid._machine.base import Names, Shape, exact_quotient, insert_at, strict_zip

from .errors import PartitionSpecError, ShardingArgumentError, ShardingTypeError, indivisible_error
from .mesh import AbstractMesh, AnyMesh, AxisName, AxisType
from .named_sharding import NamedSharding, check_spec
from .partition_spec import (
    NO_AXES,
    AxisNames,
    AxisSet,
    PartitionSpec,
    axes_text,
    rank_error,
    repeated_axes,
)


class Operand(NamedTuple):
    """A sharded type: a shape, and a spec with one entry per dimension."""

    shape: Shape
    spec: PartitionSpec
    dtype: str = ""

    def __str__(self) -> str:
        return type_text(self.dtype, self.shape, self.spec)


def operand_of(aval: Any) -> Operand:
    """The sharded type of `aval`."""
    sharding = aval.shown_sharding
    spec = PartitionSpec() if sharding is None else sharding.spec
    return Operand(aval.shape, spec.padded(len(aval.shape)), str(aval.dtype))


def type_text(
    dtype: str, shape: Iterable[object], spec: PartitionSpec | None, varying: AxisSet = NO_AXES
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


def sharding_text(operand: Operand, mesh: AbstractMesh) -> str:
    """Sharding of `operand` over `mesh` in words, for messages.

    >>> sharding_text(Operand((8, 4), PartitionSpec("x", None)), AbstractMesh((2,), ("x",)))
    "dimension 0 is sharded over 'x' (2 parts)"
    """
    parts = [
        f"dimension {dim} is sharded over {axes_text(axes)} ({mesh.parts_of(axes)} parts)"
        for dim, axes in enumerate(operand.spec.axes_per_dim)
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


def sharding_type_error(
    name: str, what: str, operands: Sequence[Operand], mesh: AbstractMesh, do: str | None = None
) -> ShardingTypeError:
    """The error for operation `name` on `operands`, which lists their shardings."""
    got = [
        f"operand {i}: {operand}: {sharding_text(operand, mesh)}"
        for i, operand in enumerate(operands)
    ]
    return ShardingTypeError(f"{name}: {what}", got=got, do=do)


def check_divisible(shape: Shape, spec: PartitionSpec, mesh: AnyMesh, what: str = "") -> None:
    """Raises IndivisibleError, whose facts begin with `what`, if mesh axes don't divide the dimension that they shard."""
    for dim, (size, axes) in enumerate(zip(shape, spec.axes_per_dim, strict=False)):
        count = mesh.parts_of(axes)
        if exact_quotient(size, count) is None:
            got = f"{what}{type_text('', shape, spec)} over {mesh}"
            raise indivisible_error(got, shape, dim, count, axes_text(axes))


def checked_out_spec(
    name: str, out_sharding: NamedSharding, shape: Shape, mesh: AbstractMesh
) -> PartitionSpec:
    """The spec of `out_sharding`, padded to one entry per dimension of the result's `shape`.

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
                f"{name}: `out_sharding` must name Explicit mesh axes; {axis!r} is "
                f"{mesh.axis_type_by_name[axis]!r}.",
                got=[f"out_sharding: {spec!r}", str(mesh)],
                do=f"Use with_sharding_constraint for {axis!r}.",
            )
    check_divisible(shape, spec, mesh, f"{name}: ")
    return spec.padded(len(shape))


def explicit_part(spec: PartitionSpec, mesh: AnyMesh, ndim: int) -> PartitionSpec:
    """The part of `spec` that types show: Explicit axes only, one entry per dimension.

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
    """The sharding in the type of a value with `ndim` dimensions that is placed by `sharding`.

    None where the placement is not by a mesh, or uses no Explicit axis.
    """
    if not isinstance(sharding, NamedSharding) or not sharding.mesh.explicit_axes:
        return None
    mesh = sharding.mesh.abstract_mesh
    return shown_sharding(mesh, explicit_part(sharding.spec, mesh, ndim))


def shown_sharding(mesh: AbstractMesh, spec: PartitionSpec) -> NamedSharding | None:
    """The sharding shown in a type for `spec` over `mesh`; None for an unsharded value.

    So a value without mesh has the same type as a value replicated over a mesh.
    """
    if not (spec.axis_names or spec.unreduced or spec.reduced):
        return None
    return NamedSharding(mesh, spec)


def sharding_with_dim(aval: Any, dim: int, like: NamedSharding | None) -> NamedSharding | None:
    """The sharding of a value of type `aval` repeated along a new dimension `dim`, which is sharded like that of
    `like`.

    None if `like` doesn't shard it.
    """
    if like is None or (entry := like.spec.partitions[dim]) is None:
        return None
    entries = aval.sharding.spec.partitions
    return NamedSharding(like.mesh, PartitionSpec(*insert_at(entries, dim, entry)))


def cotangent_sharding(
    aval: Any, order: Iterable[int], factors: Iterable[Any]
) -> NamedSharding | None:
    """The sharding for the cotangent of an operand of type `aval`, with axes permuted by `order`; None without Explicit
    axes.

    It is stated for a product of arrays of types `factors`, so that addends on several devices are summed as needed.
    """
    shown = [a.shown_sharding for a in (aval, *factors) if a.shown_sharding is not None]
    if not shown:
        return None
    spec = operand_of(aval).spec.to_ct_spec()
    return NamedSharding(shown[0].mesh, spec.update([spec.partitions[i] for i in order]))


# Result shardings --------------------------------------------------------------------------------------

Dims = tuple[Names, ...]
"""For each dimension of an array, its factors, major first."""

_FACTOR = re.compile(r"([^\W\d_]\w*)([!~=^<:]*)")
_RESHARD = "Bring one operand to the other's layout: reshard(operand, PartitionSpec(...))."


class FactorRule(NamedTuple):
    """The factors of each dimension of operands and results."""

    operands: tuple[Dims, ...]
    results: tuple[Dims, ...]
    marks: Mapping[str, str]
    """Marks by factor."""
    sizes: Mapping[str, int]
    """Sizes of factors that share a dimension, unless an operand has them as a dimension of their own."""


def rule_of(factors: Sequence[Any]) -> FactorRule:
    """The rule of (operands, results) or (operands, results, sizes of factors).

    Operands and results are lists of arrays, an array is a list of dimensions, each a word as in a rule's text.

    Raises: ShardingArgumentError for a word that is none.

    >>> rule_of(([["i", "k!"], ["k"]], [["i"]])).operands
    ((('i',), ('k',)), (('k',),))
    """
    operands, results, *sizes = factors
    marks: dict[str, str] = {}

    def parse_word(word: str) -> Names:
        if word == "1":
            return ()
        names: list[str] = []
        for text in word.strip("()").split():
            match = _FACTOR.fullmatch(text)
            if match is None:
                raise ShardingArgumentError(
                    "sharding rule: a factor must be a letter, letters and digits, and marks of `!~=^<:`.",
                    got=repr(word),
                )
            name, new_marks = match.groups()
            if new_marks:
                marks[name] = "".join(dict.fromkeys(marks.get(name, "") + new_marks))
            names.append(name)
        return tuple(names)

    sides = [tuple(tuple(map(parse_word, words)) for words in side) for side in (operands, results)]
    return FactorRule(sides[0], sides[1], marks, *(sizes or [{}]))


class ShardedOperation(NamedTuple):
    """An operation on operands of sharded types, as needed for the derivation of shardings and its errors."""

    name: str
    rule: FactorRule
    operands: Sequence[Operand]
    mesh: AbstractMesh
    linear: Any
    """Operands in which the operation is linear; it decides which of them may be unreduced. `"all"`: jointly in all
    that are not passive; `"each"`: in each of them, the others fixed; positions: jointly in these; None: in none.
    """
    passive: tuple[int, ...] = ()
    """Indices of operands that select elements."""
    contracts: bool = False
    """Whether the operation is a product whose operands have separate loops; then none passes `reduced` on."""
    takes_out_sharding: bool = False
    """Whether the operation has a parameter `out_sharding`."""

    # Shardings derived from the operands -------------------------------------------------------

    def specs(self, shapes: Sequence[Shape]) -> list[PartitionSpec]:
        """Shardings of results of these shapes.

        Raises: ShardingTypeError if they are ambiguous, or would need implicit communication.
        """
        unreduced = self.unreduced_axes()
        reduced = self.reduced_axes(unreduced)
        axes = self.axes_of_factors()
        specs: list[PartitionSpec] = []
        for dims, shape in strict_zip(self.rule.results, shapes):
            entries = [self.factor_axes(factors, axes, shape) for factors in dims]
            for dim, (entry, size) in enumerate(strict_zip(entries, shape)):
                parts = self.mesh.parts_of(entry)
                if exact_quotient(size, parts) is None:
                    raise self.error(
                        f"dimension {dim} would have size {size}, which {axes_text(entry)} "
                        f"({parts} parts) does not divide.",
                        f"Gather dimension {dim} first: reshard(x, PartitionSpec(...)) with None there.",
                    )
            spec = PartitionSpec(*entries)
            twice = repeated_axes(spec) or sorted_axes(spec.axis_names & unreduced)
            if twice:
                raise self.error(
                    f"mesh axis {twice[0]!r} would have two places in the result {spec!r}.",
                    f"Free {twice[0]!r} in one operand first: reshard(operand, PartitionSpec(...)).",
                )
            specs.append(spec.update(unreduced=unreduced, reduced=reduced))
        return specs

    def axes_of_factors(self) -> dict[str, AxisNames]:
        """For each factor of the operands, the mesh axes that shard it."""
        axes: dict[str, AxisNames] = {}
        # For each factor, the operand dimensions in which it is sharded.
        cut: dict[str, list[tuple[int, int]]] = {}
        for place, factor, part in self.shares():
            mark = self.rule.marks.get(factor, "")
            before = axes.setdefault(factor, part)
            if part and "!" in mark:
                raise self.must_be_whole(*place)
            if part != before and "=" in mark:
                raise self.error(
                    "the operands must be laid out alike.",
                    f"For example reshard(operand, {self.operands[0].spec!r}).",
                )
            if not part:
                continue
            if before and part != before:
                raise self.cut_differently(cut[factor][0], place)
            if not before and "^" in mark:
                raise self.error(
                    f"{self.which(*place)} may be sharded only where operand 0 is sharded alike.",
                    _RESHARD,
                )
            if "<" not in mark:
                axes[factor] = part
            cut.setdefault(factor, []).append(place)
        for factor, dims in cut.items():
            if len(dims) > 1 and factor not in self.result_factors:
                raise self.error(
                    "both operands' contracting dimensions are sharded; devices would hold addends.",
                    "Give out_sharding=PartitionSpec(...) to have them summed, with "
                    f"unreduced={{{axes_text(axes[factor])}}} to keep them.",
                )
        return axes

    @property
    def result_factors(self) -> set[str]:
        """The factors of the results; all others are reduced."""
        return {factor for dims in self.rule.results for dim in dims for factor in dim}

    def shares(self) -> Iterator[tuple[tuple[int, int], str, AxisNames]]:
        """Yields ((operand, dimension), factor, mesh axes) for all factors of all operands."""
        for i, (dims, operand) in enumerate(strict_zip(self.rule.operands, self.operands)):
            for dim, (factors, axes) in enumerate(strict_zip(dims, operand.spec.axes_per_dim)):
                shares = [axes] if len(factors) == 1 else self.hand_out(factors, axes)
                for factor, part in strict_zip(factors, shares):
                    yield (i, dim), factor, part

    def hand_out(self, factors: Names, axes: AxisNames) -> list[AxisNames]:
        """Distributes the mesh axes of one dimension among its factors, major first."""
        left = list(axes)
        shares: list[AxisNames] = [()] * len(factors)
        for i, size in enumerate(map(self.size, factors)):
            while left and size % self.mesh.shape[left[0]] == 0:
                size //= self.mesh.shape[left[0]]
                shares[i] += (left.pop(0),)
            if size > 1:
                break  # a factor sharded in part can't be followed by more axes
        if left and factors:
            raise self.ambiguous()
        return shares

    def factor_axes(self, factors: Names, axes: Mapping[str, AxisNames], shape: Shape) -> AxisNames:
        """The mesh axes of a result dimension made of `factors`.

        No communication is needed if each factor before a sharded one is sharded completely. If dimensions are only
        merged, and none before the last sharded one is unsharded, the result is sharded over all their axes, as in JAX,
        although data may move.
        """
        parts = [axes.get(factor, ()) for factor in factors]
        last = max((i for i, part in enumerate(parts) if part), default=0)
        cut_partly = any(
            self.mesh.parts_of(part) != self.size(factor)
            for factor, part in strict_zip(factors[:last], parts[:last])
        )
        if cut_partly and (
            any(len(factors) > 1 for dims in self.rule.operands for factors in dims)
            or not all(parts[:last])
        ):
            raise self.ambiguous(f" of shape {shape}")
        return tuple(itertools.chain.from_iterable(parts))

    def size(self, factor: str) -> int:
        """The size of `factor`: of a dimension that consists of it alone, or as stated in the rule."""
        if factor in self.rule.sizes:
            return self.rule.sizes[factor]
        return next(
            operand.shape[dims.index((factor,))]
            for dims, operand in strict_zip(self.rule.operands, self.operands)
            if (factor,) in dims
        )

    # Shardings stated by the user --------------------------------------------------------------

    def requested_spec(self, out_sharding: NamedSharding, shape: Shape) -> PartitionSpec:
        """The spec of a result of `shape` for the user's `out_sharding`.

        The result may be unreduced over axes over which an operand is unreduced, or that shard a reduced factor equally
        in all operands that have it.

        Raises: the errors of `checked_out_spec`, and ShardingTypeError for other axes in `unreduced`.
        """
        spec = checked_out_spec(self.name, out_sharding, shape, self.mesh)
        unreduced = self.unreduced_axes()
        summed = self.summed_axes() if spec.unreduced else NO_AXES
        possible = NO_AXES if summed is None else unreduced | summed
        if spec.unreduced and len(self.operands) > 1 and spec.unreduced != possible:
            raise self.error(
                f"the result can't be unreduced over {axes_text(spec.unreduced)}: both operands' "
                "contracting dimensions must be sharded over just those axes."
            )
        if spec.unreduced - possible:
            raise self.error(
                f"the result can't be unreduced over {axes_text(spec.unreduced - possible)}: "
                "no dimension that is summed is sharded over it."
            )
        return spec.update(reduced=NO_AXES) if self.contracts else spec

    def summed_axes(self) -> AxisSet | None:
        """The mesh axes that shard reduced factors; None if operands shard one of them differently."""
        axes: dict[str, AxisNames] = {}
        result_factors = self.result_factors
        for dims, operand in strict_zip(self.rule.operands, self.operands):
            for factors, part in strict_zip(dims, operand.spec.axes_per_dim):
                if len(factors) != 1 or "!" in self.rule.marks.get(factors[0], ""):
                    continue
                if factors[0] not in result_factors and axes.setdefault(factors[0], part) != part:
                    return None
        return frozenset(itertools.chain.from_iterable(axes.values()))

    # Unreduced and reduced axes -----------------------------------------------------------------

    def unreduced_axes(self) -> AxisSet:
        """The axes over which the results are unreduced, by linearity.

        Raises: ShardingTypeError if an operand is unreduced and the operation doesn't commute with sums.
        """
        holders = [i for i, operand in enumerate(self.operands) if operand.spec.unreduced]
        if not holders:
            return NO_AXES
        for i in holders:
            if self.linear is None or i in self.passive:
                spec = self.operands[i].spec
                raise self.error(
                    f"operand {i} is unreduced over {axes_text(spec.unreduced)}, and the operation does not "
                    "commute with sums.",
                    f"Sum it first: reshard(x, {spec.update(unreduced=NO_AXES)!r}).",
                )
        axes = self.operands[holders[0]].spec.unreduced
        active = [i for i in range(len(self.operands)) if i not in self.passive]
        group = (
            active
            if self.linear == "all"
            else holders[:1]
            if self.linear == "each"
            else self.linear
        )
        if not set(holders) <= set(group):
            raise self.error(
                "at most one operand may be unreduced, and the operation must be linear in it.",
                "Sum the addends first with reshard.",
            )
        if any(self.operands[i].spec.unreduced != axes for i in group):
            raise self.error(
                "all operands must be unreduced over the same mesh axes, or none.",
                "Sum the addends of the others first with reshard.",
            )
        # Addends times a factor that is equal on all devices (marked `reduced`) are addends; scalars are always equal.
        others = [self.operands[i] for i in active if i not in group]
        if any(
            other.spec.reduced != axes and (other.shape or other.spec.reduced) for other in others
        ):
            raise self.error(
                "an unreduced operand needs the other one to be reduced over the same mesh axes.",
                f"For example reshard(operand, PartitionSpec(..., reduced={{{axes_text(axes)}}})).",
            )
        return axes

    def reduced_axes(self, unreduced: AxisSet) -> AxisSet:
        """The axes over which the results are `reduced`: those of all operands.

        Scalars and unreduced operands need no mark. Axes over which the results are `unreduced` are dropped.
        """
        if self.contracts:
            return NO_AXES
        marks = {
            o.spec.reduced - unreduced
            for i, o in enumerate(self.operands)
            if i not in self.passive
            and (o.spec.reduced - unreduced or (o.shape and not o.spec.unreduced))
        }
        if len(marks) > 1:
            raise self.error(
                "all operands must be reduced over the same mesh axes, or none.",
                "Give the others the same `reduced` with reshard.",
            )
        return marks.pop() if marks else NO_AXES

    # Errors -------------------------------------------------------------------------------------------

    def error(self, what: str, do: str | None = None) -> ShardingTypeError:
        return sharding_type_error(self.name, what, self.operands, self.mesh, do)

    def which(self, operand: int, dim: int) -> str:
        """A dimension of an operand in words."""
        return f"dimension {dim}" + (f" of operand {operand}" if len(self.operands) > 1 else "")

    def cut_differently(self, a: tuple[int, int], b: tuple[int, int]) -> ShardingTypeError:
        if a[1] == b[1]:
            what = f"dimension {a[1]} is sharded differently in different operands."
        else:
            what = f"{self.which(*a)} and {self.which(*b)} belong together, and are sharded differently."
        return self.error(what, _RESHARD)

    def must_be_whole(self, operand: int, dim: int) -> ShardingTypeError:
        spec = self.operands[operand].spec
        entries = [None if i == dim else entry for i, entry in enumerate(spec.partitions)]
        return self.error(
            f"{self.which(operand, dim)}, along which it works, must not be sharded.",
            f"Gather it first: reshard(x, {spec.update(entries)!r}){self.or_state_it()}.",
        )

    def ambiguous(self, of_shape: str = "") -> ShardingTypeError:
        return self.error(
            f"it is ambiguous how a result{of_shape} is sharded.",
            f"Gather the operand first: reshard(x, PartitionSpec()){self.or_state_it()}.",
        )

    def or_state_it(self) -> str:
        return ", or give out_sharding=PartitionSpec(...)" if self.takes_out_sharding else ""


def mesh_of(name: str, avals: Sequence[Any]) -> AbstractMesh:
    """The mesh over which the types `avals` are sharded; types without a sharding are ignored.

    Raises: ShardingTypeError if their meshes differ; ValueError if no aval has a sharding.
    """
    meshes = {i: a.shown_sharding.mesh for i, a in enumerate(avals) if a.shown_sharding is not None}
    if not meshes:
        raise ValueError(f"{name}: no operand has a sharding")
    first, *others = dict.fromkeys(meshes.values())
    if others:
        raise ShardingTypeError(
            f"{name}: the operands are sharded over different meshes.",
            got=[f"operand {i}: {operand_of(avals[i])} over {mesh}" for i, mesh in meshes.items()],
            do="Bring them to one mesh with reshard(operand, NamedSharding(mesh, spec)).",
        )
    return first
