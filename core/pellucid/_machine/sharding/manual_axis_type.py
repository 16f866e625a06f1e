"""`ManualAxisType`: how a type depends on mesh axes over which the user's code runs once per position."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

from pellucid._machine.base import UnsupportedError

from .errors import ShardingError
from .mesh import AnyMesh
from .partition_spec import NO_AXES, AxisSet, axes_text, checked_axis_set


def check_without_addends(what: str, of: ManualAxisType) -> None:
    """Raises UnsupportedError if a ManualAxisType marks unreduced or reduced axes, in a place described by `what`."""
    if of.unreduced or of.reduced:
        raise UnsupportedError(
            f"{what} can't stand for addends.",
            got=f"{of}",
            do="Give a `sharding` whose spec states `unreduced` or `reduced`.",
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ManualAxisType:
    """The relation of a value inside `shard_map` to the Manual mesh axes: varying, unreduced or reduced.

    `varying`: each position has its own value. `unreduced`: positions hold addends of the value. `reduced`:
    positions hold the same value, and its cotangent is unreduced. Over all other axes the value is the same.

    Raises: ShardingError if an axis is varying and also one of the others.

    >>> ManualAxisType(varying={"x"}, reduced={"y"}).to_ct_mat()
    ManualAxisType(varying=frozenset({'x'}), unreduced=frozenset({'y'}), reduced=frozenset())
    """

    varying: AxisSet = NO_AXES
    unreduced: AxisSet = NO_AXES
    reduced: AxisSet = NO_AXES

    def __new__(cls, **fields: Any) -> Self:
        made = object.__new__(cls)
        cls.__init__(made, **fields)  # pickles of JAX call nothing else
        return made

    def __post_init__(self) -> None:
        for name in ("varying", "unreduced", "reduced"):
            axes = checked_axis_set("ManualAxisType", name, getattr(self, name))
            object.__setattr__(self, name, axes)
        for name in ("unreduced", "reduced"):
            both = self.varying & getattr(self, name)
            if both:
                raise ShardingError(
                    f"ManualAxisType: a value can't be both varying and {name} over an axis.",
                    got=f"both: {axes_text(both)}",
                )

    @property
    def vur(self) -> AxisSet:
        """All axes of the type: varying, unreduced and reduced ones."""
        return self.varying | self.unreduced | self.reduced

    @property
    def empty(self) -> bool:
        """Whether no axis is mentioned."""
        return not self.vur

    def invarying(self, mesh: AnyMesh) -> AxisSet:
        """The Manual axes of `mesh` over which the value is equal."""
        return frozenset(mesh.manual_axes) - self.vur

    def update(self, **kwargs: Any) -> ManualAxisType:
        """This type with some of its three sets replaced."""
        return dataclasses.replace(self, **kwargs)

    def to_ct_mat(self) -> ManualAxisType:
        """The type of cotangents, with `unreduced` and `reduced` swapped."""
        return self.update(unreduced=self.reduced, reduced=self.unreduced)
