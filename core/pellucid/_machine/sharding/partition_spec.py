"""PartitionSpec: which mesh axes shard which dimension of a value."""

# Arguments of users are checked, also where annotations exclude other types.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, TypeAlias, overload

from pellucid._machine.base.narrowing import is_list_or_tuple, is_set, is_tuple

from .errors import DuplicateAxisError, PartitionSpecError, ShardingArgumentError
from .interning import Interned, InternTable, set_attributes

AxisName: TypeAlias = Hashable
AxisNames: TypeAlias = tuple[AxisName, ...]
AxisSet: TypeAlias = frozenset[AxisName]
NO_AXES: AxisSet = frozenset()


class Unconstrained:
    """The type of `PartitionSpec.UNCONSTRAINED`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> str:
        return "UNCONSTRAINED"


UNCONSTRAINED = Unconstrained()

Entry: TypeAlias = Any
"""None, `UNCONSTRAINED`, an axis name, or a tuple of axis names, major first."""


class PartitionSpec(Interned):
    """For each dimension, the mesh axes that shard it; dimensions not mentioned are not sharded.

    An entry is None (not sharded), an axis name, a tuple of axis names (major first), or
    `PartitionSpec.UNCONSTRAINED` (the compiler decides). `unreduced` names mesh axes over which devices hold
    addends whose sum is the value; `reduced` names axes over which the cotangent will be unreduced.
    A spec isn't a tuple, though it has the length, items and iteration of one. Equal specs are one object.

    Raises: PartitionSpecError where the three parts contradict each other.

    >>> PartitionSpec("x", None, ("y", "z"))
    P('x', None, ('y', 'z'))
    >>> PartitionSpec(("x",)) == PartitionSpec("x")
    True
    """

    __slots__ = ("partitions", "unreduced", "reduced", "axes_per_dim", "axis_names", "__weakref__")

    UNCONSTRAINED: ClassVar[Unconstrained] = UNCONSTRAINED

    partitions: tuple[Entry, ...]
    """The entries."""
    unreduced: AxisSet
    """Mesh axes over which devices hold addends of the value."""
    reduced: AxisSet
    """Mesh axes over which the value's cotangent is unreduced."""
    axes_per_dim: tuple[AxisNames, ...]
    """For each entry the mesh axes in it, major first; nothing for None and UNCONSTRAINED."""
    axis_names: AxisSet
    """All mesh axes that shard some dimension."""

    def __new__(  # noqa: PYI034 - one object for one value, so no subclasses
        cls,
        *partitions: Entry,
        unreduced: AxisSet | set[AxisName] = NO_AXES,
        reduced: AxisSet | set[AxisName] = NO_AXES,
    ) -> PartitionSpec:
        written = (partitions, unreduced, reduced)
        try:
            spec = _specs.get(written)
        except TypeError:  # lists and sets have no hash
            written = None
        else:
            if spec is not None:
                return spec
        entries = tuple(map(_canonical_entry, partitions))
        unreduced = checked_axis_set("PartitionSpec", "unreduced", unreduced)
        reduced = checked_axis_set("PartitionSpec", "reduced", reduced)
        key = (entries, unreduced, reduced)
        try:
            spec = _specs.get(key)
        except TypeError:
            raise ShardingArgumentError(
                "PartitionSpec: an entry must be None, UNCONSTRAINED, an axis name, or a tuple of axis names.",
                got=[f"entry {i}: {type(entry).__name__}" for i, entry in enumerate(entries)],
            ) from None
        if spec is None:
            spec = _specs.add(key, _new_spec(entries, unreduced, reduced))
        # Stored under the entries as written, too, so that a spec that isn't canonical is found at once the next
        # time.
        return spec if written is None else _specs.add(written, spec)

    def __repr__(self) -> str:
        parts = [repr(entry) for entry in self.partitions]
        axis_sets = {"unreduced": self.unreduced, "reduced": self.reduced}
        sets = [f"{name}={{{axes_text(axes)}}}" for name, axes in axis_sets.items() if axes]
        text = ", ".join(parts + sets)
        return f"P({text},)" if len(parts) == 1 and not sets else f"P({text})"

    def __reduce__(self) -> Any:
        make = functools.partial(PartitionSpec, unreduced=self.unreduced, reduced=self.reduced)
        return make, self.partitions

    def __len__(self) -> int:
        return len(self.partitions)

    @overload
    def __getitem__(self, i: int) -> Entry: ...
    @overload
    def __getitem__(self, i: slice) -> tuple[Entry, ...]: ...
    def __getitem__(self, i: int | slice) -> Entry:
        return self.partitions[i]

    def __iter__(self) -> Iterator[Entry]:
        if self.unreduced or self.reduced:
            raise PartitionSpecError(
                f"{self!r} can't be unpacked: its items alone lose `unreduced` and `reduced`.",
                do="Iterate over `spec.partitions` if that is what you want.",
            )
        return iter(self.partitions)

    def __contains__(self, entry: Entry) -> bool:
        return _canonical_entry(entry) in self.partitions

    def __add__(self, other: PartitionSpec | tuple[Entry, ...]) -> PartitionSpec:
        if isinstance(other, PartitionSpec):
            return PartitionSpec(
                *self.partitions,
                *other.partitions,
                unreduced=self.unreduced | other.unreduced,
                reduced=self.reduced | other.reduced,
            )
        if isinstance(other, tuple):
            return self.update(partitions=self.partitions + other)
        return NotImplemented

    def __radd__(self, other: tuple[Entry, ...]) -> PartitionSpec:
        if isinstance(other, tuple):
            return self.update(partitions=other + self.partitions)
        return NotImplemented

    def index(self, value: Entry) -> int:
        """Position of the first entry equal to `value`; raises ValueError if there is none."""
        return self.partitions.index(_canonical_entry(value))

    def count(self, value: Entry) -> int:
        """Number of entries that equal `value`."""
        return self.partitions.count(_canonical_entry(value))

    def update(
        self,
        partitions: Iterable[Entry] | None = None,
        unreduced: AxisSet | set[AxisName] | None = None,
        reduced: AxisSet | set[AxisName] | None = None,
    ) -> PartitionSpec:
        """This spec with some of its three parts replaced.

        >>> PartitionSpec("x").update(unreduced={"y"})
        P('x', unreduced={'y'})
        """
        return PartitionSpec(
            *(self.partitions if partitions is None else partitions),
            unreduced=self.unreduced if unreduced is None else unreduced,
            reduced=self.reduced if reduced is None else reduced,
        )

    def padded(self, ndim: int) -> PartitionSpec:
        """This spec with exactly `ndim` entries, None for dimensions that it does not mention.

        Raises: PartitionSpecError if it has more than `ndim` entries.

        >>> PartitionSpec("x").padded(3)
        P('x', None, None)
        """
        missing = ndim - len(self.partitions)
        if missing == 0:
            return self
        if missing < 0:
            raise rank_error(self, ndim)
        return self.update(partitions=self.partitions + (None,) * missing)

    def to_tangent_spec(self) -> PartitionSpec:
        """The spec of tangents of a value with this one: the same."""
        return self

    def to_ct_spec(self) -> PartitionSpec:
        """The spec of cotangents of a value with this one: `unreduced` and `reduced` change places.

        Summing over an axis is the transpose of copying to it.

        >>> PartitionSpec("x", reduced={"y"}).to_ct_spec()
        P('x', unreduced={'y'})
        """
        return self.update(unreduced=self.reduced, reduced=self.unreduced)

    def to_lo(self) -> list[PartitionSpec]:
        """The specs of the arrays that represent a value with this one: itself alone."""
        return [self]


