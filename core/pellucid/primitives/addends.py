"""Types of values of which positions along mesh axes hold addends, and of values whose cotangents are such.

Inside `shard_map` a value is along an axis *varying*, *unreduced* (positions hold addends of it), *reduced* (the same
everywhere, with an unreduced cotangent) or the same everywhere. The marks are in the sharding of its type. Casts between
them move no data; `reduced` lets the cotangents of all uses be added before they are summed over devices, once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

from pellucid.ir.facets import Collective, Shown
from pellucid.ir.primitive import Primitive, registry
from pellucid.ir.traits import COLLECTIVE
from pellucid.primitives.movement import Movement
from pellucid.sharding.current_mesh import get_abstract_mesh
from pellucid.sharding.explicit_types import shown_sharding
from pellucid.sharding.partition_spec import NO_AXES, PartitionSpec
from pellucid.tracing.trace import bind, bind1
from pellucid.tracing.values import type_of

Axes = frozenset[Any]


class Marks(NamedTuple):
    """Over which mesh axes a value is unreduced, and over which it is reduced."""

    unreduced: Axes = NO_AXES
    reduced: Axes = NO_AXES


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


class MarkParams(NamedTuple):
    axes: tuple[Any, ...]
    mesh: Any
    """The mesh with these axes: a value's type may show none."""


class Recast(Collective, Shown, Movement[MarkParams]):
    """A cast of what a type says of mesh axes; `inverse` names what its transpose does."""

    traits = COLLECTIVE

    waits = False
    inverse: ClassVar[str]

    def abstract_eval(self, avals, params):
        return avals

    recast_type: Any
    """`recast_type(aval, axes, mesh)` gives the type of the result."""

    def typed(self, avals, results, params):
        return [self.recast_type(avals[0], frozenset(params.axes), params.mesh)]

    def axis_names(self, params, inner):
        return frozenset(params.axes)

    def undo(self, cotangent, aval, params):
        return bind1(registry[self.inverse], cotangent, params=params)

    def batch(self, axis, operands, dims, params):
        return bind(self, *operands, params=params), dims

    def lower(self, ctx, operands, params):
        return operands

    def printed_params(self, equation):
        return {"axes": equation.params.axes}


class Reduced(Recast):
    """The same value, whose cotangent is unreduced."""

    name = "preduced"
    inverse = "unreduced_psum"

    def recast_type(self, aval: Any, axes: Axes, mesh: Any) -> Any:
        unreduced, reduced = marks_of(aval)
        return marked(aval, Marks(unreduced, reduced | axes), mesh)


class ReducedToVarying(Recast):
    """A reduced value as each position's own."""

    name = "reduced_vary_cast"
    inverse = "vary_unreduced_cast"

    def recast_type(self, aval: Any, axes: Axes, mesh: Any) -> Any:
        unreduced, reduced = marks_of(aval)
        varying = aval.update(varying=aval.varying | axes)
        return marked(varying, Marks(unreduced, reduced - axes), mesh)


class VaryingToUnreduced(Recast):
    """Values of all positions as addends of one."""

    name = "vary_unreduced_cast"
    inverse = "reduced_vary_cast"

    def recast_type(self, aval: Any, axes: Axes, mesh: Any) -> Any:
        unreduced, reduced = marks_of(aval)
        fixed = aval.update(varying=aval.varying - axes)
        return marked(fixed, Marks(unreduced | axes, reduced), mesh)


reduced_p = Reduced()
reduced_vary_cast_p = ReducedToVarying()
vary_unreduced_cast_p = VaryingToUnreduced()


def recast(primitive: Primitive[Any], x: Any, axes: Iterable[Any]) -> Any:
    """`x` cast by `primitive` over `axes`; `x` itself if there are none."""
    axes = tuple(axes)
    if not axes:
        return x
    shown = type_of(x).shown_sharding
    mesh = get_abstract_mesh() if shown is None else shown.mesh
    return bind1(primitive, x, params=MarkParams(axes, mesh))
