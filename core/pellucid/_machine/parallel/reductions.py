"""Reductions over named axes: `psum`, `pmean`, `pmax`, `pmin`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import (
    Axes,
    CollectiveError,
    Function,
    Ints,
    dtypes,
    tree_map,
)
from pellucid._machine.ir import (
    COLLECTIVE,
    Collective,
    Primitive,
    Shown,
)
from pellucid._machine.lowering.collectives import Groups, all_reduce, device_groups
from pellucid._machine.primitives import (
    MONOIDS,
    Movement,
    canonical_axis,
    constant_like,
    convert_element_type,
    div,
    eq,
    mul,
    reduce_max,
    reduce_min,
    reduce_sum,
    reduce_through_integers,
)
from pellucid._machine.primitives.varying import (
    AxisNames,
    CollectiveParams,
    Recast,
    marks_of,
    recast,
    sum_along,
    vary,
)
from pellucid._machine.sharding.partition_spec import AxisName
from pellucid._machine.tracing import Tracer, as_array, bind, bind1, context, type_of

from .axes import as_tuple, batch_in_groups, checked_groups, listed_axes, size_along


class AllReduce(Collective, Primitive[CollectiveParams]):
    """A reduction along named axes, whose result is the same at all positions along them."""

    traits = COLLECTIVE.replace(flops=1.0, linear=None, equalizes=True)
    axes_field = "axes"
    all_dims = ""

    def abstract_eval(self, avals, params):
        return avals

    def typed(self, avals, results, params):
        [result] = super().typed(avals, results, params)
        if params.axis_index_groups is not None:
            return [result]
        return [result.update(varying=result.varying.difference(params.axes))]

    def batch(self, axis, operands, dims, params):
        [x], [dim] = operands, dims
        if axis.name is None or axis.name not in params.axes:
            return bind(self, x, params=params), dims
        if params.axis_index_groups is not None:
            return batch_in_groups(self, axis, x, dim, params, params.axes)
        x = self.of_equals(x, axis.size) if dim is None else self.along(x, dim)
        rest = params._replace(axes=tuple([a for a in params.axes if a != axis.name]))
        return [bind1(self, x, params=rest) if rest.axes else x], [None]

    def along(self, x: Any, dim: int) -> Any:
        """`x` reduced along its axis `dim`."""
        raise self.missing("batch")

    def of_equals(self, x: Any, size: int) -> Any:
        """The reduction of `size` equal values `x`."""
        return x


class PSum(AllReduce, Movement[CollectiveParams]):
    """The sum along named axes, for values whose types don't record whether they vary."""

    name = "psum"
    traits = AllReduce.traits.replace(linear="all", makes_nan=True)

    def operand_cotangent(self, cotangent, aval, params):
        if params.axis_index_groups is not None:
            return bind1(self, cotangent, params=params)
        # If types don't say that the sum is invariant, each position has a cotangent of its own.
        summed = tuple([a for a in params.axes if a not in aval.varying])
        if summed:
            cotangent = sum_along(cotangent, CollectiveParams(summed))
        return vary(cotangent, aval.varying)

    def along(self, x, dim):
        return reduce_sum(x, (dim,))

    def of_equals(self, x, size):
        return mul(constant_like(x, size), x)

    def lower(self, ctx, operands, params):
        groups = device_groups(ctx, params.axes, params.axis_index_groups)
        return [all_reduce(ctx, operands[0], ctx.avals_in[0], "stablehlo.add", groups)]


psum_p = PSum()


class PSumInvariant(Shown, PSum):
    """The sum along named axes over which the operand's type varies; the result's type is invariant."""

    name = "psum_invariant"
    unshown = ("axis_index_groups",)


psum_invariant_p = PSumInvariant()


class UnreducedSum(Recast):
    """The sum of unreduced summands along named axes, at all positions."""

    traits = COLLECTIVE.replace(flops=1.0, makes_nan=True, equalizes=True)
    waits = True

    def lower(self, ctx, operands, params):
        groups = device_groups(ctx, params.axes)
        return [all_reduce(ctx, operands[0], ctx.avals_in[0], "stablehlo.add", groups)]


