"""States of values along the mesh axes of `shard_map`: varying, unreduced, reduced, or the same everywhere.

Inside `shard_map` a value is along an axis *varying*, *unreduced* (positions hold addends of it), *reduced* (the same
everywhere, with an unreduced cotangent) or the same everywhere; types say which. Casts between these states move no data.
`reduced` lets the cotangents of all uses be added before they are summed over devices, once. The operands of one equation
are made to vary over the same axes, so that each use of a common value at all positions is an equation of its own, whose
transpose sums their cotangents.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from pellucid._machine.base import CollectiveError, config
from pellucid._machine.ir import (
    COLLECTIVE,
    Collective,
    HigherOrderPrimitive,
    Operands,
    Primitive,
    ShapedArray,
    Shown,
    registry,
)
from pellucid._machine.lowering.collectives import Groups
from pellucid._machine.sharding import PartitionSpec, get_abstract_mesh
from pellucid._machine.sharding.explicit_types import shown_sharding
from pellucid._machine.sharding.partition_spec import NO_AXES, AxisSet
from pellucid._machine.tracing import Tracer, bind1, context, type_of

from .movement import Identity


class Marks(NamedTuple):
    """The mesh axes over which a value is unreduced, and those over which it is reduced."""

    unreduced: AxisSet = NO_AXES
    reduced: AxisSet = NO_AXES


def marks_of(aval: Any) -> Marks:
    """The marks that the type `aval` shows."""
    sharding = getattr(aval, "shown_sharding", None)
    return Marks() if sharding is None else Marks(sharding.spec.unreduced, sharding.spec.reduced)


def with_marks(aval: Any, marks: Marks, mesh: Any = None) -> Any:
    """The type `aval` with other marks, over axes of `mesh`, by default of the mesh that the type shows."""
    shown: Any = aval.shown_sharding
    spec = PartitionSpec() if shown is None else shown.spec
    mesh = shown.mesh if mesh is None and shown is not None else mesh
    spec = spec.padded(aval.ndim).update(unreduced=marks.unreduced, reduced=marks.reduced)
    return aval.update(shown_sharding=shown_sharding(mesh, spec))


def states_of(aval: Any) -> dict[str, AxisSet]:
    """Maps "varying", "unreduced" and "reduced" to the axes along which a value of type `aval` is in that state."""
    return {"varying": aval.varying, **marks_of(aval)._asdict()}


def with_state(aval: Any, axes: AxisSet, state: str, mesh: Any = None) -> Any:
    """The type `aval` of a value that along `axes` of `mesh` is in another state, or "the same" everywhere."""
    varying, *marks = [
        names | axes if name == state else names - axes for name, names in states_of(aval).items()
    ]
    return with_marks(aval.update(varying=varying), Marks(*marks), mesh)


AxisNames = tuple[Any, ...]


class MarkParams(NamedTuple):
    axes: AxisNames
    mesh: Any
    """The mesh with these axes: a value's type may show none."""


class Recast(Collective, Shown, Identity[MarkParams]):
    """A cast between states along mesh axes; `state` is the result's, `inverse` the primitive that transposes the
    cast, if any.
    """

    traits = COLLECTIVE
    axes_field = "axes"
    unshown = ("mesh",)
    waits = False

    def __init__(self, name: str, state: str, inverse: str = "") -> None:
        self.state, self.inverse = state, inverse
        super().__init__(name)

    def typed(self, avals, results, params):
        return [with_state(avals[0], frozenset(params.axes), self.state, params.mesh)]

    def operand_cotangent(self, cotangent, aval, params):
        if not self.inverse:
            raise self.missing("operand_cotangent")
        return bind1(registry[self.inverse], cotangent, params=params)