_specs: InternTable[PartitionSpec] = InternTable()


def _new_spec(entries: tuple[Entry, ...], unreduced: AxisSet, reduced: AxisSet) -> PartitionSpec:
    axes_per_dim = tuple(map(_axes_of_entry, entries))
    axis_names = frozenset(axis for axes in axes_per_dim for axis in axes)
    spec = set_attributes(
        object.__new__(PartitionSpec),
        partitions=entries,
        unreduced=unreduced,
        reduced=reduced,
        axes_per_dim=axes_per_dim,
        axis_names=axis_names,
    )
    for name, axes, other in (
        ("unreduced", unreduced, reduced),
        ("unreduced", unreduced, axis_names),
        ("reduced", reduced, axis_names),
    ):
        both = axes & other
        if both:
            role = "reduced" if other is reduced else "used to shard a dimension"
            raise PartitionSpecError(
                f"PartitionSpec: mesh axis {axes_text(both)} can't be {name} and {role} at once.",
                got=f"{spec!r}",
                do=f"Leave {axes_text(both)} out of one of them.",
            )
    return spec


def _canonical_entry(entry: Entry) -> Entry:
    """One spelling for one meaning: a group of no axis is None, a group of one is that axis."""
    if is_list_or_tuple(entry):
        if not entry:
            return None
        nested = next((axis for axis in entry if is_list_or_tuple(axis)), None)
        if nested is not None:
            raise PartitionSpecError(
                "PartitionSpec: a group of mesh axes holds their names, not groups.",
                got=f"entry {entry!r}",
                do="Name all axes in one tuple, major first.",
            )
        return entry[0] if len(entry) == 1 else tuple(entry)
    if isinstance(entry, PartitionSpec):
        raise ShardingArgumentError(
            "PartitionSpec: an entry names mesh axes; it can't be another PartitionSpec.",
            got=f"entry {entry!r}",
            do="Join specs with `+`, or unpack one: PartitionSpec(*spec, ...).",
        )
    return entry