unreduced_psum_p = UnreducedSum("unreduced_psum", "the same", "preduced")


def are_addends(caller: str, x: Any, axes: AxisNames, groups: Any) -> bool:
    """Whether `x` is unreduced along `axes`.

    Raises: CollectiveError if it is, but only along some of them or with groups.
    """
    aval = type_of(x)
    unreduced = [a for a in axes if a in marks_of(aval).unreduced]
    if unreduced and (len(unreduced) < len(axes) or groups is not None):
        raise CollectiveError(
            f"{caller} of addends is over axes along which positions hold such, and over all of these.",
            got=f"{aval.text()}, axis_name={axes!r}"
            + (", axis_index_groups" if groups is not None else ""),
        )
    return bool(unreduced)


class PExtreme(AllReduce):
    """The maximum or minimum along named axes."""

    def __init__(self, monoid: str, reduce: Function) -> None:
        super().__init__(f"p{monoid}")
        self.monoid = MONOIDS[monoid]
        self.reduce = reduce

    def jvp(self, primals, tangents, params):
        [x], [t] = primals, tangents
        y = bind1(self, x, params=params)
        # Positions that attain the extreme share the derivative, as in a reduction along an array's axis.
        aval = type_of(x)
        attains = convert_element_type(eq(vary(x, params.axes), vary(y, params.axes)), aval.dtype)
        shares = sum_along(attains, params)
        tangent = sum_along(mul(t, attains), params)
        return [y], [div(tangent, shares)]

    def along(self, x, dim):
        return self.reduce(x, (dim,))

    def of_leaf(
        self, caller: str, x: Any, axes: AxisNames, positional: Axes, groups: Groups | None
    ) -> Any:
        """The extreme of array `x` along its own axes `positional` and the named `axes`."""
        if positional:
            x = self.reduce(x, _own_axes(caller, x, positional))
        if not axes or not isinstance(x, Tracer):
            return as_array(x)
        return bind1(self, vary(x, axes), params=CollectiveParams(axes, groups))

    def lower(self, ctx, operands, params):
        [x], [aval] = operands, ctx.avals_in
        groups = device_groups(ctx, params.axes, params.axis_index_groups)
        is_floating = dtypes.is_inexact(aval.dtype) and aval.dtype.kind != "c"
        if ctx.platform != "cpu" or not is_floating or groups.shape[1] == 1:
            return [all_reduce(ctx, x, aval, self.monoid.hlo, groups)]

        reduce = lambda keys, aval, _: all_reduce(ctx, keys, aval, self.monoid.hlo, groups)
        return [reduce_through_integers(ctx, x, aval, aval, self.monoid, reduce)]


pmax_p = PExtreme("max", reduce_max)


pmin_p = PExtreme("min", reduce_min)


def _over_leaves(of_leaf: Function, caller: str, x: Any, axis_name: Any, groups: Any) -> Any:
    """`of_leaf(caller, leaf, axes, positional, groups)` for each array of the tree `x`.

    `axes` are the names in `axis_name`; `positional` are its ints, which are axes of the array itself.
    """
    names = as_tuple(caller, axis_name)
    positional = tuple([a for a in names if isinstance(a, int) and a not in context.axes])
    axes = listed_axes(caller, [a for a in names if a not in positional])
    listed = checked_groups(caller, axes, groups)
    return tree_map(lambda leaf: of_leaf(caller, leaf, axes, positional, listed), x)


def _own_axes(caller: str, x, positional: Axes) -> Axes:
    ndim = type_of(x).ndim
    return tuple([canonical_axis(axis, ndim, f"{caller}: axis_name") for axis in positional])


