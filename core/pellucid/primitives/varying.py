"""Sums over named axes, and the cast that says that a value may differ along them.

The two are each other's transpose: a value that is the same at all positions along an axis and used at each of
them has, as its cotangent, the sum of theirs. Types keep the axes of `shard_map` along which a value varies; the
operands of one equation are made to vary over the same axes, so that each such use is an equation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from pellucid.base.errors import UnsupportedError
from pellucid.ir.avals import ShapedArray
from pellucid.ir.primitive import Primitive
from pellucid.ir.rules import BatchAxis, BatchDim, Zero
from pellucid.lowering.collectives import Groups, all_reduce, device_groups
from pellucid.primitives.arithmetic import mul
from pellucid.primitives.broadcasting import reduce_sum
from pellucid.primitives.families import constant_like
from pellucid.primitives.movement import Movement
from pellucid.tracing.context import context
from pellucid.tracing.trace import bind, bind1
from pellucid.tracing.tracer import Tracer
from pellucid.tracing.values import type_of

AxisNames = tuple[Any, ...]


class CollectiveParams(NamedTuple):
    """`axis_index_groups` are positions along the axes that exchange values among themselves."""

    axes: AxisNames
    axis_index_groups: Groups | None = None

    def without(self, name: Any) -> CollectiveParams:
        """These params without the axis `name`."""
        return self._replace(axes=tuple([a for a in self.axes if a != name]))


def refuse_groups(name: str, groups: Groups | None) -> None:
    """Raise UnsupportedError for groups along an axis that `vmap` binds."""
    if groups is not None:
        raise UnsupportedError(
            f"{name}: vmap can't batch over an axis that axis_index_groups splits.",
            got=f"axis_index_groups={[list(g) for g in groups]}",
            do="Use shard_map, or two nested vmaps with an axis name each.",
        )


class AllReduce(Primitive[CollectiveParams]):
    """A reduction along named axes, whose result is the same at all positions along them."""

    def abstract_eval(self, avals: tuple[Any, ...], params: CollectiveParams) -> Sequence[Any]:
        return [avals[0]]

    def varying_results(
        self,
        avals: tuple[Any, ...],
        results: Sequence[Any],
        axes: frozenset[str],
        params: CollectiveParams,
    ) -> Sequence[Any]:
        if params.axis_index_groups is None:
            axes = axes.difference(params.axes)
        return [results[0].update(varying=axes)]

    def axis_names(self, params: CollectiveParams, inner: frozenset[Any]) -> frozenset[Any]:
        return frozenset(params.axes)

    def batch(
        self,
        axis: BatchAxis,
        operands: tuple[Any, ...],
        dims: tuple[BatchDim, ...],
        params: CollectiveParams,
    ) -> tuple[Sequence[Any], Sequence[BatchDim]]:
        [x], [dim] = operands, dims
        if axis.name is None or axis.name not in params.axes:
            return bind(self, x, params=params), dims
        refuse_groups(self.name, params.axis_index_groups)
        x = self.of_equals(x, axis.size) if dim is None else self.along(x, dim)
        rest = params.without(axis.name)
        return [bind1(self, x, params=rest) if rest.axes else x], [None]

    def along(self, x: Any, dim: int) -> Any:
        """`x` reduced along its axis `dim`."""
        raise self.missing("batch")

    def of_equals(self, x: Any, size: int) -> Any:
        """The reduction of `size` times `x`."""
        return x


class PSum(AllReduce):
    """The sum along named axes. Where types say that it makes a value the same along them, its text says so."""

    name = "psum"

    def printed_name(self, equation: Any) -> str:
        invariant = equation.operands[0].aval.varying.intersection(equation.params.axes)
        return "psum_invariant" if invariant else self.name

    def printed_params(self, equation: Any) -> dict[str, Any]:
        shown = equation.params._asdict()
        if self.printed_name(equation) != self.name:
            del shown["axis_index_groups"]
        return shown

    def jvp(
        self, primals: tuple[Any, ...], tangents: tuple[Any, ...], params: CollectiveParams
    ) -> tuple[Any, Any]:
        return bind(self, *primals, params=params), bind(self, *tangents, params=params)

    def transpose(
        self, cotangents: tuple[Any, ...], operands: tuple[Any, ...], params: CollectiveParams
    ) -> Sequence[Any]:
        [cotangent], [x] = cotangents, operands
        if type(cotangent) is Zero:
            return [Zero(x.aval)]
        if params.axis_index_groups is not None:
            return bind(self, cotangent, params=params)
        # Where types don't say that the sum is the same everywhere, each position has a cotangent of its own.
        summed = tuple([a for a in params.axes if a not in x.aval.varying])
        if summed:
            cotangent = bind1(self, cotangent, params=CollectiveParams(summed))
        return [vary(cotangent, x.aval.varying)]

    def along(self, x: Any, dim: int) -> Any:
        return reduce_sum(x, (dim,))

    def of_equals(self, x: Any, size: int) -> Any:
        return mul(constant_like(x, size), x)

    def lower(self, ctx: Any, operands: Sequence[Any], params: CollectiveParams) -> Sequence[Any]:
        groups = device_groups(ctx, params.axes, params.axis_index_groups)
        return [all_reduce(ctx, operands[0], ctx.avals_in[0], "stablehlo.add", groups)]


psum_p = PSum()


class PVaryParams(NamedTuple):
    axes: AxisNames


class PVary(Movement):
    """The same value, whose type says that it may differ along mesh axes."""

    name = "pvary"

    def abstract_eval(self, avals: tuple[Any, ...], params: PVaryParams) -> Sequence[ShapedArray]:
        [x] = avals
        return [x.update(varying=x.varying.union(params.axes))]

    def varying_results(
        self, avals: tuple[Any, ...], results: Sequence[Any], axes: frozenset[str], params: PVaryParams
    ) -> Sequence[Any]:
        return results

    def undo(self, cotangent: Any, aval: ShapedArray, params: PVaryParams) -> Any:
        return bind1(psum_p, cotangent, params=CollectiveParams(params.axes))

    def batch(
        self,
        axis: BatchAxis,
        operands: tuple[Any, ...],
        dims: tuple[BatchDim, ...],
        params: PVaryParams,
    ) -> tuple[Sequence[Any], Sequence[BatchDim]]:
        return bind(self, *operands, params=params), dims

    def lower(self, ctx: Any, operands: Sequence[Any], params: PVaryParams) -> Sequence[Any]:
        return operands


pvary_p = PVary()


def vary(x: Any, axes: Iterable[Any]) -> Any:
    """`x` with a type that says that it varies over those of `axes` that are checked."""
    varying = type_of(x).varying
    missing = [a for a in context.axes if a in context.checked_axes and a in axes and a not in varying]
    return bind1(pvary_p, x, params=PVaryParams(tuple(missing))) if missing else x


def unified(primitive: Primitive[Any], operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """`operands` of one equation so that all traced ones vary over the same axes."""
    if len(operands) < 2 or not primitive.varies_jointly:
        return operands
    found = {x.aval.varying for x in operands if isinstance(x, Tracer) and type(x.aval) is ShapedArray}
    if len(found) < 2:
        return operands
    axes = frozenset().union(*found)
    return tuple([vary(x, axes) if _joins(x, axes) else x for x in operands])


def _joins(x: Any, axes: frozenset[Any]) -> bool:
    return isinstance(x, Tracer) and type(x.aval) is ShapedArray and x.aval.varying != axes
