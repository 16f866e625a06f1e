"""The cast that says that a value may differ along the mesh axes of `shard_map`.

Types keep the axes along which a value varies. The operands of one equation are made to vary over the same axes, so
that each use of a common value at all positions is an equation of its own, whose transpose sums their cotangents.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from pellucid.base import config
from pellucid.base.errors import CollectiveError
from pellucid.ir.avals import ShapedArray
from pellucid.ir.primitive import Primitive, Programs, registry
from pellucid.ir.rules import COLLECTIVE
from pellucid.lowering.collectives import Groups
from pellucid.primitives.addends import marks_of, recast, reduced_vary_cast_p
from pellucid.primitives.movement import Identity
from pellucid.tracing.context import context
from pellucid.tracing.trace import Tracer, bind1, type_of

AxisNames = tuple[Any, ...]


class CollectiveParams(NamedTuple):
    """`axis_index_groups` are positions along the axes that exchange values among themselves."""

    axes: AxisNames
    axis_index_groups: Groups | None = None


class PVaryParams(NamedTuple):
    axes: AxisNames


class PVary(Identity[PVaryParams]):
    """The same value, whose type says that it may differ along mesh axes."""

    name = "pvary"
    traits = COLLECTIVE

    def abstract_eval(self, avals, params):
        [x] = avals
        return [x.update(varying=x.varying.union(params.axes))]

    def typed(self, avals, results, params):
        return results

    def undo(self, cotangent, aval, params):
        # By name, since collectives stand above what makes zeros of a type that varies.
        return bind1(registry["psum"], cotangent, params=CollectiveParams(params.axes))


pvary_p = PVary()


def vary(x: Any, axes: Iterable[Any]) -> Any:
    """`x` with a type that says that it varies over those of `axes` that are checked."""
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


def unified(primitive: Primitive[Any], operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """`operands` of one equation so that all traced ones vary over the same axes."""
    if len(operands) < 2 or (isinstance(primitive, Programs) and not primitive.varies_jointly):
        return operands
    axis_sets = {
        x.aval.varying for x in operands if isinstance(x, Tracer) and type(x.aval) is ShapedArray
    }
    if len(axis_sets) < 2:
        return operands
    axes = frozenset().union(*axis_sets)
    if not config.auto_pcast.value:
        raise CollectiveError(
            f"`{primitive.name}` takes operands that vary over the same mesh axes.",
            got=[f"{type_of(x).text()}" for x in operands],
            do=f"Say so with `lax.pcast(x, {tuple(sorted(axes))!r}, to='varying')`, or allow `auto_pcast`.",
        )
    return tuple([vary(x, axes) if _joins(x, axes) else x for x in operands])


def _joins(x, axes: frozenset[Any]) -> bool:
    return isinstance(x, Tracer) and type(x.aval) is ShapedArray and x.aval.varying != axes