def psum(
    x: Any,
    axis_name: AxisName | Sequence[AxisName],
    *,
    axis_index_groups: Sequence[Ints] | None = None,
) -> Any:
    """The sum of `x` (arrays in a tree) over all positions along `axis_name`, at each of them.

    Booleans are summed as int32. A Python number or array that is not traced is the same at all positions:
    `psum(1, axis)` is the number of positions, a Python int. `axis_index_groups`, lists of positions that hold each
    once, sums within groups.

    Raises: AxisNameError where no axis has that name; CollectiveError for groups that don't fit.

    Results have the structure and the shapes of `x`, and its dtypes but for bool.

    >>> from pellucid import vmap
    >>> vmap(lambda x: x / psum(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    Array([0.25, 0.75], dtype=float32)
    """
    return _over_leaves(_psum, "psum", x, axis_name, axis_index_groups)


def _psum(caller: str, x, axes: AxisNames, positional: Axes, groups: Groups | None):
    if type_of(x).dtype == np.bool_:
        x = convert_element_type(x, np.int32)
    if positional:
        x = reduce_sum(x, _own_axes(caller, x, positional))
    if not axes:
        return x
    if not isinstance(x, Tracer) and (groups is None or len(set(map(len, groups))) == 1):
        size = size_along(axes, groups)
        return x * size if type(x) in (int, float, complex) else mul(x, constant_like(x, size))
    if are_addends(caller, x, axes, groups):
        return recast(unreduced_psum_p, x, axes)
    return sum_along(vary(x, axes), CollectiveParams(axes, groups))


def pmean(
    x: Any,
    axis_name: AxisName | Sequence[AxisName],
    *,
    axis_index_groups: Sequence[Ints] | None = None,
) -> Any:
    """The mean of `x` (arrays in a tree) over all positions along `axis_name`, at each of them.

    `axis_index_groups` averages within groups of positions.

    Raises: as `psum`.

    Results have the structure and the shapes of `x`; integers become floating-point.

    >>> from pellucid import vmap
    >>> vmap(lambda x: x - pmean(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    Array([-1.,  1.], dtype=float32)
    """
    return _over_leaves(_pmean, "pmean", x, axis_name, axis_index_groups)


def _pmean(caller: str, x, axes: AxisNames, positional: Axes, groups: Groups | None):
    total = _psum(caller, x, axes, positional, groups)
    shape = type_of(x).shape
    elements = math.prod(shape[axis] for axis in _own_axes(caller, x, positional))
    count = _psum(caller, elements, axes, (), groups)
    if type(total) in (int, float, complex):
        return total / count
    if not dtypes.is_inexact(type_of(total).dtype):
        total = convert_element_type(total, type_of(0.0).dtype)
    return div(total, convert_element_type(count, type_of(total).dtype))


def pmax(
    x: Any,
    axis_name: AxisName | Sequence[AxisName],
    *,
    axis_index_groups: Sequence[Ints] | None = None,
) -> Any:
    """The largest `x` (arrays in a tree, element by element) among all positions along `axis_name`.

    `axis_index_groups` takes it within groups of positions.

    Raises: as `psum`.

    The result has the structure, the shapes and the dtypes of `x`.

    >>> from pellucid import vmap
    >>> vmap(lambda x: x == pmax(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    Array([False,  True], dtype=bool)
    """
    return _over_leaves(pmax_p.of_leaf, "pmax", x, axis_name, axis_index_groups)


def pmin(
    x: Any,
    axis_name: AxisName | Sequence[AxisName],
    *,
    axis_index_groups: Sequence[Ints] | None = None,
) -> Any:
    """The smallest `x` (arrays in a tree, element by element) among all positions along `axis_name`.

    `axis_index_groups` takes it within groups of positions.

    Raises: as `psum`.

    The result has the structure, the shapes and the dtypes of `x`.

    >>> from pellucid import vmap
    >>> vmap(lambda x: x - pmin(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    Array([0., 2.], dtype=float32)
    """
    return _over_leaves(pmin_p.of_leaf, "pmin", x, axis_name, axis_index_groups)
