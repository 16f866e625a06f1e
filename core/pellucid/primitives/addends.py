"""Types of values of which positions along mesh axes hold addends, and of values whose cotangents are such.

Inside `shard_map` a value is along an axis *varying*, *unreduced* (positions hold addends of it), *reduced* (the same
everywhere, with an unreduced cotangent) or the same everywhere. The marks are in the sharding of its type. Casts between
them move no data; `reduced` lets the cotangents of all uses be added before they are summed over devices, once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

from pellucid.ir.primitive import Primitive, registry
from pellucid.ir.rules import COLLECTIVE, Collective, Shown
from pellucid.primitives.movement import Identity
from pellucid.sharding.current_mesh import get_abstract_mesh
from pellucid.sharding.explicit_types import shown_sharding
from pellucid.sharding.partition_spec import NO_AXES, AxisSet, PartitionSpec
from pellucid.tracing.trace import bind1, type_of


class Marks(NamedTuple):
    """Over which mesh axes a value is unreduced, and over which it is reduced."""

    unreduced: AxisSet = NO_AXES
    reduced: AxisSet = NO_AXES


def marks_of(aval: Any) -> Marks:
    """The marks that the type `aval` shows."""
    sharding = getattr(aval, "shown_sharding", None)
    return Marks() if sharding is None else Marks(sharding.spec.unreduced, sharding.spec.reduced)


def marked(aval: Any, marks: Marks, mesh: Any = None) -> Any:
    """The type `aval` with other marks, over axes of `mesh`, by default of the mesh that the type shows."""
    shown: Any = aval.shown_sharding
    spec = PartitionSpec() if shown is None else shown.spec
    mesh = shown.mesh if mesh is None and shown is not None else mesh
    spec = spec.padded(aval.ndim).update(unreduced=marks.unreduced, reduced=marks.reduced)
    return aval.update(shown_sharding=shown_sharding(mesh, spec))


def states_of(aval: Any) -> dict[str, AxisSet]:
    """By "varying", "unreduced" and "reduced" the axes along which the type `aval` says that of a value."""
    return {"varying": aval.varying, **marks_of(aval)._asdict()}


def restated(aval: Any, axes: AxisSet, state: str, mesh: Any = None) -> Any:
    """The type `aval` of a value that along `axes` of `mesh` is in another state, or "the same" everywhere."""
    varying, *marks = [
        names | axes if name == state else names - axes for name, names in states_of(aval).items()
    ]
    return marked(aval.update(varying=varying), Marks(*marks), mesh)


class MarkParams(NamedTuple):
    axes: tuple[Any, ...]
    mesh: Any
    """The mesh with these axes: a value's type may show none."""


class Recast(Collective, Shown, Identity[MarkParams]):
    """A cast between states along mesh axes; `state` is that of the result, `inverse` the cast that transposes it, if any."""

    traits = COLLECTIVE
    axes_field = "axes"
    unshown = ("mesh",)
    waits = False
    state: ClassVar[str]
    inverse: ClassVar[str] = ""

    def typed(self, avals, results, params):
        return [restated(avals[0], frozenset(params.axes), self.state, params.mesh)]

    def undo(self, cotangent, aval, params):
        if not self.inverse:
            raise self.missing("undo")
        return bind1(registry[self.inverse], cotangent, params=params)


class Reduced(Recast):
    """The same value, whose cotangent is unreduced."""

    name, state, inverse = "preduced", "reduced", "unreduced_psum"


class ReducedToVarying(Recast):
    """A reduced value as each position's own."""

    name, state, inverse = "reduced_vary_cast", "varying", "vary_unreduced_cast"


class VaryingToUnreduced(Recast):
    """Values of all positions as addends of one."""

    name, state, inverse = "vary_unreduced_cast", "unreduced", "reduced_vary_cast"


class UnreducedToVarying(Recast):
    """Addends as each position's own values, for tools that show them; it has no derivative."""

    name, state = "unreduced_vary_cast", "varying"


class ReducedToSame(Recast):
    """A reduced value whose cotangent is as any other, for tools that hold it; it has no derivative."""

    name, state = "reduced_same_cast", "the same"


reduced_p = Reduced()
reduced_vary_cast_p = ReducedToVarying()
vary_unreduced_cast_p = VaryingToUnreduced()
unreduced_vary_cast_p = UnreducedToVarying()
reduced_same_cast_p = ReducedToSame()


def recast(primitive: Primitive[Any], x: Any, axes: Iterable[Any]) -> Any:
    """`x` cast by `primitive` over `axes`; `x` itself if there are none."""
    axes = tuple(axes)
    if not axes:
        return x
    shown = type_of(x).shown_sharding
    mesh = get_abstract_mesh() if shown is None else shown.mesh
    return bind1(primitive, x, params=MarkParams(axes, mesh))
