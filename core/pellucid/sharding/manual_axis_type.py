"""ManualAxisType: what a type says about mesh axes over which the user's code runs once per position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pellucid.sharding.errors import ShardingArgumentError, ShardingError
from pellucid.sharding.partition_spec import NO_AXES, AxisName

if TYPE_CHECKING:
    from pellucid.sharding.mesh import AbstractMesh, Mesh


class ManualAxisType:
    """How a value inside `shard_map` relates to the Manual mesh axes.

    `varying`: each position has its own value. `unreduced`: positions hold addends of the value. `reduced`:
    positions hold the same value, and its cotangent is unreduced. Over all other axes the value is the same.

    Raises: ShardingError if an axis is varying and also one of the others.

    >>> ManualAxisType(varying={"x"}, reduced={"y"}).to_ct_mat()
    ManualAxisType(varying=frozenset({'x'}), unreduced=frozenset({'y'}), reduced=frozenset())
    """

    __slots__ = ("varying", "unreduced", "reduced")

    varying: frozenset[AxisName]
    unreduced: frozenset[AxisName]
    reduced: frozenset[AxisName]

    def __init__(
        self,
        *,
        varying: frozenset[AxisName] | set[AxisName] = NO_AXES,
        unreduced: frozenset[AxisName] | set[AxisName] = NO_AXES,
        reduced: frozenset[AxisName] | set[AxisName] = NO_AXES,
    ) -> None:
        given = {"varying": varying, "unreduced": unreduced, "reduced": reduced}
        for name, axes in given.items():
            if not isinstance(axes, (set, frozenset)):
                raise ShardingArgumentError(
                    f"ManualAxisType: `{name}` is a set of mesh axes.",
                    got=f"{name}: {type(axes).__name__}",
                )
            setattr(self, name, frozenset(axes))
        for name in ("unreduced", "reduced"):
            both = self.varying & getattr(self, name)
            if both:
                raise ShardingError(
                    f"ManualAxisType: a value can't be both varying and {name} over an axis.",
                    got=f"both: {', '.join(sorted(map(repr, both)))}",
                )

    def _facts(self) -> tuple[frozenset[AxisName], ...]:
        return self.varying, self.unreduced, self.reduced

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ManualAxisType) and self._facts() == other._facts()

    def __hash__(self) -> int:
        return hash(self._facts())

    def __repr__(self) -> str:
        return f"ManualAxisType(varying={self.varying}, unreduced={self.unreduced}, reduced={self.reduced})"

    @property
    def vur(self) -> frozenset[AxisName]:
        """All axes mentioned."""
        return self.varying | self.unreduced | self.reduced

    @property
    def empty(self) -> bool:
        """Whether no axis is mentioned."""
        return not self.vur

    def invarying(self, mesh: Mesh | AbstractMesh) -> frozenset[AxisName]:
        """The Manual axes of `mesh` over which the value is the same."""
        return frozenset(mesh.manual_axes) - self.vur

    def update(self, **kwargs: Any) -> ManualAxisType:
        """This type with some of its three sets replaced."""
        return ManualAxisType(**(dict(zip(self.__slots__, self._facts(), strict=True)) | kwargs))

    def to_ct_mat(self) -> ManualAxisType:
        """The type of cotangents: `unreduced` and `reduced` change places."""
        return self.update(unreduced=self.reduced, reduced=self.unreduced)