def _axes_of_entry(entry: Entry) -> AxisNames:
    if entry is None or entry is UNCONSTRAINED:
        return ()
    return entry if is_tuple(entry) else (entry,)


def checked_axis_set(caller: str, name: str, axes: object) -> AxisSet:
    """The argument `name` of `caller` as a frozenset of mesh axes.

    Raises: ShardingArgumentError for anything that isn't a set; PartitionSpecError for a set with None.
    """
    if not is_set(axes):
        raise ShardingArgumentError(
            f"{caller}: `{name}` must be a set of mesh axes.",
            got=f"{name}: {type(axes).__name__}",
            do=f"Write {name}={{{axes!r}}}." if isinstance(axes, str) else None,
        )
    if None in axes:
        raise PartitionSpecError(
            f"{caller}: `{name}` names mesh axes, and None is no axis.", got=f"{name}={axes}"
        )
    return frozenset(axes)


def rank_error(spec: PartitionSpec, ndim: int, got: str | Sequence[str] = ()) -> PartitionSpecError:
    """The error for a spec with more entries than the value, which `got` describes, has dimensions."""
    return PartitionSpecError(
        f"{spec!r} is for values of rank {len(spec)} or more, but this one has rank {ndim}.",
        got=got,
        do="Use `PartitionSpec()` for a scalar."
        if ndim == 0
        else "Leave the last entries out; dimensions not mentioned are not sharded.",
    )


def repeated_axes(spec: PartitionSpec) -> list[AxisName]:
    """Mesh axes that `spec` uses more than once, in order of appearance."""
    counts = Counter(axis for axes in spec.axes_per_dim for axis in axes)
    return [axis for axis, count in counts.items() if count > 1]


def check_axes_are_used_once(spec: PartitionSpec) -> None:
    """Raise DuplicateAxisError if `spec` uses one mesh axis twice: a device has one place along it."""
    repeated = repeated_axes(spec)
    if repeated:
        axis = repeated[0]
        places = [str(i) for i, axes in enumerate(spec.axes_per_dim) if axis in axes]
        where = (
            f"dimensions {' and '.join(places)}"
            if len(places) > 1
            else f"dimension {places[0]} twice"
        )
        raise DuplicateAxisError(
            f"{spec!r} uses mesh axis {axis!r} more than once.",
            got=f"{axis!r} shards {where}",
            do=f"Keep {axis!r} in one place.",
        )


def axes_text(axes: Iterable[AxisName]) -> str:
    """Mesh axes in a sentence; those of a set in an order that does not change from run to run."""
    texts = map(repr, axes)
    return ", ".join(sorted(texts) if isinstance(axes, (set, frozenset)) else texts)