reduced_p = Recast("preduced", "reduced", "unreduced_psum")
"""Returns its operand; the cotangent is unreduced."""
reduced_vary_cast_p = Recast("reduced_vary_cast", "varying", "vary_unreduced_cast")
"""A reduced value as each position's own."""
vary_unreduced_cast_p = Recast("vary_unreduced_cast", "unreduced", "reduced_vary_cast")
"""Values of all positions as addends of one."""
unreduced_vary_cast_p = Recast("unreduced_vary_cast", "varying")
"""Addends as each position's own values, for tools that show them; it has no derivative."""
reduced_same_cast_p = Recast("reduced_same_cast", "the same")
"""A reduced value whose cotangent is as any other, for tools that hold it; it has no derivative."""


def recast(primitive: Primitive, x: Any, axes: Iterable[Any]) -> Any:
    """`x` cast by `primitive` over `axes`; `x` itself if there are none."""
    axes = tuple(axes)
    if not axes:
        return x
    shown = type_of(x).shown_sharding
    mesh = get_abstract_mesh() if shown is None else shown.mesh
    return bind1(primitive, x, params=MarkParams(axes, mesh))


# Casts to varying ----------------------------------------------------------------------------------


class CollectiveParams(NamedTuple):
    """`axis_index_groups` are positions along the axes that exchange values among themselves."""

    axes: AxisNames
    axis_index_groups: Groups | None = None


class PVaryParams(NamedTuple):
    axes: AxisNames


class PVary(Identity[PVaryParams]):
    """Returns its operand with a type that varies over more mesh axes."""

    name = "pvary"
    traits = COLLECTIVE

    def abstract_eval(self, avals, params):
        [x] = avals
        return [x.update(varying=x.varying.union(params.axes))]

    def typed(self, avals, results, params):
        return results

    def operand_cotangent(self, cotangent, aval, params):
        return sum_along(cotangent, CollectiveParams(params.axes))


pvary_p = PVary()


def sum_along(x: Any, params: CollectiveParams) -> Any:
    """The sum of `x` along named axes, by the primitive for values that vary, or don't, in their type."""
    varies = params.axis_index_groups is None and type_of(x).varying.intersection(params.axes)
    # Looked up by name: collectives are in a higher layer than the zeros of varying types.
    return bind1(registry["psum_invariant" if varies else "psum"], x, params=params)


def vary(x: Any, axes: Iterable[Any]) -> Any:
    """`x` cast to vary over the checked axes among `axes`."""
    aval = type_of(x) if context.checked_axes else None
    if not isinstance(aval, ShapedArray):
        return x
    varying = aval.varying
    missing = [
        a for a in context.axes if a in context.checked_axes and a in axes and a not in varying
    ]
    if aval.shown_sharding is not None:
        unreduced, reduced = marks_of(aval)
        addends = [a for a in missing if a in unreduced]
        if addends:
            raise CollectiveError(
                f"a value of which positions along axis {addends[0]!r} hold addends is used as each position's own.",
                got=aval.text(),
                do=f"Sum it first: `psum(x, {addends[0]!r})`.",
            )
        x = recast(reduced_vary_cast_p, x, [a for a in missing if a in reduced])
        missing = [a for a in missing if a not in reduced]
    return bind1(pvary_p, x, params=PVaryParams(tuple(missing))) if missing else x


def unify_axes(primitive: Primitive, operands: Operands) -> Operands:
    """`operands` of one equation with all traced ones cast to vary over the same axes."""
    if len(operands) < 2 or (
        isinstance(primitive, HigherOrderPrimitive) and not primitive.varies_jointly
    ):
        return operands
    axis_sets = {
        x.aval.varying for x in operands if isinstance(x, Tracer) and type(x.aval) is ShapedArray
    }
    if len(axis_sets) < 2:
        return operands
    axes = frozenset().union(*axis_sets)
    if not config.auto_pcast.value:
        raise CollectiveError(
            f"`{primitive.name}` needs operands that vary over the same mesh axes.",
            got=[f"{type_of(x).text()}" for x in operands],
            do=f"Say so with `lax.pcast(x, {tuple(sorted(axes))!r}, to='varying')`, or allow `auto_pcast`.",
        )
    return tuple([vary(x, axes) if isinstance(x, Tracer) else x for x in operands])
